//! A client and a server joined in memory.

use mcp_client::protocol::ProtocolVersion;
use mcp_client::protocol::version::SUPPORTED;
use mcp_client::{Handlers, McpClient};
use mcp_server::McpServer;
use tokio::task::JoinHandle;

/// Every revision, newest first.
pub(crate) fn revisions() -> &'static [ProtocolVersion] {
    SUPPORTED
}

/// One revision of each era.
pub(crate) const BOTH_ERAS: [ProtocolVersion; 2] =
    [ProtocolVersion::V2026_07_28, ProtocolVersion::V2025_11_25];

pub(crate) struct Pair {
    pub(crate) client: McpClient,
    pub(crate) server: JoinHandle<Result<(), mcp_server::Error>>,
}

/// A client that speaks only this revision, and its server.
pub(crate) async fn pair(server: McpServer, version: &ProtocolVersion, handlers: Handlers) -> Pair {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let (reader, writer) = tokio::io::split(theirs);
    let server = tokio::spawn(server.serve(reader, writer));
    let client = McpClient::over(tokio::io::split(ours))
        .versions([version.clone()])
        .handlers(handlers)
        .connect()
        .await
        .unwrap();
    assert_eq!(client.version(), version);
    Pair { client, server }
}

pub(crate) async fn connect(server: McpServer, version: &ProtocolVersion) -> McpClient {
    pair(server, version, Handlers::new()).await.client
}

/// Runs a test, and demands that afterwards no spawned future and no descriptor is left that was not there before.
pub(crate) async fn nothing_left(test: impl Future<Output = ()>) {
    let left = || {
        let futures = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        (futures, std::fs::read_dir("/proc/self/fd").unwrap().count())
    };
    let before = left();
    test.await;
    let until = tokio::time::Instant::now() + std::time::Duration::from_secs(2);
    while left() != before {
        assert!(tokio::time::Instant::now() < until, "{:?} are left, of {before:?} before", left());
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}
