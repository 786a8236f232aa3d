//! Limits on what a server behind a URL may send.

use std::time::Duration;

use mcp_client::{Error, McpClient, Sent, ServerConfig};
use serde_json::json;

use crate::support::{WebPeer, harmless};
use crate::web::{Piece, Say, Seen, against, calling, connect, echo, modern};

#[tokio::test]
async fn compressed_and_oversized_bodies_are_refused() {
    let gzip =
        || Say::status(200, &[("content-type", "application/json"), ("Content-Encoding", "gzip")], "\u{1f}");
    let long = || {
        Say::raw(format!(
            "HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n[",
            1u64 << 30
        ))
    };
    for (say, expected) in [(gzip(), "compressed with gzip"), (long(), "longer than")] {
        against(calling(move |_| say.clone()), |web| async move {
            let client = connect(&web).await;
            let error = echo(&client, "x").await.unwrap_err();
            assert!(matches!(&error, Error::Unreadable { .. } | Error::Status { .. }), "{error:?}");
            assert!(error.to_string().contains(expected) && error.may_have_happened(), "{error}");
            client.close().await;
        })
        .await;
    }
    // A body that is shorter than its content length.
    let short = "HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{}";
    against(calling(move |_| Say::raw(short)), |web| async move {
        let client = connect(&web).await;
        let error = echo(&client, "x").await.unwrap_err();
        assert!(matches!(error, Error::Lost { sent: Sent::Maybe, .. }), "{error:?}");
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn trickling_response_body_does_not_reset_the_idle_timeout() {
    let trickle = || {
        let head = "HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n";
        let drops =
            (0..100).flat_map(|_| [Piece::Wait(Duration::from_millis(20)), Piece::Bytes(b" ".to_vec())]);
        Say::Pieces(std::iter::once(Piece::from(head.to_owned())).chain(drops).collect())
    };
    against(calling(move |_| trickle()), |web| async move {
        let client = connect(&web).await;
        let error = client.call("echo", json!({})).timeout(Duration::from_millis(300)).await.unwrap_err();
        assert!(matches!(error, Error::TimedOut { .. }), "{error:?}");
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn responses_of_1_gib_use_less_than_200_mib_of_memory() {
    harmless(async {
        let peer = WebPeer::start(&[]).await;
        let client = McpClient::connect(ServerConfig::url(&peer.url)).await.unwrap();
        for tool in ["long", "endless-body", "endless-event", "gzip"] {
            let error = client.call(tool, json!({"bytes": 1u64 << 30})).await.unwrap_err();
            assert!(matches!(error, Error::Unreadable { .. } | Error::Status { .. }), "{tool}: {error}");
        }
        client.close().await;
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let kibibytes: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
        assert!(kibibytes < 200 << 10, "{kibibytes} KiB at most");
    })
    .await;
}

#[tokio::test]
async fn request_may_exceed_the_limit_for_received_messages() {
    against(
        calling(|seen| seen.result(json!({"resultType": "complete", "content": []}))),
        |web| async move {
            let client = connect(&web).await;
            client.call("echo", json!({"text": "x".repeat(20 << 20)})).await.unwrap();
            client.close().await;
        },
    )
    .await;
}

#[tokio::test]
async fn list_with_a_repeated_cursor_is_an_error_or_is_cut() {
    let script = |seen: &Seen| match seen.method() {
        "tools/list" => seen.result(json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "nextCursor": "again",
            "tools": [{"name": "echo", "inputSchema": {"type": "object"}}],
        })),
        _ => modern(seen),
    };
    against(script, |web| async move {
        let client = connect(&web).await;
        let error = client.list_tools().await.unwrap_err();
        assert!(matches!(error, Error::IncompleteList { .. }), "{error:?}");
        let list = client.tools().await.unwrap();
        assert!(list.cut.is_some() && list.items.len() == 1, "{list:?}");
        assert_eq!(echo(&client, "all the same").await.unwrap(), "all the same");
        client.close().await;
    })
    .await;
}
