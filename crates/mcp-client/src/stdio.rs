//! Servers as child processes.

pub(crate) mod interrupt;
pub(crate) mod process;
