//! The plain data types of the old single crate, with the same format in files.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// A server in the format of the old configuration files.
#[deprecated(since = "0.1.0", note = "use `mcp_client::ServerConfig`; this name will be removed in 0.2")]
#[derive(Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct McpServerConfig {
    /// The name of the server.
    pub name: String,
    /// The program.
    pub command: String,
    /// The arguments of the program.
    #[serde(default)]
    pub args: Vec<String>,
    /// Environment variables of the program.
    #[serde(default)]
    pub env: HashMap<String, String>,
    /// True if the server is to be started.
    #[serde(default)]
    pub enabled: bool,
}

/// Shows the names of the environment variables, never their values.
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

/// A filter that selects the tools of a server that may be used.
#[deprecated(since = "0.1.0", note = "there is no replacement yet; this name will be removed in 0.2")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ToolFilter {
    /// The names of the allowed tools; an empty list allows all.
    #[serde(default)]
    pub allow: Vec<String>,
    /// The names of the denied tools.
    #[serde(default)]
    pub deny: Vec<String>,
}

/// A server with the filter for its tools.
#[deprecated(since = "0.1.0", note = "there is no replacement yet; this name will be removed in 0.2")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct McpServerDefinition {
    /// The server.
    pub config: McpServerConfig,
    /// The filter for the tools of the server.
    #[serde(default)]
    pub filter: ToolFilter,
}

/// A tool of a server, with the name by which a language model calls it.
#[deprecated(since = "0.1.0", note = "there is no replacement yet; this name will be removed in 0.2")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct McpToolDescriptor {
    /// The name of the server.
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
