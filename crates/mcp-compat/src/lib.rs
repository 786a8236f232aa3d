//! Old names of the Model Context Protocol crates, for one release.
//!
//! Every name here warns with its new path. It can stand in for the old single crate by a rename:
//!
//! ```toml
//! [dependencies]
//! codewhale-mcp = { package = "mcp-compat", version = "0.1" }
//! ```
//!
//! The three crates are here as modules, too: [`protocol`], [`client`], [`server`]. New code depends on
//! `mcp-protocol`, `mcp-client` or `mcp-server` directly.
//!
//! | old name | new name |
//! |---|---|
//! | `McpClient` | `mcp_client::McpClient` |
//! | `McpClientConfig` | `mcp_client::ServerConfig`, or `mcp_client::McpClientConfig` |
//! | `OAuthConfig`, `OAuthProvider`, `TokenStorage` | the same in `mcp_client` |
//! | `McpServer` | `mcp_server::McpServer` |
//! | `ToolSpec` | `mcp_server::ToolSpec`, or a plain function with `mcp_server::tool` |
//! | `ToolSchema` | `mcp_protocol::tools::Tool` |
//! | `McpServerConfig`, `ToolFilter`, `McpServerDefinition`, `McpToolDescriptor` | types of the host, to come |
#![warn(missing_docs)]
#![allow(deprecated, reason = "the old names refer to each other")]

mod definitions;
mod serving;

pub use definitions::{McpServerConfig, McpServerDefinition, McpToolDescriptor, ToolFilter};
pub use mcp_client as client;
pub use mcp_protocol as protocol;
pub use mcp_server as server;
pub use serving::{McpServer, ToolSpec};

/// The client.
#[deprecated(since = "0.1.0", note = "use `mcp_client::McpClient`; this name goes in 0.2")]
pub type McpClient = mcp_client::McpClient;

/// The program to start.
#[deprecated(since = "0.1.0", note = "use `mcp_client::McpClientConfig`; this name goes in 0.2")]
pub type McpClientConfig = mcp_client::McpClientConfig;

/// The OAuth login.
#[deprecated(since = "0.1.0", note = "use `mcp_client::OAuthConfig`; this name goes in 0.2")]
pub type OAuthConfig = mcp_client::OAuthConfig;

/// The OAuth provider.
#[deprecated(since = "0.1.0", note = "use `mcp_client::OAuthProvider`; this name goes in 0.2")]
pub type OAuthProvider = mcp_client::OAuthProvider;

/// The storage for tokens.
#[deprecated(since = "0.1.0", note = "use `mcp_client::TokenStorage`; this name goes in 0.2")]
pub type TokenStorage = mcp_client::TokenStorage;

/// The definition of a tool.
#[deprecated(since = "0.1.0", note = "use `mcp_protocol::tools::Tool`; this name goes in 0.2")]
pub type ToolSchema = mcp_protocol::tools::Tool;
