//! Connecting and ending.

use mcp_client::protocol::negotiation::{Mode, NegotiationError};
use mcp_client::protocol::{Era, ProtocolVersion};
use mcp_client::{Error, Handlers, McpClient, Sent};
use mcp_server::{McpServer, tool};
use serde_json::json;

use crate::support::{BOTH_ERAS, pair};

fn server() -> McpServer {
    McpServer::named("test", "1").instructions("Be brief.").tool(tool("hello", || async { "hello" }))
}

async fn over(server: McpServer, mode: Mode) -> Result<McpClient, Error> {
    McpClient::over(server.in_memory().unwrap()).era(mode).connect().await
}

#[tokio::test]
async fn auto_takes_the_newest_that_both_speak() {
    let client = over(server(), Mode::Auto).await.unwrap();
    assert_eq!((client.era(), client.version().as_str()), (Era::Modern, "2026-07-28"));
    assert_eq!(client.server_info().unwrap().name, "test");
    assert_eq!(client.instructions(), Some("Be brief."));
    let old = server().versions([ProtocolVersion::V2025_03_26]);
    let client = over(old, Mode::Auto).await.unwrap();
    assert_eq!((client.era(), client.version().as_str()), (Era::Legacy, "2025-03-26"));
    assert_eq!(client.call("hello", json!({})).await.unwrap().text(), "hello");
}

#[tokio::test]
async fn a_mode_that_the_server_does_not_speak_fails_and_says_why() {
    let old = server().versions([ProtocolVersion::V2025_11_25]);
    let error = over(old, Mode::Modern).await.unwrap_err();
    assert!(
        matches!(&error, Error::Connect { error: source, .. } if **source == NegotiationError::NotModern),
        "{error}"
    );
    let client = over(server(), Mode::Legacy).await.unwrap();
    assert_eq!(client.version().as_str(), "2025-11-25");
}

#[tokio::test]
async fn a_closed_connection_ends_the_server_and_every_clone() {
    for version in &BOTH_ERAS {
        let pair = pair(server(), version, Handlers::new()).await;
        let clone = pair.client.clone();
        pair.client.close().await;
        pair.server.await.unwrap().unwrap();
        let error = clone.call("hello", json!({})).await.unwrap_err();
        assert!(matches!(error, Error::Lost { sent: Sent::No, .. }) && error.is_retry_safe(), "{error:?}");
        clone.close().await;
    }
}

#[tokio::test]
async fn the_last_clone_that_is_dropped_ends_the_server() {
    for version in &BOTH_ERAS {
        let pair = pair(server(), version, Handlers::new()).await;
        let clone = pair.client.clone();
        drop(pair.client);
        assert_eq!(clone.call("hello", json!({})).await.unwrap().text(), "hello");
        drop(clone);
        pair.server.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_lost_server_settles_what_is_in_flight() {
    for version in &BOTH_ERAS {
        let server = server().tool(tool("endless", std::future::pending::<()>));
        let pair = pair(server, version, Handlers::new()).await;
        let call = tokio::spawn(pair.client.call("endless", json!({})).into_future());
        while pair.client.stats().opened < 1 {
            tokio::task::yield_now().await;
        }
        pair.client.ping().await.unwrap();
        pair.server.abort();
        let error = call.await.unwrap().unwrap_err();
        assert!(
            matches!(error, Error::Lost { sent: Sent::Maybe, .. }) && error.may_have_happened(),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn requests_are_not_held_back_by_a_writer_that_buffers() {
    let (reader, writer) = server().in_memory().unwrap();
    let client = McpClient::over((reader, tokio::io::BufWriter::new(writer))).connect().await.unwrap();
    assert_eq!(client.call("hello", json!({})).await.unwrap().text(), "hello");
    client.close().await;
}
