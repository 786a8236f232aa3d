//! The requests whose callers wait, and how they are settled.

use std::sync::Arc;
use std::task::Waker;

use mcp_protocol::errors::ErrorObject;
use mcp_protocol::messages::{OwnedBody, ProgressParams};
use mcp_protocol::peer::{CallFailure, CallHandle, TimeoutReason};

use super::state::State;
use crate::connection::progress::ProgressQueue;
use crate::error::{ConnectionEnd, Sent};

/// A request whose caller waits for the response.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The criterion for whether it was sent.
    pub(super) departure: Departure,
    pub(super) waker: Option<Waker>,
    pub(super) settled: Option<Settled>,
    pub(super) progress: Option<Box<ProgressQueue>>,
    /// True if its timeouts pause while a person is asked.
    pub(super) asks: bool,
}

/// The criterion by which a request counts as sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Departure {
    /// It was sent, at least in part, if more was written than this position of the outbox.
    After(u64),
    /// It is a separate exchange, and may have been sent.
    Apart,
    /// It is a separate exchange, and is answered on the event stream of the session with this number.
    On(u64),
}

#[derive(Debug)]
pub(super) enum Settled {
    Response(std::result::Result<OwnedBody, Box<ErrorObject>>),
    /// The response cannot be read: the problem.
    Broken(String),
    TimedOut(TimeoutReason),
    Lost(Sent, Arc<ConnectionEnd>),
}

impl State {
    /// Settles a call with its response.
    pub(crate) fn settle(&mut self, call: CallHandle, response: std::result::Result<OwnedBody, ErrorObject>) {
        self.settle_with(call, Settled::Response(response.map_err(Box::new)));
    }

    /// Settles a call whose response cannot be read.
    pub(crate) fn settle_broken(&mut self, call: CallHandle, problem: String) {
        self.settle_with(call, Settled::Broken(problem));
    }

    /// Settles the calls that timed out or were lost.
    pub(crate) fn settle_failures(&mut self) {
        let written = self.outbox.maybe_written();
        while let Some(failure) = self.peer.poll_failure() {
            match failure {
                CallFailure::TimedOut(call, reason) => self.settle_with(call, Settled::TimedOut(reason)),
                CallFailure::Lost(call) => {
                    let is_sent = self.waiting(call).is_some_and(|waiting| match waiting.departure {
                        Departure::After(offset) => offset < written,
                        Departure::Apart | Departure::On(_) => true,
                    });
                    let sent = if is_sent { Sent::Maybe } else { Sent::No };
                    self.settle_with(call, Settled::Lost(sent, self.ended.clone().unwrap_or_default()));
                }
                _ => {}
            }
        }
    }

    /// Queues progress for the caller.
    pub(crate) fn progressed(&mut self, call: CallHandle, params: ProgressParams) {
        if let Some(waiting) = self.waiting(call)
            && let Some(progress) = &mut waiting.progress
        {
            progress.push(params.into());
            let waker = waiting.waker.take();
            self.wake(waker);
        }
    }

    pub(super) fn waiting(&mut self, call: CallHandle) -> Option<&mut Waiting> {
        let at = self.waiting.binary_search_by_key(&call, |(call, _)| *call).ok()?;
        self.waiting.get_mut(at).map(|(_, waiting)| waiting)
    }

    /// Records that a request is sent, to be answered on this stream; without one, that it is sent anew.
    pub(crate) fn departs(&mut self, call: CallHandle, stream: Option<u64>) {
        if let Some(waiting) = self.waiting(call) {
            waiting.departure = stream.map_or(Departure::Apart, Departure::On);
        }
    }

    /// Settles all requests that were to be answered on the event stream of this session or an earlier one.
    pub(super) fn lose(&mut self, session: u64, ended: &Arc<ConnectionEnd>) {
        let is_lost = |waiting: &Waiting| {
            waiting.settled.is_none() && matches!(waiting.departure, Departure::On(on) if on <= session)
        };
        let calls: Vec<CallHandle> =
            self.waiting.iter().filter(|(_, waiting)| is_lost(waiting)).map(|(call, _)| *call).collect();
        for call in calls {
            self.peer.handle_lost(call);
            self.settle_with(call, Settled::Lost(Sent::Maybe, Arc::clone(ended)));
        }
    }

    /// True if a caller waits for a call that is not settled.
    pub(crate) fn is_open(&mut self, call: CallHandle) -> bool {
        self.waiting(call).is_some_and(|waiting| waiting.settled.is_none())
    }

    /// Forgets a call. Returns how it was settled, if it was.
    pub(super) fn stop_waiting(&mut self, call: CallHandle) -> Option<Settled> {
        let at = self.waiting.binary_search_by_key(&call, |(call, _)| *call).ok()?;
        let (_, waiting) = self.waiting.remove(at)?;
        self.unread -= usize::from(waiting.settled.is_some());
        waiting.settled
    }

    fn settle_with(&mut self, call: CallHandle, settled: Settled) {
        let is_refused = !matches!(settled, Settled::Response(Ok(_)) | Settled::Lost(..));
        self.subscribers.resubscribed(call, is_refused);
        // A subscription that was lost may be opened again.
        let is_made_again = match settled {
            Settled::Lost(..) => true,
            Settled::TimedOut(_) => self.has_independent_requests,
            _ => false,
        };
        if !is_made_again {
            self.subscribers.settled(call);
        }
        // The caller may have stopped waiting.
        let Some(waiting) = self.waiting(call) else { return };
        let is_first = waiting.settled.replace(settled).is_none();
        let waker = waiting.waker.take();
        self.unread += usize::from(is_first);
        self.wake(waker);
    }
}
