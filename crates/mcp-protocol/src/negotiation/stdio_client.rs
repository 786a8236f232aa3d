//! A client finds out the era of a server on stdio.
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

/// Finds out the era of a server that was just started.
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
    /// When all of it must be done; `None` if that lies beyond all time.
    budget: Option<Instant>,
    /// Ids of probes that nobody answered yet; a late answer can still win.
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
    /// The driver was asked whether it can declare more.
    Declaring {
        refused: ErrorObject,
    },
    Initializing {
        id: Id,
    },
    /// The driver was asked to start the process again.
    Respawning,
    Done,
}

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StdioAction {
    /// Send `server/discover` with this id, in this version, declaring all capabilities.
    Probe {
        /// The id, which no other request uses.
        id: Id,
        /// The version of the envelope.
        version: ProtocolVersion,
    },
    /// Say with [`StdioClient::handle_declared`] whether these capabilities can be declared too.
    Declare(Box<ClientCapabilities>),
    /// Send `initialize` with this id, offering this version.
    Initialize {
        /// The id, which no other request uses.
        id: Id,
        /// The version to offer.
        version: ProtocolVersion,
    },
    /// Send `notifications/initialized`.
    Initialized,
    /// Drop the requests that are held, start the process again, and say how it went with [`StdioClient::handle_started`] or
    /// [`StdioClient::handle_not_started`].
    Respawn,
    /// It is settled. Held requests are answered now if the era is legacy, dropped if not.
    Settled(Box<NegotiationResult>),
    /// It failed: end the process.
    Failed(NegotiationError),
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// It was evidence.
    Used,
    /// It is none of the negotiation's business.
    Ignored,
    /// A request of the server: keep it until the era is known.
    Hold,
}

impl StdioClient {
    /// A negotiation with a process that was started.
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

    /// Takes in a message.
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

    /// Takes in an array of messages: the answer may be inside.
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

    /// Takes in a message that cannot be read. If it answers what is in flight, that is an answer too; otherwise it
    /// is noise.
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

    /// Takes in a line that is no message.
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

    /// Takes in that the process ended, or cannot be written to.
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

    /// Takes in that the process runs again.
    pub fn handle_started(&mut self, now: Instant) {
        if self.state == State::Respawning {
            // This process was never probed: what it says is not said out of silence.
            self.silence = false;
            let next = self.judge.legacy();
            self.go(next, now);
        }
    }

    /// Takes in that the process cannot be started, the first time or again.
    pub fn handle_not_started(&mut self) {
        if self.state != State::Done {
            self.end(StdioAction::Failed(NegotiationError::NotStarted));
        }
    }

    /// Takes in whether the capabilities that were asked for can be declared.
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

    /// Takes in the time. Early and repeated calls do nothing.
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

    /// True if it is settled or has failed: what comes now is none of its business.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state == State::Done
    }

    /// What to do next.
    #[must_use]
    pub fn poll_action(&mut self) -> Option<StdioAction> {
        if self.actions.is_empty() { None } else { Some(self.actions.remove(0)) }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
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
            // Only the probe is in flight, so an error without id can only mean it.
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

    /// The probe was answered after all, before `initialize` was: a modern answer wins.
    fn late_probe_answer(&mut self, response: &Response<'_>) -> Option<Next> {
        match &response.outcome {
            Ok(result) => match self.judge.result(result) {
                settled @ Next::Settled(_) => Some(settled),
                _ => None,
            },
            Err(error) => {
                // The server is legacy by its own word, and no longer by its silence.
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
