//! The misbehaving client of a server behind a URL: commits one fault, which must be refused, then asks whether the server
//! still serves.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::Duration;

/// How long a server may take for anything.
const PATIENCE: Duration = Duration::from_secs(10);

/// `http://HOST:PORT/PATH`, taken apart.
struct Target {
    host: String,
    path: String,
}

pub(super) fn run(fault: &str, url: &str) -> Result<ExitCode, String> {
    let rest = url.strip_prefix("http://").ok_or("the URL must begin with http://")?;
    let (host, path) = rest.split_once('/').map_or((rest, ""), |(host, path)| (host, path));
    let target = Target { host: host.to_owned(), path: format!("/{path}") };
    let bytes = target.bytes(fault).ok_or(format!("there is no fault `{fault}`"))?;
    let hangs_up = fault == "half-a-body" || fault == "slow-head";
    let answered = target.say(&bytes, hangs_up);
    let serves = target.say(&target.discover(&[]), false);
    let is_refusal = |answer: &str| hangs_up || answer.starts_with("HTTP/1.1 4");
    match (answered, serves) {
        (Ok(answer), Ok(still)) if is_refusal(&answer) && still.starts_with("HTTP/1.1 2") => {
            println!("{fault}: answered with {answer:?}, and still serves");
            Ok(ExitCode::SUCCESS)
        }
        (answered, serves) => {
            println!("{fault}: answered with {answered:?}, then with {serves:?}");
            Ok(ExitCode::FAILURE)
        }
    }
}

const BODY: &str = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"test-peer","version":"1"}}}}"#;

impl Target {
    /// Says something, and gives the first line of the answer. Hangs up in the middle if told so.
    fn say(&self, bytes: &[u8], hangs_up: bool) -> Result<String, String> {
        let text = |error: std::io::Error| error.to_string();
        let mut stream = TcpStream::connect(&self.host).map_err(text)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(text)?;
        // A server may answer and hang up before it has read everything.
        let _ = stream.write_all(bytes);
        if hangs_up {
            return Ok(String::new());
        }
        let mut answer = Vec::new();
        let mut piece = [0; 4096];
        while !answer.contains(&b'\n') {
            match stream.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => answer.extend_from_slice(&piece[..count]),
                Err(error) if answer.is_empty() => return Err(error.to_string()),
                Err(_) => break,
            }
        }
        Ok(String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned())
    }

    /// A good request, but for these headers.
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
            "unknown-session" => self.post(
                &[("MCP-Protocol-Version", "2025-11-25"), ("Mcp-Session-Id", "nobody"), ("Mcp-Method", "")],
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
            ),
            "no-http" => b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec(),
            _ => return None,
        })
    }
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
    "wrong-method",
    "no-method",
    "wrong-version",
    "no-envelope",
    "foreign-host",
    "foreign-origin",
    "unknown-session",
    "no-http",
];
