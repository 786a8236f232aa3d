//! Why a program could not be started.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// There is no such program.
    #[error("there is no program {program:?} in {}; install it, or give its full path", folders(searched))]
    NotFound {
        /// What was looked for.
        program: OsString,
        /// Where.
        searched: Vec<PathBuf>,
    },
    /// There is a file, but it may not be executed.
    #[error("{} is not executable; set its permissions, or name another program", path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
    /// The folder to start in is missing.
    #[error("the folder to start in does not exist: {}", folder.display())]
    NoSuchFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// The file is no program for this machine.
    #[error("{} is no program for this machine, or its interpreter is missing", path.display())]
    WrongFormat {
        /// The file.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("{} could not be started", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
}

fn folders(searched: &[PathBuf]) -> String {
    if searched.is_empty() {
        return "an empty PATH".to_owned();
    }
    searched.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")
}
