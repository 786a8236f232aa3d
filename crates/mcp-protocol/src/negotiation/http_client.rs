//! Client-side negotiation of the era and transport of a server at a URL.
//!
//! Spec: MCP 2026-07-28, basic/transports/streamable-http.

use std::time::{Duration, Instant};

use super::era_detection::{EraDetection, NegotiationStep, supported_versions};
use super::{NegotiationError, NegotiationOptions, NegotiationResult};
use crate::capabilities::ClientCapabilities;
use crate::errors::{ErrorCode, ErrorObject};
use crate::limits::{FIRST_EVENT_TIMEOUT, MAX_LOGINS};
use crate::messages::{Message, Response};
use crate::safe_text::SafeText;
use crate::version::ProtocolVersion;

/// Determines the kind of server at a URL: modern, legacy, or the HTTP+SSE transport (2024-11-05).
///
/// **After every input, poll the action, then the deadline.** Status codes 401, 403, 408, 425, 429 and 5xx say nothing
/// about the era.
///
/// ```
/// use std::time::Instant;
/// use mcp_protocol::negotiation::{HttpAction, NegotiationResponse, HttpClientNegotiation, NegotiationOptions};
///
/// let now = Instant::now();
/// let mut negotiation = HttpClientNegotiation::new(NegotiationOptions::default(), now);
/// assert!(matches!(negotiation.poll_action(), Some(HttpAction::Probe { .. })));
/// negotiation.handle_response(&NegotiationResponse::new(405), now);
/// assert!(matches!(negotiation.poll_action(), Some(HttpAction::Initialize { .. })));
/// ```
#[derive(Debug)]
pub struct HttpClientNegotiation {
    detection: EraDetection,
    state: HttpNegotiationState,
    action: Option<HttpAction>,
    /// Deadline of the whole negotiation; `None` if an `Instant` cannot represent it.
    negotiation_deadline: Option<Instant>,
    /// Deadline of the request in flight.
    request_deadline: Option<Instant>,
    /// Time at which the current login started. Timeouts are paused during a login.
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
enum HttpNegotiationState {
    Probing(ProtocolVersion),
    Declaring { version: ProtocolVersion, rejection: ErrorObject },
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
    /// The server requires these capabilities. Check whether the client has them, and call
    /// [`HttpClientNegotiation::handle_declared`] with the answer.
    Declare(Box<ClientCapabilities>),
    /// POST `initialize` with this version. If an event stream was opened, POST to the endpoint that it named.
    Initialize {
        /// Version to offer.
        version: ProtocolVersion,
    },
    /// GET the URL as an event stream, and report its first event with [`HttpClientNegotiation::handle_response`].
    OpenStream,
    /// Log in, then report the outcome with [`HttpClientNegotiation::handle_login`].
    LogIn {
        /// HTTP status: 401, or 403 if a scope is missing.
        status: u16,
    },
    /// Wait, then call [`HttpClientNegotiation::handle_waited`], which retries the request.
    Wait {
        /// `Retry-After`, which is less than the time left for the negotiation. If it is `None`, the driver chooses the
        /// time.
        retry_after: Option<Duration>,
    },
    /// The negotiation succeeded. For a legacy server, send `notifications/initialized`.
    Succeeded(Box<NegotiationResult>),
    /// The negotiation failed.
    Failed(NegotiationError),
}

/// The HTTP response to a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NegotiationResponse<'a> {
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

impl<'a> NegotiationResponse<'a> {
    /// Creates a response with this status, without headers and without a message.
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

    /// Sets the JSON-RPC message in the body. Requests and notifications are ignored.
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

/// Reason why an HTTP request failed. Such a failure says nothing about the era of the server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpFailure {
    /// Authorization failed.
    #[error("authorization failed")]
    Unauthorized,
    /// Status 403.
    #[error("forbidden (status 403)")]
    Forbidden,
    /// The server is busy: the retry failed too, or `Retry-After` exceeds the time left.
    #[error("server busy (status {status}); retry {}", later(.retry_after))]
    Busy {
        /// HTTP status: 408, 425, 429, 502, 503 or 504.
        status: u16,
        /// `Retry-After`, if the server sent it.
        retry_after: Option<Duration>,
    },
    /// The server failed with an internal error.
    #[error("server error (status {status})")]
    ServerError {
        /// HTTP status: a 5xx other than 502, 503 and 504.
        status: u16,
    },
    /// A redirect that the transport did not follow: it leads to another origin, it changes the method, or there were
    /// too many.
    #[error("redirected (status {status}){}; configure the new URL if you trust it", to(.location))]
    Redirect {
        /// HTTP status: 3xx.
        status: u16,
        /// The new URL, if present.
        location: Option<String>,
    },
    /// The connection failed before a complete response arrived.
    #[error("connection failed before a complete response arrived")]
    Network,
    /// The server did not respond in time.
    #[error("timed out waiting for the response")]
    Timeout,
}

fn later(wait: &Option<Duration>) -> String {
    wait.map_or_else(|| "later".to_owned(), |wait| format!("after {} s", wait.as_secs()))
}

fn to(location: &Option<String>) -> String {
    location.as_ref().map(|location| format!(" to \"{}\"", SafeText::message(location))).unwrap_or_default()
}

impl HttpClientNegotiation {
    /// Creates a negotiation with the server at a URL.
    #[must_use]
    pub fn new(options: NegotiationOptions, now: Instant) -> Self {
        let negotiation_deadline = now.checked_add(options.timeout);
        let mut negotiation = Self {
            detection: EraDetection { may_reach_another_server: true, ..EraDetection::new(options) },
            state: HttpNegotiationState::Done,
            action: None,
            negotiation_deadline,
            request_deadline: None,
            logging_in: None,
            retried: false,
            logins: 0,
            probe_status: 0,
            initialize_status: 0,
            over_sse: false,
        };
        let first = negotiation.detection.first();
        negotiation.go(first, now);
        negotiation
    }

    /// Handles the response to the last request.
    pub fn handle_response(&mut self, answer: &NegotiationResponse<'_>, now: Instant) {
        if self.http_failure(answer, now) {
            return;
        }
        self.retried = false;
        match self.state {
            HttpNegotiationState::Probing(_) => {
                self.probe_status = answer.status;
                let next = self.probe_answer(answer);
                self.go(next, now);
            }
            HttpNegotiationState::Initializing(_) => {
                self.initialize_status = answer.status;
                self.initialize_answer(answer, now);
            }
            HttpNegotiationState::OpeningStream => self.stream_answer(answer, now),
            HttpNegotiationState::Declaring { .. } | HttpNegotiationState::Done => {}
        }
    }

    /// Handles a request without a response: DNS, TCP or TLS failed, or the connection closed.
    pub fn handle_network_failure(&mut self) {
        if self.state != HttpNegotiationState::Done {
            self.fail(NegotiationError::Http(HttpFailure::Network));
        }
    }

    /// Handles the end of a login. If it succeeded, the request is retried; otherwise the negotiation fails.
    pub fn handle_login(&mut self, succeeded: bool, now: Instant) {
        let Some(since) = self.logging_in.take() else { return };
        // The time that the user took for the login does not count toward the timeout.
        let spent = now.saturating_duration_since(since);
        self.negotiation_deadline =
            self.negotiation_deadline.and_then(|deadline| deadline.checked_add(spent));
        if succeeded { self.again(now) } else { self.fail(NegotiationError::Http(HttpFailure::Unauthorized)) }
    }

    /// Handles the end of a wait and retries the request.
    pub fn handle_waited(&mut self, now: Instant) {
        self.again(now);
    }

    /// Handles the reply to [`HttpAction::Declare`]. If `declared` is true, the server is probed again; otherwise the
    /// negotiation fails.
    pub fn handle_declared(&mut self, declared: bool, now: Instant) {
        let HttpNegotiationState::Declaring { version, rejection } = self.state.clone() else { return };
        if declared {
            self.detection.declared = true;
            self.go(NegotiationStep::Probe(version), now);
        } else {
            self.fail(NegotiationError::Rejected(rejection));
        }
    }

    /// Handles the deadlines that have passed at `now`. Has no effect if none has, so it may be called at any time.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_none_or(|due| now < due) {
            return;
        }
        if self.state == HttpNegotiationState::OpeningStream {
            // A stream that sends no event in time does not belong to the HTTP+SSE transport (2024-11-05).
            self.no_endpoint(0);
        } else {
            self.fail(NegotiationError::Http(HttpFailure::Timeout));
        }
    }

    /// Returns the time at which to call [`handle_timeout`](Self::handle_timeout). It is the earliest of three
    /// deadlines: that of the probe, that of the first event of a stream (10 s), and that of the whole negotiation.
    /// Returns `None` during a login and after the end of the negotiation.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.state == HttpNegotiationState::Done || self.logging_in.is_some() {
            return None;
        }
        self.request_deadline.into_iter().chain(self.negotiation_deadline).min()
    }

    /// Returns the next action. Each action is returned once.
    #[must_use]
    pub fn poll_action(&mut self) -> Option<HttpAction> {
        self.action.take()
    }

    /// Handles responses that say nothing about the era (login required, access denied, redirect, server busy or
    /// failing). Returns true if the response was one of these, or if the negotiation is over.
    fn http_failure(&mut self, answer: &NegotiationResponse<'_>, now: Instant) -> bool {
        match answer.status {
            _ if self.state == HttpNegotiationState::Done => {}
            401 => self.log_in(answer.status, now),
            403 if answer.is_scope_challenge => self.log_in(answer.status, now),
            403 => self.fail(NegotiationError::Http(HttpFailure::Forbidden)),
            status @ (408 | 425 | 429 | 502 | 503 | 504) => {
                if self.retried || !self.has_time_for(answer.retry_after, now) {
                    let retry_after = answer.retry_after;
                    self.fail(NegotiationError::Http(HttpFailure::Busy { status, retry_after }));
                } else {
                    self.retried = true;
                    self.request_deadline = None;
                    self.action = Some(HttpAction::Wait { retry_after: answer.retry_after });
                }
            }
            status @ 500..=599 => self.fail(NegotiationError::Http(HttpFailure::ServerError { status })),
            status @ 300..=399 => {
                let location = answer.location.map(str::to_owned);
                self.fail(NegotiationError::Http(HttpFailure::Redirect { status, location }));
            }
            _ => return false,
        }
        true
    }

    fn has_time_for(&self, wait: Option<Duration>, now: Instant) -> bool {
        let end = wait.map_or(Some(now), |wait| now.checked_add(wait));
        self.negotiation_deadline.is_none_or(|deadline| end.is_some_and(|end| end < deadline))
    }

    /// Handles the response to `server/discover`.
    fn probe_answer(&mut self, answer: &NegotiationResponse<'_>) -> NegotiationStep {
        match (answer.status, answer.response.as_ref().map(|response| &response.outcome)) {
            (200, Some(Ok(result))) => self.detection.result(result),
            (200 | 400..=499, Some(Err(error))) if is_modern_evidence(error) => self.detection.error(error),
            (_, Some(Err(error))) => {
                self.detection.probe_error = Some(error.clone());
                self.detection.legacy()
            }
            _ => self.detection.legacy(),
        }
    }

    /// Handles the response to `initialize`.
    fn initialize_answer(&mut self, answer: &NegotiationResponse<'_>, now: Instant) {
        let next = match (answer.status, answer.response.as_ref().map(|response| &response.outcome)) {
            (200..=299, Some(Ok(result))) => self.detection.initialized(result, false),
            (200..=299, Some(Err(error))) => self.detection.initialize_error(error),
            (400..=499, Some(Err(error))) if is_conclusive(error) => self.detection.initialize_error(error),
            (400 | 404 | 405 | 406 | 410 | 415 | 422, _) if !self.over_sse => {
                self.state = HttpNegotiationState::OpeningStream;
                self.again(now);
                return;
            }
            (_, Some(Err(error))) => self.detection.initialize_error(error),
            _ => self.detection.handshake_failed(super::HandshakeFailure::InvalidResponse),
        };
        self.go(next, now);
    }

    /// Handles the response to GET.
    fn stream_answer(&mut self, answer: &NegotiationResponse<'_>, now: Instant) {
        if answer.status == 200 && answer.first_event == Some("endpoint") {
            self.over_sse = true;
            let next = self.detection.legacy();
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
            self.fail(NegotiationError::Http(HttpFailure::Unauthorized));
        } else {
            self.logins += 1;
            self.logging_in = Some(now);
            self.action = Some(HttpAction::LogIn { status });
        }
    }

    /// Sends the request of the current state and starts its timeout.
    fn again(&mut self, now: Instant) {
        let (action, time) = match &self.state {
            HttpNegotiationState::Probing(version) => (
                HttpAction::Probe { version: version.clone() },
                Some(self.detection.options.effective_probe_timeout()),
            ),
            HttpNegotiationState::Initializing(version) => {
                (HttpAction::Initialize { version: version.clone() }, None)
            }
            HttpNegotiationState::OpeningStream => (HttpAction::OpenStream, Some(FIRST_EVENT_TIMEOUT)),
            HttpNegotiationState::Declaring { .. } | HttpNegotiationState::Done => return,
        };
        self.request_deadline = time.and_then(|time| now.checked_add(time));
        self.action = Some(action);
    }

    fn go(&mut self, next: NegotiationStep, now: Instant) {
        match next {
            NegotiationStep::Probe(version) => {
                self.over_sse = false;
                self.detection.probed = Some(version.clone());
                self.state = HttpNegotiationState::Probing(version);
                self.again(now);
            }
            NegotiationStep::Initialize(version) => {
                self.state = HttpNegotiationState::Initializing(version);
                self.again(now);
            }
            NegotiationStep::Declare(required, rejection) => {
                if let HttpNegotiationState::Probing(version) = self.state.clone() {
                    self.state = HttpNegotiationState::Declaring { version, rejection };
                    self.action = Some(HttpAction::Declare(required));
                }
            }
            NegotiationStep::Succeeded(negotiation) => {
                self.state = HttpNegotiationState::Done;
                self.action = Some(HttpAction::Succeeded(negotiation));
            }
            NegotiationStep::Failed(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: NegotiationError) {
        self.state = HttpNegotiationState::Done;
        self.action = Some(HttpAction::Failed(error));
    }
}

/// Returns true for an error response to `initialize` that counts whatever the HTTP status is: it comes from a modern
/// server, or it lists the versions of a legacy server.
fn is_conclusive(error: &ErrorObject) -> bool {
    is_modern_evidence(error) || supported_versions(error).is_some()
}

/// Returns true for codes that only modern servers use. For most methods, -32601 with status 404 is also specific to
/// modern servers, but not for `server/discover`.
fn is_modern_evidence(error: &ErrorObject) -> bool {
    matches!(
        error.code,
        ErrorCode::HeaderMismatch | ErrorCode::MissingClientCapability | ErrorCode::UnsupportedVersion
    )
}

#[cfg(test)]
mod tests;
