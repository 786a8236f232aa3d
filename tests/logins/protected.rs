//! A protected MCP server of ours, which verifies the tokens of the authorization server.

use mcp_server::auth::{JwtVerifier, ProtectedResource};
use mcp_server::http::HttpOptions;
use mcp_server::{Context, McpServer, NoArgs, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::oneshot;

use crate::server::get;

/// Runs until it is dropped.
pub(crate) struct Protected {
    pub(crate) url: String,
    _stop: oneshot::Sender<()>,
}

#[derive(Deserialize, JsonSchema)]
struct Greeting {
    name: String,
}

impl Protected {
    /// Starts the server. Every request needs these scopes.
    pub(crate) async fn start(issuer: &str, scopes: &[&str]) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let verifier = JwtVerifier::new(issuer, |url: String| async move {
            match get(&url, None).await {
                (200, body) => Ok(body),
                (status, _) => Err(format!("HTTP status {status}")),
            }
        });
        let hello = |greeting: Greeting| async move { format!("Hello, {}!", greeting.name) };
        let server = McpServer::named("protected", "1.0.0")
            .tool(tool("hello", hello).description("Greets somebody."))
            .tool(tool("whoami", whoami).description("Tells who calls."))
            .tool(
                tool("delete", || async { "deleted" })
                    .description("Deletes.")
                    .requires_scopes(["notes:write"]),
            );
        let resource = ProtectedResource::new(&url, verifier).scopes(scopes.iter().copied());
        let (stop, stopped) = oneshot::channel::<()>();
        let options = HttpOptions::default().protect(resource);
        let serving = server.serve_listener(listener, options, async { drop(stopped.await) });
        tokio::spawn(async { serving.await.unwrap() });
        Self { url, _stop: stop }
    }
}

async fn whoami(_: NoArgs, cx: Context) -> String {
    format!("{:?}", cx.principal())
}
