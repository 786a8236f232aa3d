//! One negotiation with a server behind a URL. It performs the actions of the state machine as HTTP requests.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use mcp_protocol::ProtocolVersion;
use mcp_protocol::codec::challenge::Challenge;
use mcp_protocol::codec::header;
use mcp_protocol::messages::{EmptyParams, Incoming, Message, Method, Response, parse_bytes, write};
use mcp_protocol::meta::Meta;
use mcp_protocol::negotiation::{
    HttpAction, HttpClientNegotiation, HttpFailure, Mode, NegotiationError, NegotiationOptions,
    NegotiationResponse,
};

use super::ProbeResult;
use super::messages::{id, initialize, initialized};
use crate::config::offer::{Offer, has_all};
use crate::connection::now;
use crate::error::{ConnectionEnd, EndCause, Error, HttpStatus, Result};
use crate::http::http_error::HttpError;
use crate::http::request::{RawRequest, RawResponse};
use crate::streamable::events::{EventStream, ReadEnd, SseMessage};
use crate::streamable::http_sse::{self, HttpSseStream, StreamProbe};
use crate::streamable::target::{
    BodyRead, HttpTarget, challenges, excerpt_of, location, read_body, retry_after_of,
};

/// The pause before a second attempt if the server sends no `Retry-After`.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// The timeout of `notifications/initialized`.
const INITIALIZED_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of bytes that are read of an error response.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// Negotiates with the server behind a URL.
pub(in crate::streamable) async fn negotiate(
    target: &Arc<HttpTarget>,
    offer: &Offer,
    name: &str,
    mode: Mode,
    budget: Duration,
) -> Result<ProbeResult> {
    let options = NegotiationOptions::default().versions(offer.versions.clone()).mode(mode).timeout(budget);
    let mut negotiation = Negotiation {
        machine: HttpClientNegotiation::new(options, now()),
        target,
        offer,
        name,
        problem: None,
        response: None,
        challenges: (0, Vec::new()),
        session: None,
        last_method: Method::Discover,
        until: now().checked_add(budget),
    };
    let found = negotiation.run().await;
    if found.is_err()
        && let Some(session) = negotiation.session.take()
    {
        // The session will not be used, so it is deleted.
        let headers = HeaderMap::from_iter([(HeaderName::from_static(header::SESSION_ID), session)]);
        let _ =
            tokio::time::timeout(Duration::from_secs(1), target.http.send(|| target.delete(headers.clone())))
                .await;
    }
    found
}

/// The state of one negotiation.
struct Negotiation<'a> {
    machine: HttpClientNegotiation,
    target: &'a Arc<HttpTarget>,
    offer: &'a Offer,
    name: &'a str,
    /// The last network error.
    problem: Option<String>,
    /// The last response that was not a message and has a body, such as a web page.
    response: Option<HttpStatus>,
    /// Status and challenges of the last 401 or 403 response.
    challenges: (u16, Vec<Challenge>),
    session: Option<HeaderValue>,
    /// The method of the last request.
    last_method: Method,
    /// The deadline of the whole negotiation.
    until: Option<std::time::Instant>,
}

impl Negotiation<'_> {
    async fn run(&mut self) -> Result<ProbeResult> {
        loop {
            let Some(action) = self.machine.poll_action() else {
                // Does not happen, because every input of the machine leads to an action.
                self.machine.handle_network_failure();
                continue;
            };
            match action {
                HttpAction::Probe { version } => {
                    let request = self.probe(&version);
                    self.exchange(Method::Discover, request).await?;
                }
                HttpAction::Initialize { version } => {
                    let request = self.initialize(&version);
                    self.exchange(Method::Initialize, request).await?;
                }
                HttpAction::OpenStream => {
                    if let Some(opened) = self.open_stream().await? {
                        return Ok(ProbeResult::HttpSse(opened));
                    }
                }
                HttpAction::Declare(required) => {
                    // The first attempt declared all capabilities of the client. Another attempt helps only if these
                    // include all that the server requires.
                    let declared = has_all(&self.offer.capabilities, &required);
                    self.machine.handle_declared(declared, now());
                }
                HttpAction::LogIn { .. } => {
                    return Err(self.unauthorized());
                }
                HttpAction::Wait { retry_after } => {
                    tokio::time::sleep(retry_after.unwrap_or(RETRY_PAUSE)).await;
                    self.machine.handle_waited(now());
                }
                HttpAction::Succeeded(negotiation) => {
                    if !negotiation.version.dialect().is_some_and(|dialect| dialect.is_modern()) {
                        self.send_initialized(&negotiation.version).await;
                    }
                    return Ok(ProbeResult::Streamable { negotiation, session: self.session.take() });
                }
                HttpAction::Failed(NegotiationError::Http(HttpFailure::Forbidden)) => {
                    return Err(self.unauthorized());
                }
                HttpAction::Failed(error) => return Err(self.failed(error)),
                _ => self.machine.handle_network_failure(),
            }
        }
    }

    fn unauthorized(&mut self) -> Error {
        let (status, challenges) = std::mem::take(&mut self.challenges);
        Error::Unauthorized { method: self.last_method.clone(), status, challenges }
    }

    fn failed(&mut self, source: NegotiationError) -> Error {
        let cause = match (self.problem.take(), self.response.take()) {
            (Some(problem), _) => EndCause::Network(problem),
            (None, Some(response)) => EndCause::Response(Box::new(response)),
            (None, None) => EndCause::Server,
        };
        let ended = ConnectionEnd { cause, ..ConnectionEnd::default() };
        Error::Connect { server: self.name.to_owned(), error: Box::new(source), ended }
    }

    /// Records a response that was not a message. An error status without a body is not recorded: the error names the
    /// status anyway.
    fn note_response(&mut self, response: HttpStatus) {
        if !response.excerpt.is_empty() || response.status < 400 {
            // The error already contains these two values.
            self.response = Some(HttpStatus { retry_after: None, location: None, ..response });
        }
    }

    fn probe(&self, version: &ProtocolVersion) -> RawRequest {
        let envelope = Meta::envelope(version.clone(), self.offer.capabilities.clone());
        let params = EmptyParams::new().meta(envelope.client_info(self.offer.info.clone()));
        let mut body = Vec::new();
        // Cannot fail: every revision has these params.
        let _ = write::request(&mut body, &id(), &Method::Discover, &params);
        let mut headers = self.target.headers();
        add(&mut headers, header::PROTOCOL_VERSION, version.as_str());
        add(&mut headers, header::METHOD, Method::Discover.as_str());
        self.target.post(headers, body.into())
    }

    fn initialize(&self, version: &ProtocolVersion) -> RawRequest {
        self.target.post(self.target.headers(), initialize(self.offer, version))
    }

    /// Sends `notifications/initialized` to a legacy server. A failure is only logged, because the next request would
    /// then fail as well.
    async fn send_initialized(&mut self, version: &ProtocolVersion) {
        let mut headers = self.target.headers();
        add(&mut headers, header::PROTOCOL_VERSION, version.as_str());
        if let Some(session) = &self.session {
            headers.insert(HeaderName::from_static(header::SESSION_ID), session.clone());
        }
        let request = self.target.post(headers, initialized());
        let left = self.until.map_or(INITIALIZED_TIMEOUT, |until| until.saturating_duration_since(now()));
        match tokio::time::timeout(left.min(INITIALIZED_TIMEOUT), self.target.http.send(|| request.clone()))
            .await
        {
            Ok(Ok(answer)) if answer.status.is_success() => {}
            Ok(Ok(answer)) => tracing::debug!(
                status = answer.status.as_u16(),
                "the server refused `notifications/initialized`"
            ),
            Ok(Err(error)) => tracing::debug!(%error, "sending `notifications/initialized` failed"),
            Err(_) => tracing::debug!("`notifications/initialized` timed out"),
        }
    }

    /// Runs `work` until the timeout of the machine. Returns `None` if the timeout elapses first.
    async fn in_time<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        match self.machine.poll_timeout() {
            Some(due) => tokio::time::timeout_at(due.into(), work).await.ok(),
            None => Some(work.await),
        }
    }

    async fn send(&mut self, request: RawRequest) -> Result<Option<RawResponse>> {
        let target = Arc::clone(self.target);
        let answer = self.in_time(target.http.send(|| request.clone())).await;
        self.sent(answer)
    }

    /// Reports a network failure or a timeout to the machine, and then returns `None`.
    fn sent<T>(&mut self, answer: Option<Result<T, HttpError>>) -> Result<Option<T>> {
        match answer {
            Some(Ok(answer)) => Ok(Some(answer)),
            Some(Err(HttpError { refusal: Some(error), .. })) => Err(*error),
            Some(Err(error)) => {
                self.no_response(error.to_string());
                Ok(None)
            }
            None => {
                self.machine.handle_timeout(now());
                Ok(None)
            }
        }
    }

    fn no_response(&mut self, problem: String) {
        self.problem = Some(problem);
        self.machine.handle_network_failure();
    }

    async fn exchange(&mut self, method: Method, request: RawRequest) -> Result<()> {
        self.last_method = method.clone();
        let Some(mut answer) = self.send(request).await? else { return Ok(()) };
        tracing::debug!(%method, status = answer.status.as_u16(), address = ?answer.address, "received a response");
        if matches!(answer.status.as_u16(), 401 | 403) {
            self.challenges = (answer.status.as_u16(), challenges(&answer.headers));
        }
        let target = Arc::clone(self.target);
        // For these statuses, only the headers are needed.
        let has_status_only = matches!(answer.status.as_u16(), 401 | 403);
        let reading =
            async { if has_status_only { Ok(Bytes::new()) } else { message(&target, &mut answer).await } };
        let body = match self.in_time(reading).await {
            Some(Ok(body)) => body,
            Some(Err(problem)) => {
                self.no_response(problem);
                return Ok(());
            }
            None => {
                let kind = answer.media_type().map(|kind| format!(" with {kind}")).unwrap_or_default();
                let status = answer.status.as_u16();
                self.problem = Some(format!("timed out reading the body of HTTP status {status}{kind}"));
                self.machine.handle_timeout(now());
                return Ok(());
            }
        };
        if method == Method::Initialize && answer.status.is_success() {
            self.session = answer.headers.get(header::SESSION_ID).cloned();
        }
        let mut reply = NegotiationResponse::new(answer.status.as_u16());
        if let Ok(Incoming::Message(message)) = parse_bytes(&body, &target.limits) {
            self.response = None;
            reply = reply.message(message);
        } else {
            self.note_response(target.describe(&answer, &body));
        }
        let (wait, location) = (retry_after_of(&answer.headers), location(&answer.headers));
        if let Some(wait) = wait {
            reply = reply.retry_after(wait);
        }
        if let Some(location) = &location {
            reply = reply.location(location);
        }
        let is_scope = |challenge: &Challenge| challenge.error() == Some("insufficient_scope");
        if self.challenges.1.iter().any(is_scope) {
            reply = reply.scope_challenge();
        }
        self.machine.handle_response(&reply, now());
        Ok(())
    }

    /// Tries to open the event stream of the HTTP+SSE transport. Returns `None` if the server does not offer it.
    async fn open_stream(&mut self) -> Result<Option<Box<HttpSseStream>>> {
        let target = Arc::clone(self.target);
        let Some(probe) = self.sent(self.in_time(http_sse::probe(&target)).await)? else { return Ok(None) };
        let reply = match probe {
            StreamProbe::HttpSse(opened) => return Ok(Some(opened)),
            StreamProbe::OtherOrigin(origin) => {
                return Err(Error::ForeignEndpoint { server: self.name.to_owned(), origin });
            }
            StreamProbe::Unauthorized(status, challenges) => {
                self.challenges = (status, challenges);
                NegotiationResponse::new(status)
            }
            StreamProbe::Other(response) => {
                let reply = NegotiationResponse::new(response.status);
                let wait = response.retry_after;
                self.note_response(*response);
                match wait {
                    Some(wait) => reply.retry_after(wait),
                    None => reply,
                }
            }
        };
        self.machine.handle_response(&reply, now());
        Ok(None)
    }
}

fn add(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

/// Reads the message of a response: its body, or the first JSON-RPC response of its event stream. Returns an empty text
/// if there is none.
async fn message(target: &HttpTarget, answer: &mut RawResponse) -> Result<Bytes, String> {
    if answer.encoding().is_some() {
        return Ok(Bytes::new());
    }
    if answer.media_type().as_deref() == Some("text/event-stream") {
        let body = std::mem::replace(&mut answer.body, crate::http::request::ResponseBody::empty());
        let mut stream = EventStream::new(body, &target.limits);
        let mut found = Bytes::new();
        let read = |message: SseMessage<'_>| {
            let SseMessage::Message(text) = message else { return false };
            let is_ours = matches!(
                parse_bytes(text, &target.limits),
                Ok(Incoming::Message(Message::Response(Response { .. })))
            );
            if is_ours {
                found = Bytes::copy_from_slice(text);
            }
            is_ours
        };
        return match stream.messages(read).await {
            ReadEnd::Cut(Some(problem)) => Err(problem),
            _ => Ok(found),
        };
    }
    // A web page is not read to its end.
    if answer.media_type().is_some_and(|kind| !kind.ends_with("json")) {
        return Ok(excerpt_of(answer).await);
    }
    let limit = if answer.status.is_success() { target.limits.message } else { MAX_ERROR_BYTES };
    match read_body(&mut answer.body, limit).await {
        Ok(BodyRead::Complete(body)) => Ok(body),
        Ok(BodyRead::TooLong) => Ok(Bytes::new()),
        Err(error) => Err(error.to_string()),
    }
}
