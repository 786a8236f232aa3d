//! Two peers connected by a simulated link, for tests without real time.
//!
//! [`SimulatedLink`] moves bytes between two [`LinkEnd`]s with a latency, in chunks as small as one byte, and can cut
//! the link after any byte. It has its own simulated time.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use mcp_protocol::{Dialect, Limits};
//! use mcp_protocol::messages::{EmptyParams, Method};
//! use mcp_protocol::peer::{Timeouts, DuplicateIds, CallFailure, Peer, TimeoutReason};
//! use mcp_protocol::simulated_link::SimulatedLink;
//!
//! let limits = Limits::default();
//! let server = Peer::server(limits.clone(), DuplicateIds::Unnamed);
//! let mut link = SimulatedLink::between(Peer::client(limits), server, Instant::now()).latency(Duration::from_secs(6));
//! let timeouts = Timeouts::default().idle(Duration::from_secs(5));
//! let call = link.call(&Method::Ping, &Dialect::V2025_11_25.lower(&EmptyParams::new()), timeouts)?;
//! link.run_until_quiet();
//! assert_eq!(link.left.peer.poll_failure(), Some(CallFailure::TimedOut(call, TimeoutReason::Idle)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::codec::line::{Line, LineBuffer, Lines};
use crate::dialect::Lower;
use crate::limits::Limits;
use crate::messages::{CancelledParams, Id, Incoming, Message, Method, parse_bytes, write};
use crate::peer::{Arrival, CallHandle, OpenError, Peer, Timeouts, Transmit};

/// Two ends and the link between them.
#[derive(Debug)]
pub struct SimulatedLink {
    /// Left end, usually the client.
    pub left: LinkEnd,
    /// Right end, usually the server.
    pub right: LinkEnd,
    now: Instant,
    latency: Duration,
    chunk_size: usize,
}

/// One end of a link.
#[derive(Debug)]
pub struct LinkEnd {
    /// Requests in flight at this end.
    pub peer: Peer,
    /// Bytes to send from this end.
    pub outbox: LineBuffer,
    /// Messages that arrived at this end, oldest first.
    pub received: VecDeque<ReceivedMessage>,
    lines: Lines,
    limits: Limits,
    /// Bytes in transit to this end.
    transit: VecDeque<(Instant, Vec<u8>)>,
    /// Number of bytes that may still arrive before the link is cut.
    until_cut: Option<usize>,
    is_cut: bool,
}

/// A received message, and its classification by the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// Classification by [`Peer::handle_message`].
    pub arrival: Arrival,
    /// Text of the message.
    pub text: String,
}

impl SimulatedLink {
    /// Connects two peers. The simulated time begins at `start`, which may be any instant.
    #[must_use]
    pub fn between(left: Peer, right: Peer, start: Instant) -> Self {
        Self {
            left: LinkEnd::new(left),
            right: LinkEnd::new(right),
            now: start,
            latency: Duration::ZERO,
            chunk_size: usize::MAX,
        }
    }

    /// Sets the one-way latency: bytes arrive this long after they were sent. Default: zero.
    #[must_use]
    pub fn latency(mut self, latency: Duration) -> Self {
        self.latency = latency;
        self
    }

    /// Sets the size of the chunks in which bytes arrive; at least one.
    #[must_use]
    pub fn chunk_size(mut self, bytes: usize) -> Self {
        self.chunk_size = bytes.max(1);
        self
    }

    /// Cuts the link after this many more bytes have arrived at the left end.
    #[must_use]
    pub fn cut_left_after(mut self, bytes: usize) -> Self {
        self.left.until_cut = Some(bytes);
        self
    }

    /// Cuts the link after this many more bytes have arrived at the right end.
    #[must_use]
    pub fn cut_right_after(mut self, bytes: usize) -> Self {
        self.right.until_cut = Some(bytes);
        self
    }

    /// Returns the simulated time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Opens a call at the left end and writes its request to the outbox.
    ///
    /// # Errors
    /// Fails if the peer is closed or its limit is reached.
    pub fn call(
        &mut self,
        method: &Method,
        params: &dyn Lower,
        timeouts: Timeouts,
    ) -> Result<CallHandle, OpenError> {
        let call = self.left.peer.open(method, timeouts, self.now)?;
        let written = self.left.outbox.line(|out| write::request(out, &call.id(), method, params));
        debug_assert!(written.is_ok(), "params cannot be serialized");
        Ok(call)
    }

    /// Runs until nothing is in transit and no deadline is left.
    pub fn run_until_quiet(&mut self) {
        while self.step() {}
    }

    /// Runs until nothing is in transit. Deadlines after that time do not expire.
    pub fn run_until_delivered(&mut self) {
        loop {
            self.send();
            if self.left.transit.is_empty() && self.right.transit.is_empty() {
                return;
            }
            self.step();
        }
    }

    /// Processes the next event: arriving bytes, or a deadline. Returns false if there is none.
    pub fn step(&mut self) -> bool {
        self.send();
        let Some(next) = [self.left.next(), self.right.next()].into_iter().flatten().min() else {
            return false;
        };
        self.now = self.now.max(next);
        self.left.deliver(self.now, self.chunk_size);
        self.right.deliver(self.now, self.chunk_size);
        if self.left.is_cut || self.right.is_cut {
            self.left.cut();
            self.right.cut();
        }
        true
    }

    fn send(&mut self) {
        let at = self.now + self.latency;
        self.left.send_to(&mut self.right, at);
        self.right.send_to(&mut self.left, at);
    }
}

impl LinkEnd {
    fn new(peer: Peer) -> Self {
        let limits = peer.limits().clone();
        Self {
            peer,
            outbox: LineBuffer::default(),
            received: VecDeque::new(),
            lines: Lines::new(&limits),
            limits,
            transit: VecDeque::new(),
            until_cut: None,
            is_cut: false,
        }
    }

    /// Responds to a request, unless it was cancelled.
    pub fn respond(&mut self, id: &Id, result: &dyn Lower) {
        if self.peer.complete_request(id) {
            let written = self.outbox.line(|out| write::response(out, id, result));
            debug_assert!(written.is_ok(), "the result cannot be serialized");
        }
    }

    fn send_to(&mut self, other: &mut LinkEnd, at: Instant) {
        self.write_transmits();
        if !self.outbox.is_empty() && !self.is_cut {
            other.transit.push_back((at, self.outbox.bytes().to_vec()));
        }
        self.outbox.advance(usize::MAX);
    }

    fn write_transmits(&mut self) {
        while let Some(transmit) = self.peer.poll_transmit() {
            let written = self.outbox.line(|out| match transmit {
                Transmit::Cancelled { id, reason } => {
                    let params = CancelledParams::new(id).reason(reason);
                    write::notification(out, &Method::Cancelled, Some(&params))
                }
                Transmit::Error { id, error } => write::error(out, id.as_ref(), write::NoId::Omitted, &error),
            });
            debug_assert!(written.is_ok(), "the message cannot be serialized");
        }
    }

    fn next(&self) -> Option<Instant> {
        let bytes = self.transit.front().map(|(at, _)| *at);
        let deadline = self.peer.poll_timeout().map(|(at, _)| at);
        bytes.into_iter().chain(deadline).min()
    }

    fn deliver(&mut self, now: Instant, chunk_size: usize) {
        self.peer.handle_timeout(now);
        while let Some((at, mut bytes)) = self.transit.pop_front() {
            if at > now {
                self.transit.push_front((at, bytes));
                break;
            }
            if let Some(left) = &mut self.until_cut {
                bytes.truncate(*left);
                *left -= bytes.len();
                self.is_cut = *left == 0;
            }
            for chunk in bytes.chunks(chunk_size) {
                self.lines.push(chunk);
                self.read(now);
            }
            if self.is_cut {
                break;
            }
        }
    }

    fn read(&mut self, now: Instant) {
        while let Some(line) = self.lines.poll_line() {
            let (arrival, text) = match line {
                Line::Whole(bytes) => {
                    let text = String::from_utf8_lossy(bytes).into_owned();
                    (arrival(&mut self.peer, bytes, &self.limits, now), text)
                }
                Line::TooLong(error) => (self.peer.handle_unreadable(&error), String::new()),
                Line::Endless => {
                    self.is_cut = true;
                    return;
                }
            };
            self.received.push_back(ReceivedMessage { arrival, text });
        }
    }

    fn cut(&mut self) {
        self.is_cut = true;
        self.transit.clear();
        self.outbox.advance(usize::MAX);
        self.peer.handle_closed();
    }
}

fn arrival(peer: &mut Peer, line: &[u8], limits: &Limits, now: Instant) -> Arrival {
    match parse_bytes(line, limits) {
        Ok(Incoming::Message(message)) => peer.handle_message(&message, now),
        Ok(Incoming::Batch(batch)) => {
            // Every message of a batch is handled; the first arrival is returned.
            let mut first = None;
            for message in batch.messages() {
                let arrival = match &message {
                    Ok(message) => peer.handle_message(message, now),
                    Err(error) => peer.handle_unreadable(error),
                };
                first.get_or_insert(arrival);
            }
            first.unwrap_or(Arrival::Notification)
        }
        Err(error) => peer.handle_unreadable(&error),
    }
}

impl ReceivedMessage {
    /// Parses the message again. Returns `None` for text that is not a single valid message.
    #[must_use]
    pub fn message(&self) -> Option<Message<'_>> {
        match crate::messages::parse(&self.text, &Limits::default()) {
            Ok(Incoming::Message(message)) => Some(message),
            _ => None,
        }
    }
}
