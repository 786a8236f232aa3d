//! A client finds out the era and transport of a server behind a URL: spec §2.4.

use std::time::Duration;

use super::judge::{Judge, Next};
use super::{NegotiationError, Terms, Verdict};
use crate::capabilities::ClientCapabilities;
use crate::errors::{ErrorCode, ErrorObject};
use crate::limits::LOGINS;
use crate::messages::{Message, Response};
use crate::version::ProtocolVersion;

/// Finds out what stands behind a URL: a modern server, a legacy one, or the old HTTP+SSE pair.
///
/// **After every input, poll the action.** 401, 403, 408, 425, 429 and 5xx are never evidence.
///
/// ```
/// use mcp_protocol::negotiation::{HttpAction, HttpAnswer, HttpClient, Terms};
///
/// let mut negotiation = HttpClient::new(Terms::default());
/// assert!(matches!(negotiation.poll_action(), Some(HttpAction::Probe { .. })));
/// negotiation.handle_answer(&HttpAnswer::new(405));
/// assert!(matches!(negotiation.poll_action(), Some(HttpAction::Initialize { .. })));
/// ```
#[derive(Debug)]
pub struct HttpClient {
    judge: Judge,
    state: State,
    action: Option<HttpAction>,
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
    /// Wait, then do the same again with [`HttpClient::handle_waited`].
    Wait {
        /// How long, if the server said so.
        retry_after: Option<Duration>,
    },
    /// It is settled. A legacy server is still to get `notifications/initialized`.
    Settled(Box<Verdict>),
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
    /// For a GET: the type of the stream's first event; `None` if there was no event stream or no event.
    pub first_event: Option<&'a str>,
}

impl<'a> HttpAnswer<'a> {
    /// An answer with this status and no body that matters.
    #[must_use]
    pub fn new(status: u16) -> Self {
        Self { status, response: None, retry_after: None, is_scope_challenge: false, first_event: None }
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
    #[error("login needed")]
    Login,
    /// 403.
    #[error("refused with status 403")]
    Forbidden,
    /// A status that asks for patience, a second time.
    #[error("status {status}, also when asked again")]
    Busy {
        /// 408, 425, 429 or 5xx.
        status: u16,
    },
    /// A redirect that is not followed.
    #[error("redirected with status {status}; use the new URL if you trust it")]
    Redirect {
        /// 3xx.
        status: u16,
    },
    /// No answer at all.
    #[error("no answer")]
    Network,
}

impl HttpClient {
    /// A negotiation with whatever is behind a URL.
    #[must_use]
    pub fn new(terms: Terms) -> Self {
        let mut negotiation = Self {
            judge: Judge::new(terms),
            state: State::Done,
            action: None,
            retried: false,
            logins: 0,
            probe_status: 0,
            initialize_status: 0,
            over_sse: false,
        };
        let first = negotiation.judge.first();
        negotiation.go(first);
        negotiation
    }

    /// Takes in what answered the last request.
    pub fn handle_answer(&mut self, answer: &HttpAnswer<'_>) {
        if self.obstacle(answer) {
            return;
        }
        self.retried = false;
        match self.state {
            State::Probing(_) => {
                self.probe_status = answer.status;
                let next = self.probe_answer(answer);
                self.go(next);
            }
            State::Initializing(_) => {
                self.initialize_status = answer.status;
                self.initialize_answer(answer);
            }
            State::OpeningStream => self.stream_answer(answer),
            State::Declaring { .. } | State::Done => {}
        }
    }

    /// Takes in that no answer came: DNS, TCP or TLS failed, the time was over, the connection closed.
    pub fn handle_network_failure(&mut self) {
        if self.state != State::Done {
            self.fail(NegotiationError::Http(Obstacle::Network));
        }
    }

    /// Takes in whether the login succeeded; then the same request is made again.
    pub fn handle_login(&mut self, succeeded: bool) {
        if succeeded { self.again() } else { self.fail(NegotiationError::Http(Obstacle::Login)) }
    }

    /// Takes in that the wait is over; then the same request is made again.
    pub fn handle_waited(&mut self) {
        self.again();
    }

    /// Takes in whether the capabilities that were asked for can be declared.
    pub fn handle_declared(&mut self, declared: bool) {
        let State::Declaring { version, refused } = self.state.clone() else { return };
        if declared {
            self.judge.declared = true;
            self.go(Next::Probe(version));
        } else {
            self.fail(NegotiationError::Refused(refused));
        }
    }

    /// How long the request of the last action may take before [`handle_network_failure`](Self::handle_network_failure):
    /// the probe's share of the budget, or the budget, or 10 s for the first event of a stream.
    #[must_use]
    pub fn patience(&self) -> Duration {
        let terms = &self.judge.terms;
        match self.state {
            State::Probing(_) | State::OpeningStream => terms.probe_time(),
            State::Declaring { .. } | State::Initializing(_) | State::Done => terms.budget,
        }
    }

    /// What to do next. Each action is given once.
    #[must_use]
    pub fn poll_action(&mut self) -> Option<HttpAction> {
        self.action.take()
    }

    /// True if the answer is no evidence and was dealt with: rows 10, 11, 13, 14, 15.
    fn obstacle(&mut self, answer: &HttpAnswer<'_>) -> bool {
        match answer.status {
            _ if self.state == State::Done => {}
            401 => self.log_in(answer.status),
            403 if answer.is_scope_challenge => self.log_in(answer.status),
            403 => self.fail(NegotiationError::Http(Obstacle::Forbidden)),
            408 | 425 | 429 | 502 | 503 | 504 if !self.retried => {
                self.retried = true;
                self.action = Some(HttpAction::Wait { retry_after: answer.retry_after });
            }
            status @ (408 | 425 | 429 | 500..=599) => {
                self.fail(NegotiationError::Http(Obstacle::Busy { status }));
            }
            status @ 300..=399 => self.fail(NegotiationError::Http(Obstacle::Redirect { status })),
            _ => return false,
        }
        true
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
    fn initialize_answer(&mut self, answer: &HttpAnswer<'_>) {
        let next = match (answer.status, answer.response.as_ref().map(|response| &response.outcome)) {
            (200..=299, Some(Ok(result))) => self.judge.initialized(result, false),
            (200..=299, Some(Err(error))) => self.judge.initialize_error(error),
            (400..=499, Some(Err(error))) if is_modern_evidence(error) => self.judge.initialize_error(error),
            (400 | 404 | 405 | 406 | 410 | 415 | 422, _) if !self.over_sse => {
                self.state = State::OpeningStream;
                self.action = Some(HttpAction::OpenStream);
                return;
            }
            (_, Some(Err(error))) => self.judge.initialize_error(error),
            _ => self.judge.handshake_failed(super::HandshakeFailure::Unreadable),
        };
        self.go(next);
    }

    /// Rows 21, 22 and 24.
    fn stream_answer(&mut self, answer: &HttpAnswer<'_>) {
        if answer.status == 200 && answer.first_event == Some("endpoint") {
            self.over_sse = true;
            let next = self.judge.legacy();
            self.go(next);
            return;
        }
        let get = if answer.status == 200 { 0 } else { answer.status };
        self.fail(NegotiationError::NoEndpoint {
            probe: self.probe_status,
            initialize: self.initialize_status,
            get,
        });
    }

    fn log_in(&mut self, status: u16) {
        if self.logins == LOGINS {
            self.fail(NegotiationError::Http(Obstacle::Login));
        } else {
            self.logins += 1;
            self.action = Some(HttpAction::LogIn { status });
        }
    }

    fn again(&mut self) {
        self.action = match &self.state {
            State::Probing(version) => Some(HttpAction::Probe { version: version.clone() }),
            State::Initializing(version) => Some(HttpAction::Initialize { version: version.clone() }),
            State::OpeningStream => Some(HttpAction::OpenStream),
            State::Declaring { .. } | State::Done => None,
        };
    }

    fn go(&mut self, next: Next) {
        match next {
            Next::Probe(version) => {
                self.over_sse = false;
                self.judge.probed = Some(version.clone());
                self.state = State::Probing(version);
                self.again();
            }
            Next::Initialize(version) => {
                self.state = State::Initializing(version);
                self.again();
            }
            Next::Declare(required, refused) => {
                if let State::Probing(version) = self.state.clone() {
                    self.state = State::Declaring { version, refused };
                    self.action = Some(HttpAction::Declare(required));
                }
            }
            Next::Settled(verdict) => {
                self.state = State::Done;
                self.action = Some(HttpAction::Settled(verdict));
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
fn is_modern_evidence(error: &ErrorObject) -> bool {
    matches!(
        error.code,
        ErrorCode::HeaderMismatch | ErrorCode::MissingClientCapability | ErrorCode::UnsupportedVersion
    )
}

#[cfg(test)]
mod tests;
