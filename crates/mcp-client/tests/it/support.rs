//! The misbehaving peer, and a check that nothing is left behind.

use std::time::Duration;

use mcp_client::{CommandTarget, McpClient, ServerConfig};
use serde_json::json;

/// The misbehaving peer as a server.
pub(crate) fn peer(options: &[&str]) -> ServerConfig<CommandTarget> {
    ServerConfig::command(env!("CARGO_BIN_EXE_mcp-test-peer")).arg("server").args(options.iter().copied())
}

/// The misbehaving peer as a server behind a URL. Killed when dropped.
pub(crate) struct WebPeer {
    pub(crate) url: String,
    _child: tokio::process::Child,
}

impl WebPeer {
    pub(crate) async fn start(options: &[&str]) -> Self {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_mcp-test-peer"));
        command.arg("web-server").args(options).stdout(std::process::Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = tokio::io::BufReader::new(child.stdout.take().unwrap());
        let mut url = String::new();
        tokio::io::AsyncBufReadExt::read_line(&mut lines, &mut url).await.unwrap();
        Self { url: url.trim().to_owned(), _child: child }
    }
}

/// Runs a test beside a connection that must not be harmed by it, and demands that afterwards no process, no spawned
/// future and no descriptor is left that was not there before.
pub(crate) async fn harmless(test: impl Future<Output = ()>) {
    // What the runtime opens once and keeps.
    let warm = McpClient::connect(peer(&[])).await.unwrap();
    warm.close().await;
    let before = left();
    let bystander = McpClient::connect(peer(&[])).await.unwrap();
    test.await;
    unharmed(&bystander).await;
    bystander.close().await;
    let mut after = left();
    for _ in 0..200 {
        if after == before {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        after = left();
    }
    assert_eq!(after, before);
}

/// A connection that still works.
pub(crate) async fn unharmed(client: &McpClient) {
    let outcome = client.call("echo", json!({"text": "still here"})).await.unwrap();
    assert_eq!(outcome.text(), "still here");
}

#[derive(Debug, PartialEq)]
struct Left {
    children: Vec<String>,
    futures: usize,
    descriptors: usize,
}

fn left() -> Left {
    let own = std::process::id().to_string();
    let children = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let (_, rest) = stat.rsplit_once(") ")?;
        (rest.split(' ').nth(1) == Some(own.as_str())).then_some(stat)
    });
    Left {
        children: children.collect(),
        futures: tokio::runtime::Handle::current().metrics().num_alive_tasks(),
        descriptors: std::fs::read_dir("/proc/self/fd").unwrap().count(),
    }
}

/// Waits until every process of a group is gone, or only waits to be reaped by somebody else.
pub(crate) async fn group_gone_within(group: u32, time: Duration) {
    let until = tokio::time::Instant::now() + time;
    while group_lives(group) {
        assert!(tokio::time::Instant::now() < until, "group {group} still lives");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn group_lives(group: u32) -> bool {
    let group = group.to_string();
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { return false };
        let Some((_, rest)) = stat.rsplit_once(") ") else { return false };
        let words: Vec<&str> = rest.split(' ').collect();
        words[2] == group && words[0] != "Z"
    })
}

/// Every log line of this thread, at any level, until the guard is dropped.
pub(crate) struct LogLines(std::sync::Arc<std::sync::Mutex<Vec<String>>>);

impl LogLines {
    pub(crate) fn capture() -> (Self, tracing::subscriber::DefaultGuard) {
        let lines = Self(std::sync::Arc::default());
        let guard = tracing::subscriber::set_default(Self(std::sync::Arc::clone(&lines.0)));
        (lines, guard)
    }

    pub(crate) fn get(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl tracing::Subscriber for LogLines {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("mcp_")
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Text(String);
        impl tracing::field::Visit for Text {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!(" {}={value:?}", field.name());
            }

            // A subscriber that writes text shows strings as they are.
            fn record_str(&mut self, field: &tracing::field::Field, value: &str) {
                self.0 += &format!(" {}={value}", field.name());
            }
        }
        let mut text = Text(event.metadata().level().to_string());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}
