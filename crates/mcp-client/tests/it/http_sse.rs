//! The HTTP+SSE transport (2024-11-05).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mcp_client::protocol::Era;
use mcp_client::protocol::elicitation::{ElicitFormParams, ElicitResult};
use mcp_client::protocol::negotiation::{NegotiationError, Obstacle};
use mcp_client::protocol::subscriptions::SubscriptionFilter;
use mcp_client::{Change, Error, Handlers, McpClient, NegotiationCache, Sent, ServerConfig, ServerRequest};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use crate::support::harmless;
use crate::web::echo;

/// What is done with a message.
enum Act {
    Answer,
    /// The same, a moment after it was taken.
    Later,
    /// Answered with this, and not on the stream; hangs up if it is empty.
    Refuse(&'static str),
    /// Answered on the stream after a while, and only then where it was posted.
    Hold(Duration),
    /// The same after the client was asked something.
    Ask,
    /// Answered on the stream, and a moment later hung up on where it was posted.
    AnswerAndHangUp,
    /// Answered with more than anybody takes.
    Long,
    /// The stream says nothing more, and nobody knows its session.
    Forget,
    /// The same in the first session, and an answer in others.
    ForgetFirst,
    /// Answered, and then the stream ends.
    HangUp,
}

/// A pair by hand: what is posted is answered on the stream.
struct Pair {
    url: String,
    shared: Arc<Shared>,
    serving: JoinSet<()>,
}

struct Shared {
    act: fn(&Value) -> Act,
    state: Mutex<State>,
    is_told: Notify,
}

#[derive(Default)]
struct State {
    streams: HashMap<String, mpsc::UnboundedSender<String>>,
    /// Streams that are open, and of which nothing is known.
    forgotten: Vec<mpsc::UnboundedSender<String>>,
    opened: usize,
    posted: Vec<String>,
    /// What was posted to the stream's own URL.
    elsewhere: usize,
    connections: usize,
}

const ACCEPTED: &str = "HTTP/1.1 202 X\r\ncontent-length: 8\r\n\r\nAccepted";
const NOT_FOUND: &str = "HTTP/1.1 404 X\r\ncontent-length: 0\r\n\r\n";

impl Pair {
    async fn serve(act: fn(&Value) -> Act) -> Self {
        Self::serve_at(TcpListener::bind("127.0.0.1:0").await.unwrap(), act)
    }

    fn serve_at(listener: TcpListener, act: fn(&Value) -> Act) -> Self {
        let url = format!("http://{}/sse", listener.local_addr().unwrap());
        let shared = Arc::new(Shared { act, state: Mutex::default(), is_told: Notify::new() });
        let mut serving = JoinSet::new();
        let all = Arc::clone(&shared);
        serving.spawn(async move {
            let mut exchanges = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                all.state.lock().unwrap().connections += 1;
                let all = Arc::clone(&all);
                exchanges.spawn(async move { drop(all.converse(stream).await) });
            }
        });
        Self { url, shared, serving }
    }

    fn posted(&self) -> Vec<String> {
        self.shared.state.lock().unwrap().posted.clone()
    }

    fn connections(&self) -> usize {
        self.shared.state.lock().unwrap().connections
    }

    /// Says something on every stream.
    fn say(&self, message: &Value) {
        for stream in self.shared.state.lock().unwrap().streams.values() {
            let _ = stream.send(message.to_string());
        }
    }

    async fn end(mut self) {
        self.serving.shutdown().await;
    }
}

impl Shared {
    async fn converse(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut bytes = vec![0; 64 << 10];
        loop {
            let count = stream.read(&mut bytes).await?;
            if count == 0 {
                return Ok(());
            }
            let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
            if text.starts_with("GET /sse") {
                return self.stream(stream).await;
            }
            let Some(id) = text.strip_prefix("POST /post?id=") else {
                self.state.lock().unwrap().elsewhere += 1;
                stream.write_all(b"HTTP/1.1 405 X\r\ncontent-length: 0\r\n\r\n").await?;
                continue;
            };
            let id = id.split(' ').next().unwrap();
            let body: Value = serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap();
            let answer = self.post(id, &body).await;
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

    /// Gives what the message is answered with where it was posted.
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
            self.is_told.notify_waiters();
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
                let told = self.is_told.notified();
                let params =
                    json!({"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}});
                let ask =
                    json!({"jsonrpc": "2.0", "id": "ask", "method": "elicitation/create", "params": params});
                say.send(ask.to_string()).unwrap();
                told.await;
                // Whoever asked may be gone.
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

#[tokio::test]
async fn transport_is_detected_and_used() {
    harmless(async {
        let pair = Pair::serve(|_| Act::Answer).await;
        for config in [ServerConfig::url(&pair.url), ServerConfig::sse(&pair.url)] {
            let client = McpClient::connect(config).await.unwrap();
            assert_eq!(client.era(), Era::Legacy);
            assert_eq!(echo(&client, "old").await.unwrap(), "old");
            client.close().await;
        }
        // What is known to be a pair is not asked for its era.
        assert_eq!(pair.posted(), ["initialize", "notifications/initialized", "tools/call"].repeat(2));
        pair.end().await;
    })
    .await;
}

#[tokio::test]
async fn negotiation_result_is_cached() {
    harmless(async {
        let pair = Pair::serve(|_| Act::Answer).await;
        let negotiation_cache = NegotiationCache::new();
        for asked in [2, 3] {
            let builder =
                McpClient::builder(ServerConfig::url(&pair.url)).negotiation_cache(&negotiation_cache);
            builder.connect().await.unwrap().close().await;
            // The era and a greeting the first time, a greeting the next.
            assert_eq!(pair.shared.state.lock().unwrap().elsewhere, asked);
        }
        pair.end().await;
    })
    .await;
}

#[tokio::test]
async fn call_refusal_is_reported_and_the_next_call_works() {
    harmless(async {
        let pair = Pair::serve(|body| {
            Act::Refuse(match body["params"]["arguments"]["text"].as_str() {
                Some("who") => {
                    "HTTP/1.1 401 X\r\nwww-authenticate: Bearer scope=\"files\"\r\ncontent-length: 0\r\n\r\n"
                }
                Some("busy") => "HTTP/1.1 429 X\r\nretry-after: 999\r\ncontent-length: 4\r\n\r\nbusy",
                Some("gone") => "",
                _ => return Act::Answer,
            })
        })
        .await;
        let client = McpClient::connect(ServerConfig::sse(&pair.url)).await.unwrap();
        let error = echo(&client, "who").await.unwrap_err();
        assert!(
            matches!(&error, Error::Unauthorized { status: 401, challenges, .. }
                if challenges[0].scope() == Some("files")),
            "{error:?}"
        );
        let error = echo(&client, "busy").await.unwrap_err();
        assert!(
            matches!(&error, Error::Status { answer, .. }
                if answer.status == 429 && answer.retry_after == Some(Duration::from_secs(999))),
            "{error:?}"
        );
        let error = echo(&client, "gone").await.unwrap_err();
        assert!(matches!(&error, Error::Lost { sent: Sent::Maybe, .. }), "{error:?}");
        assert_eq!(echo(&client, "fine").await.unwrap(), "fine");
        assert!(client.ended().is_none());
        client.close().await;
        pair.end().await;
    })
    .await;
}

/// What a server does, and whether an error tells of it as it should.
type Case = (fn(&Value) -> Act, fn(&Error) -> bool);

#[tokio::test]
async fn initialize_refusal_is_reported_with_its_status() {
    harmless(async {
        let refused: [Case; 2] = [
            (|_| Act::Refuse("HTTP/1.1 403 X\r\ncontent-length: 0\r\n\r\n"), |error| {
                matches!(error, Error::Unauthorized { status: 403, .. })
            }),
            (|_| Act::Refuse("HTTP/1.1 500 X\r\ncontent-length: 4\r\n\r\noops"), |error| {
                matches!(error, Error::Status { answer, .. } if answer.status == 500 && answer.excerpt == "oops")
            }),
        ];
        for (act, is_told) in refused {
            let pair = Pair::serve(act).await;
            for config in [ServerConfig::url(&pair.url), ServerConfig::sse(&pair.url)] {
                let error = McpClient::connect(config).await.unwrap_err();
                assert!(is_told(&error), "{error:?}");
            }
            pair.end().await;
        }
    })
    .await;
}

#[tokio::test]
async fn connect_times_out_and_503_is_reported_as_busy() {
    harmless(async {
        let pair = Pair::serve(|_| Act::Hold(Duration::from_secs(60))).await;
        let began = Instant::now();
        let budget = Duration::from_millis(800);
        let error = McpClient::connect(ServerConfig::sse(&pair.url).start_timeout(budget)).await.unwrap_err();
        assert!(matches!(error, Error::Connect { .. }), "{error:?}");
        assert!(began.elapsed() < budget * 2, "{:?}", began.elapsed());
        pair.end().await;
        let busy = "HTTP/1.1 503 X\r\nretry-after: 77\r\ncontent-length: 0\r\n\r\n";
        let web = crate::web::Web::serve(move |_| crate::web::Say::Whole(busy.into())).await;
        let error = McpClient::connect(ServerConfig::sse(&web.url)).await.unwrap_err();
        let Error::Connect { error: source, .. } = error else { panic!("{error:?}") };
        let obstacle = Obstacle::Busy { status: 503, retry_after: Some(Duration::from_secs(77)) };
        assert_eq!(*source, NegotiationError::Http(obstacle));
        web.end().await;
    })
    .await;
}

#[tokio::test]
async fn post_may_stay_open_until_the_call_is_done() {
    harmless(async {
        let pair = Pair::serve(|body| match body["params"]["arguments"]["text"].as_str() {
            Some("slow") => Act::Hold(Duration::from_millis(400)),
            Some("later") => Act::Later,
            Some("ask") => Act::Ask,
            _ if body["method"] == "initialize" => Act::Hold(Duration::from_millis(50)),
            _ => Act::Answer,
        })
        .await;
        let handlers =
            Handlers::new().on_form(async |_: ServerRequest<ElicitFormParams>| ElicitResult::decline());
        let client =
            McpClient::builder(ServerConfig::sse(&pair.url)).handlers(handlers).connect().await.unwrap();
        let (began, slow) = (Instant::now(), client.call("echo", json!({"text": "slow"})).into_future());
        let slow = tokio::spawn(slow);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(echo(&client, "quick").await.unwrap(), "quick");
        assert_eq!(echo(&client, "ask").await.unwrap(), "ask");
        assert!(began.elapsed() < Duration::from_millis(350), "nobody waits for the slow one");
        assert_eq!(echo(&client, "later").await.unwrap(), "later");
        assert_eq!(slow.await.unwrap().unwrap().text(), "slow");
        assert!(began.elapsed() < Duration::from_millis(700), "the answer counts, not where it was posted");
        // A call that is given up is taken back, though it is not answered where it was posted.
        let given_up = client.call("echo", json!({"text": "slow"})).timeout(Duration::from_millis(100)).await;
        assert!(matches!(given_up, Err(Error::TimedOut { .. })), "{given_up:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(pair.posted().last().unwrap(), "notifications/cancelled");
        client.close().await;
        pair.end().await;
    })
    .await;
}

#[tokio::test]
async fn lost_session_is_reopened_and_the_call_is_retried() {
    harmless(async {
        let pair = Pair::serve(|body| match body["params"]["arguments"]["text"].as_str() {
            Some("forget") => Act::Forget,
            Some("forget once") => Act::ForgetFirst,
            Some("wait") => Act::Hold(Duration::from_secs(60)),
            _ => Act::Answer,
        })
        .await;
        let client = McpClient::connect(ServerConfig::sse(&pair.url)).await.unwrap();
        let waiting = tokio::spawn(client.call("echo", json!({"text": "wait"})).into_future());
        while !pair.posted().contains(&"tools/call".to_owned()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let count = |wanted: &str| pair.posted().iter().filter(|method| *method == wanted).count();
        assert_eq!(echo(&client, "forget once").await.unwrap(), "forget once");
        assert_eq!((count("initialize"), count("tools/call")), (2, 3));
        // What the first session was to answer never will be.
        let lost = tokio::time::timeout(Duration::from_secs(5), waiting).await.unwrap().unwrap();
        assert!(matches!(lost, Err(Error::Lost { sent: Sent::Maybe, .. })), "{lost:?}");
        // One that is always forgotten is no reason to go on.
        let error = echo(&client, "forget").await.unwrap_err();
        assert!(matches!(&error, Error::Status { answer, .. } if answer.status == 404), "{error:?}");
        assert_eq!((count("initialize"), count("tools/call")), (3, 5));
        assert_eq!(echo(&client, "fine").await.unwrap(), "fine");
        client.close().await;
        pair.end().await;
    })
    .await;
}

#[tokio::test]
async fn subscriptions_survive_a_server_restart() {
    harmless(async {
        let pair = Pair::serve(|_| Act::Answer).await;
        let url = pair.url.clone();
        let client = McpClient::connect(ServerConfig::sse(&url)).await.unwrap();
        let mut changes = client.changes(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap();
        let follower = tokio::spawn(async move {
            let mut seen = Vec::new();
            while seen.last() != Some(&Change::Tools) {
                seen.push(changes.next().await.expect("it goes on"));
            }
            seen
        });
        pair.end().await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let error = echo(&client, "nobody").await.unwrap_err();
        assert!(error.is_retry_safe(), "{error:?}");
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let address = url.trim_start_matches("http://").trim_end_matches("/sse").to_owned();
        let pair = Pair::serve_at(TcpListener::bind(address).await.unwrap(), |_| Act::Answer);
        let until = Instant::now() + Duration::from_secs(20);
        while !follower.is_finished() {
            assert!(Instant::now() < until, "{:?}", pair.posted());
            pair.say(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let seen = follower.await.unwrap();
        assert!(seen[0] == Change::Gap && seen.len() <= 3, "{seen:?}");
        assert_eq!(echo(&client, "back").await.unwrap(), "back");
        client.close().await;
        pair.end().await;
    })
    .await;
}

#[tokio::test]
async fn stream_is_reopened_with_backoff() {
    harmless(async {
        let pair = Pair::serve(|body| match body["method"].as_str() {
            Some("notifications/initialized") => Act::HangUp,
            _ => Act::Answer,
        })
        .await;
        let client = McpClient::connect(ServerConfig::sse(&pair.url)).await.unwrap();
        let changes = client.changes(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!((3..=6).contains(&pair.connections()), "{} in 10 s", pair.connections());
        drop(changes);
        client.close().await;
        pair.end().await;
    })
    .await;
}

#[tokio::test]
async fn response_counts_although_the_post_fails() {
    harmless(async {
        let pair = Pair::serve(|body| match body["method"].as_str() {
            Some("tools/call") => Act::AnswerAndHangUp,
            _ => Act::Answer,
        })
        .await;
        let client = McpClient::connect(ServerConfig::sse(&pair.url)).await.unwrap();
        let mut call = Box::pin(client.call("echo", json!({"text": "here"})).into_future());
        // It is begun, and looked at again when both have happened.
        while !pair.posted().contains(&"tools/call".to_owned()) {
            let begun = std::future::poll_fn(|cx| std::task::Poll::Ready(call.as_mut().poll(cx))).await;
            assert!(begun.is_pending());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(call.await.unwrap().text(), "here");
        client.close().await;
        pair.end().await;
    })
    .await;
}

#[tokio::test]
async fn request_of_an_old_session_gets_no_response() {
    harmless(async {
        let pair = Pair::serve(|body| match body["params"]["arguments"]["text"].as_str() {
            Some("ask") => Act::Ask,
            Some("forget") => Act::ForgetFirst,
            _ => Act::Answer,
        })
        .await;
        let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let handlers = Handlers::new().on_form(move |_: ServerRequest<ElicitFormParams>| {
            let number = counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            async move {
                tokio::time::sleep(Duration::from_millis(300)).await;
                if number == 0 { ElicitResult::accept([]) } else { ElicitResult::decline() }
            }
        });
        let client =
            McpClient::builder(ServerConfig::sse(&pair.url)).handlers(handlers).connect().await.unwrap();
        let first = tokio::spawn(client.call("echo", json!({"text": "ask"})).into_future());
        while asked.load(std::sync::atomic::Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(echo(&client, "forget").await.unwrap(), "forget");
        assert!(matches!(first.await.unwrap(), Err(Error::Lost { sent: Sent::Maybe, .. })));
        // It numbers its questions anew.
        assert_eq!(echo(&client, "ask").await.unwrap(), "ask");
        tokio::time::sleep(Duration::from_millis(400)).await;
        let answers: Vec<_> = pair.posted().into_iter().filter(|said| said.starts_with("answer")).collect();
        assert_eq!(answers, ["answer: decline"]);
        client.close().await;
        pair.end().await;
    })
    .await;
}

#[tokio::test]
async fn oversized_response_fails_only_its_own_call() {
    harmless(async {
        let pair = Pair::serve(|body| match body["params"]["arguments"]["text"].as_str() {
            Some("long") => Act::Long,
            _ => Act::Answer,
        })
        .await;
        let client = McpClient::connect(ServerConfig::sse(&pair.url)).await.unwrap();
        let error = echo(&client, "long").await.unwrap_err();
        assert!(matches!(error, Error::Unreadable { .. }), "{error:?}");
        assert_eq!(echo(&client, "fine").await.unwrap(), "fine");
        client.close().await;
        pair.end().await;
    })
    .await;
}

#[tokio::test]
async fn client_dropped_at_any_moment_leaves_nothing() {
    harmless(async {
        let pair = Pair::serve(|body| match body["method"].as_str() {
            Some("tools/call") if body["id"].as_u64() == Some(3) => Act::HangUp,
            Some("tools/call") if body["id"].as_u64() == Some(2) => Act::ForgetFirst,
            _ => Act::Hold(Duration::from_millis(2)),
        })
        .await;
        for round in 0..40 {
            let moment = Duration::from_micros(round * 700);
            let client = async {
                let client = McpClient::connect(ServerConfig::sse(&pair.url)).await?;
                for _ in 0..4 {
                    let call = client.call("echo", json!({"text": "x"})).into_future();
                    let _ = tokio::time::timeout(Duration::from_millis(5), call).await;
                }
                Ok::<_, Error>(client)
            };
            // Sometimes in the greeting, sometimes in a call or a new session, sometimes when all is done.
            drop(tokio::time::timeout(moment, client).await);
        }
        pair.end().await;
    })
    .await;
}
