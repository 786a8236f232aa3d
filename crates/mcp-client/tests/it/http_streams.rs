//! Notification streams and subscriptions over HTTP: resumed, reopened and closed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_client::protocol::subscriptions::SubscriptionFilter;
use mcp_client::{Change, Handlers, McpClient, ServerConfig};
use serde_json::json;

use crate::web::{Piece, Say, Seen, against, connect, echo, event, legacy, modern};

#[tokio::test]
async fn stream_that_cannot_be_resumed_is_reopened_with_a_gap() {
    // Its events have ids, its stream is cut, and it cannot resume.
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
        // Acknowledged once; after that, the connection is closed without a response.
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
        // The cut may happen before there is a subscriber.
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
