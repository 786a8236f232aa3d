//! The HTTP+SSE transport (2024-11-05).

use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_client::protocol::Era;
use mcp_client::protocol::elicitation::{ElicitFormParams, ElicitResult};
use mcp_client::protocol::negotiation::{HttpFailure, NegotiationError};
use mcp_client::protocol::subscriptions::SubscriptionFilter;
use mcp_client::{Change, Error, Handlers, McpClient, NegotiationCache, Sent, ServerConfig, ServerRequest};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::sse_server::{Act, SseServer};
use crate::support::harmless;
use crate::web::echo;

#[tokio::test]
async fn transport_is_detected_and_used() {
    harmless(async {
        let server = SseServer::serve(|_| Act::Answer).await;
        for config in [ServerConfig::url(&server.url), ServerConfig::sse(&server.url)] {
            let client = McpClient::connect(config).await.unwrap();
            assert_eq!(client.era(), Era::Legacy);
            assert_eq!(echo(&client, "old").await.unwrap(), "old");
            client.close().await;
        }
        // A server that is configured as HTTP+SSE is not probed.
        assert_eq!(server.posted(), ["initialize", "notifications/initialized", "tools/call"].repeat(2));
        server.end().await;
    })
    .await;
}

#[tokio::test]
async fn negotiation_result_is_cached() {
    harmless(async {
        let server = SseServer::serve(|_| Act::Answer).await;
        let negotiation_cache = NegotiationCache::new();
        for asked in [2, 3] {
            let builder =
                McpClient::builder(ServerConfig::url(&server.url)).negotiation_cache(&negotiation_cache);
            builder.connect().await.unwrap().close().await;
            // The probe and `initialize` the first time, only `initialize` the second time.
            assert_eq!(server.posted_elsewhere(), asked);
        }
        server.end().await;
    })
    .await;
}

#[tokio::test]
async fn call_refusal_is_reported_and_the_next_call_works() {
    harmless(async {
        let server = SseServer::serve(|body| {
            Act::Refuse(match body["params"]["arguments"]["text"].as_str() {
                Some("who") => {
                    "HTTP/1.1 401 X\r\nwww-authenticate: Bearer scope=\"files\"\r\ncontent-length: 0\r\n\r\n"
                }
                Some("busy") => "HTTP/1.1 429 X\r\nretry-after: 999\r\ncontent-length: 4\r\n\r\nbusy",
                Some("gone") => "",
                _ => return Act::Answer,
            })
        })
        .await;
        let client = McpClient::connect(ServerConfig::sse(&server.url)).await.unwrap();
        let error = echo(&client, "who").await.unwrap_err();
        assert!(
            matches!(&error, Error::Unauthorized { status: 401, challenges, .. }
                if challenges[0].scope() == Some("files")),
            "{error:?}"
        );
        let error = echo(&client, "busy").await.unwrap_err();
        assert!(
            matches!(&error, Error::Status { answer, .. }
                if answer.status == 429 && answer.retry_after == Some(Duration::from_secs(999))),
            "{error:?}"
        );
        let error = echo(&client, "gone").await.unwrap_err();
        assert!(matches!(&error, Error::Lost { sent: Sent::Maybe, .. }), "{error:?}");
        assert_eq!(echo(&client, "fine").await.unwrap(), "fine");
        assert!(client.ended().is_none());
        client.close().await;
        server.end().await;
    })
    .await;
}

/// The reaction of a server, and a check of the error that follows.
type Case = (fn(&Value) -> Act, fn(&Error) -> bool);

#[tokio::test]
async fn initialize_refusal_is_reported_with_its_status() {
    harmless(async {
        let refused: [Case; 2] = [
            (|_| Act::Refuse("HTTP/1.1 403 X\r\ncontent-length: 0\r\n\r\n"), |error| {
                matches!(error, Error::Unauthorized { status: 403, .. })
            }),
            (|_| Act::Refuse("HTTP/1.1 500 X\r\ncontent-length: 4\r\n\r\noops"), |error| {
                matches!(error, Error::Status { answer, .. } if answer.status == 500 && answer.excerpt == "oops")
            }),
        ];
        for (act, is_told) in refused {
            let server = SseServer::serve(act).await;
            for config in [ServerConfig::url(&server.url), ServerConfig::sse(&server.url)] {
                let error = McpClient::connect(config).await.unwrap_err();
                assert!(is_told(&error), "{error:?}");
            }
            server.end().await;
        }
    })
    .await;
}

#[tokio::test]
async fn connect_times_out_and_503_is_reported_as_busy() {
    harmless(async {
        let server = SseServer::serve(|_| Act::Hold(Duration::from_secs(60))).await;
        let began = Instant::now();
        let budget = Duration::from_millis(800);
        let error =
            McpClient::connect(ServerConfig::sse(&server.url).start_timeout(budget)).await.unwrap_err();
        assert!(matches!(error, Error::Connect { .. }), "{error:?}");
        assert!(began.elapsed() < budget * 2, "{:?}", began.elapsed());
        server.end().await;
        let busy = "HTTP/1.1 503 X\r\nretry-after: 77\r\ncontent-length: 0\r\n\r\n";
        let web = crate::web::Web::serve(move |_| crate::web::Say::Whole(busy.into())).await;
        let error = McpClient::connect(ServerConfig::sse(&web.url)).await.unwrap_err();
        let Error::Connect { error: source, .. } = error else { panic!("{error:?}") };
        let obstacle = HttpFailure::Busy { status: 503, retry_after: Some(Duration::from_secs(77)) };
        assert_eq!(*source, NegotiationError::Http(obstacle));
        web.end().await;
    })
    .await;
}

#[tokio::test]
async fn post_may_stay_open_until_the_call_is_done() {
    harmless(async {
        let server = SseServer::serve(|body| match body["params"]["arguments"]["text"].as_str() {
            Some("slow") => Act::Hold(Duration::from_millis(400)),
            Some("later") => Act::Later,
            Some("ask") => Act::Ask,
            _ if body["method"] == "initialize" => Act::Hold(Duration::from_millis(50)),
            _ => Act::Answer,
        })
        .await;
        let handlers =
            Handlers::new().on_form(async |_: ServerRequest<ElicitFormParams>| ElicitResult::decline());
        let client =
            McpClient::builder(ServerConfig::sse(&server.url)).handlers(handlers).connect().await.unwrap();
        let (began, slow) = (Instant::now(), client.call("echo", json!({"text": "slow"})).into_future());
        let slow = tokio::spawn(slow);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(echo(&client, "quick").await.unwrap(), "quick");
        assert_eq!(echo(&client, "ask").await.unwrap(), "ask");
        assert!(began.elapsed() < Duration::from_millis(350), "nobody waits for the slow one");
        assert_eq!(echo(&client, "later").await.unwrap(), "later");
        assert_eq!(slow.await.unwrap().unwrap().text(), "slow");
        assert!(began.elapsed() < Duration::from_millis(700), "the answer counts, not where it was posted");
        // A call that is given up is taken back, though it is not answered where it was posted.
        let given_up = client.call("echo", json!({"text": "slow"})).timeout(Duration::from_millis(100)).await;
        assert!(matches!(given_up, Err(Error::TimedOut { .. })), "{given_up:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(server.posted().last().unwrap(), "notifications/cancelled");
        client.close().await;
        server.end().await;
    })
    .await;
}

#[tokio::test]
async fn lost_session_is_reopened_and_the_call_is_retried() {
    harmless(async {
        let server = SseServer::serve(|body| match body["params"]["arguments"]["text"].as_str() {
            Some("forget") => Act::Forget,
            Some("forget once") => Act::ForgetFirst,
            Some("wait") => Act::Hold(Duration::from_secs(60)),
            _ => Act::Answer,
        })
        .await;
        let client = McpClient::connect(ServerConfig::sse(&server.url)).await.unwrap();
        let waiting = tokio::spawn(client.call("echo", json!({"text": "wait"})).into_future());
        while !server.posted().contains(&"tools/call".to_owned()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let count = |wanted: &str| server.posted().iter().filter(|method| *method == wanted).count();
        assert_eq!(echo(&client, "forget once").await.unwrap(), "forget once");
        assert_eq!((count("initialize"), count("tools/call")), (2, 3));
        // What the first session was to answer never will be.
        let lost = tokio::time::timeout(Duration::from_secs(5), waiting).await.unwrap().unwrap();
        assert!(matches!(lost, Err(Error::Lost { sent: Sent::Maybe, .. })), "{lost:?}");
        // One that is always forgotten is no reason to go on.
        let error = echo(&client, "forget").await.unwrap_err();
        assert!(matches!(&error, Error::Status { answer, .. } if answer.status == 404), "{error:?}");
        assert_eq!((count("initialize"), count("tools/call")), (3, 5));
        assert_eq!(echo(&client, "fine").await.unwrap(), "fine");
        client.close().await;
        server.end().await;
    })
    .await;
}

#[tokio::test]
async fn subscriptions_survive_a_server_restart() {
    harmless(async {
        let server = SseServer::serve(|_| Act::Answer).await;
        let url = server.url.clone();
        let client = McpClient::connect(ServerConfig::sse(&url)).await.unwrap();
        let mut changes = client.changes(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap();
        let follower = tokio::spawn(async move {
            let mut seen = Vec::new();
            while seen.last() != Some(&Change::Tools) {
                seen.push(changes.next().await.expect("it goes on"));
            }
            seen
        });
        server.end().await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let error = echo(&client, "nobody").await.unwrap_err();
        assert!(error.is_retry_safe(), "{error:?}");
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let address = url.trim_start_matches("http://").trim_end_matches("/sse").to_owned();
        let server = SseServer::serve_at(TcpListener::bind(address).await.unwrap(), |_| Act::Answer);
        let until = Instant::now() + Duration::from_secs(20);
        while !follower.is_finished() {
            assert!(Instant::now() < until, "{:?}", server.posted());
            server.say(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let seen = follower.await.unwrap();
        assert!(seen[0] == Change::Gap && seen.len() <= 3, "{seen:?}");
        assert_eq!(echo(&client, "back").await.unwrap(), "back");
        client.close().await;
        server.end().await;
    })
    .await;
}

#[tokio::test]
async fn stream_is_reopened_with_backoff() {
    harmless(async {
        let server = SseServer::serve(|body| match body["method"].as_str() {
            Some("notifications/initialized") => Act::HangUp,
            _ => Act::Answer,
        })
        .await;
        let client = McpClient::connect(ServerConfig::sse(&server.url)).await.unwrap();
        let changes = client.changes(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!((3..=6).contains(&server.connections()), "{} in 10 s", server.connections());
        drop(changes);
        client.close().await;
        server.end().await;
    })
    .await;
}

#[tokio::test]
async fn response_counts_although_the_post_fails() {
    harmless(async {
        let server = SseServer::serve(|body| match body["method"].as_str() {
            Some("tools/call") => Act::AnswerAndHangUp,
            _ => Act::Answer,
        })
        .await;
        let client = McpClient::connect(ServerConfig::sse(&server.url)).await.unwrap();
        let mut call = Box::pin(client.call("echo", json!({"text": "here"})).into_future());
        // The call is started, and polled again after both the response and the failure.
        while !server.posted().contains(&"tools/call".to_owned()) {
            let begun = std::future::poll_fn(|cx| std::task::Poll::Ready(call.as_mut().poll(cx))).await;
            assert!(begun.is_pending());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(call.await.unwrap().text(), "here");
        client.close().await;
        server.end().await;
    })
    .await;
}

#[tokio::test]
async fn request_of_an_old_session_gets_no_response() {
    harmless(async {
        let server = SseServer::serve(|body| match body["params"]["arguments"]["text"].as_str() {
            Some("ask") => Act::Ask,
            Some("forget") => Act::ForgetFirst,
            _ => Act::Answer,
        })
        .await;
        let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let handlers = Handlers::new().on_form(move |_: ServerRequest<ElicitFormParams>| {
            let number = counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            async move {
                tokio::time::sleep(Duration::from_millis(300)).await;
                if number == 0 { ElicitResult::accept([]) } else { ElicitResult::decline() }
            }
        });
        let client =
            McpClient::builder(ServerConfig::sse(&server.url)).handlers(handlers).connect().await.unwrap();
        let first = tokio::spawn(client.call("echo", json!({"text": "ask"})).into_future());
        while asked.load(std::sync::atomic::Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(echo(&client, "forget").await.unwrap(), "forget");
        assert!(matches!(first.await.unwrap(), Err(Error::Lost { sent: Sent::Maybe, .. })));
        // The new session uses the same request id again.
        assert_eq!(echo(&client, "ask").await.unwrap(), "ask");
        tokio::time::sleep(Duration::from_millis(400)).await;
        let answers: Vec<_> = server.posted().into_iter().filter(|said| said.starts_with("answer")).collect();
        assert_eq!(answers, ["answer: decline"]);
        client.close().await;
        server.end().await;
    })
    .await;
}

#[tokio::test]
async fn oversized_response_fails_only_its_own_call() {
    harmless(async {
        let server = SseServer::serve(|body| match body["params"]["arguments"]["text"].as_str() {
            Some("long") => Act::Long,
            _ => Act::Answer,
        })
        .await;
        let client = McpClient::connect(ServerConfig::sse(&server.url)).await.unwrap();
        let error = echo(&client, "long").await.unwrap_err();
        assert!(matches!(error, Error::Unreadable { .. }), "{error:?}");
        assert_eq!(echo(&client, "fine").await.unwrap(), "fine");
        client.close().await;
        server.end().await;
    })
    .await;
}

#[tokio::test]
async fn client_dropped_at_any_moment_leaves_nothing() {
    harmless(async {
        let server = SseServer::serve(|body| match body["method"].as_str() {
            Some("tools/call") if body["id"].as_u64() == Some(3) => Act::HangUp,
            Some("tools/call") if body["id"].as_u64() == Some(2) => Act::ForgetFirst,
            _ => Act::Hold(Duration::from_millis(2)),
        })
        .await;
        for round in 0..40 {
            let moment = Duration::from_micros(round * 700);
            let client = async {
                let client = McpClient::connect(ServerConfig::sse(&server.url)).await?;
                for _ in 0..4 {
                    let call = client.call("echo", json!({"text": "x"})).into_future();
                    let _ = tokio::time::timeout(Duration::from_millis(5), call).await;
                }
                Ok::<_, Error>(client)
            };
            // During the handshake, a call, a new session, or after the last call.
            drop(tokio::time::timeout(moment, client).await);
        }
        server.end().await;
    })
    .await;
}
