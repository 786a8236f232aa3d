//! Servers that misbehave after they were connected (peers part E).

use std::time::{Duration, Instant};

use mcp_client::protocol::peer::TimeoutReason;
use mcp_client::protocol::subscriptions::SubscriptionFilter;
use mcp_client::protocol::{Era, Limits};
use mcp_client::{Change, EndCause, Error, Force, Handlers, McpClient, Sent};
use serde_json::{Value, json};

use crate::support::{group_gone_within, harmless, peer, unharmed};

const BOTH: [(&str, Era); 2] = [("legacy", Era::Legacy), ("modern", Era::Modern)];

async fn connect(era: &str) -> McpClient {
    McpClient::connect(peer(&["--era", era])).await.unwrap()
}

async fn text(client: &McpClient, tool: &str, arguments: Value) -> String {
    client.call(tool, arguments).await.unwrap_or_else(|error| panic!("{tool}: {error}")).text()
}

/// Commits faults that end in an answer all the same, one after the other on one connection.
#[tokio::test]
async fn response_is_found_among_noise_and_malformed_messages() {
    harmless(async {
        for (era, _) in BOTH {
            let client = connect(era).await;
            for (tool, arguments, expected) in [
                ("banner", json!({"lines": 3}), "after the banner"),
                ("crlf", json!({}), "with a carriage return"),
                ("pretty", json!({}), "after the pretty one"),
                ("twice", json!({}), "first"),
                ("id-string", json!({}), "for you"),
                ("id-float", json!({}), "for you"),
                ("id-null", json!({}), "for you"),
                ("id-unknown", json!({}), "for you"),
                ("stderr", json!({"bytes": 10_000_000}), "after the flood"),
                ("flood", json!({"count": 20_000}), "after the flood"),
                ("odd-content", json!({}), "a cat"),
            ] {
                assert_eq!(text(&client, tool, arguments).await, expected, "{era} {tool}");
                unharmed(&client).await;
            }
            assert_eq!(client.stats().late, 1, "the second of two answers");
            client.close().await;
        }
    })
    .await;
}

#[tokio::test]
async fn byte_order_mark_at_the_start_of_stdout_is_accepted() {
    harmless(async {
        let client = McpClient::connect(peer(&["--bom"])).await.unwrap();
        // Its first answer was understood.
        assert_eq!(client.era(), Era::Modern);
        unharmed(&client).await;
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn malformed_response_fails_its_call_and_nothing_else() {
    harmless(async {
        for (era, _) in BOTH {
            let client = connect(era).await;
            for tool in [
                "bad-utf8",
                "lone-surrogate",
                "nul",
                "duplicate-keys",
                "deep",
                "both",
                "neither",
                "no-jsonrpc",
                "contradicts",
            ] {
                let began = Instant::now();
                let error = client.call(tool, json!({})).await.unwrap_err();
                assert!(matches!(error, Error::Unreadable { .. }), "{era} {tool}: {error:?}");
                assert!(began.elapsed() < Duration::from_secs(5), "{era} {tool}: {:?}", began.elapsed());
                unharmed(&client).await;
            }
            client.close().await;
        }
    })
    .await;
}

#[tokio::test]
async fn line_over_the_size_limit_fails_only_its_own_call() {
    harmless(async {
        for (era, _) in BOTH {
            let limits = Limits::default().message(1 << 20);
            let client = McpClient::builder(peer(&["--era", era])).limits(limits).connect().await.unwrap();
            let error = client.call("long", json!({"bytes": 2 << 20})).await.unwrap_err();
            assert!(matches!(error, Error::Unreadable { .. }), "{error:?}");
            assert!(error.to_string().contains("1048576"), "{error}");
            unharmed(&client).await;
            // Without its id at the beginning nobody can be told; the right answer still counts.
            assert_eq!(
                text(&client, "long-nameless", json!({"bytes": 2 << 20})).await,
                "after the long line"
            );
            unharmed(&client).await;
            let error = client.call("endless", json!({"bytes": 6 << 20})).await.unwrap_err();
            assert!(
                matches!(&error, Error::Lost { ended, .. } if ended.cause == EndCause::EndlessLine),
                "{error:?}"
            );
            client.close().await;
        }
    })
    .await;
}

#[tokio::test]
async fn last_message_without_a_newline_is_read() {
    harmless(async {
        for (era, _) in BOTH {
            let client = connect(era).await;
            assert_eq!(text(&client, "last-words", json!({})).await, "last words");
            let error = client.call("echo", json!({})).await.unwrap_err();
            assert!(matches!(error, Error::Lost { .. }), "{error:?}");
            client.close().await;
        }
    })
    .await;
}

#[tokio::test]
async fn error_contains_the_exit_status_and_stderr_of_the_server() {
    harmless(async {
        for (era, _) in BOTH {
            let client = connect(era).await;
            let error = client.call("exit", json!({"code": 7})).await.unwrap_err();
            let Error::Lost { sent: Sent::Maybe, ended, .. } = &error else { panic!("{error:?}") };
            assert_eq!(ended.status.unwrap().code(), Some(7));
            assert!(
                error.to_string().contains("Traceback") && error.to_string().contains("exit status: 7"),
                "{error}"
            );
            assert!(error.may_have_happened() && !error.is_retry_safe());
            // What is asked afterwards was not sent.
            let error = client.call("echo", json!({})).await.unwrap_err();
            assert!(
                matches!(&error, Error::Lost { sent: Sent::No, .. }) && error.is_retry_safe(),
                "{error:?}"
            );
            client.close().await;
            let client = connect(era).await;
            let error = client.call("die", json!({})).await.unwrap_err();
            assert!(error.to_string().contains("signal: 9"), "{error}");
            client.close().await;
        }
    })
    .await;
}

#[tokio::test]
async fn exit_is_noticed_while_a_grandchild_holds_the_pipe_open() {
    harmless(async {
        let client = connect("modern").await;
        let group = client.process_group().unwrap();
        let began = Instant::now();
        let error = client.call("leave-grandchild", json!({})).await.unwrap_err();
        assert!(matches!(error, Error::Lost { .. }), "{error:?}");
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        group_gone_within(group, Duration::from_secs(2)).await;
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn close_kills_an_unresponsive_server_within_5_s() {
    harmless(async {
        let client = McpClient::connect(peer(&["--stubborn"])).await.unwrap();
        let group = client.process_group().unwrap();
        let began = Instant::now();
        let shutdown = client.close().await;
        assert_eq!(shutdown.force, Force::Killed);
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        group_gone_within(group, Duration::from_millis(100)).await;
    })
    .await;
}

#[tokio::test]
async fn dropping_the_last_clone_kills_the_process_group() {
    harmless(async {
        let client = McpClient::connect(peer(&["--stubborn"])).await.unwrap();
        let group = client.process_group().unwrap();
        drop(client);
        group_gone_within(group, Duration::from_secs(1)).await;
    })
    .await;
}

#[tokio::test]
async fn request_to_a_closed_stdin_is_reported_as_not_sent() {
    harmless(async {
        let client = connect("modern").await;
        assert_eq!(text(&client, "close-stdin", json!({})).await, "closing");
        // The first may or may not meet a closed pipe; from then on it is closed for sure.
        let mut error =
            client.call("echo", json!({"text": "x"})).timeout(Duration::from_secs(2)).await.unwrap_err();
        if !matches!(error, Error::Lost { .. }) {
            error =
                client.call("echo", json!({"text": "x"})).timeout(Duration::from_secs(2)).await.unwrap_err();
        }
        let Error::Lost { sent, .. } = &error else { panic!("{error:?}") };
        assert_eq!(*sent, Sent::No, "{error}");
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn write_queue_to_a_server_that_stops_reading_is_bounded() {
    harmless(async {
        let limits = Limits::default().message(1 << 20);
        let client = McpClient::builder(peer(&[])).limits(limits).connect().await.unwrap();
        assert_eq!(text(&client, "stop-reading", json!({})).await, "not reading");
        let large = json!({"text": "x".repeat(300_000)});
        let mut calls = Vec::new();
        let mut is_refused = false;
        for _ in 0..20 {
            let call = client.call("echo", large.clone()).timeout(Duration::from_millis(300));
            calls.push(tokio::spawn(call.into_future()));
            tokio::task::yield_now().await;
        }
        for call in calls {
            match call.await.unwrap().unwrap_err() {
                Error::TimedOut { reason: TimeoutReason::Idle, .. } => {}
                Error::Busy(_) => is_refused = true,
                other => panic!("{other:?}"),
            }
        }
        assert!(is_refused, "what waits to be written is bounded");
        let began = Instant::now();
        client.close().await;
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    })
    .await;
}

#[tokio::test]
async fn late_response_after_cancellation_is_counted_and_dropped() {
    harmless(async {
        for (era, _) in BOTH {
            let client = connect(era).await;
            let error = client.call("late", json!({})).timeout(Duration::from_millis(100)).await.unwrap_err();
            assert!(matches!(error, Error::TimedOut { reason: TimeoutReason::Idle, .. }), "{error:?}");
            assert_eq!(text(&client, "cancelled", json!({})).await, "1", "the server was told");
            assert_eq!(client.stats().late, 1);
            let dropped = client.call("wait", json!({}));
            assert!(tokio::time::timeout(Duration::from_millis(50), dropped).await.is_err());
            assert_eq!(text(&client, "cancelled", json!({})).await, "2");
            client.close().await;
        }
    })
    .await;
}

#[tokio::test]
async fn flood_of_undeclared_requests_ends_the_connection() {
    harmless(async {
        let client = connect("legacy").await;
        assert_eq!(text(&client, "ask", json!({"times": 3})).await, "[-32601,-32601,-32601]");
        unharmed(&client).await;
        let error = client.call("ask", json!({"times": 5000})).await.unwrap_err();
        assert!(matches!(&error, Error::Lost { ended, .. } if ended.cause == EndCause::Flood), "{error:?}");
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn flood_of_notifications_is_coalesced() {
    harmless(async {
        let client = connect("legacy").await;
        let mut changes = client.changes(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let call =
            client.call("flood", json!({"count": 50_000})).on_progress(move |step| tell.send(step).unwrap());
        assert_eq!(call.await.unwrap().text(), "after the flood");
        let steps: Vec<_> = told.try_iter().collect();
        let all: u64 = steps.iter().map(|step| 1 + step.gap).sum();
        assert_eq!((steps.last().unwrap().progress, all), (50_000.0, 50_000), "nothing is lost unnoticed");
        assert_eq!(changes.next().await, Some(Change::Tools));
        let more = tokio::time::timeout(Duration::from_millis(50), changes.next()).await;
        assert!(more.is_err(), "the same change waits only once: {more:?}");
        drop(changes);
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn endless_lists_are_cut_and_invalid_tools_are_skipped() {
    harmless(async {
        for (era, _) in BOTH {
            for (kind, kept) in [("repeated", 1), ("endless", 64), ("many", 4096)] {
                let client = McpClient::connect(peer(&["--era", era, "--list", kind])).await.unwrap();
                let error = client.list_tools().await.unwrap_err();
                assert!(matches!(error, Error::IncompleteList { .. }), "{era} {kind}: {error:?}");
                let list = client.tools().await.unwrap();
                assert!(list.cut.is_some() && list.items.len() == kept, "{era} {kind}: {}", list.items.len());
                client.close().await;
            }
            for (kind, skipped) in [("duplicates", 0), ("bad", 3)] {
                let client = McpClient::connect(peer(&["--era", era, "--list", kind])).await.unwrap();
                let names: Vec<String> =
                    client.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
                assert_eq!(names, ["a", "b"], "{era} {kind}");
                assert_eq!(client.tools().await.unwrap().skipped.len(), skipped);
                client.close().await;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn endless_and_undeclared_input_requests_are_refused() {
    use mcp_client::ServerRequest;
    use mcp_client::protocol::elicitation::{ElicitFormParams, ElicitResult};
    harmless(async {
        let asked = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = std::sync::Arc::clone(&asked);
        let handlers = Handlers::new().on_form(move |_: ServerRequest<ElicitFormParams>| {
            count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            async { ElicitResult::accept([]) }
        });
        let client =
            McpClient::builder(peer(&["--era", "modern"])).handlers(handlers).connect().await.unwrap();
        for tool in ["input-forever", "input-undeclared"] {
            let error = client.call(tool, json!({})).await.unwrap_err();
            assert!(matches!(error, Error::Input { .. }), "{tool}: {error:?}");
            unharmed(&client).await;
        }
        assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 10, "nobody is asked in vain");
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn stderr_stream_ends_with_the_server() {
    harmless(async {
        let client = connect("modern").await;
        let mut lines = client.stderr().unwrap();
        let error = client.call("exit", json!({"code": 1})).await.unwrap_err();
        assert!(matches!(error, Error::Lost { .. }), "{error:?}");
        let mut said = Vec::new();
        while let Some(line) = lines.next().await {
            said.push(line);
        }
        assert_eq!(said, [mcp_client::FeedItem::Next("Traceback (most recent call last): it broke".into())]);
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn lists_are_requested_when_capabilities_are_missing() {
    harmless(async {
        let silent = r#""result":{"protocolVersion":"2025-06-18","serverInfo":{"name":"x","version":"1"}}"#;
        let client = McpClient::connect(peer(&["--era", "legacy", "--initialize", silent])).await.unwrap();
        assert_eq!(client.list_tools().await.unwrap().len(), 1);
        // It refuses these, and so there are none.
        assert!(client.list_prompts().await.unwrap().is_empty());
        assert_eq!(text(&client, "requests", json!({})).await, "server/discover initialize tools/list prompts/list tools/call");
        client.close().await;

        let nothing = r#""result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"x","version":"1"}}"#;
        let client = McpClient::connect(peer(&["--era", "legacy", "--initialize", nothing])).await.unwrap();
        assert!(client.list_tools().await.unwrap().is_empty());
        assert_eq!(text(&client, "requests", json!({})).await, "server/discover initialize tools/call");
        client.close().await;
    })
    .await;
}
