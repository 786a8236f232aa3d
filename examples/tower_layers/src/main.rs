//! An MCP server in axum behind `tower` layers: tracing, a limit of concurrent requests, and a timeout:
//! `RUST_LOG=info cargo run -p example-tower-layers`

use std::process::ExitCode;
use std::time::{Duration, Instant};

use axum::error_handling::HandleErrorLayer;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::serve::ListenerExt;
use axum::{BoxError, Router};
use mcp_server::http::{HttpOptions, HttpService};
use mcp_server::{Context, McpServer, tool};
use tokio::net::TcpListener;
use tower::ServiceBuilder;
use tower::load_shed::error::Overloaded;
use tower::timeout::error::Elapsed;
use tracing::Instrument;

const ADDRESS: &str = "127.0.0.1:8000";

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Work {
    /// How many steps of 100 ms the work takes.
    steps: u32,
    /// Whether to report progress.
    progress: bool,
}

async fn work(Work { steps, progress }: Work, cx: Context) -> String {
    for step in 0..steps {
        if progress {
            cx.progress(step.into(), f64::from(steps));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    format!("{steps} steps done")
}

/// Logs each HTTP request, in a span that also contains the logs of the server during the request.
async fn trace(request: Request, next: Next) -> Response {
    let span = tracing::info_span!("http", method = %request.method(), path = request.uri().path());
    let traced = async {
        let start = Instant::now();
        let response = next.run(request).await;
        let status = response.status().as_u16();
        // The request may continue: an event stream is still sent after its headers.
        tracing::info!(status, ms = start.elapsed().as_millis(), "response headers");
        response
    };
    traced.instrument(span).await
}

/// Turns the error of a layer into a response.
async fn layer_error(error: BoxError) -> (StatusCode, String) {
    if error.is::<Elapsed>() {
        (StatusCode::GATEWAY_TIMEOUT, "the tool did not respond in time".to_owned())
    } else if error.is::<Overloaded>() {
        (StatusCode::TOO_MANY_REQUESTS, "retry later".to_owned())
    } else {
        (StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }
}

/// A request passes the layers from the top to the bottom.
fn app(service: HttpService, concurrent: usize, timeout: Duration) -> Router {
    let layers = ServiceBuilder::new()
        .layer(from_fn(trace))
        .layer(HandleErrorLayer::new(layer_error))
        .load_shed()
        .concurrency_limit(concurrent)
        .timeout(timeout);
    Router::new().route_service("/mcp", service).layer(layers)
}

fn service() -> Result<HttpService, mcp_server::Error> {
    McpServer::named("layered", env!("CARGO_PKG_VERSION"))
        .tool(tool("work", work).description("Works for a while."))
        // Set the size limit of bodies here: the limit of axum applies only to the extractors of axum.
        .into_http_service(HttpOptions::default().body(1 << 20))
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    mcp_server::log_to_stderr();
    let service = service()?;
    let bound = TcpListener::bind(ADDRESS).await;
    let listener = bound.map_err(|error| format!("cannot listen on {ADDRESS}: {error}"))?;
    println!("http://{}/mcp", listener.local_addr()?);
    // Disables Nagle's algorithm, which would delay short responses.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    axum::serve(listener, app(service.clone(), 100, Duration::from_secs(30)))
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
