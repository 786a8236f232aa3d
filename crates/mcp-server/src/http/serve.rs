//! Listening for HTTP without another program around it.

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

use super::impatient::Impatient;
use super::pair::{EVENTS, MESSAGES};
use super::{Answer, HttpOptions, HttpService, bare};
use crate::error::Error;
use crate::server::McpServer;

/// How often idle sessions are looked for when nobody comes.
const REAP: Duration = Duration::from_secs(10);
/// How long exchanges that run are given at the end, and how long it may take to drop them.
const DRAIN: Duration = Duration::from_secs(10);
const LAST: Duration = Duration::from_secs(1);

impl McpServer {
    /// Serves Streamable HTTP at `/mcp` on this address, in both eras, for ever.
    ///
    /// Only loopback addresses: whoever can reach the port can call every tool.
    ///
    /// # Errors
    /// When the server was put together wrong, the address is not loopback, or it cannot be listened on.
    pub async fn serve_http(self, address: SocketAddr) -> Result<(), Error> {
        self.serve_at(address, HttpOptions::default()).await
    }

    /// Serves Streamable HTTP at `/mcp` and, for clients of 2024-11-05, a stream of events at `/sse` with its
    /// messages at `/messages`, on this address, for ever: RFC 2190.
    ///
    /// # Errors
    /// As [`serve_http`](Self::serve_http).
    pub async fn serve_sse(self, address: SocketAddr) -> Result<(), Error> {
        self.serve_at(address, HttpOptions::default().with_sse_pair()).await
    }

    async fn serve_at(self, address: SocketAddr, options: HttpOptions) -> Result<(), Error> {
        check(address, &options)?;
        let listener = TcpListener::bind(address).await.map_err(|source| Error::Bind { address, source })?;
        self.serve_listener(listener, options, pending()).await
    }

    /// Serves Streamable HTTP at `/mcp` on a listener until `shutdown` is done. Then streams of changes are ended and
    /// running exchanges are given 10 s.
    ///
    /// # Errors
    /// As [`serve_http`](Self::serve_http).
    pub async fn serve_listener(
        self,
        listener: TcpListener,
        mut options: HttpOptions,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        let address = listener.local_addr()?;
        check(address, &options)?;
        options.access = options.access.at_port(address.port());
        let service = AtPath(self.into_http_service(options)?);
        listen(&listener, &service, shutdown).await;
        Ok(())
    }
}

/// Refuses an address that others can reach.
fn check(address: SocketAddr, options: &HttpOptions) -> Result<(), Error> {
    if address.ip().is_loopback() || options.beyond_loopback {
        return Ok(());
    }
    let problem = format!(
        "{address} is not a loopback address, and the server has no authorization; \
         set HttpOptions::beyond_loopback_without_authorization to listen anyway"
    );
    Err(Error::Setup { problems: vec![problem] })
}

async fn listen(listener: &TcpListener, service: &AtPath, shutdown: impl Future<Output = ()>) {
    let (shared, options) = (&service.0.0, &service.0.0.options);
    let graceful = GracefulShutdown::new();
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(options.header_time).keep_alive(true);
    let slots = Arc::new(Semaphore::new(options.connections));
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    let mut reaping = tokio::time::interval(REAP);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            _ = reaping.tick() => shared.sessions.reap(),
            accepted = listener.accept() => {
                let stream = match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        // Out of descriptors, most likely: those who are served may free some.
                        tracing::warn!(%error, "accepting a connection failed");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        continue;
                    }
                };
                let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
                    turn_away(&stream);
                    continue;
                };
                // An answer must not wait for a full packet.
                let _ = stream.set_nodelay(true);
                let connection = builder.serve_connection(Impatient::new(stream, options.write_time), service.clone());
                let connection = graceful.watch(connection);
                connections.spawn(async move {
                    // What ends a connection is its client's business.
                    let _ = connection.await;
                    drop(slot);
                });
            }
        }
    }
    service.0.close();
    let _ = tokio::time::timeout(DRAIN, graceful.shutdown()).await;
    // A function that blocks its thread cannot be stopped, and is not waited for.
    let _ = tokio::time::timeout(LAST, connections.shutdown()).await;
}

/// Tells a client to come back later, without waiting for it.
fn turn_away(stream: &TcpStream) {
    let _ = stream.try_write(b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

/// The service at `/mcp`, the old pair if it is wanted, and nothing elsewhere.
#[derive(Clone)]
struct AtPath(HttpService);

impl HyperService<Request<Incoming>> for AtPath {
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        match request.uri().path() {
            "/mcp" => self.0.clone().call(request),
            EVENTS | MESSAGES if self.0.0.options.sse_pair => {
                let shared = Arc::clone(&self.0.0);
                Box::pin(async move {
                    let (parts, body) = request.into_parts();
                    Ok(shared.pair(parts, body).await)
                })
            }
            _ => Box::pin(async { Ok(bare(StatusCode::NOT_FOUND)) }),
        }
    }
}
