//! MCP as lines over two byte streams: child processes, and streams that the host has opened.

pub(crate) mod driver;
pub(crate) mod lifetime;
pub(crate) mod link;
pub(crate) mod negotiate;
pub(crate) mod restart;
