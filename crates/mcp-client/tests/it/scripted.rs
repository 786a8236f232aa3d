//! Legacy servers over a pair of byte streams, whose responses are scripted.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_client::protocol::completion::{CompleteParams, CompletionArgument, PromptReference};
use mcp_client::protocol::subscriptions::SubscriptionFilter;
use mcp_client::protocol::{Limits, ProtocolVersion};
use mcp_client::{Error, McpClient};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::task::JoinHandle;

/// A server that responds to each request with a result, or not at all.
struct Scripted {
    client: McpClient,
    seen: Arc<Mutex<Vec<Value>>>,
    serving: JoinHandle<()>,
}

impl Scripted {
    /// `greeting` is written once the client is initialized.
    async fn serve(
        limits: Limits,
        version: ProtocolVersion,
        greeting: String,
        respond: impl Fn(&str) -> Option<Value> + Send + 'static,
    ) -> Self {
        let (near, far) = tokio::io::duplex(1 << 20);
        let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
        let list = Arc::clone(&seen);
        let initialized = json!({
            "protocolVersion": version.as_str(),
            "capabilities": {"tools": {}, "prompts": {}, "resources": {"subscribe": true}},
            "serverInfo": {"name": "scripted", "version": "1"},
        });
        let serving = tokio::spawn(async move {
            let (reader, mut writer) = tokio::io::split(far);
            let mut lines = BufReader::new(reader).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let message: Value = serde_json::from_str(&line).unwrap();
                let result = match message["method"].as_str() {
                    Some("initialize") => Some(initialized.clone()),
                    Some("notifications/initialized") => {
                        writer.write_all(greeting.as_bytes()).await.unwrap();
                        None
                    }
                    Some(method) => respond(method),
                    None => None,
                };
                let id = message["id"].clone();
                list.lock().unwrap().push(message);
                if let Some(result) = result {
                    let response = json!({"jsonrpc": "2.0", "id": id, "result": result});
                    writer.write_all(format!("{response}\n").as_bytes()).await.unwrap();
                }
            }
        });
        let (reader, writer) = tokio::io::split(near);
        let connect = McpClient::over((reader, writer)).versions([version]).limits(limits);
        Self { client: connect.connect().await.unwrap(), seen, serving }
    }

    /// Waits for a message that is selected.
    async fn receives(&self, select: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..1000 {
            if let Some(message) = self.seen.lock().unwrap().iter().find(|message| select(message)) {
                return message.clone();
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        panic!("{:?}", self.seen.lock().unwrap());
    }

    async fn end(self) {
        self.client.close().await;
        self.serving.await.unwrap();
    }
}

#[tokio::test]
async fn request_nobody_waits_for_does_not_hold_a_slot() {
    let limits = Limits::default().in_flight(2);
    let server = Scripted::serve(limits, ProtocolVersion::V2025_06_18, String::new(), |method| {
        (method != "resources/unsubscribe").then(|| json!({}))
    })
    .await;
    for number in 0..10 {
        let filter = SubscriptionFilter::new().resource_subscriptions([format!("file:///{number}")]);
        // Dropping it unsubscribes, which the server never answers.
        drop(server.client.changes(filter).await.unwrap_or_else(|error| panic!("{number}: {error}")));
    }
    server.client.ping().await.unwrap();
    server.end().await;
}

#[tokio::test]
async fn oversized_request_of_the_server_is_answered_with_an_error() {
    let limits = Limits::default().message(10_000);
    let padding = "x".repeat(20_000);
    let long = json!({"jsonrpc": "2.0", "id": 77, "method": "roots/list", "params": {"padding": padding}});
    // The id comes first, as most servers write it.
    let long = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"roots/list\",\"params\":{}}}\n",
        long["params"]
    );
    let server = Scripted::serve(limits, ProtocolVersion::V2025_06_18, long, |_| Some(json!({}))).await;
    let refusal = server.receives(|message| message["id"] == 77).await;
    assert!(refusal["error"]["message"].as_str().is_some_and(|text| text.contains("10000")), "{refusal}");
    server.client.ping().await.unwrap();
    server.end().await;
}

#[tokio::test]
async fn completion_is_requested_from_servers_that_cannot_declare_it() {
    let complete =
        || CompleteParams::new(PromptReference::new("greet"), CompletionArgument::new("name", "A"));
    for (version, is_sent) in [(ProtocolVersion::V2024_11_05, true), (ProtocolVersion::V2025_03_26, false)] {
        let server = Scripted::serve(Limits::default(), version, String::new(), |_| {
            Some(json!({"completion": {"values": ["Ada"]}}))
        })
        .await;
        match server.client.complete(&complete()).await {
            Ok(completion) => assert!(is_sent && completion.values == ["Ada"], "{completion:?}"),
            Err(error) => assert!(!is_sent && matches!(error, Error::NotOffered { .. }), "{error:?}"),
        }
        server.end().await;
    }
}
