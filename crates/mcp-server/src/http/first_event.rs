//! The first poll of a call, which decides between a JSON response and an SSE stream.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::response::HttpResponse;
use crate::call::reply::Reply;
use crate::connection::outlet::Outlet;
use crate::dispatch::run::Run;

/// The state of an exchange after its first poll.
pub(super) enum Step {
    Done(HttpResponse),
    /// The call is pending.
    Pending(Pin<Box<dyn Future<Output = HttpResponse> + Send>>),
}

/// The first event of a call.
pub(super) enum FirstEvent {
    Done(Reply),
    /// A notification or a request before the response.
    Message,
}

pub(super) async fn first_event(run: &mut Box<Run>, outlet: &Outlet) -> FirstEvent {
    poll_fn(|cx| poll_first(run, outlet, cx)).await
}

/// Polls a call once in place. The no-op waker is safe because a pending call is polled again with a real one.
pub(super) fn begin(run: &mut Box<Run>, outlet: &Outlet) -> Poll<FirstEvent> {
    poll_first(run, outlet, &mut Context::from_waker(Waker::noop()))
}

fn poll_first(run: &mut Box<Run>, outlet: &Outlet, cx: &mut Context<'_>) -> Poll<FirstEvent> {
    if let Poll::Ready(reply) = Pin::new(run).poll(cx) {
        return Poll::Ready(FirstEvent::Done(reply));
    }
    outlet.poll_filled(cx).map(|()| FirstEvent::Message)
}
