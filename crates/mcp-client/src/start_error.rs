//! Why a program could not be started.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The program was not found.
    #[error("program {program:?} not found{}", where_and_remedy(program, searched))]
    NotFound {
        /// The name or path of the program.
        program: OsString,
        /// The folders of `PATH` that were searched, or the path itself.
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

/// How many folders are listed in an error.
const MAX_LISTED_FOLDERS: usize = 8;

/// Where a program was looked for, and what to do about it.
fn where_and_remedy(program: &OsStr, searched: &[PathBuf]) -> String {
    if program.to_string_lossy().contains(std::path::is_separator) {
        return "; check the path".to_owned();
    }
    let remedy = "install it, add its folder to PATH, or give its full path";
    if searched.is_empty() {
        return format!(": PATH is empty; {remedy}");
    }
    let shown = searched.iter().take(MAX_LISTED_FOLDERS).map(|folder| folder.display().to_string());
    let more = match searched.len().saturating_sub(MAX_LISTED_FOLDERS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(" in PATH (searched: {}{more}); {remedy}", shown.collect::<Vec<_>>().join(", "))
}
