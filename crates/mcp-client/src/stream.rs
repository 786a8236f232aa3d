//! MCP over two byte streams, one message per line: child processes, and streams that the host opened.

pub(crate) mod driver;
pub(crate) mod lifetime;
pub(crate) mod link;
pub(crate) mod negotiate;
pub(crate) mod restart;
mod traced;
