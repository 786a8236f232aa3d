//! The old names of the server, which forward all calls to `mcp_server`.

use std::sync::Arc;

use async_trait::async_trait;
use mcp_protocol::Json;
use mcp_protocol::tools::{CallToolResult, ToolAnnotations};
use mcp_server::{Context, Error, ToolError};

/// A tool as a trait object.
#[deprecated(since = "0.1.0", note = "use `mcp_server::ToolSpec`; this name will be removed in 0.2")]
#[async_trait]
pub trait ToolSpec: Send + Sync + 'static {
    /// Returns the name of the tool.
    fn name(&self) -> &str;

    /// Returns the description, from which a language model learns when and how to call the tool.
    fn description(&self) -> &str;

    /// Returns the JSON Schema of the arguments, with `"type":"object"`.
    fn input_schema(&self) -> Json;

    /// Runs the tool with the arguments of one call.
    async fn execute(&self, arguments: Json, cx: Context) -> Result<CallToolResult, ToolError>;

    /// Returns the display name. Default: none.
    fn title(&self) -> Option<&str> {
        None
    }

    /// Returns the JSON Schema of the structured content. Default: none.
    fn output_schema(&self) -> Option<Json> {
        None
    }

    /// Returns the annotations: hints about the behaviour of the tool.
    fn annotations(&self) -> Option<ToolAnnotations> {
        None
    }

    /// Returns true if a person has to approve each call.
    fn needs_approval(&self) -> bool {
        false
    }
}

/// An adapter from the old trait to the new one.
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
#[deprecated(since = "0.1.0", note = "use `mcp_server::McpServer`; this name will be removed in 0.2")]
#[derive(Debug)]
pub struct McpServer(mcp_server::McpServer);

impl McpServer {
    /// Creates a server with these tools.
    #[must_use]
    pub fn new(tools: Vec<Arc<dyn ToolSpec>>) -> Self {
        let renamed = |tool| Arc::new(Renamed(tool)) as Arc<dyn mcp_server::ToolSpec>;
        Self(mcp_server::McpServer::new(tools.into_iter().map(renamed).collect()))
    }

    /// Serves the client that started this process, on stdin and stdout.
    ///
    /// # Errors
    /// Fails like `mcp_server::McpServer::serve_stdio`.
    pub async fn serve_stdio(self) -> Result<(), Error> {
        self.0.serve_stdio().await
    }

    /// Serves Streamable HTTP and the HTTP+SSE transport (2024-11-05) on this address.
    ///
    /// # Errors
    /// Fails like `mcp_server::McpServer::serve_sse`.
    #[cfg(feature = "serve")]
    pub async fn serve_sse(self, address: std::net::SocketAddr) -> Result<(), Error> {
        self.0.serve_sse(address).await
    }

    /// Returns the `mcp_server::McpServer` that this server wraps.
    #[must_use]
    pub fn into_inner(self) -> mcp_server::McpServer {
        self.0
    }
}
