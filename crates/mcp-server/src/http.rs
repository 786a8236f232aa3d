//! Streamable HTTP as a `tower` service: modern requests and legacy sessions on one endpoint.
//!
//! A modern call runs in the future of its own exchange: when the client disconnects, hyper drops the future and with
//! it the call. A legacy call in flight belongs to its session, because a disconnect is not a cancellation there.

mod body;
mod guard;
mod headers;
#[cfg(feature = "serve")]
mod http_sse;
mod intake;
mod legacy;
mod options;
#[cfg(feature = "serve")]
mod serve;
mod session;
#[cfg(feature = "serve")]
mod write_timeout;

use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as TaskContext, Poll, Waker};

use bytes::Bytes;
use http::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
};
use http::request::Parts;
use http::{Method as HttpVerb, Request as HttpRequestParts, Response, StatusCode};
use http_body::Body;
use mcp_protocol::codec::header as mirrored;
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::messages::{Id, Incoming, Message, Method, Request, parse_bytes, write};
use mcp_protocol::meta::Meta;
use mcp_protocol::negotiation::{Envelope, HttpMethod, HttpRequest, HttpServer, HttpVerdict, Refusal};
use mcp_protocol::subscriptions::{ListenResult, SubscriptionFilter};
use mcp_protocol::{Dialect, Limits};
use tokio::sync::watch;
use tower_service::Service;

pub use body::HttpBody;
pub use guard::Access;
pub use options::HttpOptions;

use crate::budget::{Budget, Share};
use crate::call::context::{Exchange, Principal};
use crate::call::reply::Reply;
use crate::connection::outlet::{Framing, Outlet};
use crate::dispatch::router::{Core, Route};
use crate::dispatch::run::Run;
use crate::error::Error;
use crate::offer::changes;
use crate::server::McpServer;
use body::Work;
use headers::{Headers, McpHeaders};
use intake::{SMALL_BODY, TOO_MANY_BODIES, retained_bytes};
use legacy::no_session;
use session::{SessionUse, Sessions};

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The number of unread bytes on one stream above which optional messages are dropped.
const MAX_UNREAD_BYTES: usize = 1 << 20;
/// The initial capacity of a response buffer: enough for most responses without reallocation.
const RESPONSE_CAPACITY: usize = 512;

/// A server as a `tower` service: mount it in axum with `route_service`, or in any hyper program.
///
/// The service ignores the path of the request. Cloning is cheap; clones share sessions.
#[doc(alias = "Streamable HTTP")]
#[doc(alias = "axum")]
#[derive(Clone)]
pub struct HttpService(Arc<Shared>);

struct Shared {
    core: Arc<Core>,
    negotiation: HttpServer,
    options: HttpOptions,
    limits: Limits,
    sessions: Sessions,
    /// Open subscription streams.
    streams: Arc<Budget>,
    /// Bytes held by sessions and streams.
    memory: Arc<Budget>,
    /// Bytes of request bodies, and the part that large bodies may use.
    bodies: Arc<Budget>,
    large_bodies: Arc<Budget>,
    /// True after [`HttpService::close`]: subscription streams end.
    closing: watch::Sender<bool>,
    #[cfg(feature = "serve")]
    http_sse: http_sse::HttpSseSessions,
    /// The last modern envelope, cached because most clients send the same one with every request.
    envelope: Mutex<Option<Envelope>>,
}

impl HttpService {
    /// Ends all subscription streams with their result; other exchanges continue. Call it at the graceful shutdown of
    /// the program that mounts the service, which would otherwise wait for these streams. Legacy sessions end when the
    /// last clone of the service is dropped.
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
    /// When the server is not configured correctly.
    #[doc(alias = "Streamable HTTP")]
    pub fn into_http_service(self, options: HttpOptions) -> Result<HttpService, Error> {
        let core = self.into_core(options.calls)?;
        let versions = core.registry.snapshot().identity.versions.clone();
        let limits = core.limits.clone().message(options.body);
        let (memory, bodies) = (Budget::new(options.memory), Budget::new(options.bodies));
        Ok(HttpService(Arc::new(Shared {
            negotiation: HttpServer::new(&versions),
            limits,
            sessions: Sessions::new(&options, &memory),
            core,
            streams: Budget::new(options.streams),
            memory,
            large_bodies: Budget::within(&bodies, options.bodies - options.bodies / 4),
            bodies,
            options,
            closing: watch::Sender::new(false),
            #[cfg(feature = "serve")]
            http_sse: http_sse::HttpSseSessions::default(),
            envelope: Mutex::default(),
        })))
    }
}

type Answer = Response<HttpBody>;

impl<B> Service<HttpRequestParts<B>> for HttpService
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequestParts<B>) -> Self::Future {
        let (parts, body) = request.into_parts();
        Box::pin(Arc::clone(&self.0).handle(parts, body))
    }
}

impl Shared {
    /// Handles one exchange. The future is allocated for each request and should stay small.
    async fn handle<B>(self: Arc<Self>, parts: Parts, body: B) -> Result<Answer, Infallible>
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let headers = match self.admit(&parts) {
            Ok(headers) => headers,
            Err(answer) => return Ok(answer),
        };
        let is_short = self.core.calls.is_short() || self.bodies.is_short() || self.large_bodies.is_short();
        if is_short && self.sessions.end_abandoned() {
            // Boxed: rare path; keeps the common future small.
            Box::pin(tokio::task::yield_now()).await;
        }
        let (bytes, memory) = match self.read_body(body).await {
            Ok(read) => read,
            Err(answer) => return Ok(*answer),
        };
        match self.post(&parts.headers, &headers, &bytes, memory) {
            Step::Done(answer) => Ok(answer),
            Step::Later(rest) => {
                drop(bytes);
                Ok(rest.await)
            }
        }
    }

    /// Checks the headers before the body is read. The `Err` variant is the HTTP response.
    #[expect(clippy::result_large_err, reason = "the `Err` variant is the HTTP response")]
    fn admit<'a>(self: &Arc<Self>, parts: &'a Parts) -> Result<McpHeaders<'a>, Answer> {
        let headers = Headers::of(&parts.headers);
        if let Err(status) = self.options.access.check(&parts.uri, &parts.headers, &headers) {
            return Err(bare(status));
        }
        // A proxy may have used the other value.
        for (name, values) in
            [(mirrored::SESSION_ID, &headers.mcp.session), (mirrored::LAST_EVENT_ID, &headers.last_event)]
        {
            if values.is_repeated() {
                let error = ErrorObject::new(ErrorCode::InvalidRequest, format!("duplicate header `{name}`"));
                return Err(refuse(StatusCode::BAD_REQUEST, &error, None));
            }
        }
        Err(match parts.method {
            HttpVerb::POST if !is_json(&headers) => bare(StatusCode::UNSUPPORTED_MEDIA_TYPE),
            HttpVerb::POST if !accepts(&parts.headers, &headers) => bare(StatusCode::NOT_ACCEPTABLE),
            HttpVerb::POST => return Ok(headers.mcp),
            HttpVerb::GET => self.get(&parts.headers, &headers),
            HttpVerb::DELETE => self.delete(&headers.mcp),
            _ => {
                let mut answer = bare(StatusCode::METHOD_NOT_ALLOWED);
                answer.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
                answer
            }
        })
    }

    /// Handles a POST body. Most requests are answered at once and do not need a boxed future.
    fn post(
        self: &Arc<Self>,
        all: &HeaderMap,
        headers: &McpHeaders<'_>,
        body: &Bytes,
        mut memory: Share,
    ) -> Step {
        let incoming = match parse_bytes(body, &self.limits) {
            Ok(incoming) => incoming,
            Err(error) => {
                let refusal = self.negotiation.classify_unreadable(&error);
                return Step::Done(refused(refusal, error.id.as_ref()));
            }
        };
        if let Incoming::Message(Message::Request(request)) = &incoming
            && body.len() > SMALL_BODY
            && !memory.grow(retained_bytes(request))
        {
            return Step::Done(overloaded(TOO_MANY_BODIES, Some(&request.id)));
        }
        let session = self.session(headers);
        let negotiation = self.classify(HttpMethod::Post, headers, session.as_ref(), Some(&incoming));
        Step::Done(match (negotiation, &incoming) {
            (HttpVerdict::Modern(dialect, meta), Incoming::Message(Message::Request(request))) => {
                return self.modern(request, dialect, meta, all, memory);
            }
            (HttpVerdict::ModernNotification, _) => bare(StatusCode::ACCEPTED),
            (HttpVerdict::Initialize(dialect, params), Incoming::Message(Message::Request(request))) => {
                match session {
                    Some(_) => already_initialized(&request.id),
                    None => self.initialize(request, dialect, *params),
                }
            }
            (HttpVerdict::Legacy(_), Incoming::Message(Message::Request(request))) => match session {
                Some(session_use) => return self.legacy_request(session_use, request, memory),
                None => no_session(headers, Some(&request.id)),
            },
            (HttpVerdict::Legacy(dialect), _) => match session {
                Some(session_use) => return self.legacy(session_use, dialect, &incoming, body, memory),
                None => no_session(headers, None),
            },
            (HttpVerdict::Refuse(refusal), Incoming::Message(Message::Request(request))) => {
                refused(refusal, Some(&request.id))
            }
            (HttpVerdict::Refuse(refusal), _) => refused(refusal, None),
            _ => bare(StatusCode::BAD_REQUEST),
        })
    }

    fn classify(
        &self,
        method: HttpMethod,
        headers: &McpHeaders<'_>,
        session: Option<&SessionUse>,
        body: Option<&Incoming<'_>>,
    ) -> HttpVerdict {
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
        if let (HttpVerdict::Modern(dialect, meta), Some(Incoming::Message(Message::Request(request)))) =
            (&negotiation, body)
            && !known.is_some_and(|known| known.is_of(request))
        {
            let envelope = Envelope::of(request, *dialect, meta);
            *self.envelope.lock().unwrap_or_else(PoisonError::into_inner) = envelope;
        }
        negotiation
    }

    /// Handles a modern request.
    fn modern(
        self: &Arc<Self>,
        request: &Request<'_>,
        dialect: Dialect,
        meta: Arc<Meta>,
        headers: &HeaderMap,
        memory: Share,
    ) -> Step {
        if let Err(error) = self.check_param_headers(request, headers) {
            return Step::Done(self.error(&request.id, dialect, &error));
        }
        let outlet = Arc::new(Outlet::new(Framing::Events, MAX_UNREAD_BYTES, Some(Arc::clone(&self.memory))));
        let exchange = Exchange {
            dialect,
            meta: Some(meta),
            legacy: None,
            outlet: Arc::clone(&outlet),
            principal: Principal::default(),
        };
        let mut run = match self.core.route(request, exchange) {
            Route::Reply(reply) => return Step::Done(self.reply(&request.id, dialect, &reply)),
            Route::Listen(filter) if accepts_events(headers) => {
                return Step::Done(self.listen(&request.id, dialect, &filter, outlet));
            }
            Route::Listen(_) => return Step::Done(not_acceptable(&request.id)),
            Route::Run(run) => run,
        };
        // For a large request this memory was charged in `post`.
        let is_small = request.params.text().len() <= SMALL_BODY;
        run.hold(memory);
        match begin(&mut run, &outlet) {
            Poll::Ready(first) => Step::Done(self.modern_answer(first, run, outlet, &request.id, dialect)),
            Poll::Pending => {
                if is_small {
                    run.hold_more(retained_bytes(request));
                }
                let (shared, id) = (Arc::clone(self), request.id.clone());
                Step::Later(Box::pin(async move {
                    let first = first(&mut run, &outlet).await;
                    shared.modern_answer(first, run, outlet, &id, dialect)
                }))
            }
        }
    }

    /// Returns the response of a call: JSON if it is done without notifications, otherwise an SSE stream.
    fn modern_answer(
        &self,
        first: First,
        run: Box<Run>,
        outlet: Arc<Outlet>,
        id: &Id,
        dialect: Dialect,
    ) -> Answer {
        match first {
            First::Done(reply) if outlet.len() == 0 => self.reply(id, dialect, &reply),
            First::Done(reply) => {
                let _ = outlet.send(|out| reply.write(out, id, dialect, &self.core.meta));
                let mut bytes = Vec::new();
                outlet.take(&mut bytes);
                stream_headers(HttpBody::full(bytes))
            }
            First::Emits => {
                let (core, id, sink) = (Arc::clone(&self.core), id.clone(), Arc::clone(&outlet));
                let work: Work = Box::pin(async move {
                    let reply = run.await;
                    let _ = sink.send(|out| reply.write(out, &id, dialect, &core.meta));
                    sink.close();
                });
                stream_headers(HttpBody::stream(outlet, None, work, self.options.keep_alive))
            }
        }
    }

    /// Checks that the headers of annotated arguments match the arguments.
    fn check_param_headers(&self, request: &Request<'_>, headers: &HeaderMap) -> Result<(), ErrorObject> {
        if request.method != Method::ToolsCall {
            return Ok(());
        }
        let Ok(Some(name)) = mirrored::name_of(&request.method, &request.params) else { return Ok(()) };
        let state = self.core.registry.snapshot();
        let Some(tool) = state.tools.get(&name).filter(|tool| !tool.headers.is_empty()) else {
            return Ok(());
        };
        // Missing or duplicate `arguments` are refused by the call itself.
        let arguments = request.params.member("arguments").ok().flatten().unwrap_or("{}");
        tool.headers
            .check(arguments, |name| headers.get_all(name).iter().map(HeaderValue::as_bytes).collect())
    }

    /// Waits for [`HttpService::close`].
    async fn closed(&self) {
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }

    /// Opens a subscription stream. It ends when the client disconnects or the service closes.
    fn listen(
        self: &Arc<Self>,
        id: &Id,
        dialect: Dialect,
        filter: &SubscriptionFilter,
        outlet: Arc<Outlet>,
    ) -> Answer {
        let Some(slot) = self.streams.take(1) else {
            return overloaded("too many open subscription streams; retry later", Some(id));
        };
        let filter = changes::supported_part(filter);
        let bytes = changes::memory_of(&filter);
        if bytes > self.options.session_memory {
            let message = format!(
                "the subscribed URIs are too large: {bytes} bytes, limit {}",
                self.options.session_memory
            );
            return self.error(id, dialect, &ErrorObject::new(ErrorCode::InvalidParams, message));
        }
        self.sessions.reclaim(bytes);
        let Some(memory) = self.memory.take(bytes) else {
            return overloaded(changes::NO_SUBSCRIPTION_MEMORY, Some(id));
        };
        let mut receiver = self.core.registry.changes();
        let _ = outlet.send(|out| changes::write_acknowledged(out, dialect, id, &filter));
        let (id, sink, shared) = (id.clone(), Arc::clone(&outlet), Arc::clone(self));
        let work: Work = Box::pin(async move {
            let _held = (slot, memory);
            loop {
                let changed = tokio::select! {
                    changed = changes::next_wanted(&mut receiver, &filter) => changed,
                    () = shared.closed() => None,
                };
                let Some(changed) = changed else { break };
                for change in changed {
                    sink.offer(|out| changes::write_change(out, dialect, &change, Some(&id)));
                }
            }
            let reply = Reply::result(ListenResult::new().meta(Meta::new().subscription_id(id.clone())));
            let _ = sink.send(|out| reply.write(out, &id, dialect, &shared.core.meta));
        });
        stream_headers(HttpBody::stream(outlet, None, work, self.options.keep_alive))
    }

    /// Returns one response as JSON.
    fn reply(&self, id: &Id, dialect: Dialect, reply: &Reply) -> Answer {
        let status = match reply {
            Reply::Error(error) => status_of(error),
            Reply::Overloaded(why) => return overloaded(why, Some(id)),
            _ => StatusCode::OK,
        };
        let mut out = Vec::with_capacity(RESPONSE_CAPACITY);
        // Does not fail: `Reply::write` falls back to an error response.
        let _ = reply.write(&mut out, id, dialect, &self.core.meta);
        json(status, out)
    }

    fn error(&self, id: &Id, dialect: Dialect, error: &ErrorObject) -> Answer {
        self.reply(id, dialect, &Reply::Error(error.clone()))
    }
}

/// The state of an exchange after its first poll.
enum Step {
    Done(Answer),
    /// The call is pending.
    Later(Pin<Box<dyn Future<Output = Answer> + Send>>),
}

/// The first event of a call.
enum First {
    Done(Reply),
    /// A notification or a request before the response.
    Emits,
}

async fn first(run: &mut Box<Run>, outlet: &Outlet) -> First {
    poll_fn(|cx| poll_first(run, outlet, cx)).await
}

/// Polls a call once in place. The no-op waker is safe because a pending call is polled again with a real one.
fn begin(run: &mut Box<Run>, outlet: &Outlet) -> Poll<First> {
    poll_first(run, outlet, &mut TaskContext::from_waker(Waker::noop()))
}

fn poll_first(run: &mut Box<Run>, outlet: &Outlet, cx: &mut TaskContext<'_>) -> Poll<First> {
    if let Poll::Ready(reply) = Pin::new(run).poll(cx) {
        return Poll::Ready(First::Done(reply));
    }
    outlet.poll_filled(cx).map(|()| First::Emits)
}

/// Returns the HTTP status of an error response that is not on a stream.
fn status_of(error: &ErrorObject) -> StatusCode {
    match error.code {
        ErrorCode::MethodNotFound => StatusCode::NOT_FOUND,
        ErrorCode::ParseError
        | ErrorCode::InvalidRequest
        | ErrorCode::HeaderMismatch
        | ErrorCode::MissingClientCapability
        | ErrorCode::UnsupportedVersion => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

fn refused(refusal: Refusal, id: Option<&Id>) -> Answer {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_REQUEST);
    match refusal.error {
        Some(error) => refuse(status, &error, id),
        None => bare(status),
    }
}

fn refuse(status: StatusCode, error: &ErrorObject, id: Option<&Id>) -> Answer {
    let mut out = Vec::new();
    let _ = write::error(&mut out, id, write::NoId::Omitted, error);
    json(status, out)
}

/// Returns 503 with `Retry-After`: a limit of the service is reached and nothing was done.
fn overloaded(why: &str, id: Option<&Id>) -> Answer {
    let error = ErrorObject::new(ErrorCode::InternalError, why);
    let mut answer = refuse(StatusCode::SERVICE_UNAVAILABLE, &error, id);
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

fn already_initialized(id: &Id) -> Answer {
    let message = "the session is already initialized; send `initialize` without Mcp-Session-Id to open another session";
    refuse(StatusCode::BAD_REQUEST, &ErrorObject::new(ErrorCode::InvalidRequest, message), Some(id))
}

fn not_acceptable(id: &Id) -> Answer {
    let message = "a subscription stream needs `Accept: text/event-stream`";
    refuse(StatusCode::NOT_ACCEPTABLE, &ErrorObject::new(ErrorCode::InvalidRequest, message), Some(id))
}

fn json(status: StatusCode, bytes: Vec<u8>) -> Answer {
    let mut answer = Response::new(HttpBody::full(bytes));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

fn bare(status: StatusCode) -> Answer {
    let mut answer = Response::new(HttpBody::empty());
    *answer.status_mut() = status;
    answer
}

fn stream_headers(body: HttpBody) -> Answer {
    let mut answer = Response::new(body);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    answer
}

/// Returns true if the content type is JSON, which a cross-site "simple" request cannot have.
fn is_json(headers: &Headers<'_>) -> bool {
    let Some(value) = headers.content_type.first() else { return false };
    if value == "application/json" {
        return true;
    }
    let value = value.to_str().unwrap_or("");
    value.split(';').next().unwrap_or("").trim().eq_ignore_ascii_case("application/json")
}

/// Returns true if `Accept` is absent or allows JSON or SSE.
fn accepts(all: &HeaderMap, headers: &Headers<'_>) -> bool {
    // Fast path: the value that the specification requires.
    if headers.accept.first().is_none_or(|value| value == "application/json, text/event-stream") {
        return true;
    }
    accepts_one_of(all, &["application/json", "text/event-stream", "application/*", "text/*", "*/*"])
}

/// Returns true if `Accept` is absent or allows SSE.
fn accepts_events(all: &HeaderMap) -> bool {
    !all.contains_key(ACCEPT) || accepts_one_of(all, &["text/event-stream", "text/*", "*/*"])
}

fn accepts_one_of(all: &HeaderMap, kinds: &[&str]) -> bool {
    let values = all.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|range| {
        let kind = range.split(';').next().unwrap_or("").trim();
        kinds.iter().any(|known| kind.eq_ignore_ascii_case(known))
    })
}

#[cfg(test)]
mod tests;
