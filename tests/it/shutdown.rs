//! The graceful shutdown of the HTTP listener, with real clients.

use std::time::{Duration, Instant};

use mcp_client::protocol::subscriptions::SubscriptionFilter;
use mcp_client::{McpClient, ServerConfig};
use mcp_server::http::HttpOptions;
use mcp_server::{McpServer, tool};
use tokio::net::{TcpListener, TcpStream};

use crate::support::BOTH_ERAS;

#[tokio::test]
async fn shutdown_does_not_wait_for_clients_that_only_listen() {
    let server = McpServer::named("listened", "1").tool(tool("hello", || async { "hello" }));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(server.serve_listener(listener, HttpOptions::default(), async {
        let _ = ended.await;
    }));
    let mut clients = Vec::new();
    for version in BOTH_ERAS {
        let config = ServerConfig::url(format!("http://{address}/mcp"));
        let client = McpClient::builder(config).versions([version]).connect().await.unwrap();
        let filter = SubscriptionFilter::new().tools_list_changed(true);
        let changes = client.changes(filter).await.unwrap();
        clients.push((client, changes));
    }
    // A connection without a request.
    let _silent = TcpStream::connect(address).await.unwrap();
    let began = Instant::now();
    end.send(()).unwrap();
    serving.await.unwrap().unwrap();
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}
