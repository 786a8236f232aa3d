//! An echo server with mcp-server, over HTTP. Prints its port.

use mcp_server::http::HttpOptions;
use mcp_server::{Error, McpServer, tool};
use tokio::net::TcpListener;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let server = McpServer::named("echo", "1").tool(tool("echo", |Echo { text }: Echo| async { text }));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    server.serve_listener(listener, HttpOptions::default(), std::future::pending()).await
}
