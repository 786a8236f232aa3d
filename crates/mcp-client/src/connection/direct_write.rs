//! Writing by the caller of a request, which saves waking the driver.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::AsyncWrite as _;

use super::Connection;
use super::state::{State, Writer};

/// The queued lines and the writer, lent to a caller. Dropping this value returns both to the state.
///
/// The caller writes after it has released the lock of the state: a server on the same core may respond at once, and the
/// driver, which needs the lock to read the response, would have to wait for it.
pub(super) struct DirectWrite<'a> {
    connection: &'a Connection,
    /// The link that the writer belongs to.
    link: u64,
    writer: Option<Writer>,
    lines: Vec<u8>,
    written: usize,
    is_flushed: bool,
}

impl Connection {
    /// Lends the queued lines to a caller whose request is the only one in flight. Otherwise wakes the driver, which
    /// writes everything that is queued at once.
    pub(super) fn begin_direct_write<'a>(&'a self, state: &mut State) -> Option<DirectWrite<'a>> {
        let writer = if state.waiting.len() == 1 { state.writer.take() } else { None };
        if writer.is_none() {
            state.wake_driver();
            return None;
        }
        state.wake_driver_if_due_sooner();
        state.is_writer_lent = true;
        let (link, lines) = (state.links, state.outbox.lend());
        Some(DirectWrite { connection: self, link, writer, lines, written: 0, is_flushed: false })
    }
}

impl DirectWrite<'_> {
    /// Writes as much as is possible without waiting. The driver writes the rest. The lock must not be held.
    pub(super) fn run(mut self) {
        let Some(writer) = &mut self.writer else { return };
        // No waker is needed, and the driver reports errors.
        let mut cx = Context::from_waker(Waker::noop());
        if let Poll::Ready(Ok(count)) = Pin::new(&mut *writer).poll_write(&mut cx, &self.lines) {
            self.written = count;
            self.is_flushed = count == self.lines.len()
                && matches!(Pin::new(writer).poll_flush(&mut cx), Poll::Ready(Ok(())));
        }
    }
}

impl Drop for DirectWrite<'_> {
    fn drop(&mut self) {
        let mut state = self.connection.lock();
        if state.links != self.link {
            return;
        }
        state.is_writer_lent = false;
        if state.ended.is_some() {
            return;
        }
        state.writer = self.writer.take();
        state.is_flushed = self.is_flushed;
        state.outbox.take_back(std::mem::take(&mut self.lines), self.written);
        state.wake_if_flushed();
        if !self.is_flushed || !state.outbox.bytes().is_empty() || state.closing {
            state.wake_driver();
        }
    }
}
