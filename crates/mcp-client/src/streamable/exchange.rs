//! One request over HTTP, from sending it to its response.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use mcp_protocol::errors::{ErrorCode, MessageShape};
use mcp_protocol::messages::{Incoming, Message, Method, Response, parse_bytes};
use mcp_protocol::peer::CallHandle;
use mcp_protocol::retry::{Decision, Failure, Retry, Route};

use super::backoff::{Cost, StreamBackoff, jitter};
use super::events::{EventStream, ReadEnd, SseMessage, is_events};
use super::session::Session;
use super::target::{BodyRead, challenges, read_body, retry_after_of};
use super::tool_headers::RepeatedHeaders;
use super::transport::HttpTransport;
use crate::connection::transport::OutgoingRequest;
use crate::connection::{Connection, now};
use crate::error::{ConnectionEnd, EndCause, Error, HttpStatus, Result};
use crate::http::http_error::HttpError;
use crate::http::request::RawResponse;

/// One request. It is sent, and its response is read, while its caller polls [`run`](Self::run). Dropping that future
/// closes the response stream.
pub(super) struct Exchange {
    transport: Arc<HttpTransport>,
    connection: Arc<Connection>,
    call: CallHandle,
    method: Method,
    body: Bytes,
    /// The time at which the request times out.
    deadline: Option<Instant>,
}

/// The next step after a response.
enum NextStep {
    /// The call is settled, or its response will arrive on the event stream of the session.
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

    /// Sends the request until the call is settled. It is sent again only if the server refused it before executing it,
    /// and only once for each reason.
    pub(super) async fn run(self) -> Result<()> {
        let mut retry = Retry::new(&self.method, Route::Http);
        let repeated = match self.transport.endpoint.is_modern {
            true => self.transport.tool_headers.repeated(
                &self.method,
                &self.body,
                &self.transport.endpoint.target.own_limits,
            ),
            false => Ok(RepeatedHeaders::new()),
        };
        let repeated =
            repeated.map_err(|problem| Error::Unsendable { method: self.method.clone(), problem })?;
        loop {
            let session = self.transport.sessions.current();
            let next = match self.transport.endpoint.is_http_sse && session.sse_post_target.is_none() {
                true => self.stream_ended(&mut retry)?,
                false => self.send_once(&repeated, &session, &mut retry).await?,
            };
            match next {
                NextStep::Done => return Ok(()),
                NextStep::RenewSession => {
                    // Boxed because this path is rare: it keeps the common future small.
                    Box::pin(self.transport.renew_session(&session, &self.connection)).await?;
                }
                NextStep::Again(after) => tokio::time::sleep(after).await,
            }
        }
    }

    /// Decides what to do after a failure. Returns `None` if the request must not be sent again.
    fn decide(&self, retry: &mut Retry, failure: Failure) -> Option<NextStep> {
        match retry.handle_failure(&failure, self.deadline, now()) {
            Decision::RenewSession => Some(NextStep::RenewSession),
            Decision::Again { after } => Some(NextStep::Again(after)),
            _ => None,
        }
    }

    /// Decides what to do if the event stream of the HTTP+SSE transport has ended, and with it the session.
    fn stream_ended(&self, retry: &mut Retry) -> Result<NextStep> {
        let ended = || self.lost_error(HttpError::unsent("the event stream ended"));
        self.decide(retry, Failure::SessionUnknown).ok_or_else(ended)
    }

    async fn send_once(
        &self,
        repeated: &[(http::HeaderName, http::HeaderValue)],
        session: &Session,
        retry: &mut Retry,
    ) -> Result<NextStep> {
        if session.sse_post_target.is_some() {
            self.connection.lock().expect_response_on(self.call, Some(session.generation));
            // From here on, the end of the stream also settles this call.
            if !self.transport.sessions.is_open(session) {
                self.connection.lock().expect_response_on(self.call, None);
                return self.stream_ended(retry);
            }
        }
        let request = || self.transport.endpoint.message(repeated, &self.body, session);
        let answer = self
            .transport
            .endpoint
            .target
            .http
            .send(request)
            .await
            .map_err(|error| self.lost_error(error))?;
        let next = self.handle_response(answer, session, retry).await?;
        if session.sse_post_target.is_some() && !matches!(next, NextStep::Done) {
            self.connection.lock().expect_response_on(self.call, None);
        }
        Ok(next)
    }

    fn lost_error(&self, error: HttpError) -> Error {
        error.into_lost(self.method.clone())
    }

    /// Returns the error for a request that was sent, but whose response was lost.
    fn lost_response(&self, problem: String) -> Error {
        self.lost_error(HttpError::maybe_sent(problem))
    }

    fn count_unreadable(&self) {
        self.connection.lock().peer.count_unreadable(1);
    }

    fn unreadable(&self, problem: impl Into<String>) -> Error {
        Error::Unreadable { method: self.method.clone(), problem: problem.into() }
    }

    async fn handle_response(
        &self,
        mut answer: RawResponse,
        session: &Session,
        retry: &mut Retry,
    ) -> Result<NextStep> {
        match answer.status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let challenges = challenges(&answer.headers);
                let status = answer.status.as_u16();
                // Some servers respond with 401 if they do not know the session.
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
                let failure = Failure::TooManyRequests { retry_after: retry_after_of(&answer.headers) };
                if let Some(next) = self.decide(retry, failure) {
                    return Ok(next);
                }
            }
            status if status.is_success() && session.sse_post_target.is_some() => {
                self.transport.endpoint.target.http.drain(answer.body);
                // The response arrives on the event stream, if the stream is still open.
                let is_open = self.transport.sessions.is_open(session);
                return if is_open {
                    Ok(NextStep::Done)
                } else {
                    Err(self.lost_response("the stream ended".to_owned()))
                };
            }
            status if status.is_success() && answer.encoding().is_none() => {
                match answer.media_type().as_deref() {
                    Some("application/json") => return self.handle_json(&mut answer).await,
                    // Boxed, like everything below: these paths are rare, and the common future stays small.
                    Some("text/event-stream") => return Box::pin(self.handle_stream(answer, session)).await,
                    _ => {}
                }
            }
            _ => {}
        }
        Box::pin(self.handle_other(answer, session, retry)).await
    }

    /// Handles a response whose body is one message.
    async fn handle_json(&self, answer: &mut RawResponse) -> Result<NextStep> {
        let body = match read_body(&mut answer.body, self.transport.endpoint.limits().message).await {
            Ok(BodyRead::Complete(body)) => body,
            Ok(BodyRead::TooLong) => {
                let limit = self.transport.endpoint.limits().message;
                return Err(self.unreadable(format!("the body is longer than {limit} bytes")));
            }
            Err(error) => return Err(self.lost_error(error)),
        };
        if body.is_empty() {
            self.count_unreadable();
            return Err(self.unreadable("the body is empty"));
        }
        let incoming = parse_bytes(&body, self.transport.endpoint.limits()).map_err(|error| {
            self.count_unreadable();
            self.unreadable(error.to_string())
        })?;
        if self.deliver(&incoming) { Ok(NextStep::Done) } else { Err(self.unmatched(&incoming)) }
    }

    /// Handles a message. Returns true if the call of this exchange is settled.
    fn deliver(&self, incoming: &Incoming<'_>) -> bool {
        let mut inbound = self.transport.inbound();
        let mut state = self.connection.lock();
        inbound.handle_incoming(&self.connection, &mut state, incoming, now());
        let is_settled = !state.is_open(self.call);
        drop(state);
        if inbound.is_flood() {
            self.connection.end(ConnectionEnd { cause: EndCause::Flood, ..ConnectionEnd::default() });
        }
        is_settled
    }

    /// Returns the error if a response has another id. An error response without an id belongs to this request.
    fn unmatched(&self, incoming: &Incoming<'_>) -> Error {
        match incoming {
            Incoming::Message(Message::Response(Response { id: None, outcome: Err(error) })) => {
                Error::Refused { method: self.method.clone(), error: error.clone() }
            }
            _ => self.unreadable("the response has the id of another request"),
        }
    }

    /// Handles a message of a stream. Returns true if the stream can be closed. If the call is then not settled,
    /// `call_error` is its error.
    fn handle_event(&self, message: SseMessage<'_>, call_error: &mut Option<Error>) -> bool {
        let error = match message {
            SseMessage::Message(message) => match parse_bytes(message, self.transport.endpoint.limits()) {
                Ok(incoming) if self.deliver(&incoming) => return true,
                Ok(incoming) => {
                    let is_error = matches!(
                        &incoming,
                        Incoming::Message(Message::Response(Response { id: None, outcome: Err(_) }))
                    );
                    if is_error {
                        *call_error = Some(self.unmatched(&incoming));
                    }
                    return is_error;
                }
                Err(error) => error,
            },
            SseMessage::TooLong(error) => error,
        };
        self.count_unreadable();
        tracing::debug!(%error, "ignored an event that is not a JSON-RPC message");
        if error.id.as_ref() == Some(&self.call.id()) && error.shape != MessageShape::Request {
            *call_error = Some(self.unreadable(error.to_string()));
        }
        call_error.is_some()
    }

    /// Handles a response that is an event stream. If the stream of a legacy server breaks, it is resumed after the
    /// last event id.
    async fn handle_stream(&self, answer: RawResponse, session: &Session) -> Result<NextStep> {
        let mut backoff = StreamBackoff::default();
        let mut stream = EventStream::new(answer.body, self.transport.endpoint.limits());
        let mut opened = now();
        let mut last_id: Option<String> = None;
        loop {
            let mut call_error = None;
            let end = stream.messages(|message| self.handle_event(message, &mut call_error)).await;
            if let Some(error) = call_error {
                return Err(error);
            }
            let problem = match end {
                ReadEnd::Enough => {
                    self.transport.endpoint.target.http.drain(stream.into_body());
                    return Ok(NextStep::Done);
                }
                ReadEnd::TooLong => return Err(self.unreadable("an event is longer than the message limit")),
                ReadEnd::Cut(problem) => problem,
            };
            let problem = problem.unwrap_or_else(|| "the stream ended before the response".to_owned());
            last_id = stream.last_id().map(str::to_owned).or(last_id);
            let Some(after) = last_id.as_deref().filter(|_| !self.transport.endpoint.is_modern) else {
                return Err(self.lost_response(problem));
            };
            let mut lived = now().saturating_duration_since(opened);
            let wish = stream.retry();
            drop(stream);
            // This loop ends when the call times out.
            stream = loop {
                tokio::time::sleep(backoff.pause_after(lived, wish, jitter(), Cost::default())).await;
                let answer = self
                    .transport
                    .endpoint
                    .target
                    .http
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
                        return Err(self.lost_response(problem));
                    }
                    Err(_) => {}
                }
                lived = Duration::ZERO;
            };
            opened = now();
        }
    }

    /// Handles any other response: a JSON-RPC error with an error status, or a body that is not a message.
    async fn handle_other(
        &self,
        answer: RawResponse,
        session: &Session,
        retry: &mut Retry,
    ) -> Result<NextStep> {
        let (status, body) = self.transport.endpoint.target.read_status(answer).await;
        let incoming = parse_bytes(&body, self.transport.endpoint.limits());
        if incoming.is_err() && !body.is_empty() || status.content_encoding.is_some() {
            self.count_unreadable();
        }
        // A response with a successful status gets here only if it is compressed or its media type is unknown, so its
        // body is not used.
        if !(200..300).contains(&status.status)
            && let Ok(incoming @ Incoming::Message(Message::Response(response))) = &incoming
        {
            if session.id.is_some() && is_lost_session(&status, response) {
                match retry.handle_failure(&Failure::SessionRefused, self.deadline, now()) {
                    Decision::RenewSession => return Ok(NextStep::RenewSession),
                    Decision::GiveUpAndRenewSession => {
                        self.transport.begin_renewal(session, &self.connection);
                    }
                    _ => {}
                }
            }
            if status.retry_after.is_none() {
                let is_settled = self.deliver(incoming);
                return if is_settled { Ok(NextStep::Done) } else { Err(self.unmatched(incoming)) };
            }
        }
        Err(Error::Status { method: self.method.clone(), answer: Box::new(status) })
    }
}

/// Returns true for the response with status 400 that some servers send if they do not know the session. Such a
/// response has no request id, because the server refused the message before reading it.
fn is_lost_session(status: &HttpStatus, response: &Response<'_>) -> bool {
    let Response { id: None, outcome: Err(error) } = response else { return false };
    let is_generic = matches!(error.code, ErrorCode::Other(-32000));
    status.status == 400 && is_generic && error.message.to_ascii_lowercase().contains("session")
}
