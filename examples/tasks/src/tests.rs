//! The server with the whole client, in memory.

use mcp_client::McpClient;
use serde_json::{Value, json};

use super::server;

#[tokio::test]
async fn tasks_are_added_completed_and_read() -> Result<(), Box<dyn std::error::Error>> {
    let client = McpClient::over(server().in_memory()?).connect().await?;
    assert_eq!(client.call("add_task", json!({"title": "Shop"})).await?.text(), "task 1");
    client.call("add_task", json!({"title": "Cook"})).await?;
    client.call("complete_task", json!({"number": 1})).await?;
    let missing = client.call("complete_task", json!({"number": 0})).await?;
    assert_eq!((missing.is_error(), missing.text().as_str()), (true, "no task 0; list the tasks first"));
    let tasks: Value = client.call("list_tasks", json!({})).await?.json()?;
    assert_eq!(tasks, json!([{"title": "Shop", "is_done": true}, {"title": "Cook", "is_done": false}]));
    let read = client.read_resource("tasks://all").await?;
    assert_eq!(read.contents[0].text.as_deref(), Some("- [x] Shop\n- [ ] Cook\n"));
    let prompt = client.get_prompt("plan", ()).await?;
    assert!(prompt.messages[0].content.as_text().is_some_and(|text| text.ends_with("- [ ] Cook\n")));
    Ok(())
}
