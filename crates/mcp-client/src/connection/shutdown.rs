//! The result of closing a connection.

use std::process::ExitStatus;

/// The outcome of a shutdown: the exit status of the server, and the signal that was needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shutdown {
    /// The exit status of the program, or `None` if there is no program or its status is not known.
    pub status: Option<ExitStatus>,
    /// The strongest signal that was needed.
    pub force: Force,
    /// True if a refreshed OAuth token could not be saved yet. If the process exits now, the login is lost.
    pub is_token_unsaved: bool,
}

/// The strongest signal that was needed to shut a server down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Force {
    /// No signal: the server exited when its stdin was closed.
    #[default]
    None,
    /// SIGTERM was sent to the server, or to a process that it had started.
    Terminated,
    /// The server, or a process that it had started, was killed with SIGKILL.
    Killed,
}
