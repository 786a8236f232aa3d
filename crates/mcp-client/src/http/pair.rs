//! The old pair: what is posted to one URL is answered on a stream of events. Spec §4.4.
//!
//! The stream is the session: when it ends, everything in flight is lost, and another is opened.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcp_protocol::codec::challenge::Challenge;
use mcp_protocol::messages::{Incoming, Message, Method, Response, parse_bytes};
use mcp_protocol::negotiation::{
    HttpAction, HttpAnswer, HttpClient, Mode, NegotiationError, Obstacle, Terms, Verdict,
};
use url::Url;

use super::backoff::Cost;
use super::contact::{Contact, beginning, challenges};
use super::endpoint::Endpoint;
use super::events::{End, EventStream, Taken};
use super::exchange::is_events;
use super::gate::StreamEnd;
use super::negotiate::{endpoint_of, id, initialize, initialized};
use super::policy::Denied;
use super::wire::HttpError;
use crate::connection::{Connection, now};
use crate::error::{EndCause, Ended, Error, HttpStatus, Result};
use crate::negotiate::Offer;

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
    pub(super) to: Arc<Target>,
    /// What came before the answer to our greeting.
    held: Vec<Vec<u8>>,
}

/// Where to post: a secret, because whoever knows it has the session.
pub(super) struct Target {
    pub(super) url: Arc<Url>,
    pub(super) uri: http::Uri,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened").finish_non_exhaustive()
    }
}

/// What became of asking for a stream that may be one half of a pair.
pub(super) enum Asked {
    Pair(Box<Opened>),
    /// It points somewhere else, where nothing of ours may go.
    OtherOrigin(String),
    /// It is for others only.
    Unauthorized(u16, Vec<Challenge>),
    /// It is something else.
    Other(Box<HttpStatus>),
}

/// Asks for a stream and reads its first event.
pub(super) async fn ask(contact: &Contact) -> Result<Asked, HttpError> {
    let mut answer = contact.wire.send(|| contact.get(http::HeaderMap::new(), None)).await?;
    let status = answer.status.as_u16();
    if matches!(status, 401 | 403) {
        return Ok(Asked::Unauthorized(status, challenges(&answer.headers)));
    }
    if !is_events(&answer) {
        let body = tokio::time::timeout(EXCERPT_TIME, beginning(&mut answer)).await.unwrap_or_default();
        return Ok(Asked::Other(Box::new(contact.describe(&answer, &body))));
    }
    let other = Asked::Other(Box::new(contact.describe(&answer, b"")));
    let mut stream = EventStream::new(answer.body, &contact.limits);
    let mut endpoint = None;
    stream
        .each(|item| {
            endpoint = endpoint_of(&item);
            true
        })
        .await;
    let Some(to) = endpoint.and_then(|endpoint| contact.url.join(&endpoint).ok()) else {
        return Ok(other);
    };
    if to.origin() != contact.url.origin() || !to.username().is_empty() || to.password().is_some() {
        return Ok(Asked::OtherOrigin(to.origin().ascii_serialization()));
    }
    let Ok(uri) = to.as_str().parse() else { return Ok(other) };
    let to = Arc::new(Target { url: Arc::new(to), uri });
    Ok(Asked::Pair(Box::new(Opened { stream, to, held: Vec::new() })))
}

/// Opens what is known to be a pair, and greets it.
pub(super) async fn open(
    contact: &Contact,
    offer: &Offer,
    name: &str,
    budget: Duration,
) -> Result<(Verdict, Box<Opened>)> {
    let began = now();
    let network = |problem: &str| failed(name, NegotiationError::Http(Obstacle::Network), problem);
    let asked = match tokio::time::timeout(FIRST.min(budget), ask(contact)).await {
        Ok(Ok(asked)) => asked,
        Ok(Err(HttpError { denied: Some(Denied { host, reason }), .. })) => {
            return Err(Error::Denied { host, reason });
        }
        Ok(Err(error)) => return Err(network(&error.to_string())),
        Err(_) => return Err(network("the stream said nothing in time")),
    };
    let opened = match asked {
        Asked::Pair(opened) => opened,
        Asked::OtherOrigin(origin) => {
            return Err(Error::ForeignEndpoint { server: name.to_owned(), origin });
        }
        Asked::Unauthorized(status, challenges) => {
            return Err(Error::Unauthorized { method: Method::Initialize, status, challenges });
        }
        Asked::Other(response) => {
            let HttpStatus { status, retry_after, .. } = *response;
            let obstacle = match status {
                408 | 425 | 429 | 502..=504 => Obstacle::Busy { status, retry_after },
                500.. => Obstacle::Broken { status },
                _ => Obstacle::Network,
            };
            if response.excerpt.is_empty() {
                let problem = format!("status {status}, and no stream that says where to post");
                return Err(failed(name, NegotiationError::Http(obstacle), &problem));
            }
            // How long to wait is in the source of the error.
            let response = HttpStatus { retry_after: None, ..*response };
            let ended = Ended { cause: EndCause::Response(Box::new(response)), ..Ended::default() };
            let source = Box::new(NegotiationError::Http(obstacle));
            return Err(Error::Connect { server: name.to_owned(), source, ended });
        }
    };
    let left = budget.saturating_sub(now().saturating_duration_since(began));
    greet(contact, offer, name, opened, left).await
}

fn failed(name: &str, source: NegotiationError, problem: &str) -> Error {
    let ended = Ended { cause: EndCause::Network(problem.to_owned()), ..Ended::default() };
    Error::Connect { server: name.to_owned(), source: Box::new(source), ended }
}

/// Greets a server whose stream is open.
pub(super) async fn greet(
    contact: &Contact,
    offer: &Offer,
    name: &str,
    mut opened: Box<Opened>,
    budget: Duration,
) -> Result<(Verdict, Box<Opened>)> {
    let terms = Terms::default().versions(offer.versions.clone()).mode(Mode::Legacy).budget(budget);
    let mut machine = HttpClient::new(terms, now());
    let mut problem = "the stream ended";
    let greeting = async {
        loop {
            match machine.poll_action() {
                Some(HttpAction::Initialize { version }) => {
                    let greeting = initialize(offer, &version);
                    let answer = opened.exchange(contact, greeting).await?;
                    match answer.as_deref().map(|answer| parse_bytes(answer, &contact.limits)) {
                        Some(Ok(Incoming::Message(message))) => {
                            machine.handle_answer(&HttpAnswer::new(200).message(message), now());
                        }
                        _ => machine.handle_network_failure(),
                    }
                }
                Some(HttpAction::Settled(verdict)) => {
                    post(contact, &opened.to, &Method::Initialized, &initialized()).await?;
                    return Ok(*verdict);
                }
                Some(HttpAction::Failed(source)) => return Err(failed(name, source, problem)),
                Some(_) | None => {
                    problem = "it is no server of this kind";
                    machine.handle_network_failure();
                }
            }
        }
    };
    match tokio::time::timeout(budget, greeting).await {
        Ok(verdict) => Ok((verdict?, opened)),
        Err(_) => {
            let silent = NegotiationError::Http(Obstacle::Network);
            Err(failed(name, silent, "the greeting was not answered in time"))
        }
    }
}

impl Opened {
    /// Posts a request and reads until it is answered; `None` if the stream ends before. A server may answer what is
    /// posted only when its work is done.
    async fn exchange(&mut self, contact: &Contact, request: Bytes) -> Result<Option<Vec<u8>>> {
        let Self { stream, to, held } = self;
        let mut answer = None;
        let reading = stream.messages(|taken| {
            let Taken::Message(message) = taken else { return false };
            if is_answer(message, contact) {
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
                posted = post(contact, to, &Method::Initialize, &request) => {
                    posted?;
                    reading.await;
                }
            }
        }
        Ok(answer)
    }
}

/// True for what answers our greeting.
fn is_answer(message: &[u8], contact: &Contact) -> bool {
    match parse_bytes(message, &contact.limits) {
        Ok(Incoming::Message(Message::Response(Response { id: Some(answered), .. }))) => answered == id(),
        Ok(Incoming::Message(Message::Response(Response { id: None, outcome }))) => outcome.is_err(),
        _ => false,
    }
}

/// Posts a message; gives why it was not taken.
async fn post(contact: &Contact, to: &Target, method: &Method, message: &Bytes) -> Result<()> {
    let method = || method.clone();
    let sending = contact.wire.send(|| contact.post_to(&to.url, &to.uri, message.clone()));
    let answer = sending.await.map_err(|error| error.into_lost(method()))?;
    match answer.status.as_u16() {
        200..300 => {
            contact.wire.drain(answer.body);
            Ok(())
        }
        status @ (401 | 403) => {
            Err(Error::Unauthorized { method: method(), status, challenges: challenges(&answer.headers) })
        }
        _ => Err(Error::Status { method: method(), answer: Box::new(contact.status(answer).await.0) }),
    }
}

/// Reads what the server says, on one stream after the other.
pub(super) async fn run(endpoint: Arc<Endpoint>, connection: Arc<Connection>) {
    let mut generations = endpoint.generations();
    let gate = &endpoint.gate;
    let _wanting = gate.want();
    let mut turn = Some(gate.first());
    loop {
        let (session, opened) = endpoint.take_stream();
        let mut ended = StreamEnd { cost: COST, ..StreamEnd::default() };
        if let Some(opened) = opened {
            let Opened { mut stream, held, .. } = *opened;
            for message in held {
                endpoint.arrivals().line(&connection, &message, now());
            }
            let began = now();
            let turn = turn.take().unwrap_or_else(|| gate.first());
            let reading = stream.messages(|taken| {
                endpoint.take_in(&connection, taken);
                false
            });
            let problem = tokio::select! {
                end = turn.read(reading) => match end {
                    End::Cut(Some(problem)) => problem,
                    End::Cut(None) | End::Enough => "the stream ended before the answer".to_owned(),
                    End::Endless => "an event without end".to_owned(),
                },
                _ = generations.wait_for(|generation| *generation != session.generation) => {
                    "the server has forgotten the session".to_owned()
                }
            };
            ended.lived = now().saturating_duration_since(began);
            ended.retry = stream.retry();
            drop(stream);
            endpoint.end_stream(&session);
            connection.cut(session.generation, problem);
        }
        // Whoever calls may be faster.
        while endpoint.session().generation == session.generation {
            let next = tokio::select! {
                next = gate.again(&connection.agreed.server, ended) => next,
                _ = generations.wait_for(|generation| *generation != session.generation) => break,
            };
            match endpoint.renew(&session, &connection).await {
                Ok(()) => turn = Some(next),
                Err(
                    Error::Unauthorized { .. }
                    | Error::Denied { .. }
                    | Error::Recipe { .. }
                    | Error::ForeignEndpoint { .. },
                ) => {
                    drop(next);
                    tracing::debug!("the stream is not opened again before somebody calls");
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
