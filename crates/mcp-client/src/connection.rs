//! One connection, shared by its driver and those who wait: what is in flight, what is to be written, who is woken.

pub(crate) mod alarm;
pub(crate) mod cache;
pub(crate) mod feed;
pub(crate) mod handlers;
pub(crate) mod inbound;
mod locked;
mod outbox;
mod outgoing;
pub(crate) mod progress;
mod request;
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
use mcp_protocol::peer::{Call, Clocks};
use mcp_protocol::resources::SubscribeParams;
use mcp_protocol::{Dialect, Limits};

use crate::connection::cache::View;
use crate::connection::outbox::Framing;
use crate::connection::subscribers::{Change, LISTEN, Resubscriptions};
use crate::error::{ConnectionEnd, EndCause};

pub(crate) use locked::Locked;
pub(crate) use request::{Request, Step};
pub(crate) use state::{State, Writer};
pub(crate) use transport::Transport;

/// How long a request is in flight whose response nobody waits for.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// What a server is told of a request that was dropped.
const NOT_WANTED: &str = "no longer wanted";

/// The time, as the drivers of this crate see it.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// What a connection is, from the moment it is usable. It outlives its link if the server is started again.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) terms: ConnectionTerms,
    state: Mutex<State>,
}

/// What stays as it is for as long as there is a connection.
#[derive(Debug)]
pub(crate) struct ConnectionTerms {
    /// What to call the server when somebody is asked something.
    pub(crate) server: String,
    pub(crate) dialect: Dialect,
    /// What every request carries in the modern era.
    pub(crate) envelope: Option<Meta>,
    pub(crate) limits: Limits,
    pub(crate) transport: Transport,
    pub(crate) cache: View,
}

/// How a request is made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestOptions {
    pub(crate) clocks: Clocks,
    /// Progress is kept for the one who waits.
    pub(crate) progress: bool,
    /// The server may ask a person before it answers.
    pub(crate) asks: bool,
}

impl Connection {
    /// With the level to ask a server for that keeps one for the whole connection.
    pub(crate) fn new(terms: ConnectionTerms, log_level: Option<LogLevel>) -> Self {
        let has_exchanges = terms.transport.exchanges().is_some();
        let framing = if has_exchanges { Framing::Messages } else { Framing::Lines };
        let has_exchanges = has_exchanges && terms.dialect.is_modern();
        let state = State::new(terms.limits.clone(), log_level, framing, has_exchanges);
        Self { state: Mutex::new(state), terms }
    }

    /// Takes in a link, the first one or a new one, and gives false if the connection was closed meanwhile. What is
    /// left to be written of its negotiation comes first; then what the last link had been asked for.
    pub(crate) fn begin(&self, unsent: Vec<u8>) -> bool {
        let mut state = self.lock();
        if state.closing {
            return false;
        }
        if state.ended.take().is_some() {
            state.peer.handle_reopened();
            self.terms.cache.changed(&Change::Gap);
        }
        state.rings = None;
        state.is_flooded = false;
        state.outbox.restart(unsent);
        self.ask_again(&mut state);
        true
    }

    /// Asks a server that knows nothing of us for what the last one had been asked for.
    fn ask_again(&self, state: &mut State) {
        // A server that does not take a level logs what it likes.
        if let Some(level) = state.log_level.clone() {
            self.forget(state, &Method::SetLevel, &SetLevelParams::new(level));
        }
        let Resubscriptions { listens, uris } = state.subscribers.reopened();
        for (key, params) in listens {
            match self.open(state, &Method::Listen, &params, LISTEN, now()) {
                Ok((call, _)) => state.subscribers.listens(key, call),
                Err(_) => state.subscribers.give_up(|subscriber| subscriber == key),
            }
        }
        for (uri, keys) in uris {
            if !self.forget(state, &Method::ResourcesSubscribe, &SubscribeParams::new(uri)) {
                state.subscribers.give_up(|subscriber| keys.contains(&subscriber));
            }
        }
        state.wake_driver();
    }

    /// Has a new session: the server has forgotten everything. What was to be said in the old one is not said.
    pub(crate) fn renewed(&self, begin: impl FnOnce()) {
        let mut state = self.lock();
        begin();
        state.drop_outbox();
        self.terms.cache.changed(&Change::Gap);
        // It numbers its requests anew.
        state.peer.handle_forgotten();
        state.subscribers.cut();
        self.ask_again(&mut state);
    }

    /// The stream on which everything was to be answered has ended. The connection goes on.
    pub(crate) fn cut(&self, stream: u64, problem: String) {
        let ended = Arc::new(ConnectionEnd { cause: EndCause::Network(problem), ..ConnectionEnd::default() });
        self.lock().lose(stream, &ended);
        self.missed(None);
    }

    /// Changes may have been missed: by one who follows them, or by all.
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

    /// Cancels a request that nobody waits for.
    pub(crate) fn cancel(&self, state: &mut State, call: Option<Call>) {
        if call.is_some_and(|call| state.peer.cancel(call, NOT_WANTED)) {
            state.transmit(self.dialect());
            state.wake_driver();
        }
    }

    /// Answers a request of the server, unless it took it back.
    pub(crate) fn respond(&self, id: &Id, answer: std::result::Result<&dyn Lower, &ErrorObject>) {
        let mut state = self.lock();
        state.respond(self.dialect(), id, answer);
        state.wake_driver();
    }

    /// Lets the clocks go on that stood still while a person was asked.
    pub(crate) fn resume(&self, paused: &[Call]) {
        let mut state = self.lock();
        for call in paused {
            state.peer.resume(*call, now());
        }
        state.wake_driver();
    }

    /// Asks the driver to close the link. There will be no other.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closing = true;
        if state.ended.is_some() {
            state.end_feeds();
        }
        state.wake_driver();
    }

    /// How the connection ended, once it has.
    pub(crate) fn ended(&self) -> Option<Arc<ConnectionEnd>> {
        self.lock().ended.clone()
    }

    /// The link is gone: everything that waits is told.
    pub(crate) fn end(&self, ended: ConnectionEnd) {
        let mut state = self.lock();
        if state.ended.is_some() {
            return;
        }
        let is_over = state.closing || ended.cause == EndCause::Closed || !self.terms.transport.restarts();
        state.ended = Some(Arc::new(ended));
        state.peer.handle_closed();
        state.writer = None;
        state.outbox.clear();
        state.settle_events();
        if is_over {
            state.end_feeds();
        } else {
            state.subscribers.cut();
        }
        // It may not have been the driver who noticed.
        state.wake_driver();
    }

    /// The driver is dropped without having ended the connection: its runtime is gone, or it panicked.
    pub(crate) fn end_unfinished(&self) {
        let cause = if std::thread::panicking() { EndCause::Internal } else { EndCause::Closed };
        self.end(ConnectionEnd { cause, ..ConnectionEnd::default() });
    }

    /// What the process ended with, known after the link was gone.
    pub(crate) fn exited(&self, status: Option<ExitStatus>) {
        if let Some(ended) = &mut self.lock().ended
            && ended.status.is_none()
        {
            Arc::make_mut(ended).status = status;
        }
    }

    /// True if the server can be started again: it has ended, is to be, and was not closed.
    pub(crate) fn is_revivable(&self) -> bool {
        let state = self.lock();
        let is_ended = state.ended.as_ref().is_some_and(|ended| ended.cause != EndCause::Closed);
        self.terms.transport.restarts() && is_ended && !state.closing
    }
}
