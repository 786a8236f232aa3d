//! How a connection ended.

use std::process::ExitStatus;

/// How a server ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shutdown {
    /// What the program ended with; `None` if there was none, or it could not be told.
    pub status: Option<ExitStatus>,
    /// What it took.
    pub force: Force,
}

/// What it took to end a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Force {
    /// It ended when its input was closed.
    #[default]
    None,
    /// It, or something it had started, had to be asked by a signal.
    Terminated,
    /// It, or something it had started, had to be killed.
    Killed,
}
