//! What goes out on one link: messages gathered until a driver takes them, all in one write.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::budget::{Budget, Share};

/// How a message is set off from the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only HTTP has events"))]
pub(crate) enum Framing {
    /// One line each.
    Lines,
    /// One server-sent event each.
    Events,
    /// One server-sent event each, with the number of the stream and its own, so that a client that lost the
    /// stream can go on where it stood. Primed, it begins with an event that holds only its number.
    NumberedEvents { stream: u64, primed: bool },
}

/// What an idle buffer keeps on a server with many clients.
const KEPT_BUFFER: usize = 64 << 10;

/// Messages on their way to the client. Filled by handlers and the driver, drained by the driver.
#[derive(Debug)]
pub(crate) struct Outlet {
    framing: Framing,
    /// Beyond this many bytes, what can be done without is dropped.
    limit: usize,
    /// Where the bytes that it holds are taken from. When that is spent, events are no longer kept for a client that
    /// comes back, and what can be done without is dropped.
    memory: Option<Arc<Budget>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    closed: bool,
    /// Who waits for something to be there.
    waker: Option<Waker>,
    /// The number of the next event.
    next: u64,
    /// Events that were numbered, for a client that comes back; the oldest go first.
    history: VecDeque<(u64, Vec<u8>)>,
    history_bytes: usize,
    /// Counts who reads: a new one takes over from the one before.
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only HTTP has several readers"))]
    reader: u64,
    /// A reader was there and has gone: events are only kept, for one that comes back.
    is_abandoned: bool,
    /// The reader is to leave once it has everything.
    sent_away: bool,
    share: Option<Share>,
}

impl State {
    /// Bytes of memory that it holds.
    fn held(&self) -> usize {
        self.bytes.capacity() + self.history_bytes
    }

    /// Releases the memory of what has been taken.
    fn release(&mut self) {
        let held = self.held();
        if let Some(share) = &mut self.share {
            share.resize_beyond(held);
        }
    }

    /// Forgets events from the oldest on, until they fit the bytes. The newest is kept if `least` is 1.
    fn forget_history(&mut self, bytes: usize, least: usize) {
        while self.history_bytes > bytes && self.history.len() > least {
            if let Some((_, oldest)) = self.history.pop_front() {
                self.history_bytes -= oldest.capacity();
            }
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Bytes that were taken to be sent, and their memory.
#[cfg(feature = "http")]
pub(crate) struct Taken {
    bytes: Vec<u8>,
    _memory: Option<Share>,
}

#[cfg(feature = "http")]
impl AsRef<[u8]> for Taken {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Whether a message may be left out when memory is short.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Required,
    Optional,
}

/// The link has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed;

type Written = Result<(), serde_json::Error>;

impl Outlet {
    pub(crate) fn new(framing: Framing, limit: usize, memory: Option<Arc<Budget>>) -> Self {
        Self { framing, limit, memory, state: Mutex::default() }
    }

    /// Adds a message that must go out: a response, or a request of ours.
    pub(crate) fn send(&self, mut write: impl FnMut(&mut Vec<u8>) -> Written) -> Result<(), Closed> {
        self.send_by(&mut write)
    }

    fn send_by(&self, write: &mut dyn FnMut(&mut Vec<u8>) -> Written) -> Result<(), Closed> {
        let mut state = self.lock();
        if state.closed {
            return Err(Closed);
        }
        self.add(&mut state, Need::Required, write);
        Ok(())
    }

    /// Adds a message that can be done without. False if there was no room for it.
    pub(crate) fn offer(&self, mut write: impl FnMut(&mut Vec<u8>) -> Written) -> bool {
        self.offer_by(&mut write)
    }

    fn offer_by(&self, write: &mut dyn FnMut(&mut Vec<u8>) -> Written) -> bool {
        let mut state = self.lock();
        if state.closed || state.bytes.len() > self.limit {
            return false;
        }
        self.add(&mut state, Need::Optional, write)
    }

    /// Adds a message. Returns false if it is optional and there is no memory for it.
    fn add(&self, state: &mut State, need: Need, write: &mut dyn FnMut(&mut Vec<u8>) -> Written) -> bool {
        let mut start = state.bytes.len();
        match self.framing {
            Framing::Lines => {}
            Framing::Events => state.bytes.extend_from_slice(b"event: message\ndata: "),
            Framing::NumberedEvents { stream, primed } => {
                if primed && state.next == 0 {
                    self.number(state, stream, None);
                    start = state.bytes.len();
                }
                // Writing to memory does not fail.
                let _ = write!(state.bytes, "id: {stream}-{}\nevent: message\ndata: ", state.next);
            }
        }
        if write(&mut state.bytes).is_err() {
            // A value that its version cannot say; the caller wrote an error instead, or nothing.
            state.bytes.truncate(start);
            return true;
        }
        state.bytes.extend_from_slice(if self.framing == Framing::Lines { b"\n" } else { b"\n\n" });
        if matches!(self.framing, Framing::NumberedEvents { .. }) {
            self.remember(state, start);
        }
        if state.is_abandoned {
            state.bytes = Vec::new();
        }
        let is_kept = self.charge(state) || need == Need::Required;
        if !is_kept {
            state.bytes.truncate(start);
            state.bytes.shrink_to_fit();
        }
        state.release();
        state.wake();
        is_kept
    }

    /// Takes memory for what is held. If there is not enough, the kept events go first; returns false if that is not
    /// enough either.
    fn charge(&self, state: &mut State) -> bool {
        let Some(memory) = &self.memory else { return true };
        let mut held = state.held();
        let share = state.share.get_or_insert_with(|| memory.overdraw(0));
        if share.resize(held) {
            return true;
        }
        state.forget_history(0, 0);
        held = state.held();
        state.share.as_mut().is_none_or(|share| share.resize(held))
    }

    /// Adds an event that holds no message: only its number, and how long to wait before coming back.
    fn number(&self, state: &mut State, stream: u64, retry: Option<Duration>) {
        let start = state.bytes.len();
        let _ = writeln!(state.bytes, "id: {stream}-{}", state.next);
        if let Some(retry) = retry {
            let _ = writeln!(state.bytes, "retry: {}", retry.as_millis());
        }
        state.bytes.extend_from_slice(b"data: \n\n");
        self.remember(state, start);
    }

    /// Ends the stream for its reader, who is told when to come back for the rest. False if it cannot come back.
    pub(crate) fn send_away(&self, retry: Duration) -> bool {
        let Framing::NumberedEvents { stream, primed: true } = self.framing else { return false };
        let mut state = self.lock();
        self.number(&mut state, stream, Some(retry));
        state.release();
        state.sent_away = true;
        state.wake();
        true
    }

    fn remember(&self, state: &mut State, start: usize) {
        let event = state.bytes[start..].to_vec();
        state.history_bytes += event.capacity();
        state.history.push_back((state.next, event));
        state.next += 1;
        state.forget_history(self.limit, 1);
    }

    /// Exchanges what is there with an empty buffer. False if there was nothing.
    pub(crate) fn take(&self, buffer: &mut Vec<u8>) -> bool {
        debug_assert!(buffer.is_empty(), "what is in the buffer would go out twice");
        let mut state = self.lock();
        if state.bytes.is_empty() {
            return false;
        }
        std::mem::swap(&mut state.bytes, buffer);
        state.release();
        true
    }

    /// Takes an empty buffer back if it is larger than the one in use: one that has grown is enough.
    pub(crate) fn give_back(&self, buffer: &mut Vec<u8>) {
        let mut state = self.lock();
        if self.memory.is_some() {
            // One of many clients: a buffer that has grown is not kept for the next large message.
            buffer.shrink_to(KEPT_BUFFER);
        }
        if state.bytes.is_empty() && state.bytes.capacity() < buffer.capacity() {
            std::mem::swap(&mut state.bytes, buffer);
            state.release();
        }
    }

    /// How much waits.
    pub(crate) fn len(&self) -> usize {
        self.lock().bytes.len()
    }

    /// Ready when something is there, or will never be.
    pub(crate) fn poll_filled(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if !state.bytes.is_empty() || state.closed || state.sent_away {
            return Poll::Ready(());
        }
        if state.waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
            state.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Waits until something is there, or will never be. One waits at a time.
    ///
    /// # Cancellation
    /// Safe: nothing is taken.
    pub(crate) async fn filled(&self) {
        poll_fn(|cx| self.poll_filled(cx)).await;
    }

    /// Takes nothing more. What is there can still be taken.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.wake();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(feature = "http")]
impl Outlet {
    /// A new reader, which begins after an event if it names one; the reader before it ends.
    pub(crate) fn attach(&self, after: Option<u64>) -> u64 {
        let mut state = self.lock();
        let State { bytes, history, .. } = &mut *state;
        if let Some(after) = after {
            bytes.clear();
            for (_, event) in history.iter().filter(|(number, _)| *number > after) {
                bytes.extend_from_slice(event);
            }
        }
        state.reader += 1;
        // One that comes for the first time is still to be sent away.
        state.sent_away &= after.is_none();
        state.is_abandoned = false;
        state.release();
        state.wake();
        state.reader
    }

    /// The reader has gone. Numbered events are kept for one that comes back; others are for nobody.
    pub(crate) fn detach(&self, reader: u64) {
        let mut state = self.lock();
        if state.reader == reader {
            state.is_abandoned = true;
            state.bytes = Vec::new();
            state.release();
        }
    }

    /// Closes it and forgets the events that were kept. What its reader has not read can still be read.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.forget_history(0, 0);
        state.release();
        state.wake();
    }

    /// What is there for this reader; `None` if it has nothing more to wait for.
    /// The memory of the bytes is held until they are dropped: who sends them may have to wait.
    pub(crate) fn poll_events(&self, reader: u64, cx: &mut Context<'_>) -> Poll<Option<Taken>> {
        let mut state = self.lock();
        if state.reader != reader {
            return Poll::Ready(None);
        }
        if !state.bytes.is_empty() {
            let bytes = std::mem::take(&mut state.bytes);
            let memory = self.memory.as_ref().map(|memory| memory.overdraw(bytes.capacity()));
            state.release();
            return Poll::Ready(Some(Taken { bytes, _memory: memory }));
        }
        if state.closed || state.sent_away {
            return Poll::Ready(None);
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// True if this reader has nothing more to wait for.
    pub(crate) fn is_over(&self, reader: u64) -> bool {
        let state = self.lock();
        state.reader != reader || state.bytes.is_empty() && (state.closed || state.sent_away)
    }

    /// How much memory the events take that are kept for a client that comes back.
    pub(crate) fn kept(&self) -> usize {
        self.lock().history_bytes
    }

    /// True if nothing was ever added.
    pub(crate) fn is_untouched(&self) -> bool {
        let state = self.lock();
        state.next == 0 && state.bytes.is_empty()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }
}
