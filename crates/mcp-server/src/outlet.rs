//! What goes out on one link: messages gathered until a driver takes them, all in one write.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// How a message is set off from the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// One line each.
    Lines,
    /// One server-sent event each.
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only HTTP has events"))]
    Events,
}

/// Messages on their way to the client. Filled by handlers and the driver, drained by the driver.
#[derive(Debug)]
pub(crate) struct Outlet {
    framing: Framing,
    /// Beyond this many bytes, what can be done without is dropped.
    limit: usize,
    state: Mutex<State>,
    /// Something came in, or the end.
    ready: Notify,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    closed: bool,
}

/// The link has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed;

type Written = Result<(), serde_json::Error>;

impl Outlet {
    pub(crate) fn new(framing: Framing, limit: usize) -> Self {
        Self { framing, limit, state: Mutex::default(), ready: Notify::new() }
    }

    /// Adds a message that must go out: a response, or a request of ours.
    pub(crate) fn send(&self, write: impl FnOnce(&mut Vec<u8>) -> Written) -> Result<(), Closed> {
        let mut state = self.lock();
        if state.closed {
            return Err(Closed);
        }
        self.add(&mut state, write);
        Ok(())
    }

    /// Adds a message that can be done without. False if there was no room for it.
    pub(crate) fn offer(&self, write: impl FnOnce(&mut Vec<u8>) -> Written) -> bool {
        let mut state = self.lock();
        if state.closed || state.bytes.len() > self.limit {
            return false;
        }
        self.add(&mut state, write);
        true
    }

    fn add(&self, state: &mut State, write: impl FnOnce(&mut Vec<u8>) -> Written) {
        let start = state.bytes.len();
        if self.framing == Framing::Events {
            state.bytes.extend_from_slice(b"event: message\ndata: ");
        }
        match write(&mut state.bytes) {
            Ok(()) if self.framing == Framing::Events => state.bytes.extend_from_slice(b"\n\n"),
            Ok(()) => state.bytes.push(b'\n'),
            // A value that its version cannot say; the caller wrote an error instead, or nothing.
            Err(_) => state.bytes.truncate(start),
        }
        if start == 0 {
            self.ready.notify_one();
        }
    }

    /// Exchanges what is there with an empty buffer. False if there was nothing.
    pub(crate) fn take(&self, buffer: &mut Vec<u8>) -> bool {
        debug_assert!(buffer.is_empty(), "what is in the buffer would go out twice");
        let mut state = self.lock();
        if state.bytes.is_empty() {
            return false;
        }
        std::mem::swap(&mut state.bytes, buffer);
        true
    }

    /// How much waits.
    pub(crate) fn len(&self) -> usize {
        self.lock().bytes.len()
    }

    /// Waits until something is there.
    ///
    /// # Cancellation
    /// Safe: nothing is taken.
    pub(crate) async fn filled(&self) {
        while self.lock().bytes.is_empty() {
            self.ready.notified().await;
        }
    }

    /// Takes nothing more.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
