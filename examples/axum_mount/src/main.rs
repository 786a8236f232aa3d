//! An MCP server in an axum program, which tells the tools who is calling: `cargo run -p example-axum-mount`
//!
//! `TOKEN=secret` is the bearer token of the only user.

use std::process::ExitCode;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, HeaderName, WWW_AUTHENTICATE};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use axum::serve::ListenerExt;
use mcp_server::http::{HttpOptions, HttpService};
use mcp_server::{Context, McpServer, Principal, ToolError, tool};
use tokio::net::TcpListener;

#[derive(Clone)]
struct User {
    name: &'static str,
}

/// The response to a request that is not let through.
type Unauthorized = (StatusCode, [(HeaderName, &'static str); 1]);

/// Checks a token. A real program looks up a digest of the token in a table, or validates a JWT.
fn user_of(token: &str, expected: &str) -> Option<User> {
    (token == expected).then_some(User { name: "ada" })
}

async fn authenticate(
    State(expected): State<Arc<str>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Unauthorized> {
    let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = header.and_then(|value| value.split_once(' '));
    let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let user = token.and_then(|(_, token)| user_of(token.trim(), &expected));
    let user = user.ok_or((StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")]))?;
    // Other users cannot use the sessions of this principal. The tools read the user from their context.
    request.extensions_mut().insert(Principal::new(user.name));
    request.extensions_mut().insert(user);
    Ok(next.run(request).await)
}

async fn hello(cx: Context) -> Result<String, ToolError> {
    let user = cx.extensions().get::<User>().ok_or_else(|| ToolError::new("nobody is logged in"))?;
    Ok(format!("Hello, {}.", user.name))
}

fn app(service: HttpService, token: Arc<str>) -> Router {
    Router::new()
        .route_service("/mcp", service)
        .layer(from_fn_with_state(token, authenticate))
        // Added after the layer, so this route needs no token.
        .route("/", get(|| async { "The MCP server is at /mcp." }))
}

fn service() -> Result<HttpService, mcp_server::Error> {
    McpServer::named("mounted", env!("CARGO_PKG_VERSION"))
        .tool(tool("hello", hello).description("Greets the user who calls."))
        .into_http_service(HttpOptions::default())
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let token = std::env::var("TOKEN").map_err(|_| "set TOKEN to a secret")?;
    let service = service()?;
    let app = app(service.clone(), token.into());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    // Disables Nagle's algorithm, which would delay short responses.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    axum::serve(listener, app)
        .with_graceful_shutdown(async move {
            let _ = tokio::signal::ctrl_c().await;
            // Subscription streams would otherwise delay the shutdown.
            service.close();
        })
        .await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    if let Err(error) = run().await {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests;
