//! Events and metrics of calls.

use std::sync::{Arc, Mutex};

use mcp_protocol::metrics::{CallEnd, CallLabels};
use mcp_protocol::resources::ReadResourceParams;
use mcp_protocol::tools::CallToolResult;
use mcp_server::{McpServer, Metrics, NoArgs, ToolError, tool};
use serde_json::json;

use crate::display::LogLines;
use crate::test_client::TestServer;

/// Records what is counted.
#[derive(Clone, Default)]
struct Counted(Arc<Mutex<Vec<String>>>);

impl Metrics for Counted {
    fn call_started(&self, call: &CallLabels<'_>) {
        let CallLabels { method, name, server, .. } = *call;
        self.0.lock().unwrap().push(format!("{server} {} {name:?}", method.as_str()));
    }

    fn call_ended(&self, call: &CallLabels<'_>, end: &CallEnd) {
        assert!(end.bytes > 0 && call.server == "observed");
        self.0.lock().unwrap().push(end.outcome.as_str().to_owned());
    }
}

fn server() -> McpServer {
    McpServer::named("observed", "1")
        .tool(tool("echo", || async { "hi" }))
        .tool(tool("fail", || async { Err::<String, _>(ToolError::new("no")) }))
        .tool(tool("error", || async { CallToolResult::error("no") }))
        .tool(tool("panic", |_: NoArgs| async {
            if true {
                panic!("as expected")
            }
        }))
        .tool(tool("never", std::future::pending::<String>))
}

#[tokio::test]
async fn each_call_logs_one_event_without_its_arguments() {
    let log = LogLines::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let mut client = server().test_client().await.unwrap();
    // The tool refuses arguments.
    assert!(client.call("echo", json!({"key": "hush"})).await.unwrap().is_error());
    let lines = log.0.lock().unwrap().clone();
    let [event] = lines.iter().filter(|line| line.contains("call ended")).collect::<Vec<_>>()[..] else {
        panic!("{lines:#?}")
    };
    let start = "event message=call ended method=tools/call name=echo server=observed outcome=tool_error ms=";
    assert!(event.starts_with(start) && event.contains(" bytes="), "{event}");
    assert!(!lines.iter().any(|line| line.contains("hush")), "{lines:#?}");
}

#[tokio::test]
async fn panic_is_logged_with_the_name_of_its_tool() {
    let log = LogLines::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let mut client = server().test_client().await.unwrap();
    client.call("panic", json!({})).await.unwrap_err();
    let lines = log.0.lock().unwrap().clone();
    let panics = lines.iter().filter(|line| *line == "event message=handler panicked name=panic").count();
    assert_eq!(panics, 1, "{lines:#?}");
}

#[tokio::test]
async fn metrics_count_calls_by_outcome() {
    let counted = Counted::default();
    let mut client = server().metrics(counted.clone()).test_client().await.unwrap();
    for name in ["echo", "fail", "error", "panic", "unknown"] {
        let _ = client.call(name, json!({})).await;
    }
    let unknown = ReadResourceParams::new("a:b?key=hush");
    let read = client.request::<mcp_protocol::resources::ReadResourceResult>(
        &mcp_protocol::messages::Method::ResourcesRead,
        &unknown,
    );
    read.await.unwrap_err();
    let never = tokio::time::timeout(std::time::Duration::from_millis(50), client.call("never", json!({})));
    never.await.unwrap_err();
    drop(client);
    let counts = || counted.0.lock().unwrap().clone();
    for _ in 0..200 {
        if counts().len() == 14 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let tool = |name: &str| format!("observed tools/call Some({name:?})");
    let expected = [
        tool("echo"),
        "completed".into(),
        tool("fail"),
        "tool_error".into(),
        tool("error"),
        "tool_error".into(),
        tool("panic"),
        "panicked".into(),
        "observed tools/call None".into(),
        "refused".into(),
        "observed resources/read None".into(),
        "refused".into(),
        tool("never"),
        "cancelled".into(),
    ];
    assert_eq!(counts(), expected);
}
