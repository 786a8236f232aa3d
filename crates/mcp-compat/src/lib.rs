//! Old names of the Model Context Protocol crates, for one release.
//!
//! The three crates are here under the names of their old modules. New code depends on
//! [`mcp-protocol`](protocol), [`mcp-client`](client) or [`mcp-server`](server) directly.
#![warn(missing_docs)]

pub use mcp_client as client;
pub use mcp_protocol as protocol;
pub use mcp_server as server;
