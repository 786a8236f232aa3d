//! Client-side negotiation of the era of a server on stdio.
//!
//! Spec: MCP 2026-07-28, basic/transports/stdio.

use std::time::Instant;

use super::judge::{Judge, Next};
use super::{HandshakeFailure, NegotiationError, NegotiationResult, ServerAnswer, Terms};
use crate::capabilities::ClientCapabilities;
use crate::errors::{DecodeError, ErrorObject};
use crate::limits::Limits;
use crate::messages::{Batch, Id, Message, Response};
use crate::version::ProtocolVersion;

/// Determines the era of a newly started server.
///
/// **After every input, poll the actions until there are none, then the deadline.** The last action is
/// [`StdioAction::Settled`] or [`StdioAction::Failed`].
///
/// ```
/// use std::time::Instant;
/// use mcp_protocol::Limits;
/// use mcp_protocol::messages::{Incoming, parse};
/// use mcp_protocol::negotiation::{StdioAction, StdioClient, Terms};
///
/// let limits = Limits::default();
/// let now = Instant::now();
/// let mut negotiation = StdioClient::new(Terms::default(), limits.clone(), now);
/// let Some(StdioAction::Probe { id, .. }) = negotiation.poll_action() else { panic!() };
/// let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"?"}}}}"#);
/// let Incoming::Message(message) = parse(&answer, &limits)? else { panic!() };
/// negotiation.handle_message(&message, now);
/// assert!(matches!(negotiation.poll_action(), Some(StdioAction::Initialize { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct StdioClient {
    judge: Judge,
    limits: Limits,
    state: State,
    actions: Vec<StdioAction>,
    /// Deadline of the whole negotiation; `None` if it is not representable.
    budget: Option<Instant>,
    /// Number of probes sent; a late response to any of them still counts.
    probes_sent: i64,
    silence: bool,
    respawned: bool,
    held: usize,
    noise_lines: usize,
    noise_bytes: usize,
    noise_sample: Option<String>,
}

#[derive(Debug, PartialEq)]
enum State {
    Probing {
        id: Id,
        until: Option<Instant>,
    },
    /// Waiting for the driver to report whether more capabilities can be declared.
    Declaring {
        refused: ErrorObject,
    },
    Initializing {
        id: Id,
    },
    /// Waiting for the driver to restart the process.
    Respawning,
    Done,
}

/// An action for the driver.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StdioAction {
    /// Send `server/discover` with this id and version, declaring all capabilities.
    Probe {
        /// Id that no other request uses.
        id: Id,
        /// Version in the envelope.
        version: ProtocolVersion,
    },
    /// Report with [`StdioClient::handle_declared`] whether these capabilities can be declared too.
    Declare(Box<ClientCapabilities>),
    /// Send `initialize` with this id and version.
    Initialize {
        /// Id that no other request uses.
        id: Id,
        /// Version to offer.
        version: ProtocolVersion,
    },
    /// Send `notifications/initialized`.
    Initialized,
    /// Drop the queued requests, restart the process, and report the outcome with [`StdioClient::handle_started`] or
    /// [`StdioClient::handle_not_started`].
    Respawn,
    /// The negotiation succeeded. Respond to the queued requests if the era is legacy; otherwise drop them.
    Settled(Box<NegotiationResult>),
    /// The negotiation failed: terminate the process.
    Failed(NegotiationError),
}

/// Handling of a message by the negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// The message was used.
    Used,
    /// The message is not relevant to the negotiation.
    Ignored,
    /// A request of the server: queue it until the era is known.
    Hold,
}

impl StdioClient {
    /// Creates a negotiation with a started process.
    #[must_use]
    pub fn new(terms: Terms, limits: Limits, now: Instant) -> Self {
        let budget = now.checked_add(terms.budget);
        let mut negotiation = Self {
            judge: Judge::new(terms),
            limits,
            state: State::Done,
            actions: Vec::new(),
            budget,
            probes_sent: 0,
            silence: false,
            respawned: false,
            held: 0,
            noise_lines: 0,
            noise_bytes: 0,
            noise_sample: None,
        };
        let first = negotiation.judge.first();
        negotiation.go(first, now);
        negotiation
    }

    /// Handles a message.
    pub fn handle_message(&mut self, message: &Message<'_>, now: Instant) -> Handling {
        match message {
            _ if self.state == State::Done => Handling::Ignored,
            Message::Response(response) => self.response(response, now),
            Message::Request(_) if self.held < self.limits.held => {
                self.held += 1;
                Handling::Hold
            }
            Message::Request(_) | Message::Notification(_) => Handling::Ignored,
        }
    }

    /// Handles a batch, which may contain the response.
    pub fn handle_batch(&mut self, batch: &Batch<'_>, now: Instant) -> Handling {
        let mut handling = Handling::Ignored;
        for message in batch.messages().flatten() {
            if let Message::Response(response) = &message
                && self.response(response, now) == Handling::Used
            {
                handling = Handling::Used;
            }
        }
        handling
    }

    /// Handles a malformed message. It counts as a response if its id matches the request in flight, and as noise
    /// otherwise.
    pub fn handle_unreadable(&mut self, error: &DecodeError, line: &[u8], now: Instant) -> Handling {
        let next = match &self.state {
            State::Probing { id, .. } if error.id.as_ref() == Some(id) => self.judge.legacy(),
            State::Initializing { id } if error.id.as_ref() == Some(id) => {
                self.judge.handshake_failed(HandshakeFailure::Unreadable)
            }
            _ => {
                self.handle_noise(line);
                return Handling::Ignored;
            }
        };
        self.go(next, now);
        Handling::Used
    }

    /// Handles a line that is not a message.
    pub fn handle_noise(&mut self, line: &[u8]) {
        if self.state == State::Done {
            return;
        }
        self.noise_lines += 1;
        self.noise_bytes += line.len();
        let limit = self.limits.sample;
        let sample = self.noise_sample.get_or_insert_with(|| crate::codec::line::sample(line, limit));
        if self.noise_lines > self.limits.noise_lines || self.noise_bytes > self.limits.noise_bytes {
            let sample = std::mem::take(sample);
            self.end(StdioAction::Failed(NegotiationError::Noise { sample }));
        }
    }

    /// Handles the exit of the process, or a failure to write to it.
    pub fn handle_closed(&mut self) {
        let may_have_died_of_the_probe = match self.state {
            State::Probing { .. } | State::Declaring { .. } => true,
            State::Initializing { .. } => self.silence,
            State::Respawning | State::Done => return,
        };
        if may_have_died_of_the_probe && !self.respawned && matches!(self.judge.legacy(), Next::Initialize(_))
        {
            self.respawned = true;
            self.held = 0;
            self.state = State::Respawning;
            self.actions.push(StdioAction::Respawn);
        } else {
            self.end(StdioAction::Failed(NegotiationError::Ended));
        }
    }

    /// Handles the restart of the process.
    pub fn handle_started(&mut self, now: Instant) {
        if self.state == State::Respawning {
            // The new process was not probed, so its response is not inferred from a timeout.
            self.silence = false;
            let next = self.judge.legacy();
            self.go(next, now);
        }
    }

    /// Handles a failure to start or restart the process.
    pub fn handle_not_started(&mut self) {
        if self.state != State::Done {
            self.end(StdioAction::Failed(NegotiationError::NotStarted));
        }
    }

    /// Handles the driver's report whether the requested capabilities can be declared.
    pub fn handle_declared(&mut self, declared: bool, now: Instant) {
        let State::Declaring { refused } = &self.state else { return };
        let next = match self.judge.probed.clone() {
            Some(version) if declared => {
                self.judge.declared = true;
                Next::Probe(version)
            }
            _ => Next::Failed(NegotiationError::Refused(refused.clone())),
        };
        self.go(next, now);
    }

    /// Handles the passage of time. Early and repeated calls have no effect.
    pub fn handle_timeout(&mut self, now: Instant) {
        match self.state {
            State::Done => {}
            _ if self.budget.is_some_and(|budget| now >= budget) => {
                let failed = self.judge.handshake_failed(HandshakeFailure::Silence);
                self.go(failed, now);
            }
            State::Probing { until: Some(until), .. } if now >= until => {
                self.silence = true;
                let next = self.judge.legacy();
                self.go(next, now);
            }
            _ => {}
        }
    }

    /// Returns true if the negotiation has succeeded or failed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state == State::Done
    }

    /// Returns the next action.
    #[must_use]
    pub fn poll_action(&mut self) -> Option<StdioAction> {
        if self.actions.is_empty() { None } else { Some(self.actions.remove(0)) }
    }

    /// Returns the time at which to call [`handle_timeout`](Self::handle_timeout).
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Done => None,
            State::Probing { until, .. } => until.into_iter().chain(self.budget).min(),
            _ => self.budget,
        }
    }

    fn response(&mut self, response: &Response<'_>, now: Instant) -> Handling {
        let next = match (&self.state, &response.id) {
            (State::Probing { id, .. }, Some(answered)) if answered == id => self.probe_answer(response),
            // Only the probe is in flight, so an error without an id refers to it.
            (State::Probing { .. }, None) => self.probe_answer(response),
            (State::Initializing { id }, Some(answered)) if answered == id => match &response.outcome {
                Ok(result) => self.judge.initialized(result, self.silence),
                Err(error) => self.judge.initialize_error(error),
            },
            (State::Initializing { .. }, Some(answered)) if self.silence && self.is_probe(answered) => {
                match self.late_probe_answer(response) {
                    Some(next) => next,
                    None => return Handling::Used,
                }
            }
            _ => return Handling::Ignored,
        };
        self.go(next, now);
        Handling::Used
    }

    fn probe_answer(&mut self, response: &Response<'_>) -> Next {
        match &response.outcome {
            Ok(result) => self.judge.result(result),
            Err(error) => self.judge.error(error),
        }
    }

    /// Handles a late response to the probe while `initialize` is in flight: a modern response wins.
    fn late_probe_answer(&mut self, response: &Response<'_>) -> Option<Next> {
        match &response.outcome {
            Ok(result) => match self.judge.result(result) {
                settled @ Next::Settled(_) => Some(settled),
                _ => None,
            },
            Err(error) => {
                // The server stated that it is legacy, so the result no longer depends on a timeout.
                self.silence = !matches!(self.judge.error(error), Next::Initialize(_));
                None
            }
        }
    }

    fn is_probe(&self, id: &Id) -> bool {
        (1..=self.probes_sent).any(|number| *id == probe_id(number))
    }

    fn go(&mut self, next: Next, now: Instant) {
        match next {
            Next::Probe(version) => {
                self.probes_sent += 1;
                let id = probe_id(self.probes_sent);
                self.judge.probed = Some(version.clone());
                self.silence = false;
                self.state =
                    State::Probing { id: id.clone(), until: now.checked_add(self.judge.terms.probe_time()) };
                self.actions.push(StdioAction::Probe { id, version });
            }
            Next::Initialize(version) => {
                let id = Id::from("initialize-1");
                self.state = State::Initializing { id: id.clone() };
                self.actions.push(StdioAction::Initialize { id, version });
            }
            Next::Declare(required, refused) => {
                self.state = State::Declaring { refused };
                self.actions.push(StdioAction::Declare(required));
            }
            Next::Settled(negotiation) => {
                if matches!(negotiation.server, ServerAnswer::Initialized(_)) {
                    self.actions.push(StdioAction::Initialized);
                }
                self.end(StdioAction::Settled(negotiation));
            }
            Next::Failed(error) => self.end(StdioAction::Failed(error)),
        }
    }

    fn end(&mut self, action: StdioAction) {
        self.state = State::Done;
        self.actions.push(action);
    }
}

fn probe_id(number: i64) -> Id {
    Id::from(format!("probe-{number}"))
}

#[cfg(test)]
mod tests;
