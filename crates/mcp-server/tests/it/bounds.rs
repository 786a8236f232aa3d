//! Limits per client and for all clients together, over HTTP.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body::{Body, Frame};
use mcp_server::http::{HttpOptions, HttpService};
use mcp_server::{Context, McpServer, NoArgs, Tool, tool};
use serde_json::{Value, json};
use tower_service::Service;

use crate::http::{Fixture, JSON, ReceivedResponse, eventually, fixture, initialize, modern};

/// A body that never ends.
struct EndlessBody(Option<Bytes>);

impl Body for EndlessBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.0.take() {
            Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            None => Poll::Pending,
        }
    }
}

/// Sends the start of a body and keeps the request open.
async fn send_partial_body(service: HttpService, bytes: usize) -> StatusCode {
    let request = Request::builder().method("POST").uri("/mcp").header("host", "localhost");
    let request = request.header("content-type", "application/json");
    let request = request.body(EndlessBody(Some(vec![b' '; bytes].into()))).unwrap();
    service.clone().call(request).await.unwrap().status()
}

fn message(answer: &Value) -> &str {
    answer["error"]["message"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn session_without_a_reader_expires_despite_running_calls() {
    let fixture = fixture(HttpOptions::default().session_idle(Duration::from_millis(50)));
    let session = fixture.session("2025-11-25").await;
    let mut answer = session.call(5, "sleep").await;
    answer.event().await.unwrap();
    // A session whose stream is read does not expire.
    tokio::time::sleep(Duration::from_millis(120)).await;
    assert_eq!(session.call(6, "echo").await.status, StatusCode::OK);
    drop(answer);
    assert_eq!(fixture.running.load(Ordering::SeqCst), 1);
    tokio::time::sleep(Duration::from_millis(120)).await;
    assert_eq!(session.call(7, "echo").await.status, StatusCode::NOT_FOUND);
    eventually(|| fixture.running.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test]
async fn mounted_service_ends_idle_sessions_without_requests() {
    let fixture = fixture(HttpOptions::default().session_idle(Duration::from_millis(50)));
    let session = fixture.session("2025-11-25").await;
    // The client disconnects and never sends again.
    drop(session.call(5, "sleep").await);
    assert_eq!(fixture.running.load(Ordering::SeqCst), 1);
    eventually(|| fixture.running.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test]
async fn dropped_service_leaves_no_task() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let fixture = fixture(HttpOptions::default());
    let clone = fixture.service.clone();
    drop(fixture.session("2025-11-25").await.call(5, "sleep").await);
    assert_eq!(tasks() - before, 2, "the call and the search for idle sessions");
    drop(fixture);
    tokio::task::yield_now().await;
    assert_eq!(tasks() - before, 2, "a clone of the service is left");
    drop(clone);
    eventually(|| tasks() == before).await;
}

#[tokio::test]
async fn sessions_of_disconnected_clients_are_evicted_for_new_ones() {
    let fixture = fixture(HttpOptions::default().sessions(20));
    let reader = fixture.session("2025-11-25").await;
    let _stream = reader.get(None).await;
    for _ in 0..200 {
        let session = fixture.session("2025-11-25").await;
        // The client disconnects while the call waits for an answer.
        drop(session.call(1, "ask").await);
        let other = fixture.session("2025-11-25").await;
        drop(other.call(1, "sleep").await);
    }
    eventually(|| fixture.running.load(Ordering::SeqCst) <= 20).await;
    assert_eq!(reader.call(1, "echo").await.status, StatusCode::OK);
}

#[tokio::test]
async fn legacy_call_continues_when_its_client_disconnects() {
    let fixture = fixture(HttpOptions::default());
    let session = fixture.session("2025-11-25").await;
    // The client disconnects before the first byte: without a progress token nothing is sent.
    let call = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "sleep"}});
    assert!(tokio::time::timeout(Duration::from_millis(30), session.post(call)).await.is_err());
    assert_eq!(fixture.running.load(Ordering::SeqCst), 1);
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}});
    session.post(cancelled).await;
    eventually(|| fixture.running.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test]
async fn calls_in_flight_of_all_sessions_are_limited() {
    let fixture = fixture(HttpOptions::default().calls(10));
    let mut streams = Vec::new();
    for id in 0..10 {
        let mut answer = fixture.session("2025-11-25").await.call(id, "sleep").await;
        answer.event().await.unwrap();
        streams.push(answer);
    }
    let session = fixture.session("2025-11-25").await;
    let legacy = session.call(1, "echo").await;
    let modern = fixture.modern("tools/call", json!({"name": "echo"})).await;
    for refused in [legacy, modern] {
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(message(&refused.json().await).contains("too many calls are running"));
    }
    // Requests that are not calls are still served.
    let ping = session.post(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})).await;
    assert_eq!(ping.status, StatusCode::OK);
    assert_eq!(fixture.running.load(Ordering::SeqCst), 10);
}

#[tokio::test]
async fn oversized_client_info_is_refused() {
    let fixture = fixture(HttpOptions::default());
    let long = "x".repeat(65 << 10);
    for info in [json!({"name": long, "version": "1"}), json!({"name": "c", "version": "1", "title": long})] {
        let answer = fixture.send("POST", &[JSON], &initialize(&info)).await;
        assert_eq!(answer.session, None);
        let answer = answer.json().await;
        assert_eq!(answer["error"]["code"], json!(-32602));
        assert!(message(&answer).contains("limit 65536"), "{answer}");
    }
    let info = json!({"name": "x".repeat(60 << 10), "version": "1"});
    assert!(fixture.send("POST", &[JSON], &initialize(&info)).await.session.is_some());
}

#[tokio::test]
async fn memory_limit_evicts_the_sessions_idle_longest() {
    let fixture = fixture(HttpOptions::default().memory(4 << 20));
    let info = json!({"name": "x".repeat(30 << 10), "version": "1"});
    let mut sessions = Vec::new();
    for _ in 0..50 {
        sessions.push(fixture.send("POST", &[JSON], &initialize(&info)).await.session.unwrap());
    }
    let mut left = 0;
    for id in &sessions {
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
        let answer = fixture.send("POST", &[JSON, ("mcp-session-id", id)], &ping).await;
        left += usize::from(answer.status == StatusCode::OK);
    }
    assert!((2..=8).contains(&left), "{left} sessions of 0.5 MiB each with a limit of 4 MiB");
    // Sessions in use are not evicted, so that new ones are refused in the end.
    let mut readers = Vec::new();
    let refused = loop {
        let answer = fixture.send("POST", &[JSON], &initialize(&info)).await;
        let Some(id) = answer.session.clone() else { break answer };
        readers
            .push(fixture.send("GET", &[("mcp-session-id", &id), ("accept", "text/event-stream")], "").await);
        assert!(readers.len() < 20, "no limit applies");
    };
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(message(&refused.json().await).contains("retry later"));
}

#[tokio::test]
async fn subscriptions_are_bounded_in_length_and_bytes() {
    let fixture = fixture(HttpOptions::default().session_memory(100 << 10));
    let session = fixture.session("2025-11-25").await;
    let subscribe = async |method: &str, uri: String| {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"uri": uri}});
        session.post(message).await.json().await
    };
    let long = subscribe("resources/subscribe", format!("file:///{}", "x".repeat(16 << 10))).await;
    assert_eq!(long["error"]["code"], json!(-32602), "{long}");
    let uri = |number: usize| format!("file:///{number}/{}", "x".repeat(15 << 10));
    let mut count = 0;
    let refused = loop {
        let answer = subscribe("resources/subscribe", uri(count)).await;
        if answer["error"].is_object() {
            break answer;
        }
        count += 1;
        assert!(count < 10, "no limit applies");
    };
    assert!(count >= 5 && message(&refused).contains("no memory left"), "{count} {refused}");
    // A repeated subscription takes no memory, and unsubscribing frees some.
    assert!(subscribe("resources/subscribe", uri(0)).await["error"].is_null());
    assert!(subscribe("resources/unsubscribe", uri(0)).await["error"].is_null());
    assert!(subscribe("resources/subscribe", uri(99)).await["error"].is_null());
}

#[tokio::test]
async fn idle_sessions_are_evicted_for_subscriptions() {
    let fixture = fixture(HttpOptions::default().memory(1 << 20));
    let info = json!({"name": "x".repeat(10 << 10), "version": "1"});
    for _ in 0..20 {
        assert!(fixture.send("POST", &[JSON], &initialize(&info)).await.session.is_some());
    }
    let session = fixture.session("2025-11-25").await;
    for number in 0..40 {
        let uri = format!("file:///{number}/{}", "x".repeat(15 << 10));
        let message =
            json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": uri}});
        let answer = session.post(message).await.json().await;
        assert!(answer["error"].is_null(), "{number}: {answer}");
    }
    let filter = json!({"notifications": {"resourceSubscriptions": vec!["x".repeat(15 << 10); 1]}});
    assert_eq!(fixture.modern("subscriptions/listen", filter).await.status, StatusCode::OK);
}

#[tokio::test]
async fn listen_filter_is_bounded_in_entries_length_and_bytes() {
    let fixture = fixture(HttpOptions::default().session_memory(256 << 10).memory(600 << 10));
    let listen = async |uris: Vec<String>| {
        fixture
            .modern("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": uris}}))
            .await
    };
    for uris in [vec![String::new(); 1001], vec!["x".repeat((16 << 10) + 1)]] {
        assert_eq!(listen(uris).await.json().await["error"]["code"], json!(-32602));
    }
    let uris = |count: usize| (0..count).map(|number| format!("{number}{}", "x".repeat(8 << 10))).collect();
    let refused = listen(uris(40)).await.json().await;
    assert_eq!(refused["error"]["code"], json!(-32602));
    assert!(message(&refused).contains("limit 262144"), "{refused}");
    let mut streams = Vec::new();
    while let stream @ ReceivedResponse { status: StatusCode::OK, .. } = listen(uris(20)).await {
        streams.push(stream);
        assert!(streams.len() < 10, "no limit applies");
    }
    assert!(streams.len() >= 2, "{}", streams.len());
    streams.pop();
    assert_eq!(listen(uris(20)).await.status, StatusCode::OK);
}

#[tokio::test]
async fn resource_with_an_overlong_uri_is_refused() {
    let fixture = fixture(HttpOptions::default());
    let session = fixture.session("2025-11-25").await;
    let read =
        json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "x".repeat(16385)}});
    assert_eq!(session.post(read).await.json().await["error"]["code"], json!(-32602));
}

#[tokio::test]
async fn repeated_uris_of_a_filter_are_kept_once() {
    let fixture = fixture(HttpOptions::default());
    let filter = json!({"notifications": {"resourceSubscriptions": ["b", "a", "b", "a"]}});
    let mut stream = fixture.modern("subscriptions/listen", filter).await;
    let (_, acknowledged) = stream.event().await.unwrap();
    assert_eq!(acknowledged["params"]["notifications"]["resourceSubscriptions"], json!(["a", "b"]));
    for uri in ["c", "b", "a"] {
        fixture.registry.resource_updated(uri);
    }
    assert_eq!(stream.event().await.unwrap().1["params"]["uri"], "b");
    assert_eq!(stream.event().await.unwrap().1["params"]["uri"], "a");
}

#[tokio::test]
async fn total_body_memory_is_limited_with_a_reserve_for_small_bodies() {
    let fixture = fixture(HttpOptions::default().bodies(4 << 20));
    let mut partial = tokio::task::JoinSet::new();
    for _ in 0..5 {
        partial.spawn(send_partial_body(fixture.service.clone(), 1 << 20));
    }
    // Three bodies fill three quarters of the budget; the other two are refused.
    for _ in 0..2 {
        assert_eq!(partial.join_next().await.unwrap().unwrap(), StatusCode::SERVICE_UNAVAILABLE);
    }
    assert!(tokio::time::timeout(Duration::from_millis(20), partial.join_next()).await.is_err());
    assert_eq!(fixture.modern("tools/call", json!({"name": "echo"})).await.status, StatusCode::OK);
    let large = modern("tools/call", json!({"name": "echo", "arguments": {"x": "x".repeat(1 << 20)}}));
    let headers =
        [JSON, ("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "echo")];
    let refused = fixture.send("POST", &headers, &large).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(message(&refused.json().await).contains("too many request bodies"));
    // Closing the open requests frees the budget.
    partial.shutdown().await;
    assert_eq!(fixture.send("POST", &headers, &large).await.status, StatusCode::OK);
}

#[tokio::test]
async fn body_without_a_length_is_refused_beyond_the_limit() {
    let fixture = fixture(HttpOptions::default().body(1000));
    assert_eq!(send_partial_body(fixture.service.clone(), 1001).await, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn arguments_of_a_pending_call_count_as_its_body() {
    let fixture = fixture(HttpOptions::default().bodies(4 << 20));
    // `_meta` counts sixteenfold: a request with 80 KiB of it takes more than 1.3 MiB.
    let call = |id: i64| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
            "name": "sleep", "_meta": {"progressToken": id, "padding": "x".repeat(80 << 10)},
        }})
    };
    let session = fixture.session("2025-11-25").await;
    let mut running = Vec::new();
    for id in 0..2 {
        let mut answer = session.post(call(id)).await;
        answer.event().await.unwrap();
        running.push(answer);
    }
    assert_eq!(session.post(call(2)).await.status, StatusCode::SERVICE_UNAVAILABLE);
    drop(running);
    // The calls continue without a reader.
    assert_eq!(session.post(call(3)).await.status, StatusCode::SERVICE_UNAVAILABLE);
    fixture.send("DELETE", &[("mcp-session-id", &session.id)], "").await;
    eventually(|| fixture.running.load(Ordering::SeqCst) == 0).await;
    let session = fixture.session("2025-11-25").await;
    assert_eq!(session.post(call(4)).await.status, StatusCode::OK);
}

fn fixture_of(server: McpServer, options: HttpOptions) -> Fixture {
    let registry = server.registry();
    Fixture { service: server.into_http_service(options).unwrap(), registry, running: Arc::default() }
}

/// Returns the number of lost responses of a tool that sends progress and returns in the same poll.
async fn lost_responses(calls: i64) -> usize {
    let server = McpServer::named("late", "1").tool(tool("late", |_: NoArgs, cx: Context| async move {
        tokio::time::sleep(Duration::from_millis(2)).await;
        cx.progress(1.0, None);
        "the result"
    }));
    let fixture = fixture_of(server, HttpOptions::default());
    let session = fixture.session("2025-11-25").await;
    let mut lost = 0;
    for id in 0..calls {
        let mut answer = session.call(id, "late").await;
        while answer.more().await {}
        lost += usize::from(!answer.read.contains("the result"));
    }
    lost
}

#[tokio::test]
async fn call_ending_right_after_progress_is_answered() {
    assert_eq!(lost_responses(20).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn call_ending_right_after_progress_is_answered_multithreaded() {
    assert_eq!(lost_responses(200).await, 0);
}

#[tokio::test]
async fn stream_can_end_with_retry_before_its_first_message() {
    let server = McpServer::named("retry", "1").tool(tool("retry", |_: NoArgs, cx: Context| async move {
        cx.close_sse_stream(Duration::from_millis(5));
        std::future::pending::<()>().await;
    }));
    let fixture = fixture_of(server, HttpOptions::default());
    let mut answer = fixture.session("2025-11-25").await.call(1, "retry").await;
    let end = tokio::time::timeout(Duration::from_secs(5), async { while answer.more().await {} }).await;
    assert!(end.is_ok(), "the stream was not closed");
}

#[tokio::test]
async fn calls_of_disconnected_clients_do_not_block_others() {
    let fixture = fixture(HttpOptions::default().calls(10));
    for id in 0..10 {
        drop(fixture.session("2025-11-25").await.call(id, "ask").await);
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(fixture.modern("tools/call", json!({"name": "echo"})).await.status, StatusCode::OK);
}

#[tokio::test]
async fn bodies_of_disconnected_clients_do_not_block_others() {
    let fixture = fixture(HttpOptions::default().bodies(1 << 20));
    let session = fixture.session("2025-11-25").await;
    // Ever smaller bodies, until the budget is used up.
    for (id, size) in [15 << 10, 4 << 10, 1 << 10, 100, 1].into_iter().flat_map(|size| [size; 20]).enumerate()
    {
        let params = json!({"name": "ask", "_meta": {"padding": "x".repeat(size)}});
        session.post(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})).await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    let info = json!({"name": "other", "version": "1"});
    assert!(fixture.send("POST", &[JSON], &initialize(&info)).await.session.is_some());
    assert_eq!(fixture.modern("tools/call", json!({"name": "echo"})).await.status, StatusCode::OK);
}

#[tokio::test]
async fn small_idle_sessions_survive_subscriptions_of_other_sessions() {
    let fixture = fixture(HttpOptions::default().memory(8 << 20));
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(fixture.session("2025-11-25").await);
    }
    let mut readers = Vec::new();
    for _ in 0..4 {
        let session = fixture.session("2025-11-25").await;
        readers.push(session.get(None).await);
        for number in 0..260 {
            let uri = format!("file:///{number}/{}", "x".repeat(15 << 10));
            let message =
                json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": uri}});
            if session.post(message).await.json().await["error"].is_object() {
                break;
            }
        }
    }
    for session in &idle {
        assert_eq!(session.call(1, "echo").await.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn refused_subscriptions_do_not_block_new_clients() {
    let fixture = fixture(HttpOptions::default().memory(1 << 20));
    let reader = fixture.session("2025-11-25").await;
    let _stream = reader.get(None).await;
    let subscribe = async |number: usize| {
        let uri = format!("file:///{number}/{}", "x".repeat(16_000));
        let message =
            json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": uri}});
        reader.post(message).await.json().await["error"].is_object()
    };
    // Small idle sessions, and a reader whose subscriptions take the remaining memory.
    for _ in 0..20 {
        fixture.session("2025-11-25").await;
    }
    let mut number = 0;
    while !subscribe(number).await {
        number += 1;
    }
    let info = json!({"name": "x".repeat(1000), "version": "1"});
    for _ in 0..3 {
        assert!(subscribe(number).await);
        assert!(fixture.send("POST", &[JSON], &initialize(&info)).await.session.is_some());
    }
}

#[tokio::test]
async fn no_session_is_ended_if_that_frees_too_little() {
    let fixture = fixture(HttpOptions::default().memory(1900 << 10));
    let large = json!({"name": "x".repeat(10 << 10), "version": "1"});
    let reader = fixture
        .send("POST", &[JSON], &initialize(&json!({"name": "x".repeat(60 << 10), "version": "1"})))
        .await;
    let reader = reader.session.unwrap();
    let _stream =
        fixture.send("GET", &[("mcp-session-id", &reader), ("accept", "text/event-stream")], "").await;
    let mut idle = Vec::new();
    for _ in 0..4 {
        idle.push(fixture.send("POST", &[JSON], &initialize(&large)).await.session.unwrap());
    }
    // The new session needs the memory of the reader, which is in use and not evicted.
    let info = json!({"name": "x".repeat(64000), "version": "1", "title": "x".repeat(1000)});
    assert!(fixture.send("POST", &[JSON], &initialize(&info)).await.session.is_none());
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    for id in &idle {
        let answer = fixture.send("POST", &[JSON, ("mcp-session-id", id)], &ping).await;
        assert_eq!(answer.status, StatusCode::OK);
    }
}

/// Creates a fixture with a tool that sends 1 MiB of progress notifications.
fn verbose_fixture(options: HttpOptions) -> Fixture {
    let server = McpServer::named("http", "1").tool(tool("echo", || async { "hi" })).tool(Tool::dynamic(
        "talk",
        json!({"type": "object"}),
        |_: mcp_server::Json, cx: mcp_server::Context| async move {
            for number in 0..64 {
                cx.progress_note(f64::from(number), None, "x".repeat(16 << 10));
                tokio::time::sleep(Duration::from_millis(110)).await;
            }
            std::future::pending::<()>().await;
        },
    ));
    fixture_of(server, options)
}

#[tokio::test(start_paused = true)]
async fn unread_events_of_a_session_are_limited() {
    let fixture = verbose_fixture(HttpOptions::default().session_memory(256 << 10));
    let session = fixture.session("2025-11-25").await;
    let mut first_events = Vec::new();
    for id in 0..8 {
        let mut answer = session.call(id, "talk").await;
        first_events.push(answer.event().await.unwrap().0);
    }
    tokio::time::sleep(Duration::from_secs(20)).await;
    let mut kept = 0;
    for first in &first_events {
        let mut resumed = session.get(Some(first)).await;
        while let Ok(more) = tokio::time::timeout(Duration::from_millis(50), resumed.more()).await {
            assert!(more);
        }
        kept += resumed.read.len();
    }
    assert!(kept <= 256 << 10, "{kept} bytes were kept");
    assert!(kept > 0, "nothing was kept");
}
