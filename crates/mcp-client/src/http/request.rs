//! One request over HTTP, and whether it was sent: everything this crate knows of the library behind it.

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
use hyper_util::client::legacy::connect::{CaptureConnection, HttpInfo, capture_connection};
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::TokioTimer;
use tokio::task::JoinSet;
use url::Url;

use super::connector::{Connector, Route};
use super::network::{HttpBody, HttpClient, Network};
use super::policy::{Denied, NetworkPolicy};
use crate::error::{ConnectionEnd, EndCause, Error, Sent};

/// How long a connection that nobody uses is kept: less than servers do, so that one they have closed is rare.
const IDLE: Duration = Duration::from_secs(4);
/// How much is read, and for how long, of a body whose end does not matter.
const DRAINED: usize = 16 << 10;
const DRAIN: Duration = Duration::from_secs(1);
/// A request that was given up sooner says nothing about its connection.
const DOUBT: Duration = Duration::from_secs(1);
/// Redirects that are followed.
const REDIRECTS: usize = 3;
/// How long an HTTP/2 connection may be silent before the other side is asked, and how long it may take to answer.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(10));

/// The connections of one client to one server. When it is dropped they are closed.
pub(crate) struct Wire {
    client: Using,
    policy: NetworkPolicy,
    connections: Connections,
}

enum Using {
    /// With what a proxy for plain HTTP wants to see in every request.
    Ours(Box<Client<HttpsConnector<Connector>, Full<Bytes>>>, Option<HeaderValue>),
    Theirs(Arc<dyn HttpClient>),
}

/// A request: always whole, so that it can be sent again after a redirect. It has secrets, and is never shown.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) url: Arc<Url>,
    pub(crate) uri: http::Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// What answered.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
    /// Who answered, if that is known.
    pub(crate) address: Option<SocketAddr>,
}

/// A body that comes piece by piece. Dropped, the exchange ends.
pub(crate) enum Body {
    Ours(Incoming),
    Theirs(HttpBody),
}

/// Why there is no answer to a request.
#[derive(Debug)]
pub struct HttpError {
    sent: Sent,
    problem: String,
    pub(crate) denied: Option<Denied>,
}

impl HttpError {
    /// Nothing of the request was sent.
    #[must_use]
    pub fn unsent(problem: impl Into<String>) -> Self {
        Self { sent: Sent::No, problem: problem.into(), denied: None }
    }

    /// Something of the request may have been sent.
    #[must_use]
    pub fn maybe_sent(problem: impl Into<String>) -> Self {
        Self { sent: Sent::Maybe, problem: problem.into(), denied: None }
    }

    /// Whether anything was sent.
    #[must_use]
    pub fn sent(&self) -> Sent {
        self.sent
    }

    /// What it means for a request.
    pub(crate) fn into_lost(self, method: mcp_protocol::messages::Method) -> Error {
        if let Some(Denied { host, reason }) = self.denied {
            return Error::Denied { host, reason };
        }
        let ended = ConnectionEnd { cause: EndCause::Network(self.problem), ..ConnectionEnd::default() };
        Error::Lost { method, sent: self.sent, ended: Arc::new(ended) }
    }
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        mcp_protocol::visible::Visible::message(&self.problem).fmt(f)
    }
}

impl StdError for HttpError {}

impl From<Denied> for HttpError {
    fn from(denied: Denied) -> Self {
        Self { sent: Sent::No, problem: denied.to_string(), denied: Some(denied) }
    }
}

impl From<ClientError> for HttpError {
    /// Not sent is what never had a connection, and what the library gives back because its connection was gone.
    fn from(error: ClientError) -> Self {
        let causes = || std::iter::successors(error.source(), |error| (*error).source());
        let is_given_back =
            causes().any(|cause| cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled));
        let sent = if error.is_connect() || is_given_back { Sent::No } else { Sent::Maybe };
        let denied = causes().find_map(|cause| cause.downcast_ref::<Denied>()).cloned();
        // The last cause is the one that says something.
        let problem = causes().last().map_or_else(|| error.to_string(), ToString::to_string);
        Self { sent, problem, denied }
    }
}

impl Wire {
    /// For one server. Trust is not looked for if it has no use.
    pub(crate) fn new(network: &Network, url: &Url) -> Result<Self, String> {
        let connections = Connections::default();
        let client = match &network.client {
            Some(client) => Using::Theirs(Arc::clone(client)),
            None => {
                let tls = if url.scheme() == "https" { network.tls_config()? } else { no_trust()? };
                let route = Route::of(network)?;
                let uri = url.as_str().parse().map_err(|_| "not a valid URL".to_owned())?;
                let authorization = route.authorization(&uri);
                let connector = Connector::new(network, route);
                let client = Client::builder(connections.clone())
                    .pool_idle_timeout(IDLE)
                    .pool_timer(TokioTimer::new())
                    .timer(TokioTimer::new())
                    .http2_keep_alive_interval(PING.0)
                    .http2_keep_alive_timeout(PING.1)
                    .build(HttpsConnector::from((connector, tls)));
                Using::Ours(Box::new(client), authorization)
            }
        };
        Ok(Self { client, policy: network.policy.clone(), connections })
    }

    /// Makes a request, and follows redirects to the same web origin that keep method and body. For each of them it is
    /// made anew: most are sent once, and need no copy.
    ///
    /// # Cancellation
    /// Dropped, the exchange ends.
    pub(crate) async fn send(&self, make: impl Fn() -> Ask) -> Result<Answer, HttpError> {
        let ask = make();
        let mut url = Arc::clone(&ask.url);
        let mut answer = self.send_once(ask).await?;
        for _ in 0..REDIRECTS {
            let Some(next) = redirect(&url, &answer) else { return Ok(answer) };
            let Ok(uri) = next.as_str().parse() else { return Ok(answer) };
            url = Arc::new(next);
            let ask = Ask { url: Arc::clone(&url), uri, ..make() };
            answer = Box::pin(self.send_once(ask)).await?;
        }
        Ok(answer)
    }

    async fn send_once(&self, ask: Ask) -> Result<Answer, HttpError> {
        self.policy.check_url(&ask.url)?;
        let Ask { method, uri, headers, body, .. } = ask;
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        match &self.client {
            Using::Ours(client, authorization) => {
                if let Some(authorization) = authorization {
                    request.headers_mut().insert(PROXY_AUTHORIZATION, authorization.clone());
                }
                let mut request = request.map(Full::new);
                let mut doubt = SuspectConnection::about(&mut request);
                let response = client.request(request).await?;
                doubt.clear();
                let address = response.extensions().get::<HttpInfo>().map(HttpInfo::remote_addr);
                Ok(Answer::new(response, address, Body::Ours))
            }
            Using::Theirs(client) => {
                let response = client.send(request).await?;
                Ok(Answer::new(response, None, Body::Theirs))
            }
        }
    }

    /// Reads what is left of a body that has said what it had to say, for a moment, so that its connection can be used again.
    pub(crate) fn drain(&self, mut body: Body) {
        let draining = async move {
            let mut left = DRAINED;
            while let Some(Ok(piece)) = body.piece().await {
                let Some(rest) = left.checked_sub(piece.len()) else { return };
                left = rest;
            }
        };
        let mut connections = self.connections.lock();
        while connections.try_join_next().is_some() {}
        connections.spawn(async { drop(tokio::time::timeout(DRAIN, draining).await) });
    }

    /// Closes all connections, and returns when they are.
    pub(crate) async fn close(&self) {
        let mut connections = std::mem::take(&mut *self.connections.lock());
        connections.shutdown().await;
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.connections.lock().abort_all();
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

/// SuspectConnection about a connection that has not answered. Dropped after a while, the connection is not used for anything new: it
/// may be dead, as all are after a sleep. HTTP/2 only, where connections are shared; others end with their request anyway.
struct SuspectConnection {
    connection: Option<CaptureConnection>,
    since: tokio::time::Instant,
}

impl SuspectConnection {
    fn about<B>(request: &mut Request<B>) -> Self {
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
            && self.since.elapsed() >= DOUBT
            && let Some(connection) = connection.connection_metadata().as_ref()
        {
            connection.poison();
        }
    }
}

/// For URLs without TLS.
fn no_trust() -> Result<Arc<rustls::ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()))
}

/// Where to go on, if that may be.
fn redirect(from: &Url, answer: &Answer) -> Option<Url> {
    if !matches!(answer.status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) {
        return None;
    }
    let to = from.join(answer.headers.get(LOCATION)?.to_str().ok()?).ok()?;
    (to.origin() == from.origin() && to.username().is_empty() && to.password().is_none()).then_some(to)
}

impl Answer {
    fn new<B>(response: Response<B>, address: Option<SocketAddr>, body: impl FnOnce(B) -> Body) -> Self {
        let (parts, content) = response.into_parts();
        Self { status: parts.status, headers: parts.headers, body: body(content), address }
    }

    /// How the body is encoded, if it is: nobody asked for that, and nothing is inflated.
    pub(crate) fn encoding(&self) -> Option<&HeaderValue> {
        self.headers.get(CONTENT_ENCODING).filter(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"))
    }

    /// The media type, without its parameters, in lower case.
    pub(crate) fn media_type(&self) -> Option<String> {
        let value = self.headers.get(http::header::CONTENT_TYPE)?.to_str().ok()?;
        Some(value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
    }
}

impl Body {
    /// The next piece; `None` at the end.
    ///
    /// # Cancellation
    /// Safe.
    pub(crate) async fn piece(&mut self) -> Option<Result<Bytes, HttpError>> {
        std::future::poll_fn(|cx| self.poll_piece(cx)).await
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, HttpError>>> {
        loop {
            let frame = match self {
                Self::Ours(body) => ready!(Pin::new(body).poll_frame(cx)).map(|frame| {
                    frame.map_err(|error| {
                        let cause = std::iter::successors(error.source(), |error| (*error).source()).last();
                        cause.map_or_else(|| error.to_string(), ToString::to_string)
                    })
                }),
                Self::Theirs(body) => {
                    ready!(body.as_mut().poll_frame(cx)).map(|frame| frame.map_err(|error| error.to_string()))
                }
            };
            match frame {
                None => return Poll::Ready(None),
                Some(Err(problem)) => return Poll::Ready(Some(Err(HttpError::maybe_sent(problem)))),
                // What is no data are trailers, which mean nothing here.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
            }
        }
    }

    /// Nothing.
    pub(crate) fn empty() -> Self {
        Self::Theirs(Box::pin(Full::new(Bytes::new()).map_err(|never| match never {})))
    }

    /// How long the body is, if that is said.
    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            Self::Ours(body) => body.size_hint().exact(),
            Self::Theirs(body) => body.size_hint().exact(),
        }
    }
}

/// The futures of connections, so that they end with whoever uses them.
#[derive(Clone, Default)]
struct Connections(Arc<Mutex<JoinSet<()>>>);

impl Connections {
    fn lock(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Connections {
    fn execute(&self, future: F) {
        let mut connections = self.lock();
        while connections.try_join_next().is_some() {}
        connections.spawn(future);
    }
}
