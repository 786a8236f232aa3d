//! The built-in listener over real sockets, with slow, silent and too many clients.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mcp_server::http::HttpOptions;
use mcp_server::{Error, McpServer, NoArgs, tool};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

fn server() -> McpServer {
    McpServer::named("served", "1")
        .tool(tool("echo", || async { "hi" }))
        .tool(tool("large", || async { "x".repeat(4 << 20) }))
        .tool(tool("huge", || async { "x".repeat(64 << 20) }))
        .tool(tool("late", |_: NoArgs, cx: mcp_server::Context| async move {
            cx.progress(1.0, None);
            tokio::time::sleep(Duration::from_millis(1)).await;
            "x".repeat(8 << 20)
        }))
        .tool(tool("soon", || async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            "done"
        }))
        .tool(tool("steps", |_: NoArgs, cx: mcp_server::Context| async move {
            let _running = RunningCall::new();
            cx.progress(1.0, None);
            std::future::pending::<()>().await;
        }))
        .tool(tool("grow", |_: NoArgs, cx: mcp_server::Context| async move {
            cx.registry().add_tool(tool("grown", || async {})).unwrap();
        }))
}

static RUNNING_CALLS: AtomicUsize = AtomicUsize::new(0);

/// Counts a running call in `RUNNING_CALLS` until it is dropped.
struct RunningCall;

impl RunningCall {
    fn new() -> Self {
        RUNNING_CALLS.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        RUNNING_CALLS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A server on a local port.
struct Listener {
    address: SocketAddr,
    end: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), Error>>,
}

impl Listener {
    async fn new(options: HttpOptions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (end, ended) = oneshot::channel();
        let shutdown = async { drop(ended.await) };
        let serving = tokio::spawn(server().serve_listener(listener, options, shutdown));
        Self { address, end, serving }
    }

    async fn request(&self, head: &str, body: &str) -> SocketResponse {
        let host = format!("{head}\r\nHost: {}", self.address);
        self.request_of(&host, body).await
    }

    async fn request_of(&self, head: &str, body: &str) -> SocketResponse {
        let mut stream = BufReader::new(TcpStream::connect(self.address).await.unwrap());
        let length = body.len();
        let text =
            format!("{head}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(text.as_bytes()).await.unwrap();
        SocketResponse::read_head(stream).await
    }

    async fn post(&self, path: &str, message: &Value) -> SocketResponse {
        self.request(&format!("POST {path} HTTP/1.1"), &message.to_string()).await
    }
}

/// The response to one request.
struct SocketResponse {
    status: u16,
    session: Option<String>,
    stream: BufReader<TcpStream>,
    /// The received bytes of a chunked body.
    read: Vec<u8>,
}

impl SocketResponse {
    async fn read_head(mut stream: BufReader<TcpStream>) -> Self {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let mut session = None;
        while !line.trim().is_empty() {
            line.clear();
            stream.read_line(&mut line).await.unwrap();
            if let Some((name, value)) = line.split_once(": ")
                && name.eq_ignore_ascii_case("mcp-session-id")
            {
                session = Some(value.trim().to_owned());
            }
        }
        Self { status, session, stream, read: Vec::new() }
    }

    /// Reads one more chunk. Returns false at the end.
    async fn chunk(&mut self) -> bool {
        let mut size = String::new();
        self.stream.read_line(&mut size).await.unwrap_or(0);
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        let mut chunk = vec![0; size + 2];
        let is_whole = size > 0 && self.stream.read_exact(&mut chunk).await.is_ok();
        self.read.extend_from_slice(&chunk[..size]);
        is_whole
    }

    /// Returns the value of the next SSE field with this name; `None` at the end of the stream.
    async fn field(&mut self, name: &str) -> Option<String> {
        let mut searched = 0;
        loop {
            while let Some(end) = self.read[searched..].iter().position(|byte| *byte == b'\n') {
                let rest = self.read.split_off(searched + end + 1);
                let line = String::from_utf8(std::mem::replace(&mut self.read, rest)).unwrap();
                searched = 0;
                if let Some(value) = line.strip_prefix(name) {
                    return Some(value.trim().to_owned());
                }
            }
            searched = self.read.len();
            let chunk = tokio::time::timeout(Duration::from_secs(10), self.chunk());
            if !chunk.await.expect("no chunk within 10 s") {
                return None;
            }
        }
    }

    async fn message(&mut self) -> Value {
        loop {
            let data = self.field("data:").await.unwrap();
            if !data.is_empty() {
                return serde_json::from_str(&data).unwrap();
            }
        }
    }
}

fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn initialize() -> Value {
    let params = json!({"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}});
    request(1, "initialize", params)
}

#[tokio::test]
async fn http_sse_transport_is_served_beside_streamable_http() {
    let listener = Listener::new(HttpOptions::default().with_http_sse()).await;
    let mut events = listener.request("GET /sse HTTP/1.1", "").await;
    assert_eq!(events.status, 200);
    assert_eq!(events.field("event:").await.unwrap(), "endpoint");
    let endpoint = events.field("data:").await.unwrap();
    // Line breaks between JSON tokens are allowed.
    let pretty = serde_json::to_string_pretty(&initialize()).unwrap();
    assert_eq!(listener.request(&format!("POST {endpoint} HTTP/1.1"), &pretty).await.status, 202);
    let answer = events.message().await;
    assert_eq!(answer["result"]["protocolVersion"], "2024-11-05");
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(listener.post(&endpoint, &initialized).await.status, 202);
    listener.post(&endpoint, &request(2, "tools/call", json!({"name": "echo"}))).await;
    let answer = events.message().await;
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(2), &json!("hi")));
    listener.post(&endpoint, &request(3, "tools/call", json!({"name": "grow"}))).await;
    let mut seen = [events.message().await, events.message().await];
    seen.sort_by_key(|message| message["id"].is_number());
    assert_eq!(seen[0]["method"], "notifications/tools/list_changed");
    assert_eq!(seen[1]["id"], json!(3));
    // Streamable HTTP is served at its own path.
    assert_eq!(listener.post("/mcp", &initialize()).await.status, 200);

    drop(events);
    let started = Instant::now();
    while listener.post(&endpoint, &request(4, "ping", json!({}))).await.status != 404 {
        assert!(started.elapsed() < Duration::from_secs(5), "the session outlives its stream");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn http_sse_is_off_by_default_and_refuses_invalid_requests() {
    let listener = Listener::new(HttpOptions::default().with_http_sse().streams(1)).await;
    let call = request(1, "ping", json!({}));
    assert_eq!(listener.post("/messages", &call).await.status, 400);
    assert_eq!(listener.post("/messages?sessionId=unknown", &call).await.status, 404);
    assert_eq!(listener.post("/sse", &call).await.status, 405);
    let mut events = listener.request("GET /sse HTTP/1.1", "").await;
    let head = format!("POST {} HTTP/1.1", events.field("data:").await.unwrap());
    for invalid in ["", "\n\n", "{half", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\nng\"}"] {
        assert_eq!(listener.request(&head, invalid).await.status, 400, "{invalid:?}");
    }
    drop(events);
    for (path, verb) in [("/sse", "GET"), ("/messages?sessionId=x", "POST"), ("/mcp", "POST")] {
        let head = format!("{verb} {path} HTTP/1.1\r\nHost: evil.example");
        assert_eq!(listener.request_of(&head, "").await.status, 403, "{path}");
    }
    let listener = Listener::new(HttpOptions::default().with_http_sse().streams(1)).await;
    let _one = listener.request("GET /sse HTTP/1.1", "").await;
    assert_eq!(listener.request("GET /sse HTTP/1.1", "").await.status, 503);

    let listener = Listener::new(HttpOptions::default()).await;
    assert_eq!(listener.request("GET /sse HTTP/1.1", "").await.status, 404);
}

#[tokio::test]
async fn non_loopback_address_is_refused_without_opt_in() {
    let everywhere = "0.0.0.0:0".parse().unwrap();
    for refused in [server().serve_http(everywhere).await, server().serve_sse(everywhere).await] {
        let error = refused.unwrap_err();
        assert!(error.to_string().contains("not a loopback address"), "{error}");
    }
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let options = HttpOptions::default().beyond_loopback_without_authorization();
    server().serve_listener(listener, options, async {}).await.unwrap();

    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let error = server().serve_http(taken.local_addr().unwrap()).await.unwrap_err();
    assert!(matches!(error, Error::Bind { .. }), "{error}");
    assert!(error.to_string().contains("in use"), "{error}");
    assert!(std::error::Error::source(&error).is_none());
}

#[tokio::test]
async fn connection_over_the_limit_is_answered_with_503() {
    let listener = Listener::new(HttpOptions::default().connections(1)).await;
    let first = listener.post("/mcp", &initialize()).await;
    assert_eq!(first.status, 200);
    let mut late = TcpStream::connect(listener.address).await.unwrap();
    let mut response = String::new();
    late.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 503"), "{response}");
    drop(first);
    // The connection is free again when the server has noticed the disconnect.
    let started = Instant::now();
    while listener.post("/mcp", &initialize()).await.status != 200 {
        assert!(started.elapsed() < Duration::from_secs(5), "the connection was not freed");
    }
}

#[tokio::test]
async fn slow_headers_and_bodies_time_out() {
    let short = Duration::from_millis(100);
    let listener = Listener::new(HttpOptions::default().header_time(short).body_time(short)).await;
    let mut slow = TcpStream::connect(listener.address).await.unwrap();
    slow.write_all(b"POST /mcp HTTP/1.1\r\nHost: loc").await.unwrap();
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(5), slow.read_to_end(&mut rest)).await;
    assert!(closed.is_ok(), "reading the headers has no timeout");

    let mut stream = TcpStream::connect(listener.address).await.unwrap();
    let head =
        format!("POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n", listener.address);
    stream.write_all(format!("{head}Content-Length: 100\r\n\r\n{{").as_bytes()).await.unwrap();
    assert_eq!(SocketResponse::read_head(BufReader::new(stream)).await.status, 408);
}

#[tokio::test]
async fn shutdown_ends_listen_streams_with_a_result_without_delay() {
    let listener = Listener::new(HttpOptions::default().with_http_sse()).await;
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let listen = request(
        7,
        "subscriptions/listen",
        json!({"_meta": meta, "notifications": {"toolsListChanged": true}}),
    );
    let head = "POST /mcp HTTP/1.1\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen";
    let mut stream = listener.request(head, &listen.to_string()).await;
    assert_eq!(stream.message().await["method"], "notifications/subscriptions/acknowledged");
    let mut events = listener.request("GET /sse HTTP/1.1", "").await;
    events.field("data:").await.unwrap();

    let started = Instant::now();
    listener.end.send(()).unwrap();
    let result = stream.message().await;
    assert_eq!(result["id"], json!(7));
    assert_eq!(result["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], json!(7));
    assert_eq!(events.field("data:").await, None);
    listener.serving.await.unwrap().unwrap();
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[tokio::test]
async fn connection_of_a_client_that_does_not_read_is_closed() {
    let listener = Listener::new(HttpOptions::default().write_time(Duration::from_millis(100))).await;
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let call = request(7, "tools/call", json!({"_meta": meta, "name": "huge"})).to_string();
    let head =
        "POST /mcp HTTP/1.1\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: huge";
    let mut unread = listener.request(head, &call).await.stream;
    // Longer than the write timeout.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut read = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(10), unread.read_to_end(&mut read)).await;
    assert!(end.is_ok(), "the connection stays open");
    assert!(read.len() < 64 << 20, "the whole response was buffered for a client that did not read");
}

#[tokio::test]
async fn http_sse_calls_get_a_grace_period_at_shutdown() {
    let listener = Listener::new(HttpOptions::default().with_http_sse()).await;
    let mut events = listener.request("GET /sse HTTP/1.1", "").await;
    let endpoint = events.field("data:").await.unwrap();
    listener.post(&endpoint, &initialize()).await;
    events.message().await;
    listener.post(&endpoint, &request(2, "tools/call", json!({"name": "soon"}))).await;
    listener.end.send(()).unwrap();
    assert_eq!(events.message().await["result"]["content"][0]["text"], "done");
    assert_eq!(events.field("data:").await, None);
}

#[tokio::test]
async fn http_sse_message_is_written_whole_or_not_at_all() {
    let short = HttpOptions::default().with_http_sse().body_time(Duration::from_millis(200));
    let listener = Listener::new(short).await;
    let mut events = listener.request("GET /sse HTTP/1.1", "").await;
    let endpoint = events.field("data:").await.unwrap();
    listener.post(&endpoint, &initialize()).await;
    events.message().await;
    // The events are not read, so that messages are refused at some point.
    let padded = json!({"name": "large", "_meta": {"padding": "x".repeat(600_000)}});
    let mut id = 2;
    while listener.post(&endpoint, &request(id, "tools/call", padded.clone())).await.status == 202 {
        id += 1;
        assert!(id < 100, "no message is refused");
    }
    // When the client reads again, it receives one complete response for each accepted message.
    let mut answered = Vec::new();
    while answered.len() < id as usize - 2 {
        let message = events.message().await;
        assert!(message["error"].is_null(), "{}", message["error"]);
        answered.push(message["id"].as_u64().unwrap());
    }
    assert_eq!(listener.post(&endpoint, &request(777, "ping", json!({}))).await.status, 202);
    assert_eq!(events.message().await["id"], json!(777));
}

#[tokio::test]
async fn legacy_calls_end_with_the_server() {
    let listener = Listener::new(HttpOptions::default()).await;
    let mut stream = TcpStream::connect(listener.address).await.unwrap();
    let body = initialize().to_string().replace("2024-11-05", "2025-11-25");
    let head =
        format!("POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n", listener.address);
    stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
    let mut lines = BufReader::new(stream).lines();
    let session = loop {
        let line = lines.next_line().await.unwrap().unwrap();
        if let Some(id) = line.to_ascii_lowercase().strip_prefix("mcp-session-id:") {
            break line[line.len() - id.trim().len()..].trim().to_owned();
        }
    };
    let call = request(5, "tools/call", json!({"name": "steps", "_meta": {"progressToken": 1}})).to_string();
    let head = format!("POST /mcp HTTP/1.1\r\nMcp-Session-Id: {session}");
    let mut streaming = listener.request(&head, &call).await;
    streaming.message().await;
    drop(streaming);
    assert_eq!(RUNNING_CALLS.load(Ordering::SeqCst), 1);
    drop(lines);
    listener.end.send(()).unwrap();
    listener.serving.await.unwrap().unwrap();
    let started = Instant::now();
    while RUNNING_CALLS.load(Ordering::SeqCst) > 0 {
        assert!(started.elapsed() < Duration::from_secs(5), "the call outlives the server");
        tokio::task::yield_now().await;
    }
}

/// Returns the resident memory of this process in MiB.
#[cfg(target_os = "linux")]
fn resident_mib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<usize>().unwrap() >> 10
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn http_sse_session_stays_within_its_memory() {
    let listener = Listener::new(HttpOptions::default().with_http_sse().memory(8 << 20)).await;
    let before = resident_mib();
    let mut sessions = Vec::new();
    for number in 0..40 {
        let mut events = listener.request("GET /sse HTTP/1.1", "").await;
        let endpoint = events.field("data:").await.unwrap();
        let long = "x".repeat(4_000_000);
        if number % 2 == 0 {
            // Oversized client info is refused.
            let text = initialize()
                .to_string()
                .replace("\"clientInfo\":{", &format!("\"clientInfo\":{{\"title\":\"{long}\","));
            listener.request(&format!("POST {endpoint} HTTP/1.1"), &text).await;
            assert_eq!(events.message().await["error"]["code"], json!(-32602));
        } else {
            // An answered message holds no memory.
            listener.post(&endpoint, &initialize()).await;
            events.message().await;
            listener.post(&endpoint, &request(1, "ping", json!({"padding": long}))).await;
            events.message().await;
        }
        sessions.push(events);
    }
    let grown = resident_mib() - before;
    assert!(grown < 80, "{grown} MiB for 40 clients with a limit of 8 MiB");
}

#[tokio::test]
async fn full_http_sse_session_still_accepts_cancellations() {
    let options = HttpOptions::default().with_http_sse().session_memory(100 << 10);
    let listener = Listener::new(options).await;
    let mut events = listener.request("GET /sse HTTP/1.1", "").await;
    let endpoint = events.field("data:").await.unwrap();
    listener.post(&endpoint, &initialize()).await;
    events.message().await;
    let params = json!({"name": "steps", "_meta": {"progressToken": 1, "padding": "x".repeat(200 << 10)}});
    assert_eq!(listener.post(&endpoint, &request(5, "tools/call", params)).await.status, 202);
    events.message().await;
    assert_eq!(listener.post(&endpoint, &request(6, "ping", json!({}))).await.status, 503);
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}});
    assert_eq!(listener.post(&endpoint, &cancelled).await.status, 202);
    let start = Instant::now();
    while listener.post(&endpoint, &request(7, "ping", json!({}))).await.status != 202 {
        assert!(start.elapsed() < Duration::from_secs(5), "the session stays full");
    }
}

/// Events that hyper buffers for clients that do not read also count.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn memory_of_unread_resumed_streams_is_limited() {
    let options = HttpOptions::default().memory(64 << 20).session_memory(40 << 20);
    let listener = Listener::new(options).await;
    let body = initialize().to_string().replace("2024-11-05", "2025-11-25");
    let session = listener.request("POST /mcp HTTP/1.1", &body).await.session.unwrap();
    let call = request(1, "tools/call", json!({"name": "late", "_meta": {"progressToken": 1}}));
    let head = format!("POST /mcp HTTP/1.1\r\nMcp-Session-Id: {session}");
    let mut first = listener.request(&head, &call.to_string()).await;
    while first.message().await["id"] != json!(1) {}
    let before = resident_mib();
    let (mut held, mut refused) = (Vec::new(), 0);
    for _ in 0..60 {
        let head = format!(
            "GET /mcp HTTP/1.1\r\nAccept: text/event-stream\r\nMcp-Session-Id: {session}\r\nLast-Event-ID: 1-0"
        );
        let answer = listener.request(&head, "").await;
        refused += usize::from(answer.status == 503);
        held.push(answer);
    }
    let grown = resident_mib() - before;
    assert!(refused > 0 && grown < 100, "{grown} MiB with a limit of 64, {refused} refused");
}

#[tokio::test]
async fn cross_site_page_cannot_open_an_http_sse_stream() {
    let listener = Listener::new(HttpOptions::default().with_http_sse()).await;
    for (site, status) in [("cross-site", 403), ("same-site", 403), ("none", 200), ("same-origin", 200)] {
        let answer = listener.request(&format!("GET /sse HTTP/1.1\r\nSec-Fetch-Site: {site}"), "").await;
        assert_eq!(answer.status, status, "{site}");
    }
}

#[tokio::test]
async fn deleted_session_ends_its_event_stream_over_a_socket() {
    let listener = Listener::new(HttpOptions::default()).await;
    let body = initialize().to_string().replace("2024-11-05", "2025-11-25");
    let session = listener.request("POST /mcp HTTP/1.1", &body).await.session.unwrap();
    let head = format!("GET /mcp HTTP/1.1\r\nAccept: text/event-stream\r\nMcp-Session-Id: {session}");
    let mut events = listener.request(&head, "").await;
    assert_eq!(events.status, 200);
    let deleted = listener.request(&format!("DELETE /mcp HTTP/1.1\r\nMcp-Session-Id: {session}"), "").await;
    assert_eq!(deleted.status, 204);
    assert_eq!(events.field("data:").await, None);
}
