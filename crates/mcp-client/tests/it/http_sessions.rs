//! Sessions of legacy servers: lost, renewed and ended.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_client::protocol::subscriptions::SubscriptionFilter;
use mcp_client::{Change, Error};
use serde_json::json;

use crate::web::{Piece, Say, Seen, against, connect, echo, forgetful, legacy};

#[tokio::test]
async fn lost_session_is_renewed_once_and_the_call_is_retried() {
    // 404, and the status that some servers send instead.
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
    // The second `initialize` takes longer than the timeout of the call.
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
        // The renewal in progress is completed, and its session is closed.
        client.close().await;
        let ended = |seen: &Seen| seen.verb == "DELETE" && seen.header("mcp-session-id") == Some("s2");
        assert_eq!((web.count("initialize"), web.seen().iter().filter(|seen| ended(seen)).count()), (2, 1));
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
        // The cut stream is waiting to be reopened.
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
