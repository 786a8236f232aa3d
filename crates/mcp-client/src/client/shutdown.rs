//! The result of closing a connection.

use std::process::ExitStatus;

/// The way in which a server ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shutdown {
    /// The exit status of the program; `None` if there is no program, or its status is not known.
    pub status: Option<ExitStatus>,
    /// The force that was needed.
    pub force: Force,
}

/// The force that was needed to end a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Force {
    /// None: it exited when its stdin was closed.
    #[default]
    None,
    /// It, or a process that it had started, was sent SIGTERM.
    Terminated,
    /// It, or a process that it had started, was killed.
    Killed,
}
