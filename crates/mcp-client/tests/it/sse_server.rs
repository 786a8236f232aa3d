//! A server of the HTTP+SSE transport (2024-11-05) whose reaction to each message is scripted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use crate::web::{accept_all, read_request};

/// The reaction of the server to a posted message.
pub(crate) enum Act {
    /// Responds on the stream.
    Answer,
    /// Accepts the message, and responds on the stream 50 ms later.
    Later,
    /// Answers the POST with these bytes, and nothing on the stream. Closes the connection if there are none.
    Refuse(&'static str),
    /// Responds on the stream after this time, and answers the POST after the same time again.
    Hold(Duration),
    /// Sends a request to the client, and responds once that is answered.
    Ask,
    /// Responds on the stream, and closes the connection of the POST 50 ms later.
    AnswerAndHangUp,
    /// Responds with 40 MiB, more than the client accepts.
    Long,
    /// Forgets the session. Its stream stays open without further events.
    Forget,
    /// Forgets the first session, and responds in later ones.
    ForgetFirst,
    /// Responds, and closes the stream.
    HangUp,
}

/// A server of the HTTP+SSE transport: messages are posted, and responses are events of one stream.
pub(crate) struct SseServer {
    pub(crate) url: String,
    shared: Arc<Shared>,
    serving: JoinSet<()>,
}

struct Shared {
    act: fn(&Value) -> Act,
    state: Mutex<State>,
    is_answered: Notify,
}

#[derive(Default)]
struct State {
    streams: HashMap<String, mpsc::UnboundedSender<String>>,
    /// Open streams of forgotten sessions.
    forgotten: Vec<mpsc::UnboundedSender<String>>,
    opened: usize,
    /// The methods of posted messages, or the action of a response to an elicitation.
    posted: Vec<String>,
    /// The number of requests to the URL of the stream other than GET.
    elsewhere: usize,
    connections: usize,
}

const ACCEPTED: &str = "HTTP/1.1 202 X\r\ncontent-length: 8\r\n\r\nAccepted";
const NOT_FOUND: &str = "HTTP/1.1 404 X\r\ncontent-length: 0\r\n\r\n";

impl SseServer {
    pub(crate) async fn serve(act: fn(&Value) -> Act) -> Self {
        Self::serve_at(TcpListener::bind("127.0.0.1:0").await.unwrap(), act)
    }

    pub(crate) fn serve_at(listener: TcpListener, act: fn(&Value) -> Act) -> Self {
        let url = format!("http://{}/sse", listener.local_addr().unwrap());
        let shared = Arc::new(Shared { act, state: Mutex::default(), is_answered: Notify::new() });
        let all = Arc::clone(&shared);
        let serving = accept_all(listener, move |stream| {
            all.state.lock().unwrap().connections += 1;
            let all = Arc::clone(&all);
            async move { drop(all.converse(stream).await) }
        });
        Self { url, shared, serving }
    }

    pub(crate) fn posted(&self) -> Vec<String> {
        self.shared.state.lock().unwrap().posted.clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.shared.state.lock().unwrap().connections
    }

    /// The number of requests that were posted to the URL of the stream.
    pub(crate) fn posted_elsewhere(&self) -> usize {
        self.shared.state.lock().unwrap().elsewhere
    }

    /// Sends a message on every stream.
    pub(crate) fn say(&self, message: &Value) {
        for stream in self.shared.state.lock().unwrap().streams.values() {
            let _ = stream.send(message.to_string());
        }
    }

    pub(crate) async fn end(mut self) {
        self.serving.shutdown().await;
    }
}

impl Shared {
    async fn converse(&self, mut stream: TcpStream) -> std::io::Result<()> {
        loop {
            let Some(request) = read_request(&mut stream).await? else { return Ok(()) };
            if request.verb == "GET" && request.path == "/sse" {
                return self.stream(stream).await;
            }
            let Some(id) = request.path.strip_prefix("/post?id=") else {
                self.state.lock().unwrap().elsewhere += 1;
                stream.write_all(b"HTTP/1.1 405 X\r\ncontent-length: 0\r\n\r\n").await?;
                continue;
            };
            let answer = self.post(id, &request.body).await;
            if answer.is_empty() {
                return Ok(());
            }
            stream.write_all(answer.as_bytes()).await?;
        }
    }

    async fn stream(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let (say, mut said) = mpsc::unbounded_channel();
        let id = {
            let mut state = self.state.lock().unwrap();
            state.opened += 1;
            let id = state.opened.to_string();
            state.streams.insert(id.clone(), say);
            id
        };
        let head = "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\r\n";
        stream.write_all(format!("{head}event: endpoint\ndata: /post?id={id}\n\n").as_bytes()).await?;
        let mut rest = [0; 16];
        loop {
            tokio::select! {
                text = said.recv() => match text {
                    Some(text) => {
                        stream.write_all(format!("event: message\ndata: {text}\n\n").as_bytes()).await?;
                    }
                    None => return Ok(()),
                },
                read = stream.read(&mut rest) => if read? == 0 {
                    self.state.lock().unwrap().streams.remove(&id);
                    return Ok(());
                },
            }
        }
    }

    /// Handles a posted message, and returns the answer to the POST. Empty: the connection is closed.
    async fn post(&self, id: &str, body: &Value) -> &'static str {
        let say = {
            let mut state = self.state.lock().unwrap();
            let answer = || format!("answer: {}", body["result"]["action"].as_str().unwrap_or("none"));
            state.posted.push(body["method"].as_str().map_or_else(answer, str::to_owned));
            match state.streams.get(id) {
                Some(stream) => stream.clone(),
                None => return NOT_FOUND,
            }
        };
        if body["id"] == "ask" {
            self.is_answered.notify_waiters();
            return ACCEPTED;
        }
        let result = match body["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "old", "version": "1"}}),
            Some("tools/call") => {
                json!({"content": [{"type": "text", "text": body["params"]["arguments"]["text"]}]})
            }
            _ => json!({}),
        };
        let text = json!({"jsonrpc": "2.0", "id": body["id"], "result": result}).to_string();
        let answer = || if body["id"].is_null() { Ok(()) } else { say.send(text.clone()) };
        match (self.act)(body) {
            Act::Answer => answer().unwrap(),
            Act::Later => {
                let (say, answer) = (say.clone(), text.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    say.send(answer).unwrap();
                });
            }
            Act::Refuse(refusal) => return refusal,
            Act::Hold(time) => {
                tokio::time::sleep(time).await;
                answer().unwrap();
                tokio::time::sleep(time).await;
            }
            Act::Ask => {
                let answered = self.is_answered.notified();
                let params =
                    json!({"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}});
                let ask =
                    json!({"jsonrpc": "2.0", "id": "ask", "method": "elicitation/create", "params": params});
                say.send(ask.to_string()).unwrap();
                answered.await;
                // The session may have ended in the meantime.
                let _ = answer();
            }
            Act::Long => {
                let padding = "x".repeat(40 << 20);
                say.send(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"x":"{padding}"}}}}"#, body["id"]))
                    .unwrap();
            }
            Act::AnswerAndHangUp => {
                answer().unwrap();
                tokio::time::sleep(Duration::from_millis(50)).await;
                return "";
            }
            Act::ForgetFirst if id != "1" => answer().unwrap(),
            Act::Forget | Act::ForgetFirst => {
                let mut state = self.state.lock().unwrap();
                let stream = state.streams.remove(id).unwrap();
                state.forgotten.push(stream);
                return NOT_FOUND;
            }
            Act::HangUp => {
                answer().unwrap();
                self.state.lock().unwrap().streams.remove(id);
            }
        }
        ACCEPTED
    }
}
