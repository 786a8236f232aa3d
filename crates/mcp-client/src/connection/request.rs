//! A request in flight: the future that its caller awaits.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use mcp_protocol::messages::{Method, OwnedBody};
use mcp_protocol::peer::CallHandle;

use super::waiting::Settled;
use super::{Connection, now};
use crate::connection::progress::Progress;
use crate::connection::transport::TransportFuture;
use crate::error::{Error, Result};

/// A request in flight. Dropping it before it is settled cancels the request on the server.
pub(crate) struct InFlightRequest {
    pub(super) connection: Arc<Connection>,
    pub(super) call: CallHandle,
    pub(super) method: Method,
    pub(super) opened_at: Instant,
    pub(super) needs_no_cancel: bool,
    /// The future of the exchange, if the transport sends each request as an exchange. Dropping it ends the exchange.
    pub(super) exchange: Option<TransportFuture<'static, Result<()>>>,
}

impl InFlightRequest {
    /// Stops waiting for the response, without cancelling the request.
    pub(crate) fn release(mut self) {
        self.needs_no_cancel = true;
        self.connection.lock().stop_waiting(self.call);
    }

    /// Gives up a request that is no longer in flight. No cancellation is sent.
    pub(super) fn abandon(&mut self) {
        self.needs_no_cancel = true;
        let mut state = self.connection.lock();
        state.stop_waiting(self.call);
        state.peer.forget_call(self.call);
    }

    /// Polls the exchange. Returns the error if it failed.
    fn poll_exchange(&mut self, cx: &mut Context<'_>) -> Option<Error> {
        let Poll::Ready(outcome) = self.exchange.as_mut()?.as_mut().poll(cx) else { return None };
        self.exchange = None;
        outcome.err()
    }

    /// Returns the time at which the request was made.
    pub(crate) fn opened_at(&self) -> Instant {
        self.opened_at
    }

    /// Polls for the next progress notification, or for the outcome.
    pub(crate) fn poll_update(&mut self, cx: &mut Context<'_>) -> Poll<RequestUpdate> {
        // If the response has arrived, it counts, even if the exchange has failed afterwards.
        if let Some(error) = self.poll_exchange(cx)
            && self.connection.lock().is_open(self.call)
        {
            self.abandon();
            return Poll::Ready(RequestUpdate::Done(Err(error)));
        }
        let mut state = self.connection.lock();
        let Some(waiting) = state.waiting(self.call) else {
            // The outcome was returned before. A completed future is not polled again, so this is not reached.
            return Poll::Pending;
        };
        if let Some(step) = waiting.progress.as_mut().and_then(|progress| progress.pop()) {
            return Poll::Ready(RequestUpdate::Progress(step));
        }
        if waiting.settled.is_none() {
            match &mut waiting.waker {
                Some(waker) => waker.clone_from(cx.waker()),
                None => waiting.waker = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        }
        let Some(settled) = state.stop_waiting(self.call) else { return Poll::Pending };
        self.needs_no_cancel = true;
        let method = self.method.clone();
        Poll::Ready(RequestUpdate::Done(match settled {
            Settled::Response(Ok(body)) => Ok(body),
            Settled::Response(Err(source)) => Err(Error::Refused { method, error: *source }),
            Settled::Broken(problem) => Err(Error::Unreadable { method, problem }),
            Settled::TimedOut(reason) => {
                let after = now().saturating_duration_since(self.opened_at);
                Err(Error::TimedOut { method, reason, after, stray_line: state.stray_line.clone() })
            }
            Settled::Lost(sent, ended) => Err(Error::Lost { method, sent, ended }),
        }))
    }
}

impl std::fmt::Debug for InFlightRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InFlightRequest")
            .field("call", &self.call)
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}

/// An update for the caller of a request.
#[derive(Debug)]
pub(crate) enum RequestUpdate {
    Progress(Progress),
    Done(Result<OwnedBody>),
}

impl Future for InFlightRequest {
    type Output = Result<OwnedBody>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match self.poll_update(cx) {
                Poll::Ready(RequestUpdate::Done(outcome)) => return Poll::Ready(outcome),
                Poll::Ready(RequestUpdate::Progress(_)) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        if self.needs_no_cancel {
            return;
        }
        let mut state = self.connection.lock();
        state.stop_waiting(self.call);
        self.connection.cancel(&mut state, Some(self.call));
    }
}
