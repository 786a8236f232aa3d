//! Client-side negotiation of the era of a server on stdio.
//!
//! Spec: MCP 2026-07-28, basic/transports/stdio.

use std::time::Instant;

use super::era_detection::{EraDetection, NegotiationStep};
use super::{HandshakeFailure, NegotiationError, NegotiationOptions, NegotiationResult, ServerResponse};
use crate::capabilities::ClientCapabilities;
use crate::errors::{DecodeError, ErrorObject};
use crate::limits::Limits;
use crate::messages::{Batch, Id, Message, Response};
use crate::version::ProtocolVersion;

/// Determines the era of a newly started server.
///
/// **After every input, poll the actions until there are none, then the deadline.** The last action is
/// [`StdioAction::Succeeded`] or [`StdioAction::Failed`].
///
/// ```
/// use std::time::Instant;
/// use mcp_protocol::Limits;
/// use mcp_protocol::messages::{Incoming, parse};
/// use mcp_protocol::negotiation::{StdioAction, StdioClientNegotiation, NegotiationOptions};
///
/// let limits = Limits::default();
/// let now = Instant::now();
/// let mut negotiation = StdioClientNegotiation::new(NegotiationOptions::default(), limits.clone(), now);
/// let Some(StdioAction::Probe { id, .. }) = negotiation.poll_action() else { panic!() };
/// let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"?"}}}}"#);
/// let Incoming::Message(message) = parse(&answer, &limits)? else { panic!() };
/// negotiation.handle_message(&message, now);
/// assert!(matches!(negotiation.poll_action(), Some(StdioAction::Initialize { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct StdioClientNegotiation {
    detection: EraDetection,
    limits: Limits,
    state: StdioNegotiationState,
    actions: Vec<StdioAction>,
    /// Deadline of the whole negotiation; `None` if an `Instant` cannot represent it.
    negotiation_deadline: Option<Instant>,
    /// Number of probes sent. A late response to any of them still counts.
    probes_sent: i64,
    probe_timed_out: bool,
    restarted: bool,
    queued: usize,
    noise_lines: usize,
    noise_bytes: usize,
    noise_sample: Option<String>,
}

#[derive(Debug, PartialEq)]
enum StdioNegotiationState {
    Probing {
        id: Id,
        until: Option<Instant>,
    },
    /// Waiting for the driver to report whether more capabilities can be declared.
    Declaring {
        rejection: ErrorObject,
    },
    Initializing {
        id: Id,
    },
    /// Waiting for the driver to restart the process.
    Restarting,
    Done,
}

/// An action for the driver.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StdioAction {
    /// Send `server/discover` with this id and version, and declare the client's capabilities.
    Probe {
        /// Id that no other request uses.
        id: Id,
        /// Version in the envelope.
        version: ProtocolVersion,
    },
    /// The server requires these capabilities. Check whether the client has them, and call
    /// [`StdioClientNegotiation::handle_declared`] with the answer.
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
    /// Drop the queued requests, restart the process, and report the outcome with
    /// [`StdioClientNegotiation::handle_started`] or [`StdioClientNegotiation::handle_not_started`].
    Restart,
    /// The negotiation succeeded. Respond to the queued requests if the era is legacy; otherwise drop them.
    Succeeded(Box<NegotiationResult>),
    /// The negotiation failed: terminate the process.
    Failed(NegotiationError),
}

/// Handling of a message by the negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageHandling {
    /// The message was used.
    Used,
    /// The message is not relevant to the negotiation.
    Ignored,
    /// A request from the server: queue it until the era is known.
    Queue,
}

impl StdioClientNegotiation {
    /// Creates a negotiation with a started process.
    #[must_use]
    pub fn new(options: NegotiationOptions, limits: Limits, now: Instant) -> Self {
        let negotiation_deadline = now.checked_add(options.timeout);
        let mut negotiation = Self {
            detection: EraDetection::new(options),
            limits,
            state: StdioNegotiationState::Done,
            actions: Vec::new(),
            negotiation_deadline,
            probes_sent: 0,
            probe_timed_out: false,
            restarted: false,
            queued: 0,
            noise_lines: 0,
            noise_bytes: 0,
            noise_sample: None,
        };
        let first = negotiation.detection.first();
        negotiation.go(first, now);
        negotiation
    }

    /// Handles a message. The result tells the driver whether to queue it.
    pub fn handle_message(&mut self, message: &Message<'_>, now: Instant) -> MessageHandling {
        match message {
            _ if self.state == StdioNegotiationState::Done => MessageHandling::Ignored,
            Message::Response(response) => self.response(response, now),
            Message::Request(_) if self.queued < self.limits.held => {
                self.queued += 1;
                MessageHandling::Queue
            }
            Message::Request(_) | Message::Notification(_) => MessageHandling::Ignored,
        }
    }

    /// Handles a batch, which may contain the awaited response. Requests in the batch are ignored.
    pub fn handle_batch(&mut self, batch: &Batch<'_>, now: Instant) -> MessageHandling {
        let mut handling = MessageHandling::Ignored;
        for message in batch.messages().flatten() {
            if let Message::Response(response) = &message
                && self.response(response, now) == MessageHandling::Used
            {
                handling = MessageHandling::Used;
            }
        }
        handling
    }

    /// Handles a malformed message. If its id is that of the request in flight, it counts as the response. Otherwise it
    /// is handled like other lines that are not messages, see [`handle_noise`](Self::handle_noise).
    pub fn handle_unreadable(&mut self, error: &DecodeError, line: &[u8], now: Instant) -> MessageHandling {
        let next = match &self.state {
            StdioNegotiationState::Probing { id, .. } if error.id.as_ref() == Some(id) => {
                self.detection.legacy()
            }
            StdioNegotiationState::Initializing { id } if error.id.as_ref() == Some(id) => {
                self.detection.handshake_failed(HandshakeFailure::InvalidResponse)
            }
            _ => {
                self.handle_noise(line);
                return MessageHandling::Ignored;
            }
        };
        self.go(next, now);
        MessageHandling::Used
    }

    /// Handles a line that is not a message. The negotiation fails after too many such lines, or if the line is part of
    /// a message that is written over several lines.
    pub fn handle_noise(&mut self, line: &[u8]) {
        if self.state == StdioNegotiationState::Done {
            return;
        }
        self.noise_lines += 1;
        self.noise_bytes += line.len();
        let limit = self.limits.sample;
        let sample = self.noise_sample.get_or_insert_with(|| crate::codec::line::sample(line, limit));
        let is_over =
            self.noise_lines > self.limits.noise_lines || self.noise_bytes > self.limits.noise_bytes;
        // A server that writes a message over several lines does so with all of them, so waiting for the timeout is
        // useless.
        if is_over || crate::codec::line::is_pretty_printed(line) {
            let sample = sample.clone();
            self.end(StdioAction::Failed(NegotiationError::Noise { sample }));
        }
    }

    /// Returns the number of lines that were not messages.
    #[must_use]
    pub fn noise_lines(&self) -> usize {
        self.noise_lines
    }

    /// Returns the beginning of the first line that was not a message.
    #[must_use]
    pub fn noise_sample(&self) -> Option<&str> {
        self.noise_sample.as_deref()
    }

    /// Handles the exit of the process, or a failure to write to it.
    pub fn handle_closed(&mut self) {
        let may_have_exited_because_of_probe = match self.state {
            StdioNegotiationState::Probing { .. } | StdioNegotiationState::Declaring { .. } => true,
            StdioNegotiationState::Initializing { .. } => self.probe_timed_out,
            StdioNegotiationState::Restarting | StdioNegotiationState::Done => return,
        };
        if may_have_exited_because_of_probe
            && !self.restarted
            && matches!(self.detection.legacy(), NegotiationStep::Initialize(_))
        {
            self.restarted = true;
            self.queued = 0;
            self.state = StdioNegotiationState::Restarting;
            self.actions.push(StdioAction::Restart);
        } else {
            self.end(StdioAction::Failed(NegotiationError::Exited));
        }
    }

    /// Handles the successful restart of the process.
    pub fn handle_started(&mut self, now: Instant) {
        if self.state == StdioNegotiationState::Restarting {
            // The new process was not probed, so the result does not depend on a timeout.
            self.probe_timed_out = false;
            let next = self.detection.legacy();
            self.go(next, now);
        }
    }

    /// Handles a failure to start or restart the process.
    pub fn handle_not_started(&mut self) {
        if self.state != StdioNegotiationState::Done {
            self.end(StdioAction::Failed(NegotiationError::NotStarted));
        }
    }

    /// Handles the reply to [`StdioAction::Declare`]. If `declared` is true, the server is probed again; otherwise the
    /// negotiation fails.
    pub fn handle_declared(&mut self, declared: bool, now: Instant) {
        let StdioNegotiationState::Declaring { rejection } = &self.state else { return };
        let next = match self.detection.probed.clone() {
            Some(version) if declared => {
                self.detection.declared = true;
                NegotiationStep::Probe(version)
            }
            _ => NegotiationStep::Failed(NegotiationError::Rejected(rejection.clone())),
        };
        self.go(next, now);
    }

    /// Handles the deadlines that have passed at `now`. Has no effect if none has, so it may be called at any time.
    pub fn handle_timeout(&mut self, now: Instant) {
        match self.state {
            StdioNegotiationState::Done => {}
            _ if self.negotiation_deadline.is_some_and(|deadline| now >= deadline) => {
                let failed = self.detection.handshake_failed(HandshakeFailure::Timeout);
                self.go(failed, now);
            }
            StdioNegotiationState::Probing { until: Some(until), .. } if now >= until => {
                self.probe_timed_out = true;
                let next = self.detection.legacy();
                self.go(next, now);
            }
            _ => {}
        }
    }

    /// Returns true if the negotiation has succeeded or failed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state == StdioNegotiationState::Done
    }

    /// Returns the next action, or `None` until the next input. Each action is returned once.
    #[must_use]
    pub fn poll_action(&mut self) -> Option<StdioAction> {
        if self.actions.is_empty() { None } else { Some(self.actions.remove(0)) }
    }

    /// Returns the time at which to call [`handle_timeout`](Self::handle_timeout); `None` after the end of the
    /// negotiation.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            StdioNegotiationState::Done => None,
            StdioNegotiationState::Probing { until, .. } => {
                until.into_iter().chain(self.negotiation_deadline).min()
            }
            _ => self.negotiation_deadline,
        }
    }

    fn response(&mut self, response: &Response<'_>, now: Instant) -> MessageHandling {
        let next = match (&self.state, &response.id) {
            (StdioNegotiationState::Probing { id, .. }, Some(answered)) if answered == id => {
                self.probe_answer(response)
            }
            // Only the probe is in flight, so an error without an id refers to it.
            (StdioNegotiationState::Probing { .. }, None) => self.probe_answer(response),
            (StdioNegotiationState::Initializing { id }, Some(answered)) if answered == id => {
                match &response.outcome {
                    Ok(result) => self.detection.initialized(result, self.probe_timed_out),
                    Err(error) => self.detection.initialize_error(error),
                }
            }
            (StdioNegotiationState::Initializing { .. }, Some(answered))
                if self.probe_timed_out && self.is_probe(answered) =>
            {
                match self.late_probe_answer(response) {
                    Some(next) => next,
                    None => return MessageHandling::Used,
                }
            }
            _ => return MessageHandling::Ignored,
        };
        self.go(next, now);
        MessageHandling::Used
    }

    fn probe_answer(&mut self, response: &Response<'_>) -> NegotiationStep {
        match &response.outcome {
            Ok(result) => self.detection.result(result),
            Err(error) => self.detection.error(error),
        }
    }

    /// Handles a late response to the probe while `initialize` is in flight. If the response is modern, the negotiation
    /// succeeds with it.
    fn late_probe_answer(&mut self, response: &Response<'_>) -> Option<NegotiationStep> {
        match &response.outcome {
            Ok(result) => match self.detection.result(result) {
                success @ NegotiationStep::Succeeded(_) => Some(success),
                _ => None,
            },
            Err(error) => {
                // The server stated that it is legacy, so the result no longer depends on a timeout.
                self.probe_timed_out = !matches!(self.detection.error(error), NegotiationStep::Initialize(_));
                None
            }
        }
    }

    fn is_probe(&self, id: &Id) -> bool {
        (1..=self.probes_sent).any(|number| *id == probe_id(number))
    }

    fn go(&mut self, next: NegotiationStep, now: Instant) {
        match next {
            NegotiationStep::Probe(version) => {
                self.probes_sent += 1;
                let id = probe_id(self.probes_sent);
                self.detection.probed = Some(version.clone());
                self.probe_timed_out = false;
                self.state = StdioNegotiationState::Probing {
                    id: id.clone(),
                    until: now.checked_add(self.detection.options.effective_probe_timeout()),
                };
                self.actions.push(StdioAction::Probe { id, version });
            }
            NegotiationStep::Initialize(version) => {
                let id = Id::from("initialize-1");
                self.state = StdioNegotiationState::Initializing { id: id.clone() };
                self.actions.push(StdioAction::Initialize { id, version });
            }
            NegotiationStep::Declare(required, rejection) => {
                self.state = StdioNegotiationState::Declaring { rejection };
                self.actions.push(StdioAction::Declare(required));
            }
            NegotiationStep::Succeeded(negotiation) => {
                if matches!(negotiation.server, ServerResponse::Initialize(_)) {
                    self.actions.push(StdioAction::Initialized);
                }
                self.end(StdioAction::Succeeded(negotiation));
            }
            NegotiationStep::Failed(error) => self.end(StdioAction::Failed(error)),
        }
    }

    fn end(&mut self, action: StdioAction) {
        self.state = StdioNegotiationState::Done;
        self.actions.push(action);
    }
}

fn probe_id(number: i64) -> Id {
    Id::from(format!("probe-{number}"))
}

#[cfg(test)]
mod tests;
