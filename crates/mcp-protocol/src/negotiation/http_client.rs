//! A client finds out the era and transport of a server behind a URL.
//!
//! Spec: MCP 2026-07-28, basic/transports/streamable-http.

use std::time::{Duration, Instant};

use super::judge::{Judge, Next, supported_versions};
use super::{NegotiationError, NegotiationResult, Terms};
use crate::capabilities::ClientCapabilities;
use crate::errors::{ErrorCode, ErrorObject};
use crate::limits::{FIRST_EVENT, LOGINS};
use crate::messages::{Message, Response};
use crate::version::ProtocolVersion;
use crate::visible::Visible;

/// Finds out what stands behind a URL: a modern server, a legacy one, or the old HTTP+SSE pair.
///
/// **After every input, poll the action, then the deadline.** 401, 403, 408, 425, 429 and 5xx are never evidence.
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
    /// When all of it must be done; `None` if that lies beyond all time.
    budget: Option<Instant>,
    /// When the request in flight must be answered.
    deadline: Option<Instant>,
    /// Since when a person logs in; the clocks stand still meanwhile.
    logging_in: Option<Instant>,
    /// What is being asked was asked a second time, after an obstacle.
    retried: bool,
    logins: u8,
    probe_status: u16,
    initialize_status: u16,
    /// The handshake goes to the endpoint of an HTTP+SSE pair.
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

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HttpAction {
    /// POST `server/discover` as a modern request in this version.
    Probe {
        /// The version of the envelope and the header.
        version: ProtocolVersion,
    },
    /// Say with [`HttpClient::handle_declared`] whether these capabilities can be declared too.
    Declare(Box<ClientCapabilities>),
    /// POST `initialize`, offering this version; to the endpoint of the stream if one was opened.
    Initialize {
        /// The version to offer.
        version: ProtocolVersion,
    },
    /// GET the URL as an event stream, and report its first event.
    OpenStream,
    /// Log in, then say with [`HttpClient::handle_login`] how it went.
    LogIn {
        /// 401, or 403 with a scope that is missing.
        status: u16,
    },
    /// Wait, then say so with [`HttpClient::handle_waited`]; the same request is made again.
    Wait {
        /// How long, if the server said so. Never longer than what is left of the budget.
        retry_after: Option<Duration>,
    },
    /// It is settled. A legacy server is still to get `notifications/initialized`.
    Settled(Box<NegotiationResult>),
    /// It failed.
    Failed(NegotiationError),
}

/// What answered a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpAnswer<'a> {
    /// The status.
    pub status: u16,
    /// The JSON-RPC response, from a JSON body or an event stream, if there was one.
    pub response: Option<Response<'a>>,
    /// `Retry-After`, if it was sent.
    pub retry_after: Option<Duration>,
    /// A 403 whose challenge names a scope that is missing.
    pub is_scope_challenge: bool,
    /// `Location`, if it was sent.
    pub location: Option<&'a str>,
    /// For a GET: the type of the stream's first event; `None` if there was no event stream or no event.
    pub first_event: Option<&'a str>,
}

impl<'a> HttpAnswer<'a> {
    /// An answer with this status and no body that matters.
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

    /// With this message in its body. Only a response counts.
    #[must_use]
    pub fn message(mut self, message: Message<'a>) -> Self {
        if let Message::Response(response) = message {
            self.response = Some(response);
        }
        self
    }

    /// With `Retry-After`.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// With a challenge for more scope.
    #[must_use]
    pub fn scope_challenge(mut self) -> Self {
        self.is_scope_challenge = true;
        self
    }

    /// With `Location`.
    #[must_use]
    pub fn location(mut self, location: &'a str) -> Self {
        self.location = Some(location);
        self
    }

    /// With an event stream whose first event has this type.
    #[must_use]
    pub fn first_event(mut self, kind: &'a str) -> Self {
        self.first_event = Some(kind);
        self
    }
}

/// What stood in the way; says nothing about the era.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// The login did not succeed.
    #[error("authorization failed")]
    Login,
    /// 403.
    #[error("forbidden (status 403)")]
    Forbidden,
    /// A status that asks for patience: a second time, or for more than there is.
    #[error("server busy (status {status}); retry {}", later(.retry_after))]
    Busy {
        /// 408, 425, 429, 502, 503 or 504.
        status: u16,
        /// How long the server wants to be left alone, if it said so.
        retry_after: Option<Duration>,
    },
    /// The server failed.
    #[error("server error (status {status})")]
    Broken {
        /// Another 5xx.
        status: u16,
    },
    /// A redirect that the transport did not follow: another web origin, another method, or too many.
    #[error("redirected (status {status}){}; configure the new URL if you trust it", to(.location))]
    Redirect {
        /// 3xx.
        status: u16,
        /// The new URL, if one was given.
        location: Option<String>,
    },
    /// No answer at all.
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
    /// A negotiation with whatever is behind a URL.
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

    /// Takes in what answered the last request.
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

    /// Takes in that no answer came: DNS, TCP or TLS failed, or the connection closed.
    pub fn handle_network_failure(&mut self) {
        if self.state != State::Done {
            self.fail(NegotiationError::Http(Obstacle::Network));
        }
    }

    /// Takes in whether the login succeeded; then the same request is made again.
    pub fn handle_login(&mut self, succeeded: bool, now: Instant) {
        let Some(since) = self.logging_in.take() else { return };
        // A person took that time, not the server.
        let spent = now.saturating_duration_since(since);
        self.budget = self.budget.and_then(|budget| budget.checked_add(spent));
        if succeeded { self.again(now) } else { self.fail(NegotiationError::Http(Obstacle::Login)) }
    }

    /// Takes in that the wait is over; then the same request is made again.
    pub fn handle_waited(&mut self, now: Instant) {
        self.again(now);
    }

    /// Takes in whether the capabilities that were asked for can be declared.
    pub fn handle_declared(&mut self, declared: bool, now: Instant) {
        let State::Declaring { version, refused } = self.state.clone() else { return };
        if declared {
            self.judge.declared = true;
            self.go(Next::Probe(version), now);
        } else {
            self.fail(NegotiationError::Refused(refused));
        }
    }

    /// Takes in the time. Early and repeated calls do nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_none_or(|due| now < due) {
            return;
        }
        if self.state == State::OpeningStream {
            // A stream that says nothing is no HTTP+SSE server.
            self.no_endpoint(0);
        } else {
            self.handle_network_failure();
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due: the probe has its share of the budget, the first
    /// event of a stream 10 s, and everything together the budget. None while a person logs in.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.state == State::Done || self.logging_in.is_some() {
            return None;
        }
        self.deadline.into_iter().chain(self.budget).min()
    }

    /// What to do next. Each action is given once.
    #[must_use]
    pub fn poll_action(&mut self) -> Option<HttpAction> {
        self.action.take()
    }

    /// True if the answer is no evidence and was handled: a login is needed, access is denied, or the server is busy or broken.
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

    /// Rows 1 to 9 and 12.
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

    /// Rows 17 to 19.
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

    /// Rows 21, 22 and 24.
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
        if self.logins == LOGINS {
            self.fail(NegotiationError::Http(Obstacle::Login));
        } else {
            self.logins += 1;
            self.logging_in = Some(now);
            self.action = Some(HttpAction::LogIn { status });
        }
    }

    /// Makes the request of the state, and starts its clock.
    fn again(&mut self, now: Instant) {
        let (action, time) = match &self.state {
            State::Probing(version) => {
                (HttpAction::Probe { version: version.clone() }, Some(self.judge.terms.probe_time()))
            }
            State::Initializing(version) => (HttpAction::Initialize { version: version.clone() }, None),
            State::OpeningStream => (HttpAction::OpenStream, Some(FIRST_EVENT)),
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

/// Codes that only a modern server uses. -32601 under 404 is one too, but not for `server/discover`.
/// True for an answer to `initialize` that is worth reporting whatever its status: the error of a modern server, or one that
/// names the versions of a legacy server.
fn is_conclusive(error: &ErrorObject) -> bool {
    is_modern_evidence(error) || supported_versions(error).is_some()
}

fn is_modern_evidence(error: &ErrorObject) -> bool {
    matches!(
        error.code,
        ErrorCode::HeaderMismatch | ErrorCode::MissingClientCapability | ErrorCode::UnsupportedVersion
    )
}

#[cfg(test)]
mod tests;
