//! Two servers in memory, with a tool of the same name.

use mcp_client::McpClient;
use mcp_server::{McpServer, tool};
use serde_json::json;

use super::*;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Text {
    text: String,
}

async fn server(name: &'static str) -> Result<McpClient, Box<dyn Error>> {
    let say = move |Text { text }: Text| async move { format!("{name} says {text}") };
    let server = McpServer::named(name, "1").tool(tool("say", say).description("Says a text."));
    Ok(McpClient::over(server.in_memory()?).connect().await?)
}

#[tokio::test]
async fn tools_of_the_same_name_reach_their_own_server() -> Result<(), Box<dyn Error>> {
    let (mut servers, mut names) = (Servers::default(), Vec::new());
    for name in ["cat", "my dog"] {
        let tools = servers.add(name, server(name).await?).await?;
        names.extend(tools.into_iter().map(|tool| tool.name));
    }
    assert_eq!(names[0], "mcp__cat__say");
    // A space is not allowed in a callable name.
    assert!(names[1].starts_with("mcp__my-dog__say_x"), "{}", names[1]);
    for (name, expected) in names.iter().zip(["cat says hi", "my dog says hi"]) {
        assert_eq!(servers.call(name, json!({"text": "hi"}).into()).await?.text(), expected);
    }
    let unknown = servers.call("mcp__cat__bark", json!({}).into()).await;
    assert_eq!(unknown.unwrap_err().to_string(), "unknown tool; list the tools first");
    servers.close().await;
    Ok(())
}
