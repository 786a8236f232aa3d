//! An HTTP server whose responses are scripted: raw bytes over real sockets, without the codecs under test.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_client::{McpClient, ServerConfig};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::support::harmless;

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) verb: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
    pub(crate) at: tokio::time::Instant,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The method of the message, or the verb if there is none.
    pub(crate) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or(&self.verb)
    }

    /// Returns a response with a result for this request.
    pub(crate) fn result(&self, result: Value) -> Say {
        Say::json(200, &json!({"jsonrpc": "2.0", "id": self.body["id"], "result": result}))
    }

    /// Returns a response with a JSON-RPC error for this request.
    pub(crate) fn error(&self, status: u16, code: i64, message: &str) -> Say {
        let error = json!({"code": code, "message": message});
        Say::json(status, &json!({"jsonrpc": "2.0", "id": self.body["id"], "error": error}))
    }

    /// Returns a result for this request as an event.
    pub(crate) fn event(&self, result: Value) -> String {
        event(&json!({"jsonrpc": "2.0", "id": self.body["id"], "result": result}))
    }
}

/// A scripted response.
#[derive(Clone, Debug)]
pub(crate) enum Say {
    /// The whole response; the connection is kept open.
    Whole(Vec<u8>),
    /// The pieces of a response, after which the connection is closed.
    Pieces(Vec<Piece>),
}

#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Bytes(Vec<u8>),
    Wait(Duration),
    /// Waits until the client closes the connection.
    UntilGone,
}

impl Say {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::status(status, &[("content-type", "application/json")], &body.to_string())
    }

    pub(crate) fn status(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let mut text = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        Self::Whole(format!("{text}\r\n{body}").into_bytes())
    }

    pub(crate) fn nothing() -> Self {
        Self::Pieces(Vec::new())
    }

    pub(crate) fn raw(text: impl Into<Vec<u8>>) -> Self {
        Self::Pieces(vec![Piece::Bytes(text.into())])
    }

    /// A stream of events, after which the connection is closed.
    pub(crate) fn stream(pieces: impl IntoIterator<Item = Piece>) -> Self {
        let head = b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\r\n".to_vec();
        Self::Pieces(std::iter::once(Piece::Bytes(head)).chain(pieces).collect())
    }

    pub(crate) fn accepted() -> Self {
        Self::status(202, &[], "")
    }
}

impl From<String> for Piece {
    fn from(text: String) -> Self {
        Self::Bytes(text.into_bytes())
    }
}

pub(crate) fn event(message: &Value) -> String {
    format!("data: {message}\n\n")
}

/// Returns the response to each request.
pub(crate) type Script = Arc<dyn Fn(&Seen) -> Say + Send + Sync>;

/// A server on a port of its own.
pub(crate) struct Web {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    serving: JoinSet<()>,
}

impl Web {
    pub(crate) async fn serve(script: impl Fn(&Seen) -> Say + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::serve_at(listener, script)
    }

    pub(crate) fn serve_at(
        listener: TcpListener,
        script: impl Fn(&Seen) -> Say + Send + Sync + 'static,
    ) -> Self {
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let connections: Arc<AtomicUsize> = Arc::default();
        let open: Arc<AtomicUsize> = Arc::default();
        let script: Script = Arc::new(script);
        let shared = (Arc::clone(&seen), Arc::clone(&connections), Arc::clone(&open));
        let serving = accept_all(listener, move |stream| {
            let (seen, connections, open) = &shared;
            connections.fetch_add(1, Ordering::SeqCst);
            let counted = Counted::new(open);
            let (script, seen) = (Arc::clone(&script), Arc::clone(seen));
            async move {
                let _counted = counted;
                let _ = converse(stream, script, seen).await;
            }
        });
        Self { url, seen, connections, open, serving }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Returns the methods of all requests, in order.
    pub(crate) fn methods(&self) -> Vec<String> {
        self.seen().iter().map(|seen| seen.method().to_owned()).collect()
    }

    pub(crate) fn count(&self, method: &str) -> usize {
        self.methods().iter().filter(|seen| *seen == method).count()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// The number of open connections, for other threads.
    pub(crate) fn open(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.open)
    }

    /// Waits until every connection is closed.
    pub(crate) async fn is_left(&self) {
        let until = tokio::time::Instant::now() + Duration::from_secs(5);
        while self.open.load(Ordering::SeqCst) > 0 {
            assert!(tokio::time::Instant::now() < until, "a connection is still open");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) async fn end(mut self) {
        self.serving.shutdown().await;
    }
}

/// Accepts connections until the set is dropped, each with a task of its own.
pub(crate) fn accept_all<Fut: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    converse: impl Fn(TcpStream) -> Fut + Send + 'static,
) -> JoinSet<()> {
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            connections.spawn(converse(stream));
        }
    });
    serving
}

/// Counts one open connection for as long as it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(open))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn converse(mut stream: TcpStream, script: Script, all: Arc<Mutex<Vec<Seen>>>) -> std::io::Result<()> {
    loop {
        let Some(seen) = read_request(&mut stream).await? else { return Ok(()) };
        all.lock().unwrap().push(seen.clone());
        match script(&seen) {
            Say::Whole(bytes) => stream.write_all(&bytes).await?,
            Say::Pieces(pieces) => {
                for piece in pieces {
                    match piece {
                        Piece::Bytes(bytes) => stream.write_all(&bytes).await?,
                        Piece::Wait(time) => tokio::time::sleep(time).await,
                        Piece::UntilGone => {
                            let mut rest = [0; 1024];
                            while stream.read(&mut rest).await? > 0 {}
                        }
                    }
                    stream.flush().await?;
                }
                return stream.shutdown().await;
            }
        }
    }
}

/// Reads one HTTP request. `None` if the client has closed the connection.
pub(crate) async fn read_request(stream: &mut TcpStream) -> std::io::Result<Option<Seen>> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    let mut body = bytes[end + 4..].to_vec();
    while body.len() < length {
        if stream.read_buf(&mut body).await? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(Seen {
        verb: first.next().unwrap_or_default(),
        path: first.next().unwrap_or_default(),
        headers,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        at: tokio::time::Instant::now(),
    }))
}

/// The responses of a modern server to requests that are not under test.
pub(crate) fn modern(seen: &Seen) -> Say {
    match seen.method() {
        "server/discover" => seen.result(json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {"listChanged": true}, "resources": {}, "prompts": {}, "logging": {}},
        })),
        "tools/list" => seen.result(json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "tools": [{"name": "echo", "inputSchema": {"type": "object"}}],
        })),
        "tools/call" => seen.result(json!({
            "resultType": "complete",
            "content": [{"type": "text", "text": seen.body["params"]["arguments"]["text"].as_str().unwrap_or("")}],
        })),
        "resources/read" => seen.result(json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "contents": [{"uri": "a:b", "text": "content"}],
        })),
        _ if seen.verb == "POST" => seen.error(404, -32601, "no such method"),
        _ => Say::status(405, &[("allow", "POST")], ""),
    }
}

/// The responses of a legacy server to requests that are not under test. Its session has this id.
pub(crate) fn legacy(seen: &Seen, session: &str) -> Say {
    match seen.method() {
        "server/discover" => Say::status(400, &[], "Bad Request: no session"),
        "initialize" => {
            let version = &seen.body["params"]["protocolVersion"];
            let result = json!({
                "protocolVersion": version, "serverInfo": {"name": "web", "version": "1"},
                "capabilities": {"tools": {"listChanged": true}, "resources": {"subscribe": true}, "logging": {}},
            });
            let body = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result}).to_string();
            Say::status(200, &[("content-type", "application/json"), ("Mcp-Session-Id", session)], &body)
        }
        _ if seen.header("mcp-session-id") != Some(session) => {
            Say::json(404, &json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32001, "message": "Session not found"}}))
        }
        "tools/list" => seen.result(json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})),
        "tools/call" => seen.result(json!({
            "content": [{"type": "text", "text": seen.body["params"]["arguments"]["text"].as_str().unwrap_or("")}],
        })),
        "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" | "ping" => seen.result(json!({})),
        "DELETE" => Say::status(204, &[], ""),
        "GET" => Say::status(405, &[], ""),
        _ if seen.body["id"].is_null() || seen.body.get("result").is_some() || seen.body.get("error").is_some() => {
            Say::accepted()
        }
        _ => seen.error(200, -32601, "no such method"),
    }
}

pub(crate) async fn connect(web: &Web) -> McpClient {
    McpClient::connect(ServerConfig::url(&web.url)).await.unwrap()
}

pub(crate) async fn echo(client: &McpClient, text: &str) -> mcp_client::Result<String> {
    let call = client.call("echo", json!({"text": text}));
    Ok(tokio::time::timeout(Duration::from_secs(8), call).await.expect("it hangs")?.text())
}

/// Runs a test against a scripted server, and asserts that no connection, process or task is left.
pub(crate) async fn against<Fut: Future<Output = ()>>(
    script: impl Fn(&Seen) -> Say + Send + Sync + 'static,
    test: impl FnOnce(Arc<Web>) -> Fut,
) {
    harmless(async {
        let web = Arc::new(Web::serve(script).await);
        test(Arc::clone(&web)).await;
        web.is_left().await;
        Arc::into_inner(web).unwrap().end().await;
    })
    .await;
}

/// A modern server whose response to a tool call is scripted.
pub(crate) fn calling(
    answer: impl Fn(&Seen) -> Say + Send + Sync + 'static,
) -> impl Fn(&Seen) -> Say + Send + Sync {
    move |seen| if seen.method() == "tools/call" { answer(seen) } else { modern(seen) }
}

/// A modern server whose response to the first tool call is scripted.
pub(crate) fn first(
    answer: impl Fn(&Seen) -> Say + Send + Sync + 'static,
) -> impl Fn(&Seen) -> Say + Send + Sync {
    let calls = AtomicUsize::new(0);
    calling(move |seen| if calls.fetch_add(1, Ordering::SeqCst) == 0 { answer(seen) } else { modern(seen) })
}

/// A legacy server whose sessions are `s1`, `s2` and so on, and which forgets the first when a tool is called in it.
pub(crate) fn forgetful(
    forgotten: Say,
    otherwise: impl Fn(&Seen, &str) -> Say + Send + Sync + 'static,
) -> impl Fn(&Seen) -> Say + Send + Sync {
    let sessions = AtomicUsize::new(0);
    move |seen| {
        if seen.method() == "initialize" {
            sessions.fetch_add(1, Ordering::SeqCst);
        }
        let session = format!("s{}", sessions.load(Ordering::SeqCst));
        let is_old = seen.header("mcp-session-id") == Some("s1") && seen.method() == "tools/call";
        if is_old { forgotten.clone() } else { otherwise(seen, &session) }
    }
}
