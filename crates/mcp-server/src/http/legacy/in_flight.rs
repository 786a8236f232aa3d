//! A legacy request in flight: its id, its cancellation, and the destination of its response.

use std::sync::Arc;

use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::messages::{Id, Request};
use mcp_protocol::peer::{Arrival, Transmit};
use tokio::sync::oneshot;

use crate::call::reply::Reply;
use crate::connection::outlet::Outlet;
use crate::http::session::{CancelSignal, Session};

/// The destination of the response of a call: the pending exchange, or its open stream. Dropping the sink first
/// notifies the exchange and then closes the stream.
pub(super) struct ResponseSink {
    pub(super) sender: Option<oneshot::Sender<Reply>>,
    pub(super) outlet: Arc<Outlet>,
}

impl ResponseSink {
    /// Sends the reply to the pending exchange. Returns the reply if it must be sent on the stream instead.
    pub(super) fn send_json(&mut self, reply: Reply) -> Option<Reply> {
        match self.sender.take() {
            Some(sender) if self.outlet.is_untouched() => sender.send(reply).err(),
            _ => Some(reply),
        }
    }
}

impl Drop for ResponseSink {
    fn drop(&mut self) {
        self.sender = None;
        self.outlet.close();
    }
}

/// A guard of a request in flight, which frees its id when dropped.
pub(super) struct InFlightCall {
    pub(super) session: Arc<Session>,
    pub(super) id: Id,
    /// Set only for a call that can be pending. Other calls are complete before they can be cancelled.
    signal: Option<Arc<CancelSignal>>,
    is_finished: bool,
}

impl InFlightCall {
    pub(super) fn begin(session: &Arc<Session>, request: &Request<'_>) -> Result<Self, ErrorObject> {
        let mut state = session.connection.lock();
        if state.peer.handle_request(request) == Arrival::Request {
            let session = Arc::clone(session);
            return Ok(Self { session, id: request.id.clone(), signal: None, is_finished: false });
        }
        match state.peer.poll_transmit() {
            Some(Transmit::Error { error, .. }) => Err(error),
            _ => Err(ErrorObject::new(ErrorCode::InvalidRequest, "the session has ended")),
        }
    }

    /// Adds a cancel signal, so that the client can cancel the call.
    pub(super) fn cancellable(mut self) -> Self {
        if self.signal.is_some() {
            return self;
        }
        let session = &self.session;
        let signal = session.add_cancel_signal(&self.id);
        // The cancellation may have arrived before the signal was added.
        if session.connection.lock().peer.is_cancelled(&self.id) {
            signal.cancel();
        }
        self.signal = Some(signal);
        self
    }

    /// Waits until the call is cancelled.
    pub(super) async fn cancelled(&self) {
        match &self.signal {
            Some(signal) => signal.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Ends the request. Returns false if it was cancelled and must not be answered.
    pub(super) fn finish(mut self) -> bool {
        self.is_finished = true;
        self.session.connection.lock().peer.complete_request(&self.id)
    }
}

impl Drop for InFlightCall {
    fn drop(&mut self) {
        if let Some(signal) = &self.signal {
            self.session.remove_cancel_signal(&self.id, signal);
        }
        // After `finish` another request may already use the id.
        if !self.is_finished {
            self.session.connection.lock().peer.complete_request(&self.id);
        }
    }
}
