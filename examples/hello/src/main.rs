//! A server with one tool, for any client that starts servers: `cargo run -p example-hello`
use std::process::ExitCode;

use mcp_server::{McpServer, tool};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Hello {
    /// The name of the person to greet.
    name: String,
}

async fn hello(Hello { name }: Hello) -> String {
    format!("Hello, {name}!")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let server = McpServer::named("hello", env!("CARGO_PKG_VERSION"))
        .tool(tool("hello", hello).description("Greets somebody."));
    if let Err(error) = server.serve_stdio().await {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
