//! One connection, shared by its driver and its callers. It holds the requests in flight, the outbox, and the tasks to
//! wake.

pub(crate) mod alarm;
pub(crate) mod cache;
mod direct_write;
pub(crate) mod feed;
pub(crate) mod handlers;
pub(crate) mod inbound;
mod locked;
pub(crate) mod observers;
mod outbox;
mod outgoing;
pub(crate) mod progress;
mod request;
pub(crate) mod shutdown;
mod state;
pub(crate) mod subscribers;
pub(crate) mod transport;
mod waiting;

use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mcp_protocol::dialect::Lower;
use mcp_protocol::errors::ErrorObject;
use mcp_protocol::logging::{LogLevel, SetLevelParams};
use mcp_protocol::messages::{Id, Method};
use mcp_protocol::meta::Meta;
use mcp_protocol::peer::{CallHandle, Timeouts};
use mcp_protocol::resources::SubscribeParams;
use mcp_protocol::{Dialect, Limits};

use crate::connection::cache::CacheView;
use crate::connection::observers::Observers;
use crate::connection::outbox::Framing;
use crate::connection::subscribers::{Change, LISTEN_TIMEOUTS, Resubscriptions};
use crate::error::{ConnectionEnd, EndCause};

pub(crate) use locked::Locked;
pub(crate) use request::{InFlightRequest, RequestUpdate};
pub(crate) use state::{State, Writer};
pub(crate) use transport::Transport;

/// The timeout of a request whose response no caller waits for.
const UNAWAITED_TIMEOUT: Duration = Duration::from_secs(60);
/// The reason that is sent with the cancellation of a request that was dropped.
const DROPPED_REASON: &str = "no longer wanted";

/// Returns the current time of tokio's clock, because tests can pause that clock.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// A connection after the handshake. If the server is restarted, the connection continues with new byte streams.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) terms: ConnectionTerms,
    state: Mutex<State>,
}

/// The parts of a connection that never change.
#[derive(Debug)]
pub(crate) struct ConnectionTerms {
    /// The name of the server, for the host's handlers, metrics and log messages.
    pub(crate) server: String,
    pub(crate) dialect: Dialect,
    /// The `_meta` of every request to a modern server; `None` for a legacy server.
    pub(crate) envelope: Option<Meta>,
    pub(crate) limits: Limits,
    pub(crate) transport: Transport,
    pub(crate) cache: CacheView,
    pub(crate) observers: Observers,
}

/// Options of one request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestOptions {
    pub(crate) timeouts: Timeouts,
    /// True if progress notifications are queued for the caller.
    pub(crate) progress: bool,
    /// True if the timeouts of the request pause while a person answers a request from the server.
    pub(crate) pauses_while_asked: bool,
}

impl Connection {
    /// Creates a connection. `log_level` is the level to set for the whole connection, for legacy servers.
    pub(crate) fn new(terms: ConnectionTerms, log_level: Option<LogLevel>) -> Self {
        let sends_exchanges = terms.transport.exchanges().is_some();
        let framing = if sends_exchanges { Framing::Messages } else { Framing::Lines };
        let has_independent_requests = sends_exchanges && terms.dialect.is_modern();
        let state = State::new(terms.limits.clone(), log_level, framing, has_independent_requests);
        Self { state: Mutex::new(state), terms }
    }

    /// Begins to use a new link, the first one or the one after a restart. The bytes in `unsent`, which the negotiation
    /// did not write, are written first; then the log level and the subscriptions are requested again. Returns false if
    /// the connection has been closed in the meantime.
    pub(crate) fn begin(&self, unsent: Vec<u8>) -> bool {
        let mut state = self.lock();
        if state.closing {
            return false;
        }
        if state.ended.take().is_some() {
            state.peer.handle_reopened();
            self.terms.cache.changed(&Change::Gap);
        }
        state.driver_due = None;
        state.links += 1;
        state.is_writer_lent = false;
        state.is_flooded = false;
        state.outbox.restart(unsent);
        self.request_level_and_subscriptions(&mut state);
        true
    }

    /// Requests the log level and the subscriptions on a new link or in a new session, where the server does not know
    /// them.
    fn request_level_and_subscriptions(&self, state: &mut State) {
        // The response does not matter, because a server may ignore the level.
        if let Some(level) = state.log_level.clone() {
            self.request_unawaited(state, &Method::SetLevel, &SetLevelParams::new(level));
        }
        let Resubscriptions { listens, uris } = state.subscribers.reopen();
        for (key, params) in listens {
            match self.open(state, &Method::Listen, &params, None, LISTEN_TIMEOUTS, now()) {
                Ok((call, _)) => state.subscribers.set_listen(key, call),
                Err(_) => state.subscribers.give_up(|subscriber| subscriber == key),
            }
        }
        for (uri, keys) in uris {
            let timeouts = Timeouts::default().idle(UNAWAITED_TIMEOUT);
            match self.open(
                state,
                &Method::ResourcesSubscribe,
                &SubscribeParams::new(uri),
                None,
                timeouts,
                now(),
            ) {
                Ok((call, _)) => state.subscribers.begin_resubscription(call, keys),
                Err(_) => state.subscribers.give_up(|subscriber| keys.contains(&subscriber)),
            }
        }
        state.wake_driver();
    }

    /// Handles the switch to a new session, which is made under the same lock. Messages that are queued for the old
    /// session are dropped.
    pub(crate) fn handle_new_session(&self, state: &mut State) {
        state.drop_outbox();
        self.terms.cache.changed(&Change::Gap);
        // In the new session the server may use the same request ids again.
        state.peer.forget_requests();
        state.subscribers.cut();
        self.request_level_and_subscriptions(state);
    }

    /// Settles the requests whose responses were expected on the event stream of this session, because the stream has
    /// ended. The connection stays open.
    pub(crate) fn end_session_stream(&self, session: u64, problem: String) {
        let ended = Arc::new(ConnectionEnd { cause: EndCause::Network(problem), ..ConnectionEnd::default() });
        self.lock().settle_session(session, &ended);
        self.missed(None);
    }

    /// Reports to one subscriber, or to all if `by` is `None`, that changes may have been missed.
    pub(crate) fn missed(&self, by: Option<u64>) {
        self.terms.cache.changed(&Change::Gap);
        self.lock().subscribers.missed(by);
    }

    pub(crate) fn lock(&self) -> Locked<'_> {
        Locked::new(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.terms.dialect
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.terms.limits
    }

    /// Cancels a request whose caller stopped waiting.
    pub(crate) fn cancel(&self, state: &mut State, call: Option<CallHandle>) {
        if call.is_some_and(|call| state.peer.cancel(call, DROPPED_REASON)) {
            state.queue_transmits(self.dialect());
            state.wake_driver();
        }
    }

    /// Responds to a request from the server, unless the server cancelled it.
    pub(crate) fn respond(&self, id: &Id, answer: std::result::Result<&dyn Lower, &ErrorObject>) {
        let mut state = self.lock();
        state.respond(self.dialect(), id, answer);
        state.wake_driver();
    }

    /// Resumes the timeouts of calls that were paused while a person was asked.
    pub(crate) fn resume(&self, paused: &[CallHandle]) {
        let mut state = self.lock();
        for call in paused {
            state.peer.resume(*call, now());
        }
        state.wake_driver();
    }

    /// Asks the driver to close the connection. The server is not restarted afterwards.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closing = true;
        if state.ended.is_some() {
            state.end_feeds();
        }
        state.wake_driver();
    }

    /// Returns how the connection ended, or `None` while it is open.
    pub(crate) fn ended(&self) -> Option<Arc<ConnectionEnd>> {
        self.lock().ended.clone()
    }

    /// Ends the connection, and settles every request in flight. Does nothing if the connection has already ended.
    pub(crate) fn end(&self, ended: ConnectionEnd) {
        self.end_if(ended, |_| true);
    }

    /// Ends the connection if the condition holds. Returns true if the connection has ended.
    fn end_if(&self, ended: ConnectionEnd, condition: impl FnOnce(&State) -> bool) -> bool {
        let mut state = self.lock();
        if state.ended.is_some() {
            return true;
        }
        if !condition(&state) {
            return false;
        }
        let is_final = state.closing || ended.cause == EndCause::Closed || !self.terms.transport.restarts();
        state.ended = Some(Arc::new(ended));
        state.peer.handle_closed();
        state.writer = None;
        state.outbox.clear();
        state.settle_failures();
        if is_final {
            state.end_feeds();
        } else {
            state.subscribers.cut();
        }
        // The driver may not have noticed the end yet.
        state.wake_driver();
        true
    }

    /// Ends the connection if no call is in flight, so that the next call restarts the server with a new token. Returns
    /// false if a call is in flight.
    #[cfg(feature = "oauth")]
    pub(crate) fn end_for_new_token(&self) -> bool {
        let is_idle = |state: &State| state.is_idle();
        self.end_if(ConnectionEnd { cause: EndCause::NewToken, ..ConnectionEnd::default() }, is_idle)
    }

    /// Ends a connection whose driver was dropped, because its runtime has ended or the driver has panicked.
    pub(crate) fn end_unfinished(&self) {
        let cause = if std::thread::panicking() { EndCause::Internal } else { EndCause::Closed };
        self.end(ConnectionEnd { cause, ..ConnectionEnd::default() });
    }

    /// Records the exit status of the process, which may be known only after its streams have ended.
    pub(crate) fn record_exit(&self, status: Option<ExitStatus>) {
        if let Some(ended) = &mut self.lock().ended
            && ended.status.is_none()
        {
            Arc::make_mut(ended).status = status;
        }
    }

    /// Returns true if the server can be restarted: it has ended, its config allows restarts, and the connection was
    /// not closed.
    pub(crate) fn can_restart(&self) -> bool {
        let state = self.lock();
        let is_ended = state.ended.as_ref().is_some_and(|ended| ended.cause != EndCause::Closed);
        self.terms.transport.restarts() && is_ended && !state.closing
    }
}
