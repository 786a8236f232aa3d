//! The old names of the Model Context Protocol crates, which remain available until 0.2.
//!
//! Every old name is deprecated, and the compiler warning contains the new path. To use this crate in place of the old
//! single crate, rename it in the dependencies:
//!
//! ```toml
//! [dependencies]
//! codewhale-mcp = { package = "mcp-compat", version = "0.1" }
//! ```
//!
//! The modules [`protocol`], [`client`] and [`server`] are the three new crates. New code depends on `mcp-protocol`,
//! `mcp-client` or `mcp-server` directly.
//!
//! | old name | new name |
//! |---|---|
//! | `McpClient` | `mcp_client::McpClient` |
//! | `McpClientConfig` | `mcp_client::ServerConfig`, or `mcp_client::McpClientConfig` |
//! | `OAuthConfig`, `OAuthProvider`, `TokenStorage` | the same names in `mcp_client` |
//! | `McpServer` | `mcp_server::McpServer` |
//! | `ToolSpec` | `mcp_server::ToolSpec`, or a plain function with `mcp_server::tool` |
//! | `ToolSchema` | `mcp_protocol::tools::Tool` |
//! | `McpServerConfig` | `mcp_client::ServerConfig`; convert with `ServerConfig::from` |
//! | `ToolFilter`, `McpServerDefinition`, `McpToolDescriptor` | none yet |
#![warn(missing_docs)]
#![allow(deprecated, reason = "the old names refer to each other")]

mod definitions;
mod serving;

pub use definitions::{McpServerConfig, McpServerDefinition, McpToolDescriptor, ToolFilter};
pub use mcp_client as client;
pub use mcp_protocol as protocol;
pub use mcp_server as server;
pub use serving::{McpServer, ToolSpec};

/// An MCP client.
#[deprecated(since = "0.1.0", note = "use `mcp_client::McpClient`; this name will be removed in 0.2")]
pub type McpClient = mcp_client::McpClient;

/// The configuration of a client: the program to start.
#[deprecated(since = "0.1.0", note = "use `mcp_client::McpClientConfig`; this name will be removed in 0.2")]
pub type McpClientConfig = mcp_client::McpClientConfig;

/// The configuration of an OAuth login.
#[deprecated(since = "0.1.0", note = "use `mcp_client::OAuthConfig`; this name will be removed in 0.2")]
pub type OAuthConfig = mcp_client::OAuthConfig;

/// An OAuth provider.
#[deprecated(since = "0.1.0", note = "use `mcp_client::OAuthProvider`; this name will be removed in 0.2")]
pub type OAuthProvider = mcp_client::OAuthProvider;

/// A storage for OAuth tokens.
#[deprecated(since = "0.1.0", note = "use `mcp_client::TokenStorage`; this name will be removed in 0.2")]
pub type TokenStorage = mcp_client::TokenStorage;

/// The definition of a tool.
#[deprecated(since = "0.1.0", note = "use `mcp_protocol::tools::Tool`; this name will be removed in 0.2")]
pub type ToolSchema = mcp_protocol::tools::Tool;
