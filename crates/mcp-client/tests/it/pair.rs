//! The old pair of HTTP and server-sent events.

use std::time::Duration;

use mcp_client::protocol::Era;
use mcp_client::{Error, McpClient, Recipe, Sent};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio::task::JoinSet;

use crate::support::harmless;

/// What a message is answered with instead of 202.
type Refuse = fn(&Value) -> Option<&'static str>;
/// Whether an error tells what it should.
type Expected = fn(&Error) -> bool;

/// A pair by hand: what is posted is answered on the stream.
struct Pair {
    url: String,
    serving: JoinSet<()>,
}

impl Pair {
    async fn serve(refuse: Refuse) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/sse", listener.local_addr().unwrap());
        let (said, _) = broadcast::channel::<String>(16);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut exchanges = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let said = said.clone();
                exchanges.spawn(async move { drop(converse(stream, said, refuse).await) });
            }
        });
        Self { url, serving }
    }

    async fn end(mut self) {
        self.serving.shutdown().await;
    }
}

async fn converse(
    mut stream: TcpStream,
    said: broadcast::Sender<String>,
    refuse: Refuse,
) -> std::io::Result<()> {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let count = stream.read(&mut bytes).await?;
        if count == 0 {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
        if text.starts_with("GET /sse") {
            return stream_to(stream, said.subscribe()).await;
        }
        if !text.starts_with("POST /post?id=7") {
            stream.write_all(b"HTTP/1.1 405 X\r\ncontent-length: 0\r\n\r\n").await?;
            continue;
        }
        let body: Value = serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap();
        match refuse(&body) {
            Some("") => return Ok(()),
            Some(refusal) => {
                stream.write_all(refusal.as_bytes()).await?;
                continue;
            }
            None => {}
        }
        let result = match body["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
                "serverInfo": {"name": "old", "version": "1"}}),
            Some("tools/call") => {
                json!({"content": [{"type": "text", "text": body["params"]["arguments"]["text"]}]})
            }
            _ => json!({}),
        };
        stream.write_all(b"HTTP/1.1 202 X\r\ncontent-length: 8\r\n\r\nAccepted").await?;
        if !body["id"].is_null() {
            let _ = said.send(json!({"jsonrpc": "2.0", "id": body["id"], "result": result}).to_string());
        }
    }
}

async fn stream_to(mut stream: TcpStream, mut said: broadcast::Receiver<String>) -> std::io::Result<()> {
    let head = "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\r\n\
                event: endpoint\ndata: /post?id=7\n\n";
    stream.write_all(head.as_bytes()).await?;
    let mut rest = [0; 16];
    loop {
        tokio::select! {
            text = said.recv() => {
                stream.write_all(format!("event: message\ndata: {}\n\n", text.unwrap()).as_bytes()).await?;
            }
            read = stream.read(&mut rest) => if read? == 0 { return Ok(()) },
        }
    }
}

async fn echo(client: &McpClient, text: &str) -> mcp_client::Result<String> {
    let call = client.call("echo", json!({"text": text}));
    Ok(tokio::time::timeout(Duration::from_secs(8), call).await.expect("it hangs")?.text())
}

#[tokio::test]
async fn rows_19_and_21_the_old_pair_is_found_and_used() {
    harmless(async {
        let pair = Pair::serve(|_| None).await;
        for recipe in [Recipe::url(&pair.url), Recipe::sse(&pair.url)] {
            let client = McpClient::connect(recipe).await.unwrap();
            assert_eq!(client.era(), Era::Legacy);
            assert_eq!(echo(&client, "old").await.unwrap(), "old");
            client.close().await;
        }
        pair.end().await;
    })
    .await;
}

#[tokio::test]
async fn f_29_a_call_that_the_old_pair_does_not_take_is_told_what_is_wanted_and_the_next_is_served() {
    harmless(async {
        let pair = Pair::serve(|body| {
            Some(match body["params"]["arguments"]["text"].as_str()? {
                "who" => {
                    "HTTP/1.1 401 X\r\nwww-authenticate: Bearer scope=\"files\"\r\ncontent-length: 0\r\n\r\n"
                }
                "busy" => "HTTP/1.1 429 X\r\nretry-after: 7\r\ncontent-length: 4\r\n\r\nbusy",
                "gone" => "",
                _ => return None,
            })
        })
        .await;
        let client = McpClient::connect(Recipe::sse(&pair.url)).await.unwrap();
        let error = echo(&client, "who").await.unwrap_err();
        assert!(
            matches!(&error, Error::Unauthorized { status: 401, challenges, .. }
                if challenges[0].scope() == Some("files")),
            "{error:?}"
        );
        let error = echo(&client, "busy").await.unwrap_err();
        assert!(
            matches!(&error, Error::Status { answer, .. }
                if answer.status == 429 && answer.retry_after == Some(Duration::from_secs(7))),
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

#[tokio::test]
async fn f_29_a_greeting_that_the_old_pair_does_not_take_is_told_what_is_wanted() {
    harmless(async {
        let refused: [(Refuse, Expected); 2] = [
            (|_| Some("HTTP/1.1 403 X\r\ncontent-length: 0\r\n\r\n"), |error| {
                matches!(error, Error::Unauthorized { status: 403, .. })
            }),
            (|_| Some("HTTP/1.1 500 X\r\ncontent-length: 4\r\n\r\noops"), |error| {
                matches!(error, Error::Status { answer, .. } if answer.status == 500 && answer.excerpt == "oops")
            }),
        ];
        for (refuse, is_told) in refused {
            let pair = Pair::serve(refuse).await;
            for recipe in [Recipe::url(&pair.url), Recipe::sse(&pair.url)] {
                let error = McpClient::connect(recipe).await.unwrap_err();
                assert!(is_told(&error), "{error:?}");
            }
            pair.end().await;
        }
    })
    .await;
}
