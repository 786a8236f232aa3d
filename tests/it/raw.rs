//! Servers that are written line by line: orders and moments that a good server does not show.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use mcp_client::protocol::elicitation::{ElicitFormParams, ElicitResult};
use mcp_client::protocol::peer::TimeoutReason;
use mcp_client::protocol::subscriptions::SubscriptionFilter;
use mcp_client::protocol::{Era, ProtocolVersion};
use mcp_client::{EndCause, Error, Handlers, McpClient, Sent, ServerRequest};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadBuf, ReadHalf, WriteHalf,
};

struct Raw {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    out: WriteHalf<DuplexStream>,
}

impl Raw {
    async fn read(&mut self) -> Value {
        serde_json::from_str(&self.lines.next_line().await.unwrap().unwrap()).unwrap()
    }

    async fn write(&mut self, lines: &[Value]) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        self.out.write_all(text.as_bytes()).await.unwrap();
    }
}

/// A client of one era, and the other end of its streams; `behind` stands behind the last answer of the negotiation.
async fn connect(era: Era, handlers: Handlers, behind: &[Value]) -> (McpClient, Raw) {
    connect_reading(era, handlers, behind, |reader| reader).await
}

/// Like `connect`, with a reader around that of the client.
async fn connect_reading<R: AsyncRead + Send + Unpin + 'static>(
    era: Era,
    handlers: Handlers,
    behind: &[Value],
    around: impl FnOnce(ReadHalf<DuplexStream>) -> R,
) -> (McpClient, Raw) {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (reader, out) = tokio::io::split(theirs);
    let mut raw = Raw { lines: BufReader::new(reader).lines(), out };
    let (reader, writer) = tokio::io::split(ours);
    let version =
        if era == Era::Modern { ProtocolVersion::V2026_07_28 } else { ProtocolVersion::V2025_11_25 };
    let connect = McpClient::over((around(reader), writer)).versions([version]).handlers(handlers).connect();
    let connect = tokio::spawn(connect);
    let asked = raw.read().await;
    let result = if era == Era::Modern {
        json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"})
    } else {
        json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "raw", "version": "1"}})
    };
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result});
    raw.write(&[&[answer], behind].concat()).await;
    let client = connect.await.unwrap().unwrap();
    if era == Era::Legacy {
        assert_eq!(raw.read().await["method"], "notifications/initialized");
    }
    (client, raw)
}

fn ask(id: i64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create",
        "params": {"message": id.to_string(), "requestedSchema": {"type": "object", "properties": {}}}})
}

#[tokio::test]
async fn what_stands_behind_the_answer_to_initialize_is_not_lost() {
    let ping = json!({"jsonrpc": "2.0", "id": 7, "method": "ping"});
    let (_client, mut raw) = connect(Era::Legacy, Handlers::new(), &[ping]).await;
    assert_eq!(raw.read().await, json!({"jsonrpc": "2.0", "id": 7, "result": {}}));
}

#[tokio::test]
async fn a_stream_that_is_ended_before_it_began_is_an_error() {
    let (client, mut raw) = connect(Era::Modern, Handlers::new(), &[]).await;
    let changes = tokio::spawn(async move {
        client.changes(SubscriptionFilter::new().tools_list_changed(true)).await.map(drop)
    });
    let id = raw.read().await["id"].clone();
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    raw.write(&[cancelled]).await;
    assert!(matches!(changes.await.unwrap(), Err(Error::Unreadable { .. })));
}

#[tokio::test]
async fn changes_of_a_connection_that_has_ended_are_an_error() {
    for era in [Era::Legacy, Era::Modern] {
        let (client, raw) = connect(era, Handlers::new(), &[]).await;
        drop(raw);
        while client.ended().is_none() {
            tokio::task::yield_now().await;
        }
        let changes = client.changes(SubscriptionFilter::new().tools_list_changed(true)).await;
        assert!(matches!(changes, Err(Error::Lost { .. })), "{era:?}");
    }
}

#[tokio::test]
async fn flood_of_requests_without_reading_ends_the_connection() {
    let (client, mut raw) = connect(Era::Legacy, Handlers::new(), &[]).await;
    let id = "x".repeat(1000);
    let pings: Vec<Value> =
        (0..100).map(|n| json!({"jsonrpc": "2.0", "id": format!("{id}{n}"), "method": "ping"})).collect();
    let mut text: String = pings.iter().map(|ping| format!("{ping}\n")).collect();
    text = text.repeat(1000);
    let _ = raw.out.write_all(text.as_bytes()).await;
    let ended = client.ended().expect("it is left");
    assert_eq!(ended.cause, EndCause::Flood);
}

#[tokio::test]
async fn a_handler_that_panics_takes_no_other_answer_along() {
    let handlers = Handlers::new().on_form(async |asked: ServerRequest<ElicitFormParams>| {
        match asked.params.message.as_str() {
            "2" => panic!("on purpose"),
            _ => ElicitResult::decline(),
        }
    });
    let (_client, mut raw) = connect(Era::Legacy, handlers, &[]).await;
    raw.write(&[ask(1), ask(2), ask(3)]).await;
    let mut outcomes = Vec::new();
    for _ in 0..3 {
        let answer = raw.read().await;
        outcomes.push((answer["id"].as_i64().unwrap(), answer["error"]["code"].as_i64()));
    }
    outcomes.sort_unstable();
    assert_eq!(outcomes, [(1, None), (2, Some(-32603)), (3, None)]);
}

#[tokio::test(start_paused = true)]
async fn idle_timeout_resumes_after_the_last_handler_answers() {
    let handlers = Handlers::new().on_form(async |asked: ServerRequest<ElicitFormParams>| {
        let seconds = if asked.params.message == "1" { 30 } else { 200 };
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        ElicitResult::decline()
    });
    let (client, mut raw) = connect(Era::Legacy, handlers, &[]).await;
    // The call is made while the first is asked, and paused by the second alone.
    raw.write(&[ask(1)]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let call = tokio::spawn(client.call("x", json!({})).timeout(Duration::from_secs(50)).into_future());
    raw.read().await;
    raw.write(&[ask(2)]).await;
    assert_eq!(raw.read().await["id"], 1);
    assert_eq!(raw.read().await["id"], 2, "the call is still there after 200 s");
    let answered = tokio::time::Instant::now();
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::TimedOut { reason: TimeoutReason::Idle, .. }), "{error:?}");
    assert_eq!(answered.elapsed().as_secs(), 50);
}

#[tokio::test]
async fn lost_later_round_is_reported_as_possibly_executed() {
    let (hold, held) = tokio::sync::oneshot::channel::<()>();
    let held = std::sync::Arc::new(tokio::sync::Mutex::new(Some(held)));
    let handlers = Handlers::new().on_form(move |_: ServerRequest<ElicitFormParams>| {
        let held = std::sync::Arc::clone(&held);
        async move {
            let held = held.lock().await.take().unwrap();
            let _ = held.await;
            ElicitResult::decline()
        }
    });
    let (client, mut raw) = connect(Era::Modern, handlers, &[]).await;
    let call = tokio::spawn(client.call("x", json!({})).into_future());
    let id = raw.read().await["id"].clone();
    let required = json!({"resultType": "input_required", "inputRequests": {"q": {"method": "elicitation/create",
        "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}}}});
    raw.write(&[json!({"jsonrpc": "2.0", "id": id, "result": required})]).await;
    drop(raw);
    while client.ended().is_none() {
        tokio::task::yield_now().await;
    }
    hold.send(()).unwrap();
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Lost { sent: Sent::Maybe, .. }), "{error:?}");
    assert!(error.may_have_happened() && !error.is_retry_safe());
}

#[test]
fn a_call_whose_runtime_is_gone_ends() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (client, raw) = runtime.block_on(connect(Era::Modern, Handlers::new(), &[]));
    drop(runtime);
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let error = other.block_on(client.call("x", json!({})).into_future()).unwrap_err();
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    drop(raw);
}

/// Panics when it reads the word `panic`.
struct PanickingReader(ReadHalf<DuplexStream>);

impl AsyncRead for PanickingReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.0).poll_read(cx, buf);
        assert!(!buf.filled()[before..].windows(5).any(|word| word == b"panic"), "as the test demands");
        read
    }
}

#[tokio::test]
async fn panicking_driver_ends_the_connection_with_internal() {
    for era in [Era::Legacy, Era::Modern] {
        let (client, mut raw) = connect_reading(era, Handlers::new(), &[], PanickingReader).await;
        let call = tokio::spawn(client.call("x", json!({})).into_future());
        raw.read().await;
        raw.write(&[json!("panic")]).await;
        let error = call.await.unwrap().unwrap_err();
        let Error::Lost { sent: Sent::Maybe, ended, .. } = &error else { panic!("{error:?}") };
        assert_eq!(ended.cause, EndCause::Internal);
        assert!(error.to_string().contains("internal error"), "{error}");
    }
}

#[tokio::test]
async fn long_log_is_dropped_and_long_progress_message_truncated() {
    let (client, mut raw) = connect(Era::Legacy, Handlers::new(), &[]).await;
    let mut logs = client.log_messages();
    let call = client.call("x", json!({})).running();
    let call = tokio::spawn(async move {
        let mut call = call;
        (call.progress().await, call.outcome().await)
    });
    let request = raw.read().await;
    let token = &request["params"]["_meta"]["progressToken"];
    let long = "\u{e9}".repeat(1 << 20);
    raw.write(&[
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": long}}),
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "short"}}),
        json!({"jsonrpc": "2.0", "method": "notifications/progress",
            "params": {"progressToken": token, "progress": 1, "message": long}}),
        json!({"jsonrpc": "2.0", "id": request["id"], "result": {"content": []}}),
    ])
    .await;
    let (step, outcome) = call.await.unwrap();
    assert_eq!(step.unwrap().message.unwrap().len(), 16 << 10);
    outcome.unwrap();
    let Some(mcp_client::FeedItem::Next(message)) = logs.next().await else { panic!("no message") };
    assert_eq!(message.data.to::<String>().unwrap(), "short");
}

#[tokio::test(start_paused = true)]
async fn total_timeout_ends_a_call_that_is_only_deferred() {
    let (client, mut raw) = connect(Era::Modern, Handlers::new(), &[]).await;
    let call = client.call("x", json!({})).total_timeout(Duration::from_millis(600));
    let call = tokio::spawn(call.into_future());
    for _ in 0..2 {
        let id = raw.read().await["id"].clone();
        let result = json!({"resultType": "input_required", "requestState": "later"});
        raw.write(&[json!({"jsonrpc": "2.0", "id": id, "result": result})]).await;
    }
    let error = call.await.unwrap().unwrap_err();
    let Error::TimedOut { reason: TimeoutReason::Total, after, .. } = error else { panic!("{error:?}") };
    assert!(after >= Duration::from_millis(600), "{after:?}");
}

#[tokio::test]
async fn error_message_text_triggers_no_retry_or_login() {
    for era in [Era::Legacy, Era::Modern] {
        let (client, mut raw) = connect(era, Handlers::new(), &[]).await;
        let call = tokio::spawn(client.call("x", json!({})).into_future());
        let id = raw.read().await["id"].clone();
        let error = json!({"code": -32000, "message": "401 Unauthorized: session invalid, please retry"});
        raw.write(&[json!({"jsonrpc": "2.0", "id": id, "error": error})]).await;
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error:?}");
        assert!(!error.needs_login() && !error.is_retry_safe() && !error.may_have_happened());
        // The next that arrives is the next that was asked.
        let ping = tokio::spawn(async move { client.ping().await });
        assert_ne!(raw.read().await["method"], "tools/call");
        ping.abort();
    }
}

#[tokio::test]
async fn tool_name_and_arguments_are_sent_unchanged() {
    let (client, mut raw) = connect(Era::Legacy, Handlers::new(), &[]).await;
    let name = "my-tool.v2/\u{e9}_A";
    let call = tokio::spawn(client.call(name, json!({"a-b": [1, "x"]})).into_future());
    let request = raw.read().await;
    assert_eq!(request["params"]["name"], name);
    assert_eq!(request["params"]["arguments"], json!({"a-b": [1, "x"]}));
    call.abort();
}

#[tokio::test(start_paused = true)]
async fn list_answered_with_an_unknown_id_times_out_after_30_seconds() {
    let (client, mut raw) = connect(Era::Legacy, Handlers::new(), &[]).await;
    let began = tokio::time::Instant::now();
    let stats = client.clone();
    let list = tokio::spawn(async move { client.list_tools().await });
    raw.read().await;
    raw.write(&[json!({"jsonrpc": "2.0", "id": 4711, "result": {"tools": []}})]).await;
    let error = list.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::TimedOut { reason: TimeoutReason::Idle, .. }), "{error:?}");
    assert_eq!(began.elapsed().as_secs(), 30);
    assert_eq!(stats.stats().unknown, 1);
}

#[tokio::test]
async fn lost_connection_error_says_whether_request_was_sent() {
    for era in [Era::Legacy, Era::Modern] {
        let (client, raw) = connect(era, Handlers::new(), &[]).await;
        // The driver has not seen yet that the other side is gone.
        drop(raw);
        assert!(client.ended().is_none());
        let error = client.call("x", json!({})).await.unwrap_err();
        assert!(matches!(error, Error::Lost { sent: Sent::No, .. }) && error.is_retry_safe(), "{error:?}");

        let (client, raw) = connect(era, Handlers::new(), &[]).await;
        let call = tokio::spawn(client.call("x", json!({})).into_future());
        tokio::task::yield_now().await;
        drop(raw);
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Lost { sent: Sent::Maybe, .. }), "{error:?}");
        assert!(error.may_have_happened() && !error.is_retry_safe());
    }
}
