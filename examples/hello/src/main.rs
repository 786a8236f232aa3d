//! A server with one tool, for any client that starts servers: `cargo run -p example-hello`
use mcp_server::{Error, McpServer, tool};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Hello {
    /// The name of the person to greet.
    name: String,
}

async fn hello(Hello { name }: Hello) -> String {
    format!("Hello, {name}!")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    McpServer::new(vec![]).tool(tool("hello", hello).description("Greets somebody.")).serve_stdio().await
}
