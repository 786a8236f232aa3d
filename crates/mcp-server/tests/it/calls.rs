//! Tool calls: arguments, results, errors, cancellation, order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_protocol::ProtocolVersion;
use mcp_protocol::capabilities::Implementation;
use mcp_protocol::errors::ErrorCode;
use mcp_protocol::messages::{CancelledParams, EmptyParams, Id, Method};
use mcp_protocol::tools::{CallToolParams, CallToolResult};
use mcp_server::{Context, Json, McpServer, NoArgs, Structured, ToolError, ToolSpec, async_trait, tool};
use serde_json::{Value, json};

use crate::test_client::{TestClient, TestError, TestServer};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nested {
    inner: Vec<Add>,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Sum {
    sum: i64,
}

struct ReverseTool;

#[async_trait]
impl ToolSpec for ReverseTool {
    fn name(&self) -> &str {
        "reversed"
    }

    fn description(&self) -> &str {
        "Reverses its arguments."
    }

    fn input_schema(&self) -> Json {
        json!({"type": "object"}).into()
    }

    async fn execute(&self, arguments: Json, _: Context) -> Result<CallToolResult, ToolError> {
        Ok(CallToolResult::text(arguments.get().chars().rev().collect::<String>()))
    }
}

#[derive(Clone, Default)]
struct Counters {
    running: Arc<AtomicUsize>,
    cancelled: Arc<AtomicUsize>,
}

/// Decrements the counter when it is dropped.
struct RunningGuard(Arc<AtomicUsize>);

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn server(counters: &Counters) -> McpServer {
    let Counters { running, cancelled } = counters.clone();
    McpServer::new(vec![Arc::new(ReverseTool)])
        .implementation(Implementation::new("calls", "1.2.3"))
        .tool(tool("add", |Add { a, b }: Add| async move { (a + b).to_string() }))
        .tool(tool("sum", |Add { a, b }: Add| async move { Structured(Sum { sum: a + b }) }))
        .tool(tool("nested", |Nested { inner }: Nested| async move {
            inner.iter().map(|add| add.a + add.b).sum::<i64>().to_string()
        }))
        .tool(tool("nothing", || async {}))
        .tool(tool("fail", || async { Err::<String, _>(std::io::Error::other("no more paper")) }))
        .tool(tool("refuse", || async { Err::<(), _>(ToolError::invalid_params("not like this")) }))
        .tool(tool("panic", || async {
            if true {
                panic!("on purpose")
            }
        }))
        .tool(tool("early", || {
            assert!(std::env::args().count() == 0, "panic before the future exists");
            async {}
        }))
        .tool(tool("talkative", |_: NoArgs, cx: Context| async move {
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                cx.progress(1.0, None);
            });
        }))
        .tool(tool("sleep", move |_: NoArgs, cx: Context| {
            let (running, cancelled) = (running.clone(), cancelled.clone());
            async move {
                running.fetch_add(1, Ordering::SeqCst);
                let _guard = RunningGuard(running);
                // A spawned task also learns of the cancellation.
                let spawned = cx.clone();
                tokio::spawn(async move {
                    spawned.cancelled().await;
                    cancelled.fetch_add(1, Ordering::SeqCst);
                });
                tokio::time::sleep(Duration::from_secs(3600)).await;
            }
        }))
        .tool(tool("steps", |_: NoArgs, cx: Context| async move {
            for step in 1..=3 {
                cx.progress(f64::from(step), 3.0);
                tokio::task::yield_now().await;
            }
            "done"
        }))
}

async fn both() -> [TestClient; 2] {
    [
        server(&Counters::default()).test_client().await.unwrap(),
        server(&Counters::default()).legacy_test_client(ProtocolVersion::V2025_06_18).await.unwrap(),
    ]
}

fn code(error: TestError) -> ErrorCode {
    match error {
        TestError::Refused(error) => error.code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn functions_closures_and_objects_are_tools_in_both_eras() {
    for mut client in both().await {
        assert_eq!(client.call("add", json!({"a": 2, "b": 40})).await.unwrap().text(), "42");
        assert_eq!(client.call("nothing", json!({})).await.unwrap().0.content, []);
        assert_eq!(client.call("reversed", json!({"a": 1})).await.unwrap().text(), "}1:\"a\"{");
        let sum = client.call("sum", json!({"a": 1, "b": 2})).await.unwrap();
        assert_eq!(sum.0.structured_content.as_ref().unwrap().get(), r#"{"sum":3}"#);
        assert_eq!(sum.text(), r#"{"sum":3}"#);
    }
}

#[tokio::test]
async fn invalid_argument_is_a_tool_error_with_its_path() {
    for mut client in both().await {
        let outcome = client.call("nested", json!({"inner": [{"a": 1, "b": "two"}]})).await.unwrap();
        assert!(outcome.is_error());
        assert!(outcome.text().contains("`inner[0].b`"), "{}", outcome.text());
        // The message of serde, or of the schema with the feature `validate`.
        let missing = client.call("add", json!({})).await.unwrap().text();
        assert!(
            missing.contains("missing field `a`") || missing.contains("\"a\" is a required"),
            "{missing}"
        );
    }
}

/// Types whose errors serde reports after it has read the whole value.
mod odd {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[serde(try_from = "String")]
    #[schemars(with = "String")]
    pub(crate) struct Mail;

    impl TryFrom<String> for Mail {
        type Error = &'static str;

        fn try_from(text: String) -> Result<Self, Self::Error> {
            if text.contains('@') { Ok(Self) } else { Err("not a mail address") }
        }
    }

    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[serde(untagged)]
    #[allow(dead_code, reason = "only read")]
    pub(crate) enum Either {
        Number(u8),
        Flag(bool),
    }

    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[allow(dead_code, reason = "only read")]
    pub(crate) struct Odd {
        #[serde(default)]
        pub(crate) mails: Vec<Mail>,
        #[serde(default)]
        pub(crate) either: Option<Either>,
    }
}

#[tokio::test]
async fn argument_error_names_its_path_for_custom_and_untagged_types() {
    let server = McpServer::new(vec![]).tool(tool("odd", |_: odd::Odd| async {}));
    let mut client = server.test_client().await.unwrap();
    for (arguments, path) in [
        (json!({"mails": ["nope", "a@b"]}), "`mails[0]`"),
        (json!({"mails": ["a@b", "nope"]}), "`mails[1]`"),
        (json!({"either": "neither"}), "`either`"),
    ] {
        let text = client.call("odd", arguments).await.unwrap().text();
        assert!(text.contains(path), "{path}: {text}");
    }
}

#[tokio::test]
async fn buffering_writer_is_flushed_after_each_response() {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, BufWriter};
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(theirs);
    let serving = tokio::spawn(McpServer::named("x", "1").serve(reader, BufWriter::new(writer)));
    let (reader, mut writer) = tokio::io::split(ours);
    let mut lines = BufReader::new(reader).lines();
    writer.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").await.unwrap();
    assert!(lines.next_line().await.unwrap().unwrap().contains("\"id\":1"));
    writer.shutdown().await.unwrap();
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn tool_errors_reach_the_model_or_the_client_as_chosen() {
    for mut client in both().await {
        let failed = client.call("fail", json!({})).await.unwrap();
        assert_eq!((failed.is_error(), &*failed.text()), (true, "no more paper"));
        assert_eq!(code(client.call("refuse", json!({})).await.unwrap_err()), ErrorCode::InvalidParams);
        assert_eq!(code(client.call("unknown", json!({})).await.unwrap_err()), ErrorCode::InvalidParams);
    }
}

#[tokio::test]
async fn panic_fails_only_its_own_call_without_the_panic_text() {
    for mut client in both().await {
        for tool in ["panic", "early"] {
            let error = client.call(tool, json!({})).await.unwrap_err();
            assert!(!format!("{error:?}").contains("on purpose"), "{error:?}");
            assert_eq!(code(error), ErrorCode::InternalError);
        }
        assert_eq!(client.call("add", json!({"a": 1, "b": 1})).await.unwrap().text(), "2");
    }
}

#[tokio::test]
async fn cancelled_call_is_dropped_and_its_context_notified() {
    let counters = Counters::default();
    let mut client = server(&counters).test_client().await.unwrap();
    let id = client.send(&Method::ToolsCall, &CallToolParams::new("sleep")).await.unwrap();
    // Other calls are answered meanwhile.
    assert_eq!(client.call("add", json!({"a": 1, "b": 1})).await.unwrap().text(), "2");
    assert_eq!(counters.running.load(Ordering::SeqCst), 1);
    client.notify(&Method::Cancelled, &CancelledParams::new(id)).await.unwrap();
    eventually(|| counters.running.load(Ordering::SeqCst) == 0).await;
    eventually(|| counters.cancelled.load(Ordering::SeqCst) == 1).await;
    // The cancelled call is not answered, and its id is free.
    assert_eq!(client.call("add", json!({"a": 1, "b": 2})).await.unwrap().text(), "3");
}

#[tokio::test]
async fn cancelling_an_unknown_request_has_no_effect() {
    for mut client in both().await {
        for id in [Id::from(99), Id::from("x"), Id::from(1)] {
            client.notify(&Method::Cancelled, &CancelledParams::new(id)).await.unwrap();
        }
        assert_eq!(client.call("add", json!({"a": 1, "b": 1})).await.unwrap().text(), "2");
    }
}

#[tokio::test]
async fn duplicate_request_id_in_flight_is_refused_without_an_id() {
    let mut client = server(&Counters::default()).test_client().await.unwrap();
    let id = client.send(&Method::ToolsCall, &CallToolParams::new("sleep")).await.unwrap();
    let again = json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"}).to_string();
    client.send_line(again.as_bytes()).await.unwrap();
    let line: Value = serde_json::from_slice(&client.line().await.unwrap()).unwrap();
    assert_eq!((line.get("id"), &line["error"]["code"]), (None, &json!(-32600)));
}

#[tokio::test]
async fn invalid_message_is_answered_and_the_connection_continues() {
    let mut client = server(&Counters::default()).test_client().await.unwrap();
    for (line, code) in
        [("not json", -32700), ("[]", -32600), (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600)]
    {
        client.send_line(line.as_bytes()).await.unwrap();
        let line: Value = serde_json::from_slice(&client.line().await.unwrap()).unwrap();
        assert_eq!(line["error"]["code"], json!(code), "{line}");
    }
    assert_eq!(client.call("add", json!({"a": 1, "b": 1})).await.unwrap().text(), "2");
}

#[tokio::test]
async fn progress_is_sent_in_order_and_only_with_a_progress_token() {
    let mut client = server(&Counters::default()).test_client().await.unwrap();
    client.call("steps", json!({})).await.unwrap();
    assert_eq!(client.notifications.len(), 0);
    client.envelope().progress_token = Some("p".into());
    client.call("steps", json!({})).await.unwrap();
    let received: Vec<Value> = client.notifications.iter().map(|(_, params)| params.to().unwrap()).collect();
    let received: Vec<_> =
        received.iter().map(|params| (&params["progressToken"], &params["progress"])).collect();
    assert_eq!(received, [(&json!("p"), &json!(1)), (&json!("p"), &json!(2)), (&json!("p"), &json!(3))]);
}

#[tokio::test]
async fn running_calls_are_cancelled_after_the_grace_period_at_eof() {
    let counters = Counters::default();
    let mut client = server(&counters).grace(Duration::from_millis(50)).test_client().await.unwrap();
    client.send(&Method::ToolsCall, &CallToolParams::new("sleep")).await.unwrap();
    eventually(|| counters.running.load(Ordering::SeqCst) == 1).await;
    tokio::time::timeout(Duration::from_secs(5), client.close()).await.unwrap().unwrap();
    assert_eq!(counters.running.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn server_info_is_in_modern_results_only() {
    let [mut modern, mut legacy] = both().await;
    for (client, expected) in [(&mut modern, "calls"), (&mut legacy, "")] {
        let id = client.send(&Method::ToolsCall, &CallToolParams::new("nothing")).await.unwrap();
        let result: Value = client.response(&id).await.unwrap().to().unwrap();
        let name = &result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"];
        assert_eq!(name.as_str().unwrap_or(""), expected);
        assert_eq!(result.get("resultType").is_some(), !expected.is_empty());
    }
}

#[tokio::test]
async fn duplicate_and_invalid_tool_names_prevent_serving() {
    let server = McpServer::new(vec![])
        .tool(tool("twice", || async { "first" }))
        .tool(tool("twice", || async { "second" }))
        .tool(tool("bad name", || async {}));
    let error = server.test_client().await.unwrap_err().to_string();
    assert!(error.contains("duplicate tool `twice`") && error.contains("`bad name`"), "{error}");
}

#[tokio::test]
async fn no_notification_is_sent_after_the_response() {
    let mut client = server(&Counters::default()).test_client().await.unwrap();
    client.envelope().progress_token = Some("p".into());
    client.call("talkative", json!({})).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    client.call("nothing", json!({})).await.unwrap();
    assert_eq!(client.notifications.len(), 0);
}

#[tokio::test]
async fn call_that_ends_within_the_grace_period_is_answered() {
    let server = McpServer::named("brief", "1").tool(tool("brief", || async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        "in time"
    }));
    let (ours, theirs) = tokio::io::duplex(1 << 10);
    let (reader, writer) = tokio::io::split(theirs);
    let serving = tokio::spawn(server.serve(reader, writer));
    let (mut from_server, mut to_server) = tokio::io::split(ours);
    tokio::io::AsyncWriteExt::write_all(&mut to_server, modern_call("brief").as_bytes()).await.unwrap();
    tokio::io::AsyncWriteExt::shutdown(&mut to_server).await.unwrap();
    let mut answer = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut from_server, &mut answer).await.unwrap();
    assert!(answer.contains("in time"), "{answer:?}");
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn few_calls_are_started_while_the_client_does_not_read() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let server = McpServer::named("big", "1").tool(tool("big", move || {
        counted.fetch_add(1, Ordering::SeqCst);
        async { "x".repeat(1 << 20) }
    }));
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (reader, writer) = tokio::io::split(theirs);
    let serving = tokio::spawn(server.serve(reader, writer));
    let (mut from_server, mut to_server) = tokio::io::split(ours);
    // All requests arrive in one read.
    let requests = modern_call("big").repeat(100);
    tokio::io::AsyncWriteExt::write_all(&mut to_server, requests.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let before = calls.load(Ordering::SeqCst);
    assert!((1..10).contains(&before), "{before} calls were started for a client that does not read");
    // No response is lost once the client reads. The requests may share an id, because each is answered before the next
    // one starts.
    tokio::io::AsyncWriteExt::shutdown(&mut to_server).await.unwrap();
    let mut answers = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut from_server, &mut answers).await.unwrap();
    assert_eq!((answers.lines().count(), calls.load(Ordering::SeqCst)), (100, 100));
    serving.await.unwrap().unwrap();
}

fn modern_call(tool: &str) -> String {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": tool, "_meta": meta});
    format!("{}\n", json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}))
}

#[tokio::test]
async fn shutdown_does_not_wait_for_a_client_that_does_not_read() {
    let server = McpServer::named("big", "1")
        .tool(tool("big", || async { "x".repeat(1 << 20) }))
        .grace(Duration::from_millis(10));
    let (ours, theirs) = tokio::io::duplex(1 << 10);
    let (reader, writer) = tokio::io::split(theirs);
    let serving = tokio::spawn(server.serve(reader, writer));
    let (_unread, mut to_server) = tokio::io::split(ours);
    tokio::io::AsyncWriteExt::write_all(&mut to_server, modern_call("big").as_bytes()).await.unwrap();
    tokio::io::AsyncWriteExt::shutdown(&mut to_server).await.unwrap();
    tokio::time::timeout(Duration::from_secs(10), serving).await.unwrap().unwrap().unwrap();
}

/// Waits until other futures make the condition true.
async fn eventually(mut condition: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the condition did not become true");
}

#[tokio::test]
async fn server_name_defaults_to_the_executable_name() {
    let executable = std::env::current_exe().unwrap();
    let stem = executable.file_stem().unwrap().to_str().unwrap().to_owned();
    for (server, expected) in
        [(McpServer::new(vec![]), stem), (McpServer::named("mine", "1"), "mine".to_owned())]
    {
        let mut client = server.test_client().await.unwrap();
        let id = client.send(&Method::Discover, &EmptyParams::new()).await.unwrap();
        let result: Value = client.response(&id).await.unwrap().to().unwrap();
        assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], json!(expected));
    }
}

#[tokio::test]
async fn error_for_a_message_without_method_has_its_id() {
    let mut client = McpServer::named("calls", "1").test_client().await.unwrap();
    for message in [r#"{"jsonrpc":"2.0","id":41}"#, r#"{"jsonrpc":"2.0","id":41,"params":{}}"#] {
        client.send_line(message.as_bytes()).await.unwrap();
        let line = String::from_utf8(client.line().await.unwrap()).unwrap();
        assert!(line.contains(r#""id":41"#) && line.contains("-32600"), "{line}");
    }
}

#[tokio::test]
async fn client_can_retry_initialize_after_oversized_client_info() {
    let mut client = McpServer::named("calls", "1").test_client().await.unwrap();
    for (name, is_accepted) in [("x".repeat(70_000), false), ("c".to_owned(), true)] {
        let initialize = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": name, "version": "1"},
        }});
        client.send_line(initialize.to_string().as_bytes()).await.unwrap();
        let line = String::from_utf8(client.line().await.unwrap()).unwrap();
        assert_eq!(line.contains("protocolVersion"), is_accepted, "{line}");
    }
}

#[tokio::test]
async fn subscription_stream_ends_with_its_result_only() {
    let (client, server) = tokio::io::duplex(64 << 10);
    let (reader, writer) = tokio::io::split(server);
    let serving = tokio::spawn(McpServer::named("calls", "1").serve(reader, writer));
    let (mut answers, mut requests) = tokio::io::split(client);
    let listen = serde_json::json!({"jsonrpc": "2.0", "id": 5, "method": "subscriptions/listen", "params": {
        "notifications": {"toolsListChanged": true},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }});
    tokio::io::AsyncWriteExt::write_all(&mut requests, format!("{listen}\n").as_bytes()).await.unwrap();
    tokio::io::AsyncWriteExt::shutdown(&mut requests).await.unwrap();
    serving.await.unwrap().unwrap();
    let mut output = String::new();
    drop(requests);
    tokio::io::AsyncReadExt::read_to_string(&mut answers, &mut output).await.unwrap();
    let messages: Vec<&str> = output.lines().collect();
    assert_eq!(messages.len(), 2, "{output}");
    assert!(messages[0].contains("notifications/subscriptions/acknowledged"), "{output}");
    assert!(messages[1].contains(r#""id":5"#) && messages[1].contains("result"), "{output}");
}
