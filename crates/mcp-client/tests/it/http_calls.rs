//! Calls over HTTP: what is sent, and how responses are read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_client::{Error, McpClient, ServerConfig};
use serde_json::{Value, json};

use crate::web::{Piece, Say, Seen, against, calling, connect, echo, event, legacy, modern};

#[tokio::test]
async fn modern_call_carries_protocol_and_configured_headers() {
    against(modern, |web| async move {
        let config = ServerConfig::url(&web.url).bearer_token("t-123").header("X-Team", "blue");
        let client = McpClient::connect(config).await.unwrap();
        assert_eq!(echo(&client, "hello").await.unwrap(), "hello");
        client.close().await;
        let call = web.seen().into_iter().find(|seen| seen.method() == "tools/call").unwrap();
        for (name, value) in [
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("accept-encoding", "identity"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "echo"),
            ("authorization", "Bearer t-123"),
            ("x-team", "blue"),
        ] {
            assert_eq!(call.header(name), Some(value), "{name}");
        }
        assert_eq!(call.header("mcp-session-id"), None);
        assert_eq!(web.methods(), ["server/discover", "tools/list", "tools/call"]);
        assert_eq!(web.connections(), 1, "one connection is enough");
    })
    .await;
}

#[tokio::test]
async fn arguments_are_sent_as_headers_and_stale_schemas_reloaded() {
    let lists = Arc::new(AtomicUsize::new(0));
    let script = move |seen: &Seen| match seen.method() {
        "tools/list" => {
            let name = if lists.fetch_add(1, Ordering::SeqCst) == 0 { "Old" } else { "Region" };
            // The list is cacheable, but the stale schema must not be reused.
            seen.result(json!({"resultType": "complete", "ttlMs": 60_000, "cacheScope": "private", "tools": [
                {"name": "echo", "inputSchema": {"type": "object", "properties": {"text": {"type": "string", "x-mcp-header": name}}}},
                {"name": "bad", "inputSchema": {"type": "object", "properties": {"n": {"type": "number", "x-mcp-header": "N"}}}},
            ]}))
        }
        "tools/call" if seen.header("mcp-param-region").is_none() => {
            seen.error(400, -32020, "`Mcp-Param-Region` is missing")
        }
        _ => modern(seen),
    };
    against(script, |web| async move {
        let client = connect(&web).await;
        assert_eq!(echo(&client, "世界").await.unwrap(), "世界");
        assert_eq!(web.methods()[1..], ["tools/list", "tools/call", "tools/list", "tools/call"]);
        assert_eq!(web.seen().last().unwrap().header("mcp-param-region"), Some("=?base64?5LiW55WM?="));
        let list = client.tools().await.unwrap();
        assert_eq!(
            (list.items.len(), list.skipped.len()),
            (1, 1),
            "a tool that cannot be called over HTTP is left out"
        );
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn dropped_modern_call_closes_its_stream_without_cancellation() {
    against(calling(|_| Say::stream([Piece::UntilGone])), |web| async move {
        let client = connect(&web).await;
        let call = client.call("echo", json!({}));
        assert!(tokio::time::timeout(Duration::from_millis(200), call).await.is_err());
        // Its connection is closed while the client is still open.
        web.is_left().await;
        assert_eq!(web.count("notifications/cancelled"), 0);
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn dropped_legacy_call_sends_a_cancelled_notification() {
    let script = |seen: &Seen| match seen.method() {
        "tools/call" => Say::stream([Piece::UntilGone]),
        _ => legacy(seen, "s"),
    };
    against(script, |web| async move {
        let client = connect(&web).await;
        let call = client.call("echo", json!({}));
        assert!(tokio::time::timeout(Duration::from_millis(200), call).await.is_err());
        client.close().await;
        let seen = web.seen();
        let (call, cancelled) = (
            seen.iter().find(|seen| seen.method() == "tools/call").unwrap(),
            seen.iter().find(|seen| seen.method() == "notifications/cancelled").unwrap(),
        );
        assert_eq!(cancelled.body["params"]["requestId"], call.body["id"]);
    })
    .await;
}

#[tokio::test]
async fn first_calls_load_tools_once_and_within_the_call_timeout() {
    let script = |seen: &Seen| match seen.method() {
        "tools/list" => Say::stream([Piece::UntilGone]),
        _ => modern(seen),
    };
    against(script, |web| async move {
        let client = connect(&web).await;
        let began = std::time::Instant::now();
        let error = client.call("echo", json!({})).timeout(Duration::from_millis(300)).await.unwrap_err();
        assert!(
            matches!(error, Error::TimedOut { .. }) && began.elapsed() < Duration::from_secs(2),
            "{error}"
        );
        client.close().await;
    })
    .await;
    against(modern, |web| async move {
        let client = connect(&web).await;
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..10 {
            let client = client.clone();
            calls.spawn(async move { echo(&client, "x").await.unwrap() });
        }
        assert_eq!(calls.join_all().await, ["x"; 10]);
        assert_eq!(web.count("tools/list"), 1);
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn progress_precedes_the_result_and_slow_readers_block_nobody() {
    let script = calling(|seen| {
        let step = |progress: u32| {
            event(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
                "progressToken": seen.body["params"]["_meta"]["progressToken"], "progress": progress}}))
        };
        let answer =
            seen.event(json!({"resultType": "complete", "content": [{"type": "text", "text": "x"}]}));
        let steps = (1..=1000).map(|progress| Piece::from(step(progress)));
        Say::stream(steps.chain([answer.into()]))
    });
    against(script, |web| async move {
        let client = connect(&web).await;
        let mut running = client.call("echo", json!({})).running();
        let first = running.progress().await.unwrap();
        // Progress is not read in the meantime, which must not block other requests.
        client.ping().await.unwrap();
        let (mut last, mut gaps) = (first.progress, first.gap);
        while let Some(step) = running.progress().await {
            assert!(step.progress > last);
            (last, gaps) = (step.progress, gaps + step.gap);
        }
        assert_eq!(last, 1000.0);
        assert!(gaps < 1000);
        assert_eq!(running.outcome().await.unwrap().text(), "x");
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn connection_of_a_finished_stream_is_reused() {
    let script = calling(|seen| {
        let answer =
            seen.event(json!({"resultType": "complete", "content": [{"type": "text", "text": "x"}]}));
        let head = "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        Say::Whole(format!("{head}{:x}\r\n{answer}\r\n0\r\n\r\n", answer.len()).into_bytes())
    });
    against(script, |web| async move {
        let client = connect(&web).await;
        for _ in 0..10 {
            assert_eq!(echo(&client, "x").await.unwrap(), "x");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(web.connections(), 1);
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn event_stream_is_parsed_across_chunk_boundaries() {
    let script = calling(|seen| {
        let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress",
            "params": {"progressToken": seen.body["params"]["_meta"]["progressToken"], "progress": 1, "message": "世界"}});
        let answer = json!({"jsonrpc": "2.0", "id": seen.body["id"],
            "result": {"resultType": "complete", "content": [{"type": "text", "text": "世界"}]}});
        let text =
            format!(":{}\r\nretry: 99999999999999999999\r\n\r\nevent: other\rdata: {{\r\r", ":".repeat(1000))
                + &event(&progress)
                + &format!("event: message\r\ndata: {answer}\r\n\r\n");
        let bytes = text.into_bytes();
        Say::stream(bytes.chunks(7).map(|chunk| Piece::Bytes(chunk.to_vec())))
    });
    against(script, |web| async move {
        let client = connect(&web).await;
        let (told, heard) = std::sync::mpsc::channel();
        let call = client.call("echo", json!({})).on_progress(move |step| told.send(step.message).unwrap());
        assert_eq!(call.await.unwrap().text(), "世界");
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), [Some("世界".to_owned())]);
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn byte_order_mark_in_an_answer_does_not_lose_the_call() {
    const MARK: &str = "\u{feff}";
    let result = json!({"resultType": "complete", "content": [{"type": "text", "text": "read"}]});
    let answers: [fn(&Seen, Value) -> Say; 3] = [
        |seen, result| Say::stream([Piece::from(format!(": ping\n\n{MARK}{}", seen.event(result)))]),
        |seen, result| {
            Say::stream([Piece::from(seen.event(result).replace("data: ", &format!("data: {MARK}")))])
        },
        |seen, result| {
            let body = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result});
            Say::status(200, &[("content-type", "application/json")], &format!("{MARK}{body}"))
        },
    ];
    for answer in answers {
        let result = result.clone();
        against(calling(move |seen| answer(seen, result.clone())), |web| async move {
            let client = connect(&web).await;
            assert_eq!(echo(&client, "x").await.unwrap(), "read");
            client.close().await;
        })
        .await;
    }
}

#[tokio::test]
async fn reserved_and_invalid_headers_are_refused_before_connecting() {
    against(modern, |web| async move {
        for (name, value) in [
            ("Host", "x"),
            ("content-length", "1"),
            ("Transfer-Encoding", "chunked"),
            ("mcp-session-id", "x"),
            ("Mcp-Param-X", "x"),
            ("bad name", "x"),
            ("x", "a\r\nb: hush-hush"),
        ] {
            let error =
                McpClient::connect(ServerConfig::url(&web.url).header(name, value)).await.unwrap_err();
            assert!(
                matches!(error, Error::InvalidConfig { .. }) && !error.to_string().contains("hush"),
                "{error}"
            );
        }
        assert_eq!(web.connections(), 0);
    })
    .await;
}
