//! The reason why a program could not be started.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use mcp_protocol::safe_text::SafeText;

/// The reason why a program could not be started.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The program was not found.
    #[error("program \"{}\" not found{}", shown(program), where_and_remedy(program, searched))]
    NotFound {
        /// The name or path of the program.
        program: OsString,
        /// The folders of `PATH` that were searched. If the program is a path, that path only.
        searched: Vec<PathBuf>,
    },
    /// The path of the program is a directory.
    #[error("{} is a directory; give the path of a program in it", shown(path))]
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// The file is not executable.
    #[error("{} is not executable; set its permissions, or name another program", shown(path))]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
    /// The working directory does not exist.
    #[error("the working directory does not exist: {}", shown(folder))]
    NoSuchFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// The file is not a program for this machine, or a script whose interpreter is missing.
    #[error("{} is not a program for this machine, or its interpreter is missing", shown(path))]
    WrongFormat {
        /// The file.
        path: PathBuf,
    },
    /// The operating system could not start the program.
    #[error("cannot start {}: {error}", shown(path))]
    Refused {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: Arc<io::Error>,
    },
}

/// The maximum number of folders that are listed in an error.
const MAX_LISTED_FOLDERS: usize = 8;
/// The maximum number of displayed characters of a path.
const MAX_SHOWN_PATH: usize = 400;

/// Returns a path, escaped and cut: the configuration file or package that it comes from may be untrusted.
fn shown(path: impl AsRef<OsStr>) -> String {
    SafeText::new(&path.as_ref().to_string_lossy()).at_most(MAX_SHOWN_PATH).to_string()
}

/// Returns the end of the error text: the folders that were searched, and the remedy.
fn where_and_remedy(program: &OsStr, searched: &[PathBuf]) -> String {
    let text = program.to_string_lossy();
    if text.is_empty() {
        return ": its name is empty".to_owned();
    }
    if text.starts_with("http://") || text.starts_with("https://") {
        return "; it is a URL: use `ServerConfig::url`".to_owned();
    }
    // No shell is involved, so a command line is not split.
    if let Some((name, _)) = text.split_once(char::is_whitespace).filter(|(name, _)| !name.is_empty()) {
        let name = SafeText::name(name);
        return format!(
            "; it contains spaces: name only the program, \"{name}\", and pass its arguments with `.arg` or `.args`"
        );
    }
    if text.starts_with("~") {
        return "; no shell is involved, so `~` is not expanded: give the full path".to_owned();
    }
    if text.contains(std::path::is_separator) {
        return "; check the path".to_owned();
    }
    let remedy = "install it, add its folder to PATH, or give its full path";
    if searched.is_empty() {
        return format!(": PATH is empty; {remedy}");
    }
    let shown = searched.iter().take(MAX_LISTED_FOLDERS).map(shown);
    let more = match searched.len().saturating_sub(MAX_LISTED_FOLDERS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(" in PATH (searched: {}{more}); {remedy}", shown.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_start_errors_are_escaped_and_cut() {
        let hostile = "/\u{1b}[2J\u{9b}31m\u{202e}\r\n".repeat(10_000);
        let path = || PathBuf::from(&hostile);
        for error in [
            StartError::NotFound { program: "x".into(), searched: vec![path(); 20] },
            StartError::NotFound { program: path().into(), searched: vec![path()] },
            StartError::NotFound { program: hostile.replace('/', "").into(), searched: Vec::new() },
            StartError::NotExecutable { path: path() },
            StartError::Directory { path: path() },
            StartError::NoSuchFolder { folder: path() },
            StartError::WrongFormat { path: path() },
            StartError::Refused { path: path(), error: Arc::new(io::ErrorKind::PermissionDenied.into()) },
        ] {
            let shown = error.to_string();
            let beginning: String = shown.chars().take(100).collect();
            assert!(!shown.chars().any(|c| c.is_control() || c == '\u{202e}'), "{beginning:?}");
            assert!(shown.len() < 50_000, "{} bytes: {beginning}", shown.len());
            assert!(shown.contains(r"\u{1b}[2J"), "{beginning}");
        }
    }
}
