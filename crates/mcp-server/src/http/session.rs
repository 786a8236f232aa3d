//! Legacy sessions: the client, calls in flight, and streams that can be resumed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mcp_protocol::messages::Id;
use mcp_protocol::peer::DuplicateIds;
use mcp_protocol::{Dialect, Limits, Map};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::{HttpOptions, MAX_UNREAD_BYTES};
use crate::budget::{Budget, Share};
use crate::connection::outlet::{Framing, Outlet};
use crate::connection::{Client, Connection};
use crate::random;

/// The maximum number and total size of ended streams that are kept for resumption.
const MAX_KEPT_STREAMS: usize = 16;
const MAX_KEPT_BYTES: usize = 1 << 20;
/// The minimum time between two sweeps for idle sessions.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// One legacy session.
pub(super) struct Session {
    pub(super) id: String,
    pub(super) dialect: Dialect,
    pub(super) client: Arc<Client>,
    pub(super) connection: Arc<Connection>,
    /// The memory budget of the session.
    memory: Arc<Budget>,
    state: Mutex<State>,
}

struct State {
    last_used: Instant,
    /// The number of requests that are being answered and streams that are being read. Calls in flight do not count,
    /// because their client may be gone.
    users: usize,
    /// The memory of the session itself, client info and capabilities.
    client_memory: Option<Share>,
    /// Streams by their number, oldest first.
    streams: Map<u64, Arc<Outlet>>,
    next_stream: u64,
    /// The number of the stand-alone stream (opened by GET).
    standalone: Option<u64>,
    /// Cancel signals of the requests in flight.
    cancel_signals: Vec<Arc<CancelSignal>>,
    /// Tasks of the calls in flight.
    runs: JoinSet<()>,
}

/// The cancel signal of a request in flight.
pub(super) struct CancelSignal {
    pub(super) id: Id,
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
    fn new(dialect: Dialect, client: Client, limits: &Limits, memory: Arc<Budget>, share: Share) -> Self {
        let connection = Connection::new(limits.clone(), DuplicateIds::Named, Some(&memory));
        Self {
            id: random::id(),
            dialect,
            client: Arc::new(client),
            connection: Arc::new(connection),
            memory,
            state: Mutex::new(State {
                last_used: Instant::now(),
                users: 0,
                client_memory: Some(share),
                streams: Map::new(),
                next_stream: 1,
                standalone: None,
                cancel_signals: Vec::new(),
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
        let framing = Framing::NumberedEvents { stream, primed };
        (stream, Arc::new(Outlet::new(framing, MAX_UNREAD_BYTES, Some(Arc::clone(&self.memory)))))
    }

    /// Keeps a stream for resumption. Drops the oldest ended streams above the limits.
    pub(super) fn keep(&self, stream: u64, outlet: &Arc<Outlet>) {
        let mut state = self.lock();
        state.streams.insert(stream, Arc::clone(outlet));
        let ended = state.streams.iter().filter(|(known, outlet)| **known != stream && outlet.is_closed());
        let mut kept = (0, 0);
        let newest_first: Vec<(u64, usize)> =
            ended.rev().map(|(stream, outlet)| (*stream, outlet.kept())).collect();
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

    /// Returns the kept stream of an event id.
    pub(super) fn find_stream(&self, event: &str) -> Option<ResumedStream> {
        let (stream, number) = event.split_once('-')?;
        let (stream, number) = (stream.parse().ok()?, number.parse().ok()?);
        let state = self.lock();
        let outlet = state.streams.get(&stream).cloned()?;
        Some(ResumedStream { outlet, number, is_standalone: state.standalone == Some(stream) })
    }

    /// Adds the cancel signal of a request in flight.
    pub(super) fn add_cancel_signal(&self, id: &Id) -> Arc<CancelSignal> {
        let signal = Arc::new(CancelSignal {
            id: id.clone(),
            is_cancelled: AtomicBool::new(false),
            notify: Notify::new(),
        });
        self.lock().cancel_signals.push(Arc::clone(&signal));
        signal
    }

    /// Removes the cancel signal of a request that has ended.
    pub(super) fn remove_cancel_signal(&self, signal: &Arc<CancelSignal>) {
        self.lock().cancel_signals.retain(|known| !Arc::ptr_eq(known, signal));
    }

    /// Spawns the task of a call, which is independent of the HTTP exchange.
    pub(super) fn spawn(&self, run: impl Future<Output = ()> + Send + 'static) {
        let mut state = self.lock();
        // Reaps tasks that have ended.
        while state.runs.try_join_next().is_some() {}
        state.runs.spawn(run);
    }

    /// Cancels a request in flight.
    pub(super) fn cancel(&self, id: &Id) {
        for signal in self.lock().cancel_signals.iter().filter(|signal| signal.id == *id) {
            signal.cancel();
        }
    }

    /// Returns true if the budget of the session has so many bytes left.
    pub(super) fn has_memory(&self, bytes: usize) -> bool {
        self.memory.left() >= bytes
    }

    /// Cancels the calls, ends the streams, and releases the memory.
    fn end(&self) {
        self.connection.close();
        let mut state = self.lock();
        for signal in &state.cancel_signals {
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

/// The memory of a session without its client, in bytes.
const SESSION_OVERHEAD: usize = 2 << 10;
/// The minimum memory of an unused session that is ended to make room for subscriptions of others, in bytes.
const LARGE_SESSION: usize = 64 << 10;
/// The minimum time between two searches for sessions to end.
const SEARCH_INTERVAL: Duration = Duration::from_millis(20);

/// All sessions of a service.
pub(super) struct Sessions {
    max_sessions: usize,
    idle_timeout: Duration,
    /// The memory limits of one session and of all together.
    session_memory: usize,
    memory: Arc<Budget>,
    state: Mutex<Table>,
}

struct Table {
    sessions: HashMap<String, Arc<Session>>,
    last_sweep: Instant,
    /// The last search that could not free enough memory: its time, and the minimum memory of the sessions it
    /// considered.
    failed_memory_search: Option<(Instant, usize)>,
    /// The time of the last search for sessions with abandoned calls.
    last_call_search: Option<Instant>,
}

impl Table {
    fn end(&mut self, id: &str) {
        if let Some(session) = self.sessions.remove(id) {
            session.end();
        }
    }
}

/// Ends all sessions: the tasks of their calls hold them and would continue.
impl Drop for Sessions {
    fn drop(&mut self) {
        self.end_all();
    }
}

impl Sessions {
    pub(super) fn new(options: &HttpOptions, memory: &Arc<Budget>) -> Self {
        Self {
            max_sessions: options.sessions,
            idle_timeout: options.session_idle,
            session_memory: options.session_memory,
            memory: Arc::clone(memory),
            state: Mutex::new(Table {
                sessions: HashMap::default(),
                last_sweep: Instant::now(),
                failed_memory_search: None,
                last_call_search: None,
            }),
        }
    }

    /// Opens a session for a client that needs this much memory. At the limits, ends the unused sessions that are idle
    /// for the longest time; returns `None` if that is not enough.
    pub(super) fn open(
        &self,
        dialect: Dialect,
        client: Client,
        client_memory: usize,
        limits: &Limits,
    ) -> Option<Arc<Session>> {
        let memory = Budget::within(&self.memory, self.session_memory);
        let bytes = SESSION_OVERHEAD + client_memory;
        if bytes > self.session_memory {
            return None;
        }
        let mut table = self.lock();
        self.sweep(&mut table, Instant::now());
        if table.sessions.len() >= self.max_sessions {
            self.make_room(&mut table, 0, 0);
        }
        if table.sessions.len() >= self.max_sessions {
            return None;
        }
        self.make_memory(&mut table, bytes, 0);
        let share = memory.take(bytes)?;
        let session = Arc::new(Session::new(dialect, client, limits, memory, share));
        table.sessions.insert(session.id.clone(), Arc::clone(&session));
        Some(session)
    }

    /// Frees memory for an existing client: ends large unused sessions, those idle for the longest time first. Small
    /// sessions are not ended.
    pub(super) fn reclaim(&self, bytes: usize) {
        if self.memory.left() < bytes {
            self.make_memory(&mut self.lock(), bytes, LARGE_SESSION);
        }
    }

    fn make_memory(&self, table: &mut Table, bytes: usize, least_held: usize) {
        let now = Instant::now();
        let is_futile =
            |(at, held): (Instant, usize)| held <= least_held && now.duration_since(at) <= SEARCH_INTERVAL;
        if self.memory.left() < bytes && !table.failed_memory_search.is_some_and(is_futile) {
            let is_enough = self.make_room(table, bytes, least_held);
            table.failed_memory_search = (!is_enough).then_some((now, least_held));
        }
    }

    /// Ends unused sessions that hold at least `least_held` bytes, those idle for the longest time first, until `bytes`
    /// are free. Ends at least 1 % of all sessions, so that a flood of new sessions does not search the table each
    /// time. Ends none if all of them together would not be enough. Returns true if `bytes` are free.
    fn make_room(&self, table: &mut Table, bytes: usize, least_held: usize) -> bool {
        let mut held = 0;
        let mut unused: Vec<_> = table
            .sessions
            .values()
            .filter_map(|session| {
                let state = session.lock();
                let holds = session.memory.used();
                (state.users == 0 && holds >= least_held).then(|| {
                    held += holds;
                    (state.last_used, session.id.clone())
                })
            })
            .collect();
        if self.memory.left().saturating_add(held) < bytes {
            return false;
        }
        unused.sort_unstable();
        let least = table.sessions.len().div_ceil(100);
        for (ended, (_, id)) in unused.into_iter().enumerate() {
            if ended >= least && self.memory.left() >= bytes {
                break;
            }
            table.end(&id);
        }
        self.memory.left() >= bytes
    }

    /// Ends half of the unused sessions with calls in flight, those idle for the longest time first, so that calls of
    /// disconnected clients do not block others. Returns true if there were any. Their resources are freed soon, not at
    /// once.
    pub(super) fn end_abandoned(&self) -> bool {
        let now = Instant::now();
        let mut table = self.lock();
        if table.last_call_search.is_some_and(|at| now.duration_since(at) <= SEARCH_INTERVAL) {
            return false;
        }
        table.last_call_search = Some(now);
        let mut abandoned: Vec<_> = table
            .sessions
            .values()
            .filter_map(|session| {
                let mut state = session.lock();
                while state.runs.try_join_next().is_some() {}
                (state.users == 0 && !state.runs.is_empty()).then(|| (state.last_used, session.id.clone()))
            })
            .collect();
        abandoned.sort_unstable();
        abandoned.truncate(abandoned.len().div_ceil(2));
        for (_, id) in &abandoned {
            table.end(id);
        }
        !abandoned.is_empty()
    }

    /// Ends idle sessions; called periodically, for times without requests.
    #[cfg(feature = "serve")]
    pub(super) fn reap(&self) {
        self.sweep(&mut self.lock(), Instant::now());
    }

    pub(super) fn get(&self, id: &str) -> Option<SessionUse> {
        let now = Instant::now();
        let mut table = self.lock();
        self.sweep(&mut table, now);
        let session = table.sessions.get(id)?;
        Some(SessionUse::new(session, now))
    }

    /// Ends every session.
    pub(super) fn end_all(&self) {
        for (_, session) in self.lock().sessions.drain() {
            session.end();
        }
    }

    pub(super) fn end(&self, id: &str) {
        self.lock().end(id);
    }

    /// Ends sessions that are unused for the idle timeout, even if calls are in flight.
    fn sweep(&self, table: &mut Table, now: Instant) {
        if now.duration_since(table.last_sweep) < SWEEP_INTERVAL.min(self.idle_timeout) {
            return;
        }
        table.last_sweep = now;
        table.sessions.retain(|_, session| {
            let state = session.lock();
            let is_used = state.users > 0 || now.duration_since(state.last_used) < self.idle_timeout;
            drop(state);
            if !is_used {
                session.end();
            }
            is_used
        });
        table.sessions.shrink_to(2 * table.sessions.len());
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
