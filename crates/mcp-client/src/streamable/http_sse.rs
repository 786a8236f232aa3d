//! The HTTP+SSE transport: messages are posted to one URL and answered on an event stream.
//!
//! Spec: MCP 2024-11-05, basic/transports.
//!
//! The stream is the session: when it ends, everything in flight is lost, and another is opened.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcp_protocol::codec::challenge::Challenge;
use mcp_protocol::messages::{Incoming, Message, Method, Response, parse_bytes};
use mcp_protocol::negotiation::{
    HttpAction, HttpAnswer, HttpClient, Mode, NegotiationError, NegotiationResult, Obstacle, Terms,
};
use url::Url;

use super::backoff::Cost;
use super::events::{End, EventStream, SseMessage};
use super::exchange::is_events;
use super::negotiate::{endpoint_of, id, initialize, initialized};
use super::reconnect::StreamEnd;
use super::target::{HttpTarget, beginning, challenges};
use super::transport::HttpTransport;
use crate::connect::offer::Offer;
use crate::connection::{Connection, now};
use crate::error::{ConnectionEnd, EndCause, Error, HttpStatus, Result};
use crate::http::policy::Denied;
use crate::http::request::HttpError;

/// How long the first event may take.
const FIRST: Duration = Duration::from_secs(10);
/// The time to read the beginning of a page, for the error.
const EXCERPT_TIME: Duration = Duration::from_secs(1);
/// How many bytes may come before the answer to our greeting.
const HELD: usize = 1 << 20;
/// The stream, two messages, and what is asked for again.
pub(super) const COST: Cost = Cost { requests: 4, doublings: 3 };

/// A stream whose first event said where to post.
pub(crate) struct Opened {
    stream: EventStream,
    pub(super) to: Arc<PostTarget>,
    /// What came before the answer to our greeting.
    held: Vec<Vec<u8>>,
}

/// Where to post: a secret, because whoever knows it has the session.
pub(super) struct PostTarget {
    pub(super) url: Arc<Url>,
    pub(super) uri: http::Uri,
}

impl std::fmt::Debug for PostTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostTarget").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened").finish_non_exhaustive()
    }
}

/// What became of asking for a stream that may be one half of a pair.
pub(super) enum StreamProbe {
    Pair(Box<Opened>),
    /// It points somewhere else, where nothing of ours may go.
    OtherOrigin(String),
    /// It is for others only.
    Unauthorized(u16, Vec<Challenge>),
    /// It is something else.
    Other(Box<HttpStatus>),
}

/// Asks for a stream and reads its first event.
pub(super) async fn ask(target: &HttpTarget) -> Result<StreamProbe, HttpError> {
    let mut answer = target.wire.send(|| target.get(http::HeaderMap::new(), None)).await?;
    let status = answer.status.as_u16();
    if matches!(status, 401 | 403) {
        return Ok(StreamProbe::Unauthorized(status, challenges(&answer.headers)));
    }
    if !is_events(&answer) {
        let body = tokio::time::timeout(EXCERPT_TIME, beginning(&mut answer)).await.unwrap_or_default();
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
    if to.origin() != target.url.origin() || !to.username().is_empty() || to.password().is_some() {
        return Ok(StreamProbe::OtherOrigin(to.origin().ascii_serialization()));
    }
    let Ok(uri) = to.as_str().parse() else { return Ok(other) };
    let to = Arc::new(PostTarget { url: Arc::new(to), uri });
    Ok(StreamProbe::Pair(Box::new(Opened { stream, to, held: Vec::new() })))
}

/// Opens what is known to be a pair, and greets it.
pub(super) async fn open(
    target: &HttpTarget,
    offer: &Offer,
    name: &str,
    budget: Duration,
) -> Result<(NegotiationResult, Box<Opened>)> {
    let began = now();
    let network = |problem: &str| failed(name, NegotiationError::Http(Obstacle::Network), problem);
    let asked = match tokio::time::timeout(FIRST.min(budget), ask(target)).await {
        Ok(Ok(asked)) => asked,
        Ok(Err(HttpError { denied: Some(Denied { host, reason }), .. })) => {
            return Err(Error::Denied { host, reason });
        }
        Ok(Err(error)) => return Err(network(&error.to_string())),
        Err(_) => return Err(network("the stream said nothing in time")),
    };
    let opened = match asked {
        StreamProbe::Pair(opened) => opened,
        StreamProbe::OtherOrigin(origin) => {
            return Err(Error::ForeignEndpoint { server: name.to_owned(), origin });
        }
        StreamProbe::Unauthorized(status, challenges) => {
            return Err(Error::Unauthorized { method: Method::Initialize, status, challenges });
        }
        StreamProbe::Other(response) => {
            let HttpStatus { status, retry_after, .. } = *response;
            let obstacle = match status {
                408 | 425 | 429 | 502..=504 => Obstacle::Busy { status, retry_after },
                500.. => Obstacle::Broken { status },
                _ => Obstacle::Network,
            };
            if response.excerpt.is_empty() {
                let problem =
                    format!("HTTP status {status} instead of an event stream that names the endpoint");
                return Err(failed(name, NegotiationError::Http(obstacle), &problem));
            }
            // How long to wait is in the source of the error.
            let response = HttpStatus { retry_after: None, ..*response };
            let ended =
                ConnectionEnd { cause: EndCause::Response(Box::new(response)), ..ConnectionEnd::default() };
            let source = Box::new(NegotiationError::Http(obstacle));
            return Err(Error::Connect { server: name.to_owned(), error: source, ended });
        }
    };
    let left = budget.saturating_sub(now().saturating_duration_since(began));
    greet(target, offer, name, opened, left).await
}

fn failed(name: &str, source: NegotiationError, problem: &str) -> Error {
    let ended = ConnectionEnd { cause: EndCause::Network(problem.to_owned()), ..ConnectionEnd::default() };
    Error::Connect { server: name.to_owned(), error: Box::new(source), ended }
}

/// Greets a server whose stream is open.
pub(super) async fn greet(
    target: &HttpTarget,
    offer: &Offer,
    name: &str,
    mut opened: Box<Opened>,
    budget: Duration,
) -> Result<(NegotiationResult, Box<Opened>)> {
    let terms = Terms::default().versions(offer.versions.clone()).mode(Mode::Legacy).budget(budget);
    let mut machine = HttpClient::new(terms, now());
    let mut problem = "the stream ended";
    let greeting = async {
        loop {
            match machine.poll_action() {
                Some(HttpAction::Initialize { version }) => {
                    let greeting = initialize(offer, &version);
                    let answer = opened.exchange(target, greeting).await?;
                    match answer.as_deref().map(|answer| parse_bytes(answer, &target.limits)) {
                        Some(Ok(Incoming::Message(message))) => {
                            machine.handle_answer(&HttpAnswer::new(200).message(message), now());
                        }
                        _ => machine.handle_network_failure(),
                    }
                }
                Some(HttpAction::Settled(negotiation)) => {
                    post(target, &opened.to, &Method::Initialized, &initialized()).await?;
                    return Ok(*negotiation);
                }
                Some(HttpAction::Failed(source)) => return Err(failed(name, source, problem)),
                Some(_) | None => {
                    problem = "it is not an HTTP+SSE server";
                    machine.handle_network_failure();
                }
            }
        }
    };
    match tokio::time::timeout(budget, greeting).await {
        Ok(negotiation) => Ok((negotiation?, opened)),
        Err(_) => {
            let silent = NegotiationError::Http(Obstacle::Network);
            Err(failed(name, silent, "the greeting was not answered in time"))
        }
    }
}

impl Opened {
    /// Posts a request and reads until it is answered; `None` if the stream ends before. A server may answer what is
    /// posted only when its work is done.
    async fn exchange(&mut self, target: &HttpTarget, request: Bytes) -> Result<Option<Vec<u8>>> {
        let Self { stream, to, held } = self;
        let mut answer = None;
        let reading = stream.messages(|taken| {
            let SseMessage::Message(message) = taken else { return false };
            if is_answer(message, target) {
                answer = Some(message.to_vec());
            } else if held.iter().map(Vec::len).sum::<usize>() + message.len() <= HELD
                && held.len() < HELD / 1024
            {
                held.push(message.to_vec());
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

/// True for what answers our greeting.
fn is_answer(message: &[u8], target: &HttpTarget) -> bool {
    match parse_bytes(message, &target.limits) {
        Ok(Incoming::Message(Message::Response(Response { id: Some(answered), .. }))) => answered == id(),
        Ok(Incoming::Message(Message::Response(Response { id: None, outcome }))) => outcome.is_err(),
        _ => false,
    }
}

/// Posts a message; gives why it was not taken.
async fn post(target: &HttpTarget, to: &PostTarget, method: &Method, message: &Bytes) -> Result<()> {
    let method = || method.clone();
    let sending = target.wire.send(|| target.post_to(&to.url, &to.uri, message.clone()));
    let answer = sending.await.map_err(|error| error.into_lost(method()))?;
    match answer.status.as_u16() {
        200..300 => {
            target.wire.drain(answer.body);
            Ok(())
        }
        status @ (401 | 403) => {
            Err(Error::Unauthorized { method: method(), status, challenges: challenges(&answer.headers) })
        }
        _ => Err(Error::Status { method: method(), answer: Box::new(target.status(answer).await.0) }),
    }
}

/// Reads what the server says, on one stream after the other.
pub(super) async fn run(transport: Arc<HttpTransport>, connection: Arc<Connection>) {
    let mut generations = transport.sessions.generations();
    let gate = &transport.gate;
    let _wanting = gate.want();
    let mut turn = Some(gate.first());
    loop {
        let (session, opened) = transport.sessions.take_stream();
        let mut ended = StreamEnd { cost: COST, ..StreamEnd::default() };
        if let Some(opened) = opened {
            let Opened { mut stream, held, .. } = *opened;
            for message in held {
                transport.inbound().line(&connection, &message, now());
            }
            let began = now();
            let turn = turn.take().unwrap_or_else(|| gate.first());
            let reading = stream.messages(|taken| {
                transport.receive(&connection, taken);
                false
            });
            let problem = tokio::select! {
                end = turn.read(reading) => match end {
                    End::Cut(Some(problem)) => problem,
                    End::Cut(None) | End::Enough => "the stream ended before the response".to_owned(),
                    End::Endless => "an event exceeds the limit".to_owned(),
                },
                _ = generations.wait_for(|generation| *generation != session.generation) => {
                    "the server has forgotten the session".to_owned()
                }
            };
            ended.lived = now().saturating_duration_since(began);
            ended.retry = stream.retry();
            drop(stream);
            transport.sessions.end_stream(&session);
            connection.cut(session.generation, problem);
        }
        // Whoever calls may be faster.
        while transport.sessions.current().generation == session.generation {
            let next = tokio::select! {
                next = gate.again(&connection.terms.server, ended) => next,
                _ = generations.wait_for(|generation| *generation != session.generation) => break,
            };
            match transport.renew(&session, &connection).await {
                Ok(()) => turn = Some(next),
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
                Err(error) => ended = StreamEnd::after(&error, COST),
            }
        }
    }
}
