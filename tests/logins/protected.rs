//! An MCP server that accepts the tokens of the authorization server, for the examples.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use mcp_server::http::HttpOptions;
use mcp_server::{McpServer, tool};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::server::accepts_for;

/// Runs until it is dropped.
pub(crate) struct Protected {
    pub(crate) url: String,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Clone)]
struct Issuer {
    issuer: String,
    resource: String,
}

#[derive(Deserialize, JsonSchema)]
struct Greeting {
    name: String,
}

impl Protected {
    pub(crate) async fn start(issuer: &str) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let server = McpServer::named("protected", "1.0.0").tool(
            tool("hello", |greeting: Greeting| async move { format!("Hello, {}!", greeting.name) })
                .description("Greets somebody."),
        );
        let service = server.into_http_service(HttpOptions::default()).unwrap();
        let issuer = Issuer { issuer: issuer.to_owned(), resource: url.clone() };
        let app = Router::new().route_service("/mcp", service).layer(from_fn_with_state(issuer, check));
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, task }
    }
}

impl Drop for Protected {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Asks the authorization server whether the token is valid for this MCP server.
async fn check(State(issuer): State<Issuer>, request: Request, next: Next) -> Response {
    let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = header.and_then(|value| value.strip_prefix("Bearer ")).map(str::to_owned);
    match token {
        Some(token) if accepts_for(&issuer.issuer, &token, Some(&issuer.resource)).await => {
            next.run(request).await
        }
        _ => (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")]).into_response(),
    }
}
