//! The first poll of a call, which decides between a JSON response and an SSE stream.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::response::HttpResponse;
use crate::call::reply::Reply;
use crate::connection::outlet::Outlet;
use crate::dispatch::run::CallFuture;

/// The result of the first poll of an exchange.
pub(super) enum FirstPoll {
    /// The response is known.
    Done(HttpResponse),
    /// The call is pending; the future returns the response.
    Pending(Pin<Box<dyn Future<Output = HttpResponse> + Send>>),
}

/// The first event of a call, which determines the kind of response.
pub(super) enum FirstEvent {
    /// The call is complete.
    Done(Reply),
    /// The call has sent a notification or a request to the client and is not complete.
    Message,
}

pub(super) async fn first_event(run: &mut Box<CallFuture>, outlet: &Outlet) -> FirstEvent {
    poll_fn(|cx| poll_first(run, outlet, cx)).await
}

/// Polls a call once. The no-op waker is safe because a pending call is polled again with a real waker.
pub(super) fn poll_once(run: &mut Box<CallFuture>, outlet: &Outlet) -> Poll<FirstEvent> {
    poll_first(run, outlet, &mut Context::from_waker(Waker::noop()))
}

fn poll_first(run: &mut Box<CallFuture>, outlet: &Outlet, cx: &mut Context<'_>) -> Poll<FirstEvent> {
    if let Poll::Ready(reply) = Pin::new(run).poll(cx) {
        return Poll::Ready(FirstEvent::Done(reply));
    }
    outlet.poll_filled(cx).map(|()| FirstEvent::Message)
}
