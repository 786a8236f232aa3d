//! The misbehaving server. It uses blocking I/O, and none of the codecs of the library under test.

mod tools;

use std::io::{self, BufRead, Write};
use std::process::{Command, ExitCode};

use serde_json::{Value, json};

use super::options::{Era, Options};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

pub(super) fn run(words: &[&str]) -> Result<ExitCode, String> {
    let mut options = Options::parse(words)?;
    if options.is_stubborn && std::env::var_os("MCP_TEST_PEER_IGNORES").is_none() {
        return stubborn(words);
    }
    let is_first = match &options.lives {
        Some(file) => is_first_life(file).map_err(|error| error.to_string())?,
        None => true,
    };
    options.refuses_later &= !is_first;
    if !is_first {
        options.dies_of = None;
        if options.silent_later {
            options.silent = usize::MAX;
        }
    }
    if let Some(text) = &options.says {
        eprintln!("{text}");
    }
    if let Some(code) = options.exit {
        std::process::exit(code);
    }
    let mut server = Server {
        options,
        out: io::stdout(),
        cancelled: 0,
        waiting: Vec::new(),
        asking: None,
        requests: Vec::new(),
        listening: Vec::new(),
        followed: Vec::new(),
    };
    match server.serve() {
        Ok(()) => {}
        // The client may disconnect during a fault.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        Err(error) => return Err(error.to_string()),
    }
    if server.options.is_stubborn {
        loop {
            std::thread::park();
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts this program again from a shell that ignores SIGTERM, next to a child process of that shell. A signal that is
/// ignored stays ignored after `exec`.
fn stubborn(words: &[&str]) -> Result<ExitCode, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let script = "trap '' TERM; sh -c 'while :; do sleep 0.1; done' </dev/null & exec \"$0\" server \"$@\"";
    let mut child = Command::new("sh")
        .args(["-c", script])
        .arg(program)
        .args(words)
        .env("MCP_TEST_PEER_IGNORES", "1")
        .spawn()
        .map_err(|error| error.to_string())?;
    let status = child.wait().map_err(|error| error.to_string())?;
    Ok(ExitCode::from(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1)))
}

struct Server {
    options: Options,
    out: io::Stdout,
    cancelled: usize,
    /// The ids of the calls of `late`, which are answered when they are cancelled.
    waiting: Vec<Value>,
    /// The call of `ask` in progress: its id, the number of requests, and the error codes of the responses so far.
    asking: Option<(Value, usize, Vec<Value>)>,
    /// The methods of all requests so far.
    requests: Vec<String>,
    /// The ids of the modern subscriptions.
    listening: Vec<Value>,
    /// The subscribed resources of the legacy era.
    followed: Vec<String>,
}

/// Appends a line to a file. Returns true if it is the first line.
fn is_first_life(file: &str) -> io::Result<bool> {
    writeln!(std::fs::OpenOptions::new().append(true).create(true).open(file)?, "{}", std::process::id())?;
    Ok(std::fs::read_to_string(file)?.lines().count() == 1)
}

impl Server {
    fn serve(&mut self) -> io::Result<()> {
        if self.options.has_mark {
            self.out.write_all(b"\xef\xbb\xbf")?;
        }
        for number in 0..self.options.noise {
            self.line(&format!("starting up, step {number}"))?;
        }
        if self.options.asks_first {
            self.line(r#"{"jsonrpc":"2.0","id":"first","method":"roots/list"}"#)?;
        }
        let mut line = String::new();
        loop {
            line.clear();
            if io::stdin().lock().read_line(&mut line)? == 0 {
                return Ok(());
            }
            let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
            self.message(&message)?;
        }
    }

    fn message(&mut self, message: &Value) -> io::Result<()> {
        let id = &message["id"];
        let method = message["method"].as_str().unwrap_or_default();
        if self.options.dies_of.as_deref() == Some(method) {
            eprintln!("cannot handle {method}");
            std::process::exit(3);
        }
        match method {
            "" => return self.answered(message),
            "notifications/cancelled" => {
                self.cancelled += 1;
                let wanted = &message["params"]["requestId"];
                if let Some(at) = self.waiting.iter().position(|id| id == wanted) {
                    let id = self.waiting.remove(at);
                    self.text(&id, "too late")?;
                }
                return Ok(());
            }
            _ if id.is_null() => return Ok(()),
            _ => {}
        }
        self.requests.push(method.to_owned());
        if self.options.silent > 0 {
            self.options.silent -= 1;
            return Ok(());
        }
        match method {
            "server/discover" => self.discover(id),
            "initialize" => self.initialize(id, &message["params"]["protocolVersion"]),
            "ping" => self.result(id, &json!({})),
            "resources/subscribe" if self.options.refuses_later => self.error(id, -32602, "not any more"),
            "resources/subscribe" => {
                self.followed.extend(message["params"]["uri"].as_str().map(str::to_owned));
                self.result(id, &json!({}))
            }
            "subscriptions/listen" => self.listen(id, &message["params"]["notifications"]),
            "tools/list" => self.list(id, message["params"]["cursor"].as_str()),
            "tools/call" => {
                let params = &message["params"];
                self.call(id, params["name"].as_str().unwrap_or_default(), &params["arguments"], params)
            }
            _ => self.error(id, -32601, "no such method"),
        }
    }

    fn discover(&mut self, id: &Value) -> io::Result<()> {
        let outcome = match (&self.options.discover, self.options.era) {
            (Some(outcome), _) => outcome.clone(),
            (None, Era::Legacy) => r#""error":{"code":-32601,"message":"no such method"}"#.to_owned(),
            (None, era) => {
                let versions = if era == Era::Both {
                    json!(["2026-07-28", "2025-11-25"])
                } else {
                    json!(["2026-07-28"])
                };
                let result = json!({"resultType": "complete", "supportedVersions": versions,
                    "capabilities": {"tools": {"listChanged": true}}, "ttlMs": 0, "cacheScope": "private",
                    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "test-peer", "version": "1"}}});
                format!(r#""result":{result}"#)
            }
        };
        let answer = |id: &Value| format!(r#"{{"jsonrpc":"2.0","id":{id},{outcome}}}"#);
        match self.options.discover_as.as_deref() {
            Some("null") => self.line(&answer(&Value::Null)),
            Some("array") => self.line(&format!("[{}]", answer(id))),
            Some("other") => {
                self.line(&answer(&json!("somebody else")))?;
                self.line(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hi"}}"#)?;
                self.line(&answer(id))
            }
            _ => self.line(&answer(id)),
        }
    }

    fn initialize(&mut self, id: &Value, version: &Value) -> io::Result<()> {
        if let Some(outcome) = &self.options.initialize {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},{outcome}}}"#);
            return self.line(&line);
        }
        if self.options.era == Era::Modern {
            return self.error(id, -32601, "no such method");
        }
        self.result(
            id,
            &json!({"protocolVersion": version,
                "capabilities": {"tools": {"listChanged": true}, "resources": {"subscribe": true}},
                "serverInfo": {"name": "test-peer", "version": "1"}}),
        )
    }

    fn list(&mut self, id: &Value, cursor: Option<&str>) -> io::Result<()> {
        let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
        let mut result = match self.options.list.as_deref() {
            Some("repeated") => json!({"tools": [tool("a")], "nextCursor": "again"}),
            Some("endless") => {
                let page: u64 = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
                json!({"tools": [tool(&format!("tool-{page}"))], "nextCursor": (page + 1).to_string()})
            }
            Some("many") => {
                let tools: Vec<Value> = (0..50_000).map(|number| tool(&format!("tool-{number}"))).collect();
                json!({"tools": tools, "nextCursor": "more"})
            }
            Some("duplicates") => json!({"tools": [tool("a"), tool("a"), tool("b")]}),
            Some("bad") => {
                json!({"tools": [tool("a"), {"name": "odd"}, {"name": 7, "inputSchema": {"type": "object"}}, 9, tool("b")]})
            }
            _ => json!({"tools": [tool("echo")]}),
        };
        if self.options.era != Era::Legacy {
            result["resultType"] = json!("complete");
            result["ttlMs"] = json!(0);
            result["cacheScope"] = json!("private");
        }
        self.result(id, &result)
    }

    fn listen(&mut self, id: &Value, notifications: &Value) -> io::Result<()> {
        self.listening.push(id.clone());
        let agreed = if self.options.refuses_later { &json!({}) } else { notifications };
        let params = json!({"_meta": {SUBSCRIPTION: id}, "notifications": agreed});
        self.line(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{params}}}"#
        ))
    }

    /// Handles a response from the client to a request of this server.
    fn answered(&mut self, message: &Value) -> io::Result<()> {
        let Some((_, times, codes)) = &mut self.asking else { return Ok(()) };
        codes.push(message["error"]["code"].clone());
        if codes.len() < *times {
            return Ok(());
        }
        let Some((id, _, codes)) = self.asking.take() else { return Ok(()) };
        self.text(&id, &Value::from(codes).to_string())
    }

    fn text(&mut self, id: &Value, text: &str) -> io::Result<()> {
        self.line(&self.text_of(id, text))
    }

    fn text_of(&self, id: &Value, text: &str) -> String {
        let result = json!({"content": [{"type": "text", "text": text}]});
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
    }

    fn result(&mut self, id: &Value, result: &Value) -> io::Result<()> {
        self.broken(id, &format!(r#""result":{result}"#))
    }

    fn error(&mut self, id: &Value, code: i64, message: &str) -> io::Result<()> {
        self.broken(id, &format!(r#""error":{{"code":{code},"message":"{message}"}}"#))
    }

    /// Writes a response with these members, which may be invalid.
    fn broken(&mut self, id: &Value, members: &str) -> io::Result<()> {
        self.line(&format!(r#"{{"jsonrpc":"2.0","id":{id},{members}}}"#))
    }

    fn line(&mut self, line: &str) -> io::Result<()> {
        self.out.write_all(format!("{line}\n").as_bytes())?;
        self.out.flush()
    }
}
