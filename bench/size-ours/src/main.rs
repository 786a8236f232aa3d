//! The smallest server with mcp-server: one tool, on standard input and output.

use mcp_server::{Error, McpServer, tool};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    McpServer::named("hello", "1").tool(tool("hello", || async { "Hello!" })).serve_stdio().await
}
