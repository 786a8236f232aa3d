//! Streamable HTTP as a service to mount anywhere: modern requests, legacy sessions, one endpoint for both.
//!
//! A modern call lives in the future of its own exchange: when the client is gone, hyper drops the future, and
//! with it the call. A legacy call that has begun to stream belongs to its session, because a lost stream is no
//! cancellation there.

mod body;
mod guard;
#[cfg(feature = "serve")]
mod impatient;
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
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method as HttpVerb, Request as HttpRequestParts, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Limited};
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

use crate::context::{Exchange, Principal};
use crate::driver::changes;
use crate::error::Error;
use crate::outlet::{Framing, Outlet};
use crate::reply::Reply;
use crate::router::{Core, Route};
use crate::run::Run;
use crate::server::McpServer;
use body::Work;
use session::{Session, Sessions};

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
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
    /// Streams of changes that are open.
    streams: AtomicUsize,
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
        let core = self.into_core()?;
        let versions = core.registry.snapshot().identity.versions.clone();
        let limits = core.limits.clone().message(options.body);
        Ok(HttpService(Arc::new(Shared {
            negotiation: HttpServer::new(&versions),
            limits,
            sessions: Sessions::new(options.sessions, options.session_idle),
            core,
            options,
            streams: AtomicUsize::new(0),
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
        if let Err(status) = self.options.access.check(&parts.uri, &parts.headers) {
            return Ok(bare(status));
        }
        Ok(match parts.method {
            HttpVerb::POST => match self.read_body(&parts.headers, body).await {
                Ok(bytes) => Box::pin(self.post(&parts.headers, &bytes)).await,
                Err(status) => bare(status),
            },
            HttpVerb::GET => self.get(&parts.headers),
            HttpVerb::DELETE => self.delete(&parts.headers),
            _ => {
                let mut answer = bare(StatusCode::METHOD_NOT_ALLOWED);
                answer.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
                answer
            }
        })
    }

    async fn read_body<B>(&self, headers: &HeaderMap, body: B) -> Result<Bytes, StatusCode>
    where
        B: Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if !is_json(headers) {
            return Err(StatusCode::UNSUPPORTED_MEDIA_TYPE);
        }
        if !accepts(headers) {
            return Err(StatusCode::NOT_ACCEPTABLE);
        }
        let limit = u64::try_from(self.options.body).unwrap_or(u64::MAX);
        if body.size_hint().lower() > limit {
            return Err(StatusCode::PAYLOAD_TOO_LARGE);
        }
        let mut collected = pin!(Limited::new(body, self.options.body).collect());
        // Most bodies are there already, and need no timer.
        let collected = match poll_fn(|cx| Poll::Ready(collected.as_mut().poll(cx))).await {
            Poll::Ready(collected) => Ok(collected),
            Poll::Pending => Box::pin(tokio::time::timeout(self.options.body_time, collected)).await,
        };
        match collected {
            Ok(Ok(collected)) => Ok(collected.to_bytes()),
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
                Err(StatusCode::PAYLOAD_TOO_LARGE)
            }
            Ok(Err(_)) => Err(StatusCode::BAD_REQUEST),
            Err(_) => Err(StatusCode::REQUEST_TIMEOUT),
        }
    }

    async fn post(self: &Arc<Self>, headers: &HeaderMap, body: &[u8]) -> Answer {
        let incoming = match parse_bytes(body, &self.limits) {
            Ok(incoming) => incoming,
            Err(error) => {
                let refusal = self.negotiation.classify_unreadable(&error);
                return refused(refusal, error.id.as_ref());
            }
        };
        let session = self.session(headers);
        let verdict = self.classify(HttpMethod::Post, headers, session.as_ref(), Some(&incoming));
        let id = match &incoming {
            Incoming::Message(Message::Request(request)) => Some(request.id.clone()),
            _ => None,
        };
        match (verdict, incoming) {
            (HttpVerdict::Modern(dialect, meta), Incoming::Message(Message::Request(request))) => {
                self.modern(&request, dialect, meta, headers).await
            }
            (HttpVerdict::ModernNotification, _) => bare(StatusCode::ACCEPTED),
            (HttpVerdict::Initialize(dialect, params), Incoming::Message(Message::Request(request))) => {
                self.initialize(&request.id, dialect, *params)
            }
            (HttpVerdict::Legacy(dialect), incoming) => {
                Box::pin(self.legacy(headers, session, dialect, incoming)).await
            }
            (HttpVerdict::Refuse(refusal), _) => refused(refusal, id.as_ref()),
            _ => bare(StatusCode::BAD_REQUEST),
        }
    }

    fn classify(
        &self,
        method: HttpMethod,
        headers: &HeaderMap,
        session: Option<&Arc<Session>>,
        body: Option<&Incoming<'_>>,
    ) -> HttpVerdict {
        let (mut versions, mut methods, mut names) = <([&[u8]; 2], [&[u8]; 2], [&[u8]; 2])>::default();
        let mut request = HttpRequest::new(method)
            .versions(values(headers, &VERSION, &mut versions))
            .methods(values(headers, &METHOD, &mut methods))
            .names(values(headers, &NAME, &mut names));
        if let Some(session) = session {
            request = request.session(session.dialect);
        }
        let known = self.envelope.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = &known {
            request = request.known(known);
        }
        let verdict = self.negotiation.classify(&request, body);
        if let (HttpVerdict::Modern(dialect, meta), Some(Incoming::Message(Message::Request(request)))) =
            (&verdict, body)
            && !known.is_some_and(|known| known.is_of(request))
        {
            let envelope = Envelope::of(request, *dialect, meta);
            *self.envelope.lock().unwrap_or_else(PoisonError::into_inner) = envelope;
        }
        verdict
    }

    /// A modern request, from its envelope to its response.
    async fn modern(
        self: &Arc<Self>,
        request: &Request<'_>,
        dialect: Dialect,
        meta: Arc<Meta>,
        headers: &HeaderMap,
    ) -> Answer {
        if let Err(error) = self.check_param_headers(request, headers) {
            return self.error(&request.id, dialect, &error);
        }
        let outlet = Arc::new(Outlet::new(Framing::Events, WAITING));
        let exchange = Exchange {
            dialect,
            meta: Some(meta),
            legacy: None,
            outlet: Arc::clone(&outlet),
            principal: Principal::default(),
        };
        match self.core.route(request, exchange) {
            Route::Reply(reply) => self.reply(&request.id, dialect, &reply),
            Route::Listen(filter) => self.listen(&request.id, dialect, &filter, outlet),
            Route::Run(mut run) => match first(&mut run, &outlet).await {
                First::Done(reply) if outlet.len() == 0 => self.reply(&request.id, dialect, &reply),
                First::Done(reply) => {
                    let _ = outlet.send(|out| reply.write(out, &request.id, dialect, &self.core.meta));
                    let mut bytes = Vec::new();
                    outlet.take(&mut bytes);
                    stream_headers(HttpBody::full(bytes))
                }
                First::Emits => {
                    let (core, id) = (Arc::clone(&self.core), request.id.clone());
                    let sink = Arc::clone(&outlet);
                    let work: Work = Box::pin(async move {
                        let reply = run.await;
                        let _ = sink.send(|out| reply.write(out, &id, dialect, &core.meta));
                        sink.close();
                    });
                    stream_headers(HttpBody::stream(outlet, None, work, self.options.keep_alive))
                }
            },
        }
    }

    /// Check 11 of §2.2: annotated arguments of a tool are mirrored in headers.
    fn check_param_headers(&self, request: &Request<'_>, headers: &HeaderMap) -> Result<(), ErrorObject> {
        if request.method != Method::ToolsCall {
            return Ok(());
        }
        let Ok(Some(name)) = mirrored::name_of(&request.method, &request.params) else { return Ok(()) };
        let state = self.core.registry.snapshot();
        let Some(tool) = state.tools.get(&name).filter(|tool| !tool.headers.is_empty()) else {
            return Ok(());
        };
        let arguments = request.params.parse_member("arguments").ok().flatten().unwrap_or_default();
        tool.headers
            .check(&arguments, |name| headers.get_all(name).iter().map(HeaderValue::as_bytes).collect())
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
        let Some(slot) = StreamSlot::take(self) else {
            let error = ErrorObject::new(ErrorCode::InternalError, "too many streams of changes are open");
            return self.error(id, dialect, &error);
        };
        let filter = changes::honoured(filter);
        let mut receiver = self.core.registry.changes();
        let _ = outlet.send(|out| changes::write_acknowledged(out, dialect, id, &filter));
        let (id, sink) = (id.clone(), Arc::clone(&outlet));
        let work: Work = Box::pin(async move {
            loop {
                let changed = tokio::select! {
                    changed = changes::next(&mut receiver, &filter) => changed,
                    () = slot.0.closed() => None,
                };
                let Some(changed) = changed else { break };
                for change in changed {
                    sink.offer(|out| changes::write_change(out, dialect, &change, Some(&id)));
                }
            }
            let reply = Reply::result(ListenResult::new().meta(Meta::new().subscription_id(id.clone())));
            let _ = sink.send(|out| reply.write(out, &id, dialect, &slot.0.core.meta));
        });
        stream_headers(HttpBody::stream(outlet, None, work, self.options.keep_alive))
    }

    /// One response as JSON.
    fn reply(&self, id: &Id, dialect: Dialect, reply: &Reply) -> Answer {
        let status = match reply {
            Reply::Error(error) => status_of(error),
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

/// What a call does first.
enum First {
    Done(Reply),
    /// It says something before it is done.
    Emits,
}

async fn first(run: &mut Box<Run>, outlet: &Outlet) -> First {
    poll_fn(|cx| {
        if let Poll::Ready(reply) = Pin::new(&mut *run).poll(cx) {
            return Poll::Ready(First::Done(reply));
        }
        outlet.poll_filled(cx).map(|()| First::Emits)
    })
    .await
}

/// The right to one more stream of changes.
struct StreamSlot(Arc<Shared>);

impl StreamSlot {
    fn take(shared: &Arc<Shared>) -> Option<Self> {
        let before = shared.streams.fetch_add(1, Ordering::AcqRel);
        let slot = Self(Arc::clone(shared));
        (before < shared.options.streams).then_some(slot)
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The status under which an error travels that was decided before a stream began: §11.2.
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

/// The values of a header. Each may stand there once, so that two tell all.
fn values<'a, 'b>(headers: &'a HeaderMap, name: &HeaderName, found: &'b mut [&'a [u8]; 2]) -> &'b [&'a [u8]] {
    let count =
        headers.get_all(name).iter().zip(&mut *found).map(|(value, slot)| *slot = value.as_bytes()).count();
    &found[..count]
}

/// A simple cross-site request cannot say that it is JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE) else { return false };
    if value == "application/json" {
        return true;
    }
    let value = value.to_str().unwrap_or("");
    value.split(';').next().unwrap_or("").trim().eq_ignore_ascii_case("application/json")
}

/// True unless the client wants nothing that we could send.
fn accepts(headers: &HeaderMap) -> bool {
    // As the protocol wants it said.
    if headers.get(ACCEPT).is_none_or(|value| value == "application/json, text/event-stream") {
        return true;
    }
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|range| {
        let kind = range.split(';').next().unwrap_or("").trim();
        ["application/json", "text/event-stream", "application/*", "text/*", "*/*"]
            .iter()
            .any(|known| kind.eq_ignore_ascii_case(known))
    })
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    /// What is larger than a kilobyte leaves the quick path of common allocators.
    #[tokio::test]
    async fn the_futures_of_an_exchange_are_small() {
        let service = McpServer::named("small", "1").into_http_service(HttpOptions::default()).unwrap();
        let parts = || HttpRequestParts::new(()).into_parts().0;
        let headers = HeaderMap::new();
        let body = || Full::new(Bytes::new());
        let incoming =
            || parse_bytes(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, &service.0.limits).unwrap();
        let handle = size_of_val(&Arc::clone(&service.0).handle(parts(), body()));
        let post = size_of_val(&service.0.post(&headers, b""));
        let legacy = size_of_val(&service.0.legacy(&headers, None, Dialect::V2025_11_25, incoming()));
        assert!([handle, post, legacy].iter().all(|size| *size <= 1000), "{handle} {post} {legacy}");
    }
}
