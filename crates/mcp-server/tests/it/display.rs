//! Text of a client is escaped and truncated in errors and log lines.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_server::http::HttpOptions;
use mcp_server::{AskError, Context, McpServer, NoArgs, tool};
use serde_json::json;
use tower_service::Service;

/// Text that clears the screen, forges a log line and reverses the writing direction.
const HOSTILE_TEXT: &str = "\u{1b}[2J\r\nINFO forged\u{9b}31m\u{202e}\u{2028}\u{200b}";
/// The maximum length of an error or a log line.
const MAX_SHOWN_BYTES: usize = 10_000;

#[track_caller]
fn assert_harmless(shown: &str) {
    let bad = shown.chars().find(|c| c.is_control() || matches!(c, '\u{200b}' | '\u{202e}' | '\u{2028}'));
    let beginning: String = shown.chars().take(200).collect();
    assert_eq!(bad, None, "{beginning:?}");
    assert!(shown.len() <= MAX_SHOWN_BYTES, "{} bytes: {beginning}", shown.len());
}

/// A subscriber that records events and spans as text.
#[derive(Clone, Default)]
pub(crate) struct LogLines(pub(crate) Arc<Mutex<Vec<String>>>);

struct Text(String);

impl tracing::field::Visit for Text {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!(" {}={value:?}", field.name());
    }

    fn record_str(&mut self, field: &tracing::field::Field, value: &str) {
        self.0 += &format!(" {}={value}", field.name());
    }
}

impl tracing::Subscriber for LogLines {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("mcp_")
    }

    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        let mut text = Text("span".to_owned());
        span.record(&mut text);
        self.0.lock().unwrap().push(text.0);
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = Text("event".to_owned());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn client_text_is_logged_escaped_and_truncated() {
    let server = McpServer::named("quiet", "1").tool(tool("wait", |_: NoArgs, cx: Context| async move {
        cx.progress(1.0, None);
        "done"
    }));
    let service = server.into_http_service(HttpOptions::default()).unwrap();
    let log = LogLines::default();
    let guard = tracing::subscriber::set_default(log.clone());
    let params = json!({"name": "wait", "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
        "traceparent": HOSTILE_TEXT.repeat(1000),
    }});
    let body =
        json!({"jsonrpc": "2.0", "id": HOSTILE_TEXT, "method": "tools/call", "params": params}).to_string();
    let long = "h".repeat(20_000);
    for (host, origin) in
        [("localhost", None), (&*long, None), ("localhost", Some(format!("https://{long}")))]
    {
        let mut request = Request::post("/mcp")
            .header("host", host)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", "wait");
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        let request = request.body(Full::new(Bytes::from(body.clone()))).unwrap();
        let _ = service.clone().call(request).await.unwrap();
    }
    drop(guard);
    let lines = log.0.lock().unwrap().clone();
    for part in ["span method=tools/call", "host=hhh", "origin=https://hhh"] {
        assert!(lines.iter().any(|line| line.contains(part)), "{part}: {lines:.300?}");
    }
    lines.iter().for_each(|line| assert_harmless(line));
}

#[test]
fn error_of_a_client_is_displayed_escaped_and_truncated() {
    let error = ErrorObject::new(ErrorCode::InternalError, HOSTILE_TEXT.repeat(10_000));
    assert_harmless(&AskError::Refused(Box::new(error)).to_string());
    assert_harmless(&AskError::Malformed(HOSTILE_TEXT.repeat(10_000)).to_string());
}
