//! The server's old names: they hand everything on.

use std::sync::Arc;

use async_trait::async_trait;
use mcp_protocol::Json;
use mcp_protocol::tools::{CallToolResult, ToolAnnotations};
use mcp_server::{Context, Error, ToolError};

/// A tool that is created at run time.
#[deprecated(since = "0.1.0", note = "use `mcp_server::ToolSpec`; this name goes in 0.2")]
#[async_trait]
pub trait ToolSpec: Send + Sync + 'static {
    /// The name of the tool.
    fn name(&self) -> &str;

    /// The description, for a language model.
    fn description(&self) -> &str;

    /// A JSON Schema of its arguments, with `"type":"object"`.
    fn input_schema(&self) -> Json;

    /// Runs it.
    async fn execute(&self, arguments: Json, cx: Context) -> Result<CallToolResult, ToolError>;

    /// The display name.
    fn title(&self) -> Option<&str> {
        None
    }

    /// A JSON Schema of its structured content.
    fn output_schema(&self) -> Option<Json> {
        None
    }

    /// Hints about the behaviour of the tool.
    fn annotations(&self) -> Option<ToolAnnotations> {
        None
    }

    /// True if a person has to approve each call.
    fn needs_approval(&self) -> bool {
        false
    }
}

/// Converts an old tool into a new one.
struct Renamed(Arc<dyn ToolSpec>);

#[async_trait]
impl mcp_server::ToolSpec for Renamed {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn description(&self) -> &str {
        self.0.description()
    }

    fn input_schema(&self) -> Json {
        self.0.input_schema()
    }

    async fn execute(&self, arguments: Json, cx: Context) -> Result<CallToolResult, ToolError> {
        self.0.execute(arguments, cx).await
    }

    fn title(&self) -> Option<&str> {
        self.0.title()
    }

    fn output_schema(&self) -> Option<Json> {
        self.0.output_schema()
    }

    fn annotations(&self) -> Option<ToolAnnotations> {
        self.0.annotations()
    }

    fn needs_approval(&self) -> bool {
        self.0.needs_approval()
    }
}

/// An MCP server with tools.
#[deprecated(since = "0.1.0", note = "use `mcp_server::McpServer`; this name goes in 0.2")]
#[derive(Debug)]
pub struct McpServer(mcp_server::McpServer);

impl McpServer {
    /// A server with these tools.
    #[must_use]
    pub fn new(tools: Vec<Arc<dyn ToolSpec>>) -> Self {
        let renamed = |tool| Arc::new(Renamed(tool)) as Arc<dyn mcp_server::ToolSpec>;
        Self(mcp_server::McpServer::new(tools.into_iter().map(renamed).collect()))
    }

    /// Serves on standard input and output.
    ///
    /// # Errors
    /// Fails like `mcp_server::McpServer::serve_stdio`.
    pub async fn serve_stdio(self) -> Result<(), Error> {
        self.0.serve_stdio().await
    }

    /// Serves Streamable HTTP and the HTTP+SSE transport (2024-11-05).
    ///
    /// # Errors
    /// Fails like `mcp_server::McpServer::serve_sse`.
    #[cfg(feature = "serve")]
    pub async fn serve_sse(self, address: std::net::SocketAddr) -> Result<(), Error> {
        self.0.serve_sse(address).await
    }

    /// The new server that this one wraps.
    #[must_use]
    pub fn into_inner(self) -> mcp_server::McpServer {
        self.0
    }
}
