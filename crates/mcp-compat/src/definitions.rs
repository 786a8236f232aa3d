//! The plain data of the old single crate, with the same shape in files.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// A server in the format of the old configuration files.
#[deprecated(since = "0.1.0", note = "use `mcp_client::ServerConfig`; this name goes in 0.2")]
#[derive(Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct McpServerConfig {
    /// The name of the server.
    pub name: String,
    /// The program.
    pub command: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Environment variables of the program.
    #[serde(default)]
    pub env: HashMap<String, String>,
    /// True if the server is started.
    #[serde(default)]
    pub enabled: bool,
}

/// Values of variables are never shown.
impl std::fmt::Debug for McpServerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut names: Vec<&String> = self.env.keys().collect();
        names.sort();
        f.debug_struct("McpServerConfig")
            .field("name", &self.name)
            .field("command", &self.command)
            .field("args", &self.args)
            .field("env", &names)
            .field("enabled", &self.enabled)
            .finish()
    }
}

/// The tools of a server that may be used.
#[deprecated(since = "0.1.0", note = "filters come with the host of `mcp_client`; this name goes in 0.2")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ToolFilter {
    /// The allowed tools; empty allows all.
    #[serde(default)]
    pub allow: Vec<String>,
    /// The denied tools.
    #[serde(default)]
    pub deny: Vec<String>,
}

/// A server with its filter.
#[deprecated(since = "0.1.0", note = "definitions come with the host of `mcp_client`; this name goes in 0.2")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct McpServerDefinition {
    /// The server.
    pub config: McpServerConfig,
    /// Its filter.
    #[serde(default)]
    pub filter: ToolFilter,
}

/// A tool of a server, with its callable name.
#[deprecated(since = "0.1.0", note = "descriptors come with the host of `mcp_client`; this name goes in 0.2")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct McpToolDescriptor {
    /// The server.
    pub server_name: String,
    /// The name of the tool on the server.
    pub tool_name: String,
    /// The name by which a language model calls the tool.
    pub qualified_name: String,
    /// The description of the tool.
    #[serde(default)]
    pub description: Option<String>,
}

impl From<McpServerConfig> for mcp_client::ServerConfig {
    fn from(config: McpServerConfig) -> Self {
        let server = mcp_client::ServerConfig::command(config.command).args(config.args);
        config.env.into_iter().fold(server, |server, (name, value)| server.env(name, value)).into()
    }
}
