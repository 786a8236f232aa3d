//! One connection, shared by its driver and those who wait: what is in flight, what is to be written, who is woken.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use mcp_protocol::dialect::{Lower, Lowering};
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::logging::{LogLevel, LogMessageParams, SetLevelParams};
use mcp_protocol::messages::{CancelledParams, Id, KeptBody, Method, ProgressParams, write};
use mcp_protocol::meta::Meta;
use mcp_protocol::peer::{Call, Clocks, Event, Peer, Reason, Refused, Transmit};
use mcp_protocol::resources::SubscribeParams;
use mcp_protocol::subscriptions::SubscriptionFilter;
use mcp_protocol::{Dialect, Limits};
use tokio::io::AsyncWrite;
use tokio::sync::broadcast;

use crate::error::{EndCause, Ended, Error, Result, Sent};
use crate::subscription::{Again, Hub, LISTEN};

/// What a server is told of a request that was dropped.
const NOT_WANTED: &str = "no longer wanted";

/// Progress that may wait for its reader.
const PROGRESS: usize = 16;

/// The most bytes of what a step of progress says.
const MESSAGE: usize = 16 << 10;

/// Log messages that a reader may be behind.
const LOGS: usize = 256;

/// The time, as the drivers of this crate see it.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// What a connection is, from the moment it is usable. It outlives its link if the server is started again.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) agreed: Agreed,
    state: Mutex<State>,
}

/// What stays as it is for as long as there is a connection.
#[derive(Debug)]
pub(crate) struct Agreed {
    /// What to call the server when somebody is asked something.
    pub(crate) server: String,
    pub(crate) dialect: Dialect,
    /// What every request carries in the modern era.
    pub(crate) envelope: Option<Meta>,
    pub(crate) limits: Limits,
    /// A server that ends is started again.
    pub(crate) restarts: bool,
}

pub(crate) struct State {
    pub(crate) peer: Peer,
    /// Where lines go, unless the driver is busy with that.
    writer: Option<Writer>,
    /// False if it may hold something back.
    is_flushed: bool,
    /// Lines that were not handed to the driver yet.
    outbox: Vec<u8>,
    /// How many bytes were put into the outbox, and how many the link took, since the beginning.
    queued: u64,
    written: u64,
    /// Sorted, because calls only grow. Most are settled in the order they were made.
    waiting: VecDeque<(Call, Waiting)>,
    pub(crate) hub: Hub,
    /// The level that a server keeps for the whole connection, to be set again after a new start.
    pub(crate) log_level: Option<LogLevel>,
    /// What the server logs; `None` when there will be no more.
    logs: Option<broadcast::Sender<Arc<LogMessageParams>>>,
    driver: Option<Waker>,
    /// Who is woken when the lock is let go.
    wakes: Option<Waker>,
    /// When the driver looks at the time next.
    rings: Option<Instant>,
    /// Something is there that the driver has not looked at: lines, an earlier deadline, the wish to close.
    is_changed: bool,
    is_flooded: bool,
    /// Set once: the driver is to close the link.
    closing: bool,
    /// How the link ended, until there is a new one.
    ended: Option<Arc<Ended>>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("peer", &self.peer).field("ended", &self.ended).finish_non_exhaustive()
    }
}

/// The state, which nobody else can see meanwhile. The last who is to be woken is when it is let go, and finds no lock in
/// the way; of many at once, the others would have to wait for their thread anyway.
pub(crate) struct Locked<'a> {
    // Let go before anybody is woken: fields are dropped in this order.
    state: MutexGuard<'a, State>,
    wakes: Wake,
}

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.wakes.0 = self.state.wakes.take();
    }
}

/// Somebody who is woken when this is dropped.
struct Wake(Option<Waker>);

impl Drop for Wake {
    fn drop(&mut self) {
        if let Some(waker) = self.0.take() {
            waker.wake();
        }
    }
}

pub(crate) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// Somebody who waits for a response.
#[derive(Debug)]
struct Waiting {
    /// What was queued before the request.
    offset: u64,
    waker: Option<Waker>,
    settled: Option<Settled>,
    progress: Option<Box<ProgressQueue>>,
    /// Whether its clocks stand still while a person is asked.
    asks: bool,
}

#[derive(Debug)]
enum Settled {
    Response(std::result::Result<KeptBody, Box<ErrorObject>>),
    Broken,
    TimedOut(Reason),
    Lost(Sent, Arc<Ended>),
}

/// One step of progress of a call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// How far it is.
    pub progress: f64,
    /// How far it will be in the end, if that is known.
    pub total: Option<f64>,
    /// What is being done, for people. Untrusted.
    pub message: Option<String>,
    /// How many steps before this one were left out because they were not read in time.
    pub gap: u64,
}

/// Progress that waits for its reader: the newest steps, and how many were left out.
#[derive(Debug, Default)]
pub(crate) struct ProgressQueue {
    steps: VecDeque<Progress>,
}

impl From<ProgressParams> for Progress {
    fn from(params: ProgressParams) -> Self {
        let ProgressParams { progress, total, mut message, .. } = params;
        if let Some(message) = message.as_mut().filter(|message| message.len() > MESSAGE) {
            let end = (0..=MESSAGE).rev().find(|at| message.is_char_boundary(*at));
            message.truncate(end.unwrap_or(0));
        }
        Self { progress, total, message, gap: 0 }
    }
}

impl ProgressQueue {
    pub(crate) fn pop(&mut self) -> Option<Progress> {
        self.steps.pop_front()
    }

    pub(crate) fn push(&mut self, mut step: Progress) {
        // The newest are kept.
        if self.steps.len() == PROGRESS
            && let Some(oldest) = self.steps.pop_front()
        {
            let gap = oldest.gap + 1;
            match self.steps.front_mut() {
                Some(next) => next.gap += gap,
                None => step.gap += gap,
            }
        }
        self.steps.push_back(step);
    }
}

/// How a request is made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manner {
    pub(crate) clocks: Clocks,
    /// Progress is kept for the one who waits.
    pub(crate) progress: bool,
    /// The server may ask a person before it answers.
    pub(crate) asks: bool,
}

impl Connection {
    /// With the level to ask a server for that keeps one for the whole connection.
    pub(crate) fn new(agreed: Agreed, log_level: Option<LogLevel>) -> Self {
        Self {
            state: Mutex::new(State {
                peer: Peer::client(agreed.limits.clone()),
                writer: None,
                is_flushed: true,
                queued: 0,
                outbox: Vec::new(),
                written: 0,
                waiting: VecDeque::new(),
                hub: Hub::default(),
                log_level,
                logs: Some(broadcast::channel(LOGS).0),
                driver: None,
                wakes: None,
                rings: None,
                is_changed: false,
                is_flooded: false,
                closing: false,
                ended: None,
            }),
            agreed,
        }
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
        }
        state.rings = None;
        state.is_flooded = false;
        // Nothing of an earlier link is left to be written.
        state.written = state.queued;
        state.queued += unsent.len() as u64;
        state.outbox = unsent;
        // A server that does not take a level logs what it likes.
        if let Some(level) = state.log_level.clone() {
            self.forget(&mut state, &Method::SetLevel, &SetLevelParams::new(level));
        }
        let Again { listens, uris } = state.hub.reopened();
        for (key, params) in listens {
            match self.open(&mut state, &Method::Listen, &params, LISTEN, now()) {
                Ok((call, _)) => state.hub.listens(key, call),
                Err(_) => state.hub.give_up(|follower| follower == key),
            }
        }
        for (uri, keys) in uris {
            if !self.forget(&mut state, &Method::ResourcesSubscribe, &SubscribeParams::new(uri)) {
                state.hub.give_up(|follower| keys.contains(&follower));
            }
        }
        state.wake_driver();
        true
    }

    pub(crate) fn lock(&self) -> Locked<'_> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Locked { state, wakes: Wake(None) }
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.agreed.dialect
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.agreed.limits
    }

    /// Queues a request. It leaves with whatever else is queued when the driver comes by.
    pub(crate) fn request(
        self: &Arc<Self>,
        method: &Method,
        params: &dyn Lower,
        manner: Manner,
    ) -> Result<Request> {
        self.request_with(method, params, manner, |_, _| {})
    }

    /// The same, with something to be done before anybody else can see the request.
    pub(crate) fn request_with(
        self: &Arc<Self>,
        method: &Method,
        params: &dyn Lower,
        manner: Manner,
        opened: impl FnOnce(&mut State, Call),
    ) -> Result<Request> {
        let opened_at = now();
        let mut state = self.lock();
        let (call, offset) = self.open(&mut state, method, params, manner.clocks, opened_at)?;
        let progress = manner.progress.then(Box::default);
        let waiting = Waiting { offset, waker: None, settled: None, progress, asks: manner.asks };
        state.waiting.push_back((call, waiting));
        opened(&mut state, call);
        Ok(Request {
            connection: Arc::clone(self),
            call,
            method: method.clone(),
            opened: opened_at,
            is_settled: false,
        })
    }

    /// Queues a request whose response nobody waits for. False if the connection is lost or busy.
    pub(crate) fn forget(&self, state: &mut State, method: &Method, params: &dyn Lower) -> bool {
        self.open(state, method, params, Clocks::default(), now()).is_ok()
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
        let Agreed { dialect, envelope, limits, .. } = &self.agreed;
        if state.outbox.len() > limits.message {
            return Err(Error::Busy(state.peer.calls_in_flight()));
        }
        let call = match state.peer.open(method, clocks, now) {
            Ok(call) => call,
            Err(Refused::Closed) => return Err(state.lost(method, Sent::No)),
            Err(_) => return Err(Error::Busy(state.peer.calls_in_flight())),
        };
        let token = call.progress_token();
        let mut lowering = Lowering::to(*dialect).with_progress_token(&token);
        if let Some(envelope) = envelope {
            lowering = lowering.with_meta(envelope);
        }
        let offset = state.queued;
        let view = lowering.root(params);
        if let Err(error) = state.line(|out| write::request(out, &call.id(), method, &view)) {
            state.peer.cancel(call, "it was never sent");
            // Nobody knows of it, so nobody is told.
            while state.peer.poll_transmit().is_some() {}
            return Err(Error::Unsendable { method: method.clone(), problem: error.to_string() });
        }
        state.leave();
        Ok((call, offset))
    }

    /// Queues a notification.
    pub(crate) fn notify(&self, method: &Method, params: &dyn Lower) -> Result<()> {
        let mut state = self.lock();
        if state.ended.is_some() {
            return Err(state.lost(method, Sent::No));
        }
        let view = self.dialect().lower(params);
        state
            .line(|out| write::notification(out, method, Some(&view)))
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
    pub(crate) fn ended(&self) -> Option<Arc<Ended>> {
        self.lock().ended.clone()
    }

    /// The link is gone: everything that waits is told.
    pub(crate) fn end(&self, ended: Ended) {
        let mut state = self.lock();
        if state.ended.is_some() {
            return;
        }
        let is_over = state.closing || ended.cause == EndCause::Closed || !self.agreed.restarts;
        state.ended = Some(Arc::new(ended));
        state.peer.handle_closed();
        state.writer = None;
        state.outbox = Vec::new();
        state.settle_events();
        if is_over {
            state.end_feeds();
        } else {
            state.hub.cut();
        }
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
        self.agreed.restarts && is_ended && !state.closing
    }
}

impl State {
    fn line(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> std::result::Result<(), serde_json::Error>,
    ) -> std::result::Result<(), serde_json::Error> {
        let before = self.outbox.len();
        write(&mut self.outbox)?;
        self.outbox.push(b'\n');
        self.queued += (self.outbox.len() - before) as u64;
        Ok(())
    }

    /// Has a request leave. If nobody else waits, it is written by whoever makes it, which spares a change of hands;
    /// otherwise it is left to the driver, who writes all that was made meanwhile at once.
    fn leave(&mut self) {
        if !(self.waiting.is_empty() && self.write_at_once()) {
            return self.wake_driver();
        }
        let due = self.peer.poll_timeout().map(|(instant, _)| instant);
        if due.is_some_and(|due| self.rings.is_none_or(|rings| due < rings)) {
            self.wake_driver();
        }
    }

    /// Writes what is queued, as far as the link takes it without waiting. True if nothing is left to be done.
    fn write_at_once(&mut self) -> bool {
        let Some(writer) = &mut self.writer else { return false };
        // Nobody is woken: what is left is the driver's, who asks again.
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(Ok(count)) = Pin::new(&mut *writer).poll_write(&mut cx, &self.outbox) else {
            return false;
        };
        self.written += count as u64;
        if count < self.outbox.len() {
            self.outbox.drain(..count);
            return false;
        }
        self.outbox.clear();
        self.is_flushed = matches!(Pin::new(writer).poll_flush(&mut cx), Poll::Ready(Ok(())));
        self.is_flushed
    }

    /// Whoever follows what the server tells unasked learns that there will be no more.
    fn end_feeds(&mut self) {
        self.hub.end();
        self.logs = None;
    }

    /// Answers a request of the server, unless it took it back.
    pub(crate) fn respond(
        &mut self,
        dialect: Dialect,
        id: &Id,
        answer: std::result::Result<&dyn Lower, &ErrorObject>,
    ) {
        if !self.peer.respond(id) {
            return;
        }
        // Calls stop at one message that waits; more than that are answers to a server that does not read.
        let most = self.peer.limits().message as u64 * 3;
        if self.queued - self.written > most {
            self.is_flooded = true;
            return;
        }
        let problem = match answer {
            Ok(result) => self.line(|out| write::response(out, id, &dialect.lower(result))).err(),
            Err(error) => {
                self.line(|out| write::error(out, Some(id), dialect.no_id(), &dialect.lower(error))).err()
            }
        };
        if let Some(problem) = problem {
            // What the handler said cannot be said in this revision; the server must not wait for ever.
            let error = ErrorObject::new(ErrorCode::InternalError, problem.to_string());
            let _ = self.line(|out| write::error(out, Some(id), dialect.no_id(), &dialect.lower(&error)));
        }
    }

    /// Stops the clocks of everything that may wait for a person, and tells of what.
    pub(crate) fn pause(&mut self, cap: Duration) -> Vec<Call> {
        let Self { peer, waiting, .. } = self;
        let asking = waiting.iter().filter(|(_, waiting)| waiting.asks).map(|(call, _)| *call);
        asking.filter(|call| peer.pause(*call, cap, now())).collect()
    }

    /// True if the server made us say more than it reads.
    pub(crate) fn is_flooded(&self) -> bool {
        self.is_flooded
    }

    /// Follows changes of a legacy connection, if it has not ended.
    pub(crate) fn follow(&mut self, filter: SubscriptionFilter, method: &Method) -> Result<u64> {
        match &self.ended {
            Some(_) => Err(self.lost(method, Sent::No)),
            None => Ok(self.hub.add(filter, None)),
        }
    }

    fn wake(&mut self, waker: Option<Waker>) {
        if let Some(waker) = waker
            && let Some(earlier) = self.wakes.replace(waker)
        {
            earlier.wake();
        }
    }

    pub(crate) fn wake_driver(&mut self) {
        self.is_changed = true;
        let driver = self.driver.take();
        self.wake(driver);
    }

    fn lost(&self, method: &Method, sent: Sent) -> Error {
        Error::Lost { method: method.clone(), sent, ended: self.ended.clone().unwrap_or_default() }
    }

    /// Where lines go, for as long as the driver writes, and whether nothing is held back there.
    pub(crate) fn take_writer(&mut self) -> (Option<Writer>, bool) {
        (self.writer.take(), std::mem::replace(&mut self.is_flushed, true))
    }

    pub(crate) fn give_writer(&mut self, writer: Option<Writer>) {
        if self.ended.is_none() && writer.is_some() {
            self.writer = writer;
        }
    }

    /// When the driver looks at the time next.
    pub(crate) fn rings(&mut self, at: Option<Instant>) {
        self.rings = at;
    }

    /// What the driver is to write next.
    pub(crate) fn take_outbox(&mut self, dialect: Dialect, into: &mut Vec<u8>) {
        self.transmit(dialect);
        std::mem::swap(&mut self.outbox, into);
    }

    /// Queues what the machine wants sent.
    fn transmit(&mut self, dialect: Dialect) {
        while let Some(transmit) = self.peer.poll_transmit() {
            // A cancellation or refusal can always be written.
            let _ = match transmit {
                Transmit::Cancelled { id, reason } => {
                    let params = CancelledParams::new(id).reason(reason);
                    self.line(|out| {
                        write::notification(out, &Method::Cancelled, Some(&dialect.lower(&params)))
                    })
                }
                Transmit::Error { id, error } => {
                    self.line(|out| write::error(out, id.as_ref(), dialect.no_id(), &dialect.lower(&error)))
                }
                _ => Ok(()),
            };
        }
    }

    /// True if something changed since the driver last looked; otherwise it is woken when something does.
    pub(crate) fn poll_changed(&mut self, cx: &Context<'_>) -> bool {
        if self.is_changed {
            return true;
        }
        match &mut self.driver {
            Some(waker) => waker.clone_from(cx.waker()),
            None => self.driver = Some(cx.waker().clone()),
        }
        false
    }

    /// The driver looks at everything.
    pub(crate) fn look(&mut self) {
        self.is_changed = false;
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    pub(crate) fn wrote(&mut self, count: usize) {
        self.written += count as u64;
    }

    /// A response came.
    pub(crate) fn settle(&mut self, call: Call, response: std::result::Result<KeptBody, ErrorObject>) {
        self.settle_with(call, Settled::Response(response.map_err(Box::new)));
    }

    /// A response came that cannot be read.
    pub(crate) fn settle_broken(&mut self, call: Call) {
        self.settle_with(call, Settled::Broken);
    }

    /// Tells of calls that ended without a message.
    pub(crate) fn settle_events(&mut self) {
        let written = self.written;
        while let Some(event) = self.peer.poll_event() {
            match event {
                Event::TimedOut(call, reason) => self.settle_with(call, Settled::TimedOut(reason)),
                Event::Lost(call) => {
                    let is_sent = self.waiting(call).is_some_and(|waiting| waiting.offset < written);
                    let sent = if is_sent { Sent::Maybe } else { Sent::No };
                    self.settle_with(call, Settled::Lost(sent, self.ended.clone().unwrap_or_default()));
                }
                _ => {}
            }
        }
    }

    /// What the server logs from now on; nothing if it is gone.
    pub(crate) fn log_messages(&self) -> broadcast::Receiver<Arc<LogMessageParams>> {
        match &self.logs {
            Some(logs) => logs.subscribe(),
            None => broadcast::channel(1).1,
        }
    }

    /// The server logs something.
    pub(crate) fn logged(&self, message: impl FnOnce() -> Option<LogMessageParams>) {
        if let Some(logs) = self.logs.as_ref().filter(|logs| logs.receiver_count() > 0)
            && let Some(message) = message()
        {
            let _ = logs.send(Arc::new(message));
        }
    }

    /// Keeps progress for the one who waits.
    pub(crate) fn progressed(&mut self, call: Call, params: ProgressParams) {
        if let Some(waiting) = self.waiting(call)
            && let Some(progress) = &mut waiting.progress
        {
            progress.push(params.into());
            let waker = waiting.waker.take();
            self.wake(waker);
        }
    }

    fn waiting(&mut self, call: Call) -> Option<&mut Waiting> {
        let at = self.waiting.binary_search_by_key(&call, |(call, _)| *call).ok()?;
        self.waiting.get_mut(at).map(|(_, waiting)| waiting)
    }

    fn stop_waiting(&mut self, call: Call) {
        if let Ok(at) = self.waiting.binary_search_by_key(&call, |(call, _)| *call) {
            self.waiting.remove(at);
        }
    }

    fn settle_with(&mut self, call: Call, settled: Settled) {
        // What followed a link that is gone may follow the next one.
        if !matches!(settled, Settled::Lost(..)) {
            self.hub.settled(call);
        }
        // Nobody may wait for it any more.
        let Some(waiting) = self.waiting(call) else { return };
        waiting.settled = Some(settled);
        let waker = waiting.waker.take();
        self.wake(waker);
    }
}

/// A request in flight. Dropped before it is settled, it is cancelled on the server.
#[derive(Debug)]
pub(crate) struct Request {
    connection: Arc<Connection>,
    call: Call,
    method: Method,
    opened: Instant,
    is_settled: bool,
}

impl Request {
    /// Nobody waits for it any more, and it goes on.
    pub(crate) fn release(mut self) {
        self.is_settled = true;
        self.connection.lock().stop_waiting(self.call);
    }

    /// When it was made.
    pub(crate) fn opened(&self) -> Instant {
        self.opened
    }

    /// The next step of progress, or how it ended: the body of the result.
    pub(crate) fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        let mut state = self.connection.lock();
        let Some(waiting) = state.waiting(self.call) else {
            // Settled before; a future must not be polled again.
            return Poll::Pending;
        };
        if let Some(step) = waiting.progress.as_mut().and_then(|progress| progress.pop()) {
            return Poll::Ready(Step::Progress(step));
        }
        let Some(settled) = waiting.settled.take() else {
            match &mut waiting.waker {
                Some(waker) => waker.clone_from(cx.waker()),
                None => waiting.waker = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        };
        state.stop_waiting(self.call);
        self.is_settled = true;
        let method = self.method.clone();
        Poll::Ready(Step::Done(match settled {
            Settled::Response(Ok(body)) => Ok(body),
            Settled::Response(Err(source)) => Err(Error::Refused { method, source: *source }),
            Settled::Broken => {
                Err(Error::Unreadable { method, problem: "it is no valid message".to_owned() })
            }
            Settled::TimedOut(reason) => {
                Err(Error::TimedOut { method, reason, after: now().saturating_duration_since(self.opened) })
            }
            Settled::Lost(sent, ended) => Err(Error::Lost { method, sent, ended }),
        }))
    }
}

/// What comes of a request.
#[derive(Debug)]
pub(crate) enum Step {
    Progress(Progress),
    Done(Result<KeptBody>),
}

impl Future for Request {
    type Output = Result<KeptBody>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match self.poll_step(cx) {
                Poll::Ready(Step::Done(outcome)) => return Poll::Ready(outcome),
                Poll::Ready(Step::Progress(_)) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if self.is_settled {
            return;
        }
        let mut state = self.connection.lock();
        state.stop_waiting(self.call);
        self.connection.cancel(&mut state, Some(self.call));
    }
}
