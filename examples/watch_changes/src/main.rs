//! Prints the tools of a server now and after every change: `cargo run -p example-watch-changes -- COMMAND ARGS…`
use std::error::Error;
use std::process::ExitCode;

use mcp_client::protocol::safe_text::SafeText;
use mcp_client::protocol::subscriptions::SubscriptionFilter;
use mcp_client::{McpClient, ServerConfig};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    if let Err(error) = watch().await {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

async fn watch() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args_os().skip(1);
    let program = words.next().ok_or("usage: watch-changes COMMAND ARGS…")?;
    let client = McpClient::connect(ServerConfig::command(program).args(words)).await?;
    let mut changes = client.changes(SubscriptionFilter::new().tools_list_changed(true)).await?;
    loop {
        let tools = client.list_tools().await?;
        let names: Vec<String> = tools.iter().map(|tool| SafeText::name(&tool.name).to_string()).collect();
        println!("{} tools: {}", names.len(), names.join(", "));
        // After every change, including a gap, list the tools again.
        if changes.next().await.is_none() {
            return Ok(());
        }
    }
}
