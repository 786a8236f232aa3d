//! Who calls: what a middleware in front of the HTTP service inserted reaches the tools, and owns sessions and state.

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use mcp_server::http::{HttpOptions, HttpService};
use mcp_server::{Context, McpServer, Principal, ToolError, tool};
use serde_json::{Value, json};
use tower_service::Service;

use crate::http::{initialize, modern};

/// What the embedding program knows about its user.
#[derive(Clone)]
struct User(&'static str);

fn service() -> HttpService {
    async fn whoami(cx: Context) -> String {
        let user = cx.extensions().get::<User>().map_or("no user", |user| user.0);
        format!("{user}, {}", cx.principal())
    }
    async fn delete(cx: Context) -> Result<String, ToolError> {
        Ok(cx.confirm("sure", "Delete everything?").await?.to_string())
    }
    McpServer::named("who", "1")
        .tool(tool("whoami", whoami).description("Tells who calls."))
        .tool(tool("delete", delete).description("Deletes."))
        .into_http_service(HttpOptions::default())
        .unwrap()
}

/// Sends a request as the middleware of the embedding program passes it on.
async fn send(
    service: &HttpService,
    user: Option<&'static str>,
    verb: &str,
    headers: &[(&str, &str)],
    body: String,
) -> (StatusCode, Option<String>, Value) {
    let mut request = Request::builder()
        .method(verb)
        .uri("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header(
            "accept",
            if verb == "GET" { "text/event-stream" } else { "application/json, text/event-stream" },
        );
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(Full::new(Bytes::from(body))).unwrap();
    if let Some(user) = user {
        request.extensions_mut().insert(User(user));
        request.extensions_mut().insert(Principal::new(user));
    }
    let response = service.clone().call(request).await.unwrap();
    let (status, session) = (response.status(), response.headers().get("mcp-session-id").cloned());
    let session = session.map(|session| session.to_str().unwrap().to_owned());
    if verb == "GET" && status == StatusCode::OK {
        return (status, session, Value::Null);
    }
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, session, serde_json::from_slice(&body).unwrap_or_default())
}

async fn call(service: &HttpService, user: Option<&'static str>, params: Value) -> Value {
    let name = params["name"].as_str().unwrap().to_owned();
    let headers =
        [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", name.as_str())];
    send(service, user, "POST", &headers, modern("tools/call", params)).await.2
}

#[tokio::test]
async fn extensions_of_the_request_reach_the_tool() {
    let service = service();
    for (user, text) in [(Some("ada"), "ada, ada"), (None, "no user, anonymous")] {
        let result = call(&service, user, json!({"name": "whoami"})).await;
        assert_eq!(result["result"]["content"][0]["text"], text);
    }
    // Also in a legacy session, single and in a batch.
    for version in ["2025-11-25", "2025-03-26"] {
        let body = initialize(&json!({"name": "c", "version": "1"})).replace("2025-11-25", version);
        let (_, session, _) = send(&service, Some("ada"), "POST", &[], body).await;
        let headers = [("mcp-session-id", session.as_deref().unwrap())];
        let message =
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "whoami"}});
        let (_, _, single) = send(&service, Some("ada"), "POST", &headers, message.to_string()).await;
        assert_eq!(single["result"]["content"][0]["text"], "ada, ada");
        if version == "2025-03-26" {
            let (_, _, batch) =
                send(&service, Some("ada"), "POST", &headers, json!([message]).to_string()).await;
            assert_eq!(batch[0]["result"]["content"][0]["text"], "ada, ada");
        }
    }
}

#[tokio::test]
async fn session_of_another_principal_is_not_found() {
    let service = service();
    let body = initialize(&json!({"name": "c", "version": "1"}));
    let (_, session, _) = send(&service, Some("ada"), "POST", &[], body).await;
    let headers = [("mcp-session-id", session.as_deref().unwrap())];
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    for other in [Some("eve"), None] {
        for verb in ["POST", "GET", "DELETE"] {
            let (status, ..) = send(&service, other, verb, &headers, ping.clone()).await;
            assert_eq!(status, StatusCode::NOT_FOUND, "{verb} {other:?}");
        }
    }
    for (verb, expected) in [("POST", 200), ("GET", 200), ("DELETE", 204), ("POST", 404)] {
        let (status, ..) = send(&service, Some("ada"), verb, &headers, ping.clone()).await;
        assert_eq!(status.as_u16(), expected, "{verb}");
    }
}

#[cfg(feature = "sealing")]
#[tokio::test]
async fn sealed_state_of_another_principal_is_refused() {
    let service = service();
    let asked = call(&service, Some("ada"), json!({"name": "delete"})).await;
    let (state, requests) = (&asked["result"]["requestState"], &asked["result"]["inputRequests"]);
    let key = requests.as_object().unwrap().keys().next().unwrap().clone();
    let answered =
        json!({"name": "delete", "requestState": state, "inputResponses": {key: {"action": "accept"}}});
    for other in [Some("eve"), None] {
        let refused = call(&service, other, answered.clone()).await;
        assert_eq!(refused["error"]["code"], -32602, "{other:?} {refused}");
    }
    let done = call(&service, Some("ada"), answered).await;
    assert_eq!(done["result"]["content"][0]["text"], "true");
}
