//! Requests in flight between two peers.
//!
//! [`Peer`] matches responses to requests. It assigns ids, tracks deadlines and completes every call exactly once. It
//! stores ids and instants, but no bodies. Its driver sends the messages and reads the clock, see [driving a
//! machine](crate#driving-a-machine).
//!
//! Spec: MCP 2026-07-28, basic, basic/patterns/cancellation and basic/patterns/progress.
//!
//! # Invariants
//! - At most [`Limits::in_flight`] calls are in flight in each direction; further calls are rejected, not queued.
//! - An id is never reused on a connection, not even after a cancellation.
//! - Every opened call ends exactly once: with [`Arrival::Response`], [`Arrival::BrokenResponse`] or
//!   [`Arrival::Ended`], with a [`CallFailure`], or with a [`Peer::cancel`] or [`Peer::forget_call`] that returns true.

mod deadline;
mod progress;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

pub use deadline::{TimeoutReason, Timeouts};
pub use progress::ProgressGate;

use crate::dialect::Raising;
use crate::errors::{DecodeError, ErrorCode, ErrorObject, MessageShape};
use crate::limits::Limits;
use crate::map::Map;
use crate::messages::{
    CancelledParams, Id, Message, Method, Notification, ProgressParams, ProgressToken, Request, Response,
};
use deadline::{NextDeadline, Timers};

/// The requests in flight of one connection, in both directions.
///
/// **Poll the failures and the deadline again after every input or command.** Cancellations and failures that are not
/// polled count toward the limit of calls in flight. Failures are never dropped; cancellations are dropped only when
/// the connection closes.
///
/// ```
/// use std::time::Instant;
/// use mcp_protocol::Limits;
/// use mcp_protocol::messages::{Incoming, Method, parse};
/// use mcp_protocol::peer::{Arrival, Timeouts, Peer};
///
/// let limits = Limits::default();
/// let now = Instant::now();
/// let mut peer = Peer::client(limits.clone());
/// let call = peer.open(&Method::ToolsList, Timeouts::default(), now)?;
/// // … the driver writes the request with `call.id()`, and later reads:
/// let Incoming::Message(message) = parse(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#, &limits)? else {
///     unreachable!()
/// };
/// assert_eq!(peer.handle_message(&message, now), Arrival::Response(call));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Peer {
    side: ConnectionSide,
    limits: Limits,
    /// Sorted by id: a new call has the highest id and is added at the end.
    calls: VecDeque<OpenCall>,
    next_id: i64,
    requests: Map<Id, IncomingRequest>,
    failures: VecDeque<CallFailure>,
    transmits: VecDeque<Transmit>,
    /// The number of cancellations in `transmits`.
    cancellations: usize,
    next_deadline: NextDeadline,
    closed: bool,
    stats: Stats,
}

/// A handle to a call, which is a request from this side. Returned by [`Peer::open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallHandle(i64);

impl CallHandle {
    /// Returns the request id.
    #[must_use]
    pub fn id(self) -> Id {
        Id::Number(self.0)
    }

    /// Returns the progress token for the request.
    #[must_use]
    pub fn progress_token(self) -> ProgressToken {
        Id::String(self.0.to_string().into())
    }
}

/// The side of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionSide {
    Client,
    Server { duplicates: DuplicateIds },
}

/// Form of the error response to a request whose id is already in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicateIds {
    /// With the id. For HTTP, where each response belongs to its own exchange.
    Named,
    /// Without an id. For stdio, where a response with the id would complete the first request.
    Unnamed,
}

#[derive(Debug)]
struct OpenCall {
    id: i64,
    timers: Timers,
    kind: CallKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallKind {
    Ordinary,
    /// Cannot be cancelled.
    Handshake,
    /// A subscription, which a cancellation from the server can end.
    Listen,
}

#[derive(Debug, PartialEq, Eq)]
enum IncomingRequest {
    Running,
    /// In flight, and cannot be cancelled.
    Handshake,
    Cancelled,
}

/// Meaning of an incoming message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Arrival {
    /// The response to this call.
    Response(CallHandle),
    /// A malformed response to this call. The call has failed and is complete.
    BrokenResponse(CallHandle),
    /// A request. When the result is known, call [`Peer::complete_request`], and respond if it returns true.
    Request,
    /// The peer cancelled this request.
    #[doc(alias = "cancellation")]
    Cancelled(Id),
    /// A progress notification for this call.
    Progress(CallHandle),
    /// The server ended this subscription.
    Ended(CallHandle),
    /// Any other notification.
    Notification,
    /// A message without effect, and the reason.
    Ignored(IgnoreReason),
}

/// Reason why a message was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IgnoreReason {
    /// A response to a call that was already completed.
    Late,
    /// A response, cancellation or progress notification for an unknown request, or a cancellation of `initialize`.
    Unknown,
    /// An error response without an id.
    NoId,
    /// A malformed notification, or input that is not a message.
    Malformed,
    /// A rejected request. [`Peer::poll_transmit`] returns the error response, unless too many are queued.
    Rejected,
    /// The connection is closed.
    Closed,
}

/// A cancellation or error response to send. The caller writes requests and responses itself.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Transmit {
    /// `notifications/cancelled`. On modern HTTP, do not send it: close the stream of the request instead.
    #[doc(alias = "cancellation")]
    Cancelled {
        /// Id of the cancelled request.
        id: Id,
        /// Reason, for people.
        reason: &'static str,
    },
    /// An error response.
    Error {
        /// Id of the rejected request. `None` if the id is unknown, or must not be repeated in the response.
        id: Option<Id>,
        /// Error object.
        error: ErrorObject,
    },
}

/// Completion of a call without a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallFailure {
    /// The call timed out. [`Peer::poll_transmit`] returns its cancellation, except for `initialize`.
    #[doc(alias = "timeout")]
    TimedOut(CallHandle, TimeoutReason),
    /// The connection closed before the response.
    Lost(CallHandle),
}

/// Reason why a call cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// [`Limits::in_flight`] calls are in flight, including cancellations and failures that were not polled.
    #[error("too many requests in flight (limit {0}); wait for one to complete")]
    Full(usize),
    /// The connection is closed.
    #[error("the connection is closed")]
    Closed,
}

/// Counters of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Calls opened.
    pub opened: u64,
    /// Calls completed by their response, and subscriptions ended by the server.
    pub answered: u64,
    /// Calls completed by a malformed response.
    pub broken: u64,
    /// Calls that timed out.
    pub timed_out: u64,
    /// Calls cancelled by this side.
    pub cancelled: u64,
    /// Responses to calls that were already completed.
    pub late: u64,
    /// Responses, cancellations and progress notifications for unknown requests.
    pub unknown: u64,
    /// Requests from the peer, including rejected ones.
    pub requests: u64,
    /// Requests and unreadable inputs that were rejected with an error response.
    pub refused: u64,
    /// Error responses that were dropped because too many were queued.
    pub dropped: u64,
    /// Inputs that are not messages.
    pub unreadable: u64,
}

impl Peer {
    /// Creates the client side of a connection.
    #[must_use]
    pub fn client(limits: Limits) -> Self {
        Self::new(ConnectionSide::Client, limits)
    }

    /// Creates the server side of a connection.
    #[must_use]
    pub fn server(limits: Limits, duplicates: DuplicateIds) -> Self {
        Self::new(ConnectionSide::Server { duplicates }, limits)
    }

    fn new(side: ConnectionSide, limits: Limits) -> Self {
        Self {
            side,
            limits,
            calls: VecDeque::new(),
            next_id: 1,
            requests: Map::new(),
            failures: VecDeque::new(),
            transmits: VecDeque::new(),
            cancellations: 0,
            next_deadline: NextDeadline::default(),
            closed: false,
            stats: Stats::default(),
        }
    }

    /// Returns the limits.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the number of calls in flight.
    #[must_use]
    pub fn calls_in_flight(&self) -> usize {
        self.calls.len()
    }

    /// Returns true if the peer cancelled this request, or if the connection is closed. A cancelled request stays in
    /// flight until [`complete_request`](Self::complete_request) is called.
    #[must_use]
    pub fn is_cancelled(&self, id: &Id) -> bool {
        self.closed || self.requests.get(id) == Some(&IncomingRequest::Cancelled)
    }

    /// Returns the number of requests from the peer that are in flight.
    #[must_use]
    pub fn requests_in_flight(&self) -> usize {
        self.requests.len()
    }

    /// Returns the counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Adds `inputs` to [`Stats::unreadable`], for input that was not a message and was handled elsewhere, for example
    /// during the negotiation.
    pub fn count_unreadable(&mut self, inputs: u64) {
        self.stats.unreadable = self.stats.unreadable.saturating_add(inputs);
    }

    /// Opens a call: assigns an id and starts its timeouts.
    ///
    /// # Errors
    /// Fails if the connection is closed or the limit is reached. The call is not queued.
    pub fn open(
        &mut self,
        method: &Method,
        timeouts: Timeouts,
        now: Instant,
    ) -> Result<CallHandle, OpenError> {
        if self.closed {
            return Err(OpenError::Closed);
        }
        // Unpolled cancellations and failures count, too. Otherwise, their number would be unlimited.
        let waiting = self.cancellations.max(self.failures.len());
        if self.calls.len() + waiting >= self.limits.in_flight {
            return Err(OpenError::Full(self.limits.in_flight));
        }
        let kind = match method {
            Method::Initialize => CallKind::Handshake,
            Method::Listen => CallKind::Listen,
            _ => CallKind::Ordinary,
        };
        let slot = OpenCall { id: self.next_id, timers: Timers::start(timeouts, now), kind };
        self.next_id += 1;
        self.next_deadline.include(slot.timers.due());
        self.stats.opened += 1;
        let call = CallHandle(slot.id);
        self.calls.push_back(slot);
        Ok(call)
    }

    /// Cancels a call. [`poll_transmit`](Self::poll_transmit) returns the notification for the peer, except for
    /// `initialize`. Returns false if the call was already completed.
    #[doc(alias = "cancellation")]
    pub fn cancel(&mut self, call: CallHandle, reason: &'static str) -> bool {
        let Some(slot) = self.take(call) else { return false };
        self.stats.cancelled += 1;
        self.tell_cancelled(&slot, reason);
        true
    }

    /// Pauses the timeouts of a call while the user is asked. If the pause lasts longer than `cap`, the call times out.
    /// Pauses may overlap: the timeouts continue when the last pause ends. Returns false, without pausing, if the call
    /// was already completed or has been paused ten times.
    pub fn pause(&mut self, call: CallHandle, cap: Duration, now: Instant) -> bool {
        let Some(slot) = self.slot(call) else { return false };
        let is_paused = slot.timers.pause(cap, now);
        let due = slot.timers.due();
        self.next_deadline.include(due);
        is_paused
    }

    /// Ends one pause of a call. If it was the last one, the idle timeout restarts and the total timeout continues.
    pub fn resume(&mut self, call: CallHandle, now: Instant) {
        if let Some(slot) = self.slot(call) {
            slot.timers.resume(now);
            let due = slot.timers.due();
            self.next_deadline.include(due);
        }
    }

    /// Removes the timeouts of a call, for example of an acknowledged subscription.
    pub fn remove_timeouts(&mut self, call: CallHandle) {
        if let Some(slot) = self.slot(call) {
            slot.timers = Timers::none();
        }
    }

    /// Completes a request from the peer; returns true if the response is to be sent.
    ///
    /// If it returns false, the request was cancelled, already answered or unknown, and no response may be sent. Also
    /// call it when the work of a cancelled request has ended: until then its id stays in use.
    pub fn complete_request(&mut self, id: &Id) -> bool {
        self.requests.remove(id).is_some_and(|request| request != IncomingRequest::Cancelled)
    }

    /// Handles a message and returns its meaning.
    pub fn handle_message(&mut self, message: &Message<'_>, now: Instant) -> Arrival {
        if self.closed {
            return Arrival::Ignored(IgnoreReason::Closed);
        }
        match message {
            Message::Response(response) => self.response(response),
            Message::Request(request) => self.request(request),
            Message::Notification(notification) => match notification.method {
                Method::Cancelled => self.cancelled(notification),
                Method::Progress => self.progress(notification, now),
                _ => Arrival::Notification,
            },
        }
    }

    /// Handles a request. Like [`handle_message`](Self::handle_message), for callers that already have a [`Request`].
    pub fn handle_request(&mut self, request: &Request<'_>) -> Arrival {
        if self.closed { Arrival::Ignored(IgnoreReason::Closed) } else { self.request(request) }
    }

    /// Handles input that is not a message. A malformed response completes its call, and a malformed request is
    /// rejected; a server also responds to other unreadable input.
    pub fn handle_unreadable(&mut self, error: &DecodeError) -> Arrival {
        if self.closed {
            return Arrival::Ignored(IgnoreReason::Closed);
        }
        self.stats.unreadable += 1;
        let may_settle = match error.shape {
            MessageShape::Response => true,
            // Requests of a server begin with the method, so a truncated line without one is a response.
            MessageShape::Unknown => self.side == ConnectionSide::Client,
            MessageShape::Request => false,
        };
        if may_settle
            && let Some(Id::Number(number)) = error.id
            && self.take(CallHandle(number)).is_some()
        {
            self.stats.broken += 1;
            return Arrival::BrokenResponse(CallHandle(number));
        }
        // The error response has an id only if it cannot complete another request with that id.
        let is_request = match error.shape {
            MessageShape::Request => true,
            // Input from a client without a method is more likely a request than a response.
            MessageShape::Unknown => self.side != ConnectionSide::Client,
            MessageShape::Response => false,
        };
        let id = error.id.clone().filter(|id| is_request && !self.requests.contains_key(id));
        // A client responds only to requests, not to other output of the server.
        if id.is_some() || self.side != ConnectionSide::Client {
            self.refuse(id, error.to_error_object());
        }
        Arrival::Ignored(IgnoreReason::Malformed)
    }

    /// Handles the end of the connection: all calls are lost, and no request from the peer can be answered.
    pub fn handle_closed(&mut self) {
        self.closed = true;
        self.failures.extend(self.calls.drain(..).map(|slot| CallFailure::Lost(CallHandle(slot.id))));
        self.requests.clear();
        self.transmits.clear();
        self.cancellations = 0;
        self.next_deadline = NextDeadline::default();
    }

    /// Completes a call whose own exchange was lost, such as its HTTP connection. No cancellation is sent, and no
    /// failure is reported. Returns false if the call was already completed.
    pub fn forget_call(&mut self, call: CallHandle) -> bool {
        self.take(call).is_some()
    }

    /// Forgets all requests from the peer, because they can no longer be answered.
    pub fn forget_requests(&mut self) {
        self.requests.clear();
    }

    /// Handles a new connection after the previous one closed. Ids continue, so that a late response cannot match a new
    /// call.
    pub fn handle_reopened(&mut self) {
        self.closed = false;
    }

    /// Handles the deadlines that have passed at `now`. Has no effect if none has, so it may be called at any time.
    pub fn handle_timeout(&mut self, now: Instant) {
        if !self.next_deadline.is_due(now) {
            return;
        }
        self.next_deadline = NextDeadline::default();
        let mut at = 0;
        while let Some(slot) = self.calls.get(at) {
            match slot.timers.due() {
                Some((instant, reason)) if instant <= now => {
                    self.stats.timed_out += 1;
                    if let Some(slot) = self.calls.remove(at) {
                        self.failures.push_back(CallFailure::TimedOut(CallHandle(slot.id), reason));
                        self.tell_cancelled(&slot, reason.as_str());
                    }
                }
                due => {
                    self.next_deadline.include(due);
                    at += 1;
                }
            }
        }
    }

    /// Returns the next cancellation or error response to send. The caller writes requests and responses itself.
    #[must_use]
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        let transmit = self.transmits.pop_front();
        if matches!(transmit, Some(Transmit::Cancelled { .. })) {
            self.cancellations -= 1;
        }
        transmit
    }

    /// Returns the next call that failed without a response.
    #[must_use]
    pub fn poll_failure(&mut self) -> Option<CallFailure> {
        self.failures.pop_front()
    }

    /// Returns the time at which to call [`handle_timeout`](Self::handle_timeout), and the timeout that expires then.
    /// Returns `None` if no call has a timeout. The time may be earlier than the next timeout, but is never later.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, TimeoutReason)> {
        if self.calls.is_empty() { None } else { self.next_deadline.next() }
    }

    fn response(&mut self, response: &Response<'_>) -> Arrival {
        let number = match response.id {
            Some(Id::Number(number)) => number,
            Some(Id::String(_)) => return self.unknown(),
            None => return Arrival::Ignored(IgnoreReason::NoId),
        };
        if self.take(CallHandle(number)).is_some() {
            self.stats.answered += 1;
            Arrival::Response(CallHandle(number))
        } else if (1..self.next_id).contains(&number) {
            self.stats.late += 1;
            Arrival::Ignored(IgnoreReason::Late)
        } else {
            self.unknown()
        }
    }

    fn request(&mut self, request: &Request<'_>) -> Arrival {
        self.stats.requests += 1;
        if self.requests.contains_key(&request.id) {
            let named = self.side == ConnectionSide::Server { duplicates: DuplicateIds::Named };
            let error =
                ErrorObject::new(ErrorCode::InvalidRequest, "a request with this id is already in flight");
            self.refuse(named.then(|| request.id.clone()), error);
            return Arrival::Ignored(IgnoreReason::Rejected);
        }
        if self.requests.len() >= self.limits.in_flight {
            let error = ErrorObject::new(ErrorCode::InternalError, "too many requests in flight");
            self.refuse(Some(request.id.clone()), error);
            return Arrival::Ignored(IgnoreReason::Rejected);
        }
        let running = if request.method == Method::Initialize {
            IncomingRequest::Handshake
        } else {
            IncomingRequest::Running
        };
        self.requests.insert(request.id.clone(), running);
        Arrival::Request
    }

    fn cancelled(&mut self, notification: &Notification<'_>) -> Arrival {
        let Ok(params) = Raising::STRICT.text::<CancelledParams>(notification.params.text()) else {
            return Arrival::Ignored(IgnoreReason::Malformed);
        };
        match self.requests.get_mut(&params.request_id) {
            // `initialize` cannot be cancelled.
            Some(IncomingRequest::Handshake) => return Arrival::Ignored(IgnoreReason::Unknown),
            Some(request) => {
                *request = IncomingRequest::Cancelled;
                return Arrival::Cancelled(params.request_id);
            }
            None => {}
        }
        if let Id::Number(number) = params.request_id
            && self.slot(CallHandle(number)).is_some_and(|slot| slot.kind == CallKind::Listen)
        {
            self.take(CallHandle(number));
            self.stats.answered += 1;
            return Arrival::Ended(CallHandle(number));
        }
        self.unknown()
    }

    fn progress(&mut self, notification: &Notification<'_>, now: Instant) -> Arrival {
        let Ok(params) = Raising::STRICT.text::<ProgressParams>(notification.params.text()) else {
            return Arrival::Ignored(IgnoreReason::Malformed);
        };
        let call = match params.progress_token {
            // Accept only the exact text that this side sent.
            Id::String(text) => text.parse().ok().map(CallHandle).filter(|call| call.0.to_string() == *text),
            Id::Number(_) => None,
        };
        match call.and_then(|call| self.slot(call).map(|slot| (call, slot))) {
            Some((call, slot)) => {
                slot.timers.renew(now);
                Arrival::Progress(call)
            }
            None => self.unknown(),
        }
    }

    fn unknown(&mut self) -> Arrival {
        self.stats.unknown += 1;
        Arrival::Ignored(IgnoreReason::Unknown)
    }

    fn refuse(&mut self, id: Option<Id>, error: ErrorObject) {
        self.stats.refused += 1;
        if self.transmits.len() - self.cancellations < self.limits.in_flight {
            self.transmits.push_back(Transmit::Error { id, error });
        } else {
            self.stats.dropped += 1;
        }
    }

    fn tell_cancelled(&mut self, slot: &OpenCall, reason: &'static str) {
        if slot.kind != CallKind::Handshake {
            self.cancellations += 1;
            self.transmits.push_back(Transmit::Cancelled { id: Id::Number(slot.id), reason });
        }
    }

    fn slot(&mut self, call: CallHandle) -> Option<&mut OpenCall> {
        let at = self.position(call)?;
        self.calls.get_mut(at)
    }

    fn take(&mut self, call: CallHandle) -> Option<OpenCall> {
        let at = self.position(call)?;
        self.calls.remove(at)
    }

    fn position(&self, call: CallHandle) -> Option<usize> {
        // Calls usually end in the order in which they were opened. The ids in flight are then consecutive.
        let first = self.calls.front()?.id;
        let expected = usize::try_from(call.0.checked_sub(first)?).ok()?;
        if self.calls.get(expected).is_some_and(|slot| slot.id == call.0) {
            return Some(expected);
        }
        self.calls.binary_search_by_key(&call.0, |slot| slot.id).ok()
    }
}

#[cfg(test)]
mod tests;
