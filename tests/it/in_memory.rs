//! A test of a server in memory, with the whole client: `McpServer::in_memory`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_client::protocol::resources::{Resource, ResourceTemplate};
use mcp_client::{Error, McpClient};
use mcp_server::{
    Context, McpServer, NoArgs, PromptArguments, ReadRequest, Structured, prompt, resource,
    resource_template, tool,
};
use serde_json::json;

use crate::support::{nothing_left, revisions};

#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema, Debug, PartialEq)]
struct Point {
    x: i64,
    y: i64,
}

/// Counts the calls that run.
struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn server(running: &Arc<AtomicUsize>) -> McpServer {
    let running = Arc::clone(running);
    McpServer::named("points", "1")
        .tool(tool("origin", || async { Structured(Point { x: 0, y: 0 }) }).description("The origin."))
        .tool(tool("slow", move |_: NoArgs, cx: Context| {
            running.fetch_add(1, Ordering::SeqCst);
            let counted = Running(Arc::clone(&running));
            async move {
                let _counted = counted;
                for step in 1..=3 {
                    tokio::time::sleep(Duration::from_secs(20)).await;
                    cx.progress(f64::from(step), 3.0);
                }
                "done"
            }
        }))
        .resource(resource(Resource::new("point://origin", "origin"), || async { "0 0" }))
        .template(resource_template(
            ResourceTemplate::new("point://{x}", "x"),
            |request: ReadRequest| async move { format!("{} 0", request.variable("x")) },
        ))
        .prompt(prompt("ask", |_: PromptArguments| async { "Where is the origin?" }))
}

#[tokio::test(start_paused = true)]
async fn whole_client_tests_a_server_in_memory() {
    for version in revisions() {
        nothing_left(async {
            let running = Arc::default();
            let streams = server(&running).in_memory().unwrap();
            let client = McpClient::over(streams).versions([version.clone()]).connect().await.unwrap();
            assert_eq!(client.version(), version);
            let tools = client.list_tools().await.unwrap();
            assert_eq!(tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["origin", "slow"]);
            let point: Point = client.call("origin", json!({})).await.unwrap().json().unwrap();
            assert_eq!(point, Point { x: 0, y: 0 });
            assert_eq!(client.list_resources().await.unwrap()[0].uri, "point://origin");
            let read = client.read_resource("point://7").await.unwrap();
            assert_eq!(read.contents[0].text.as_deref(), Some("7 0"));
            let asked = client.get_prompt("ask", ()).await.unwrap();
            assert_eq!(asked.messages[0].content.as_text(), Some("Where is the origin?"));
            // A minute that passes at once, because time is paused.
            let mut call = client.call("slow", json!({})).running();
            let mut steps = 0;
            while call.progress().await.is_some() {
                steps += 1;
            }
            assert_eq!((call.outcome().await.unwrap().text(), steps), ("done".to_owned(), 3));
            let cancelled =
                client.call("slow", json!({})).cancel_when(tokio::time::sleep(Duration::from_secs(5)));
            assert!(matches!(cancelled.await, Err(Error::Cancelled { .. })));
            client.close().await;
            assert_eq!(running.load(Ordering::SeqCst), 0);
        })
        .await;
    }
}

#[tokio::test]
async fn server_in_memory_ends_when_its_client_is_dropped() {
    nothing_left(async {
        let running = Arc::default();
        // Longer than the test waits.
        let server = server(&running).grace(Duration::from_secs(60));
        let client = McpClient::over(server.in_memory().unwrap()).connect().await.unwrap();
        let call = tokio::spawn(client.call("slow", json!({})).into_future());
        while running.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        call.abort();
        drop(client);
    })
    .await;
}

#[tokio::test]
async fn server_in_memory_reports_its_setup_problems() {
    let doubled = McpServer::named("x", "1").tool(tool("a", || async {})).tool(tool("a", || async {}));
    let error = doubled.in_memory().map(drop).unwrap_err();
    assert!(error.to_string().contains("duplicate tool `a`"), "{error}");
}
