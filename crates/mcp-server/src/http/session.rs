//! Legacy sessions: who is there, what runs, and the streams that can be taken up again.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mcp_protocol::messages::Id;
use mcp_protocol::peer::DuplicateIds;
use mcp_protocol::{Dialect, Limits, Map};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::{HttpOptions, WAITING};
use crate::budget::{Budget, Share};
use crate::connection::{Client, Connection};
use crate::outlet::{Framing, Outlet};
use crate::random;

/// How many streams that have ended can be taken up again, and how much they may hold together.
const STREAMS: usize = 16;
const KEPT: usize = 1 << 20;
/// How often idle sessions are looked for.
const SWEEP: Duration = Duration::from_secs(1);

/// One legacy session.
pub(super) struct Session {
    pub(super) id: String,
    pub(super) dialect: Dialect,
    pub(super) client: Arc<Client>,
    pub(super) connection: Arc<Connection>,
    /// What it may hold.
    memory: Arc<Budget>,
    state: Mutex<State>,
}

struct State {
    used: Instant,
    /// Requests that are being answered and streams that are read. Calls that run do not count: nobody may be left to
    /// hear how they end.
    users: usize,
    /// The memory of the session itself and of what the client said of itself.
    client_memory: Option<Share>,
    /// Streams by their number, oldest first.
    streams: Map<u64, Arc<Outlet>>,
    next_stream: u64,
    /// The stand-alone stream.
    standing: Option<u64>,
    /// Requests that are not answered yet.
    flights: Vec<Arc<Flight>>,
    /// Calls that wait.
    runs: JoinSet<()>,
}

/// A request that is not answered yet, and the word that it is no longer wanted.
pub(super) struct Flight {
    pub(super) id: Id,
    unwanted: AtomicBool,
    told: Notify,
}

impl Flight {
    /// Waits for the word that the request is no longer wanted.
    pub(super) async fn unwanted(&self) {
        loop {
            let told = self.told.notified();
            if self.unwanted.load(Ordering::Acquire) {
                return;
            }
            told.await;
        }
    }

    pub(super) fn cancel(&self) {
        self.unwanted.store(true, Ordering::Release);
        self.told.notify_waiters();
    }
}

/// A use of a session that ends when this is dropped. While there is one, the session is not idle.
pub(super) struct Using(pub(super) Arc<Session>);

impl Using {
    fn new(session: &Arc<Session>, now: Instant) -> Self {
        let mut state = session.lock();
        state.users += 1;
        state.used = now;
        drop(state);
        Self(Arc::clone(session))
    }
}

impl Clone for Using {
    fn clone(&self) -> Self {
        Self::new(&self.0, Instant::now())
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.users -= 1;
        state.used = Instant::now();
    }
}

impl Session {
    fn new(dialect: Dialect, client: Client, limits: &Limits, memory: Arc<Budget>, share: Share) -> Self {
        let connection = Connection::new(limits.clone(), DuplicateIds::Named, Some(&memory));
        Self {
            id: random::name(),
            dialect,
            client: Arc::new(client),
            connection: Arc::new(connection),
            memory,
            state: Mutex::new(State {
                used: Instant::now(),
                users: 0,
                client_memory: Some(share),
                streams: Map::new(),
                next_stream: 1,
                standing: None,
                flights: Vec::new(),
                runs: JoinSet::new(),
            }),
        }
    }

    /// A new stream, not yet to be taken up again.
    pub(super) fn outlet(&self) -> (u64, Arc<Outlet>) {
        let mut state = self.lock();
        let stream = state.next_stream;
        state.next_stream += 1;
        let primed = self.dialect.primes_streams();
        let framing = Framing::NumberedEvents { stream, primed };
        (stream, Arc::new(Outlet::new(framing, WAITING, Some(Arc::clone(&self.memory)))))
    }

    /// Keeps a stream for a client that comes back. Of those that have ended, the oldest make room.
    pub(super) fn keep(&self, stream: u64, outlet: &Arc<Outlet>) {
        let mut state = self.lock();
        state.streams.insert(stream, Arc::clone(outlet));
        let ended = state.streams.iter().filter(|(known, outlet)| **known != stream && outlet.is_closed());
        let mut kept = (0, 0);
        let newest_first: Vec<(u64, usize)> =
            ended.rev().map(|(stream, outlet)| (*stream, outlet.kept())).collect();
        for (stream, bytes) in newest_first {
            kept = (kept.0 + 1, kept.1 + bytes);
            if kept.0 > STREAMS || kept.1 > KEPT {
                state.streams.remove(&stream);
            }
        }
    }

    /// Keeps the stand-alone stream; the one before it ends.
    pub(super) fn stand(&self, stream: u64, outlet: &Arc<Outlet>) {
        let before = {
            let mut state = self.lock();
            let before = state.standing.replace(stream);
            before.and_then(|before| state.streams.remove(&before))
        };
        if let Some(before) = before {
            before.close();
        }
        self.keep(stream, outlet);
    }

    /// The stream of an event id.
    pub(super) fn find_stream(&self, event: &str) -> Option<Found> {
        let (stream, number) = event.split_once('-')?;
        let (stream, number) = (stream.parse().ok()?, number.parse().ok()?);
        let state = self.lock();
        let outlet = state.streams.get(&stream).cloned()?;
        Some(Found { outlet, number, is_standing: state.standing == Some(stream) })
    }

    /// Notes a request, so that it can be cancelled.
    pub(super) fn depart(&self, id: &Id) -> Arc<Flight> {
        let flight =
            Arc::new(Flight { id: id.clone(), unwanted: AtomicBool::new(false), told: Notify::new() });
        self.lock().flights.push(Arc::clone(&flight));
        flight
    }

    /// The request needs no more cancelling.
    pub(super) fn arrive(&self, flight: &Arc<Flight>) {
        self.lock().flights.retain(|known| !Arc::ptr_eq(known, flight));
    }

    /// Runs a call to its end, whoever reads.
    pub(super) fn spawn(&self, run: impl Future<Output = ()> + Send + 'static) {
        let mut state = self.lock();
        // Those that have ended are let go.
        while state.runs.try_join_next().is_some() {}
        state.runs.spawn(run);
    }

    /// Ends a call that the client no longer wants.
    pub(super) fn cancel(&self, id: &Id) {
        for flight in self.lock().flights.iter().filter(|flight| flight.id == *id) {
            flight.cancel();
        }
    }

    /// True if so much of its own memory is left.
    pub(super) fn has_memory(&self, bytes: usize) -> bool {
        self.memory.left() >= bytes
    }

    /// Ends its calls and streams, and releases its memory.
    fn end(&self) {
        self.connection.close();
        let mut state = self.lock();
        for flight in &state.flights {
            flight.cancel();
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

/// A stream that is taken up again.
pub(super) struct Found {
    pub(super) outlet: Arc<Outlet>,
    /// The last event that the client has.
    pub(super) number: u64,
    pub(super) is_standing: bool,
}

/// Bytes that a session holds by itself.
const SESSION_OVERHEAD: usize = 2 << 10;
/// A session that holds so many bytes makes room for subscriptions of others.
const LARGE_SESSION: usize = 64 << 10;
/// The least time between two searches for sessions to end.
const SEARCH_INTERVAL: Duration = Duration::from_millis(20);

/// All sessions of a service.
pub(super) struct Sessions {
    most: usize,
    idle: Duration,
    /// What one session may hold, and all of them.
    session_memory: usize,
    memory: Arc<Budget>,
    state: Mutex<Table>,
}

struct Table {
    sessions: HashMap<String, Arc<Session>, BuildHasherDefault<Fnv>>,
    swept: Instant,
    /// When it was last seen that ending sessions that hold so much frees too little memory.
    looked_for_memory: Option<(Instant, usize)>,
    /// When calls that nobody waits for were last ended.
    looked_for_calls: Option<Instant>,
}

impl Table {
    fn end(&mut self, id: &str) {
        if let Some(session) = self.sessions.remove(id) {
            session.end();
        }
    }
}

/// A quick hash. The keys are random names that this server chose, so that nobody can make them collide.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Calls of a session hold it, and would go on.
impl Drop for Sessions {
    fn drop(&mut self) {
        self.end_all();
    }
}

impl Sessions {
    pub(super) fn new(options: &HttpOptions, memory: &Arc<Budget>) -> Self {
        Self {
            most: options.sessions,
            idle: options.session_idle,
            session_memory: options.session_memory,
            memory: Arc::clone(memory),
            state: Mutex::new(Table {
                sessions: HashMap::default(),
                swept: Instant::now(),
                looked_for_memory: None,
                looked_for_calls: None,
            }),
        }
    }

    /// A new session for a client that takes so much memory. The idlest of those that nobody uses make room for
    /// it; `None` if all are in use.
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
        if table.sessions.len() >= self.most {
            self.make_room(&mut table, 0, 0);
        }
        if table.sessions.len() >= self.most {
            return None;
        }
        self.make_memory(&mut table, bytes, 0);
        let share = memory.take(bytes)?;
        let session = Arc::new(Session::new(dialect, client, limits, memory, share));
        table.sessions.insert(session.id.clone(), Arc::clone(&session));
        Some(session)
    }

    /// Sees to it that so much memory is left for a client that is there already: the idlest sessions that nobody uses
    /// make room, if they hold much. The others are not to blame.
    pub(super) fn reclaim(&self, bytes: usize) {
        if self.memory.left() < bytes {
            self.make_memory(&mut self.lock(), bytes, LARGE_SESSION);
        }
    }

    fn make_memory(&self, table: &mut Table, bytes: usize, least_held: usize) {
        let now = Instant::now();
        let is_futile =
            |(at, held): (Instant, usize)| held <= least_held && now.duration_since(at) <= SEARCH_INTERVAL;
        if self.memory.left() < bytes && !table.looked_for_memory.is_some_and(is_futile) {
            let is_enough = self.make_room(table, bytes, least_held);
            table.looked_for_memory = (!is_enough).then_some((now, least_held));
        }
    }

    /// Ends sessions that nobody uses and that hold at least `least_held`, the idlest first, until `bytes` are left; at
    /// least a hundredth of all, so that a flood of new sessions does not look through all of them each time. If all of
    /// them were not enough, none is ended. Returns whether it was enough.
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
                    (state.used, session.id.clone())
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

    /// Ends half of the sessions in which calls run though nobody uses them, the idlest first: calls of clients that
    /// have left must not hold up others. Returns whether there were any. What they hold is free soon, not at once.
    pub(super) fn end_abandoned(&self) -> bool {
        let now = Instant::now();
        let mut table = self.lock();
        if table.looked_for_calls.is_some_and(|at| now.duration_since(at) <= SEARCH_INTERVAL) {
            return false;
        }
        table.looked_for_calls = Some(now);
        let mut abandoned: Vec<_> = table
            .sessions
            .values()
            .filter_map(|session| {
                let mut state = session.lock();
                while state.runs.try_join_next().is_some() {}
                (state.users == 0 && !state.runs.is_empty()).then(|| (state.used, session.id.clone()))
            })
            .collect();
        abandoned.sort_unstable();
        abandoned.truncate(abandoned.len().div_ceil(2));
        for (_, id) in &abandoned {
            table.end(id);
        }
        !abandoned.is_empty()
    }

    /// Ends what nobody uses, also if nobody comes.
    #[cfg(feature = "serve")]
    pub(super) fn reap(&self) {
        self.sweep(&mut self.lock(), Instant::now());
    }

    pub(super) fn get(&self, id: &str) -> Option<Using> {
        let now = Instant::now();
        let mut table = self.lock();
        self.sweep(&mut table, now);
        let session = table.sessions.get(id)?;
        Some(Using::new(session, now))
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

    /// Ends what nobody has used for the idle time, whatever runs in it.
    fn sweep(&self, table: &mut Table, now: Instant) {
        if now.duration_since(table.swept) < SWEEP.min(self.idle) {
            return;
        }
        table.swept = now;
        table.sessions.retain(|_, session| {
            let state = session.lock();
            let is_used = state.users > 0 || now.duration_since(state.used) < self.idle;
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
