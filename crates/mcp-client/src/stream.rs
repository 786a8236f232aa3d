//! MCP over two byte streams, one message per line: child processes, and streams that the host opened.

pub(crate) mod driver;
mod io;
pub(crate) mod link;
pub(crate) mod negotiate;
#[cfg(feature = "oauth")]
pub(crate) mod program_token;
pub(crate) mod restart;
pub(crate) mod server_run;
pub(crate) mod supervisor;
mod traced;
