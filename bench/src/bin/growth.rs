//! How cost grows with size: `cargo run --release --bin growth [ROW]…`
//!
//! Each row does one kind of work at sizes that are ten times apart, takes the median CPU time of a few runs, and fits an
//! exponent: 0 for work that does not depend on the size, 1 for work in proportion to it. A row above its limit is
//! reported at the end. The program starts itself as the server. CPU time is the server's own, from the kernel; in the
//! last rows it is the client's. Pin it with `taskset -c 0`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use mcp_bench::client::responder;
use mcp_client::{McpClient, NegotiationCache, ServerConfig};
use mcp_protocol::Limits;
use mcp_server::http::HttpOptions;
use mcp_server::{Error, Json, McpServer, Tool, tool};
use serde_json::{Map, Value, json};

/// Runs of each size; the median counts.
const RUNS: usize = 5;

/// A kind of work.
struct Row {
    name: &'static str,
    /// The unit of a size.
    of: &'static str,
    sizes: &'static [usize],
    unit: &'static str,
    /// The cost of the work at a size: CPU µs, or KiB of memory.
    cost: fn(usize) -> f64,
    /// The largest exponent that is accepted.
    most: f64,
}

const ROWS: &[Row] = &[
    Row { name: "list", of: "tools", sizes: &[100, 1_000, 10_000], unit: "µs", cost: list, most: 1.1 },
    Row {
        name: "dispatch",
        of: "tools",
        sizes: &[100, 1_000, 10_000],
        unit: "µs",
        cost: dispatch,
        most: 0.15,
    },
    Row {
        name: "stdio message",
        of: "bytes",
        sizes: &[10_000, 100_000, 1_000_000, 10_000_000],
        unit: "µs",
        cost: message,
        most: 1.1,
    },
    Row {
        name: "argument keys",
        of: "keys",
        sizes: &[100, 1_000, 10_000],
        unit: "µs",
        cost: argument_keys,
        most: 1.1,
    },
    Row {
        name: "_meta keys",
        of: "keys",
        sizes: &[100, 1_000, 10_000],
        unit: "µs",
        cost: meta_keys,
        most: 1.1,
    },
    Row {
        name: "cancel, stdio",
        of: "calls",
        sizes: &[100, 1_000, 10_000],
        unit: "µs",
        cost: cancel_over_stdio,
        most: 1.15,
    },
    Row {
        name: "cancel, HTTP",
        of: "calls",
        sizes: &[100, 1_000],
        unit: "µs",
        cost: cancel_over_http,
        most: 1.15,
    },
    Row {
        name: "new session at the limit",
        of: "sessions",
        sizes: &[100, 1_000, 10_000],
        unit: "µs",
        cost: sessions,
        most: 0.5,
    },
    Row {
        name: "HTTP body",
        of: "bytes",
        sizes: &[10_000, 100_000, 1_000_000, 10_000_000],
        unit: "µs",
        cost: body,
        most: 1.1,
    },
    Row {
        name: "children of a client",
        of: "children",
        sizes: &[3, 30, 300],
        unit: "µs",
        cost: children,
        most: 1.15,
    },
    Row {
        name: "memory of children",
        of: "children",
        sizes: &[3, 30, 300],
        unit: "KiB",
        cost: children_memory,
        most: 1.15,
    },
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("serve-stdio") => return runtime().block_on(serve_stdio(&arguments[1])).unwrap(),
        Some("serve-http") => return runtime().block_on(serve_http(&arguments[1])).unwrap(),
        Some("connect") => return runtime().block_on(connect_and_tell_memory(&arguments[1])),
        _ => {}
    }
    let mut table = Vec::new();
    let mut above = Vec::new();
    for row in ROWS.iter().filter(|row| arguments.is_empty() || arguments.iter().any(|name| name == row.name))
    {
        let costs: Vec<f64> =
            row.sizes.iter().map(|size| median((0..RUNS).map(|_| (row.cost)(*size)))).collect();
        let exponent = slope(row.sizes, &costs);
        print!("{:<26}", row.name);
        for (size, cost) in row.sizes.iter().zip(&costs) {
            print!("{:>22}", format!("{size}: {cost:.1} {}", row.unit));
        }
        println!("   exponent {exponent:.2} in {}", row.of);
        if exponent > row.most {
            above.push(format!("{}: exponent {exponent:.2}, at most {}", row.name, row.most));
        }
        table.push(json!({"row": row.name, "of": row.of, "sizes": row.sizes, "unit": row.unit, "costs": costs, "exponent": exponent}));
    }
    for above in &above {
        println!("ABOVE {above}");
    }
    mcp_bench::table::keep("growth", &table);
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The slope of the line through the logarithms, by least squares.
fn slope(sizes: &[usize], costs: &[f64]) -> f64 {
    let points: Vec<(f64, f64)> =
        sizes.iter().zip(costs).map(|(size, cost)| ((*size as f64).ln(), cost.ln())).collect();
    let count = points.len() as f64;
    let mean = |f: fn(&(f64, f64)) -> f64| points.iter().map(f).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let covariance: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    covariance / points.iter().map(|point| (point.0 - x).powi(2)).sum::<f64>()
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

/// `echo`, `wait` (until it is cancelled), and this many others.
fn server(others: usize) -> McpServer {
    let mut server = McpServer::named("growth", "1")
        .tool(tool("echo", |Echo { text }: Echo| async { text }))
        .tool(Tool::dynamic("ignore", json!({"type": "object"}), |_: Json| async {}))
        .tool(tool("wait", || std::future::pending::<()>()));
    for n in 0..others {
        let schema: Json = mcp_bench::SCHEMA.parse().unwrap();
        let extra = Tool::dynamic(format!("tool_{n}"), schema, |_: Json| async {});
        server = server.tool(extra.description(format!("Does the thing number {n} and tells about it.")));
    }
    server.limits(Limits::default().in_flight(20_000))
}

async fn serve_stdio(others: &str) -> Result<(), Error> {
    server(others.parse().unwrap()).serve_stdio().await
}

async fn serve_http(sessions: &str) -> Result<(), Error> {
    let options = HttpOptions::default().sessions(sessions.parse().unwrap()).body(16 << 20).bodies(256 << 20);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    server(0).serve_listener(listener, options, std::future::pending()).await
}

/// A server process that is ended with this value.
struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Server {
    fn start(kind: &str, size: usize) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([kind, &size.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    /// A server on stdio that has been initialized.
    fn stdio(others: usize) -> Self {
        let mut server = Self::start("serve-stdio", others);
        server.call(&initialize());
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        server
    }

    fn send(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn receive(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "the server ended");
        line
    }

    fn call(&mut self, line: &str) -> String {
        self.send(line);
        let response = self.receive();
        assert!(response.contains("\"result\""), "{response:.300}");
        response
    }

    /// CPU µs of this work.
    fn cost(&mut self, work: impl FnOnce(&mut Self)) -> f64 {
        let before = mcp_bench::cpu(self.child.id());
        work(self);
        (mcp_bench::cpu(self.child.id()) - before).as_secs_f64() * 1e6
    }

    /// CPU µs of one call, from this many.
    fn cost_of_call(&mut self, line: &str, calls: u32) -> f64 {
        self.call(line);
        self.cost(|server| (0..calls).for_each(|_| drop(server.call(line)))) / f64::from(calls)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn initialize() -> String {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "growth", "version": "1"}});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string()
}

fn call(id: usize, name: &str, arguments: &Value) -> String {
    let params = json!({"name": name, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
}

fn cancellation(id: usize) -> String {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}).to_string()
}

fn keys(count: usize) -> Map<String, Value> {
    (0..count).map(|n| (format!("com.example/key-{n}"), json!(n))).collect()
}

fn list(tools: usize) -> f64 {
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).to_string();
    Server::stdio(tools).cost_of_call(&list, 20)
}

fn dispatch(tools: usize) -> f64 {
    Server::stdio(tools).cost_of_call(&call(1, "echo", &json!({"text": "hello"})), 2_000)
}

fn message(bytes: usize) -> f64 {
    let calls = u32::try_from(20_000_000 / bytes).unwrap().min(200);
    Server::stdio(0).cost_of_call(&call(1, "echo", &json!({"text": "x".repeat(bytes)})), calls)
}

fn argument_keys(count: usize) -> f64 {
    Server::stdio(0).cost_of_call(&call(1, "ignore", &Value::Object(keys(count))), 50)
}

fn meta_keys(count: usize) -> f64 {
    let params = json!({"name": "ignore", "arguments": {}, "_meta": keys(count)});
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    Server::stdio(0).cost_of_call(&line, 50)
}

fn cancel_over_stdio(calls: usize) -> f64 {
    let mut server = Server::stdio(0);
    let echo = call(calls + 1, "echo", &json!({"text": "all were read"}));
    for id in 1..=calls {
        server.send(&call(id, "wait", &json!({})));
    }
    server.call(&echo);
    server.cost(|server| {
        for id in 1..=calls {
            server.send(&cancellation(id));
        }
        server.call(&echo);
    })
}

/// An HTTP connection to a server.
struct Connection {
    stream: TcpStream,
    headers: String,
}

impl Connection {
    fn open(port: &str) -> Self {
        let stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        stream.set_nodelay(true).unwrap();
        let headers = format!(
            "Host: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
        );
        Self { stream, headers }
    }

    fn send(&mut self, body: &str) {
        let head = format!("POST /mcp HTTP/1.1\r\n{}Content-Length: {}\r\n\r\n", self.headers, body.len());
        self.stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).unwrap();
    }

    /// Reads one response with a length. Returns its head.
    fn receive(&mut self) -> String {
        let mut received = Vec::new();
        let mut piece = vec![0; 64 << 10];
        let (mut end, mut length) = (None, 0);
        while end.is_none_or(|end| received.len() < end + length) {
            let count = self.stream.read(&mut piece).unwrap();
            assert!(count > 0, "the server hung up");
            received.extend_from_slice(&piece[..count]);
            if end.is_none()
                && let Some(at) = received.windows(4).position(|window| window == b"\r\n\r\n")
            {
                let head = String::from_utf8_lossy(&received[..at]).to_ascii_lowercase();
                let line = head.lines().find_map(|line| line.strip_prefix("content-length:"));
                (end, length) = (Some(at + 4), line.map_or(0, |line| line.trim().parse().unwrap()));
            }
        }
        let head = String::from_utf8_lossy(&received[..end.unwrap()]).into_owned();
        assert!(head.starts_with("HTTP/1.1 20"), "{head}");
        head
    }

    fn call(&mut self, body: &str) -> String {
        self.send(body);
        self.receive()
    }

    fn initialize(&mut self) {
        let head = self.call(&initialize());
        let session = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).expect("a session");
        self.headers += &format!("MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: {session}\r\n");
        self.call(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
    }
}

/// A server over HTTP and its port.
fn http(sessions: usize) -> (Server, String) {
    let mut server = Server::start("serve-http", sessions);
    let port = server.receive().trim().to_owned();
    (server, port)
}

fn cancel_over_http(calls: usize) -> f64 {
    let (mut server, port) = http(10);
    let mut connection = Connection::open(&port);
    connection.initialize();
    let headers = connection.headers.clone();
    let waiting: Vec<Connection> = (1..=calls)
        .map(|id| {
            let mut waiting = Connection::open(&port);
            waiting.headers.clone_from(&headers);
            waiting.send(&call(id, "wait", &json!({})));
            waiting
        })
        .collect();
    // The server accepts connections in order, so it has read the calls before this one.
    let mut last = Connection::open(&port);
    last.headers = headers;
    last.call(&call(calls + 1, "echo", &json!({"text": "all were read"})));
    let cost = server.cost(|_| (1..=calls).for_each(|id| drop(connection.call(&cancellation(id)))));
    drop(waiting);
    cost
}

/// CPU µs of one `initialize` when the table of sessions is full.
fn sessions(limit: usize) -> f64 {
    let (mut server, port) = http(limit);
    let mut connection = Connection::open(&port);
    for _ in 0..limit {
        connection.call(&initialize());
    }
    const MORE: usize = 500;
    server.cost(|_| (0..MORE).for_each(|_| drop(connection.call(&initialize())))) / MORE as f64
}

fn body(bytes: usize) -> f64 {
    let (mut server, port) = http(10);
    let mut connection = Connection::open(&port);
    connection.initialize();
    let line = call(1, "echo", &json!({"text": "x".repeat(bytes)}));
    let calls = (20_000_000 / bytes).min(200);
    connection.call(&line);
    server.cost(|_| (0..calls).for_each(|_| drop(connection.call(&line)))) / calls as f64
}

/// CPU µs of this process for starting and ending this many servers that are all connected at once.
fn children(count: usize) -> f64 {
    let before = mcp_bench::cpu(std::process::id());
    runtime().block_on(async {
        let cache = NegotiationCache::new();
        let mut clients = Vec::new();
        for _ in 0..count {
            let connect = McpClient::builder(ServerConfig::command(responder())).negotiation_cache(&cache);
            clients.push(connect.connect().await.unwrap());
        }
        for client in clients {
            client.close().await;
        }
    });
    (mcp_bench::cpu(std::process::id()) - before).as_secs_f64() * 1e6
}

/// KiB that a process grows by when it connects to this many servers.
fn children_memory(count: usize) -> f64 {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["connect", &count.to_string()])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

async fn connect_and_tell_memory(count: &str) {
    let cache = NegotiationCache::new();
    let connect =
        || McpClient::builder(ServerConfig::command(responder())).negotiation_cache(&cache).connect();
    // What all connections share does not count.
    let first = connect().await.unwrap();
    let before = resident();
    let mut clients = Vec::new();
    for _ in 0..count.parse().unwrap() {
        clients.push(connect().await.unwrap());
    }
    println!("{}", resident() - before);
    for client in clients.into_iter().chain([first]) {
        client.close().await;
    }
}

/// The resident memory of this process in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}
