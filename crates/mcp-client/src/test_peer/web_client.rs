//! The misbehaving client of a server behind a URL. It sends one fault, and then checks that the server still responds.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::Duration;

/// The timeout for every response of the server.
const PATIENCE: Duration = Duration::from_secs(10);
/// The maximum wait for the server to read. After it, the server counts as no longer reading.
const MOMENT: Duration = Duration::from_secs(1);

/// The parts of `http://HOST:PORT/PATH`.
struct Target {
    host: String,
    path: String,
}

pub(super) fn run(fault: &str, url: &str) -> Result<ExitCode, String> {
    let rest = url.strip_prefix("http://").ok_or("the URL must begin with http://")?;
    let (host, path) = rest.split_once('/').map_or((rest, ""), |(host, path)| (host, path));
    let target = Target { host: host.to_owned(), path: format!("/{path}") };
    let committed = target
        .commit(fault)
        .ok_or(format!("unknown fault `{fault}`; `mcp-test-peer help` lists all faults"))?;
    let serves = target.say(&target.discover(&[]));
    match (committed, serves) {
        (Ok(answer), Ok(still)) if still.starts_with("HTTP/1.1 2") => {
            println!("{fault}: {answer}, and the server still responds");
            Ok(ExitCode::SUCCESS)
        }
        (committed, serves) => {
            println!("{fault}: {committed:?}, then answered with {serves:?}");
            Ok(ExitCode::FAILURE)
        }
    }
}

const BODY: &str = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"test-peer","version":"1"}}}}"#;

impl Target {
    /// Sends a fault, and returns a description of the response. Returns `None` for an unknown fault.
    fn commit(&self, fault: &str) -> Option<Result<String, String>> {
        Some(match fault {
            "half-a-body" | "slow-head" => self.hang_up(&self.bytes(fault)?),
            "hang-up" => (0..20).try_fold(String::new(), |_, _| self.hang_up(&self.discover(&[]))),
            "slow-reader" => self.read_nothing(),
            "idle-connections" => self.be_idle(),
            "duplicate-ids" => self.in_a_session(|session| {
                let list = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#;
                let bytes = self.legacy(session, list);
                let (first, second) = (self.open(&bytes)?, self.open(&bytes)?);
                Ok(format!("answered with {:?} and {:?}", status(first)?, status(second)?))
            }),
            "cancel-unknown" => self.in_a_session(|session| {
                let cancel = |id: &str| {
                    let params = format!(r#"{{"requestId":{id}}}"#);
                    let body = format!(
                        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#
                    );
                    self.say(&self.legacy(session, &body))
                };
                let answers = ["99", "\"hello\"", "null", "{}"].map(cancel);
                answers
                    .into_iter()
                    .collect::<Result<Vec<_>, _>>()
                    .map(|answers| format!("answered with {answers:?}"))
            }),
            _ => match self.say(&self.bytes(fault)?) {
                Ok(answer) if answer.starts_with("HTTP/1.1 4") => Ok(format!("refused with {answer:?}")),
                Ok(answer) => Err(format!("answered with {answer:?}")),
                Err(error) => Err(error),
            },
        })
    }

    /// Opens a connection and sends bytes.
    fn open(&self, bytes: &[u8]) -> Result<TcpStream, String> {
        let text = |error: std::io::Error| error.to_string();
        let mut stream = TcpStream::connect(&self.host).map_err(text)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(text)?;
        stream.set_write_timeout(Some(MOMENT)).map_err(text)?;
        // A server may respond and close the connection before it has read everything.
        let _ = stream.write_all(bytes);
        Ok(stream)
    }

    /// Sends bytes, and returns the first line of the response.
    fn say(&self, bytes: &[u8]) -> Result<String, String> {
        status(self.open(bytes)?)
    }

    /// Sends bytes, and closes the connection.
    fn hang_up(&self, bytes: &[u8]) -> Result<String, String> {
        self.open(bytes).map(|_| "left alone".to_owned())
    }

    /// Sends requests without reading the responses. Fails if the server accepts more than 90000 requests.
    fn read_nothing(&self) -> Result<String, String> {
        let ask = self.discover(&[("Connection", "keep-alive")]);
        let mut stream = self.open(&ask)?;
        let taken = (1..100_000).take_while(|_| stream.write_all(&ask).is_ok()).count();
        if taken > 90_000 {
            Err(format!("took {taken} requests"))
        } else {
            Ok(format!("took {taken} requests"))
        }
    }

    fn be_idle(&self) -> Result<String, String> {
        let idle: Result<Vec<_>, _> = (0..200).map(|_| self.open(b"")).collect();
        // These connections stay open during the next request.
        let answer = self.say(&self.discover(&[]))?;
        idle.map(|idle| format!("with {} idle connections answered {answer:?}", idle.len()))
    }

    /// Runs a function in the session of a legacy client.
    fn in_a_session(&self, act: impl FnOnce(&str) -> Result<String, String>) -> Result<String, String> {
        let hello = r#"{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test-peer","version":"1"}}}"#;
        let head = head(self.open(&self.legacy("", hello))?)?;
        let session = head.lines().filter_map(|line| line.split_once(':'));
        let mut session = session.filter(|(name, _)| name.eq_ignore_ascii_case("mcp-session-id"));
        act(session.next().map_or("", |(_, id)| id.trim()))
    }

    fn legacy(&self, session: &str, body: &str) -> Vec<u8> {
        self.post(
            &[("MCP-Protocol-Version", "2025-06-18"), ("Mcp-Session-Id", session), ("Mcp-Method", "")],
            body,
        )
    }

    /// Returns a request that is correct except for these headers.
    fn discover(&self, wrong: &[(&str, &str)]) -> Vec<u8> {
        self.post(wrong, BODY)
    }

    fn post(&self, wrong: &[(&str, &str)], body: &str) -> Vec<u8> {
        let length = body.len().to_string();
        let mut headers = vec![
            ("Host", self.host.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "server/discover"),
            ("Connection", "close"),
            ("Content-Length", &length),
        ];
        for (name, value) in wrong {
            headers.retain(|(other, _)| other != name);
            if !value.is_empty() {
                headers.push((name, value));
            }
        }
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("POST {} HTTP/1.1\r\n{headers}\r\n{body}", self.path).into_bytes()
    }

    fn bytes(&self, fault: &str) -> Option<Vec<u8>> {
        Some(match fault {
            "garbage" => self.post(&[], "hello?"),
            "batch" => self.post(&[], &format!("[{BODY},{BODY}]")),
            "deep" => self.post(&[], &r#"{"a":"#.repeat(10_000)),
            "long-body" => self.post(&[], &" ".repeat(8 << 20)),
            "claims-a-gigabyte" => self.post(&[("Content-Length", "1073741824")], BODY),
            "half-a-body" => self.post(&[("Content-Length", "99999")], BODY),
            "slow-head" => format!("POST {} HTTP/1.1\r\nHost: ", self.path).into_bytes(),
            "wrong-method" => self.discover(&[("Mcp-Method", "tools/call")]),
            "no-method" => self.discover(&[("Mcp-Method", "")]),
            "wrong-version" => self.discover(&[("MCP-Protocol-Version", "1999-01-01")]),
            "no-envelope" => self.post(&[], r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#),
            "foreign-host" => self.discover(&[("Host", "evil.example.com")]),
            "foreign-origin" => self.discover(&[("Origin", "https://evil.example.com")]),
            "unknown-session" => self.legacy("nobody", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#),
            "no-http" => b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec(),
            _ => return None,
        })
    }
}

/// Reads the first line of a response.
fn status(stream: TcpStream) -> Result<String, String> {
    Ok(head(stream)?.lines().next().unwrap_or_default().to_owned())
}

/// Reads the status line and headers of a response, as far as they arrive.
fn head(mut stream: TcpStream) -> Result<String, String> {
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while !answer.windows(4).any(|four| four == b"\r\n\r\n") {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&piece[..count]),
            Err(error) if answer.is_empty() => return Err(error.to_string()),
            Err(_) => break,
        }
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The faults of the misbehaving client over HTTP.
pub const FAULTS: &[&str] = &[
    "garbage",
    "batch",
    "deep",
    "long-body",
    "claims-a-gigabyte",
    "half-a-body",
    "slow-head",
    "idle-connections",
    "duplicate-ids",
    "cancel-unknown",
    "hang-up",
    "slow-reader",
    "wrong-method",
    "no-method",
    "wrong-version",
    "no-envelope",
    "foreign-host",
    "foreign-origin",
    "unknown-session",
    "no-http",
];
