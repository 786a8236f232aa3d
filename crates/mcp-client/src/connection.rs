//! One connection, shared by its driver and those who wait: what is in flight, what is to be written, who is woken.

pub(crate) mod alarm;
pub(crate) mod cache;
pub(crate) mod feed;
pub(crate) mod handlers;
pub(crate) mod inbound;
mod locked;
mod outbox;
pub(crate) mod progress;
mod request;
mod state;
pub(crate) mod subscribers;
pub(crate) mod transport;

use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mcp_protocol::dialect::{Lower, Lowering};
use mcp_protocol::errors::ErrorObject;
use mcp_protocol::logging::{LogLevel, SetLevelParams};
use mcp_protocol::messages::{Id, Method, write};
use mcp_protocol::meta::Meta;
use mcp_protocol::peer::{Call, Clocks, Refused};
use mcp_protocol::resources::SubscribeParams;
use mcp_protocol::subscriptions::ListenParams;
use mcp_protocol::{Dialect, Limits};

use crate::connection::cache::View;
use crate::connection::outbox::Framing;
use crate::connection::subscribers::{Change, LISTEN, Resubscriptions};
use crate::connection::transport::{Exchanges, OutgoingRequest, SubscriptionStream};
use crate::error::{ConnectionEnd, EndCause, Error, Result, Sent};

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

    /// Makes a request. Over a link it is queued, and leaves with whatever else is queued when the driver comes by.
    pub(crate) fn request(
        self: &Arc<Self>,
        method: &Method,
        params: &dyn Lower,
        options: RequestOptions,
    ) -> Result<Request> {
        self.request_with(method, params, options, |_, _| {})
    }

    /// Makes a request that is an exchange of its own. Nothing is sent before it is awaited.
    fn exchange(
        self: &Arc<Self>,
        exchanges: &Arc<dyn Exchanges>,
        method: &Method,
        params: &dyn Lower,
        options: RequestOptions,
        begun: impl FnOnce(&mut State, Call),
    ) -> Result<Request> {
        let opened = now();
        let call = {
            let mut state = self.lock();
            let call = self.reserve(&mut state, method, options.clocks, opened)?;
            let progress = options.progress.then(Box::default);
            let departure = state::Departure::Apart;
            let waiting =
                state::Waiting { departure, waker: None, settled: None, progress, asks: options.asks };
            state.waiting.push_back((call, waiting));
            begun(&mut state, call);
            state.ring();
            call
        };
        let mut request = Request {
            connection: Arc::clone(self),
            call,
            method: method.clone(),
            opened,
            is_settled: false,
            exchange: None,
        };
        let mut body = Vec::with_capacity(512);
        if let Err(error) = self.words(call, method, params, &mut body) {
            request.abandon();
            return Err(Error::Unsendable { method: method.clone(), problem: error.to_string() });
        }
        let clocks = options.clocks.idle.into_iter().chain(options.clocks.total);
        let deadline = clocks.min().and_then(|time| opened.checked_add(time));
        let connection = Arc::clone(self);
        let outgoing = OutgoingRequest { connection, call, method: method.clone(), body, deadline };
        request.exchange = Some(Arc::clone(exchanges).begin(outgoing));
        Ok(request)
    }

    /// The same, with something to be done before anybody else can see the request.
    pub(crate) fn request_with(
        self: &Arc<Self>,
        method: &Method,
        params: &dyn Lower,
        options: RequestOptions,
        opened: impl FnOnce(&mut State, Call),
    ) -> Result<Request> {
        if let Transport::Exchanges(exchanges) = &self.terms.transport {
            return self.exchange(exchanges, method, params, options, opened);
        }
        let opened_at = now();
        let mut state = self.lock();
        let (call, offset) = self.open(&mut state, method, params, options.clocks, opened_at)?;
        let progress = options.progress.then(Box::default);
        let departure = state::Departure::After(offset);
        let waiting = state::Waiting { departure, waker: None, settled: None, progress, asks: options.asks };
        state.waiting.push_back((call, waiting));
        opened(&mut state, call);
        Ok(Request {
            connection: Arc::clone(self),
            call,
            method: method.clone(),
            opened: opened_at,
            is_settled: false,
            exchange: None,
        })
    }

    /// Lets a stream go on that was acknowledged, for as long as somebody follows it.
    pub(crate) fn keep(self: &Arc<Self>, request: Request, key: u64, params: ListenParams) {
        match &self.terms.transport {
            Transport::Stream { .. } => request.release(),
            Transport::Exchanges(exchanges) => {
                let stream = SubscriptionStream { connection: Arc::clone(self), request, key, params };
                let reader = tokio::spawn(Arc::clone(exchanges).keep_listening(stream));
                self.lock().subscribers.set_reader(key, reader.abort_handle());
            }
        }
    }

    /// Queues a request whose response nobody waits for. False if the connection is lost or busy.
    pub(crate) fn forget(&self, state: &mut State, method: &Method, params: &dyn Lower) -> bool {
        self.open(state, method, params, Clocks::default().idle(FORGOTTEN), now()).is_ok()
    }

    /// Reserves an id, starts the clocks and writes the request. Gives what was queued before it, too.
    fn open(
        &self,
        state: &mut State,
        method: &Method,
        params: &dyn Lower,
        clocks: Clocks,
        now: Instant,
    ) -> Result<(Call, u64)> {
        if state.outbox.bytes().len() > self.terms.limits.message {
            return Err(Error::Busy(state.peer.calls_in_flight()));
        }
        let call = self.reserve(state, method, clocks, now)?;
        let offset = state.outbox.queued();
        if let Err(error) = state.outbox.push(Some(call), |out| self.words(call, method, params, out)) {
            // Nobody knows of it, so nobody is told.
            state.peer.handle_lost(call);
            return Err(Error::Unsendable { method: method.clone(), problem: error.to_string() });
        }
        state.leave();
        Ok((call, offset))
    }

    fn reserve(&self, state: &mut State, method: &Method, clocks: Clocks, now: Instant) -> Result<Call> {
        match state.peer.open(method, clocks, now) {
            Ok(call) => Ok(call),
            Err(Refused::Closed) => Err(state.lost(method, Sent::No)),
            Err(_) => Err(Error::Busy(state.peer.calls_in_flight())),
        }
    }

    /// Puts a request into words.
    fn words(
        &self,
        call: Call,
        method: &Method,
        params: &dyn Lower,
        out: &mut Vec<u8>,
    ) -> std::result::Result<(), serde_json::Error> {
        let ConnectionTerms { dialect, envelope, .. } = &self.terms;
        let token = call.progress_token();
        let mut lowering = Lowering::to(*dialect).with_progress_token(&token);
        if let Some(envelope) = envelope {
            lowering = lowering.with_meta(envelope);
        }
        write::request(out, &call.id(), method, &lowering.root(params))
    }

    /// Queues a notification.
    pub(crate) fn notify(&self, method: &Method, params: &dyn Lower) -> Result<()> {
        let mut state = self.lock();
        if state.ended.is_some() {
            return Err(state.lost(method, Sent::No));
        }
        let view = self.dialect().lower(params);
        state
            .outbox
            .push(None, |out| write::notification(out, method, Some(&view)))
            .map_err(|error| Error::Unsendable { method: method.clone(), problem: error.to_string() })?;
        state.wake_driver();
        Ok(())
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
