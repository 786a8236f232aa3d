//! All sessions of a service, within limits for their number, memory and idle time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mcp_protocol::{Dialect, Limits};
use tokio::task::JoinSet;

use super::{Session, SessionUse};
use crate::budget::Budget;
use crate::call::identity::Principal;
use crate::connection::Client;
use crate::http::HttpOptions;

/// The minimum time between two sweeps for idle sessions.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// The bounds of the interval between two searches for idle sessions while no requests arrive. Between the bounds, the
/// interval is the idle timeout.
const REAP_INTERVAL: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(10);
/// The memory of a session without client info and capabilities, in bytes.
const SESSION_OVERHEAD_BYTES: usize = 2 << 10;
/// Unused sessions that hold at least this many bytes can be ended to make room for subscriptions of other clients.
const LARGE_SESSION_BYTES: usize = 64 << 10;
/// The minimum time between two searches for sessions that can be ended.
const SEARCH_INTERVAL: Duration = Duration::from_millis(20);

/// All sessions of a service.
pub(in crate::http) struct Sessions {
    max_sessions: usize,
    idle_timeout: Duration,
    /// The memory limit of one session in bytes, and the memory budget of all sessions together.
    session_memory: usize,
    memory: Arc<Budget>,
    state: Mutex<SessionTable>,
    /// The task that ends idle sessions while no requests arrive. Started with the first session.
    reaper: Mutex<JoinSet<()>>,
}

/// The sessions by id, and the times of the last searches.
struct SessionTable {
    sessions: HashMap<String, Arc<Session>>,
    last_sweep: Instant,
    /// The last search that could not free enough memory: its time, and the minimum memory of the sessions that it
    /// considered.
    failed_memory_search: Option<(Instant, usize)>,
    /// The time of the last search for sessions with abandoned calls.
    last_call_search: Option<Instant>,
}

impl SessionTable {
    fn end(&mut self, id: &str) {
        if let Some(session) = self.sessions.remove(id) {
            session.end();
        }
    }
}

/// Ends all sessions. Otherwise the tasks of their calls would continue, because these tasks hold their session.
impl Drop for Sessions {
    fn drop(&mut self) {
        self.end_all();
    }
}

impl Sessions {
    pub(in crate::http) fn new(options: &HttpOptions, memory: &Arc<Budget>) -> Self {
        Self {
            max_sessions: options.sessions,
            idle_timeout: options.session_idle,
            session_memory: options.session_memory,
            memory: Arc::clone(memory),
            state: Mutex::new(SessionTable {
                sessions: HashMap::default(),
                last_sweep: Instant::now(),
                failed_memory_search: None,
                last_call_search: None,
            }),
            reaper: Mutex::default(),
        }
    }

    /// Opens a session for a client whose info and capabilities need `client_memory` bytes. At the limits, first ends
    /// the unused sessions that have been idle longest; returns `None` if that is not enough.
    pub(in crate::http) fn open(
        &self,
        dialect: Dialect,
        client: Client,
        principal: Principal,
        client_memory: usize,
        limits: &Limits,
    ) -> Option<Arc<Session>> {
        let memory = Budget::within(&self.memory, self.session_memory);
        let bytes = SESSION_OVERHEAD_BYTES + client_memory;
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
        let session = Arc::new(Session::new(dialect, client, principal, limits, memory, share));
        table.sessions.insert(session.id.clone(), Arc::clone(&session));
        Some(session)
    }

    /// Frees memory for an existing client: if fewer than `bytes` are left, ends large unused sessions, beginning with
    /// those that have been idle longest. Small sessions are not ended.
    pub(in crate::http) fn reclaim(&self, bytes: usize) {
        if self.memory.left() < bytes {
            self.make_memory(&mut self.lock(), bytes, LARGE_SESSION_BYTES);
        }
    }

    /// Ends sessions until `bytes` are free. Does nothing if such a search failed a moment ago.
    fn make_memory(&self, table: &mut SessionTable, bytes: usize, least_held: usize) {
        let now = Instant::now();
        let is_futile =
            |(at, held): (Instant, usize)| held <= least_held && now.duration_since(at) <= SEARCH_INTERVAL;
        if self.memory.left() < bytes && !table.failed_memory_search.is_some_and(is_futile) {
            let is_enough = self.make_room(table, bytes, least_held);
            table.failed_memory_search = (!is_enough).then_some((now, least_held));
        }
    }

    /// Ends unused sessions that hold at least `least_held` bytes, beginning with those that have been idle longest,
    /// until `bytes` are free. Returns true if `bytes` are free at the end.
    ///
    /// If possible, ends at least 1 % of all sessions, so that in a flood of new sessions the table is not searched for
    /// each of them. Ends no session if all candidates together would not free enough.
    fn make_room(&self, table: &mut SessionTable, bytes: usize, least_held: usize) -> bool {
        let mut held = 0;
        let mut unused: Vec<_> = table
            .sessions
            .values()
            .filter_map(|session| {
                let state = session.lock();
                let holds = session.memory.used();
                (state.users == 0 && holds >= least_held).then(|| {
                    held += holds;
                    (state.last_used, Arc::clone(session))
                })
            })
            .collect();
        if self.memory.left().saturating_add(held) < bytes {
            return false;
        }
        let least = table.sessions.len().div_ceil(100);
        if bytes == 0 && least < unused.len() {
            // Selecting a few is much faster than sorting all.
            unused.select_nth_unstable_by_key(least, |(last_used, _)| *last_used);
            unused.truncate(least);
        } else {
            unused.sort_unstable_by_key(|(last_used, _)| *last_used);
        }
        for (ended, (_, session)) in unused.into_iter().enumerate() {
            if ended >= least && self.memory.left() >= bytes {
                break;
            }
            table.end(&session.id);
        }
        self.memory.left() >= bytes
    }

    /// Ends half of the unused sessions with calls in flight, beginning with those that have been idle longest, so that
    /// calls of disconnected clients do not block other clients. Returns true if a session was ended. Its resources are
    /// freed shortly afterwards.
    pub(in crate::http) fn end_abandoned(&self) -> bool {
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
                (state.users == 0 && !state.runs.is_empty()).then(|| (state.last_used, Arc::clone(session)))
            })
            .collect();
        abandoned.sort_unstable_by_key(|(last_used, _)| *last_used);
        abandoned.truncate(abandoned.len().div_ceil(2));
        for (_, session) in &abandoned {
            table.end(&session.id);
        }
        !abandoned.is_empty()
    }

    /// Starts the task that ends idle sessions while no requests arrive, unless it is already running. The task ends
    /// when the table is dropped.
    pub(in crate::http) fn start_reaper(self: &Arc<Self>) {
        let mut reaper = self.reaper.lock().unwrap_or_else(PoisonError::into_inner);
        // The task has ended if its runtime was shut down.
        while reaper.try_join_next().is_some() {}
        if !reaper.is_empty() {
            return;
        }
        let interval = self.idle_timeout.clamp(*REAP_INTERVAL.start(), *REAP_INTERVAL.end());
        let sessions = Arc::downgrade(self);
        reaper.spawn(async move {
            loop {
                tokio::time::sleep(interval).await;
                let Some(sessions) = sessions.upgrade() else { return };
                sessions.reap();
            }
        });
    }

    /// Ends idle sessions.
    fn reap(&self) {
        self.sweep(&mut self.lock(), Instant::now());
    }

    /// Returns the session with this id and marks it as in use, unless it belongs to another principal.
    pub(in crate::http) fn get(&self, id: &str, principal: &Principal) -> Option<SessionUse> {
        let now = Instant::now();
        let mut table = self.lock();
        self.sweep(&mut table, now);
        let session = table.sessions.get(id).filter(|session| session.principal.is_same(principal))?;
        Some(SessionUse::new(session, now))
    }

    /// Ends every session.
    pub(in crate::http) fn end_all(&self) {
        for (_, session) in self.lock().sessions.drain() {
            session.end();
        }
    }

    pub(in crate::http) fn end(&self, id: &str) {
        self.lock().end(id);
    }

    /// Ends sessions that have not been in use for the idle timeout, even if they have calls in flight.
    fn sweep(&self, table: &mut SessionTable, now: Instant) {
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

    fn lock(&self) -> MutexGuard<'_, SessionTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
