//! The built-in HTTP listener.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service as HyperService;
use hyper_util::rt::TokioTimer;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tower_service::Service;

use super::http_sse::{MESSAGES_PATH, SSE_PATH};
use super::response::{HttpResponse, empty_response};
use super::write_timeout::WriteTimeout;
use super::{HttpOptions, HttpService};
use crate::error::Error;
use crate::server::McpServer;

/// The time for which exchanges in flight may continue at shutdown, and the time limit for dropping them afterwards.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);
const ABORT_TIMEOUT: Duration = Duration::from_secs(1);
/// The delay after a failed `accept`.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

impl McpServer {
    /// Serves Streamable HTTP at `/mcp` on this address, for all protocol versions, until the process exits.
    ///
    /// Accepts only loopback addresses, because there is no authorization: anyone who can connect can call every tool.
    ///
    /// # Errors
    /// Fails if the server is not configured correctly, the address is not a loopback address, or the address cannot be
    /// bound.
    #[doc(alias = "Streamable HTTP")]
    pub async fn serve_http(self, address: SocketAddr) -> Result<(), Error> {
        self.serve_at(address, HttpOptions::default()).await
    }

    /// Serves Streamable HTTP at `/mcp` and the HTTP+SSE transport (2024-11-05) at `/sse` and `/messages` on this
    /// address, until the process exits. The name of this method comes from RFC 2190 of this project (`docs/rfcs`).
    ///
    /// # Errors
    /// Fails like [`serve_http`](Self::serve_http).
    #[doc(alias = "HTTP+SSE")]
    pub async fn serve_sse(self, address: SocketAddr) -> Result<(), Error> {
        self.serve_at(address, HttpOptions::default().with_http_sse()).await
    }

    async fn serve_at(self, address: SocketAddr, options: HttpOptions) -> Result<(), Error> {
        check(address, &options)?;
        let listener = TcpListener::bind(address).await.map_err(|error| Error::Bind { address, error })?;
        self.serve_listener(listener, options, pending()).await
    }

    /// Serves Streamable HTTP at `/mcp` on a listener until `shutdown` completes. Subscription streams then end at
    /// once, and other exchanges in flight are dropped if they are not finished after 10 s.
    #[doc(alias = "graceful shutdown")]
    ///
    /// # Errors
    /// Fails if the server is not configured correctly, or if the listener is not bound to a loopback address and the
    /// options do not allow that.
    pub async fn serve_listener(
        self,
        listener: TcpListener,
        mut options: HttpOptions,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        let address = listener.local_addr()?;
        check(address, &options)?;
        options.access = options.access.at_port(address.port());
        let service = PathRouter(self.into_http_service(options)?);
        listen(&listener, &service, shutdown).await;
        Ok(())
    }
}

/// Returns an error for an address that other machines can reach, unless the options allow it.
fn check(address: SocketAddr, options: &HttpOptions) -> Result<(), Error> {
    if address.ip().is_loopback() || options.beyond_loopback || options.protected.is_some() {
        return Ok(());
    }
    let problem = format!(
        "{address} is not a loopback address, and the server has no authorization; \
         set HttpOptions::protect, or HttpOptions::beyond_loopback_without_authorization to listen anyway"
    );
    Err(Error::Setup { problems: vec![problem] })
}

async fn listen(listener: &TcpListener, service: &PathRouter, shutdown: impl Future<Output = ()>) {
    let options = &service.0.0.options;
    let graceful = GracefulShutdown::new();
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(options.header_time).keep_alive(true);
    let slots = Arc::new(Semaphore::new(options.connections));
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => {
                let stream = match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        // Usually the process has no file descriptors left: waits, so that others can be closed.
                        tracing::warn!(%error, "accepting a connection failed");
                        tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                        continue;
                    }
                };
                let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
                    send_unavailable(&stream);
                    continue;
                };
                // Disable Nagle's algorithm, so that small responses are sent at once.
                let _ = stream.set_nodelay(true);
                let stream = WriteTimeout::new(stream, options.write_time);
                let connection = graceful.watch(builder.serve_connection(stream, service.clone()));
                connections.spawn(async move {
                    // Ignored, because an error of one connection affects only its client.
                    let _ = connection.await;
                    drop(slot);
                });
            }
        }
    }
    service.0.close();
    let _ = tokio::time::timeout(SHUTDOWN_GRACE, graceful.shutdown()).await;
    // A handler that blocks its thread cannot be stopped, so the wait is limited.
    let _ = tokio::time::timeout(ABORT_TIMEOUT, connections.shutdown()).await;
}

/// Sends a 503 response without waiting for the client.
fn send_unavailable(stream: &TcpStream) {
    let _ = stream.try_write(b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

/// Routes `/mcp` to the service, and `/sse` and `/messages` to the HTTP+SSE transport (2024-11-05) if it is enabled.
/// Other paths get 404.
#[derive(Clone)]
struct PathRouter(HttpService);

impl HyperService<Request<Incoming>> for PathRouter {
    type Response = HttpResponse;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        match request.uri().path() {
            path if path == "/mcp" || self.0.0.is_metadata_path(path) => self.0.clone().call(request),
            SSE_PATH | MESSAGES_PATH if self.0.0.options.http_sse => {
                let state = Arc::clone(&self.0.0);
                Box::pin(async move {
                    let (parts, body) = request.into_parts();
                    Ok(state.http_sse(parts, body).await)
                })
            }
            _ => Box::pin(async { Ok(empty_response(StatusCode::NOT_FOUND)) }),
        }
    }
}
