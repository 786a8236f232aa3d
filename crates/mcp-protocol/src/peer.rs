//! Requests in flight between two peers.
//!
//! [`Peer`] pairs each response with its request. It assigns ids, watches deadlines and settles every call
//! exactly once. It keeps ids and instants, never bodies; it sends nothing and reads no clock: see
//! [driving a machine](crate#driving-a-machine).
//!
//! Spec: MCP 2026-07-28, basic, basic/patterns/cancellation and basic/patterns/progress.
//!
//! # Invariants
//! - At most [`Limits::in_flight`] calls are open in each direction; one more is refused, never queued.
//! - An id is never used twice on a connection, not even after a cancellation.
//! - Every call that was opened ends in exactly one of: its response, an [`Event`], a [`Peer::cancel`] that
//!   returned true.

mod deadline;
mod progress;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

pub use deadline::{Clocks, Reason};
pub use progress::ProgressGate;

use crate::dialect::Raising;
use crate::errors::{DecodeError, ErrorCode, ErrorObject, Looks};
use crate::limits::Limits;
use crate::map::Map;
use crate::messages::{
    CancelledParams, Id, Message, Method, Notification, ProgressParams, ProgressToken, Request, Response,
};
use deadline::{Timers, Wake};

/// What is in flight between us and the other side, both ways.
///
/// **After every input or command, poll the events and the deadline again; leaving transmits unpolled is back
/// pressure and loses no call.**
///
/// ```
/// use std::time::Instant;
/// use mcp_protocol::Limits;
/// use mcp_protocol::messages::{Incoming, Method, parse};
/// use mcp_protocol::peer::{Arrival, Clocks, Peer};
///
/// let limits = Limits::default();
/// let now = Instant::now();
/// let mut peer = Peer::client(limits.clone());
/// let call = peer.open(&Method::ToolsList, Clocks::default(), now)?;
/// // … the driver writes the request with `call.id()`, and later reads:
/// let Incoming::Message(message) = parse(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#, &limits)? else {
///     unreachable!()
/// };
/// assert_eq!(peer.handle_message(&message, now), Arrival::Response(call));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Peer {
    side: Side,
    limits: Limits,
    /// Sorted by id, because ids only grow. Most are settled in the order they were made.
    calls: VecDeque<Slot>,
    next_id: i64,
    requests: Map<Id, Incoming>,
    events: VecDeque<Event>,
    transmits: VecDeque<Transmit>,
    /// How many of the transmits are cancellations.
    cancellations: usize,
    wake: Wake,
    closed: bool,
    stats: Stats,
}

/// A request of ours, from [`Peer::open`] until it is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call(i64);

impl Call {
    /// The id to send it with.
    #[must_use]
    pub fn id(self) -> Id {
        Id::Number(self.0)
    }

    /// The progress token to send it with, if progress is wanted.
    #[must_use]
    pub fn progress_token(self) -> ProgressToken {
        Id::String(self.0.to_string().into())
    }
}

/// Which side we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Client,
    Server { duplicates: DuplicateIds },
}

/// How a second request with an id in flight is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicateIds {
    /// With that id: on HTTP each response belongs to its own exchange.
    Named,
    /// Without an id: on stdio a response with it would settle the first request.
    Unnamed,
}

#[derive(Debug)]
struct Slot {
    id: i64,
    timers: Timers,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ordinary,
    /// Must not be cancelled.
    Handshake,
    /// May be ended by a cancellation from the server.
    Listen,
}

#[derive(Debug, PartialEq, Eq)]
enum Incoming {
    Running,
    /// Running, and not to be cancelled.
    Handshake,
    Cancelled,
}

/// What a message that came in means.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Arrival {
    /// It settles this call.
    Response(Call),
    /// It settles this call, but cannot be read: the call fails now, not at its deadline.
    BrokenResponse(Call),
    /// A request to answer, once, if [`Peer::respond`] still says so.
    Request,
    /// The other side no longer wants this request answered.
    Cancelled(Id),
    /// Progress of this call.
    Progress(Call),
    /// The server ended this subscription.
    Ended(Call),
    /// Another notification.
    Notification,
    /// Nothing to do; counted in [`Stats`].
    Ignored(Ignored),
}

/// Why a message was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ignored {
    /// A response to a call that was settled before.
    Late,
    /// A response, cancellation or progress for something that was never there.
    Unknown,
    /// An error response without id.
    NoId,
    /// A notification that could not be read.
    Malformed,
    /// A request that was refused; the refusal is among the transmits.
    Refused,
    /// The connection is closed.
    Closed,
}

/// A small message that the machine wants sent. Bodies are written by whoever has them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Transmit {
    /// `notifications/cancelled`. Over modern HTTP the stream is closed instead.
    Cancelled {
        /// Our request.
        id: Id,
        /// Why, for people.
        reason: &'static str,
    },
    /// An error response.
    Error {
        /// The other side's request, if it may be named.
        id: Option<Id>,
        /// What is wrong.
        error: ErrorObject,
    },
}

/// Something that happened to a call without a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Its time is over. The server is told.
    TimedOut(Call, Reason),
    /// The link ended first.
    Lost(Call),
}

/// Why a call cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// [`Limits::in_flight`] calls are open.
    #[error("too many requests in flight (limit {0}); wait for one to complete")]
    Full(usize),
    /// The link has ended.
    #[error("the connection is closed")]
    Closed,
}

/// Counts of a connection's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Calls opened.
    pub opened: u64,
    /// Calls settled by their response.
    pub answered: u64,
    /// Calls settled by a response that could not be read.
    pub broken: u64,
    /// Calls whose time was over.
    pub timed_out: u64,
    /// Calls cancelled by us.
    pub cancelled: u64,
    /// Responses to calls that were settled before.
    pub late: u64,
    /// Messages about something that was never there.
    pub unknown: u64,
    /// Requests of the other side.
    pub requests: u64,
    /// Requests refused: duplicate ids, or too many.
    pub refused: u64,
    /// Refusals that were not even sent because too many were waiting.
    pub dropped: u64,
    /// Input that was no message.
    pub unreadable: u64,
}

impl Peer {
    /// The client's side of a connection.
    #[must_use]
    pub fn client(limits: Limits) -> Self {
        Self::new(Side::Client, limits)
    }

    /// The server's side of a connection.
    #[must_use]
    pub fn server(limits: Limits, duplicates: DuplicateIds) -> Self {
        Self::new(Side::Server { duplicates }, limits)
    }

    fn new(side: Side, limits: Limits) -> Self {
        Self {
            side,
            limits,
            calls: VecDeque::new(),
            next_id: 1,
            requests: Map::new(),
            events: VecDeque::new(),
            transmits: VecDeque::new(),
            cancellations: 0,
            wake: Wake::default(),
            closed: false,
            stats: Stats::default(),
        }
    }

    /// The bounds it keeps.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Calls of ours that are open.
    #[must_use]
    pub fn calls_in_flight(&self) -> usize {
        self.calls.len()
    }

    /// True if the other side took this request back, or is gone; it is in flight until it is responded to.
    #[must_use]
    pub fn is_cancelled(&self, id: &Id) -> bool {
        self.closed || self.requests.get(id) == Some(&Incoming::Cancelled)
    }

    /// Requests of the other side that are not answered yet.
    #[must_use]
    pub fn requests_in_flight(&self) -> usize {
        self.requests.len()
    }

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Opens a call: reserves an id and starts its clocks.
    ///
    /// # Errors
    /// When the peer is closed or full; nothing is queued behind the limit.
    pub fn open(&mut self, method: &Method, clocks: Clocks, now: Instant) -> Result<Call, Refused> {
        if self.closed {
            return Err(Refused::Closed);
        }
        // Cancellations and events that nobody polls yet count too: they grow with the calls.
        let waiting = self.cancellations.max(self.events.len());
        if self.calls.len() + waiting >= self.limits.in_flight {
            return Err(Refused::Full(self.limits.in_flight));
        }
        let kind = match method {
            Method::Initialize => Kind::Handshake,
            Method::Listen => Kind::Listen,
            _ => Kind::Ordinary,
        };
        let slot = Slot { id: self.next_id, timers: Timers::start(clocks, now), kind };
        self.next_id += 1;
        self.wake.include(slot.timers.due());
        self.stats.opened += 1;
        let call = Call(slot.id);
        self.calls.push_back(slot);
        Ok(call)
    }

    /// Gives a call up and tells the other side. False if it was settled before.
    pub fn cancel(&mut self, call: Call, reason: &'static str) -> bool {
        let Some(slot) = self.take(call) else { return false };
        self.stats.cancelled += 1;
        self.tell_cancelled(&slot, reason);
        true
    }

    /// Stops the clocks of a call while a person is asked, for at most `cap`. Several may be asked at once: the
    /// clocks go on when the last has answered. Gives false, and the clocks go on, if they were stopped ten times before.
    pub fn pause(&mut self, call: Call, cap: Duration, now: Instant) -> bool {
        let Some(slot) = self.slot(call) else { return false };
        let is_paused = slot.timers.pause(cap, now);
        let due = slot.timers.due();
        self.wake.include(due);
        is_paused
    }

    /// Lets the clocks of a call go on: the idle one from the start, the total one from where it stood.
    pub fn resume(&mut self, call: Call, now: Instant) {
        if let Some(slot) = self.slot(call) {
            slot.timers.resume(now);
            let due = slot.timers.due();
            self.wake.include(due);
        }
    }

    /// Takes the clocks of a call away, as for a subscription that was acknowledged.
    pub fn stop_clocks(&mut self, call: Call) {
        if let Some(slot) = self.slot(call) {
            slot.timers = Timers::none();
        }
    }

    /// True if the other side's request is still to be answered; it is settled by this call.
    ///
    /// False means that it was cancelled, answered or never there, and nothing may be sent. Call it also for a
    /// request that was cancelled once its work has ended: until then its id is taken.
    pub fn respond(&mut self, id: &Id) -> bool {
        self.requests.remove(id).is_some_and(|request| request != Incoming::Cancelled)
    }

    /// Takes in a message.
    pub fn handle_message(&mut self, message: &Message<'_>, now: Instant) -> Arrival {
        if self.closed {
            return Arrival::Ignored(Ignored::Closed);
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

    /// Takes in a request: [`handle_message`](Self::handle_message) for those who know that it is one.
    pub fn handle_request(&mut self, request: &Request<'_>) -> Arrival {
        if self.closed { Arrival::Ignored(Ignored::Closed) } else { self.request(request) }
    }

    /// Takes in something that is no message. A broken response settles its call, a broken request is refused;
    /// a server answers the rest too.
    pub fn handle_unreadable(&mut self, error: &DecodeError) -> Arrival {
        if self.closed {
            return Arrival::Ignored(Ignored::Closed);
        }
        self.stats.unreadable += 1;
        let may_settle = match error.looks {
            Looks::Response => true,
            // A server's requests begin with their method; a line cut short is a response.
            Looks::Unknown => self.side == Side::Client,
            Looks::Request => false,
        };
        if may_settle
            && let Some(Id::Number(number)) = error.id
            && self.take(Call(number)).is_some()
        {
            self.stats.broken += 1;
            return Arrival::BrokenResponse(Call(number));
        }
        // An id that runs already must not be settled by this answer.
        let is_request = match error.looks {
            Looks::Request => true,
            // What comes from a client without a method is more likely a request than a response.
            Looks::Unknown => self.side != Side::Client,
            Looks::Response => false,
        };
        let id = error.id.clone().filter(|id| is_request && !self.requests.contains_key(id));
        // A client answers requests; noise on a server's standard output is not answered.
        if id.is_some() || self.side != Side::Client {
            self.refuse(id, error.to_error_object());
        }
        Arrival::Ignored(Ignored::Malformed)
    }

    /// Takes in the end of the link: every open call is lost, every running request is void.
    pub fn handle_closed(&mut self) {
        self.closed = true;
        self.events.extend(self.calls.drain(..).map(|slot| Event::Lost(Call(slot.id))));
        self.requests.clear();
        self.transmits.clear();
        self.cancellations = 0;
        self.wake = Wake::default();
    }

    /// The call in flight with this id.
    #[must_use]
    pub fn call_with(&self, id: &Id) -> Option<Call> {
        let Id::Number(number) = id else { return None };
        self.calls.binary_search_by_key(number, |slot| slot.id).is_ok().then_some(Call(*number))
    }

    /// Takes in that one call will never be answered, because what carried it ended: over HTTP that is an exchange of its
    /// own. Nobody is told. False if it was settled before.
    pub fn handle_lost(&mut self, call: Call) -> bool {
        self.take(call).is_some()
    }

    /// Takes in that the other side has forgotten what it asked: nothing of that is answered any more.
    pub fn handle_forgotten(&mut self) {
        self.requests.clear();
    }

    /// Takes in a new link after the old one ended. Ids go on, so that no answer is taken for that to an older call.
    pub fn handle_reopened(&mut self) {
        self.closed = false;
    }

    /// Takes in the time. Early and repeated calls do nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        if !self.wake.is_due(now) {
            return;
        }
        self.wake = Wake::default();
        let mut at = 0;
        while let Some(slot) = self.calls.get(at) {
            match slot.timers.due() {
                Some((instant, reason)) if instant <= now => {
                    self.stats.timed_out += 1;
                    if let Some(slot) = self.calls.remove(at) {
                        self.events.push_back(Event::TimedOut(Call(slot.id), reason));
                        self.tell_cancelled(&slot, reason.as_str());
                    }
                }
                due => {
                    self.wake.include(due);
                    at += 1;
                }
            }
        }
    }

    /// The next small message to send.
    #[must_use]
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        let transmit = self.transmits.pop_front();
        if matches!(transmit, Some(Transmit::Cancelled { .. })) {
            self.cancellations -= 1;
        }
        transmit
    }

    /// The next thing that happened to a call.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due, and why. It may come early, never late.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, Reason)> {
        if self.calls.is_empty() { None } else { self.wake.next() }
    }

    fn response(&mut self, response: &Response<'_>) -> Arrival {
        let number = match response.id {
            Some(Id::Number(number)) => number,
            Some(Id::String(_)) => return self.unknown(),
            None => return Arrival::Ignored(Ignored::NoId),
        };
        if self.take(Call(number)).is_some() {
            self.stats.answered += 1;
            Arrival::Response(Call(number))
        } else if (1..self.next_id).contains(&number) {
            self.stats.late += 1;
            Arrival::Ignored(Ignored::Late)
        } else {
            self.unknown()
        }
    }

    fn request(&mut self, request: &Request<'_>) -> Arrival {
        self.stats.requests += 1;
        if self.requests.contains_key(&request.id) {
            let named = self.side == Side::Server { duplicates: DuplicateIds::Named };
            let error =
                ErrorObject::new(ErrorCode::InvalidRequest, "a request with this id is already in flight");
            self.refuse(named.then(|| request.id.clone()), error);
            return Arrival::Ignored(Ignored::Refused);
        }
        if self.requests.len() >= self.limits.in_flight {
            let error = ErrorObject::new(ErrorCode::InternalError, "too many requests in flight");
            self.refuse(Some(request.id.clone()), error);
            return Arrival::Ignored(Ignored::Refused);
        }
        let running =
            if request.method == Method::Initialize { Incoming::Handshake } else { Incoming::Running };
        self.requests.insert(request.id.clone(), running);
        Arrival::Request
    }

    fn cancelled(&mut self, notification: &Notification<'_>) -> Arrival {
        let Ok(params) = Raising::STRICT.text::<CancelledParams>(notification.params.text()) else {
            return Arrival::Ignored(Ignored::Malformed);
        };
        match self.requests.get_mut(&params.request_id) {
            // `initialize` cannot be cancelled.
            Some(Incoming::Handshake) => return Arrival::Ignored(Ignored::Unknown),
            Some(request) => {
                *request = Incoming::Cancelled;
                return Arrival::Cancelled(params.request_id);
            }
            None => {}
        }
        if let Id::Number(number) = params.request_id
            && self.slot(Call(number)).is_some_and(|slot| slot.kind == Kind::Listen)
        {
            self.take(Call(number));
            self.stats.answered += 1;
            return Arrival::Ended(Call(number));
        }
        self.unknown()
    }

    fn progress(&mut self, notification: &Notification<'_>, now: Instant) -> Arrival {
        let Ok(params) = Raising::STRICT.text::<ProgressParams>(notification.params.text()) else {
            return Arrival::Ignored(Ignored::Malformed);
        };
        let call = match params.progress_token {
            // Exactly as we wrote it.
            Id::String(text) => text.parse().ok().map(Call).filter(|call| call.0.to_string() == *text),
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
        Arrival::Ignored(Ignored::Unknown)
    }

    fn refuse(&mut self, id: Option<Id>, error: ErrorObject) {
        self.stats.refused += 1;
        if self.transmits.len() - self.cancellations < self.limits.in_flight {
            self.transmits.push_back(Transmit::Error { id, error });
        } else {
            self.stats.dropped += 1;
        }
    }

    fn tell_cancelled(&mut self, slot: &Slot, reason: &'static str) {
        if slot.kind != Kind::Handshake {
            self.cancellations += 1;
            self.transmits.push_back(Transmit::Cancelled { id: Id::Number(slot.id), reason });
        }
    }

    fn slot(&mut self, call: Call) -> Option<&mut Slot> {
        let at = self.calls.binary_search_by_key(&call.0, |slot| slot.id).ok()?;
        self.calls.get_mut(at)
    }

    fn take(&mut self, call: Call) -> Option<Slot> {
        let at = self.calls.binary_search_by_key(&call.0, |slot| slot.id).ok()?;
        self.calls.remove(at)
    }
}

#[cfg(test)]
mod tests;
