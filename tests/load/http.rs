//! Calls over HTTP, in both eras, and clients that leave.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::server::{Growth, Server};
use crate::{call, id_and_text, initialize, text_of};

/// Calls in each era.
const CALLS: u64 = 100_000;
/// Connections of each era, each with one call in flight.
const CONNECTIONS: u64 = 32;

/// Half of the connections are modern, half legacy with a session each.
pub(crate) fn both_eras() -> Result<String, String> {
    let (server, port) = Server::http(&[])?;
    let mut clients = (0..CONNECTIONS * 2)
        .map(|number| Connection::open(port)?.client(number % 2 == 0))
        .collect::<Result<Vec<_>, _>>()?;
    let each = CALLS / CONNECTIONS;
    let mut count = 0;
    let mut run = |calls: u64| {
        std::thread::scope(|scope| {
            let running: Vec<_> = clients
                .iter_mut()
                .zip(0..)
                // Ids are used once in all, so that a response on the wrong connection is seen.
                .map(|(client, number)| scope.spawn(move || client.echo(number * each + count + 1, calls)))
                .collect();
            running
                .into_iter()
                .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err("a client panicked".into())))
        })?;
        count += calls;
        server.resident()
    };
    let warm = run(each / 10)?;
    let end = run(each - each / 10)?;
    let growth = Growth { warm, end }.check()?;
    Ok(format!("{} calls, {} connections, {growth}", each * CONNECTIONS * 2, CONNECTIONS * 2))
}

/// Calls at once, few enough for the descriptors that a process has by default.
const WAVE: u64 = 500;
/// How long a call may run after its client has left.
const CANCELLED: Duration = Duration::from_secs(2);

/// Two waves that wait for the whole response, one that leaves in the middle of a stream.
pub(crate) fn disconnect() -> Result<String, String> {
    let (_server, port) = Server::http(&[])?;
    let mut watcher = Connection::open(port)?.client(true)?;
    let mut worst = Duration::ZERO;
    for is_stream in [false, false, true] {
        let mut connections = (0..WAVE).map(|_| Connection::open(port)).collect::<Result<Vec<_>, _>>()?;
        for (connection, id) in connections.iter_mut().zip(1..) {
            let ms = if is_stream { 10_000 } else { 60_000 };
            let mut body = call(id, "sleep", &json!({ "ms": ms }), true);
            if is_stream {
                body = body.replacen("\"_meta\":{", "\"_meta\":{\"progressToken\":1,", 1);
            }
            connection.send(&modern_headers("sleep"), &body)?;
        }
        watcher.wait_for_running(WAVE, Duration::from_secs(10))?;
        if is_stream {
            for connection in &mut connections {
                connection.wait_for(b"notifications/progress")?;
            }
        }
        let left = Instant::now();
        drop(connections);
        watcher.wait_for_running(0, CANCELLED)?;
        worst = worst.max(left.elapsed());
    }
    Ok(format!("3 waves of {WAVE} calls, one of them streams; none ran {} ms later", worst.as_millis()))
}

/// A connection that stays open.
pub(crate) struct Connection {
    stream: TcpStream,
    port: u16,
    received: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(port: u16) -> Result<Self, String> {
        let connect = || {
            let stream = TcpStream::connect(("127.0.0.1", port))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(Duration::from_secs(20)))?;
            Ok(Self { stream, port, received: Vec::new() })
        };
        connect().map_err(|error: std::io::Error| format!("connecting: {error}"))
    }

    /// One that calls tools; in the legacy era it opens a session.
    fn client(mut self, is_modern: bool) -> Result<Client, String> {
        let session = if is_modern { None } else { Some(self.open_session()?) };
        Ok(Client { connection: self, session })
    }

    /// Opens a legacy session and gives its id.
    pub(crate) fn open_session(&mut self) -> Result<String, String> {
        self.session_of(&initialize())
    }

    /// Opens a legacy session by this `initialize`.
    pub(crate) fn session_of(&mut self, initialize: &str) -> Result<String, String> {
        let response = self.exchange("", initialize)?;
        response.header("mcp-session-id").ok_or_else(|| format!("no session: {}", response.head))
    }

    /// One request and its response, which must be all that comes.
    pub(crate) fn exchange(&mut self, headers: &str, body: &str) -> Result<Response, String> {
        self.send(headers, body)?;
        self.received.clear();
        let head = self.wait_for(b"\r\n\r\n")?;
        let head_text = String::from_utf8_lossy(&self.received[..head]).into_owned();
        let mut response = Response { head: head_text, body: Vec::new() };
        let length = response.header("content-length").and_then(|length| length.parse::<usize>().ok());
        let end = head + length.ok_or_else(|| format!("no length: {}", response.head))?;
        while self.received.len() < end {
            self.read()?;
        }
        if self.received.len() > end {
            return Err(format!("more than a response: {}", String::from_utf8_lossy(&self.received)));
        }
        response.body = self.received[head..].to_vec();
        Ok(response)
    }

    pub(crate) fn send(&mut self, headers: &str, body: &str) -> Result<(), String> {
        let (port, length) = (self.port, body.len());
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
        );
        self.stream.write_all(request.as_bytes()).map_err(|error| format!("sending: {error}"))
    }

    /// Reads until these bytes have come, and says where they end.
    pub(crate) fn wait_for(&mut self, wanted: &[u8]) -> Result<usize, String> {
        loop {
            if let Some(at) = self.received.windows(wanted.len()).position(|window| window == wanted) {
                return Ok(at + wanted.len());
            }
            self.read()?;
        }
    }

    fn read(&mut self) -> Result<(), String> {
        let mut piece = [0; 4096];
        match self.stream.read(&mut piece) {
            Ok(0) => Err("the server hung up".into()),
            Ok(count) => {
                self.received.extend_from_slice(&piece[..count]);
                Ok(())
            }
            Err(error) => Err(format!("waiting for a response: {error}")),
        }
    }
}

/// What came back.
pub(crate) struct Response {
    head: String,
    body: Vec<u8>,
}

impl Response {
    pub(crate) fn status(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    /// True if the body has this text.
    pub(crate) fn contains(&self, text: &str) -> bool {
        String::from_utf8_lossy(&self.body).contains(text)
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let mut headers = self.head.lines().filter_map(|line| line.split_once(": "));
        headers.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    }
}

pub(crate) fn legacy_headers(session: &str) -> String {
    format!("MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: {session}\r\n")
}

fn modern_headers(tool: &str) -> String {
    format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n")
}

/// A client of one era.
struct Client {
    connection: Connection,
    session: Option<String>,
}

impl Client {
    /// Calls, one after the other, with ids from the first.
    fn echo(&mut self, first: u64, calls: u64) -> Result<(), String> {
        for id in first..first + calls {
            let (got, text) = self.call(id, "echo", &json!({ "text": text_of(id) }))?;
            if got != id || text != text_of(id) {
                return Err(format!("{id} got the response of {got}: {text}"));
            }
        }
        Ok(())
    }

    /// Waits until so many calls of `sleep` run.
    fn wait_for_running(&mut self, wanted: u64, patience: Duration) -> Result<(), String> {
        let start = Instant::now();
        loop {
            let (_, running) = self.call(1, "running", &json!({}))?;
            if running == wanted.to_string() {
                return Ok(());
            }
            if start.elapsed() > patience {
                return Err(format!("{running} calls run after {} ms, not {wanted}", patience.as_millis()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn call(&mut self, id: u64, tool: &str, arguments: &serde_json::Value) -> Result<(u64, String), String> {
        let headers = match &self.session {
            Some(session) => legacy_headers(session),
            None => modern_headers(tool),
        };
        let response =
            self.connection.exchange(&headers, &call(id, tool, arguments, self.session.is_none()))?;
        if response.status() != "200" {
            return Err(format!("{id} got {}{}", response.head, String::from_utf8_lossy(&response.body)));
        }
        id_and_text(&response.body)
    }
}
