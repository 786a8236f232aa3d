//! One request over HTTP, until it is answered.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use mcp_protocol::errors::{ErrorCode, Looks};
use mcp_protocol::messages::{Incoming, Message, Method, Response, parse_bytes};
use mcp_protocol::peer::Call;
use mcp_protocol::retry::{Decision, Failure, Retry, Route};

use super::backoff::{Cost, StreamBackoff, jitter};
use super::events::{End, EventStream, SseMessage};
use super::session::Session;
use super::target::{Whole, challenges, wait, whole};
use super::tool_headers::RepeatedHeaders;
use super::transport::HttpTransport;
use crate::connection::transport::OutgoingRequest;
use crate::connection::{Connection, now};
use crate::error::{ConnectionEnd, EndCause, Error, HttpStatus, Result};
use crate::http::request::{Answer, HttpError};

/// A request that its caller sends and whose response it reads. Dropped, its stream is closed.
pub(super) struct Exchange {
    transport: Arc<HttpTransport>,
    connection: Arc<Connection>,
    call: Call,
    method: Method,
    body: Bytes,
    /// When the caller stops waiting.
    deadline: Option<Instant>,
}

/// The next step after a response.
enum Next {
    /// The call is settled, or will be on the stream.
    Done,
    /// Open a new session, then send the request again.
    RenewSession,
    /// Send the request again after a pause.
    Again(Duration),
}

impl Exchange {
    pub(super) fn new(transport: Arc<HttpTransport>, request: OutgoingRequest) -> Self {
        let OutgoingRequest { connection, call, method, body, deadline } = request;
        Self { transport, connection, call, method, body: body.into(), deadline }
    }

    /// Makes the request; when it returns, the call is settled. It is sent again only where the server has refused it
    /// before doing anything, and once for each reason.
    pub(super) async fn run(self) -> Result<()> {
        let mut retry = Retry::new(&self.method, Route::Http);
        let repeated = match self.transport.endpoint.is_modern {
            true => self.transport.tool_headers.repeated(
                &self.method,
                &self.body,
                &self.transport.endpoint.target.own,
            ),
            false => Ok(RepeatedHeaders::new()),
        };
        let repeated =
            repeated.map_err(|problem| Error::Unsendable { method: self.method.clone(), problem })?;
        loop {
            let session = self.transport.sessions.current();
            let next = match self.transport.endpoint.is_http_sse && session.to.is_none() {
                true => self.stream_ended(&mut retry)?,
                false => self.once(&repeated, &session, &mut retry).await?,
            };
            match next {
                Next::Done => return Ok(()),
                Next::RenewSession => {
                    // Boxed: rare path; keeps the common future small.
                    Box::pin(self.transport.renew(&session, &self.connection)).await?;
                }
                Next::Again(after) => tokio::time::sleep(after).await,
            }
        }
    }

    /// Decides what to do after a failure. Returns `None` if the request is not sent again.
    fn decide(&self, retry: &mut Retry, failure: Failure) -> Option<Next> {
        match retry.handle_failure(&failure, self.deadline, now()) {
            Decision::RenewSession => Some(Next::RenewSession),
            Decision::Again { after } => Some(Next::Again(after)),
            _ => None,
        }
    }

    /// The stream of the HTTP+SSE transport has ended, and with it the session.
    fn stream_ended(&self, retry: &mut Retry) -> Result<Next> {
        let ended = || self.lost(HttpError::unsent("its stream ended"));
        self.decide(retry, Failure::SessionUnknown).ok_or_else(ended)
    }

    async fn once(
        &self,
        repeated: &[(http::HeaderName, http::HeaderValue)],
        session: &Session,
        retry: &mut Retry,
    ) -> Result<Next> {
        if session.to.is_some() {
            self.connection.lock().departs(self.call, Some(session.generation));
            // From here on whoever ends the stream tells this call, too.
            if !self.transport.sessions.is_open(session) {
                self.connection.lock().departs(self.call, None);
                return self.stream_ended(retry);
            }
        }
        let ask = || self.transport.endpoint.message(repeated, &self.body, session);
        let answer = self.transport.endpoint.target.wire.send(ask).await.map_err(|error| self.lost(error))?;
        let next = self.take_in(answer, session, retry).await?;
        if session.to.is_some() && !matches!(next, Next::Done) {
            self.connection.lock().departs(self.call, None);
        }
        Ok(next)
    }

    fn lost(&self, error: HttpError) -> Error {
        error.into_lost(self.method.clone())
    }

    /// What was sent is not answered.
    fn cut(&self, problem: String) -> Error {
        self.lost(HttpError::maybe_sent(problem))
    }

    fn unreadable(&self, problem: impl Into<String>) -> Error {
        Error::Unreadable { method: self.method.clone(), problem: problem.into() }
    }

    async fn take_in(&self, mut answer: Answer, session: &Session, retry: &mut Retry) -> Result<Next> {
        match answer.status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let challenges = challenges(&answer.headers);
                let status = answer.status.as_u16();
                // Some servers respond with this to an unknown session.
                if status == 401
                    && challenges.is_empty()
                    && session.id.is_some()
                    && let Some(next) = self.decide(retry, Failure::SessionUnknown)
                {
                    return Ok(next);
                }
                return Err(Error::Unauthorized { method: self.method.clone(), status, challenges });
            }
            StatusCode::NOT_FOUND if session.can_be_unknown() => {
                if let Some(next) = self.decide(retry, Failure::SessionUnknown) {
                    return Ok(next);
                }
            }
            StatusCode::TOO_MANY_REQUESTS => {
                let failure = Failure::TooManyRequests { retry_after: wait(&answer.headers) };
                if let Some(next) = self.decide(retry, failure) {
                    return Ok(next);
                }
            }
            status if status.is_success() && session.to.is_some() => {
                self.transport.endpoint.target.wire.drain(answer.body);
                // It is answered on the stream, if that is still there.
                let is_open = self.transport.sessions.is_open(session);
                return if is_open { Ok(Next::Done) } else { Err(self.cut("the stream ended".to_owned())) };
            }
            status if status.is_success() => {
                if let Some(encoding) = answer.encoding() {
                    let problem = format!("unexpected content encoding {encoding:?}");
                    return Err(self.unreadable(problem));
                }
                match answer.media_type().as_deref() {
                    Some("application/json") => return self.json(&mut answer).await,
                    // Apart, as everything below: an answer of one message needs no room for it.
                    Some("text/event-stream") => return Box::pin(self.stream(answer, session)).await,
                    _ => {}
                }
            }
            _ => {}
        }
        Box::pin(self.refused(answer, session, retry)).await
    }

    /// An answer of one message.
    async fn json(&self, answer: &mut Answer) -> Result<Next> {
        let body = match whole(&mut answer.body, self.transport.endpoint.limits().message).await {
            Ok(Whole::All(body)) => body,
            Ok(Whole::TooLong) => {
                let limit = self.transport.endpoint.limits().message;
                return Err(self.unreadable(format!("the body is longer than {limit} bytes")));
            }
            Err(error) => return Err(self.lost(error)),
        };
        if body.is_empty() {
            return Err(self.unreadable("the body is empty"));
        }
        let incoming = parse_bytes(&body, self.transport.endpoint.limits())
            .map_err(|error| self.unreadable(error.to_string()))?;
        if self.deliver(&incoming) { Ok(Next::Done) } else { Err(self.answer_to_somebody_else(&incoming)) }
    }

    /// Takes in a message; true if the call is settled.
    fn deliver(&self, incoming: &Incoming<'_>) -> bool {
        let mut inbound = self.transport.inbound();
        let mut state = self.connection.lock();
        inbound.incoming(&self.connection, &mut state, incoming, now());
        let is_settled = !state.is_open(self.call);
        drop(state);
        if inbound.is_flood() {
            self.connection.end(ConnectionEnd { cause: EndCause::Flood, ..ConnectionEnd::default() });
        }
        is_settled
    }

    /// What answered our request, but not by its id. An error without one is meant for us.
    fn answer_to_somebody_else(&self, incoming: &Incoming<'_>) -> Error {
        match incoming {
            Incoming::Message(Message::Response(Response { id: None, outcome: Err(error) })) => {
                Error::Refused { method: self.method.clone(), error: error.clone() }
            }
            _ => self.unreadable("the response has the id of another request"),
        }
    }

    /// Takes in what came on a stream: true if there is nothing more to wait for, with why if the call is not settled.
    fn read(&self, taken: SseMessage<'_>, stray: &mut Option<Error>) -> bool {
        let error = match taken {
            SseMessage::Message(message) => match parse_bytes(message, self.transport.endpoint.limits()) {
                Ok(incoming) if self.deliver(&incoming) => return true,
                Ok(incoming) => {
                    let is_error = matches!(
                        &incoming,
                        Incoming::Message(Message::Response(Response { id: None, outcome: Err(_) }))
                    );
                    if is_error {
                        *stray = Some(self.answer_to_somebody_else(&incoming));
                    }
                    return is_error;
                }
                Err(error) => error,
            },
            SseMessage::TooLong(error) => error,
        };
        tracing::debug!(%error, "ignored an event that is not a JSON-RPC message");
        if error.id.as_ref() == Some(&self.call.id()) && error.looks != Looks::Request {
            *stray = Some(self.unreadable(error.to_string()));
        }
        stray.is_some()
    }

    /// An answer of several messages. A stream of a legacy server that is cut goes on where it was, if the server marks
    /// its events.
    async fn stream(&self, answer: Answer, session: &Session) -> Result<Next> {
        let mut backoff = StreamBackoff::default();
        let mut stream = EventStream::new(answer.body, self.transport.endpoint.limits());
        let mut opened = now();
        let mut last_id: Option<String> = None;
        loop {
            let mut stray = None;
            let end = stream.messages(|taken| self.read(taken, &mut stray)).await;
            if let Some(error) = stray {
                return Err(error);
            }
            let problem = match end {
                End::Enough => {
                    self.transport.endpoint.target.wire.drain(stream.into_body());
                    return Ok(Next::Done);
                }
                End::Endless => return Err(self.unreadable("an event exceeds the limit")),
                End::Cut(problem) => problem,
            };
            let problem = problem.unwrap_or_else(|| "the stream ended before the response".to_owned());
            last_id = stream.last_id().map(str::to_owned).or(last_id);
            let Some(after) = last_id.as_deref().filter(|_| !self.transport.endpoint.is_modern) else {
                return Err(self.cut(problem));
            };
            let mut lived = now().saturating_duration_since(opened);
            let wish = stream.retry();
            drop(stream);
            // The clocks of the call bound this.
            stream = loop {
                tokio::time::sleep(backoff.ended(lived, wish, jitter(), Cost::default())).await;
                let answer = self
                    .transport
                    .endpoint
                    .target
                    .wire
                    .send(|| self.transport.endpoint.stream(session, Some(after)))
                    .await;
                match answer {
                    Ok(answer) if is_events(&answer) => {
                        break EventStream::new(answer.body, self.transport.endpoint.limits());
                    }
                    Ok(answer) if answer.status.is_server_error() => {}
                    Ok(answer) => {
                        let problem =
                            format!("{problem}; resuming it failed with HTTP status {}", answer.status);
                        return Err(self.cut(problem));
                    }
                    Err(_) => {}
                }
                lived = Duration::ZERO;
            };
            opened = now();
        }
    }

    /// Anything else: a JSON-RPC error under any status, or no message at all.
    async fn refused(&self, answer: Answer, session: &Session, retry: &mut Retry) -> Result<Next> {
        let (status, body) = self.transport.endpoint.target.status(answer).await;
        let incoming = parse_bytes(&body, self.transport.endpoint.limits());
        // Under a good status the type of the body decides, and this one has another.
        if !(200..300).contains(&status.status)
            && let Ok(incoming @ Incoming::Message(Message::Response(response))) = &incoming
        {
            if session.id.is_some() && is_lost_session(&status, response) {
                match retry.handle_failure(&Failure::SessionRefused, self.deadline, now()) {
                    Decision::RenewSession => return Ok(Next::RenewSession),
                    Decision::GiveUpAndRenewSession => {
                        self.transport.begin_renewal(session, &self.connection);
                    }
                    _ => {}
                }
            }
            if status.retry_after.is_none() {
                let is_settled = self.deliver(incoming);
                return if is_settled { Ok(Next::Done) } else { Err(self.answer_to_somebody_else(incoming)) };
            }
        }
        Err(Error::Status { method: self.method.clone(), answer: Box::new(status) })
    }
}

/// True for the 400 by which servers refuse a session that they have forgotten, or want one that we have.
///
/// They name no request: whoever serves requests has not seen it.
fn is_lost_session(status: &HttpStatus, response: &Response<'_>) -> bool {
    let Response { id: None, outcome: Err(error) } = response else { return false };
    let is_generic = matches!(error.code, ErrorCode::Other(-32000));
    status.status == 400 && is_generic && error.message.to_ascii_lowercase().contains("session")
}

/// True for a stream of events.
pub(super) fn is_events(answer: &Answer) -> bool {
    answer.status == StatusCode::OK
        && answer.encoding().is_none()
        && answer.media_type().as_deref() == Some("text/event-stream")
}
