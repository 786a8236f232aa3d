//! HTTP requests. Only this file uses the client API of the HTTP library.

use std::error::Error as StdError;
use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, LOCATION, PROXY_AUTHORIZATION};
use http::uri::Scheme;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{CaptureConnection, HttpInfo, capture_connection};
use hyper_util::rt::TokioTimer;
use tokio::task::JoinSet;
use url::Url;

#[cfg(feature = "oauth")]
use super::authorizer::Authorizer;
use super::connector::{Connector, ProxyRules};
use super::http_error::HttpError;
use super::network::{HttpBody, HttpClient, Network};
use super::policy::NetworkPolicy;
use super::tcp::CountedPolls;
use super::trace::PendingExchange;
use crate::wire_trace::ConnectionTrace;

/// The time that an idle connection stays in the pool. It is shorter than the idle timeouts of common servers.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// The maximum number of remaining bytes of a body that are read so that its connection can be reused.
const MAX_DRAINED_BYTES: usize = 16 << 10;
/// The maximum time for reading the rest of a body.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// If a request is dropped after waiting this long for a response, its connection may be dead.
const SUSPECT_AFTER: Duration = Duration::from_secs(1);
/// The maximum number of redirects that are followed.
const MAX_REDIRECTS: usize = 3;
/// The time between HTTP/2 keep-alive pings.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// The time within which a ping must be answered.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// The HTTP connections of one client to one server. Dropping this value closes them.
pub(crate) struct HttpConnections {
    client: Backend,
    policy: NetworkPolicy,
    connections: ConnectionTasks,
    trace: Option<ConnectionTrace>,
    #[cfg(feature = "oauth")]
    authorizer: Option<Arc<dyn Authorizer>>,
}

/// The HTTP client that sends the requests.
enum Backend {
    /// The built-in client, and the `Proxy-Authorization` header that a proxy for plain HTTP needs.
    BuiltIn(Box<Client<HttpsConnector<Connector>, Full<Bytes>>>, Option<HeaderValue>),
    Custom(Arc<dyn HttpClient>),
}

/// An HTTP request with its complete body. It contains secrets, so it does not implement `Debug`.
#[derive(Clone)]
pub(crate) struct RawRequest {
    pub(crate) method: Method,
    pub(crate) url: Arc<Url>,
    pub(crate) uri: http::Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// An HTTP response.
pub(crate) struct RawResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: ResponseBody,
    /// The address of the server, if it is known.
    pub(crate) address: Option<SocketAddr>,
}

/// A streaming response body. Dropping it ends the exchange.
pub(crate) enum ResponseBody {
    BuiltIn(Incoming),
    Custom(HttpBody),
}

impl HttpConnections {
    /// Creates the connections to one server. The certificates of the platform are loaded only for HTTPS.
    pub(crate) fn new(network: &Network, url: &Url) -> Result<Self, String> {
        let connections = ConnectionTasks::default();
        let client = match &network.client {
            Some(client) => Backend::Custom(Arc::clone(client)),
            None => {
                let tls = if url.scheme() == "https" { network.tls_config()? } else { empty_tls_config()? };
                let route = ProxyRules::of(network)?;
                let uri = url.as_str().parse().map_err(|_| "not a valid URL".to_owned())?;
                let authorization = route.authorization(&uri);
                let connector = Connector::new(network, route);
                let client = Client::builder(connections.clone())
                    .pool_idle_timeout(POOL_IDLE_TIMEOUT)
                    .pool_timer(TokioTimer::new())
                    .timer(TokioTimer::new())
                    .http2_keep_alive_interval(PING_INTERVAL)
                    .http2_keep_alive_timeout(PING_TIMEOUT)
                    .build(HttpsConnector::from((connector, tls)));
                Backend::BuiltIn(Box::new(client), authorization)
            }
        };
        Ok(Self {
            client,
            policy: network.policy.clone(),
            connections,
            trace: network.trace.clone(),
            #[cfg(feature = "oauth")]
            authorizer: network.authorizer.clone(),
        })
    }

    /// Sends the request that `make` returns, and follows redirects to the same web origin that keep method and body.
    /// `make` is called again for each redirect, so that a request without redirects is not copied.
    ///
    /// If these connections have an authorizer, it adds the header `Authorization`, and the request is sent once more if
    /// the server refuses it with status 401 and there is another token.
    ///
    /// # Cancellation
    /// Dropping the future ends the exchange.
    pub(crate) async fn send(&self, make: impl Fn() -> RawRequest) -> Result<RawResponse, HttpError> {
        #[cfg(feature = "oauth")]
        if let Some(authorizer) = &self.authorizer {
            return self.send_authorized(&**authorizer, make).await;
        }
        self.send_with_redirects(make).await
    }

    pub(super) async fn send_with_redirects(
        &self,
        make: impl Fn() -> RawRequest,
    ) -> Result<RawResponse, HttpError> {
        let ask = make();
        let mut url = Arc::clone(&ask.url);
        let mut answer = self.send_once(ask).await?;
        for _ in 0..MAX_REDIRECTS {
            let Some(next) = redirect(&url, &answer) else { return Ok(answer) };
            let Ok(uri) = next.as_str().parse() else { return Ok(answer) };
            url = Arc::new(next);
            let ask = RawRequest { url: Arc::clone(&url), uri, ..make() };
            answer = Box::pin(self.send_once(ask)).await?;
        }
        Ok(answer)
    }

    async fn send_once(&self, ask: RawRequest) -> Result<RawResponse, HttpError> {
        let Some(trace) = &self.trace else { return self.send_untraced(ask).await };
        let pending = PendingExchange::begin(trace, &ask);
        pending.end(Box::pin(self.send_untraced(ask)).await)
    }

    async fn send_untraced(&self, ask: RawRequest) -> Result<RawResponse, HttpError> {
        self.policy.check_url(&ask.url)?;
        let RawRequest { method, uri, headers, body, .. } = ask;
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        match &self.client {
            Backend::BuiltIn(client, authorization) => {
                if let Some(authorization) = authorization {
                    request.headers_mut().insert(PROXY_AUTHORIZATION, authorization.clone());
                }
                let mut request = request.map(Full::new);
                let mut suspect = SuspectConnection::of(&mut request);
                let response = client.request(request).await?;
                suspect.clear();
                let address = response.extensions().get::<HttpInfo>().map(HttpInfo::remote_addr);
                Ok(RawResponse::new(response, address, ResponseBody::BuiltIn))
            }
            Backend::Custom(client) => {
                let response = client.send(request).await?;
                Ok(RawResponse::new(response, None, ResponseBody::Custom))
            }
        }
    }

    /// Reads the rest of a body in the background, so that its connection can be reused. Gives up if the rest is too
    /// long.
    pub(crate) fn drain(&self, mut body: ResponseBody) {
        let draining = async move {
            let mut left = MAX_DRAINED_BYTES;
            while let Some(Ok(chunk)) = body.chunk().await {
                let Some(rest) = left.checked_sub(chunk.len()) else { return };
                left = rest;
            }
        };
        let mut connections = self.connections.lock();
        while connections.try_join_next().is_some() {}
        connections.spawn(async { drop(tokio::time::timeout(DRAIN_TIMEOUT, draining).await) });
    }

    /// Closes all connections, and waits until they are closed.
    pub(crate) async fn close(&self) {
        let mut connections = std::mem::take(&mut *self.connections.lock());
        connections.shutdown().await;
    }
}

impl Drop for HttpConnections {
    fn drop(&mut self) {
        self.connections.lock().abort_all();
    }
}

impl fmt::Debug for HttpConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpConnections").finish_non_exhaustive()
    }
}

/// The connection of a request that waits for its response. If it is dropped after a while without a response, the
/// connection is not used for new requests: it may be dead, for example after the machine slept. This matters only for
/// HTTP/2 connections, which several requests share; others end with their request.
struct SuspectConnection {
    connection: Option<CaptureConnection>,
    since: tokio::time::Instant,
}

impl SuspectConnection {
    fn of<B>(request: &mut Request<B>) -> Self {
        let may_be_shared = request.uri().scheme() == Some(&Scheme::HTTPS);
        let connection = may_be_shared.then(|| capture_connection(request));
        Self { connection, since: tokio::time::Instant::now() }
    }

    fn clear(&mut self) {
        self.connection = None;
    }
}

impl Drop for SuspectConnection {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection
            && self.since.elapsed() >= SUSPECT_AFTER
            && let Some(connection) = connection.connection_metadata().as_ref()
        {
            connection.poison();
        }
    }
}

/// Returns the TLS configuration for `http` URLs. It trusts no certificates.
fn empty_tls_config() -> Result<Arc<rustls::ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()))
}

/// Returns the target of a redirect, or `None` if the response is not a redirect that may be followed.
fn redirect(from: &Url, answer: &RawResponse) -> Option<Url> {
    if !matches!(answer.status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) {
        return None;
    }
    let to = from.join(answer.headers.get(LOCATION)?.to_str().ok()?).ok()?;
    (to.origin() == from.origin() && to.username().is_empty() && to.password().is_none()).then_some(to)
}

impl RawResponse {
    fn new<B>(
        response: Response<B>,
        address: Option<SocketAddr>,
        body: impl FnOnce(B) -> ResponseBody,
    ) -> Self {
        let (parts, content) = response.into_parts();
        Self { status: parts.status, headers: parts.headers, body: body(content), address }
    }

    /// Returns the content encoding, or `None` for `identity`. This client neither requests nor decodes an encoding.
    pub(crate) fn encoding(&self) -> Option<&HeaderValue> {
        self.headers.get(CONTENT_ENCODING).filter(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"))
    }

    /// Returns the media type without its parameters, in lower case.
    pub(crate) fn media_type(&self) -> Option<String> {
        let value = self.headers.get(http::header::CONTENT_TYPE)?.to_str().ok()?;
        Some(value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
    }
}

impl ResponseBody {
    /// Returns the next chunk, or `None` at the end of the body.
    ///
    /// # Cancellation
    /// Cancel safe.
    pub(crate) async fn chunk(&mut self) -> Option<Result<Bytes, HttpError>> {
        std::future::poll_fn(|cx| self.poll_chunk(cx)).await
    }

    pub(super) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, HttpError>>> {
        loop {
            let frame = match self {
                Self::BuiltIn(body) => ready!(Pin::new(body).poll_frame(cx)).map(|frame| {
                    frame.map_err(|error| {
                        let cause = std::iter::successors(error.source(), |error| (*error).source()).last();
                        cause.map_or_else(|| error.to_string(), ToString::to_string)
                    })
                }),
                Self::Custom(body) => {
                    ready!(body.as_mut().poll_frame(cx)).map(|frame| frame.map_err(|error| error.to_string()))
                }
            };
            match frame {
                None => return Poll::Ready(None),
                Some(Err(problem)) => return Poll::Ready(Some(Err(HttpError::maybe_sent(problem)))),
                // Trailers are ignored.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
            }
        }
    }

    /// Creates an empty body.
    pub(crate) fn empty() -> Self {
        Self::Custom(Box::pin(Full::new(Bytes::new()).map_err(|never| match never {})))
    }

    /// Returns the length of the body, if it is known.
    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            Self::BuiltIn(body) => body.size_hint().exact(),
            Self::Custom(body) => body.size_hint().exact(),
        }
    }
}

/// The tasks of the connections, which are aborted when their owner is dropped.
#[derive(Clone, Default)]
struct ConnectionTasks(Arc<Mutex<JoinSet<()>>>);

impl ConnectionTasks {
    fn lock(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for ConnectionTasks {
    fn execute(&self, future: F) {
        let mut connections = self.lock();
        while connections.try_join_next().is_some() {}
        connections.spawn(CountedPolls(Box::pin(future)));
    }
}
