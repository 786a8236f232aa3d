//! Servers behind a URL that misbehave, and what is sent again when.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_client::protocol::subscriptions::SubscriptionFilter;
use mcp_client::{Blame, Cache, Change, Error, Handlers, McpClient, NegotiationCache, Sent, ServerConfig};
use serde_json::{Value, json};

use crate::support::harmless;
use crate::web::{
    Piece, Say, Seen, against, calling, connect, echo, event, first, forgetful, legacy, modern,
};

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
async fn non_mcp_response_is_reported_with_status_type_and_excerpt() {
    for (say, expected) in [
        (
            Say::status(200, &[("content-type", "text/html")], "<h1>\u{1b}[2J"),
            "status 200 with text/html: <h1>\\u{1b}[2J",
        ),
        (Say::status(200, &[], "{}"), "status 200: {}"),
        (Say::status(204, &[], ""), "status 204"),
        (Say::status(202, &[], ""), "status 202"),
        (
            Say::status(502, &[("content-type", "text/plain")], "bad gateway"),
            "status 502 with text/plain: bad gateway",
        ),
        (Say::status(418, &[("content-type", "text/plain")], "t-123 is not welcome"), "*** is not welcome"),
        (Say::status(200, &[("content-type", "text/html")], &"oops ".repeat(50_000)), "oops oops"),
        (
            Say::status(200, &[("content-type", "text/plain")], r#"{"jsonrpc":"2.0","id":2,"result":{}}"#),
            "status 200 with text/plain",
        ),
    ] {
        against(calling(move |_| say.clone()), |web| async move {
            let client = McpClient::connect(ServerConfig::url(&web.url).bearer_token("t-123")).await.unwrap();
            let error = echo(&client, "x").await.unwrap_err();
            assert!(matches!(error, Error::Status { .. }) && error.blame() == Blame::Server, "{error:?}");
            assert!(error.to_string().contains(expected), "{error}");
            assert_eq!(web.count("tools/call"), 1, "a call is made once");
            client.close().await;
        })
        .await;
    }
    for body in ["", "[", "{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}"] {
        let say = Say::status(200, &[("content-type", "application/json; charset=utf-8")], body);
        against(calling(move |_| say.clone()), |web| async move {
            let client = connect(&web).await;
            let error = echo(&client, "x").await.unwrap_err();
            assert!(matches!(error, Error::Unreadable { .. }) && error.may_have_happened(), "{error:?}");
            client.close().await;
        })
        .await;
    }
}

#[tokio::test]
async fn cut_stream_fails_a_tool_call_and_retries_a_read() {
    let halves = |seen: &Seen| {
        let whole = seen.event(json!({"resultType": "complete", "content": []}));
        Say::stream([whole[..whole.len() - 3].to_owned().into()])
    };
    against(calling(halves), |web| async move {
        let client = connect(&web).await;
        let error = echo(&client, "x").await.unwrap_err();
        assert!(matches!(error, Error::Lost { sent: Sent::Maybe, .. }), "{error:?}");
        assert_eq!(web.count("tools/call"), 1);
        client.close().await;
    })
    .await;
    let reads = AtomicUsize::new(0);
    let script = move |seen: &Seen| match seen.method() {
        "resources/read" if reads.fetch_add(1, Ordering::SeqCst) == 0 => Say::stream([]),
        _ => modern(seen),
    };
    against(script, |web| async move {
        let client = connect(&web).await;
        client.read_resource("a:b").await.unwrap();
        let ids: Vec<Value> = web
            .seen()
            .iter()
            .filter(|seen| seen.method() == "resources/read")
            .map(|seen| seen.body["id"].clone())
            .collect();
        assert_eq!(ids.len(), 2);
        assert_ne!(ids[0], ids[1], "as a new request");
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
async fn compressed_and_oversized_bodies_are_refused() {
    let gzip =
        || Say::status(200, &[("content-type", "application/json"), ("Content-Encoding", "gzip")], "\u{1f}");
    let long = || {
        Say::raw(format!(
            "HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n[",
            1u64 << 30
        ))
    };
    for (say, expected) in [(gzip(), "gzip"), (long(), "longer than")] {
        against(calling(move |_| say.clone()), |web| async move {
            let client = connect(&web).await;
            let error = echo(&client, "x").await.unwrap_err();
            assert!(
                matches!(&error, Error::Unreadable { problem, .. } if problem.contains(expected)),
                "{error:?}"
            );
            client.close().await;
        })
        .await;
    }
    // Shorter than it said.
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
async fn lost_session_is_renewed_once_and_the_call_is_retried() {
    // 404, and what some servers say instead.
    let forgotten = [
        Say::json(
            404,
            &json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32001, "message": "Session not found"}}),
        ),
        Say::status(401, &[], ""),
    ];
    for say in forgotten {
        against(forgetful(say, legacy), |web| async move {
            let client = connect(&web).await;
            assert_eq!(echo(&client, "again").await.unwrap(), "again");
            client.close().await;
            assert_eq!((web.count("initialize"), web.count("tools/call")), (2, 2));
            assert_eq!(
                web.seen().last().unwrap().header("mcp-session-id"),
                Some("s2"),
                "the new one is ended"
            );
        })
        .await;
    }
}

#[tokio::test]
async fn ambiguous_400_fails_the_call_and_renews_the_session() {
    let forgotten = Say::json(
        400,
        &json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "No valid session ID"}}),
    );
    against(forgetful(forgotten, legacy), |web| async move {
        let client = connect(&web).await;
        let error = echo(&client, "x").await.unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error:?}");
        let until = std::time::Instant::now() + Duration::from_secs(5);
        while echo(&client, "again").await.is_err() {
            assert!(std::time::Instant::now() < until);
        }
        assert_eq!(web.count("initialize"), 2);
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn session_renewal_outlives_its_call_and_ends_with_the_client() {
    // The second greeting takes longer than a call has.
    let greetings = AtomicUsize::new(0);
    let slow = move |seen: &Seen, session: &str| match seen.method() {
        "initialize" if greetings.fetch_add(1, Ordering::SeqCst) == 1 => match legacy(seen, session) {
            Say::Whole(bytes) => {
                Say::Pieces(vec![Piece::Wait(Duration::from_millis(800)), Piece::Bytes(bytes)])
            }
            say => say,
        },
        _ => legacy(seen, session),
    };
    against(forgetful(Say::status(404, &[], ""), slow), |web| async move {
        let client = connect(&web).await;
        let short = Duration::from_millis(300);
        for _ in 0..2 {
            let error = client.call("echo", json!({"text": "x"})).timeout(short).await.unwrap_err();
            assert!(matches!(error, Error::TimedOut { .. }), "{error:?}");
        }
        // One that is under way is had, and ended.
        client.close().await;
        let ended = |seen: &Seen| seen.verb == "DELETE" && seen.header("mcp-session-id") == Some("s2");
        assert_eq!((web.count("initialize"), web.seen().iter().filter(|seen| ended(seen)).count()), (2, 1));
    })
    .await;
}

#[tokio::test]
async fn stream_that_cannot_be_resumed_is_reopened_with_a_gap() {
    // It marks its events, is cut, and knows nothing of what it said.
    let script = |seen: &Seen| match (seen.method(), seen.header("last-event-id")) {
        ("GET", Some(_)) => Say::status(400, &[], "no such event"),
        ("GET", None) => {
            Say::stream(["id: 7\ndata:\n\n".to_owned().into(), Piece::Wait(Duration::from_millis(50))])
        }
        _ => legacy(seen, "s"),
    };
    against(script, |web| async move {
        let client = connect(&web).await;
        let mut changes = client.changes(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap();
        assert_eq!(changes.next().await, Some(Change::Gap));
        while web.count("GET") < 3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let marks: Vec<_> = web
            .seen()
            .iter()
            .filter(|seen| seen.verb == "GET")
            .take(3)
            .map(|seen| seen.header("last-event-id").is_some())
            .collect();
        assert_eq!(marks, [false, true, false]);
        drop(changes);
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn stream_of_a_new_session_sends_no_last_event_id() {
    let streams = AtomicUsize::new(0);
    let marked = move |seen: &Seen, session: &str| match seen.method() {
        "GET" if streams.fetch_add(1, Ordering::SeqCst) == 0 => {
            Say::stream(["id: 7\ndata:\n\n".to_owned().into()])
        }
        "GET" => Say::stream([Piece::UntilGone]),
        _ => legacy(seen, session),
    };
    against(forgetful(Say::status(404, &[], ""), marked), |web| async move {
        let client = connect(&web).await;
        // While the stream that was cut waits to be opened again.
        assert_eq!(echo(&client, "x").await.unwrap(), "x");
        while web.count("GET") < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let second = web.seen().into_iter().filter(|seen| seen.verb == "GET").nth(1).unwrap();
        assert_eq!((second.header("mcp-session-id"), second.header("last-event-id")), (Some("s2"), None));
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn call_is_not_retried_again_after_a_second_lost_session() {
    let script = |seen: &Seen| match seen.method() {
        "tools/call" => Say::status(404, &[], "gone"),
        _ => legacy(seen, "s"),
    };
    against(script, |web| async move {
        let client = connect(&web).await;
        let error = echo(&client, "x").await.unwrap_err();
        assert!(matches!(&error, Error::Status { answer, .. } if answer.status == 404), "{error:?}");
        assert_eq!((web.count("initialize"), web.count("tools/call")), (2, 2));
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn concurrent_calls_renew_the_session_once() {
    against(forgetful(Say::status(404, &[], ""), legacy), |web| async move {
        let client = connect(&web).await;
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..10 {
            let client = client.clone();
            calls.spawn(async move { echo(&client, "all").await.unwrap() });
        }
        assert_eq!(calls.join_all().await, ["all"; 10]);
        assert_eq!(web.count("initialize"), 2);
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn short_retry_after_on_429_is_honoured_and_others_are_reported() {
    against(first(|_| Say::status(429, &[("Retry-After", "1")], "")), |web| async move {
        let client = connect(&web).await;
        let began = std::time::Instant::now();
        assert_eq!(echo(&client, "later").await.unwrap(), "later");
        assert!(began.elapsed() >= Duration::from_millis(950));
        client.close().await;
    })
    .await;
    // Absurd waits are refused at once, with the value, and 503 is never waited for.
    for (status, value, told) in
        [(429, "99999999", 99_999_999), (503, "7", 7), (429, "Thu, 31 Dec 2099 23:59:59 GMT", 0)]
    {
        against(calling(move |_| Say::status(status, &[("Retry-After", value)], "")), |web| async move {
            let client = connect(&web).await;
            let began = std::time::Instant::now();
            let error = echo(&client, "x").await.unwrap_err();
            assert!(began.elapsed() < Duration::from_secs(1));
            let Error::Status { answer, .. } = &error else { panic!("{error:?}") };
            let wait = answer.retry_after.unwrap().as_secs();
            assert!(wait == told || (told == 0 && wait > 1_000_000), "{wait}");
            assert_eq!((error.is_retry_safe(), web.count("tools/call")), (status == 429, 1));
            client.close().await;
        })
        .await;
    }
}

#[tokio::test]
async fn status_401_is_reported_with_its_challenges() {
    let say = Say::status(
        401,
        &[("WWW-Authenticate", "Basic realm=x"), ("WWW-Authenticate", "Bearer scope=\"a\"")],
        "",
    );
    against(calling(move |_| say.clone()), |web| async move {
        let client = connect(&web).await;
        let error = echo(&client, "x").await.unwrap_err();
        let Error::Unauthorized { status: 401, challenges, .. } = &error else { panic!("{error:?}") };
        assert_eq!(challenges.iter().map(|it| it.scheme.as_str()).collect::<Vec<_>>(), ["basic", "bearer"]);
        assert!(error.needs_login() && error.is_retry_safe() && !error.may_have_happened());
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn arguments_are_sent_as_headers_and_stale_schemas_reloaded() {
    let lists = Arc::new(AtomicUsize::new(0));
    let script = move |seen: &Seen| match seen.method() {
        "tools/list" => {
            let name = if lists.fetch_add(1, Ordering::SeqCst) == 0 { "Old" } else { "Region" };
            // It may be kept, which must not keep the mistake.
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
        // Its connection is gone while the client lives.
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
async fn legacy_stream_is_resumed_after_the_retry_delay() {
    let script = |seen: &Seen| match seen.method() {
        "tools/call" => Say::stream(["id: e1\nretry: 300\ndata:\n\n".to_owned().into()]),
        "GET" if seen.header("last-event-id") == Some("e1") => {
            let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "resumed"}]}});
            Say::stream([event(&answer).into(), Piece::UntilGone])
        }
        _ => legacy(seen, "s"),
    };
    against(script, |web| async move {
        let client = connect(&web).await;
        assert_eq!(echo(&client, "x").await.unwrap(), "resumed");
        let seen = web.seen();
        let called = seen.iter().find(|seen| seen.method() == "tools/call").unwrap().at;
        let resumed = seen.iter().find(|seen| seen.header("last-event-id").is_some()).unwrap().at;
        assert!(resumed - called >= Duration::from_millis(300));
        assert_eq!(web.count("tools/call"), 1);
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn legacy_server_requests_are_answered_on_either_stream() {
    for on_own_stream in [false, true] {
        let question = json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {
            "message": "Name?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}});
        let script = move |seen: &Seen| match seen.method() {
            "GET" if on_own_stream => Say::stream([
                Piece::Wait(Duration::from_millis(100)),
                event(&question).into(),
                Piece::UntilGone,
            ]),
            "tools/call" => {
                let question = if on_own_stream { String::new() } else { event(&question) };
                let answer = seen.event(json!({"content": [{"type": "text", "text": "thanks"}]}));
                Say::stream([question.into(), Piece::Wait(Duration::from_millis(300)), answer.into()])
            }
            _ => legacy(seen, "s"),
        };
        against(script, |web| async move {
            let handlers = Handlers::new().on_form(|_| async {
                let answer = mcp_client::protocol::elicitation::ElicitAction::Accept;
                mcp_client::protocol::elicitation::ElicitResult::new(answer)
            });
            let client =
                McpClient::builder(ServerConfig::url(&web.url)).handlers(handlers).connect().await.unwrap();
            assert_eq!(echo(&client, "x").await.unwrap(), "thanks");
            client.close().await;
            let answer = web.seen().into_iter().find(|seen| seen.body["id"] == "q").expect("an answer");
            assert_eq!(answer.body["result"]["action"], "accept");
            assert_eq!(answer.header("mcp-session-id"), Some("s"));
        })
        .await;
    }
}

#[tokio::test]
async fn dropped_subscription_stream_is_reopened_with_a_gap() {
    let listens = AtomicUsize::new(0);
    let script = move |seen: &Seen| match seen.method() {
        "subscriptions/listen" => {
            let id = &seen.body["id"];
            let acknowledged = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": id}, "notifications": {"toolsListChanged": true}}});
            let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed",
                "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": id}}});
            let first = listens.fetch_add(1, Ordering::SeqCst) == 0;
            let mut pieces = vec![event(&acknowledged).into(), event(&changed).into()];
            pieces.extend((!first).then_some(Piece::UntilGone));
            Say::stream(pieces)
        }
        _ => modern(seen),
    };
    against(script, |web| async move {
        let client = connect(&web).await;
        let filter = SubscriptionFilter::new().tools_list_changed(true);
        let mut changes = client.changes(filter).await.unwrap();
        let mut next = async || tokio::time::timeout(Duration::from_secs(5), changes.next()).await.unwrap();
        assert_eq!(next().await, Some(Change::Tools));
        assert_eq!(next().await, Some(Change::Gap));
        assert_eq!(next().await, Some(Change::Tools));
        drop(changes);
        web.is_left().await;
        assert_eq!(web.count("subscriptions/listen"), 2);
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn closed_get_streams_are_reopened_with_backoff() {
    let legacy_script = |seen: &Seen| match seen.method() {
        "GET" => Say::stream([]),
        _ => legacy(seen, "s"),
    };
    against(legacy_script, |web| async move {
        let client = connect(&web).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let (streams, connections) = (web.count("GET"), web.connections());
        assert!((2..=5).contains(&streams) && connections <= 8, "{streams} of {connections} in 10 s");
        assert!(client.is_failing());
        assert_eq!(echo(&client, "still here").await.unwrap(), "still here");
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn closed_subscription_streams_are_reopened_with_backoff() {
    let listens = AtomicUsize::new(0);
    let script = move |seen: &Seen| match seen.method() {
        // Acknowledged once; from then on the connection is closed without a word.
        "subscriptions/listen" if listens.fetch_add(1, Ordering::SeqCst) == 0 => {
            let acknowledged = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": seen.body["id"]}, "notifications": {}}});
            Say::stream([event(&acknowledged).into()])
        }
        "subscriptions/listen" => Say::nothing(),
        _ => modern(seen),
    };
    against(script, |web| async move {
        let client = connect(&web).await;
        let changes = client.changes(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
        let (listens, connections) = (web.count("subscriptions/listen"), web.connections());
        assert!((2..=6).contains(&listens) && connections <= 8, "{listens} of {connections} in 10 s");
        assert!(client.is_failing());
        drop(changes);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!client.is_failing(), "nobody wants it any more");
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn backoff_is_shared_by_all_subscription_streams() {
    let script = |seen: &Seen| match seen.method() {
        "subscriptions/listen" => {
            let acknowledged = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": seen.body["id"]}, "notifications": {}}});
            Say::stream([event(&acknowledged).into()])
        }
        _ => modern(seen),
    };
    against(script, |web| async move {
        let client = connect(&web).await;
        let mut followers = Vec::new();
        for _ in 0..8 {
            followers.push(client.changes(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap());
        }
        let asked_for = web.count("subscriptions/listen");
        tokio::time::sleep(Duration::from_secs(10)).await;
        let again = web.count("subscriptions/listen") - asked_for;
        assert!((1..=4).contains(&again), "{again} of {asked_for}");
        drop(followers);
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn get_stream_without_response_headers_does_not_block_calls() {
    let script = |seen: &Seen| match seen.method() {
        "GET" => Say::Pieces(vec![Piece::UntilGone]),
        _ => legacy(seen, "s"),
    };
    against(script, |web| async move {
        let began = std::time::Instant::now();
        let client = connect(&web).await;
        assert_eq!(echo(&client, "x").await.unwrap(), "x");
        assert!(began.elapsed() < Duration::from_secs(1));
        client.close().await;
    })
    .await;
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

#[tokio::test]
async fn cached_responses_are_reused_and_private_ones_stay_private() {
    let script = |seen: &Seen| {
        match seen.method() {
        "tools/list" => seen.result(json!({"resultType": "complete", "ttlMs": 60_000, "cacheScope": "private",
            "tools": [{"name": seen.header("authorization").unwrap_or("nobody"), "inputSchema": {"type": "object"}}]})),
        "resources/read" => seen.result(json!({"resultType": "complete", "ttlMs": 60_000, "cacheScope": "public",
            "contents": [{"uri": "a:b", "text": "content"}]})),
        _ => modern(seen),
    }
    };
    against(script, |web| async move {
        let cache = Cache::new();
        for who in ["one", "two"] {
            let config = ServerConfig::url(&web.url).bearer_token(who);
            let client = McpClient::builder(config).cache(&cache).connect().await.unwrap();
            for _ in 0..3 {
                assert_eq!(client.list_tools().await.unwrap()[0].name, format!("Bearer {who}"));
                client.read_resource("a:b").await.unwrap();
            }
            client.close().await;
        }
        assert_eq!((web.count("tools/list"), web.count("resources/read")), (2, 1));
        cache.clear();
        let config = ServerConfig::url(&web.url).bearer_token("one");
        let client = McpClient::builder(config).cache(&Cache::none()).connect().await.unwrap();
        client.list_tools().await.unwrap();
        client.list_tools().await.unwrap();
        assert_eq!(web.count("tools/list"), 4);
        client.close().await;
    })
    .await;
}

/// The misbehaving peer behind a URL. Dropped, it is killed.
struct Peer {
    url: String,
    _child: tokio::process::Child,
}

impl Peer {
    async fn start(options: &[&str]) -> Self {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_mcp-test-peer"));
        command.arg("web-server").args(options).stdout(std::process::Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = tokio::io::BufReader::new(child.stdout.take().unwrap());
        let mut url = String::new();
        tokio::io::AsyncBufReadExt::read_line(&mut lines, &mut url).await.unwrap();
        Self { url: url.trim().to_owned(), _child: child }
    }
}

/// Goes through every fault on one connection, which is unharmed after each.
async fn faults(era: &str) {
    let peer = Peer::start(&["--era", era]).await;
    let client = McpClient::connect(ServerConfig::url(&peer.url)).await.unwrap();
    let location = json!({"to": "http://127.0.0.1:1/", "status": 307});
    for (tool, arguments, expected) in [
        ("html", json!({}), "status 200 with text/html: <h1>Welcome</h1>"),
        ("empty", json!({}), "the body is empty"),
        ("no-type", json!({}), "status 200"),
        ("no-content", json!({}), "status 204"),
        ("hang-up", json!({}), "network error"),
        ("half-head", json!({}), "network error"),
        ("cut", json!({}), "the stream ended before the response"),
        ("no-blank-line", json!({}), "the stream ended before the response"),
        ("redirect", location, "redirect to http://127.0.0.1:1/"),
        ("gzip", json!({}), "gzip"),
        ("short", json!({}), "network error"),
        ("status", json!({"code": 500, "body": "oops"}), "status 500: oops"),
        ("status", json!({"code": 503, "header": "Retry-After", "value": "9"}), "retry after 9 s"),
        ("status", json!({"code": 429, "header": "Retry-After", "value": "999999"}), "retry after 999999 s"),
        (
            "status",
            json!({"code": 401, "header": "WWW-Authenticate", "value": "Bearer scope=\"a\""}),
            "`bearer` with scope `a`",
        ),
        ("status", json!({"code": 403}), "status 403"),
        ("status", json!({"code": 409}), "status 409"),
    ] {
        let error = client.call(tool, arguments.clone()).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{era} {tool} {arguments}: {error}");
        assert_eq!(echo(&client, "still here").await.unwrap(), "still here", "{era} {tool}");
    }
    for (tool, expected) in [("pieces", "世界"), ("comments", "after the flood")] {
        assert_eq!(client.call(tool, json!({})).await.unwrap().text(), expected);
    }
    for (tool, arguments) in [("silent", json!({})), ("trickle", json!({"ms": 20}))] {
        let error = client.call(tool, arguments).timeout(Duration::from_millis(200)).await.unwrap_err();
        assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    }
    if era == "legacy" {
        client.call("forget", json!({})).await.unwrap();
        assert_eq!(echo(&client, "a new session").await.unwrap(), "a new session");
    }
    client.close().await;
}

#[tokio::test]
async fn client_stays_usable_after_every_http_fault() {
    harmless(async {
        faults("modern").await;
        faults("legacy").await;
    })
    .await;
}

#[tokio::test]
async fn responses_of_1_gib_use_less_than_200_mib_of_memory() {
    harmless(async {
        let peer = Peer::start(&[]).await;
        let client = McpClient::connect(ServerConfig::url(&peer.url)).await.unwrap();
        for tool in ["long", "endless-body", "endless-event", "gzip"] {
            let error = client.call(tool, json!({"bytes": 1u64 << 30})).await.unwrap_err();
            assert!(matches!(error, Error::Unreadable { .. }), "{tool}: {error}");
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
async fn secrets_in_a_url_are_never_shown() {
    let script = |seen: &Seen| match seen.method() {
        "server/discover" if seen.path.contains("moved") => {
            Say::status(302, &[("Location", "https://u:hush-hush@b.example/x?key=hush-hush")], "")
        }
        "tools/call" => Say::status(500, &[], "the key hush-hush is not known"),
        _ => modern(seen),
    };
    against(script, |web| async move {
        let config = ServerConfig::url(format!("{}?key=hush-hush", web.url));
        let client = McpClient::connect(config).await.unwrap();
        let error = echo(&client, "x").await.unwrap_err();
        assert!(
            error.to_string().contains("the key *** is") && !format!("{error:?}").contains("hush"),
            "{error:?}"
        );
        client.close().await;
        let moved = web.url.replace("/mcp", "/moved?key=hush-hush");
        let error = McpClient::connect(ServerConfig::url(moved)).await.unwrap_err();
        assert!(error.to_string().contains("https://b.example/x?…"), "{error}");
        assert!(!format!("{error:?}").contains("hush"), "{error:?}");
    })
    .await;
}

#[tokio::test]
async fn long_token_is_masked_completely() {
    let token = format!("eyJ{}", "abcdefghij".repeat(120));
    let reflected = token.clone();
    against(
        calling(move |_| Say::status(500, &[], &format!("no such token: {reflected}"))),
        |web| async move {
            let client = McpClient::connect(ServerConfig::url(&web.url).bearer_token(&token)).await.unwrap();
            let error = echo(&client, "x").await.unwrap_err();
            assert!(error.to_string().contains("no such token: ***"), "{error}");
            assert!(!format!("{client:?} {error:?}").contains("abcdefghij"));
            client.close().await;
        },
    )
    .await;
}

#[tokio::test]
async fn ping_on_the_get_stream_is_answered_without_a_call() {
    let script = |seen: &Seen| match seen.method() {
        "GET" => {
            let ping = json!({"jsonrpc": "2.0", "id": 77, "method": "ping"});
            let odd = json!({"jsonrpc": "2.0", "id": 78, "method": "sampling/createMessage"});
            let wait = Piece::Wait(Duration::from_millis(500));
            Say::stream([wait, event(&ping).into(), event(&odd).into(), Piece::UntilGone])
        }
        _ => legacy(seen, "s"),
    };
    against(script, |web| async move {
        let client = connect(&web).await;
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let seen = web.seen();
            let answer = |id: u64| seen.iter().find(|seen| seen.body["id"] == id);
            if let (Some(pong), Some(refusal)) = (answer(77), answer(78)) {
                assert_eq!(pong.body["result"], json!({}));
                assert_eq!(refusal.body["error"]["code"], -32601);
                return client.disconnect().await;
            }
        }
        panic!("nothing was answered: {:?}", web.methods());
    })
    .await;
}

#[tokio::test]
async fn get_stream_answered_with_404_does_not_renew_the_session() {
    let script = |seen: &Seen| match seen.method() {
        "GET" => Say::status(404, &[], "Cannot GET /mcp"),
        _ => legacy(seen, "s"),
    };
    against(script, |web| async move {
        let client = connect(&web).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!((web.count("initialize"), web.count("GET")), (1, 1));
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn new_session_opens_a_new_get_stream() {
    let with_stream = |seen: &Seen, session: &str| match seen.method() {
        "GET" => Say::stream([Piece::UntilGone]),
        _ => legacy(seen, session),
    };
    against(forgetful(Say::status(404, &[], ""), with_stream), |web| async move {
        let client = connect(&web).await;
        assert_eq!(echo(&client, "x").await.unwrap(), "x");
        tokio::time::sleep(Duration::from_millis(300)).await;
        let seen = web.seen();
        let streams: Vec<Option<&str>> =
            seen.iter().filter(|seen| seen.verb == "GET").map(|seen| seen.header("mcp-session-id")).collect();
        assert_eq!(streams, [Some("s1"), Some("s2")]);
        client.close().await;
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
async fn dropped_stream_and_409_on_reopen_are_retried_silently() {
    let streams = AtomicUsize::new(0);
    let script = move |seen: &Seen| match seen.method() {
        "GET" => match streams.fetch_add(1, Ordering::SeqCst) {
            0 => Say::stream([]),
            1 => Say::status(409, &[], "only one stream"),
            _ => {
                let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
                Say::stream([event(&changed).into(), Piece::UntilGone])
            }
        },
        _ => legacy(seen, "s"),
    };
    against(script, |web| async move {
        let client = connect(&web).await;
        let mut changes = client.changes(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap();
        let mut next = async || tokio::time::timeout(Duration::from_secs(8), changes.next()).await.unwrap();
        // The cut may come before there is a follower.
        let first = next().await;
        let second = if first == Some(Change::Gap) { next().await } else { first };
        assert_eq!(second, Some(Change::Tools));
        assert_eq!(echo(&client, "x").await.unwrap(), "x");
        assert_eq!(web.count("GET"), 3);
        drop(changes);
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn new_session_refreshes_lists_and_restores_subscriptions() {
    let telling = |seen: &Seen, session: &str| match seen.method() {
        "tools/list" => seen.result(json!({"tools": [{"name": session, "inputSchema": {"type": "object"}}]})),
        _ => legacy(seen, session),
    };
    against(forgetful(Say::status(404, &[], ""), telling), |web| async move {
        let client = connect(&web).await;
        let filter = SubscriptionFilter::new().resource_subscriptions(vec!["a:b".to_owned()]);
        let mut changes = client.changes(filter).await.unwrap();
        assert_eq!(client.list_tools().await.unwrap()[0].name, "s1");
        assert_eq!(echo(&client, "x").await.unwrap(), "x");
        assert_eq!(client.list_tools().await.unwrap()[0].name, "s2");
        let told = tokio::time::timeout(Duration::from_secs(5), changes.next()).await.unwrap();
        assert_eq!(told, Some(Change::Gap));
        drop(changes);
        client.close().await;
        let seen = web.seen();
        let asked = |session| {
            let of = |seen: &&Seen| seen.header("mcp-session-id") == Some(session);
            seen.iter().filter(of).filter(|seen| seen.method() == "resources/subscribe").count()
        };
        assert_eq!((asked("s1"), asked("s2")), (1, 1), "what was followed is followed again");
    })
    .await;
}

#[tokio::test]
async fn cached_negotiation_result_skips_the_probe() {
    against(
        |seen| legacy(seen, "s"),
        |web| async move {
            let negotiation_cache = NegotiationCache::new();
            for _ in 0..2 {
                let client = McpClient::builder(ServerConfig::url(&web.url))
                    .negotiation_cache(&negotiation_cache)
                    .connect()
                    .await
                    .unwrap();
                client.close().await;
            }
            assert_eq!((web.count("server/discover"), web.count("initialize")), (1, 2));
        },
    )
    .await;
}

#[tokio::test]
async fn unsubscribe_is_sent_before_the_next_subscribe() {
    against(
        |seen| legacy(seen, "s"),
        |web| async move {
            let client = connect(&web).await;
            let filter = SubscriptionFilter::new().resource_subscriptions(vec!["a:b".to_owned()]);
            for _ in 0..5 {
                drop(client.changes(filter.clone()).await.unwrap());
            }
            client.close().await;
            let methods = web.methods();
            let order: Vec<&str> =
                methods.iter().filter_map(|method| method.strip_prefix("resources/")).collect();
            assert_eq!(order, ["subscribe", "unsubscribe"].repeat(5));
        },
    )
    .await;
}

#[tokio::test]
async fn modern_error_code_from_a_legacy_server_is_not_retried() {
    let script = |seen: &Seen| match seen.method() {
        "tools/call" => seen.error(200, -32020, "out of stock"),
        _ => legacy(seen, "s"),
    };
    against(script, |web| async move {
        let client = connect(&web).await;
        assert!(matches!(echo(&client, "x").await, Err(Error::Refused { .. })));
        assert_eq!(web.count("tools/call"), 1);
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn server_error_does_not_discard_the_cached_negotiation() {
    let is_down = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let down = Arc::clone(&is_down);
    let script = move |seen: &Seen| match down.load(Ordering::SeqCst) {
        true => Say::status(500, &[], ""),
        false => legacy(seen, "s"),
    };
    against(script, |web| async move {
        let negotiation_cache = NegotiationCache::new();
        let connect = || {
            McpClient::builder(ServerConfig::url(&web.url)).negotiation_cache(&negotiation_cache).connect()
        };
        connect().await.unwrap().close().await;
        let kept = negotiation_cache.to_text();
        is_down.store(true, Ordering::SeqCst);
        let before = web.methods().len();
        connect().await.unwrap_err();
        assert_eq!(web.methods()[before..], ["initialize"]);
        assert_eq!(negotiation_cache.to_text(), kept);
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
        // It reads nothing for a while, and others do not notice.
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
async fn failed_unsubscribe_does_not_stay_in_flight() {
    let script = |seen: &Seen| match seen.method() {
        "resources/unsubscribe" => Say::status(500, &[], ""),
        _ => legacy(seen, "s"),
    };
    against(script, |web| async move {
        let limits = mcp_client::protocol::Limits::default().in_flight(4);
        let client = McpClient::builder(ServerConfig::url(&web.url)).limits(limits).connect().await.unwrap();
        for round in 1..=8 {
            let filter = SubscriptionFilter::new().resource_subscriptions(["a:b".to_owned()]);
            drop(client.changes(filter).await.unwrap());
            while web.count("resources/unsubscribe") < round {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        client.close().await;
    })
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
