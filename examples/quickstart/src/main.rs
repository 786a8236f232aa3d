//! Starts the example server `hello`, lists its tools and calls one: `cargo run -p example-quickstart`
use std::process::ExitCode;

use mcp_client::protocol::safe_text::SafeText;
use mcp_client::{McpClient, Result, ServerConfig};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    if let Err(error) = run().await {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

async fn run() -> Result<()> {
    let server = ServerConfig::command("cargo").args(["run", "--quiet", "-p", "example-hello"]);
    let client = McpClient::connect(server).await?;
    println!("The server speaks {}.", client.version());
    for tool in client.list_tools().await? {
        let about = tool.description.unwrap_or_default();
        println!("It offers `{}`: {}", SafeText::name(&tool.name), SafeText::message(&about));
    }
    let outcome = client.call("hello", json!({"name": "world"})).await?.ok()?;
    println!("It says: {}", SafeText::new(&outcome.text()));
    client.close().await;
    Ok(())
}
