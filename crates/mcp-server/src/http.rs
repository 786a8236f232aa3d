//! Streamable HTTP as a `tower` service: modern requests and legacy sessions on one endpoint.
//!
//! An *exchange* is one HTTP request and its response. A modern call runs in the future of its exchange: when the
//! client disconnects, hyper drops this future and thereby cancels the call. A legacy call in flight belongs to its
//! session and continues, because in the legacy era a disconnect is not a cancellation.

mod buffer_pool;
mod first_event;
mod guard;
mod headers;
#[cfg(feature = "serve")]
mod http_sse;
mod legacy;
mod modern;
mod options;
mod protection;
mod request_body;
mod response;
mod response_body;
#[cfg(feature = "serve")]
mod serve;
mod session;
mod trace;
#[cfg(feature = "serve")]
mod write_timeout;

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use http::header::{ALLOW, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method as HttpVerb, Request as FullRequest, StatusCode};
use http_body::Body;
use mcp_protocol::Limits;
use mcp_protocol::codec::header as mirrored;
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::messages::{Incoming, Message, parse_bytes};
use mcp_protocol::negotiation::{
    Envelope, HttpClassification, HttpMethod, HttpRequest, HttpServerNegotiation,
};
use tokio::sync::watch;
use tower_service::Service;

pub use guard::Access;
pub use options::HttpOptions;
pub use response_body::HttpBody;

use crate::auth::ScopeRules;
use crate::budget::{Budget, Share};
use crate::call::identity::{Identity, Principal};
use crate::dispatch::core::Core;
use crate::error::Error;
use crate::server::McpServer;
use buffer_pool::BufferPool;
use first_event::FirstPoll;
use headers::{McpHeaders, RequestHeaders};
use legacy::no_session;
use protection::Protection;
use request_body::{SMALL_BODY_BYTES, TOO_MANY_BODIES, retained_bytes};
use response::{
    HttpResponse, already_initialized, empty_response, error_response, overload_response, refusal_response,
};
use session::{SessionUse, Sessions};

/// The number of unread bytes on one stream above which optional messages are dropped.
const MAX_UNREAD_BYTES: usize = 1 << 20;

/// A server as a `tower` service: mount it in axum with `route_service`, or in any hyper program.
///
/// The service ignores the path of the request, with one exception: a [protected](HttpOptions::protect) service answers
/// GET requests for its metadata, so mount it at `/.well-known/oauth-protected-resource` and all paths below, too.
/// Cloning is cheap; all clones share their sessions and limits.
#[doc(alias = "Streamable HTTP")]
#[doc(alias = "axum")]
#[derive(Clone)]
pub struct HttpService(Arc<ServiceState>);

/// The state that all clones of a service share.
struct ServiceState {
    core: Arc<Core>,
    protection: Option<Protection>,
    scope_rules: Arc<ScopeRules>,
    negotiation: HttpServerNegotiation,
    options: HttpOptions,
    limits: Limits,
    sessions: Arc<Sessions>,
    /// Open subscription streams and HTTP+SSE sessions.
    streams: Arc<Budget>,
    /// The memory budget of all sessions and streams together, in bytes.
    memory: Arc<Budget>,
    /// The budget of request bodies in bytes, and the part of this budget that large bodies may use.
    bodies: Arc<Budget>,
    large_bodies: Arc<Budget>,
    buffers: Arc<BufferPool>,
    /// True after [`HttpService::close`], which ends subscription streams.
    closing: watch::Sender<bool>,
    #[cfg(feature = "serve")]
    http_sse: http_sse::HttpSseSessions,
    /// The last modern envelope, cached because most clients send the same one with every request.
    envelope: Mutex<Option<Envelope>>,
}

impl HttpService {
    /// Ends all subscription streams with their result, and the stand-alone streams (GET) of legacy sessions. Streams
    /// that are opened later end at once. Other exchanges continue.
    ///
    /// Call this method in the graceful shutdown of the program that mounts the service; otherwise the shutdown waits
    /// for these streams. Legacy sessions end when the last clone of the service is dropped.
    #[doc(alias = "graceful shutdown")]
    pub fn close(&self) {
        self.0.closing.send_replace(true);
    }
}

impl fmt::Debug for HttpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpService").field("options", &self.0.options).finish_non_exhaustive()
    }
}

impl McpServer {
    /// Converts the server into a `tower` service to mount in another program.
    ///
    /// # Errors
    /// Fails if the server is not configured correctly.
    #[doc(alias = "Streamable HTTP")]
    pub fn into_http_service(self, options: HttpOptions) -> Result<HttpService, Error> {
        let protection = options.protected.as_ref().map(Protection::new).transpose();
        let protection = protection.map_err(|problems| Error::Setup { problems })?;
        let core = self.into_core(options.calls)?;
        let versions = core.registry.snapshot().settings.versions.clone();
        let limits = core.limits.clone().message(options.body);
        let (memory, bodies) = (Budget::new(options.memory), Budget::new(options.bodies));
        Ok(HttpService(Arc::new(ServiceState {
            negotiation: HttpServerNegotiation::new(&versions),
            limits,
            sessions: Arc::new(Sessions::new(&options, &memory)),
            core,
            scope_rules: protection
                .as_ref()
                .map_or_else(Arc::default, |protection| Arc::clone(&protection.rules)),
            protection,
            streams: Budget::new(options.streams),
            memory,
            large_bodies: Budget::within(&bodies, options.bodies - options.bodies / 4),
            bodies,
            buffers: Arc::new(BufferPool::new(options.body)),
            options,
            closing: watch::Sender::new(false),
            #[cfg(feature = "serve")]
            http_sse: http_sse::HttpSseSessions::default(),
            envelope: Mutex::default(),
        })))
    }
}

impl<B> Service<FullRequest<B>> for HttpService
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = HttpResponse;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: FullRequest<B>) -> Self::Future {
        let (parts, body) = request.into_parts();
        match &self.0.core.wire_trace {
            None => Box::pin(Arc::clone(&self.0).handle(parts, body)),
            Some(trace) => Box::pin(trace::traced(Arc::clone(&self.0), parts, body, trace.clone())),
        }
    }
}

impl ServiceState {
    /// Handles one exchange. This future is allocated for each request and should stay small.
    async fn handle<B>(self: Arc<Self>, mut parts: Parts, body: B) -> Result<HttpResponse, Infallible>
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if parts.method == HttpVerb::GET
            && let Some(protection) = &self.protection
            && protection.is_metadata_path(parts.uri.path())
        {
            return Ok(protection.metadata());
        }
        let mut identity = Identity::take(&mut parts.extensions, &self.scope_rules);
        if let Some(protection) = &self.protection {
            // Checked again below: keeping the result would make this future larger.
            if let Err(status) = self.check_access(&parts, &RequestHeaders::of(&parts.headers)) {
                return Ok(empty_response(status));
            }
            identity.principal = match protection.admit(&parts.headers).await {
                Ok(principal) => principal,
                Err(response) => return Ok(*response),
            };
        }
        let headers = match self.check_or_answer(&parts, &identity.principal) {
            Ok(headers) => headers,
            Err(response) => return Ok(response),
        };
        let is_short = self.core.calls.is_short() || self.bodies.is_short() || self.large_bodies.is_short();
        if is_short && self.sessions.end_abandoned() {
            // Boxed: rare path; keeps the common future small.
            Box::pin(tokio::task::yield_now()).await;
        }
        let (bytes, memory) = match self.read_body(body).await {
            Ok(read) => read,
            Err(response) => return Ok(*response),
        };
        match self.post(&parts.headers, &headers, &bytes, identity, memory) {
            FirstPoll::Done(response) => Ok(response),
            FirstPoll::Pending(rest) => {
                drop(bytes);
                Ok(rest.await)
            }
        }
    }

    /// Returns true for the paths of the metadata of a protected service.
    #[cfg(feature = "serve")]
    fn is_metadata_path(&self, path: &str) -> bool {
        self.protection.as_ref().is_some_and(|protection| protection.is_metadata_path(path))
    }

    /// Checks `Host` and `Origin`. The `Err` variant is the status of the response.
    fn check_access(&self, parts: &Parts, headers: &RequestHeaders<'_>) -> Result<(), StatusCode> {
        self.options.access.check(&parts.uri, &parts.headers, headers)
    }

    /// Checks the headers before the body is read. The `Err` variant is the HTTP response.
    #[expect(clippy::result_large_err, reason = "the `Err` variant is the HTTP response")]
    fn check_or_answer<'a>(
        self: &Arc<Self>,
        parts: &'a Parts,
        principal: &Principal,
    ) -> Result<McpHeaders<'a>, HttpResponse> {
        let headers = RequestHeaders::of(&parts.headers);
        if let Err(status) = self.check_access(parts, &headers) {
            return Err(empty_response(status));
        }
        // A repeated header is refused, because a proxy in front may have checked the other value.
        for (name, values) in
            [(mirrored::SESSION_ID, &headers.mcp.session), (mirrored::LAST_EVENT_ID, &headers.last_event)]
        {
            if values.is_repeated() {
                let error = ErrorObject::new(ErrorCode::InvalidRequest, format!("duplicate header `{name}`"));
                return Err(error_response(StatusCode::BAD_REQUEST, &error, None));
            }
        }
        Err(match parts.method {
            HttpVerb::POST if !headers.is_json() => empty_response(StatusCode::UNSUPPORTED_MEDIA_TYPE),
            HttpVerb::POST if !headers.accepts_response(&parts.headers) => {
                empty_response(StatusCode::NOT_ACCEPTABLE)
            }
            HttpVerb::POST => return Ok(headers.mcp),
            HttpVerb::GET => self.get(&parts.headers, &headers, principal),
            HttpVerb::DELETE => self.delete(&headers.mcp, principal),
            _ => {
                let mut response = empty_response(StatusCode::METHOD_NOT_ALLOWED);
                response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
                response
            }
        })
    }

    /// Handles a POST body. Not async, because most requests are answered at once and do not need a boxed future.
    fn post(
        self: &Arc<Self>,
        all: &HeaderMap,
        headers: &McpHeaders<'_>,
        body: &Bytes,
        identity: Identity,
        mut memory: Share,
    ) -> FirstPoll {
        let incoming = match parse_bytes(body, &self.limits) {
            Ok(incoming) => incoming,
            Err(error) => {
                let refusal = self.negotiation.classify_unreadable(&error);
                return FirstPoll::Done(refusal_response(refusal, error.id.as_ref()));
            }
        };
        if let Incoming::Message(Message::Request(request)) = &incoming
            && body.len() > SMALL_BODY_BYTES
            && !memory.grow(retained_bytes(request))
        {
            return FirstPoll::Done(overload_response(TOO_MANY_BODIES, Some(&request.id)));
        }
        let session = self.session(headers, &identity.principal);
        let negotiation = self.classify(HttpMethod::Post, headers, session.as_ref(), Some(&incoming));
        FirstPoll::Done(match (negotiation, &incoming) {
            (HttpClassification::Modern(dialect, meta), Incoming::Message(Message::Request(request))) => {
                return self.modern(request, dialect, meta, all, identity, memory);
            }
            (HttpClassification::ModernNotification, _) => empty_response(StatusCode::ACCEPTED),
            (
                HttpClassification::Initialize(dialect, params),
                Incoming::Message(Message::Request(request)),
            ) => match session {
                Some(_) => already_initialized(&request.id),
                None => self.initialize(request, dialect, *params, identity.principal),
            },
            (HttpClassification::Legacy(_), Incoming::Message(Message::Request(request))) => match session {
                Some(session_use) => return self.legacy_request(session_use, request, identity, memory),
                None => no_session(headers, Some(&request.id)),
            },
            (HttpClassification::Legacy(dialect), _) => match session {
                Some(session_use) => {
                    return self.legacy_non_request(session_use, dialect, &incoming, body, identity, memory);
                }
                None => no_session(headers, None),
            },
            (HttpClassification::Reject(refusal), Incoming::Message(Message::Request(request))) => {
                refusal_response(refusal, Some(&request.id))
            }
            (HttpClassification::Reject(refusal), _) => refusal_response(refusal, None),
            _ => empty_response(StatusCode::BAD_REQUEST),
        })
    }

    fn classify(
        &self,
        method: HttpMethod,
        headers: &McpHeaders<'_>,
        session: Option<&SessionUse>,
        body: Option<&Incoming<'_>>,
    ) -> HttpClassification {
        let (mut versions, mut methods, mut names) = <([&[u8]; 2], [&[u8]; 2], [&[u8]; 2])>::default();
        let mut request = HttpRequest::new(method)
            .versions(headers.version.up_to_two(&mut versions))
            .methods(headers.method.up_to_two(&mut methods))
            .names(headers.name.up_to_two(&mut names));
        if let Some(session) = session {
            request = request.session(session.0.dialect);
        }
        let known = self.envelope.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = &known {
            request = request.known(known);
        }
        let negotiation = self.negotiation.classify(&request, body);
        if let (HttpClassification::Modern(dialect, meta), Some(Incoming::Message(Message::Request(request)))) =
            (&negotiation, body)
            && !known.is_some_and(|known| known.is_of(request))
        {
            let envelope = Envelope::of(request, *dialect, meta);
            *self.envelope.lock().unwrap_or_else(PoisonError::into_inner) = envelope;
        }
        negotiation
    }

    /// Waits for [`HttpService::close`].
    async fn closed(&self) {
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }
}

#[cfg(test)]
mod tests;
