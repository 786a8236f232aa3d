//! An MCP server that verifies who calls: every request needs a token that this issuer issued for this server.
//!
//! ```sh
//! cargo run -p example-protected-server -- https://auth.example.com 127.0.0.1:8080
//! ```

use std::error::Error;
use std::process::ExitCode;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use mcp_server::auth::{JwtVerifier, ProtectedResource};
use mcp_server::http::HttpOptions;
use mcp_server::{Context, McpServer, NoArgs, tool};
use tokio::net::TcpListener;

async fn whoami(_: NoArgs, cx: Context) -> String {
    format!("{} calls through {}", cx.principal(), cx.principal().client_id().unwrap_or("an unknown program"))
}

async fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let [issuer, address] = arguments else { return Err("usage: protected-server ISSUER ADDRESS".into()) };
    let listener = TcpListener::bind(address).await?;
    // The URL that clients use. Behind a proxy, it is the one of the proxy.
    let url = format!("http://{}/mcp", listener.local_addr()?);
    let notes = ProtectedResource::new(&url, JwtVerifier::new(issuer, get))
        .name("Notes")
        .scopes(["notes:read"])
        .scope_includes("notes:write", ["notes:read"]);
    let server = McpServer::named("notes", "1.0.0")
        .tool(tool("whoami", whoami).description("Tells who calls.").read_only())
        .tool(
            tool("delete", || async { "deleted" })
                .description("Deletes all notes.")
                .destructive()
                .requires_scopes(["notes:write"]),
        );
    println!("{url}");
    server.serve_listener(listener, HttpOptions::default().protect(notes), std::future::pending()).await?;
    Ok(())
}

/// Returns the body of a URL: the metadata and the keys of the issuer.
async fn get(url: String) -> Result<Bytes, Box<dyn Error + Send + Sync>> {
    let provider = rustls::crypto::ring::default_provider();
    let connector = HttpsConnectorBuilder::new().with_provider_and_platform_verifier(provider)?;
    let connector = connector.https_or_http().enable_http1().build();
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
    let response = client.get(url.parse()?).await?;
    if !response.status().is_success() {
        return Err(format!("HTTP status {}", response.status()).into());
    }
    Ok(response.into_body().collect().await?.to_bytes())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
