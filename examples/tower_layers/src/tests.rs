//! The layers with the whole client, over a socket, in both eras.

use std::time::Duration;

use mcp_client::protocol::negotiation::Mode;
use mcp_client::{Error, McpClient, ServerConfig};
use serde_json::json;
use tokio::net::TcpListener;

use super::{app, service};

#[tokio::test]
async fn timeout_ends_a_silent_call_and_not_a_stream() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    let app = app(service()?, 1, Duration::from_millis(300));
    tokio::spawn(async { axum::serve(listener, app).await });
    for era in [Mode::Legacy, Mode::Modern] {
        let client = McpClient::connect(ServerConfig::url(&url).era(era)).await?;
        let call =
            |steps: u32, progress: bool| client.call("work", json!({"steps": steps, "progress": progress}));
        assert_eq!(call(0, false).await?.text(), "0 steps done");
        // Silent until the timeout. Another request is one too many; the client sends it again a second later.
        let (silent, other) = tokio::join!(call(9, false), async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            call(0, false).await
        });
        assert!(matches!(silent, Err(Error::Status { answer, .. }) if answer.status == 504), "{era:?}");
        assert_eq!(other?.text(), "0 steps done");
        // The headers of an event stream are sent with the first message, before the timeout.
        assert_eq!(call(9, true).on_progress(|_| {}).await?.text(), "9 steps done");
        client.close().await;
    }
    Ok(())
}
