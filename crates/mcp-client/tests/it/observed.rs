//! Events, metrics and trace context of calls.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_client::protocol::meta::Meta;
use mcp_client::protocol::metrics::{CallEnd, CallLabels};
use mcp_client::{McpClient, Metrics, WireTrace};
use serde_json::json;

use crate::support::{LogLines, peer};
use crate::web::{against, calling, modern};
use crate::wire_trace::Written;

/// Records what is counted.
#[derive(Clone, Default)]
struct Counted(Arc<Mutex<Vec<String>>>);

impl Metrics for Counted {
    fn call_started(&self, call: &CallLabels<'_>) {
        self.0.lock().unwrap().push(format!("{} {:?}", call.method.as_str(), call.name));
    }

    fn call_ended(&self, _: &CallLabels<'_>, end: &CallEnd) {
        self.0.lock().unwrap().push(end.outcome.as_str().to_owned());
    }

    fn server_restarted(&self, _: &str) {
        self.0.lock().unwrap().push("restarted".to_owned());
    }
}

#[tokio::test]
async fn each_call_logs_one_event_without_its_arguments() {
    let (log, _guard) = LogLines::capture();
    let client = McpClient::connect(peer(&[])).await.unwrap();
    client.call("echo", json!({"text": "hush"})).await.unwrap();
    client.close().await;
    let lines = log.get();
    let [event] = lines.iter().filter(|line| line.contains("call ended")).collect::<Vec<_>>()[..] else {
        panic!("{lines:#?}")
    };
    let start = "DEBUG message=call ended method=tools/call name=echo server=";
    assert!(event.starts_with(start) && event.contains(" outcome=completed ms="), "{event}");
    assert!(event.contains(" bytes=") && !event.contains(" bytes=0"), "{event}");
    assert!(!lines.iter().any(|line| line.contains("hush")), "{lines:#?}");
}

#[tokio::test]
async fn metrics_count_calls_by_outcome_and_restarts() {
    let counted = Counted::default();
    let config = peer(&["--era", "modern"]).restarts();
    let client = McpClient::builder(config).metrics(counted.clone()).connect().await.unwrap();
    client.call("echo", json!({"text": "hi"})).await.unwrap();
    client.call("exit", json!({"code": 7})).await.unwrap_err();
    client.read_resource("a:b?key=hush").await.unwrap_err();
    let dropped = tokio::time::timeout(Duration::from_millis(20), client.call("wait", json!({})));
    dropped.await.unwrap_err();
    client.close().await;
    let counts = counted.0.lock().unwrap().clone();
    let expected = [
        "tools/call Some(\"echo\")",
        "completed",
        "tools/call Some(\"exit\")",
        "lost",
        "resources/read Some(\"a:b?…\")",
        "restarted",
        "refused",
        "tools/call Some(\"wait\")",
        "cancelled",
    ];
    assert_eq!(counts, expected);
}

#[tokio::test]
async fn trace_context_of_the_host_is_sent_with_each_request() {
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for era in ["modern", "legacy"] {
        let written = Written::default();
        let client = McpClient::builder(peer(&["--era", era]))
            .wire_trace(&WireTrace::new(written.clone()))
            .trace_context(move || Some(Meta::new().traceparent(parent).tracestate("a=1")))
            .connect()
            .await
            .unwrap();
        client.call("echo", json!({"text": "hi"})).await.unwrap();
        let own = Meta::new().traceparent("00-own");
        client.call("echo", json!({"text": "hi"})).meta(own).await.unwrap();
        client.close().await;
        let calls: Vec<String> =
            written.lines().into_iter().filter(|line| line.contains("\"tools/call\"")).collect();
        let context = format!("\"traceparent\":\"{parent}\",\"tracestate\":\"a=1\"");
        assert!(calls[0].contains(&context), "{era}: {calls:#?}");
        assert!(calls[1].contains("\"traceparent\":\"00-own\""), "{era}: {calls:#?}");
    }
}

#[tokio::test]
async fn trace_context_is_sent_over_http() {
    let script = calling(|seen| {
        let meta = &seen.body["params"]["_meta"];
        assert_eq!(meta["traceparent"], "00-1", "{meta}");
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28", "{meta}");
        modern(seen)
    });
    against(script, |web| async move {
        let client = McpClient::builder(mcp_client::ServerConfig::url(&web.url))
            .trace_context(|| Some(Meta::new().traceparent("00-1")))
            .connect()
            .await
            .unwrap();
        client.call("echo", json!({"text": "hi"})).await.unwrap();
        client.close().await;
    })
    .await;
}
