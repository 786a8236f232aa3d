//! Streamable HTTP as a service to mount anywhere: modern requests, legacy sessions, one endpoint for both.
//!
//! A modern call lives in the future of its own exchange: when the client is gone, hyper drops the future, and
//! with it the call. A legacy call that waits belongs to its session, because a client that disconnects has not cancelled
//! there.

mod body;
mod guard;
mod headers;
#[cfg(feature = "serve")]
mod impatient;
mod intake;
mod legacy;
mod options;
#[cfg(feature = "serve")]
mod pair;
#[cfg(feature = "serve")]
mod serve;
mod session;

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
use crate::context::{Exchange, Principal};
use crate::driver::changes;
use crate::error::Error;
use crate::outlet::{Framing, Outlet};
use crate::reply::Reply;
use crate::router::{Core, Route};
use crate::run::Run;
use crate::server::McpServer;
use body::Work;
use headers::{Headers, Ours};
use intake::{NO_BODIES, SMALL_BODY, kept_of};
use legacy::no_session;
use session::{Sessions, Using};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// What may wait on one stream before what can be done without is dropped.
const WAITING: usize = 1 << 20;
/// Room for most responses, so that they are written without moving house.
const RESPONSE: usize = 512;

/// A server as a `tower` service: mount it in axum with `route_service`, or in any hyper program.
///
/// It serves whatever path it is mounted at. Cloning is cheap; clones share sessions.
#[derive(Clone)]
pub struct HttpService(Arc<Shared>);

struct Shared {
    core: Arc<Core>,
    negotiation: HttpServer,
    options: HttpOptions,
    limits: Limits,
    sessions: Sessions,
    /// Streams of changes that may be open.
    streams: Arc<Budget>,
    /// Bytes that sessions and streams may hold.
    memory: Arc<Budget>,
    /// Bytes of request bodies, and the part of them that large bodies may take.
    bodies: Arc<Budget>,
    large_bodies: Arc<Budget>,
    /// True when nothing more is to begin, and what would go on for ever ends.
    closing: watch::Sender<bool>,
    #[cfg(feature = "serve")]
    pairs: pair::Pairs,
    /// The last modern envelope: most clients send the same one with every request.
    envelope: Mutex<Option<Envelope>>,
}

impl HttpService {
    /// Ends what would go on for ever, streams of changes, with the result that is due to their clients; exchanges
    /// that run go on. For the graceful shutdown of the program that the service is mounted in, which would wait for
    /// those streams. Legacy sessions end when the last clone of the service is dropped.
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
    /// The server as a service to mount in another program.
    ///
    /// # Errors
    /// When the server was put together wrong.
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
            pairs: pair::Pairs::default(),
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
    /// One exchange. Its future is allocated for each request and should stay small.
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

    /// Admits what has a body that is worth reading. Everything else is answered here.
    #[expect(clippy::result_large_err, reason = "an answer is what everyone is after")]
    fn admit<'a>(self: &Arc<Self>, parts: &'a Parts) -> Result<Ours<'a>, Answer> {
        let headers = Headers::of(&parts.headers);
        if let Err(status) = self.options.access.check(&parts.uri, &parts.headers, &headers) {
            return Err(bare(status));
        }
        // A proxy in between may have used the other value.
        for (name, values) in
            [(mirrored::SESSION_ID, &headers.ours.session), (mirrored::LAST_EVENT_ID, &headers.last_event)]
        {
            if values.is_repeated() {
                let error = ErrorObject::new(ErrorCode::InvalidRequest, format!("duplicate header `{name}`"));
                return Err(refuse(StatusCode::BAD_REQUEST, &error, None));
            }
        }
        Err(match parts.method {
            HttpVerb::POST if !is_json(&headers) => bare(StatusCode::UNSUPPORTED_MEDIA_TYPE),
            HttpVerb::POST if !accepts(&parts.headers, &headers) => bare(StatusCode::NOT_ACCEPTABLE),
            HttpVerb::POST => return Ok(headers.ours),
            HttpVerb::GET => self.get(&parts.headers, &headers),
            HttpVerb::DELETE => self.delete(&headers.ours),
            _ => {
                let mut answer = bare(StatusCode::METHOD_NOT_ALLOWED);
                answer.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
                answer
            }
        })
    }

    /// Takes in a body. Most requests are answered at once, and need no future of their own.
    fn post(self: &Arc<Self>, all: &HeaderMap, headers: &Ours<'_>, body: &Bytes, mut memory: Share) -> Step {
        let incoming = match parse_bytes(body, &self.limits) {
            Ok(incoming) => incoming,
            Err(error) => {
                let refusal = self.negotiation.classify_unreadable(&error);
                return Step::Done(refused(refusal, error.id.as_ref()));
            }
        };
        if let Incoming::Message(Message::Request(request)) = &incoming
            && body.len() > SMALL_BODY
            && !memory.grow(kept_of(request))
        {
            return Step::Done(overloaded(NO_BODIES, Some(&request.id)));
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
                Some(using) => return self.legacy_request(using, request, memory),
                None => no_session(headers, Some(&request.id)),
            },
            (HttpVerdict::Legacy(dialect), _) => match session {
                Some(using) => return self.legacy(using, dialect, &incoming, body, memory),
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
        headers: &Ours<'_>,
        session: Option<&Using>,
        body: Option<&Incoming<'_>>,
    ) -> HttpVerdict {
        let (mut versions, mut methods, mut names) = <([&[u8]; 2], [&[u8]; 2], [&[u8]; 2])>::default();
        let mut request = HttpRequest::new(method)
            .versions(headers.version.told(&mut versions))
            .methods(headers.method.told(&mut methods))
            .names(headers.name.told(&mut names));
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

    /// A modern request, from its envelope to its response.
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
        let outlet = Arc::new(Outlet::new(Framing::Events, WAITING, Some(Arc::clone(&self.memory))));
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
        // What a large request keeps was counted before.
        let is_small = request.params.text().len() <= SMALL_BODY;
        run.hold(memory);
        match begin(&mut run, &outlet) {
            Poll::Ready(first) => Step::Done(self.modern_answer(first, run, outlet, &request.id, dialect)),
            Poll::Pending => {
                if is_small {
                    run.hold_more(kept_of(request));
                }
                let (shared, id) = (Arc::clone(self), request.id.clone());
                Step::Later(Box::pin(async move {
                    let first = first(&mut run, &outlet).await;
                    shared.modern_answer(first, run, outlet, &id, dialect)
                }))
            }
        }
    }

    /// The answer to a call that is done, or has something to say before it is.
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

    /// Checks that the annotated arguments of a tool are repeated in headers.
    fn check_param_headers(&self, request: &Request<'_>, headers: &HeaderMap) -> Result<(), ErrorObject> {
        if request.method != Method::ToolsCall {
            return Ok(());
        }
        let Ok(Some(name)) = mirrored::name_of(&request.method, &request.params) else { return Ok(()) };
        let state = self.core.registry.snapshot();
        let Some(tool) = state.tools.get(&name).filter(|tool| !tool.headers.is_empty()) else {
            return Ok(());
        };
        // An argument list that is missing or there twice is refused by the call itself.
        let arguments = request.params.member("arguments").ok().flatten().unwrap_or("{}");
        tool.headers
            .check(arguments, |name| headers.get_all(name).iter().map(HeaderValue::as_bytes).collect())
    }

    /// Waits for the end of serving.
    async fn closed(&self) {
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }

    /// A stream of changes. It ends when the client leaves, or when serving ends.
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
        let filter = changes::honoured(filter);
        let bytes = changes::held_by(&filter);
        if bytes > self.options.session_memory {
            let message = format!(
                "the subscribed URIs are too large: {bytes} bytes, limit {}",
                self.options.session_memory
            );
            return self.error(id, dialect, &ErrorObject::new(ErrorCode::InvalidParams, message));
        }
        self.sessions.reclaim(bytes);
        let Some(memory) = self.memory.take(bytes) else {
            return overloaded(changes::NO_MEMORY, Some(id));
        };
        let mut receiver = self.core.registry.changes();
        let _ = outlet.send(|out| changes::write_acknowledged(out, dialect, id, &filter));
        let (id, sink, shared) = (id.clone(), Arc::clone(&outlet), Arc::clone(self));
        let work: Work = Box::pin(async move {
            let _held = (slot, memory);
            loop {
                let changed = tokio::select! {
                    changed = changes::next(&mut receiver, &filter) => changed,
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

    /// One response as JSON.
    fn reply(&self, id: &Id, dialect: Dialect, reply: &Reply) -> Answer {
        let status = match reply {
            Reply::Error(error) => status_of(error),
            Reply::Overloaded(why) => return overloaded(why, Some(id)),
            _ => StatusCode::OK,
        };
        let mut out = Vec::with_capacity(RESPONSE);
        // A reply always can be written: as an error, if nothing else.
        let _ = reply.write(&mut out, id, dialect, &self.core.meta);
        json(status, out)
    }

    fn error(&self, id: &Id, dialect: Dialect, error: &ErrorObject) -> Answer {
        self.reply(id, dialect, &Reply::Error(error.clone()))
    }
}

/// How far an exchange has come.
enum Step {
    Done(Answer),
    /// A call waits for something.
    Later(Pin<Box<dyn Future<Output = Answer> + Send>>),
}

/// What a call does first.
enum First {
    Done(Reply),
    /// It says something before it is done.
    Emits,
}

async fn first(run: &mut Box<Run>, outlet: &Outlet) -> First {
    poll_fn(|cx| poll_first(run, outlet, cx)).await
}

/// Polls a call where it arrived. Whoever is woken by this is polled again when the exchange waits.
fn begin(run: &mut Box<Run>, outlet: &Outlet) -> Poll<First> {
    poll_first(run, outlet, &mut TaskContext::from_waker(Waker::noop()))
}

fn poll_first(run: &mut Box<Run>, outlet: &Outlet, cx: &mut TaskContext<'_>) -> Poll<First> {
    if let Poll::Ready(reply) = Pin::new(run).poll(cx) {
        return Poll::Ready(First::Done(reply));
    }
    outlet.poll_filled(cx).map(|()| First::Emits)
}

/// The status under which an error travels that was decided before a stream began.
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

/// A limit of the whole service is reached: nothing was done, and the client may come again.
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
    headers.insert(BUFFERING, HeaderValue::from_static("no"));
    answer
}

/// A simple cross-site request cannot say that it is JSON.
fn is_json(headers: &Headers<'_>) -> bool {
    let Some(value) = headers.content_type.first() else { return false };
    if value == "application/json" {
        return true;
    }
    let value = value.to_str().unwrap_or("");
    value.split(';').next().unwrap_or("").trim().eq_ignore_ascii_case("application/json")
}

/// True unless the client wants nothing that we could send.
fn accepts(all: &HeaderMap, headers: &Headers<'_>) -> bool {
    // As the protocol wants it said.
    if headers.accept.first().is_none_or(|value| value == "application/json, text/event-stream") {
        return true;
    }
    accepts_one_of(all, &["application/json", "text/event-stream", "application/*", "text/*", "*/*"])
}

/// True if the client reads streams of events, or says nothing of what it reads.
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
