//! Starts the example server `hello`, lists its tools, calls one: `cargo run -p example-quickstart`
use mcp_client::{Error, McpClient, Recipe};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let server = Recipe::command("cargo").args(["run", "--quiet", "-p", "example-hello"]);
    let client = McpClient::connect(server).await?;
    println!("The server speaks {}.", client.version());
    for tool in client.list_tools().await? {
        println!("It offers `{}`: {}", tool.name, tool.description.unwrap_or_default());
    }
    let outcome = client.call("hello", json!({"name": "world"})).await?;
    println!("It says: {}", outcome.text());
    client.close().await;
    Ok(())
}
