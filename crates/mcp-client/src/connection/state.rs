//! What driver and callers share behind one lock, and who is woken when it is let go.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use mcp_protocol::dialect::Lower;
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::logging::{LogLevel, LogMessageParams};
use mcp_protocol::messages::{CancelledParams, Id, Method, write};
use mcp_protocol::peer::{Call, Peer, Transmit};
use mcp_protocol::subscriptions::SubscriptionFilter;
use mcp_protocol::{Dialect, Limits};
use tokio::io::AsyncWrite;
use tokio::sync::broadcast;

use super::now;
use super::outbox::{Framing, Outbox};
use super::waiting::Waiting;
use crate::connection::subscribers::Subscribers;
use crate::error::{ConnectionEnd, Error, Result, Sent};

/// Log messages that a reader may be behind.
const LOGS: usize = 256;

pub(crate) struct State {
    pub(crate) peer: Peer,
    /// Where lines go, unless the driver is busy with that.
    pub(super) writer: Option<Writer>,
    /// False if it may hold something back.
    pub(super) is_flushed: bool,
    pub(super) outbox: Outbox,
    /// Who waits until everything has left.
    pub(super) flushed: Vec<Waker>,
    /// Sorted, because calls only grow. Most are settled in the order they were made.
    pub(super) waiting: VecDeque<(Call, Waiting)>,
    pub(crate) subscribers: Subscribers,
    /// The level that a server keeps for the whole connection, to be set again after a new start.
    pub(crate) log_level: Option<LogLevel>,
    /// What the server logs; `None` when there will be no more.
    pub(super) logs: Option<broadcast::Sender<Arc<LogMessageParams>>>,
    pub(super) driver: Option<Waker>,
    /// Who is woken when the lock is let go.
    pub(super) wakes: Option<Waker>,
    /// When the driver looks at the time next.
    pub(super) rings: Option<Instant>,
    /// Something is there that the driver has not looked at: lines, an earlier deadline, the wish to close.
    pub(super) is_changed: bool,
    pub(super) is_flooded: bool,
    /// Every request is an exchange of its own: a server learns from its end that it is not wanted, and one that was lost
    /// is made again by whoever made it.
    pub(super) has_exchanges: bool,
    /// Set once: the driver is to close the link.
    pub(super) closing: bool,
    /// How the link ended, until there is a new one.
    pub(super) ended: Option<Arc<ConnectionEnd>>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("peer", &self.peer).field("ended", &self.ended).finish_non_exhaustive()
    }
}

pub(crate) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

impl State {
    pub(super) fn new(
        limits: Limits,
        log_level: Option<LogLevel>,
        framing: Framing,
        has_exchanges: bool,
    ) -> Self {
        Self {
            peer: Peer::client(limits),
            writer: None,
            is_flushed: true,
            outbox: Outbox::new(framing),
            flushed: Vec::new(),
            waiting: VecDeque::new(),
            subscribers: Subscribers::default(),
            log_level,
            logs: Some(broadcast::channel(LOGS).0),
            driver: None,
            wakes: None,
            rings: None,
            is_changed: false,
            is_flooded: false,
            has_exchanges,
            closing: false,
            ended: None,
        }
    }

    /// Has a request leave. If nobody else waits, it is written by whoever makes it, which spares a change of hands;
    /// otherwise it is left to the driver, who writes all that was made meanwhile at once.
    pub(super) fn leave(&mut self) {
        if !(self.waiting.is_empty() && self.write_at_once()) {
            return self.wake_driver();
        }
        self.ring();
    }

    /// Has the driver look at the time in time.
    pub(super) fn ring(&mut self) {
        let due = self.peer.poll_timeout().map(|(instant, _)| instant);
        if due.is_some_and(|due| self.rings.is_none_or(|rings| due < rings)) {
            self.wake_driver();
        }
    }

    /// Writes what is queued, as far as the link takes it without waiting. True if nothing is left to be done.
    fn write_at_once(&mut self) -> bool {
        let Some(writer) = &mut self.writer else { return false };
        // Nobody is woken: what is left is the driver's, who asks again.
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(Ok(count)) = Pin::new(&mut *writer).poll_write(&mut cx, self.outbox.bytes()) else {
            return false;
        };
        self.outbox.wrote_directly(count);
        if !self.outbox.bytes().is_empty() {
            return false;
        }
        self.is_flushed = matches!(Pin::new(writer).poll_flush(&mut cx), Poll::Ready(Ok(())));
        self.is_flushed
    }

    /// Whoever follows what the server tells unasked learns that there will be no more.
    pub(super) fn end_feeds(&mut self) {
        self.subscribers.end();
        self.logs = None;
    }

    /// Answers a request of the server, unless it took it back.
    pub(crate) fn respond(
        &mut self,
        dialect: Dialect,
        id: &Id,
        answer: std::result::Result<&dyn Lower, &ErrorObject>,
    ) {
        if !self.peer.respond(id) {
            return;
        }
        // Calls stop at one message that waits; more than that are answers to a server that does not read.
        let most = self.peer.limits().message as u64 * 3;
        if self.outbox.pending() > most {
            self.is_flooded = true;
            return;
        }
        let problem = match answer {
            Ok(result) => {
                self.outbox.push(None, |out| write::response(out, id, &dialect.lower(result))).err()
            }
            Err(error) => self
                .outbox
                .push(None, |out| write::error(out, Some(id), dialect.no_id(), &dialect.lower(error)))
                .err(),
        };
        if let Some(problem) = problem {
            // What the handler said cannot be said in this revision; the server must not wait for ever.
            let error = ErrorObject::new(ErrorCode::InternalError, problem.to_string());
            let _ = self
                .outbox
                .push(None, |out| write::error(out, Some(id), dialect.no_id(), &dialect.lower(&error)));
        }
        // Whoever reads may not be the one who writes.
        self.wake_driver();
    }

    /// Stops the clocks of everything that may wait for a person, and tells of what.
    pub(crate) fn pause(&mut self, cap: Duration) -> Vec<Call> {
        let Self { peer, waiting, .. } = self;
        let asking = waiting.iter().filter(|(_, waiting)| waiting.asks).map(|(call, _)| *call);
        asking.filter(|call| peer.pause(*call, cap, now())).collect()
    }

    /// True if the server made us say more than it reads.
    pub(crate) fn is_flooded(&self) -> bool {
        self.is_flooded
    }

    /// Follows changes of a legacy connection, if it has not ended.
    pub(crate) fn follow(&mut self, filter: SubscriptionFilter, method: &Method) -> Result<u64> {
        match &self.ended {
            Some(_) => Err(self.lost(method, Sent::No)),
            None => Ok(self.subscribers.add(filter, None)),
        }
    }

    pub(super) fn wake(&mut self, waker: Option<Waker>) {
        if let Some(waker) = waker
            && let Some(earlier) = self.wakes.replace(waker)
        {
            earlier.wake();
        }
    }

    pub(crate) fn wake_driver(&mut self) {
        self.is_changed = true;
        let driver = self.driver.take();
        self.wake(driver);
    }

    pub(super) fn lost(&self, method: &Method, sent: Sent) -> Error {
        Error::Lost { method: method.clone(), sent, ended: self.ended.clone().unwrap_or_default() }
    }

    /// Where lines go, for as long as the driver writes, and whether nothing is held back there.
    pub(crate) fn take_writer(&mut self) -> (Option<Writer>, bool) {
        (self.writer.take(), std::mem::replace(&mut self.is_flushed, true))
    }

    pub(crate) fn give_writer(&mut self, writer: Option<Writer>) {
        if self.ended.is_none() && writer.is_some() {
            self.writer = writer;
        }
    }

    /// When the driver looks at the time next.
    pub(crate) fn rings(&mut self, at: Option<Instant>) {
        self.rings = at;
    }

    /// Hands the lines that wait to the driver, in exchange for an empty buffer.
    pub(crate) fn take_lines(&mut self, dialect: Dialect, into: &mut Vec<u8>) {
        self.transmit(dialect);
        self.outbox.swap(into);
    }

    /// Hands the messages that wait to the driver, each with its call if it is a request.
    pub(crate) fn take_messages(&mut self, dialect: Dialect, take: impl FnMut(Option<Call>, &[u8])) {
        self.transmit(dialect);
        self.outbox.drain(take);
    }

    /// Queues what the machine wants sent.
    pub(super) fn transmit(&mut self, dialect: Dialect) {
        while let Some(transmit) = self.peer.poll_transmit() {
            // A cancellation or refusal can always be written.
            let _ = match transmit {
                Transmit::Cancelled { .. } if self.has_exchanges => Ok(()),
                Transmit::Cancelled { id, reason } => {
                    let params = CancelledParams::new(id).reason(reason);
                    self.outbox.push(None, |out| {
                        write::notification(out, &Method::Cancelled, Some(&dialect.lower(&params)))
                    })
                }
                Transmit::Error { id, error } => self.outbox.push(None, |out| {
                    write::error(out, id.as_ref(), dialect.no_id(), &dialect.lower(&error))
                }),
                _ => Ok(()),
            };
        }
    }

    /// True if something changed since the driver last looked; otherwise it is woken when something does.
    pub(crate) fn poll_changed(&mut self, cx: &Context<'_>) -> bool {
        if self.is_changed {
            return true;
        }
        match &mut self.driver {
            Some(waker) => waker.clone_from(cx.waker()),
            None => self.driver = Some(cx.waker().clone()),
        }
        false
    }

    /// The driver looks at everything.
    pub(crate) fn look(&mut self) {
        self.is_changed = false;
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    pub(crate) fn wrote(&mut self, count: usize) {
        self.outbox.wrote(count);
        if self.outbox.pending() == 0 && !self.flushed.is_empty() {
            for waker in std::mem::take(&mut self.flushed) {
                self.wake(Some(waker));
            }
        }
    }

    /// What the server logs from now on; nothing if it is gone.
    pub(crate) fn log_messages(&self) -> broadcast::Receiver<Arc<LogMessageParams>> {
        match &self.logs {
            Some(logs) => logs.subscribe(),
            None => broadcast::channel(1).1,
        }
    }

    /// The server logs something.
    pub(crate) fn logged(&self, message: impl FnOnce() -> Option<LogMessageParams>) {
        if let Some(logs) = self.logs.as_ref().filter(|logs| logs.receiver_count() > 0)
            && let Some(message) = message()
        {
            let _ = logs.send(Arc::new(message));
        }
    }

    /// Nobody wants to hear what was to be said.
    pub(super) fn drop_outbox(&mut self) {
        let dropped = self.outbox.clear();
        self.wrote(dropped);
    }

    /// Ready once everything that was queued has left.
    pub(crate) fn poll_flushed(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.outbox.pending() == 0 || self.ended.is_some() {
            return Poll::Ready(());
        }
        if !self.flushed.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.flushed.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// True if the connection has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.ended.is_some()
    }
}
