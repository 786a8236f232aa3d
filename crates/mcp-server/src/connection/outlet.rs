//! The output buffer of one connection: messages are collected until the driver writes them together.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::budget::{Budget, Share};

/// The framing of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only HTTP has events"))]
pub(crate) enum OutletFraming {
    /// One message per line.
    Lines,
    /// One message per server-sent event.
    Events,
    /// One message per server-sent event, with an id for resumption: stream number and event number. A primed stream
    /// starts with an event without a message, so that the client can resume it from the start.
    NumberedEvents { stream: u64, primed: bool },
}

/// The start of a server-sent event; the message follows. `mcp_protocol::codec::sse::write_message` is not used,
/// because it needs the whole message in a second buffer.
pub(crate) const EVENT_START: &[u8] = b"event: message\ndata: ";
/// The capacity that an idle buffer keeps, in bytes.
pub(crate) const IDLE_BUFFER_BYTES: usize = 64 << 10;

/// The output buffer of one connection or stream. Handlers and the driver add messages; the driver writes them.
#[derive(Debug)]
pub(crate) struct Outlet {
    framing: OutletFraming,
    /// The number of unsent bytes above which optional messages are dropped.
    limit: usize,
    /// The memory budget. When it is exhausted, events are no longer kept for resumption and optional messages are
    /// dropped.
    memory: Option<Arc<Budget>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    closed: bool,
    /// The waker of the reader.
    waker: Option<Waker>,
    /// The number of the next event.
    next_event: u64,
    /// Numbered events kept for resumption, oldest first.
    history: VecDeque<(u64, Vec<u8>)>,
    history_bytes: usize,
    /// The number of the current reader; a new reader replaces the previous one.
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only HTTP has several readers"))]
    reader: u64,
    /// The reader has disconnected: events are only kept for resumption.
    is_abandoned: bool,
    /// The stream ends for the reader as soon as everything is read.
    is_ended: bool,
    share: Option<Share>,
}

impl State {
    /// Returns the allocated bytes.
    fn held(&self) -> usize {
        self.bytes.capacity() + self.history_bytes
    }

    /// Sets the share of the budget to the allocated bytes, even if that exceeds the limit.
    fn update_share(&mut self) {
        let held = self.held();
        if let Some(share) = &mut self.share {
            share.resize_beyond(held);
        }
    }

    /// Drops the oldest kept events until at most `bytes` are left. Keeps at least `least` events.
    fn trim_history(&mut self, bytes: usize, least: usize) {
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

/// Bytes that are being sent, with their share of the memory budget.
#[cfg(feature = "http")]
pub(crate) struct OutputChunk {
    bytes: Vec<u8>,
    _memory: Option<Share>,
}

#[cfg(feature = "http")]
impl AsRef<[u8]> for OutputChunk {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The priority of a message. Optional messages are dropped when memory is short.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Priority {
    Required,
    Optional,
}

/// The error of a closed outlet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutletClosedError;

type SerializeResult = Result<(), serde_json::Error>;

impl Outlet {
    pub(crate) fn new(framing: OutletFraming, limit: usize, memory: Option<Arc<Budget>>) -> Self {
        Self { framing, limit, memory, state: Mutex::default() }
    }

    /// Adds a required message: a response or a request.
    pub(crate) fn send(
        &self,
        mut write: impl FnMut(&mut Vec<u8>) -> SerializeResult,
    ) -> Result<(), OutletClosedError> {
        self.send_dyn(&mut write)
    }

    fn send_dyn(
        &self,
        write: &mut dyn FnMut(&mut Vec<u8>) -> SerializeResult,
    ) -> Result<(), OutletClosedError> {
        let mut state = self.lock();
        if state.closed {
            return Err(OutletClosedError);
        }
        self.add(&mut state, Priority::Required, write);
        Ok(())
    }

    /// Adds an optional message: a notification. Returns false if there is no room for it.
    pub(crate) fn offer(&self, mut write: impl FnMut(&mut Vec<u8>) -> SerializeResult) -> bool {
        self.offer_dyn(&mut write)
    }

    fn offer_dyn(&self, write: &mut dyn FnMut(&mut Vec<u8>) -> SerializeResult) -> bool {
        let mut state = self.lock();
        if state.closed || state.bytes.len() > self.limit {
            return false;
        }
        self.add(&mut state, Priority::Optional, write)
    }

    /// Adds a message. Returns false if the message was dropped, because it is optional and there is no memory for it.
    fn add(
        &self,
        state: &mut State,
        priority: Priority,
        write: &mut dyn FnMut(&mut Vec<u8>) -> SerializeResult,
    ) -> bool {
        let mut start = state.bytes.len();
        match self.framing {
            OutletFraming::Lines => {}
            OutletFraming::Events => state.bytes.extend_from_slice(EVENT_START),
            OutletFraming::NumberedEvents { stream, primed } => {
                if primed && state.next_event == 0 {
                    self.add_empty_event(state, stream, None);
                    start = state.bytes.len();
                }
                // Writing to memory does not fail.
                let _ = writeln!(state.bytes, "id: {stream}-{}", state.next_event);
                state.bytes.extend_from_slice(EVENT_START);
            }
        }
        if write(&mut state.bytes).is_err() {
            // The protocol version cannot express the value; the caller handles the error.
            state.bytes.truncate(start);
            return true;
        }
        state.bytes.extend_from_slice(if self.framing == OutletFraming::Lines { b"\n" } else { b"\n\n" });
        if matches!(self.framing, OutletFraming::NumberedEvents { .. }) {
            self.keep_event(state, start);
        }
        if state.is_abandoned {
            state.bytes = Vec::new();
        }
        let is_kept = self.charge(state) || priority == Priority::Required;
        if !is_kept {
            state.bytes.truncate(start);
            state.bytes.shrink_to_fit();
        }
        state.update_share();
        state.wake();
        is_kept
    }

    /// Charges the allocated bytes to the budget. If not enough is left, first drops the kept events. Returns false if
    /// that does not free enough.
    fn charge(&self, state: &mut State) -> bool {
        let Some(memory) = &self.memory else { return true };
        let mut held = state.held();
        let share = state.share.get_or_insert_with(|| memory.overdraw(0));
        if share.resize(held) {
            return true;
        }
        state.trim_history(0, 0);
        held = state.held();
        state.share.as_mut().is_none_or(|share| share.resize(held))
    }

    /// Adds an event without a message: its id, and optionally the SSE `retry` time.
    fn add_empty_event(&self, state: &mut State, stream: u64, retry: Option<Duration>) {
        let start = state.bytes.len();
        let _ = writeln!(state.bytes, "id: {stream}-{}", state.next_event);
        if let Some(retry) = retry {
            let _ = writeln!(state.bytes, "retry: {}", retry.as_millis());
        }
        state.bytes.extend_from_slice(b"data: \n\n");
        self.keep_event(state, start);
    }

    /// Ends the stream for its reader with an SSE `retry` time. Returns false, and does nothing, if the client cannot
    /// resume the stream.
    pub(crate) fn end_with_retry(&self, retry: Duration) -> bool {
        let OutletFraming::NumberedEvents { stream, primed: true } = self.framing else { return false };
        let mut state = self.lock();
        self.add_empty_event(&mut state, stream, Some(retry));
        state.update_share();
        state.is_ended = true;
        state.wake();
        true
    }

    /// Keeps the event at the end of the buffer for resumption. The streams of a session together keep events in at
    /// most half of its memory; the rest is for messages that are not read yet.
    fn keep_event(&self, state: &mut State, start: usize) {
        let room = self.memory.as_ref().map_or(self.limit, |memory| memory.left_of_half());
        let limit = self.limit.min(state.history_bytes.saturating_add(room));
        let event = state.bytes[start..].to_vec();
        state.history_bytes += event.capacity();
        state.history.push_back((state.next_event, event));
        state.next_event += 1;
        state.trim_history(limit, 1);
    }

    /// Moves the content into `buffer`, which must be empty. Returns false if there is no content.
    pub(crate) fn take(&self, buffer: &mut Vec<u8>) -> bool {
        debug_assert!(buffer.is_empty(), "the buffer must be empty");
        let mut state = self.lock();
        if state.bytes.is_empty() {
            return false;
        }
        std::mem::swap(&mut state.bytes, buffer);
        state.update_share();
        true
    }

    /// Takes back an emptied buffer for reuse, if its capacity is larger than that of the current buffer.
    pub(crate) fn return_buffer(&self, buffer: &mut Vec<u8>) {
        let mut state = self.lock();
        if self.memory.is_some() {
            // A server with many clients does not keep large idle buffers.
            buffer.shrink_to(IDLE_BUFFER_BYTES);
        }
        if state.bytes.is_empty() && state.bytes.capacity() < buffer.capacity() {
            std::mem::swap(&mut state.bytes, buffer);
            state.update_share();
        }
    }

    /// Returns the number of bytes in the buffer.
    pub(crate) fn len(&self) -> usize {
        self.lock().bytes.len()
    }

    /// Returns `Ready` when the buffer has content or the stream has ended.
    pub(crate) fn poll_filled(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if !state.bytes.is_empty() || state.closed || state.is_ended {
            return Poll::Ready(());
        }
        if state.waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
            state.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Waits until the buffer has content, or the stream has ended. Supports one waiter at a time.
    ///
    /// # Cancellation
    /// Cancel safe: no data is lost.
    pub(crate) async fn filled(&self) {
        poll_fn(|cx| self.poll_filled(cx)).await;
    }

    /// Refuses further messages from now on. Unread content can still be read.
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
    /// Attaches a new reader, which ends the previous one, and returns the number of the new reader. If `after` is
    /// given, the new reader first gets the kept events after the one with this number.
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
        // Only a resuming reader clears the flag; for the first reader the stream must still end.
        state.is_ended &= after.is_none();
        state.is_abandoned = false;
        state.update_share();
        state.wake();
        state.reader
    }

    /// Detaches a reader that has disconnected, and drops its unread messages. Only events in the history are kept, for
    /// resumption.
    pub(crate) fn detach(&self, reader: u64) {
        let mut state = self.lock();
        if state.reader == reader {
            state.is_abandoned = true;
            state.bytes = Vec::new();
            state.update_share();
        }
    }

    /// Closes the outlet and drops the events kept for resumption. Unread content can still be read.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.trim_history(0, 0);
        state.update_share();
        state.wake();
    }

    /// Takes the content; `None` if the stream has ended for this reader. The memory stays charged until the chunk is
    /// dropped, because sending the chunk may take time.
    pub(crate) fn poll_events(&self, reader: u64, cx: &mut Context<'_>) -> Poll<Option<OutputChunk>> {
        let mut state = self.lock();
        if state.reader != reader {
            return Poll::Ready(None);
        }
        if !state.bytes.is_empty() {
            let bytes = std::mem::take(&mut state.bytes);
            let memory = self.memory.as_ref().map(|memory| memory.overdraw(bytes.capacity()));
            state.update_share();
            return Poll::Ready(Some(OutputChunk { bytes, _memory: memory }));
        }
        if state.closed || state.is_ended {
            return Poll::Ready(None);
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Returns true if the stream has ended for this reader.
    pub(crate) fn is_over(&self, reader: u64) -> bool {
        let state = self.lock();
        state.reader != reader || state.bytes.is_empty() && (state.closed || state.is_ended)
    }

    /// Returns the memory of the events kept for resumption, in bytes.
    pub(crate) fn history_bytes(&self) -> usize {
        self.lock().history_bytes
    }

    /// Returns true if no message was ever added.
    pub(crate) fn is_untouched(&self) -> bool {
        let state = self.lock();
        state.next_event == 0 && state.bytes.is_empty()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }
}
