//! The server listens itself: over real sockets, with clients that are slow, silent or too many.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mcp_server::http::HttpOptions;
use mcp_server::{Error, McpServer, NoArgs, tool};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

fn server() -> McpServer {
    McpServer::named("served", "1").tool(tool("echo", || async { "hi" })).tool(tool(
        "grow",
        |_: NoArgs, cx: mcp_server::Context| async move {
            cx.registry().add_tool(tool("grown", || async {})).unwrap();
        },
    ))
}

struct Served {
    address: SocketAddr,
    end: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), Error>>,
}

impl Served {
    async fn new(options: HttpOptions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (end, ended) = oneshot::channel();
        let shutdown = async { drop(ended.await) };
        let serving = tokio::spawn(server().serve_listener(listener, options, shutdown));
        Self { address, end, serving }
    }

    async fn request(&self, head: &str, body: &str) -> Exchange {
        let host = format!("{head}\r\nHost: {}", self.address);
        self.request_of(&host, body).await
    }

    async fn request_of(&self, head: &str, body: &str) -> Exchange {
        let mut stream = BufReader::new(TcpStream::connect(self.address).await.unwrap());
        let length = body.len();
        let text =
            format!("{head}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(text.as_bytes()).await.unwrap();
        Exchange::begin(stream).await
    }

    async fn post(&self, path: &str, message: &Value) -> Exchange {
        self.request(&format!("POST {path} HTTP/1.1"), &message.to_string()).await
    }
}

/// The answer to one request.
struct Exchange {
    status: u16,
    stream: BufReader<TcpStream>,
}

impl Exchange {
    async fn begin(mut stream: BufReader<TcpStream>) -> Self {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        while !line.trim().is_empty() {
            line.clear();
            stream.read_line(&mut line).await.unwrap();
        }
        Self { status, stream }
    }

    /// The value of the next such field of the stream, or `None` at its end.
    async fn field(&mut self, name: &str) -> Option<String> {
        loop {
            let mut line = String::new();
            let read = tokio::time::timeout(Duration::from_secs(10), self.stream.read_line(&mut line));
            if read.await.expect("nothing came").unwrap_or(0) == 0 {
                return None;
            }
            if let Some(value) = line.strip_prefix(name) {
                return Some(value.trim().to_owned());
            }
        }
    }

    async fn message(&mut self) -> Value {
        serde_json::from_str(&self.field("data:").await.unwrap()).unwrap()
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
async fn s4_21_the_old_pair_is_served_beside_streamable_http() {
    let served = Served::new(HttpOptions::default().with_sse_pair()).await;
    let mut events = served.request("GET /sse HTTP/1.1", "").await;
    assert_eq!(events.status, 200);
    assert_eq!(events.field("event:").await.unwrap(), "endpoint");
    let endpoint = events.field("data:").await.unwrap();
    // Line breaks between the parts of a message mean nothing.
    let pretty = serde_json::to_string_pretty(&initialize()).unwrap();
    assert_eq!(served.request(&format!("POST {endpoint} HTTP/1.1"), &pretty).await.status, 202);
    let answer = events.message().await;
    assert_eq!(answer["result"]["protocolVersion"], "2024-11-05");
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(served.post(&endpoint, &initialized).await.status, 202);
    served.post(&endpoint, &request(2, "tools/call", json!({"name": "echo"}))).await;
    let answer = events.message().await;
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(2), &json!("hi")));
    served.post(&endpoint, &request(3, "tools/call", json!({"name": "grow"}))).await;
    let mut seen = [events.message().await, events.message().await];
    seen.sort_by_key(|message| message["id"].is_number());
    assert_eq!(seen[0]["method"], "notifications/tools/list_changed");
    assert_eq!(seen[1]["id"], json!(3));
    // And the newer transport at its own address.
    assert_eq!(served.post("/mcp", &initialize()).await.status, 200);

    drop(events);
    let started = Instant::now();
    while served.post(&endpoint, &request(4, "ping", json!({}))).await.status != 404 {
        assert!(started.elapsed() < Duration::from_secs(5), "the pair outlives its stream");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn s4_21_the_old_pair_has_its_statuses_and_is_not_there_unless_wanted() {
    let served = Served::new(HttpOptions::default().with_sse_pair().streams(1)).await;
    let call = request(1, "ping", json!({}));
    assert_eq!(served.post("/messages", &call).await.status, 400);
    assert_eq!(served.post("/messages?sessionId=unknown", &call).await.status, 404);
    assert_eq!(served.post("/sse", &call).await.status, 405);
    for (path, verb) in [("/sse", "GET"), ("/messages?sessionId=x", "POST"), ("/mcp", "POST")] {
        let head = format!("{verb} {path} HTTP/1.1\r\nHost: evil.example");
        assert_eq!(served.request_of(&head, "").await.status, 403, "{path}");
    }
    let _one = served.request("GET /sse HTTP/1.1", "").await;
    assert_eq!(served.request("GET /sse HTTP/1.1", "").await.status, 503);

    let served = Served::new(HttpOptions::default()).await;
    assert_eq!(served.request("GET /sse HTTP/1.1", "").await.status, 404);
}

#[tokio::test]
async fn x_24_an_address_beyond_loopback_is_refused_unless_its_owner_says_so() {
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
}

#[tokio::test]
async fn f_36_one_connection_too_many_is_told_to_come_back_later() {
    let served = Served::new(HttpOptions::default().connections(1)).await;
    let first = served.post("/mcp", &initialize()).await;
    assert_eq!(first.status, 200);
    let mut late = TcpStream::connect(served.address).await.unwrap();
    let mut told = String::new();
    late.read_to_string(&mut told).await.unwrap();
    assert!(told.starts_with("HTTP/1.1 503"), "{told}");
    drop(first);
    // The slot is free again once the server has seen it.
    let started = Instant::now();
    while served.post("/mcp", &initialize()).await.status != 200 {
        assert!(started.elapsed() < Duration::from_secs(5), "the slot is lost");
    }
}

#[tokio::test]
async fn f_36_headers_and_bodies_that_drip_are_cut_off() {
    let short = Duration::from_millis(100);
    let served = Served::new(HttpOptions::default().header_time(short).body_time(short)).await;
    let mut drips = TcpStream::connect(served.address).await.unwrap();
    drips.write_all(b"POST /mcp HTTP/1.1\r\nHost: loc").await.unwrap();
    let mut rest = Vec::new();
    let cut = tokio::time::timeout(Duration::from_secs(5), drips.read_to_end(&mut rest)).await;
    assert!(cut.is_ok(), "headers may take for ever");

    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let head =
        format!("POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n", served.address);
    stream.write_all(format!("{head}Content-Length: 100\r\n\r\n{{").as_bytes()).await.unwrap();
    assert_eq!(Exchange::begin(BufReader::new(stream)).await.status, 408);
}

#[tokio::test]
async fn the_end_of_serving_ends_streams_of_changes_with_a_result_and_is_not_held_up_by_them() {
    let served = Served::new(HttpOptions::default().with_sse_pair()).await;
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let listen = request(
        7,
        "subscriptions/listen",
        json!({"_meta": meta, "notifications": {"toolsListChanged": true}}),
    );
    let head = "POST /mcp HTTP/1.1\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen";
    let mut stream = served.request(head, &listen.to_string()).await;
    assert_eq!(stream.message().await["method"], "notifications/subscriptions/acknowledged");
    let mut pair = served.request("GET /sse HTTP/1.1", "").await;
    pair.field("data:").await.unwrap();

    let started = Instant::now();
    served.end.send(()).unwrap();
    let result = stream.message().await;
    assert_eq!(result["id"], json!(7));
    assert_eq!(result["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], json!(7));
    assert_eq!(pair.field("data:").await, None);
    served.serving.await.unwrap().unwrap();
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}
