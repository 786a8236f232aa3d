//! Legacy sessions: who is there, what runs, and the streams that can be taken up again.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mcp_protocol::messages::Id;
use mcp_protocol::peer::DuplicateIds;
use mcp_protocol::{Dialect, Limits};
use tokio::task::{AbortHandle, JoinSet};

use super::WAITING;
use crate::connection::{Client, Connection};
use crate::context::Context;
use crate::outlet::{Framing, Outlet};

/// How many streams of a session can be taken up again.
const STREAMS: usize = 32;
/// How often idle sessions are looked for.
const SWEEP: Duration = Duration::from_secs(1);

/// One legacy session.
pub(super) struct Session {
    pub(super) id: String,
    pub(super) dialect: Dialect,
    pub(super) client: Arc<Client>,
    pub(super) connection: Arc<Connection>,
    state: Mutex<State>,
}

struct State {
    used: Instant,
    /// Streams by their number, oldest first.
    streams: BTreeMap<u64, Arc<Outlet>>,
    next_stream: u64,
    /// The stand-alone stream that is read.
    standing: Option<u64>,
    /// Calls that have begun to stream.
    runs: JoinSet<()>,
    running: Vec<(Id, Option<Context>, AbortHandle)>,
}

impl Session {
    fn new(dialect: Dialect, client: Client, limits: &Limits) -> Self {
        Self {
            id: random_id(),
            dialect,
            client: Arc::new(client),
            connection: Arc::new(Connection::new(limits.clone(), DuplicateIds::Named)),
            state: Mutex::new(State {
                used: Instant::now(),
                streams: BTreeMap::new(),
                next_stream: 1,
                standing: None,
                runs: JoinSet::new(),
                running: Vec::new(),
            }),
        }
    }

    /// A new stream, not yet to be taken up again.
    pub(super) fn outlet(&self) -> (u64, Arc<Outlet>) {
        let mut state = self.lock();
        let stream = state.next_stream;
        state.next_stream += 1;
        let primed = self.dialect == Dialect::V2025_11_25;
        (stream, Arc::new(Outlet::new(Framing::NumberedEvents { stream, primed }, WAITING)))
    }

    /// Keeps a stream for a client that comes back.
    pub(super) fn keep(&self, stream: u64, outlet: &Arc<Outlet>) {
        let mut state = self.lock();
        state.streams.insert(stream, Arc::clone(outlet));
        while state.streams.len() > STREAMS {
            state.streams.pop_first();
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

    /// The stream of an event id, and the number of the event.
    pub(super) fn find_stream(&self, event: &str) -> Option<(Arc<Outlet>, u64)> {
        let (stream, number) = event.split_once('-')?;
        let outlet = self.lock().streams.get(&stream.parse().ok()?).cloned()?;
        Some((outlet, number.parse().ok()?))
    }

    /// Runs a call to its end, whoever reads.
    pub(super) fn spawn(
        &self,
        id: &Id,
        context: Option<Context>,
        run: impl Future<Output = ()> + Send + 'static,
    ) {
        let mut state = self.lock();
        // Those that have ended are let go.
        while state.runs.try_join_next().is_some() {}
        state.running.retain(|(_, _, abort)| !abort.is_finished());
        let abort = state.runs.spawn(run);
        state.running.push((id.clone(), context, abort));
    }

    /// Ends a call that the client no longer wants.
    pub(super) fn cancel(&self, id: &Id) {
        for (_, context, abort) in self.lock().running.iter().filter(|(running, _, _)| running == id) {
            if let Some(context) = context {
                context.cancel();
            }
            abort.abort();
        }
    }

    fn touch(&self) {
        self.lock().used = Instant::now();
    }

    fn end(&self) {
        self.connection.close();
        let mut state = self.lock();
        state.runs.abort_all();
        for outlet in state.streams.values() {
            outlet.close();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All sessions of a service.
pub(super) struct Sessions {
    most: usize,
    idle: Duration,
    state: Mutex<Table>,
}

struct Table {
    sessions: HashMap<String, Arc<Session>>,
    swept: Instant,
}

impl Sessions {
    pub(super) fn new(most: usize, idle: Duration) -> Self {
        Self { most, idle, state: Mutex::new(Table { sessions: HashMap::new(), swept: Instant::now() }) }
    }

    /// A new session. The idlest makes room for it if there is none.
    pub(super) fn open(&self, dialect: Dialect, client: Client, limits: &Limits) -> Arc<Session> {
        let session = Arc::new(Session::new(dialect, client, limits));
        let mut table = self.lock();
        self.sweep(&mut table);
        if table.sessions.len() >= self.most {
            let idlest = table.sessions.values().min_by_key(|session| session.lock().used);
            if let Some(id) = idlest.map(|session| session.id.clone())
                && let Some(idlest) = table.sessions.remove(&id)
            {
                idlest.end();
            }
        }
        table.sessions.insert(session.id.clone(), Arc::clone(&session));
        session
    }

    pub(super) fn get(&self, id: &str) -> Option<Arc<Session>> {
        let mut table = self.lock();
        self.sweep(&mut table);
        let session = table.sessions.get(id).cloned()?;
        session.touch();
        Some(session)
    }

    pub(super) fn end(&self, id: &str) {
        if let Some(session) = self.lock().sessions.remove(id) {
            session.end();
        }
    }

    /// Ends what nobody uses. Whoever reads a stream holds its session, which is use.
    fn sweep(&self, table: &mut Table) {
        let now = Instant::now();
        if now.duration_since(table.swept) < SWEEP.min(self.idle) {
            return;
        }
        table.swept = now;
        table.sessions.retain(|_, session| {
            let is_read = Arc::strong_count(session) > 1;
            let is_used = is_read || now.duration_since(session.lock().used) < self.idle;
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

/// An id that nobody can guess, of letters and digits.
#[expect(
    clippy::expect_used,
    reason = "without random bytes there are no sessions, and input cannot cause it"
)]
fn random_id() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes.iter().fold(String::with_capacity(32), |mut id, byte| {
        let _ = write!(id, "{byte:02x}");
        id
    })
}
