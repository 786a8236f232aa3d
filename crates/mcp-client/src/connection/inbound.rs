//! What comes from the server: whose it is, and who is told.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use mcp_protocol::Dialect;
use mcp_protocol::codec::line::{Line, Lines};
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::input::{Ask, InputRequest, InputResponse};
use mcp_protocol::messages::{
    Body, EmptyResult, Id, Incoming, KeptBody, Message, Method, Notification, Request, Response, parse_bytes,
};
use mcp_protocol::peer::{Arrival, Call, Ignored};
use mcp_protocol::resources::ResourceUpdatedParams;
use mcp_protocol::subscriptions::AcknowledgedParams;
use mcp_protocol::visible::Visible;
use tokio::task::{AbortHandle, JoinSet};

use crate::connection::handlers::Handlers;
use crate::connection::subscribers::Change;
use crate::connection::transport::Mask;
use crate::connection::{Connection, State, now};
use crate::error::EndCause;

/// Requests of the server that may wait for an answer of the host.
const ASKED: usize = 16;
/// Requests in a second for what the server may not ask that are answered; more are dropped.
const REFUSED_A_SECOND: u32 = 100;
/// How many may be dropped before the server is left.
const DROPPED: u32 = 1000;

/// The most bytes of a log message. Some of them wait for their reader.
const LOGGED: usize = 256 << 10;

/// A handler that runs.
#[derive(Debug)]
struct RunningHandler {
    /// The request of the server.
    id: Id,
    handle: AbortHandle,
    /// Calls whose clocks stand still for it.
    paused: Vec<Call>,
}

/// Takes in what comes, and keeps the host's handlers that run.
#[derive(Debug)]
pub(crate) struct Inbound {
    handlers: Arc<Handlers>,
    running: JoinSet<Result<InputResponse, ErrorObject>>,
    asked: HashMap<tokio::task::Id, RunningHandler>,
    refusals: Refusals,
    /// Hides secrets in what is logged of a server.
    mask: Option<Box<dyn Mask>>,
    has_warned: bool,
}

/// Bounds what a server can make us say no to.
#[derive(Debug)]
struct Refusals {
    since: Instant,
    count: u32,
    dropped: u32,
}

impl Refusals {
    /// True if one more may be answered.
    fn allows(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= Duration::from_secs(1) {
            (self.since, self.count) = (now, 0);
        }
        self.count += 1;
        if self.count > REFUSED_A_SECOND {
            self.dropped += 1;
        }
        self.count <= REFUSED_A_SECOND
    }

    fn is_flood(&self) -> bool {
        self.dropped > DROPPED
    }
}

impl Inbound {
    /// Without a mask, text that is not a message is never logged, because nobody could hide the secrets in it.
    pub(crate) fn new(handlers: Arc<Handlers>, mask: Option<Box<dyn Mask>>) -> Self {
        let refusals = Refusals { since: now(), count: 0, dropped: 0 };
        let running = JoinSet::new();
        Self { handlers, running, asked: HashMap::new(), refusals, mask, has_warned: false }
    }

    /// Takes in the lines that are complete. Says when the connection cannot go on.
    pub(crate) fn lines(
        &mut self,
        connection: &Connection,
        lines: &mut Lines,
        now: Instant,
    ) -> Option<EndCause> {
        // One lock for all that came at once.
        let mut state = connection.lock();
        while let Some(line) = lines.poll_line() {
            match line {
                Line::Whole(line) => self.whole_line(connection, &mut state, line, now),
                Line::TooLong(error) => unreadable(&mut state, &error),
                Line::Endless => return Some(EndCause::EndlessLine),
            }
        }
        (self.refusals.is_flood() || state.is_flooded()).then_some(EndCause::Flood)
    }

    pub(crate) fn line(&mut self, connection: &Connection, line: &[u8], now: Instant) {
        self.whole_line(connection, &mut connection.lock(), line, now);
    }

    /// Takes in what is too long to be a message: nobody waits for it in vain.
    pub(crate) fn too_long(&self, connection: &Connection, error: &mcp_protocol::errors::DecodeError) {
        unreadable(&mut connection.lock(), error);
    }

    /// What stands behind the last newline when the server ends.
    pub(crate) fn rest(&mut self, connection: &Connection, lines: &Lines, now: Instant) {
        if !lines.rest().is_empty() {
            self.line(connection, lines.rest(), now);
        }
    }

    /// True if the server asks without end for what it may not ask.
    pub(crate) fn is_flood(&self) -> bool {
        self.refusals.is_flood()
    }

    /// Drops the handlers that run.
    pub(crate) fn stop(&mut self) {
        self.running.abort_all();
    }

    /// The server has forgotten what it asked: nobody is told what handlers that run would answer.
    pub(crate) fn forget(&mut self, connection: &Connection) {
        self.running.abort_all();
        for (_, asked) in self.asked.drain() {
            connection.resume(&asked.paused);
        }
    }

    /// True if the host is asked for something.
    pub(crate) fn is_asked(&self) -> bool {
        !self.running.is_empty()
    }

    /// Waits for a handler of the host, and sends what it answered.
    ///
    /// # Cancellation
    /// Safe.
    pub(crate) async fn answered(&mut self, connection: &Connection) {
        std::future::poll_fn(|cx| self.poll_answered(connection, cx)).await;
    }

    pub(crate) fn poll_answered(&mut self, connection: &Connection, cx: &mut Context<'_>) -> Poll<()> {
        let Some(ended) = ready!(self.running.poll_join_next_with_id(cx)) else { return Poll::Ready(()) };
        let (task, answer) = match ended {
            Ok((task, answer)) => (task, Some(answer)),
            Err(error) => (error.id(), None),
        };
        let Some(RunningHandler { id, paused, .. }) = self.asked.remove(&task) else {
            return Poll::Ready(());
        };
        connection.resume(&paused);
        match answer {
            Some(Ok(response)) => connection.respond(&id, Ok(&response)),
            Some(Err(error)) => connection.respond(&id, Err(&error)),
            // It panicked, or the server took its request back, which then is not answered.
            None => {
                let error = ErrorObject::new(ErrorCode::InternalError, "the client failed to answer");
                connection.respond(&id, Err(&error));
            }
        }
        Poll::Ready(())
    }

    fn whole_line(&mut self, connection: &Connection, state: &mut State, line: &[u8], now: Instant) {
        match parse_bytes(line, connection.limits()) {
            Ok(incoming) => self.incoming(connection, state, &incoming, now),
            Err(error) => {
                unreadable(state, &error);
                self.warn(connection, line);
            }
        }
    }

    /// Takes in one message, or a batch of them.
    pub(crate) fn incoming(
        &mut self,
        connection: &Connection,
        state: &mut State,
        incoming: &Incoming<'_>,
        now: Instant,
    ) {
        match incoming {
            Incoming::Message(message) => self.message(connection, state, message, now),
            Incoming::Batch(batch) => {
                for message in batch.messages() {
                    match message {
                        Ok(message) => self.message(connection, state, &message, now),
                        Err(error) => unreadable(state, &error),
                    }
                }
            }
        }
    }

    /// Warns of the first line that is no message: a program that writes its log to standard output does it all the time.
    fn warn(&mut self, connection: &Connection, line: &[u8]) {
        let Some(mask) = &self.mask else { return };
        if !std::mem::replace(&mut self.has_warned, true) {
            let text = String::from_utf8_lossy(&line[..line.len().min(1 << 10)]);
            let masked = mask.mask(&text);
            let sample = Visible::name(&masked);
            let server = Visible::name(&connection.terms.server);
            tracing::warn!(%server, %sample, "the server wrote a line that is not a JSON-RPC message");
        }
    }

    fn message(&mut self, connection: &Connection, state: &mut State, message: &Message<'_>, now: Instant) {
        let arrival = state.peer.handle_message(message, now);
        match (arrival, message) {
            (Arrival::Response(call), Message::Response(Response { outcome, .. })) => {
                state.settle(call, outcome.as_ref().map(Body::keep).map_err(Clone::clone));
            }
            (Arrival::Request, Message::Request(request)) => self.request(connection, state, request, now),
            (Arrival::Cancelled(id), _) => {
                // Its id is taken until it has ended.
                if let Some(asked) = self.asked.values().find(|asked| asked.id == id) {
                    asked.handle.abort();
                }
            }
            (Arrival::Progress(call), Message::Notification(notification)) => {
                if let Ok(params) = connection.dialect().raise(&notification.params) {
                    state.progressed(call, params);
                }
            }
            // It may not even have been acknowledged.
            (Arrival::Ended(call), _) => state.settle(call, Ok(KeptBody::default())),
            (Arrival::Notification, Message::Notification(notification)) => {
                notified(connection, state, notification);
            }
            // The refusal is to be sent.
            (Arrival::Ignored(Ignored::Refused), _) => state.wake_driver(),
            (Arrival::Ignored(why), _) => tracing::debug!(?why, "ignored message"),
            _ => {}
        }
    }

    fn request(&mut self, connection: &Connection, state: &mut State, request: &Request<'_>, now: Instant) {
        let dialect = connection.dialect();
        let has = dialect.has(&request.method, mcp_protocol::dialect::Direction::ToClient);
        if has && request.method == Method::Ping {
            return state.respond(dialect, &request.id, Ok(&EmptyResult::new()));
        }
        let refusal = if !has {
            ErrorObject::new(
                ErrorCode::MethodNotFound,
                format!("clients do not implement `{}`", shown(&request.method)),
            )
        } else if !self.handlers.offers(&request.method) {
            ErrorObject::new(
                ErrorCode::MethodNotFound,
                format!("this client does not support `{}`", shown(&request.method)),
            )
        } else if self.running.len() >= ASKED {
            ErrorObject::new(ErrorCode::InternalError, "too many requests from the server at once")
        } else {
            match ask(request, dialect) {
                Ok(ask) => return self.ask(connection, state, request.id.clone(), ask),
                Err(problem) => ErrorObject::new(ErrorCode::InvalidParams, problem),
            }
        };
        if self.refusals.allows(now) {
            state.respond(dialect, &request.id, Err(&refusal));
        } else {
            state.peer.respond(&request.id);
        }
    }

    fn ask(&mut self, connection: &Connection, state: &mut State, id: Id, ask: Ask) {
        let handlers = Arc::clone(&self.handlers);
        let server = connection.terms.server.clone();
        // The clocks stand still until there is an answer, which has a time of its own. Roots are nobody's to think about.
        let asks_somebody = !matches!(ask, Ask::ListRoots(_));
        let paused = if asks_somebody { state.pause(handlers.time()) } else { Vec::new() };
        let handle = self.running.spawn(async move { handlers.answer_in_time(server, ask).await });
        self.asked.insert(handle.id(), RunningHandler { id, handle, paused });
        // It waits for the answer, and may not be the one who reads.
        state.wake_driver();
    }
}

/// A method in a refusal: a server may name anything.
fn shown(method: &Method) -> String {
    Visible::new(method.as_str()).at_most(64).to_string()
}

fn unreadable(state: &mut State, error: &mcp_protocol::errors::DecodeError) {
    tracing::debug!(%error, "ignored a line that is not a JSON-RPC message");
    match state.peer.handle_unreadable(error) {
        Arrival::BrokenResponse(call) => state.settle_broken(call, error.to_string()),
        // A request that cannot be read is refused.
        _ => state.wake_driver(),
    }
}

/// What the server asks, as the modern era would.
fn ask(request: &Request<'_>, dialect: Dialect) -> Result<Ask, String> {
    let text = |error: mcp_protocol::errors::BodyError| error.to_string();
    let body = &request.params;
    Ok(match request.method {
        Method::Elicit => Ask::Elicit(dialect.raise(body).map_err(text)?),
        Method::CreateMessage => Ask::CreateMessage(Box::new(dialect.raise(body).map_err(text)?)),
        _ => InputRequest::list_roots().ask,
    })
}

fn notified(connection: &Connection, state: &mut State, notification: &Notification<'_>) {
    let dialect = connection.dialect();
    let subscription = || notification.params.meta().ok().flatten().and_then(|meta| meta.subscription_id);
    let change = match notification.method {
        Method::ToolsChanged => Change::Tools,
        Method::PromptsChanged => Change::Prompts,
        Method::ResourcesChanged => Change::Resources,
        Method::ResourceUpdated => match dialect.raise::<ResourceUpdatedParams>(&notification.params) {
            Ok(params) => Change::Resource(params.uri),
            Err(_) => return,
        },
        Method::LogMessage if notification.params.text().len() > LOGGED => {
            return tracing::debug!("dropped a log message that is too long");
        }
        Method::LogMessage => return state.logged(|| dialect.raise(&notification.params).ok()),
        Method::SubscriptionAcknowledged => {
            if let (Some(id), Ok(params)) =
                (subscription(), dialect.raise::<AcknowledgedParams>(&notification.params))
                && let Some(call) = state.subscribers.acknowledged(&id, params.notifications)
            {
                state.peer.stop_clocks(call);
            }
            return;
        }
        _ => return,
    };
    connection.terms.cache.changed(&change);
    if change == Change::Tools
        && let Some(exchanges) = connection.terms.transport.exchanges()
    {
        exchanges.tools_changed();
    }
    let subscription = if dialect.is_modern() { subscription() } else { None };
    state.subscribers.changed(subscription.as_ref(), &change);
}
