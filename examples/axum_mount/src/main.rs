//! An MCP server mounted in an axum program next to other routes: `cargo run -p example-axum-mount`

use std::process::ExitCode;

use axum::Router;
use axum::routing::get;
use mcp_server::http::HttpOptions;
use mcp_server::{McpServer, tool};
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    if let Err(error) = serve().await {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

async fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let server = McpServer::named("mounted", env!("CARGO_PKG_VERSION"))
        .tool(tool("hello", || async { "Hello from axum." }).description("Says hello."));
    let service = server.into_http_service(HttpOptions::default())?;
    let app = Router::new()
        .route("/", get(|| async { "The MCP server is at /mcp." }))
        .route_service("/mcp", service.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    axum::serve(
        axum::serve::ListenerExt::tap_io(listener, |stream| {
            // Disable Nagle's algorithm, which would delay short responses.
            let _ = stream.set_nodelay(true);
        }),
        app,
    )
    .with_graceful_shutdown(async move {
        let _ = tokio::signal::ctrl_c().await;
        // Subscription streams would otherwise delay the shutdown.
        service.close();
    })
    .await?;
    Ok(())
}
