//! Legacy sessions: the client, calls in flight, and streams that can be resumed.

mod table;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use mcp_protocol::messages::Id;
use mcp_protocol::peer::DuplicateIds;
use mcp_protocol::{Dialect, Limits, Map};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::MAX_UNREAD_BYTES;
use crate::budget::{Budget, Share};
use crate::call::identity::Principal;
use crate::connection::outlet::{Outlet, OutletFraming};
use crate::connection::{Client, Connection};
use crate::random;

pub(super) use table::Sessions;

/// The maximum number of ended streams that a session keeps for resumption, and their maximum total size in bytes.
const MAX_KEPT_STREAMS: usize = 16;
const MAX_KEPT_BYTES: usize = 1 << 20;

/// One legacy session.
pub(super) struct Session {
    pub(super) id: String,
    pub(super) dialect: Dialect,
    pub(super) client: Arc<Client>,
    /// The principal that opened the session. Other principals cannot use it.
    principal: Principal,
    pub(super) connection: Arc<Connection>,
    /// The memory budget of the session.
    memory: Arc<Budget>,
    state: Mutex<State>,
}

struct State {
    last_used: Instant,
    /// The number of requests that are being answered and streams that are being read. Calls in flight do not count,
    /// because their client may have disconnected.
    users: usize,
    /// The memory charged for the session itself, client info and capabilities.
    client_memory: Option<Share>,
    /// Streams by their number, oldest first.
    streams: Map<u64, Arc<Outlet>>,
    next_stream: u64,
    /// The number of the stand-alone stream (opened by GET).
    standalone: Option<u64>,
    /// Cancel signals of the requests in flight, by request id.
    cancel_signals: HashMap<Id, Arc<CancelSignal>>,
    /// Tasks of the calls in flight.
    runs: JoinSet<()>,
}

/// The cancel signal of a request in flight.
pub(super) struct CancelSignal {
    is_cancelled: AtomicBool,
    notify: Notify,
}

impl CancelSignal {
    /// Waits until the request is cancelled.
    pub(super) async fn cancelled(&self) {
        loop {
            let notified = self.notify.notified();
            if self.is_cancelled.load(Ordering::Acquire) {
                return;
            }
            notified.await;
        }
    }

    pub(super) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
        self.notify.notify_waiters();
    }
}

/// A guard that marks a session as in use until it is dropped.
pub(super) struct SessionUse(pub(super) Arc<Session>);

impl SessionUse {
    fn new(session: &Arc<Session>, now: Instant) -> Self {
        let mut state = session.lock();
        state.users += 1;
        state.last_used = now;
        drop(state);
        Self(Arc::clone(session))
    }
}

impl Clone for SessionUse {
    fn clone(&self) -> Self {
        Self::new(&self.0, Instant::now())
    }
}

impl Drop for SessionUse {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.users -= 1;
        state.last_used = Instant::now();
    }
}

impl Session {
    fn new(
        dialect: Dialect,
        client: Client,
        principal: Principal,
        limits: &Limits,
        memory: Arc<Budget>,
        share: Share,
    ) -> Self {
        let connection = Connection::new(limits.clone(), DuplicateIds::Named, Some(&memory));
        Self {
            id: random::id(),
            dialect,
            client: Arc::new(client),
            principal,
            connection: Arc::new(connection),
            memory,
            state: Mutex::new(State {
                last_used: Instant::now(),
                users: 0,
                client_memory: Some(share),
                streams: Map::new(),
                next_stream: 1,
                standalone: None,
                cancel_signals: HashMap::new(),
                runs: JoinSet::new(),
            }),
        }
    }

    /// Creates a stream that is not yet kept for resumption.
    pub(super) fn outlet(&self) -> (u64, Arc<Outlet>) {
        let mut state = self.lock();
        let stream = state.next_stream;
        state.next_stream += 1;
        let primed = self.dialect.primes_streams();
        let framing = OutletFraming::NumberedEvents { stream, primed };
        (stream, Arc::new(Outlet::new(framing, MAX_UNREAD_BYTES, Some(Arc::clone(&self.memory)))))
    }

    /// Keeps a stream for resumption. Drops the oldest ended streams above the limits.
    pub(super) fn keep(&self, stream: u64, outlet: &Arc<Outlet>) {
        let mut state = self.lock();
        state.streams.insert(stream, Arc::clone(outlet));
        let ended = state.streams.iter().filter(|(known, outlet)| **known != stream && outlet.is_closed());
        let mut kept = (0, 0);
        let newest_first: Vec<(u64, usize)> =
            ended.rev().map(|(stream, outlet)| (*stream, outlet.history_bytes())).collect();
        for (stream, bytes) in newest_first {
            kept = (kept.0 + 1, kept.1 + bytes);
            if kept.0 > MAX_KEPT_STREAMS || kept.1 > MAX_KEPT_BYTES {
                state.streams.remove(&stream);
            }
        }
    }

    /// Sets the stand-alone stream, and closes the previous one.
    pub(super) fn set_standalone(&self, stream: u64, outlet: &Arc<Outlet>) {
        let before = {
            let mut state = self.lock();
            let before = state.standalone.replace(stream);
            before.and_then(|before| state.streams.remove(&before))
        };
        if let Some(before) = before {
            before.close();
        }
        self.keep(stream, outlet);
    }

    /// Returns the kept stream to which an event id belongs.
    pub(super) fn find_stream(&self, event: &str) -> Option<ResumedStream> {
        let (stream, number) = event.split_once('-')?;
        let (stream, number) = (stream.parse().ok()?, number.parse().ok()?);
        let state = self.lock();
        let outlet = state.streams.get(&stream).cloned()?;
        Some(ResumedStream { outlet, number, is_standalone: state.standalone == Some(stream) })
    }

    /// Adds the cancel signal of a request in flight. It replaces the signal of an answered request with the same id.
    pub(super) fn add_cancel_signal(&self, id: &Id) -> Arc<CancelSignal> {
        let signal = Arc::new(CancelSignal { is_cancelled: AtomicBool::new(false), notify: Notify::new() });
        self.lock().cancel_signals.insert(id.clone(), Arc::clone(&signal));
        signal
    }

    /// Removes the cancel signal of a request that has ended, unless another request already uses its id.
    pub(super) fn remove_cancel_signal(&self, id: &Id, signal: &Arc<CancelSignal>) {
        let mut state = self.lock();
        if state.cancel_signals.get(id).is_some_and(|known| Arc::ptr_eq(known, signal)) {
            state.cancel_signals.remove(id);
        }
    }

    /// Spawns the task of a call, which is independent of the HTTP exchange.
    pub(super) fn spawn(&self, run: impl Future<Output = ()> + Send + 'static) {
        let mut state = self.lock();
        // Reaps tasks that have ended.
        while state.runs.try_join_next().is_some() {}
        state.runs.spawn(run);
    }

    /// Cancels the request in flight with this id, if there is one.
    pub(super) fn cancel(&self, id: &Id) {
        if let Some(signal) = self.lock().cancel_signals.get(id) {
            signal.cancel();
        }
    }

    /// Returns true if the budget of the session has at least this many bytes left.
    pub(super) fn has_memory(&self, bytes: usize) -> bool {
        self.memory.left() >= bytes
    }

    /// Cancels the calls, ends the streams, and releases the memory.
    fn end(&self) {
        self.connection.close();
        let mut state = self.lock();
        for signal in state.cancel_signals.values() {
            signal.cancel();
        }
        for outlet in state.streams.values() {
            outlet.end();
        }
        state.streams = Map::new();
        state.client_memory = None;
        state.runs.abort_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A kept stream that a client resumes.
pub(super) struct ResumedStream {
    pub(super) outlet: Arc<Outlet>,
    /// The number of the last event that the client received.
    pub(super) number: u64,
    pub(super) is_standalone: bool,
}

#[cfg(test)]
mod tests;
