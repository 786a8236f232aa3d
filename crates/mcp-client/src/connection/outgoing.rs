//! Requests and notifications to the server. For a request, an id is reserved, the timeouts start, and the message is
//! serialized.

use std::sync::Arc;
use std::time::Instant;

use mcp_protocol::dialect::{Lower, Lowering};
use mcp_protocol::messages::{Method, write};
use mcp_protocol::meta::Meta;
use mcp_protocol::peer::{CallHandle, OpenError, Timeouts};
use mcp_protocol::subscriptions::ListenParams;

use super::state::State;
use super::transport::{Exchanges, OutgoingRequest, SubscriptionStream, Transport};
use super::waiting::{Delivery, Waiting};
use super::{Connection, ConnectionTerms, InFlightRequest, RequestOptions, UNAWAITED_TIMEOUT, now};
use crate::error::{Error, Result, Sent};

impl Connection {
    /// Makes a request. Over byte streams, the request is queued at once. Over HTTP, it is sent when the returned value
    /// is awaited.
    pub(crate) fn request(
        self: &Arc<Self>,
        method: &Method,
        params: &dyn Lower,
        options: RequestOptions,
    ) -> Result<InFlightRequest> {
        self.request_with(method, params, options, |_, _| {})
    }

    /// Makes a request that is a separate exchange. Nothing is sent before the returned value is awaited.
    fn request_as_exchange(
        self: &Arc<Self>,
        exchanges: &Arc<dyn Exchanges>,
        method: &Method,
        params: &dyn Lower,
        options: RequestOptions,
        on_open: impl FnOnce(&mut State, CallHandle),
    ) -> Result<InFlightRequest> {
        let opened_at = now();
        let call = {
            let mut state = self.lock();
            let call = self.reserve(&mut state, method, options.timeouts, opened_at)?;
            let progress = options.progress.then(Box::default);
            let delivery = Delivery::Exchange;
            let waiting = Waiting {
                delivery,
                waker: None,
                settled: None,
                progress,
                pauses_while_asked: options.pauses_while_asked,
            };
            state.waiting.push_back((call, waiting));
            on_open(&mut state, call);
            state.wake_driver_if_due_sooner();
            call
        };
        let mut request = InFlightRequest {
            connection: Arc::clone(self),
            call,
            method: method.clone(),
            opened_at,
            needs_no_cancel: false,
            exchange: None,
        };
        let mut body = Vec::with_capacity(512);
        let context = self.terms.observers.with_context(self.terms.envelope.as_ref());
        if let Err(error) = self.serialize(call, method, params, context.as_ref(), &mut body) {
            request.abandon();
            return Err(Error::Unsendable { method: method.clone(), problem: error.to_string() });
        }
        let timeouts = options.timeouts.idle.into_iter().chain(options.timeouts.total);
        let deadline = timeouts.min().and_then(|time| opened_at.checked_add(time));
        let connection = Arc::clone(self);
        let outgoing = OutgoingRequest { connection, call, method: method.clone(), body, deadline };
        request.exchange = Some(Arc::clone(exchanges).begin(outgoing));
        Ok(request)
    }

    /// Makes a request. Calls `on_open` under the lock, before a response can arrive.
    pub(crate) fn request_with(
        self: &Arc<Self>,
        method: &Method,
        params: &dyn Lower,
        options: RequestOptions,
        on_open: impl FnOnce(&mut State, CallHandle),
    ) -> Result<InFlightRequest> {
        if let Transport::Exchanges(exchanges) = &self.terms.transport {
            return self.request_as_exchange(exchanges, method, params, options, on_open);
        }
        let opened_at = now();
        // Called before locking, because the host's function may use the client.
        let context = self.terms.observers.with_context(self.terms.envelope.as_ref());
        let mut state = self.lock();
        let (call, offset) =
            self.open(&mut state, method, params, context.as_ref(), options.timeouts, opened_at)?;
        let progress = options.progress.then(Box::default);
        let delivery = Delivery::Outbox(offset);
        let waiting = Waiting {
            delivery,
            waker: None,
            settled: None,
            progress,
            pauses_while_asked: options.pauses_while_asked,
        };
        state.waiting.push_back((call, waiting));
        on_open(&mut state, call);
        let write = self.begin_direct_write(&mut state);
        drop(state);
        if let Some(write) = write {
            write.run();
        }
        Ok(InFlightRequest {
            connection: Arc::clone(self),
            call,
            method: method.clone(),
            opened_at,
            needs_no_cancel: false,
            exchange: None,
        })
    }

    /// Keeps an acknowledged subscription open as long as it has a subscriber.
    pub(crate) fn keep(self: &Arc<Self>, request: InFlightRequest, key: u64, params: ListenParams) {
        match &self.terms.transport {
            Transport::Stream { .. } => request.release(),
            Transport::Exchanges(exchanges) => {
                let stream = SubscriptionStream { connection: Arc::clone(self), request, key, params };
                let reader = tokio::spawn(Arc::clone(exchanges).keep_listening(stream));
                self.lock().subscribers.set_reader(key, reader.abort_handle());
            }
        }
    }

    /// Queues a request whose response does not matter.
    pub(crate) fn request_unawaited(&self, state: &mut State, method: &Method, params: &dyn Lower) {
        let timeouts = Timeouts::default().idle(UNAWAITED_TIMEOUT);
        if let Ok((call, _)) = self.open(state, method, params, None, timeouts, now()) {
            state.wake_driver();
            if self.terms.transport.exchanges().is_none() {
                // Otherwise requests that the server never answers would use up the limit for requests in flight. Over
                // HTTP, the driver does this after the exchange.
                state.peer.forget_call(call);
            }
        }
    }

    /// Reserves an id, starts the timeouts and queues the request. Returns the call and its position in the outbox. The
    /// caller then writes the outbox or wakes the driver.
    pub(super) fn open(
        &self,
        state: &mut State,
        method: &Method,
        params: &dyn Lower,
        context: Option<&Meta>,
        timeouts: Timeouts,
        now: Instant,
    ) -> Result<(CallHandle, u64)> {
        if state.outbox.bytes().len() > self.terms.limits.message {
            return Err(Error::Busy(state.peer.calls_in_flight()));
        }
        let call = self.reserve(state, method, timeouts, now)?;
        let offset = state.outbox.queued();
        let pushed = state.outbox.push(Some(call), |out| self.serialize(call, method, params, context, out));
        if let Err(error) = pushed {
            // The request was not sent, so no cancellation is needed.
            state.peer.forget_call(call);
            return Err(Error::Unsendable { method: method.clone(), problem: error.to_string() });
        }
        Ok((call, offset))
    }

    fn reserve(
        &self,
        state: &mut State,
        method: &Method,
        timeouts: Timeouts,
        now: Instant,
    ) -> Result<CallHandle> {
        match state.peer.open(method, timeouts, now) {
            Ok(call) => Ok(call),
            Err(OpenError::Closed) => Err(state.lost_error(method, Sent::No)),
            Err(_) => Err(Error::Busy(state.peer.calls_in_flight())),
        }
    }

    /// Serializes a request. `context` is the `_meta` to use if there is a trace context.
    fn serialize(
        &self,
        call: CallHandle,
        method: &Method,
        params: &dyn Lower,
        context: Option<&Meta>,
        out: &mut Vec<u8>,
    ) -> std::result::Result<(), serde_json::Error> {
        let ConnectionTerms { dialect, envelope, .. } = &self.terms;
        let mut lowering = Lowering::to(*dialect).with_progress_of(call);
        if let Some(meta) = context.or(envelope.as_ref()) {
            lowering = lowering.with_meta(meta);
        }
        write::request(out, &call.id(), method, &lowering.root(params))
    }

    /// Queues a notification.
    pub(crate) fn notify(&self, method: &Method, params: &dyn Lower) -> Result<()> {
        let mut state = self.lock();
        if state.ended.is_some() {
            return Err(state.lost_error(method, Sent::No));
        }
        let view = self.dialect().lower(params);
        state
            .outbox
            .push(None, |out| write::notification(out, method, Some(&view)))
            .map_err(|error| Error::Unsendable { method: method.clone(), problem: error.to_string() })?;
        state.wake_driver();
        Ok(())
    }
}
