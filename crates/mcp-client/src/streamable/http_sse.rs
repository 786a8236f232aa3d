//! The HTTP+SSE transport: messages are posted to one URL, and their responses arrive on an event stream.
//!
//! Spec: MCP 2024-11-05, basic/transports.
//!
//! The event stream is the session: when it ends, all requests in flight are lost, and a new session is opened.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcp_protocol::codec::challenge::Challenge;
use mcp_protocol::messages::{Incoming, Message, Method, Response, parse_bytes};
use mcp_protocol::negotiation::{
    HttpAction, HttpClientNegotiation, HttpFailure, Mode, NegotiationError, NegotiationOptions,
    NegotiationResponse, NegotiationResult,
};
use url::Url;

use super::backoff::Cost;
use super::events::{EventStream, ReadEnd, SseMessage, is_events};
use super::negotiate::{endpoint_of, id, initialize, initialized};
use super::reconnect::StreamEnd;
use super::target::{EXCERPT_TIMEOUT, HttpTarget, challenges, excerpt_of};
use super::transport::HttpTransport;
use crate::config::offer::Offer;
use crate::connection::{Connection, now};
use crate::error::{ConnectionEnd, EndCause, Error, HttpStatus, Result};
use crate::http::http_error::HttpError;

/// The timeout for the first event of a stream.
const FIRST_EVENT_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of bytes of messages that are kept before the response to `initialize`.
const MAX_EARLY_BYTES: usize = 1 << 20;
/// The cost of a new session: requests for the stream, for two messages, and for the subscriptions.
pub(super) const REOPEN_COST: Cost = Cost { requests: 4, doublings: 3 };

/// An open event stream. Its first event named the URL to which messages are posted.
pub(crate) struct HttpSseStream {
    stream: EventStream,
    pub(super) to: Arc<PostTarget>,
    /// Messages received before the response to `initialize`.
    early: Vec<Vec<u8>>,
}

/// The URL to which messages are posted. It is a secret, because it identifies the session.
pub(super) struct PostTarget {
    pub(super) url: Arc<Url>,
    pub(super) uri: http::Uri,
}

impl std::fmt::Debug for PostTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostTarget").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for HttpSseStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpSseStream").finish_non_exhaustive()
    }
}

/// The response to a GET that may open the stream of the HTTP+SSE transport.
pub(super) enum StreamProbe {
    HttpSse(Box<HttpSseStream>),
    /// The server named a URL to which nothing may be posted: on another web origin, with credentials, or not an HTTP
    /// URL. The text describes the URL.
    OtherOrigin(String),
    /// The server requires a login.
    Unauthorized(u16, Vec<Challenge>),
    /// A response that is not an event stream with an endpoint.
    Other(Box<HttpStatus>),
}

/// Sends a GET for an event stream, and reads the first event.
pub(super) async fn probe(target: &HttpTarget) -> Result<StreamProbe, HttpError> {
    let mut answer = target.http.send(|| target.get(http::HeaderMap::new(), None)).await?;
    let status = answer.status.as_u16();
    if matches!(status, 401 | 403) {
        return Ok(StreamProbe::Unauthorized(status, challenges(&answer.headers)));
    }
    if !is_events(&answer) {
        let body = tokio::time::timeout(EXCERPT_TIMEOUT, excerpt_of(&mut answer)).await.unwrap_or_default();
        return Ok(StreamProbe::Other(Box::new(target.describe(&answer, &body))));
    }
    let other = StreamProbe::Other(Box::new(target.describe(&answer, b"")));
    let mut stream = EventStream::new(answer.body, &target.limits);
    let mut endpoint = None;
    stream
        .each(|item| {
            endpoint = endpoint_of(&item);
            true
        })
        .await;
    let Some(to) = endpoint.and_then(|endpoint| target.url.join(&endpoint).ok()) else {
        return Ok(other);
    };
    if !matches!(to.scheme(), "http" | "https") {
        return Ok(StreamProbe::OtherOrigin(format!("a `{}:` URL", to.scheme())));
    }
    let origin = || to.origin().ascii_serialization();
    if to.origin() != target.url.origin() {
        return Ok(StreamProbe::OtherOrigin(origin()));
    }
    if !to.username().is_empty() || to.password().is_some() {
        return Ok(StreamProbe::OtherOrigin(format!("{} with a user name or password", origin())));
    }
    let Ok(uri) = to.as_str().parse() else { return Ok(other) };
    let to = Arc::new(PostTarget { url: Arc::new(to), uri });
    Ok(StreamProbe::HttpSse(Box::new(HttpSseStream { stream, to, early: Vec::new() })))
}

/// Opens a session with a server that is known to use this transport.
pub(super) async fn open(
    target: &HttpTarget,
    offer: &Offer,
    name: &str,
    budget: Duration,
) -> Result<(NegotiationResult, Box<HttpSseStream>)> {
    let began = now();
    let network = |problem: &str| failed(name, NegotiationError::Http(HttpFailure::Network), problem);
    let probe = match tokio::time::timeout(FIRST_EVENT_TIMEOUT.min(budget), probe(target)).await {
        Ok(Ok(probe)) => probe,
        Ok(Err(HttpError { refusal: Some(error), .. })) => return Err(*error),
        Ok(Err(error)) => return Err(network(&error.to_string())),
        Err(_) => return Err(timed_out(name)),
    };
    let opened = match probe {
        StreamProbe::HttpSse(opened) => opened,
        StreamProbe::OtherOrigin(origin) => {
            return Err(Error::ForeignEndpoint { server: name.to_owned(), origin });
        }
        StreamProbe::Unauthorized(status, challenges) => {
            return Err(Error::Unauthorized { method: Method::Initialize, status, challenges });
        }
        StreamProbe::Other(response) => {
            let HttpStatus { status, retry_after, .. } = *response;
            let obstacle = match status {
                408 | 425 | 429 | 502..=504 => HttpFailure::Busy { status, retry_after },
                500.. => HttpFailure::ServerError { status },
                _ => HttpFailure::Network,
            };
            // The text of `obstacle` already contains `retry_after`.
            let response = HttpStatus { retry_after: None, ..*response };
            let ended =
                ConnectionEnd { cause: EndCause::Response(Box::new(response)), ..ConnectionEnd::default() };
            let source = Box::new(NegotiationError::Http(obstacle));
            return Err(Error::Connect { server: name.to_owned(), error: source, ended });
        }
    };
    let left = budget.saturating_sub(now().saturating_duration_since(began));
    handshake(target, offer, name, opened, left).await
}

fn failed(name: &str, source: NegotiationError, problem: &str) -> Error {
    let ended = ConnectionEnd { cause: EndCause::Network(problem.to_owned()), ..ConnectionEnd::default() };
    Error::Connect { server: name.to_owned(), error: Box::new(source), ended }
}

fn timed_out(name: &str) -> Error {
    let error = Box::new(NegotiationError::Http(HttpFailure::Timeout));
    Error::Connect { server: name.to_owned(), error, ended: ConnectionEnd::default() }
}

/// Initializes the session of an open stream: sends `initialize` and `notifications/initialized`.
pub(super) async fn handshake(
    target: &HttpTarget,
    offer: &Offer,
    name: &str,
    mut opened: Box<HttpSseStream>,
    budget: Duration,
) -> Result<(NegotiationResult, Box<HttpSseStream>)> {
    let options =
        NegotiationOptions::default().versions(offer.versions.clone()).mode(Mode::Legacy).timeout(budget);
    let mut machine = HttpClientNegotiation::new(options, now());
    let mut problem = "the stream ended";
    let handshake = async {
        loop {
            match machine.poll_action() {
                Some(HttpAction::Initialize { version }) => {
                    let answer = opened.exchange(target, initialize(offer, &version)).await?;
                    match answer.as_deref().map(|answer| parse_bytes(answer, &target.limits)) {
                        Some(Ok(Incoming::Message(message))) => {
                            machine.handle_response(&NegotiationResponse::new(200).message(message), now());
                        }
                        _ => machine.handle_network_failure(),
                    }
                }
                Some(HttpAction::Succeeded(negotiation)) => {
                    post(target, &opened.to, &Method::Initialized, &initialized()).await?;
                    return Ok(*negotiation);
                }
                Some(HttpAction::Failed(source)) => return Err(failed(name, source, problem)),
                Some(_) | None => {
                    problem = "this is not a server of the HTTP+SSE transport";
                    machine.handle_network_failure();
                }
            }
        }
    };
    match tokio::time::timeout(budget, handshake).await {
        Ok(negotiation) => Ok((negotiation?, opened)),
        Err(_) => Err(timed_out(name)),
    }
}

impl HttpSseStream {
    /// Posts a request and reads the stream until the response arrives. Returns `None` if the stream ends first. Does
    /// both at the same time, because some servers answer the POST only after they have sent the response on the
    /// stream.
    async fn exchange(&mut self, target: &HttpTarget, request: Bytes) -> Result<Option<Vec<u8>>> {
        let Self { stream, to, early } = self;
        let mut answer = None;
        let reading = stream.messages(|message| {
            let SseMessage::Message(message) = message else { return false };
            if is_answer(message, target) {
                answer = Some(message.to_vec());
            } else if early.iter().map(Vec::len).sum::<usize>() + message.len() <= MAX_EARLY_BYTES
                && early.len() < MAX_EARLY_BYTES / 1024
            {
                early.push(message.to_vec());
            }
            answer.is_some()
        });
        {
            let mut reading = pin!(reading);
            tokio::select! {
                biased;
                _ = &mut reading => {}
                posted = post(target, to, &Method::Initialize, &request) => {
                    posted?;
                    reading.await;
                }
            }
        }
        Ok(answer)
    }
}

/// Returns true if the message is the response to `initialize`.
fn is_answer(message: &[u8], target: &HttpTarget) -> bool {
    match parse_bytes(message, &target.limits) {
        Ok(Incoming::Message(Message::Response(Response { id: Some(answered), .. }))) => answered == id(),
        Ok(Incoming::Message(Message::Response(Response { id: None, outcome }))) => outcome.is_err(),
        _ => false,
    }
}

/// Posts a message. Returns an error if the server did not accept it.
async fn post(target: &HttpTarget, to: &PostTarget, method: &Method, message: &Bytes) -> Result<()> {
    let method = || method.clone();
    let sending = target.http.send(|| target.post_to(&to.url, &to.uri, message.clone()));
    let answer = sending.await.map_err(|error| error.into_lost(method()))?;
    match answer.status.as_u16() {
        200..300 => {
            target.http.drain(answer.body);
            Ok(())
        }
        status @ (401 | 403) => {
            Err(Error::Unauthorized { method: method(), status, challenges: challenges(&answer.headers) })
        }
        _ => Err(Error::Status { method: method(), answer: Box::new(target.read_status(answer).await.0) }),
    }
}

/// Reads the stream of each session, and opens a new session when it ends.
pub(super) async fn run(transport: Arc<HttpTransport>, connection: Arc<Connection>) {
    let mut generations = transport.sessions.generations();
    let reconnects = &transport.reconnects;
    let _demand = reconnects.demand();
    let mut permit = Some(reconnects.permit_now());
    loop {
        let (session, opened) = transport.sessions.take_stream();
        let mut ended = StreamEnd { cost: REOPEN_COST, ..StreamEnd::default() };
        if let Some(opened) = opened {
            let HttpSseStream { mut stream, early, .. } = *opened;
            for message in early {
                transport.inbound().handle_line(&connection, &message, now());
            }
            let began = now();
            let permit = permit.take().unwrap_or_else(|| reconnects.permit_now());
            let reading = stream.messages(|message| {
                transport.receive(&connection, message);
                false
            });
            let problem = tokio::select! {
                end = permit.read(reading) => match end {
                    ReadEnd::Cut(Some(problem)) => problem,
                    ReadEnd::Cut(None) | ReadEnd::Enough => "the stream ended before the response".to_owned(),
                    ReadEnd::TooLong => "an event is longer than the message limit".to_owned(),
                },
                _ = generations.wait_for(|generation| *generation != session.generation) => {
                    "the server no longer knows the session".to_owned()
                }
            };
            ended.lived = now().saturating_duration_since(began);
            ended.retry = stream.retry();
            drop(stream);
            transport.sessions.end_stream(&session);
            connection.end_session_stream(session.generation, problem);
        }
        // A call may open the new session first.
        while transport.sessions.current().generation == session.generation {
            let next = tokio::select! {
                next = reconnects.permit(&connection.terms.server, ended) => next,
                _ = generations.wait_for(|generation| *generation != session.generation) => break,
            };
            match transport.renew_session(&session, &connection).await {
                Ok(()) => permit = Some(next),
                Err(
                    Error::Unauthorized { .. }
                    | Error::Denied { .. }
                    | Error::InvalidConfig { .. }
                    | Error::ForeignEndpoint { .. },
                ) => {
                    drop(next);
                    tracing::debug!("the event stream stays closed until the next call");
                    let renewed = generations.wait_for(|generation| *generation != session.generation);
                    if renewed.await.is_err() {
                        return;
                    }
                }
                Err(error) => ended = StreamEnd::after(&error, REOPEN_COST),
            }
        }
    }
}
