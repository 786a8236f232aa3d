//! An echo server with mcp-server, on standard input and output. `--tools N` adds tools for the list.

use mcp_server::{Error, Json, McpServer, Tool, tool};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let mut server = McpServer::named("echo", "1").tool(tool("echo", |Echo { text }: Echo| async { text }));
    let count = std::env::args().nth(2).and_then(|count| count.parse().ok()).unwrap_or(0);
    for n in 0..count {
        let schema: Json = mcp_bench::SCHEMA.parse().unwrap();
        let extra = Tool::dynamic(format!("tool_{n}"), schema, |_: Json| async {});
        server = server.tool(extra.description(format!("Does the thing number {n} and tells about it.")));
    }
    server.serve_stdio().await
}
