//! The requests whose callers wait for a response, and the outcomes with which they are settled.

use std::sync::Arc;
use std::task::Waker;

use mcp_protocol::errors::ErrorObject;
use mcp_protocol::messages::{Id, OwnedBody, ProgressParams};
use mcp_protocol::peer::{CallFailure, CallHandle, TimeoutReason};

use super::state::State;
use crate::connection::progress::ProgressQueue;
use crate::error::{ConnectionEnd, Sent};

/// A request whose caller waits for the response.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The way in which the request is sent, which determines whether it counts as sent.
    pub(super) delivery: Delivery,
    pub(super) waker: Option<Waker>,
    pub(super) settled: Option<Settled>,
    pub(super) progress: Option<Box<ProgressQueue>>,
    /// True if the timeouts of the request pause while a person answers a request from the server.
    pub(super) pauses_while_asked: bool,
}

/// The way in which a request is sent and its response arrives.
#[derive(Clone, Copy, Debug)]
pub(super) enum Delivery {
    /// The request starts at this position of the outbox. It was sent, at least in part, if more bytes were written.
    Outbox(u64),
    /// The request is a separate exchange. It always counts as possibly sent.
    Exchange,
    /// The request is a separate exchange whose response arrives on the event stream of the session with this number.
    /// It always counts as possibly sent.
    SessionStream(u64),
}

#[derive(Debug)]
pub(super) enum Settled {
    Response(std::result::Result<OwnedBody, Box<ErrorObject>>),
    /// The response cannot be parsed. The text describes the problem.
    Broken(String),
    TimedOut(TimeoutReason),
    Lost(Sent, Arc<ConnectionEnd>),
}

impl State {
    /// Settles a call with its response.
    pub(crate) fn settle(&mut self, call: CallHandle, response: std::result::Result<OwnedBody, ErrorObject>) {
        self.settle_with(call, Settled::Response(response.map_err(Box::new)));
    }

    /// Settles a call whose response cannot be parsed.
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
                    let is_sent = self.waiting(call).is_some_and(|waiting| match waiting.delivery {
                        Delivery::Outbox(offset) => offset < written,
                        Delivery::Exchange | Delivery::SessionStream(_) => true,
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
            self.wake_on_unlock(waker);
        }
    }

    pub(super) fn waiting(&mut self, call: CallHandle) -> Option<&mut Waiting> {
        let at = self.position(call)?;
        self.waiting.get_mut(at).map(|(_, waiting)| waiting)
    }

    fn position(&self, call: CallHandle) -> Option<usize> {
        // Most calls are settled in the order in which they were made, and removed in the same order.
        let expected = match (call.id(), self.waiting.front()?.0.id()) {
            (Id::Number(call), Id::Number(first)) => usize::try_from(call.checked_sub(first)?).ok()?,
            _ => return None,
        };
        if self.waiting.get(expected).is_some_and(|(at, _)| *at == call) {
            return Some(expected);
        }
        self.waiting.binary_search_by_key(&call, |(call, _)| *call).ok()
    }

    /// Records where the response to a request is expected: on the event stream of the session with this number, or,
    /// without a number, as the response of its own exchange.
    pub(crate) fn expect_response_on(&mut self, call: CallHandle, session: Option<u64>) {
        if let Some(waiting) = self.waiting(call) {
            waiting.delivery = session.map_or(Delivery::Exchange, Delivery::SessionStream);
        }
    }

    /// Settles all requests whose responses were expected on the event stream of this session or an earlier one.
    pub(super) fn settle_session(&mut self, session: u64, ended: &Arc<ConnectionEnd>) {
        let is_lost = |waiting: &Waiting| {
            waiting.settled.is_none()
                && matches!(waiting.delivery, Delivery::SessionStream(on) if on <= session)
        };
        let calls: Vec<CallHandle> =
            self.waiting.iter().filter(|(_, waiting)| is_lost(waiting)).map(|(call, _)| *call).collect();
        for call in calls {
            self.peer.forget_call(call);
            self.settle_with(call, Settled::Lost(Sent::Maybe, Arc::clone(ended)));
        }
    }

    /// Returns true if a caller waits for this call and the call is not settled.
    pub(crate) fn is_open(&mut self, call: CallHandle) -> bool {
        self.waiting(call).is_some_and(|waiting| waiting.settled.is_none())
    }

    /// Removes a call. Returns its outcome, or `None` if it was not settled.
    pub(super) fn stop_waiting(&mut self, call: CallHandle) -> Option<Settled> {
        let at = self.position(call)?;
        let (_, waiting) = self.waiting.remove(at)?;
        self.woken_callers -= usize::from(waiting.settled.is_some());
        waiting.settled
    }

    fn settle_with(&mut self, call: CallHandle, settled: Settled) {
        let is_refused = !matches!(settled, Settled::Response(Ok(_)) | Settled::Lost(..));
        self.subscribers.end_resubscription(call, is_refused);
        // A subscription whose request was lost may be requested again, so it does not end here.
        let is_made_again = match settled {
            Settled::Lost(..) => true,
            Settled::TimedOut(_) => self.has_independent_requests,
            _ => false,
        };
        if !is_made_again {
            self.subscribers.end_listen(call);
        }
        // The caller may have stopped waiting.
        let Some(waiting) = self.waiting(call) else { return };
        let is_first = waiting.settled.replace(settled).is_none();
        let waker = waiting.waker.take();
        self.woken_callers += usize::from(is_first);
        self.wake_on_unlock(waker);
    }
}
