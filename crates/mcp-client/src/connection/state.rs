//! The state that the driver and the callers share behind one lock.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use mcp_protocol::dialect::Lower;
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::logging::{LogLevel, LogMessageParams};
use mcp_protocol::messages::{CancelledParams, Id, Method, write};
use mcp_protocol::peer::{CallHandle, Peer, Transmit};
use mcp_protocol::subscriptions::SubscriptionFilter;
use mcp_protocol::{Dialect, Limits};
use tokio::io::AsyncWrite;

use super::locked::WakeList;
use super::now;
use super::outbox::{Framing, Outbox};
use super::waiting::Waiting;
use crate::connection::feed::{Feed, FeedSender};
use crate::connection::subscribers::Subscribers;
use crate::error::{ConnectionEnd, Error, Result, Sent};

pub(crate) struct State {
    pub(crate) peer: Peer,
    /// The writer of the link, unless the driver or a caller is using it.
    pub(super) writer: Option<Writer>,
    /// True while a caller uses the writer.
    pub(super) is_writer_lent: bool,
    /// The number of links so far. A caller does not return the writer of an earlier link.
    pub(super) links: u64,
    /// False if the writer may still buffer bytes.
    pub(super) is_flushed: bool,
    pub(super) outbox: Outbox,
    /// Tasks that wait until the outbox is empty.
    pub(super) flushed: Vec<Waker>,
    /// Sorted by call, because ids only grow. Most calls are settled in the order in which they were made.
    pub(super) waiting: VecDeque<(CallHandle, Waiting)>,
    pub(crate) subscribers: Subscribers,
    /// The log level of the connection, to be set again after a restart.
    pub(crate) log_level: Option<LogLevel>,
    /// Log messages from the server; `None` after the connection has ended.
    pub(super) logs: FeedSender<Arc<LogMessageParams>>,
    pub(super) driver: Option<Waker>,
    /// The number of settled calls whose callers were woken and have not run yet.
    pub(super) woken_callers: usize,
    /// The tasks to wake when the lock is released.
    pub(super) wakes: WakeList,
    /// The time at which the timer of the driver fires.
    pub(super) driver_due: Option<Instant>,
    /// True if there is something new for the driver: messages, an earlier deadline, or a request to close.
    pub(super) is_changed: bool,
    pub(super) is_flooded: bool,
    /// True for a modern server over HTTP, where each request is a separate exchange: ending the exchange cancels the
    /// request, and a subscription that was lost is opened again by its reader.
    pub(super) has_independent_requests: bool,
    /// True once the driver is to close the connection.
    pub(super) closing: bool,
    /// The end of the connection; `None` while it is open, and again once a restart has opened a new link.
    pub(super) ended: Option<Arc<ConnectionEnd>>,
    /// The beginning of the first line of the server that is not a message, with secrets masked.
    pub(crate) stray_line: Option<Arc<str>>,
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
        has_independent_requests: bool,
    ) -> Self {
        Self {
            peer: Peer::client(limits),
            writer: None,
            is_writer_lent: false,
            links: 0,
            is_flushed: true,
            outbox: Outbox::new(framing),
            flushed: Vec::new(),
            waiting: VecDeque::new(),
            subscribers: Subscribers::default(),
            log_level,
            logs: FeedSender::Unread,
            driver: None,
            woken_callers: 0,
            wakes: WakeList::default(),
            driver_due: None,
            is_changed: false,
            is_flooded: false,
            has_independent_requests,
            closing: false,
            ended: None,
            stray_line: None,
        }
    }

    /// Wakes the driver if a deadline is earlier than its timer.
    pub(super) fn wake_driver_if_due_sooner(&mut self) {
        let due = self.peer.poll_timeout().map(|(instant, _)| instant);
        if due.is_some_and(|due| self.driver_due.is_none_or(|planned| due < planned)) {
            self.wake_driver();
        }
    }

    /// Ends all subscriptions and log feeds.
    pub(super) fn end_feeds(&mut self) {
        self.subscribers.end();
        self.logs.end();
    }

    /// Responds to a request from the server, unless the server cancelled it.
    pub(crate) fn respond(
        &mut self,
        dialect: Dialect,
        id: &Id,
        answer: std::result::Result<&dyn Lower, &ErrorObject>,
    ) {
        if !self.peer.complete_request(id) {
            return;
        }
        // New calls are refused once more than the size of one message is queued. A longer queue therefore consists of
        // responses to a server that does not read.
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
            // The response cannot be expressed in this revision. An error is sent instead, so that the server does not
            // wait forever.
            let error = ErrorObject::new(ErrorCode::InternalError, problem.to_string());
            let _ = self
                .outbox
                .push(None, |out| write::error(out, Some(id), dialect.no_id(), &dialect.lower(&error)));
        }
        // The caller may be another task than the driver, which writes.
        self.wake_driver();
    }

    /// Pauses the timeouts of all requests that may wait for a person, for at most `cap`. Returns those requests.
    pub(crate) fn pause(&mut self, cap: Duration) -> Vec<CallHandle> {
        let Self { peer, waiting, .. } = self;
        let asking = waiting.iter().filter(|(_, waiting)| waiting.pauses_while_asked).map(|(call, _)| *call);
        asking.filter(|call| peer.pause(*call, cap, now())).collect()
    }

    /// True if the server sends requests but does not read the responses.
    pub(crate) fn is_flooded(&self) -> bool {
        self.is_flooded
    }

    /// Adds a subscriber of a legacy connection. Fails if the connection has ended.
    pub(crate) fn follow(&mut self, filter: SubscriptionFilter, method: &Method) -> Result<u64> {
        match &self.ended {
            Some(_) => Err(self.lost_error(method, Sent::No)),
            None => Ok(self.subscribers.add(filter, None)),
        }
    }

    pub(super) fn wake_on_unlock(&mut self, waker: Option<Waker>) {
        if let Some(waker) = waker {
            self.wakes.push(waker);
        }
    }

    pub(crate) fn wake_driver(&mut self) {
        self.is_changed = true;
        let driver = self.driver.take();
        self.wake_on_unlock(driver);
    }

    /// Creates the error of a request whose connection has ended.
    pub(super) fn lost_error(&self, method: &Method, sent: Sent) -> Error {
        Error::Lost { method: method.clone(), sent, ended: self.ended.clone().unwrap_or_default() }
    }

    /// Takes the writer for the driver. Also returns whether it is flushed.
    pub(crate) fn take_writer(&mut self) -> (Option<Writer>, bool) {
        (self.writer.take(), std::mem::replace(&mut self.is_flushed, true))
    }

    pub(crate) fn give_writer(&mut self, writer: Option<Writer>) {
        if self.ended.is_none() && writer.is_some() {
            self.writer = writer;
        }
    }

    /// Sets the time at which the timer of the driver fires.
    pub(crate) fn set_driver_due(&mut self, at: Option<Instant>) {
        self.driver_due = at;
    }

    /// True while a caller writes. It wakes the driver if that has to write or to close afterwards.
    pub(crate) fn is_writer_lent(&self) -> bool {
        self.is_writer_lent
    }

    /// Hands the lines that wait to the driver, in exchange for an empty buffer.
    pub(crate) fn take_lines(&mut self, into: &mut Vec<u8>) {
        self.outbox.swap(into);
    }

    /// Hands the messages that wait to the driver, each with its call if it is a request.
    pub(crate) fn take_messages(&mut self, take: impl FnMut(Option<CallHandle>, &[u8])) {
        self.outbox.drain(take);
    }

    /// Queues the cancellations and refusals of the peer.
    pub(crate) fn queue_transmits(&mut self, dialect: Dialect) {
        while let Some(transmit) = self.peer.poll_transmit() {
            // Cancellations and refusals can always be serialized.
            let _ = match transmit {
                Transmit::Cancelled { .. } if self.has_independent_requests => Ok(()),
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

    /// Returns true if something changed since the driver last looked. Otherwise registers the driver to be woken by
    /// the next change.
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

    /// Records that the driver is now looking at everything.
    pub(crate) fn clear_changed(&mut self) {
        self.is_changed = false;
    }

    /// Returns true if callers that were woken with a response are about to run. Their next requests can then be written
    /// together with those that are queued.
    pub(crate) fn has_woken_callers(&self) -> bool {
        self.woken_callers > 0 && !self.outbox.bytes().is_empty()
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    pub(crate) fn wrote(&mut self, count: usize) {
        self.outbox.wrote(count);
        self.wake_if_flushed();
    }

    /// Wakes the tasks that wait until everything is written.
    pub(super) fn wake_if_flushed(&mut self) {
        if self.outbox.pending() == 0 && !self.flushed.is_empty() {
            for waker in std::mem::take(&mut self.flushed) {
                self.wake_on_unlock(Some(waker));
            }
        }
    }

    /// Returns the log messages that the server sends from now on. If the connection has ended, there are none.
    pub(crate) fn log_messages(&mut self) -> Feed<Arc<LogMessageParams>> {
        self.logs.feed()
    }

    /// Passes a log message to its readers; parses it only if there are any.
    pub(crate) fn logged(&self, message: impl FnOnce() -> Option<LogMessageParams>) {
        if self.logs.has_readers()
            && let Some(message) = message()
        {
            self.logs.send(Arc::new(message));
        }
    }

    /// Drops all messages that wait.
    pub(super) fn drop_outbox(&mut self) {
        let dropped = self.outbox.clear();
        self.wrote(dropped);
    }

    /// Returns `Ready` once everything that was queued is written, or the connection has ended.
    pub(crate) fn poll_flushed(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.outbox.pending() == 0 || self.ended.is_some() {
            return Poll::Ready(());
        }
        if !self.flushed.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.flushed.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// True if no call waits for a response, and everything is written.
    #[cfg(feature = "oauth")]
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.outbox.pending() == 0
    }

    /// Returns how the connection ended, or `None` while it is open.
    pub(crate) fn ended(&self) -> Option<&ConnectionEnd> {
        self.ended.as_deref()
    }

    /// True if the connection has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.ended.is_some()
    }
}
