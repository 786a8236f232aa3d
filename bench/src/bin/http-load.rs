//! Drives echo servers over HTTP, one after the other in interleaved rounds: `cargo run --release --bin http-load [ROUNDS [NAME]]`
//!
//! Plain sockets, HTTP/1.1, connections that stay open. In each round all servers start anew and take turns in short
//! bursts; a ratio is the median of those between bursts that were neighbours, because what else the machine does
//! moves both. Every response is looked at: its id and its text. Pin it
//! with `taskset -c 0` so that all of them, and the driver, share one core. CPU time is the server's own, from the
//! kernel. Each contender is compared with bare axum that gets the very same requests. With a name, only those contenders
//! run whose name has it: for a profiler.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

struct Contender {
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    modern: bool,
    /// False for those whose requests need no session.
    session: bool,
    /// The one with the same requests that it is compared with.
    baseline: usize,
}

const CONTENDERS: &[Contender] = &[
    contender("axum, legacy", "http-axum", &[], false, false, 0),
    contender("axum, modern", "http-axum", &[], true, false, 1),
    contender("ours, legacy", "http-ours", &[], false, true, 0),
    contender("ours, modern", "http-ours", &[], true, false, 1),
    contender("rmcp", "http-rmcp", &[], false, true, 0),
    contender("rmcp, best", "http-rmcp", &["--best"], true, false, 1),
    contender("ours, token ignored", "http-ours", &["--token"], true, false, 6),
    contender("ours, token verified", "http-ours", &["--verified"], true, false, 6),
];

const fn contender(
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    modern: bool,
    session: bool,
    baseline: usize,
) -> Contender {
    Contender { name, program, arguments, modern, session, baseline }
}

/// Ids have as many digits as this one, so that all requests of a connection are equally long.
const FIRST_ID: u64 = 1_000_000;
/// Bursts of each contender in a round.
const BURSTS: usize = 10;
/// What a slow contender is given for one measure of a burst.
const PATIENCE: Duration = Duration::from_millis(300);

struct Server {
    child: Child,
    port: u16,
    /// The token that requests carry, if the server printed one.
    token: Option<String>,
    contender: &'static Contender,
}

impl Server {
    fn start(contender: &'static Contender) -> Self {
        let path: PathBuf = std::env::current_exe().unwrap().with_file_name(contender.program);
        let mut child = Command::new(path)
            .args(contender.arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut words = line.split_whitespace();
        let port = words.next().unwrap().parse().unwrap();
        Self { child, port, token: words.next().map(str::to_owned), contender }
    }

    /// User and system time of the server.
    fn cpu(&self) -> Duration {
        mcp_bench::cpu(self.child.id())
    }

    /// Many connections, on each one request in flight: CPU µs of a request, requests in a second.
    fn crowd(&self, connections: &mut [Connection], calls: u64) -> (f64, f64) {
        let (before, start) = (self.cpu(), Instant::now());
        let count = connections.len() as u64;
        for connection in &mut *connections {
            connection.send();
        }
        let (mut done, mut late) = (0, false);
        while !late && done + count < calls {
            for connection in &mut *connections {
                connection.receive();
                connection.send();
            }
            done += count;
            late = start.elapsed() > PATIENCE;
        }
        for connection in &mut *connections {
            connection.receive();
        }
        done += count;
        let (cpu, time) = (self.cpu() - before, start.elapsed());
        (cpu.as_secs_f64() * 1e6 / done as f64, done as f64 / time.as_secs_f64())
    }

    /// One connection: p50 and p99 in µs.
    fn alone(&self, connection: &mut Connection, calls: usize) -> (f64, f64) {
        let start = Instant::now();
        let mut times = Vec::with_capacity(calls);
        while times.len() < calls && start.elapsed() < PATIENCE {
            let start = Instant::now();
            connection.send();
            connection.receive();
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        times.sort_by(f64::total_cmp);
        (times[times.len() / 2], times[times.len() * 99 / 100])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Connection {
    stream: TcpStream,
    name: &'static str,
    /// The whole request; id and text are changed in place.
    request: Vec<u8>,
    digits: Vec<usize>,
    id: u64,
    received: Vec<u8>,
    /// Of the body of every response: ids have the same number of digits.
    length: Option<usize>,
}

impl Connection {
    /// Opens a connection whose calls echo a text of about this many bytes.
    fn open(server: &Server, bytes: usize) -> Self {
        let contender = server.contender;
        let stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut connection = Self {
            stream,
            name: contender.name,
            request: Vec::new(),
            digits: Vec::new(),
            id: FIRST_ID,
            received: Vec::new(),
            length: None,
        };
        let mut headers = format!("Host: 127.0.0.1:{}\r\n", server.port);
        headers += "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
        if let Some(token) = &server.token {
            headers += &format!("Authorization: Bearer {token}\r\n");
        }
        if contender.modern {
            headers += "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n";
        } else {
            let session = if contender.session {
                connection.initialize(&headers)
            } else {
                "0123456789abcdef0123456789abcdef".into()
            };
            headers += &format!("MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: {session}\r\n");
            if contender.session {
                let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
                connection.exchange(&headers, &initialized, "202");
            }
        }
        let mut text = format!("hello there {FIRST_ID}");
        text += &" the quick brown fox".repeat(bytes / 20);
        let mut params = json!({"name": "echo", "arguments": {"text": text}});
        if contender.modern {
            params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {}});
        }
        let call = json!({"jsonrpc": "2.0", "id": FIRST_ID, "method": "tools/call", "params": params});
        connection.request = post(&headers, &call);
        let needle = FIRST_ID.to_string();
        connection.digits = connection
            .request
            .windows(needle.len())
            .enumerate()
            .filter(|(_, window)| *window == needle.as_bytes())
            .map(|(at, _)| at)
            .collect();
        assert_eq!(connection.digits.len(), 2, "an id and a text");
        connection
    }

    /// Opens a session and gives its id.
    fn initialize(&mut self, headers: &str) -> String {
        let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params":
            {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "load", "version": "1"}}});
        let head = self.exchange(headers, &initialize, "200");
        let (_, rest) = head.split_once("mcp-session-id: ").expect("a session");
        rest.split("\r\n").next().unwrap().into()
    }

    fn exchange(&mut self, headers: &str, body: &Value, status: &str) -> String {
        self.stream.write_all(&post(headers, body)).unwrap();
        let (head, body) = read_response(&mut self.stream, &mut self.received);
        let head = String::from_utf8(head.to_vec()).unwrap();
        assert!(head.contains(status), "{}: {head}{}", self.name, String::from_utf8_lossy(&body));
        head
    }

    fn send(&mut self) {
        self.id += 1;
        let digits = self.id.to_string();
        for at in &self.digits {
            self.request[*at..*at + digits.len()].copy_from_slice(digits.as_bytes());
        }
        self.stream.write_all(&self.request).unwrap();
    }

    /// Takes the response, and ends the program if it is not the right one.
    fn receive(&mut self) {
        let (head, body) = read_response(&mut self.stream, &mut self.received);
        let id = format!("\"id\":{}", self.id);
        let text = format!("\"text\":\"hello there {}", self.id);
        // A text that is cut or longer makes a body of another length. Events also have numbers, whose length changes.
        let is_event = !body.starts_with(b"{");
        let length = if is_event { body.len() } else { *self.length.get_or_insert(body.len()) };
        let is_right = head.starts_with(b"HTTP/1.1 200 ")
            && body.len() == length
            && contains(&body, id.as_bytes())
            && contains(&body, text.as_bytes());
        if !is_right {
            let (head, body) = (String::from_utf8_lossy(head), String::from_utf8_lossy(&body));
            eprintln!("{}: wanted {id} and {text}, got\n{head}{body}", self.name);
            std::process::exit(1);
        }
    }
}

fn post(headers: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    format!("POST /mcp HTTP/1.1\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    text.windows(needle.len()).position(|window| window == needle)
}

fn contains(text: &[u8], needle: &[u8]) -> bool {
    find(text, needle).is_some()
}

/// One response, its head apart from its body, whose pieces are put together.
fn read_response<'a>(stream: &mut TcpStream, received: &'a mut Vec<u8>) -> (&'a [u8], Vec<u8>) {
    received.clear();
    let head = loop {
        if let Some(end) = find(received, b"\r\n\r\n") {
            break end + 4;
        }
        read_some(stream, received);
    };
    let mut length = None;
    for line in received[..head].split(|byte| *byte == b'\n') {
        if line.len() > 15 && line[..15].eq_ignore_ascii_case(b"content-length:") {
            length = std::str::from_utf8(&line[15..]).unwrap().trim().parse().ok();
        }
    }
    let body = if let Some(length) = length {
        let length: usize = length;
        while received.len() < head + length {
            read_some(stream, received);
        }
        assert_eq!(received.len(), head + length, "more than one response");
        received[head..].to_vec()
    } else {
        while !received[head..].ends_with(b"0\r\n\r\n") {
            read_some(stream, received);
        }
        join_chunks(&received[head..])
    };
    (&received[..head], body)
}

fn join_chunks(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = find(rest, b"\r\n").expect("the size of a chunk");
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 4 + size..];
    }
}

fn read_some(stream: &mut TcpStream, received: &mut Vec<u8>) {
    let mut piece = [0; 4096];
    let count = stream.read(&mut piece).expect("a response in time");
    assert!(count > 0, "the server hung up");
    received.extend_from_slice(&piece[..count]);
}

const MEASURES: &[&str] = &[
    "32 connections, CPU µs",
    "32 connections, req/s",
    "1 connection, p50 µs",
    "1 connection, p99 µs",
    "echo 1 MiB, CPU µs",
];
/// Ours in each measure, in times bare axum, and whether less is better.
const TARGETS: &[(f64, bool)] = &[(1.25, true), (0.85, false), (1.3, true), (1.3, true), (1.0, true)];
/// Large echoes of each contender in a burst.
const LARGE_CALLS: u32 = 10;

/// A server with the connections to it.
struct Running {
    server: Server,
    crowd: Vec<Connection>,
    alone: Connection,
    large: Connection,
}

impl Running {
    fn start(contender: &'static Contender) -> Self {
        let server = Server::start(contender);
        let crowd = (0..32).map(|_| Connection::open(&server, 0)).collect();
        let (alone, large) = (Connection::open(&server, 0), Connection::open(&server, 1 << 20));
        let mut running = Self { server, crowd, alone, large };
        running.burst();
        running
    }

    fn burst(&mut self) -> [f64; 5] {
        let (cpu, rate) = self.server.crowd(&mut self.crowd, 3_200);
        let (p50, p99) = self.server.alone(&mut self.alone, 1_000);
        let before = self.server.cpu();
        for _ in 0..LARGE_CALLS {
            self.large.send();
            self.large.receive();
        }
        let large = (self.server.cpu() - before).as_secs_f64() * 1e6 / f64::from(LARGE_CALLS);
        [cpu, rate, p50, p99, large]
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() {
    let rounds: usize = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(5);
    let only = std::env::args().nth(2).unwrap_or_default();
    // By burst, then by contender.
    let mut results: Vec<Vec<[f64; 5]>> = Vec::new();
    for _ in 0..rounds {
        let mut running: Vec<_> = CONTENDERS
            .iter()
            .map(|contender| contender.name.contains(&only).then(|| Running::start(contender)))
            .collect();
        for _ in 0..BURSTS {
            let burst =
                |running: &mut Option<Running>| running.as_mut().map_or([f64::NAN; 5], Running::burst);
            results.push(running.iter_mut().map(burst).collect());
        }
    }
    print!("{:<24}", "median (times axum)");
    for contender in CONTENDERS {
        print!("{:>20}", contender.name);
    }
    println!();
    let mut table = Vec::new();
    let mut missed = Vec::new();
    for (at, measure) in MEASURES.iter().enumerate() {
        print!("{measure:<24}");
        let column = |contender: usize| results.iter().map(move |burst| burst[contender][at]);
        let medians: Vec<f64> =
            (0..CONTENDERS.len()).map(|contender| median(column(contender).collect())).collect();
        let mut ratios = Vec::new();
        for (number, contender) in CONTENDERS.iter().enumerate() {
            let ratio = median(
                column(number).zip(column(contender.baseline)).map(|(ours, base)| ours / base).collect(),
            );
            print!("{:>20}", format!("{:.1} ({ratio:.2})", medians[number]));
            let (target, less) = TARGETS[at];
            if contender.program == "http-ours" && (if less { ratio > target } else { ratio < target }) {
                missed.push(format!("{}, {measure}: {ratio:.2}, wanted {target}", contender.name));
            }
            ratios.push(ratio);
        }
        println!();
        table.push(json!({"measure": measure, "medians": medians, "ratios": ratios}));
    }
    for missed in &missed {
        println!("MISSED {missed}");
    }
    let names: Vec<_> = CONTENDERS.iter().map(|contender| contender.name).collect();
    let data = json!({"contenders": names, "rounds": rounds, "measures": table, "missed": missed});
    std::fs::create_dir_all("target").ok();
    std::fs::write("target/http.json", serde_json::to_string_pretty(&data).unwrap()).unwrap();
}
