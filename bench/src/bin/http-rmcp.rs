//! An echo server with rmcp, over HTTP: as its README shows (sessions and event streams), or with `--best` without
//! sessions, with JSON responses and without Nagle's delay. Prints its port.

use std::sync::Arc;

use axum::serve::ListenerExt;
use mcp_bench::rmcp_echo::Echo;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let best = std::env::args().any(|argument| argument == "--best");
    let mut config = StreamableHttpServerConfig::default();
    if best {
        config = config.with_legacy_session_mode(false).with_json_response(true);
    }
    let service =
        StreamableHttpService::new(|| Ok(Echo::default()), Arc::new(LocalSessionManager::default()), config);
    let router = axum::Router::new().nest_service("/mcp", service);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    let listener = listener.tap_io(move |stream| {
        if best {
            let _ = stream.set_nodelay(true);
        }
    });
    axum::serve(listener, router).await.unwrap();
}
