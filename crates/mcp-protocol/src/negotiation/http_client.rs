//! Client-side negotiation of the era and transport of a server at a URL.
//!
//! Spec: MCP 2026-07-28, basic/transports/streamable-http.

use std::time::{Duration, Instant};

use super::judge::{Judge, Next, supported_versions};
use super::{NegotiationError, NegotiationResult, Terms};
use crate::capabilities::ClientCapabilities;
use crate::errors::{ErrorCode, ErrorObject};
use crate::limits::{FIRST_EVENT_TIMEOUT, MAX_LOGINS};
use crate::messages::{Message, Response};
use crate::version::ProtocolVersion;
use crate::visible::Visible;

/// Determines the kind of server at a URL: modern, legacy, or the HTTP+SSE transport (2024-11-05).
///
/// **After every input, poll the action, then the deadline.** Status codes 401, 403, 408, 425, 429 and 5xx say nothing
/// about the era.
///
/// ```
/// use std::time::Instant;
/// use mcp_protocol::negotiation::{HttpAction, HttpAnswer, HttpClient, Terms};
///
/// let now = Instant::now();
/// let mut negotiation = HttpClient::new(Terms::default(), now);
/// assert!(matches!(negotiation.poll_action(), Some(HttpAction::Probe { .. })));
/// negotiation.handle_answer(&HttpAnswer::new(405), now);
/// assert!(matches!(negotiation.poll_action(), Some(HttpAction::Initialize { .. })));
/// ```
#[derive(Debug)]
pub struct HttpClient {
    judge: Judge,
    state: State,
    action: Option<HttpAction>,
    /// Deadline of the whole negotiation; `None` if it is not representable.
    budget: Option<Instant>,
    /// Deadline of the request in flight.
    deadline: Option<Instant>,
    /// Start of a login; timeouts are paused during it.
    logging_in: Option<Instant>,
    /// The current request was already retried.
    retried: bool,
    logins: u8,
    probe_status: u16,
    initialize_status: u16,
    /// The handshake uses the endpoint of the HTTP+SSE transport (2024-11-05).
    over_sse: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    Probing(ProtocolVersion),
    Declaring { version: ProtocolVersion, refused: ErrorObject },
    Initializing(ProtocolVersion),
    OpeningStream,
    Done,
}

/// An action for the driver.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HttpAction {
    /// POST `server/discover` as a modern request in this version.
    Probe {
        /// Version in the envelope and the header.
        version: ProtocolVersion,
    },
    /// Report with [`HttpClient::handle_declared`] whether these capabilities can be declared too.
    Declare(Box<ClientCapabilities>),
    /// POST `initialize` with this version; to the endpoint of the stream if one was opened.
    Initialize {
        /// Version to offer.
        version: ProtocolVersion,
    },
    /// GET the URL as an event stream and report its first event.
    OpenStream,
    /// Log in, then report the outcome with [`HttpClient::handle_login`].
    LogIn {
        /// 401, or 403 with a missing scope.
        status: u16,
    },
    /// Wait, then call [`HttpClient::handle_waited`]; the request is retried.
    Wait {
        /// `Retry-After`, if the server sent it. At most the rest of the budget.
        retry_after: Option<Duration>,
    },
    /// The negotiation succeeded. For a legacy server, send `notifications/initialized`.
    Settled(Box<NegotiationResult>),
    /// The negotiation failed.
    Failed(NegotiationError),
}

/// The HTTP response to a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpAnswer<'a> {
    /// HTTP status.
    pub status: u16,
    /// The JSON-RPC response, from a JSON body or an event stream, if there was one.
    pub response: Option<Response<'a>>,
    /// `Retry-After`, if present.
    pub retry_after: Option<Duration>,
    /// True for a 403 whose challenge names a missing scope.
    pub is_scope_challenge: bool,
    /// `Location`, if present.
    pub location: Option<&'a str>,
    /// For a GET: type of the stream's first event; `None` if there was no event stream or no event.
    pub first_event: Option<&'a str>,
}

impl<'a> HttpAnswer<'a> {
    /// Creates a response with this status and without a relevant body.
    #[must_use]
    pub fn new(status: u16) -> Self {
        Self {
            status,
            response: None,
            retry_after: None,
            is_scope_challenge: false,
            location: None,
            first_event: None,
        }
    }

    /// Sets the message in the body. Only a response is used.
    #[must_use]
    pub fn message(mut self, message: Message<'a>) -> Self {
        if let Message::Response(response) = message {
            self.response = Some(response);
        }
        self
    }

    /// Sets `Retry-After`.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// Marks the response as a challenge for a missing scope.
    #[must_use]
    pub fn scope_challenge(mut self) -> Self {
        self.is_scope_challenge = true;
        self
    }

    /// Sets `Location`.
    #[must_use]
    pub fn location(mut self, location: &'a str) -> Self {
        self.location = Some(location);
        self
    }

    /// Sets the type of the first event of the stream.
    #[must_use]
    pub fn first_event(mut self, kind: &'a str) -> Self {
        self.first_event = Some(kind);
        self
    }
}

/// Reason why an HTTP request failed; the era is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// Authorization failed.
    #[error("authorization failed")]
    Login,
    /// Status 403.
    #[error("forbidden (status 403)")]
    Forbidden,
    /// The server is busy: the retry failed too, or `Retry-After` exceeds the budget.
    #[error("server busy (status {status}); retry {}", later(.retry_after))]
    Busy {
        /// 408, 425, 429, 502, 503 or 504.
        status: u16,
        /// `Retry-After`, if the server sent it.
        retry_after: Option<Duration>,
    },
    /// The server failed with an internal error.
    #[error("server error (status {status})")]
    Broken {
        /// Another 5xx.
        status: u16,
    },
    /// A redirect that the transport did not follow: another origin, another method, or too many.
    #[error("redirected (status {status}){}; configure the new URL if you trust it", to(.location))]
    Redirect {
        /// 3xx.
        status: u16,
        /// The new URL, if present.
        location: Option<String>,
    },
    /// No response.
    #[error("no response")]
    Network,
}

fn later(wait: &Option<Duration>) -> String {
    wait.map_or_else(|| "later".to_owned(), |wait| format!("after {} s", wait.as_secs()))
}

fn to(location: &Option<String>) -> String {
    location.as_ref().map(|location| format!(" to \"{}\"", Visible::message(location))).unwrap_or_default()
}

impl HttpClient {
    /// Creates a negotiation with the server at a URL.
    #[must_use]
    pub fn new(terms: Terms, now: Instant) -> Self {
        let budget = now.checked_add(terms.budget);
        let mut negotiation = Self {
            judge: Judge { many: true, ..Judge::new(terms) },
            state: State::Done,
            action: None,
            budget,
            deadline: None,
            logging_in: None,
            retried: false,
            logins: 0,
            probe_status: 0,
            initialize_status: 0,
            over_sse: false,
        };
        let first = negotiation.judge.first();
        negotiation.go(first, now);
        negotiation
    }

    /// Handles the response to the last request.
    pub fn handle_answer(&mut self, answer: &HttpAnswer<'_>, now: Instant) {
        if self.obstacle(answer, now) {
            return;
        }
        self.retried = false;
        match self.state {
            State::Probing(_) => {
                self.probe_status = answer.status;
                let next = self.probe_answer(answer);
                self.go(next, now);
            }
            State::Initializing(_) => {
                self.initialize_status = answer.status;
                self.initialize_answer(answer, now);
            }
            State::OpeningStream => self.stream_answer(answer, now),
            State::Declaring { .. } | State::Done => {}
        }
    }

    /// Handles a request without a response: DNS, TCP or TLS failed, or the connection closed.
    pub fn handle_network_failure(&mut self) {
        if self.state != State::Done {
            self.fail(NegotiationError::Http(Obstacle::Network));
        }
    }

    /// Handles the outcome of a login; the request is then retried.
    pub fn handle_login(&mut self, succeeded: bool, now: Instant) {
        let Some(since) = self.logging_in.take() else { return };
        // The time that the user took for the login does not count.
        let spent = now.saturating_duration_since(since);
        self.budget = self.budget.and_then(|budget| budget.checked_add(spent));
        if succeeded { self.again(now) } else { self.fail(NegotiationError::Http(Obstacle::Login)) }
    }

    /// Handles the end of a wait; the request is then retried.
    pub fn handle_waited(&mut self, now: Instant) {
        self.again(now);
    }

    /// Handles the driver's report whether the requested capabilities can be declared.
    pub fn handle_declared(&mut self, declared: bool, now: Instant) {
        let State::Declaring { version, refused } = self.state.clone() else { return };
        if declared {
            self.judge.declared = true;
            self.go(Next::Probe(version), now);
        } else {
            self.fail(NegotiationError::Refused(refused));
        }
    }

    /// Handles the passage of time. Early and repeated calls have no effect.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_none_or(|due| now < due) {
            return;
        }
        if self.state == State::OpeningStream {
            // A stream without an event is not the HTTP+SSE transport (2024-11-05).
            self.no_endpoint(0);
        } else {
            self.handle_network_failure();
        }
    }

    /// Returns the time at which to call [`handle_timeout`](Self::handle_timeout): the probe has its share of the
    /// budget, the first event of a stream 10 s, and the negotiation the whole budget. Returns `None` during a login.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.state == State::Done || self.logging_in.is_some() {
            return None;
        }
        self.deadline.into_iter().chain(self.budget).min()
    }

    /// Returns the next action. Each action is returned once.
    #[must_use]
    pub fn poll_action(&mut self) -> Option<HttpAction> {
        self.action.take()
    }

    /// Handles responses that say nothing about the era (login required, access denied, server busy or failing);
    /// returns true for them.
    fn obstacle(&mut self, answer: &HttpAnswer<'_>, now: Instant) -> bool {
        match answer.status {
            _ if self.state == State::Done => {}
            401 => self.log_in(answer.status, now),
            403 if answer.is_scope_challenge => self.log_in(answer.status, now),
            403 => self.fail(NegotiationError::Http(Obstacle::Forbidden)),
            status @ (408 | 425 | 429 | 502 | 503 | 504) => {
                if self.retried || !self.has_time_for(answer.retry_after, now) {
                    let retry_after = answer.retry_after;
                    self.fail(NegotiationError::Http(Obstacle::Busy { status, retry_after }));
                } else {
                    self.retried = true;
                    self.deadline = None;
                    self.action = Some(HttpAction::Wait { retry_after: answer.retry_after });
                }
            }
            status @ 500..=599 => self.fail(NegotiationError::Http(Obstacle::Broken { status })),
            status @ 300..=399 => {
                let location = answer.location.map(str::to_owned);
                self.fail(NegotiationError::Http(Obstacle::Redirect { status, location }));
            }
            _ => return false,
        }
        true
    }

    fn has_time_for(&self, wait: Option<Duration>, now: Instant) -> bool {
        let end = wait.map_or(Some(now), |wait| now.checked_add(wait));
        self.budget.is_none_or(|budget| end.is_some_and(|end| end < budget))
    }

    /// Handles the response to `server/discover`.
    fn probe_answer(&mut self, answer: &HttpAnswer<'_>) -> Next {
        match (answer.status, answer.response.as_ref().map(|response| &response.outcome)) {
            (200, Some(Ok(result))) => self.judge.result(result),
            (200 | 400..=499, Some(Err(error))) if is_modern_evidence(error) => self.judge.error(error),
            (_, Some(Err(error))) => {
                self.judge.probe_error = Some(error.clone());
                self.judge.legacy()
            }
            _ => self.judge.legacy(),
        }
    }

    /// Handles the response to `initialize`.
    fn initialize_answer(&mut self, answer: &HttpAnswer<'_>, now: Instant) {
        let next = match (answer.status, answer.response.as_ref().map(|response| &response.outcome)) {
            (200..=299, Some(Ok(result))) => self.judge.initialized(result, false),
            (200..=299, Some(Err(error))) => self.judge.initialize_error(error),
            (400..=499, Some(Err(error))) if is_conclusive(error) => self.judge.initialize_error(error),
            (400 | 404 | 405 | 406 | 410 | 415 | 422, _) if !self.over_sse => {
                self.state = State::OpeningStream;
                self.again(now);
                return;
            }
            (_, Some(Err(error))) => self.judge.initialize_error(error),
            _ => self.judge.handshake_failed(super::HandshakeFailure::Unreadable),
        };
        self.go(next, now);
    }

    /// Handles the response to GET.
    fn stream_answer(&mut self, answer: &HttpAnswer<'_>, now: Instant) {
        if answer.status == 200 && answer.first_event == Some("endpoint") {
            self.over_sse = true;
            let next = self.judge.legacy();
            self.go(next, now);
        } else {
            self.no_endpoint(if answer.status == 200 { 0 } else { answer.status });
        }
    }

    fn no_endpoint(&mut self, get: u16) {
        let (probe, initialize) = (self.probe_status, self.initialize_status);
        self.fail(NegotiationError::NoEndpoint { probe, initialize, get });
    }

    fn log_in(&mut self, status: u16, now: Instant) {
        if self.logins == MAX_LOGINS {
            self.fail(NegotiationError::Http(Obstacle::Login));
        } else {
            self.logins += 1;
            self.logging_in = Some(now);
            self.action = Some(HttpAction::LogIn { status });
        }
    }

    /// Sends the request of the current state and starts its timeout.
    fn again(&mut self, now: Instant) {
        let (action, time) = match &self.state {
            State::Probing(version) => {
                (HttpAction::Probe { version: version.clone() }, Some(self.judge.terms.probe_time()))
            }
            State::Initializing(version) => (HttpAction::Initialize { version: version.clone() }, None),
            State::OpeningStream => (HttpAction::OpenStream, Some(FIRST_EVENT_TIMEOUT)),
            State::Declaring { .. } | State::Done => return,
        };
        self.deadline = time.and_then(|time| now.checked_add(time));
        self.action = Some(action);
    }

    fn go(&mut self, next: Next, now: Instant) {
        match next {
            Next::Probe(version) => {
                self.over_sse = false;
                self.judge.probed = Some(version.clone());
                self.state = State::Probing(version);
                self.again(now);
            }
            Next::Initialize(version) => {
                self.state = State::Initializing(version);
                self.again(now);
            }
            Next::Declare(required, refused) => {
                if let State::Probing(version) = self.state.clone() {
                    self.state = State::Declaring { version, refused };
                    self.action = Some(HttpAction::Declare(required));
                }
            }
            Next::Settled(negotiation) => {
                self.state = State::Done;
                self.action = Some(HttpAction::Settled(negotiation));
            }
            Next::Failed(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: NegotiationError) {
        self.state = State::Done;
        self.action = Some(HttpAction::Failed(error));
    }
}

/// Returns true for an error response to `initialize` that is reported whatever the HTTP status: one of a modern
/// server, or one that lists the versions of a legacy server.
fn is_conclusive(error: &ErrorObject) -> bool {
    is_modern_evidence(error) || supported_versions(error).is_some()
}

/// Returns true for codes that only modern servers use. -32601 with 404 is one too, but not for `server/discover`.
fn is_modern_evidence(error: &ErrorObject) -> bool {
    matches!(
        error.code,
        ErrorCode::HeaderMismatch | ErrorCode::MissingClientCapability | ErrorCode::UnsupportedVersion
    )
}

#[cfg(test)]
mod tests;
