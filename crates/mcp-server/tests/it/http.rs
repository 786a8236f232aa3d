//! The HTTP service, called directly without a socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use mcp_protocol::elicitation::{ElicitFormParams, FormSchema, StringSchema};
use mcp_server::http::{HttpBody, HttpOptions, HttpService};
use mcp_server::{Context, McpServer, NoArgs, Registry, ToolError, tool};
use serde_json::{Value, json};
use tower_service::Service;

pub(crate) struct Fixture {
    pub(crate) service: HttpService,
    pub(crate) registry: Registry,
    pub(crate) running: Arc<AtomicUsize>,
}

/// Counts a running call until it is dropped.
struct RunningGuard(Arc<AtomicUsize>);

impl RunningGuard {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(crate) fn fixture(options: HttpOptions) -> Fixture {
    let running = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&running);
    let server = McpServer::named("http", "1")
        .tool(tool("echo", || async { "hi" }))
        .tool(tool("sleep", move |_: NoArgs, cx: Context| {
            let guard = RunningGuard::new(&counted);
            async move {
                cx.progress(1.0, None);
                tokio::time::sleep(Duration::from_secs(3600)).await;
                drop(guard);
            }
        }))
        .tool(tool("steps", |_: NoArgs, cx: Context| async move {
            for step in 1..=3 {
                cx.progress(f64::from(step), 3.0);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            "done"
        }))
        .tool(tool("large", |_: NoArgs, cx: Context| async move {
            cx.progress(1.0, None);
            "x".repeat(400_000)
        }))
        .tool(tool("ask", |_: NoArgs, cx: Context| async move {
            let form = ElicitFormParams::new("Who?", FormSchema::new().field("name", StringSchema::new()));
            let answer = cx.ask("name", form).await?;
            Ok::<_, ToolError>(answer.action.to_string())
        }));
    let registry = server.registry();
    Fixture { service: server.into_http_service(options).unwrap(), registry, running }
}

/// A response that is being received.
pub(crate) struct ReceivedResponse {
    pub(crate) status: StatusCode,
    pub(crate) session: Option<String>,
    content_type: String,
    body: HttpBody,
    pub(crate) read: String,
}

impl ReceivedResponse {
    fn new(response: Response<HttpBody>) -> Self {
        let header =
            |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        Self {
            status: response.status(),
            session: header("mcp-session-id"),
            content_type: header("content-type").unwrap_or_default(),
            body: response.into_body(),
            read: String::new(),
        }
    }

    pub(crate) async fn more(&mut self) -> bool {
        match self.body.frame().await {
            Some(frame) => {
                self.read.push_str(std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap());
                true
            }
            None => false,
        }
    }

    /// Returns the id and the message of the next event; `None` at the end of the stream.
    pub(crate) async fn event(&mut self) -> Option<(String, Value)> {
        loop {
            while let Some((event, rest)) = self.read.split_once("\n\n") {
                let field = |name: &str| {
                    let line = event.lines().find_map(|line| line.strip_prefix(name));
                    line.map(|value| value.trim().to_owned()).unwrap_or_default()
                };
                let (id, data) = (field("id:"), field("data:"));
                self.read = rest.to_owned();
                if !data.is_empty() {
                    return Some((id, serde_json::from_str(&data).unwrap()));
                }
            }
            if !self.more().await {
                return None;
            }
        }
    }

    pub(crate) async fn json(mut self) -> Value {
        while self.more().await {}
        serde_json::from_str(&self.read).unwrap_or_else(|_| panic!("{} {:?}", self.status, self.read))
    }
}

impl Fixture {
    pub(crate) async fn send(&self, verb: &str, headers: &[(&str, &str)], body: &str) -> ReceivedResponse {
        let mut request = Request::builder().method(verb).uri("/mcp");
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", "localhost:8080");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        ReceivedResponse::new(self.service.clone().call(request).await.unwrap())
    }

    /// Sends a modern request with the required headers.
    pub(crate) async fn modern(&self, method: &str, params: Value) -> ReceivedResponse {
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        let mut headers = vec![JSON, ("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
        if !name.is_empty() {
            headers.push(("mcp-name", &name));
        }
        self.send("POST", &headers, &modern(method, params)).await
    }

    /// Opens a legacy session.
    pub(crate) async fn session(&self, version: &str) -> Session<'_> {
        let params = json!({"protocolVersion": version, "capabilities": {"elicitation": {}}, "clientInfo": {"name": "c", "version": "1"}});
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string();
        let answer = self.send("POST", &[JSON], &body).await;
        assert_eq!(answer.status, StatusCode::OK);
        Session { fixture: self, id: answer.session.clone().unwrap() }
    }
}

pub(crate) struct Session<'a> {
    fixture: &'a Fixture,
    pub(crate) id: String,
}

impl Session<'_> {
    pub(crate) async fn post(&self, message: Value) -> ReceivedResponse {
        self.fixture.send("POST", &[JSON, ("mcp-session-id", &self.id)], &message.to_string()).await
    }

    pub(crate) async fn call(&self, id: i64, name: &str) -> ReceivedResponse {
        let params = json!({"name": name, "_meta": {"progressToken": id}});
        self.post(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})).await
    }

    pub(crate) async fn get(&self, last: Option<&str>) -> ReceivedResponse {
        let mut headers = vec![("mcp-session-id", self.id.as_str()), ("accept", "text/event-stream")];
        headers.extend(last.map(|last| ("last-event-id", last)));
        self.fixture.send("GET", &headers, "").await
    }
}

pub(crate) const JSON: (&str, &str) = ("content-type", "application/json");

/// Returns an `initialize` request with this client info.
pub(crate) fn initialize(info: &Value) -> String {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string()
}

pub(crate) fn modern(method: &str, mut params: Value) -> String {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {}});
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string()
}

pub(crate) async fn eventually(mut condition: impl FnMut() -> bool) {
    for _ in 0..400 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the condition did not become true");
}

#[tokio::test]
async fn call_without_notifications_is_answered_with_json() {
    let fixture = fixture(HttpOptions::default());
    let answer = fixture.modern("tools/call", json!({"name": "echo"})).await;
    assert_eq!((answer.status, &*answer.content_type), (StatusCode::OK, "application/json"));
    assert_eq!(answer.session, None);
    let answer = answer.json().await;
    assert_eq!(answer["result"]["content"][0]["text"], "hi");
    assert_eq!((&answer["id"], &answer["result"]["resultType"]), (&json!(7), &json!("complete")));
}

#[tokio::test]
async fn call_with_progress_is_answered_with_an_sse_stream() {
    let fixture = fixture(HttpOptions::default());
    let mut answer =
        fixture.modern("tools/call", json!({"name": "steps", "_meta": {"progressToken": "p"}})).await;
    assert_eq!(answer.content_type, "text/event-stream");
    for step in 1..=3 {
        let (id, event) = answer.event().await.unwrap();
        // Modern events have no ids, because a modern stream cannot be resumed.
        assert_eq!((&*id, &event["params"]["progress"]), ("", &json!(step)));
    }
    assert_eq!(answer.event().await.unwrap().1["result"]["content"][0]["text"], "done");
    assert!(answer.event().await.is_none());
}

#[tokio::test]
async fn modern_client_disconnect_cancels_its_call() {
    let fixture = fixture(HttpOptions::default());
    // The client disconnects before the first byte of the response.
    let body = modern("tools/call", json!({"name": "sleep"}));
    let headers =
        [JSON, ("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "sleep")];
    let call = fixture.send("POST", &headers, &body);
    assert!(tokio::time::timeout(Duration::from_millis(20), call).await.is_err());
    assert_eq!(fixture.running.load(Ordering::SeqCst), 0);
    // The client disconnects while it reads the stream.
    let mut answer =
        fixture.modern("tools/call", json!({"name": "sleep", "_meta": {"progressToken": 1}})).await;
    answer.event().await.unwrap();
    assert_eq!(fixture.running.load(Ordering::SeqCst), 1);
    drop(answer);
    assert_eq!(fixture.running.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn foreign_host_or_origin_is_refused_for_every_http_method() {
    let fixture = fixture(HttpOptions::default());
    let body = modern("tools/call", json!({"name": "echo"}));
    for header in [("host", "evil.example.com"), ("origin", "https://evil.example.com"), ("origin", "null")] {
        for verb in ["POST", "GET", "DELETE"] {
            let answer = fixture.send(verb, &[JSON, header], &body).await;
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{verb} {header:?}");
        }
    }
}

#[tokio::test]
async fn body_without_json_content_type_is_refused() {
    let fixture = fixture(HttpOptions::default());
    let body = modern("tools/call", json!({"name": "echo"}));
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let answer = fixture.send("POST", &[("content-type", kind)], &body).await;
        assert_eq!(answer.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    assert_eq!(fixture.send("POST", &[], &body).await.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let answer = fixture.send("POST", &[JSON, ("accept", "text/html")], &body).await;
    assert_eq!(answer.status, StatusCode::NOT_ACCEPTABLE);
}

#[tokio::test]
async fn malformed_and_oversized_bodies_are_refused() {
    let fixture = fixture(HttpOptions::default().body(1000));
    for (body, status, code) in [("garbage", 400, -32700), ("[]", 400, -32600), ("{}", 400, -32600)] {
        let answer = fixture.send("POST", &[JSON], body).await;
        assert_eq!(answer.status.as_u16(), status);
        assert_eq!(answer.json().await["error"]["code"], json!(code), "{body}");
    }
    let answer = fixture.send("POST", &[JSON], &"x".repeat(1001)).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn missing_or_mismatched_mcp_headers_are_refused() {
    let fixture = fixture(HttpOptions::default());
    let body = modern("tools/call", json!({"name": "echo"}));
    let version = ("mcp-protocol-version", "2026-07-28");
    let (method, name) = (("mcp-method", "tools/call"), ("mcp-name", "echo"));
    for (headers, code) in [
        (vec![JSON, method, name], -32020),
        (vec![JSON, ("mcp-protocol-version", "2025-11-25"), method, name], -32020),
        (vec![JSON, version, name], -32020),
        (vec![JSON, version, ("mcp-method", "TOOLS/CALL"), name], -32020),
        (vec![JSON, version, method], -32020),
        (vec![JSON, version, method, ("mcp-name", "other")], -32020),
    ] {
        let answer = fixture.send("POST", &headers, &body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{headers:?}");
        let answer = answer.json().await;
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &json!(7)), "{headers:?}");
    }
    assert_eq!(fixture.send("POST", &[JSON, version, method, name], &body).await.status, StatusCode::OK);
    let unknown = fixture.modern("no/such", json!({})).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    assert_eq!(unknown.json().await["error"]["code"], json!(-32601));
}

#[tokio::test]
async fn legacy_session_is_opened_used_and_deleted() {
    let fixture = fixture(HttpOptions::default());
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = fixture.session(version).await;
        assert!(session.id.len() >= 22 && session.id.bytes().all(|byte| byte.is_ascii_graphic()));
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(session.post(initialized).await.status, StatusCode::ACCEPTED);
        let answer = session.call(1, "echo").await.json().await;
        assert_eq!(answer["result"], json!({"content": [{"type": "text", "text": "hi"}]}));
        let headers = [("mcp-session-id", session.id.as_str())];
        assert_eq!(fixture.send("DELETE", &headers, "").await.status, StatusCode::NO_CONTENT);
        assert_eq!(session.call(2, "echo").await.status, StatusCode::NOT_FOUND);
        assert_eq!(fixture.send("DELETE", &headers, "").await.status, StatusCode::NOT_FOUND);
    }
}

#[tokio::test]
async fn missing_session_id_is_400_and_unknown_session_is_404() {
    let fixture = fixture(HttpOptions::default());
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let missing = fixture.send("POST", &[JSON], &list).await;
    assert_eq!(missing.status, StatusCode::BAD_REQUEST);
    assert_eq!(missing.json().await["id"], json!(1));
    for id in ["unknown", "0123456789abcdef0123456789abcdef"] {
        let unknown = fixture.send("POST", &[JSON, ("mcp-session-id", id)], &list).await;
        assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    }
}

#[tokio::test]
async fn legacy_elicitation_uses_the_call_stream_and_a_second_post() {
    let fixture = fixture(HttpOptions::default());
    let session = fixture.session("2025-06-18").await;
    let mut answer = session.call(5, "ask").await;
    let (_, asked) = answer.event().await.unwrap();
    assert_eq!(asked["method"], "elicitation/create");
    let reply = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}});
    assert_eq!(session.post(reply.clone()).await.status, StatusCode::ACCEPTED);
    let (_, done) = answer.event().await.unwrap();
    assert_eq!((&done["id"], &done["result"]["content"][0]["text"]), (&json!(5), &json!("decline")));
    // A second response does not match a request in flight.
    assert_eq!(session.post(reply).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn equal_request_ids_of_two_sessions_stay_separate() {
    let fixture = fixture(HttpOptions::default());
    let (one, other) = (fixture.session("2025-06-18").await, fixture.session("2025-06-18").await);
    let (mut first, mut second) = (one.call(5, "ask").await, other.call(5, "ask").await);
    let (_, asked) = first.event().await.unwrap();
    let (_, also) = second.event().await.unwrap();
    assert_eq!(asked["id"], also["id"]);
    let reply = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "cancel"}});
    other.post(reply).await;
    assert_eq!(second.event().await.unwrap().1["result"]["content"][0]["text"], "cancel");
    assert!(tokio::time::timeout(Duration::from_millis(20), first.event()).await.is_err());
}

#[tokio::test]
async fn lost_legacy_stream_resumes_after_the_last_event() {
    let fixture = fixture(HttpOptions::default());
    let session = fixture.session("2025-11-25").await;
    let mut lost = session.call(5, "steps").await;
    let (last, first) = lost.event().await.unwrap();
    assert_eq!(first["params"]["progress"], json!(1));
    drop(lost);
    let mut again = session.get(Some(&last)).await;
    assert_eq!(again.event().await.unwrap().1["params"]["progress"], json!(2));
    assert_eq!(again.event().await.unwrap().1["params"]["progress"], json!(3));
    assert_eq!(again.event().await.unwrap().1["result"]["content"][0]["text"], "done");
    assert!(again.event().await.is_none());
}

#[tokio::test]
async fn legacy_call_survives_a_lost_stream_until_it_is_cancelled() {
    let fixture = fixture(HttpOptions::default());
    let session = fixture.session("2025-11-25").await;
    let mut answer = session.call(5, "sleep").await;
    answer.event().await.unwrap();
    drop(answer);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(fixture.running.load(Ordering::SeqCst), 1);
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}});
    assert_eq!(session.post(cancelled).await.status, StatusCode::ACCEPTED);
    eventually(|| fixture.running.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test]
async fn duplicate_request_id_in_flight_is_refused_with_that_id() {
    let fixture = fixture(HttpOptions::default());
    let session = fixture.session("2025-11-25").await;
    let mut first = session.call(5, "sleep").await;
    first.event().await.unwrap();
    let second = session.call(5, "echo").await;
    assert_eq!(second.status, StatusCode::BAD_REQUEST);
    let second = second.json().await;
    assert_eq!((&second["id"], &second["error"]["code"]), (&json!(5), &json!(-32600)));
    assert_eq!(fixture.running.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn new_get_stream_replaces_the_old_one_and_receives_changes() {
    let fixture = fixture(HttpOptions::default());
    let session = fixture.session("2025-11-25").await;
    let mut first = session.get(None).await;
    let mut second = session.get(None).await;
    assert!(first.event().await.is_none());
    fixture.registry.add_tool(tool("late", || async {})).unwrap();
    assert_eq!(second.event().await.unwrap().1["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn changes_reach_a_modern_stream_after_its_acknowledgement() {
    let fixture = fixture(HttpOptions::default().streams(1));
    let params = json!({"notifications": {"toolsListChanged": true}});
    let mut stream = fixture.modern("subscriptions/listen", params.clone()).await;
    let (_, first) = stream.event().await.unwrap();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    let full = fixture.modern("subscriptions/listen", params.clone()).await.json().await;
    assert_eq!(full["error"]["code"], json!(-32603));
    fixture.registry.add_tool(tool("late", || async {})).unwrap();
    let (_, change) = stream.event().await.unwrap();
    assert_eq!(change["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], json!(7));
    drop(stream);
    assert_eq!(fixture.modern("subscriptions/listen", params).await.content_type, "text/event-stream");
}

#[tokio::test(start_paused = true)]
async fn idle_stream_is_kept_alive_by_comments() {
    let fixture = fixture(HttpOptions::default());
    let mut stream = fixture.modern("subscriptions/listen", json!({"notifications": {}})).await;
    stream.event().await.unwrap();
    let start = tokio::time::Instant::now();
    assert!(stream.more().await);
    assert_eq!((stream.read.as_str(), start.elapsed()), (":\n\n", Duration::from_secs(15)));
}

#[tokio::test]
async fn idle_sessions_expire_and_are_evicted_for_new_ones() {
    let fixture = fixture(HttpOptions::default().session_idle(Duration::from_millis(30)).sessions(3));
    let old = fixture.session("2025-11-25").await;
    tokio::time::sleep(Duration::from_millis(60)).await;
    let kept = fixture.session("2025-11-25").await;
    assert_eq!(old.call(1, "echo").await.status, StatusCode::NOT_FOUND);
    // A session whose stream is read does not expire.
    let _stream = kept.get(None).await;
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(kept.call(1, "echo").await.status, StatusCode::OK);
    for _ in 0..5 {
        fixture.session("2025-11-25").await;
    }
}

#[tokio::test]
async fn batches_are_served_in_2025_03_26_and_refused_elsewhere() {
    let fixture = fixture(HttpOptions::default());
    let batch = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "echo"}},
    ]);
    let answer = fixture.session("2025-03-26").await.post(batch.clone()).await.json().await;
    assert_eq!((answer.as_array().unwrap().len(), &answer[1]["id"]), (2, &json!(2)));
    let refused = fixture.session("2025-11-25").await.post(batch).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn legacy_call_without_messages_can_be_cancelled() {
    let fixture = fixture(HttpOptions::default());
    let session = fixture.session("2025-11-25").await;
    let call = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "sleep"}});
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}});
    let (answer, _) = tokio::join!(session.post(call), async {
        eventually(|| fixture.running.load(Ordering::SeqCst) == 1).await;
        session.post(cancelled).await
    });
    assert_eq!(answer.status, StatusCode::ACCEPTED);
    assert_eq!(fixture.running.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn deleted_session_ends_its_calls_and_streams() {
    let fixture = fixture(HttpOptions::default());
    let session = fixture.session("2025-11-25").await;
    let mut call = session.call(5, "sleep").await;
    call.event().await.unwrap();
    let mut standalone = session.get(None).await;
    let headers = [("mcp-session-id", session.id.as_str())];
    assert_eq!(fixture.send("DELETE", &headers, "").await.status, StatusCode::NO_CONTENT);
    assert!(call.event().await.is_none());
    assert!(standalone.event().await.is_none());
    eventually(|| fixture.running.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test]
async fn stream_of_a_cancelled_legacy_call_ends() {
    let fixture = fixture(HttpOptions::default());
    let session = fixture.session("2025-11-25").await;
    let mut call = session.call(5, "sleep").await;
    call.event().await.unwrap();
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}});
    session.post(cancelled).await;
    assert!(call.event().await.is_none());
}

#[tokio::test]
async fn lost_stand_alone_stream_is_resumed() {
    let fixture = fixture(HttpOptions::default());
    let session = fixture.session("2025-11-25").await;
    let mut first = session.get(None).await;
    fixture.registry.add_tool(tool("one", || async {})).unwrap();
    let (last, _) = first.event().await.unwrap();
    drop(first);
    fixture.registry.add_tool(tool("lost", || async {})).unwrap();
    let mut second = session.get(Some(&last)).await;
    // The missed changes are replaced by one notification per list.
    let missed = second.event().await.unwrap().1;
    assert_eq!(missed["method"], "notifications/tools/list_changed");
    for _ in 0..2 {
        second.event().await.unwrap();
    }
    fixture.registry.add_tool(tool("two", || async {})).unwrap();
    assert_eq!(second.event().await.unwrap().1["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn unknown_legacy_method_is_an_error_response_with_status_200() {
    let fixture = fixture(HttpOptions::default());
    let session = fixture.session("2025-11-25").await;
    let answer = session.post(json!({"jsonrpc": "2.0", "id": 1, "method": "foo/bar"})).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.json().await["error"]["code"], json!(-32601));
}

#[tokio::test]
async fn changes_for_an_unread_stream_are_coalesced() {
    let fixture = fixture(HttpOptions::default());
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let mut slow = fixture.modern("subscriptions/listen", filter.clone()).await;
    let mut quick = fixture.modern("subscriptions/listen", filter).await;
    slow.event().await.unwrap();
    quick.event().await.unwrap();
    for round in 0..10_000 {
        fixture.registry.add_tool(tool("same", || async {})).unwrap();
        if round % 10 == 0 {
            assert_eq!(quick.event().await.unwrap().1["method"], "notifications/tools/list_changed");
        }
    }
    // The missed changes are replaced by one notification per list.
    let mut received = 0;
    while let Ok(event) = tokio::time::timeout(Duration::from_millis(100), slow.event()).await {
        assert_eq!(event.unwrap().1["method"], "notifications/tools/list_changed");
        received += 1;
    }
    assert!((1..=200).contains(&received), "{received} notifications were queued");
}

#[tokio::test]
async fn kept_streams_of_a_session_are_limited() {
    let fixture = fixture(HttpOptions::default());
    let session = fixture.session("2025-11-25").await;
    let mut first_events = Vec::new();
    for id in 1..=5 {
        let mut stream = session.call(id, "large").await;
        first_events.push(stream.event().await.unwrap().0);
        while stream.event().await.is_some() {}
    }
    let mut newest = session.get(Some(&first_events[4])).await;
    assert_eq!(newest.event().await.unwrap().1["id"], json!(5));
    // The oldest stream is no longer kept; the client gets the stand-alone stream instead.
    let mut oldest = session.get(Some(&first_events[0])).await;
    fixture.registry.add_tool(tool("one", || async {})).unwrap();
    assert_eq!(oldest.event().await.unwrap().1["method"], "notifications/tools/list_changed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn call_ends_if_its_session_ends_during_its_first_poll() {
    for streams in [false, true] {
        let running = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&running);
        let (entered, mut has_entered) = tokio::sync::mpsc::unbounded_channel();
        let (leave, may_leave) = std::sync::mpsc::channel::<()>();
        let may_leave = Arc::new(std::sync::Mutex::new(may_leave));
        let server = McpServer::named("http", "1").tool(tool("busy", move |_: NoArgs, cx: Context| {
            let guard = RunningGuard::new(&counted);
            let (entered, may_leave) = (entered.clone(), Arc::clone(&may_leave));
            async move {
                if streams {
                    cx.progress(1.0, None);
                }
                entered.send(()).unwrap();
                // Blocks the thread, like a handler that should use `blocking`.
                may_leave.lock().unwrap().recv().unwrap();
                std::future::pending::<()>().await;
                drop(guard);
            }
        }));
        let registry = server.registry();
        let service = server.into_http_service(HttpOptions::default()).unwrap();
        let fixture = Arc::new(Fixture { service, registry, running: Arc::clone(&running) });
        let id = fixture.session("2025-11-25").await.id.clone();
        let (calling, session) = (Arc::clone(&fixture), id.clone());
        let call = tokio::spawn(async move {
            let params = json!({"name": "busy", "_meta": {"progressToken": 1}});
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
            let headers = [JSON, ("mcp-session-id", &*session)];
            let mut answer = calling.send("POST", &headers, &body.to_string()).await;
            while answer.more().await {}
        });
        has_entered.recv().await.unwrap();
        fixture.send("DELETE", &[("mcp-session-id", &*id)], "").await;
        leave.send(()).unwrap();
        call.await.unwrap();
        for _ in 0..1000 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            if running.load(Ordering::SeqCst) == 0 {
                break;
            }
        }
        assert_eq!(running.load(Ordering::SeqCst), 0, "streams: {streams}");
    }
}

#[tokio::test]
async fn repeated_session_and_event_ids_are_refused() {
    let fixture = fixture(HttpOptions::default());
    let session = fixture.session("2025-11-25").await;
    let (id, events) = (("mcp-session-id", session.id.as_str()), ("accept", "text/event-stream"));
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    assert_eq!(fixture.send("POST", &[JSON, id, id], &ping).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(fixture.send("GET", &[events, id, id], "").await.status, StatusCode::BAD_REQUEST);
    let last = ("last-event-id", "1-0");
    assert_eq!(fixture.send("GET", &[events, id, last, last], "").await.status, StatusCode::BAD_REQUEST);
    let twice = fixture.send("DELETE", &[id, id], "").await;
    assert_eq!(twice.status, StatusCode::BAD_REQUEST);
    assert!(
        twice.json().await["error"]["message"]
            .as_str()
            .unwrap()
            .contains("duplicate header `mcp-session-id`")
    );
    assert_eq!(fixture.send("POST", &[JSON, id], &ping).await.status, StatusCode::OK);
}

#[tokio::test]
async fn second_initialize_in_a_session_is_refused() {
    let fixture = fixture(HttpOptions::default());
    let session = fixture.session("2025-11-25").await;
    let again: Value = serde_json::from_str(&initialize(&json!({"name": "c", "version": "1"}))).unwrap();
    let answer = session.post(again.clone()).await;
    assert_eq!((answer.status, answer.session.as_ref()), (StatusCode::BAD_REQUEST, None));
    assert_eq!(answer.json().await["error"]["code"], json!(-32600));
    // Without the session, or with one that has ended, it opens a new one.
    assert!(fixture.send("POST", &[JSON], &again.to_string()).await.session.is_some());
    let ended = [JSON, ("mcp-session-id", "ended")];
    assert!(fixture.send("POST", &ended, &again.to_string()).await.session.is_some());
}

#[tokio::test]
async fn listen_without_event_stream_in_accept_is_refused() {
    let fixture = fixture(HttpOptions::default());
    let body = modern("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let headers = [JSON, ("mcp-protocol-version", "2026-07-28"), ("mcp-method", "subscriptions/listen")];
    for accept in ["application/json", "application/*;q=1"] {
        let answer = fixture.send("POST", &[&headers[..], &[("accept", accept)]].concat(), &body).await;
        assert_eq!((answer.status, &*answer.content_type), (StatusCode::NOT_ACCEPTABLE, "application/json"));
        let answer = answer.json().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32600)));
    }
    for accept in ["text/event-stream", "application/json, TEXT/*", "*/*"] {
        let answer = fixture.send("POST", &[&headers[..], &[("accept", accept)]].concat(), &body).await;
        assert_eq!(answer.content_type, "text/event-stream", "{accept}");
    }
}

#[tokio::test]
async fn argument_header_is_checked_against_the_received_argument() {
    let schema = json!({"type": "object", "properties": {
        "tenant": {"type": "string", "x-mcp-header": "Tenant"}, "x": {},
    }});
    let whose = mcp_server::Tool::dynamic("whose", schema, |arguments: mcp_server::Json| async move {
        arguments.member("tenant").unwrap_or("nobody").to_owned()
    });
    let server = McpServer::named("http", "1").tool(whose);
    let registry = server.registry();
    let service = server.into_http_service(HttpOptions::default()).unwrap();
    let fixture = Fixture { service, registry, running: Arc::default() };
    let call = async |arguments: &str, tenant: &[&str]| {
        let body = modern("tools/call", json!({"name": "whose", "arguments": "ARGUMENTS"}));
        let body = body.replace("\"ARGUMENTS\"", arguments);
        let mut headers = vec![
            JSON,
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "whose"),
        ];
        headers.extend(tenant.iter().map(|value| ("mcp-param-tenant", *value)));
        fixture.send("POST", &headers, &body).await.json().await
    };
    let mine = call(r#"{"tenant":"mine","x":1e999}"#, &["mine"]).await;
    assert!(mine["error"].is_null(), "{mine}");
    for (arguments, tenant) in [
        (r#"{"tenant":"victim","x":1e999}"#, &["mine"][..]),
        (r#"{"tenant":"victim","x":"\ud800"}"#, &["mine"]),
        (r#"{"tenant":"mine","tenant":"victim"}"#, &["mine"]),
        (r#"{"tenant":"mine"}"#, &[]),
        (r#"{"tenant":"mine"}"#, &["mine", "mine"]),
        ("{}", &["mine"]),
    ] {
        let answer = call(arguments, tenant).await;
        assert_eq!(answer["error"]["code"], json!(-32020), "{arguments}: {answer}");
    }
}
