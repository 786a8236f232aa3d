//! The misbehaving server behind a URL. It uses blocking I/O with one thread per connection, and none of the codecs of
//! the library under test.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

/// The duration of a fault that never ends.
const FOREVER: Duration = Duration::from_secs(600);

/// The state that all connections share.
struct Shared {
    is_modern: bool,
    /// The behaviour of the notification stream: `none`, `hang-up`, `silent`, `busy`.
    streams: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of the current session, incremented when a session is forgotten.
    session: u64,
    requests: Vec<String>,
    connections: usize,
}

pub(super) fn run(words: &[&str]) -> Result<ExitCode, String> {
    let (mut is_modern, mut port, mut streams) = (true, 0, "none".to_owned());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().copied().ok_or(format!("`{word}` needs a value"));
        match *word {
            "--era" => is_modern = value()? != "legacy",
            "--port" => port = value()?.parse().map_err(|_| "`--port` needs a number".to_owned())?,
            "--streams" => streams = value()?.to_owned(),
            other => return Err(format!("unknown option `{other}`")),
        }
    }
    let listener = TcpListener::bind(("127.0.0.1", port)).map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    println!("http://{address}/mcp");
    let _ = io::stdout().flush();
    let shared = Arc::new(Shared { is_modern, streams, state: Mutex::default() });
    for stream in listener.incoming() {
        let Ok(stream) = stream else { continue };
        let shared = Arc::clone(&shared);
        shared.lock().connections += 1;
        // The client may disconnect during a fault.
        std::thread::spawn(move || shared.serve(stream).ok());
    }
    Ok(ExitCode::SUCCESS)
}

/// A received request.
struct Request {
    verb: String,
    session: Option<String>,
    body: Value,
}

fn read(input: &mut BufReader<TcpStream>) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let verb = line.split(' ').next().unwrap_or_default().to_owned();
    let (mut length, mut session) = (0, None);
    loop {
        line.clear();
        input.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap_or(0),
            "mcp-session-id" => session = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body)?;
    Ok(Some(Request { verb, session, body: serde_json::from_slice(&body).unwrap_or_default() }))
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn session(&self) -> String {
        format!("session-{}", self.lock().session)
    }

    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let mut out = stream.try_clone()?;
        let mut input = BufReader::new(stream);
        while let Some(request) = read(&mut input)? {
            let method = request.body["method"].as_str().unwrap_or(&request.verb).to_owned();
            self.lock().requests.push(method.clone());
            match (request.verb.as_str(), method.as_str()) {
                ("GET", _) => {
                    if !self.stream(&mut out)? {
                        return Ok(());
                    }
                }
                ("DELETE", _) => status(&mut out, 204, &[], "")?,
                (_, "tools/call") if self.knows(&request) => {
                    if !self.call(&mut out, &request.body)? {
                        return Ok(());
                    }
                }
                _ => self.answer(&mut out, &request, &method)?,
            }
        }
        Ok(())
    }

    fn knows(&self, request: &Request) -> bool {
        self.is_modern || request.session.as_deref() == Some(self.session().as_str())
    }

    /// Responds to a request for the notification stream. Returns false if the connection must be closed. After a
    /// refusal it stays open, because the client may already be using it for its next request.
    fn stream(&self, out: &mut TcpStream) -> io::Result<bool> {
        match self.streams.as_str() {
            "hang-up" => events(out, &[]).map(|()| false),
            "silent" => {
                std::thread::sleep(FOREVER);
                Ok(false)
            }
            "busy" => status(out, 409, &[], "").map(|()| true),
            _ => status(out, 405, &[("Allow", "POST")], "").map(|()| true),
        }
    }

    /// Responds to requests other than tool calls.
    fn answer(&self, out: &mut TcpStream, request: &Request, method: &str) -> io::Result<()> {
        let id = &request.body["id"];
        let known = json!({"tools": {}, "resources": {}});
        match method {
            "server/discover" if self.is_modern => result(
                out,
                id,
                &json!({
                    "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                    "supportedVersions": ["2026-07-28"], "capabilities": known,
                }),
            ),
            "server/discover" => status(out, 400, &[], "no session"),
            "initialize" if !self.is_modern => {
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": known,
                    "serverInfo": {"name": "test-peer", "version": "1"}});
                let body = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
                let headers = [("Content-Type", "application/json"), ("Mcp-Session-Id", &self.session())];
                status(out, 200, &headers, &body)
            }
            _ if !self.knows(request) => status(out, 404, &[], "no such session"),
            "tools/list" => {
                let tools: Vec<Value> = TOOLS
                    .iter()
                    .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
                    .collect();
                result(
                    out,
                    id,
                    &json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": tools}),
                )
            }
            _ if id.is_null() => status(out, 202, &[], ""),
            _ => {
                let error = json!({"code": -32601, "message": "no such method"});
                let code = if self.is_modern { 404 } else { 200 };
                json_body(out, code, &json!({"jsonrpc": "2.0", "id": id, "error": error}))
            }
        }
    }

    /// Triggers the fault of a tool call. Returns false if the connection must be closed.
    fn call(&self, out: &mut TcpStream, message: &Value) -> io::Result<bool> {
        let id = &message["id"];
        let arguments = &message["params"]["arguments"];
        let text = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| arguments[name].as_u64().unwrap_or_default();
        let said =
            |text: &str| json!({"resultType": "complete", "content": [{"type": "text", "text": text}]});
        let event =
            |text: &str| format!("data: {}\n\n", json!({"jsonrpc": "2.0", "id": id, "result": said(text)}));
        let json_type = ("Content-Type", "application/json");
        match message["params"]["name"].as_str().unwrap_or_default() {
            "echo" => result(out, id, &said(&text("text")))?,
            "requests" => {
                let requests = self.lock().requests.join(" ");
                result(out, id, &said(&requests))?;
            }
            "connections" => {
                let connections = self.lock().connections.to_string();
                result(out, id, &said(&connections))?;
            }
            "html" => status(out, 200, &[("Content-Type", "text/html")], "<h1>Welcome</h1>\u{1b}[2J")?,
            "empty" => status(out, 200, &[json_type], "")?,
            "no-type" => status(out, 200, &[], "{}")?,
            "no-content" => status(out, 204, &[], "")?,
            "hang-up" => return Ok(false),
            "half-head" => {
                out.write_all(b"HTTP/1.1 200 OK\r\nContent-Ty")?;
                return Ok(false);
            }
            "cut" => {
                let whole = event("never");
                events(out, &[whole.as_bytes().split_at(whole.len() / 2).0])?;
                return Ok(false);
            }
            "no-blank-line" => {
                events(out, &[event("never").trim_end().as_bytes()])?;
                return Ok(false);
            }
            "pieces" => {
                let whole = format!(": hello\r\nretry: 99999999999\r\n\r\n{}", event("世界"));
                let pieces: Vec<&[u8]> = whole.as_bytes().chunks(3).collect();
                events(out, &pieces)?;
                return Ok(false);
            }
            "comments" => {
                let flood = ":\n".repeat(64 << 10);
                events(out, &[flood.as_bytes(), event("after the flood").as_bytes()])?;
                return Ok(false);
            }
            "redirect" => {
                let code = number("status").clamp(300, 399);
                status(out, u16::try_from(code).unwrap_or(307), &[("Location", &text("to"))], "")?;
            }
            "gzip" => {
                let head =
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n\r\n";
                out.write_all(head.as_bytes())?;
                flood(out, number("bytes"))?;
                return Ok(false);
            }
            "short" => {
                write!(
                    out,
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{{"
                )?;
                return Ok(false);
            }
            "long" => {
                let bytes = number("bytes");
                write!(
                    out,
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {bytes}\r\n\r\n"
                )?;
                flood(out, bytes)?;
            }
            "endless-body" => {
                write!(out, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")?;
                flood(out, number("bytes"))?;
                return Ok(false);
            }
            "endless-event" => {
                events(out, &[b"data: "])?;
                flood(out, number("bytes"))?;
                return Ok(false);
            }
            "trickle" => {
                write!(
                    out,
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n"
                )?;
                for _ in 0..9999 {
                    out.write_all(b" ")?;
                    std::thread::sleep(Duration::from_millis(number("ms")));
                }
            }
            "status" => {
                let code = u16::try_from(number("code")).unwrap_or(500);
                let (name, value) = (text("header"), text("value"));
                let header = [(name.as_str(), value.as_str())];
                status(out, code, if name.is_empty() { &[] } else { &header }, &text("body"))?;
            }
            "forget" => {
                self.lock().session += 1;
                result(out, id, &said("forgotten"))?;
            }
            "silent" => {
                std::thread::sleep(FOREVER);
                return Ok(false);
            }
            other => result(
                out,
                id,
                &json!({"resultType": "complete", "isError": true,
                "content": [{"type": "text", "text": format!("there is no tool `{other}`")}]}),
            )?,
        }
        Ok(true)
    }
}

const TOOLS: &[&str] = &[
    "comments",
    "connections",
    "cut",
    "echo",
    "empty",
    "endless-body",
    "endless-event",
    "forget",
    "gzip",
    "half-head",
    "hang-up",
    "html",
    "long",
    "no-blank-line",
    "no-content",
    "no-type",
    "pieces",
    "redirect",
    "requests",
    "short",
    "silent",
    "status",
    "trickle",
];

fn status(out: &mut TcpStream, code: u16, headers: &[(&str, &str)], body: &str) -> io::Result<()> {
    let mut text = format!("HTTP/1.1 {code} X\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    out.write_all(format!("{text}\r\n{body}").as_bytes())
}

fn json_body(out: &mut TcpStream, code: u16, body: &Value) -> io::Result<()> {
    status(out, code, &[("Content-Type", "application/json")], &body.to_string())
}

fn result(out: &mut TcpStream, id: &Value, result: &Value) -> io::Result<()> {
    json_body(out, 200, &json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

/// Writes an event stream, piece by piece.
fn events(out: &mut TcpStream, pieces: &[&[u8]]) -> io::Result<()> {
    out.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")?;
    for piece in pieces {
        out.write_all(piece)?;
        out.flush()?;
    }
    Ok(())
}

fn flood(out: &mut TcpStream, bytes: u64) -> io::Result<()> {
    let block = vec![b'x'; 64 << 10];
    let mut left = bytes;
    while left > 0 {
        let count = left.min(block.len() as u64);
        out.write_all(&block[..usize::try_from(count).unwrap_or(block.len())])?;
        left -= count;
    }
    Ok(())
}
