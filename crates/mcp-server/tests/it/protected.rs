//! Protected servers: every request needs a token for this server, and some tools need more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::WWW_AUTHENTICATE;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use mcp_protocol::codec::challenge::Challenge;
use mcp_server::auth::{ProtectedResource, Rejection, Verifier};
use mcp_server::http::{HttpBody, HttpOptions, HttpService};
use mcp_server::{Context, McpServer, Principal, async_trait, tool};
use serde_json::{Value, json};
use tower_service::Service;

use crate::http::{initialize, modern};

const RESOURCE: &str = "https://notes.example/mcp";
const METADATA: &str = "https://notes.example/.well-known/oauth-protected-resource/mcp";

/// Accepts tokens like `ada:read,write`: the user and the scopes.
struct Names;

#[async_trait]
impl Verifier for Names {
    fn issuers(&self) -> Vec<String> {
        vec!["https://as.example/tenant".to_owned()]
    }

    async fn verify(&self, token: &str, resource: &str) -> Result<Principal, Rejection> {
        assert_eq!(resource, RESOURCE);
        if token == "away" {
            return Err(Rejection::Unavailable("the secret reason".to_owned()));
        }
        if token == "nobody" {
            return Ok(Principal::default().with_scopes(["read"]));
        }
        let Some((user, scopes)) = token.split_once('.') else {
            return Err(Rejection::Invalid("the token has expired".to_owned()));
        };
        let principal =
            Principal::new(user).with_issuer("https://as.example/tenant").with_scopes(scopes.split('.'));
        Ok(match user {
            "brief" => principal.with_expiry(SystemTime::now() + Duration::from_millis(300)),
            _ => principal,
        })
    }
}

struct Fixture {
    service: HttpService,
    runs: Arc<AtomicUsize>,
}

fn fixture() -> Fixture {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let count = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        async { "deleted" }
    };
    let resource = ProtectedResource::new(RESOURCE, Names)
        .scopes(["read"])
        .scope_includes("admin", ["read", "write"])
        .name("Notes");
    let service = McpServer::named("notes", "1")
        .tool(
            tool("whoami", |cx: Context| async move { format!("{:?}", cx.principal()) })
                .description("Tells who calls."),
        )
        .tool(tool("delete", count).description("Deletes.").requires_scopes(["write", "delete"]))
        .tool(tool("purge", || async { "purged" }).description("Purges.").requires_scopes(["purge"]))
        .into_http_service(HttpOptions::default().protect(resource))
        .unwrap();
    Fixture { service, runs }
}

impl Fixture {
    async fn send(
        &self,
        verb: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Response<HttpBody> {
        let mut request = Request::builder()
            .method(verb)
            .uri(path)
            .header("host", "notes.example")
            .header("content-type", "application/json")
            .header(
                "accept",
                if verb == "GET" { "text/event-stream" } else { "application/json, text/event-stream" },
            );
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.service.clone().call(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap()
    }

    /// Calls a tool in the modern era.
    async fn call(&self, token: &str, name: &str) -> Response<HttpBody> {
        let token = format!("Bearer {token}");
        let headers = [
            ("authorization", token.as_str()),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", name),
        ];
        self.send("POST", "/mcp", &headers, modern("tools/call", json!({"name": name}))).await
    }

    /// Opens a legacy session, and returns its id.
    async fn session(&self, token: &str, version: &str) -> String {
        let body = initialize(&json!({"name": "c", "version": "1"})).replace("2025-11-25", version);
        let response =
            self.send("POST", "/mcp", &[("authorization", &format!("Bearer {token}"))], body).await;
        response.headers()["mcp-session-id"].to_str().unwrap().to_owned()
    }

    async fn in_session(&self, token: &str, session: &str, verb: &str, body: &Value) -> Response<HttpBody> {
        let headers = [("authorization", &*format!("Bearer {token}")), ("mcp-session-id", session)];
        self.send(verb, "/mcp", &headers, body.to_string()).await
    }
}

async fn body(response: Response<HttpBody>) -> Value {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// Returns the status and the parameters of the challenge: error, scope and metadata address.
fn refusal(response: &Response<HttpBody>) -> (u16, Option<String>, Option<String>, Option<String>) {
    let values = response.headers().get_all(WWW_AUTHENTICATE);
    let challenges = Challenge::parse_all(values.iter().map(|value| value.to_str().unwrap()));
    let parameter = |name: &str| challenges.first().and_then(|it| it.parameter(name)).map(str::to_owned);
    (response.status().as_u16(), parameter("error"), parameter("scope"), parameter("resource_metadata"))
}

fn expected(
    status: u16,
    error: Option<&str>,
    scope: &str,
) -> (u16, Option<String>, Option<String>, Option<String>) {
    (status, error.map(str::to_owned), Some(scope.to_owned()), Some(METADATA.to_owned()))
}

fn call_message(id: u8, name: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name}})
}

#[tokio::test]
async fn request_without_a_valid_token_gets_a_complete_challenge() {
    let fixture = fixture();
    let headers = |values: &'static [&'static str]| {
        values.iter().map(|value| ("authorization", *value)).collect::<Vec<_>>()
    };
    for verb in ["POST", "GET", "DELETE", "OPTIONS"] {
        for (values, status, error) in [
            (headers(&[]), 401, None),
            (headers(&["Basic YTpi"]), 401, None),
            (headers(&["Bearer stale"]), 401, Some("invalid_token")),
            (headers(&["Bearer nobody"]), 401, Some("invalid_token")),
            (headers(&["Bearer"]), 400, Some("invalid_request")),
            (headers(&["Bearer a b"]), 400, Some("invalid_request")),
            (headers(&["Bearer ada.read", "Bearer ada.read"]), 400, Some("invalid_request")),
        ] {
            // The body is not read, and the session is not looked up.
            let response = fixture.send(verb, "/mcp", &values, "{".to_owned()).await;
            assert_eq!(refusal(&response), expected(status, error, "read"), "{verb} {values:?}");
            assert_eq!(body(response).await, Value::Null);
        }
    }
    let query = fixture.send("POST", "/mcp?access_token=ada.read", &[], "{".to_owned()).await;
    assert_eq!(query.status(), StatusCode::UNAUTHORIZED);
    let away = fixture.call("away", "whoami").await;
    assert_eq!((away.status().as_u16(), away.headers()["retry-after"].to_str().unwrap()), (503, "5"));
    assert!(!format!("{:?}", away.headers()).contains("secret"));
    let foreign = fixture.send("POST", "/mcp", &[("origin", "https://evil.example")], String::new()).await;
    assert_eq!(foreign.status(), StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn tool_sees_its_caller_and_never_the_token() {
    let fixture = fixture();
    let text =
        body(fixture.call("ada.read.x", "whoami").await).await["result"]["content"][0]["text"].to_string();
    for part in ["ada", "https://as.example/tenant", "read"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("ada.read"), "{text}");
    // What a middleware inserted does not count on a protected server.
    let mut request =
        Request::post("/mcp").header("host", "notes.example").body(Full::new(Bytes::new())).unwrap();
    request.extensions_mut().insert(Principal::new("ada").with_scopes(["read"]));
    let response = fixture.service.clone().call(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn missing_scopes_are_refused_with_all_that_are_needed() {
    let fixture = fixture();
    let all = Some("insufficient_scope");
    assert_eq!(refusal(&fixture.call("ada.other", "whoami").await), expected(403, all, "read"));
    assert_eq!(refusal(&fixture.call("ada.read", "delete").await), expected(403, all, "read write delete"));
    assert_eq!(refusal(&fixture.call("ada.admin", "delete").await), expected(403, all, "read write delete"));
    let session = fixture.session("ada.read", "2025-03-26").await;
    for message in [call_message(1, "delete"), json!([call_message(1, "whoami"), call_message(2, "delete")])]
    {
        let response = fixture.in_session("ada.read", &session, "POST", &message).await;
        assert_eq!(refusal(&response), expected(403, all, "read write delete"), "{message}");
    }
    // One login is enough for all calls of a batch.
    let both = json!([call_message(1, "delete"), call_message(2, "purge")]);
    let response = fixture.in_session("ada.read", &session, "POST", &both).await;
    assert_eq!(refusal(&response), expected(403, all, "read write delete purge"));
    assert_eq!(fixture.runs.load(Ordering::SeqCst), 0);
    for token in ["ada.admin.delete", "ada.read.write.delete"] {
        assert_eq!(fixture.call(token, "delete").await.status(), StatusCode::OK);
        // A later token of the same user may have more scopes than the one that opened the session.
        let response = fixture.in_session(token, &session, "POST", &json!([call_message(1, "delete")])).await;
        assert_eq!(body(response).await[0]["result"]["content"][0]["text"], "deleted");
    }
    assert_eq!(fixture.runs.load(Ordering::SeqCst), 4);
    assert_eq!(fixture.call("ada.read", "absent").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn session_belongs_to_the_user_of_the_token() {
    let fixture = fixture();
    let session = fixture.session("ada.read", "2025-11-25").await;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for verb in ["POST", "GET", "DELETE"] {
        assert_eq!(
            fixture.in_session("eve.read", &session, verb, &ping).await.status(),
            StatusCode::NOT_FOUND,
            "{verb}"
        );
    }
    assert_eq!(fixture.in_session("ada.read.write", &session, "POST", &ping).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn stream_ends_when_the_permission_ends() {
    let fixture = fixture();
    let session = fixture.session("brief.read", "2025-11-25").await;
    let legacy = fixture.in_session("brief.read", &session, "GET", &Value::Null).await;
    let headers = [
        ("authorization", "Bearer brief.read"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "subscriptions/listen"),
    ];
    let listen = modern("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let modern = fixture.send("POST", "/mcp", &headers, listen).await;
    for response in [legacy, modern] {
        assert_eq!(response.status(), StatusCode::OK);
        tokio::time::timeout(Duration::from_secs(20), response.into_body().collect()).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn metadata_is_public_and_at_both_places() {
    let fixture = fixture();
    let expected = json!({
        "resource": RESOURCE,
        "authorization_servers": ["https://as.example/tenant"],
        "scopes_supported": ["read"],
        "bearer_methods_supported": ["header"],
        "resource_name": "Notes",
    });
    for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"] {
        let response = fixture.send("GET", path, &[("origin", "https://app.example")], String::new()).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        assert_eq!(response.headers()["access-control-allow-origin"], "*");
        assert_eq!(body(response).await, expected);
    }
    let other = fixture.send("GET", "/.well-known/oauth-protected-resource/mcp2", &[], String::new()).await;
    assert_eq!(other.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn scopes_of_a_tool_are_checked_without_protection_too() {
    let service = McpServer::named("notes", "1")
        .tool(tool("delete", || async { "deleted" }).description("Deletes.").requires_scopes(["write"]))
        .into_http_service(HttpOptions::default())
        .unwrap();
    for (principal, status) in [
        (None, 403),
        (Some(Principal::new("ada")), 403),
        (Some(Principal::new("ada").with_scopes(["write"])), 200),
    ] {
        let mut request = Request::post("/mcp")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", "delete")
            .body(Full::new(Bytes::from(modern("tools/call", json!({"name": "delete"})))))
            .unwrap();
        if let Some(principal) = principal.clone() {
            request.extensions_mut().insert(principal);
        }
        let response = service.clone().call(request).await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{principal:?}");
    }
}

#[test]
fn invalid_protection_is_an_error_at_start() {
    let start = |url: &str| {
        let resource = ProtectedResource::new(url, Names).scopes(["offline_access"]);
        McpServer::named("notes", "1")
            .into_http_service(HttpOptions::default().protect(resource))
            .unwrap_err()
            .to_string()
    };
    let error = start("http://notes.example/mcp");
    assert!(error.contains("must begin with https://") && error.contains("offline_access"), "{error}");
    let scope = McpServer::named("notes", "1")
        .tool(tool("x", || async { "" }).description("X.").requires_scopes(["a b"]))
        .into_http_service(HttpOptions::default())
        .unwrap_err()
        .to_string();
    assert!(scope.contains("`a b`, required by tool `x`, is not a scope"), "{scope}");
}
