//! Handles received messages: responses settle calls, requests from the server start handlers, and notifications are
//! passed to subscribers.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use mcp_protocol::Dialect;
use mcp_protocol::codec::line::{Line, Lines};
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::input::{Ask, InputRequest, InputResponse};
use mcp_protocol::messages::{
    Body, EmptyResult, Id, Incoming, Message, Method, Notification, OwnedBody, Request, Response, parse_bytes,
};
use mcp_protocol::peer::{Arrival, CallHandle, IgnoreReason};
use mcp_protocol::resources::ResourceUpdatedParams;
use mcp_protocol::safe_text::SafeText;
use mcp_protocol::subscriptions::AcknowledgedParams;
use tokio::task::{AbortHandle, JoinSet};
use tracing::Instrument;

use crate::connection::handlers::Handlers;
use crate::connection::subscribers::Change;
use crate::connection::transport::Mask;
use crate::connection::{Connection, State, now};
use crate::error::EndCause;

/// The maximum number of requests from the server whose handlers run at once.
const MAX_RUNNING_HANDLERS: usize = 16;
/// The maximum number of refusals that are sent per second. Requests beyond that get no response.
const MAX_REFUSALS_PER_SECOND: u32 = 100;
/// The number of requests without a response after which the server is disconnected.
const MAX_DROPPED_REQUESTS: u32 = 1000;

/// The maximum number of bytes of a log message. Longer messages are dropped, because unread messages are queued.
const MAX_LOG_BYTES: usize = 256 << 10;

/// The maximum number of bytes that are kept of a line that is not a message.
const MAX_STRAY_LINE_BYTES: usize = 1 << 10;

/// A running handler.
#[derive(Debug)]
struct RunningHandler {
    /// The id of the request from the server.
    id: Id,
    handle: AbortHandle,
    /// The calls whose timeouts are paused while the handler runs.
    paused: Vec<CallHandle>,
}

/// Handles received messages, and owns the running handlers.
#[derive(Debug)]
pub(crate) struct Inbound {
    handlers: Arc<Handlers>,
    handler_tasks: JoinSet<Result<InputResponse, ErrorObject>>,
    handlers_by_task: HashMap<tokio::task::Id, RunningHandler>,
    refusals: Refusals,
    /// Masks secrets in server output before it is logged.
    mask: Option<Box<dyn Mask>>,
    has_warned: bool,
}

/// Limits the number of error responses that a server can cause.
#[derive(Debug)]
struct Refusals {
    since: Instant,
    count: u32,
    dropped: u32,
}

impl Refusals {
    /// Counts a request. Returns true if its refusal may be sent.
    fn allows(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= Duration::from_secs(1) {
            (self.since, self.count) = (now, 0);
        }
        self.count += 1;
        if self.count > MAX_REFUSALS_PER_SECOND {
            self.dropped += 1;
        }
        self.count <= MAX_REFUSALS_PER_SECOND
    }

    fn is_flood(&self) -> bool {
        self.dropped > MAX_DROPPED_REQUESTS
    }
}

impl Inbound {
    /// Creates the handling of received messages. Without a mask, text that is not a message is never logged, because
    /// it may contain secrets.
    pub(crate) fn new(handlers: Arc<Handlers>, mask: Option<Box<dyn Mask>>) -> Self {
        let refusals = Refusals { since: now(), count: 0, dropped: 0 };
        let handler_tasks = JoinSet::new();
        Self { handlers, handler_tasks, handlers_by_task: HashMap::new(), refusals, mask, has_warned: false }
    }

    /// Handles all complete lines. Returns the cause if the connection must end.
    pub(crate) fn handle_lines(
        &mut self,
        connection: &Connection,
        lines: &mut Lines,
        now: Instant,
    ) -> Option<EndCause> {
        // Locks once for all lines of one read.
        let mut state = connection.lock();
        while let Some(line) = lines.poll_line() {
            match line {
                Line::Whole(line) => self.handle_text(connection, &mut state, line, now),
                Line::TooLong(error) => unreadable(&mut state, &error),
                Line::Endless => return Some(EndCause::EndlessLine),
            }
        }
        (self.refusals.is_flood() || state.is_flooded()).then_some(EndCause::Flood)
    }

    pub(crate) fn handle_line(&mut self, connection: &Connection, line: &[u8], now: Instant) {
        self.handle_text(connection, &mut connection.lock(), line, now);
    }

    /// Handles a message that is too long. If the message is a response, its call is settled with an error.
    pub(crate) fn handle_too_long(&self, connection: &Connection, error: &mcp_protocol::errors::DecodeError) {
        unreadable(&mut connection.lock(), error);
    }

    /// Handles the text after the last newline, once the output of the server has ended.
    pub(crate) fn handle_rest(&mut self, connection: &Connection, lines: &Lines, now: Instant) {
        if !lines.rest().is_empty() {
            self.handle_line(connection, lines.rest(), now);
        }
    }

    /// Returns true if the server has sent so many refused requests that it must be disconnected.
    pub(crate) fn is_flood(&self) -> bool {
        self.refusals.is_flood()
    }

    /// Aborts the running handlers.
    pub(crate) fn abort_handlers(&mut self) {
        self.handler_tasks.abort_all();
    }

    /// Aborts the running handlers of a session that has ended. No responses are sent.
    pub(crate) fn drop_handlers(&mut self, connection: &Connection) {
        self.handler_tasks.abort_all();
        for (_, handler) in self.handlers_by_task.drain() {
            connection.resume(&handler.paused);
        }
    }

    /// Returns true if a handler is running.
    pub(crate) fn has_running_handlers(&self) -> bool {
        !self.handler_tasks.is_empty()
    }

    /// Waits until a handler ends, and sends its response.
    ///
    /// # Cancellation
    /// Cancel safe.
    pub(crate) async fn respond_next(&mut self, connection: &Connection) {
        std::future::poll_fn(|cx| self.poll_respond_next(connection, cx)).await;
    }

    pub(crate) fn poll_respond_next(&mut self, connection: &Connection, cx: &mut Context<'_>) -> Poll<()> {
        let Some(ended) = ready!(self.handler_tasks.poll_join_next_with_id(cx)) else {
            return Poll::Ready(());
        };
        let (task, answer) = match ended {
            Ok((task, answer)) => (task, Some(answer)),
            Err(error) => (error.id(), None),
        };
        let Some(RunningHandler { id, paused, .. }) = self.handlers_by_task.remove(&task) else {
            return Poll::Ready(());
        };
        connection.resume(&paused);
        match answer {
            Some(Ok(response)) => connection.respond(&id, Ok(&response)),
            Some(Err(error)) => connection.respond(&id, Err(&error)),
            // The handler panicked, or was aborted because the server cancelled the request. In the second case
            // `respond` sends nothing.
            None => {
                let error = ErrorObject::new(ErrorCode::InternalError, "the client failed to answer");
                connection.respond(&id, Err(&error));
            }
        }
        Poll::Ready(())
    }

    fn handle_text(&mut self, connection: &Connection, state: &mut State, line: &[u8], now: Instant) {
        match parse_bytes(line, connection.limits()) {
            Ok(incoming) => self.handle_incoming(connection, state, &incoming, now),
            Err(error) => {
                unreadable(state, &error);
                self.stray_line(connection, state, line);
            }
        }
    }

    /// Handles one message or a batch.
    pub(crate) fn handle_incoming(
        &mut self,
        connection: &Connection,
        state: &mut State,
        incoming: &Incoming<'_>,
        now: Instant,
    ) {
        match incoming {
            Incoming::Message(message) => self.handle_message(connection, state, message, now),
            Incoming::Batch(batch) => {
                for message in batch.messages() {
                    match message {
                        Ok(message) => self.handle_message(connection, state, &message, now),
                        Err(error) => unreadable(state, &error),
                    }
                }
            }
        }
    }

    /// Keeps the first line that is not a message, and logs one warning: a program that logs to stdout writes many such
    /// lines.
    fn stray_line(&mut self, connection: &Connection, state: &mut State, line: &[u8]) {
        let Some(mask) = &self.mask else { return };
        if !std::mem::replace(&mut self.has_warned, true) {
            let text = String::from_utf8_lossy(&line[..line.len().min(MAX_STRAY_LINE_BYTES)]);
            let masked = mask.mask(&text);
            state.stray_line.get_or_insert_with(|| masked.as_str().into());
            let sample = SafeText::name(&masked);
            let server = SafeText::name(&connection.terms.server);
            tracing::warn!(%server, %sample, "the server wrote a line that is not a JSON-RPC message");
        }
    }

    fn handle_message(
        &mut self,
        connection: &Connection,
        state: &mut State,
        message: &Message<'_>,
        now: Instant,
    ) {
        let arrival = state.peer.handle_message(message, now);
        match (arrival, message) {
            (Arrival::Response(call), Message::Response(Response { outcome, .. })) => {
                state.settle(call, outcome.as_ref().map(Body::keep).map_err(Clone::clone));
            }
            (Arrival::Request, Message::Request(request)) => {
                self.handle_request(connection, state, request, now)
            }
            (Arrival::Cancelled(id), _) => {
                // The id of the request stays in use until the handler has ended.
                if let Some(handler) = self.handlers_by_task.values().find(|handler| handler.id == id) {
                    handler.handle.abort();
                }
            }
            (Arrival::Progress(call), Message::Notification(notification)) => {
                if let Ok(params) = connection.dialect().raise(&notification.params) {
                    state.progressed(call, params);
                }
            }
            // A subscription may end before it is acknowledged.
            (Arrival::Ended(call), _) => state.settle(call, Ok(OwnedBody::default())),
            (Arrival::Notification, Message::Notification(notification)) => {
                notified(connection, state, notification);
            }
            // The driver has to send the refusal.
            (Arrival::Ignored(IgnoreReason::Rejected), _) => state.wake_driver(),
            (Arrival::Ignored(why), _) => tracing::debug!(?why, "ignored message"),
            _ => {}
        }
    }

    fn handle_request(
        &mut self,
        connection: &Connection,
        state: &mut State,
        request: &Request<'_>,
        now: Instant,
    ) {
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
        } else if self.handler_tasks.len() >= MAX_RUNNING_HANDLERS {
            ErrorObject::new(ErrorCode::InternalError, "too many requests from the server at once")
        } else {
            match ask(request, dialect) {
                Ok(ask) => return self.start_handler(connection, state, request.id.clone(), ask),
                Err(problem) => ErrorObject::new(ErrorCode::InvalidParams, problem),
            }
        };
        if self.refusals.allows(now) {
            state.respond(dialect, &request.id, Err(&refusal));
        } else {
            state.peer.complete_request(&request.id);
        }
    }

    fn start_handler(&mut self, connection: &Connection, state: &mut State, id: Id, ask: Ask) {
        let handlers = Arc::clone(&self.handlers);
        let server = connection.terms.server.clone();
        // The timeouts of calls are paused while a person is asked, because the handler has its own timeout. Roots are
        // returned without asking a person.
        let asks_somebody = !matches!(ask, Ask::ListRoots(_));
        let paused = if asks_somebody { state.pause(handlers.handler_timeout()) } else { Vec::new() };
        let span =
            tracing::debug_span!("server_request", method = %ask.method(), server = %SafeText::name(&server));
        let answer = async move { handlers.answer_in_time(server, ask).await };
        let handle = self.handler_tasks.spawn(answer.instrument(span));
        self.handlers_by_task.insert(handle.id(), RunningHandler { id, handle, paused });
        // Wakes the driver, which waits for handlers and may be another task than the caller.
        state.wake_driver();
    }
}

/// Returns a method name that the server sent, escaped and cut for the error message of a refusal.
fn shown(method: &Method) -> String {
    SafeText::new(method.as_str()).at_most(64).to_string()
}

fn unreadable(state: &mut State, error: &mcp_protocol::errors::DecodeError) {
    tracing::debug!(%error, "ignored a line that is not a JSON-RPC message");
    match state.peer.handle_unreadable(error) {
        Arrival::BrokenResponse(call) => state.settle_broken(call, error.to_string()),
        // The driver has to send the refusal of an unreadable request.
        _ => state.wake_driver(),
    }
}

/// Parses a request from a legacy server into the type that modern servers use.
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
        Method::LogMessage if notification.params.text().len() > MAX_LOG_BYTES => {
            return tracing::debug!("dropped a log message that is too long");
        }
        Method::LogMessage => return state.logged(|| dialect.raise(&notification.params).ok()),
        Method::SubscriptionAcknowledged => {
            if let (Some(id), Ok(params)) =
                (subscription(), dialect.raise::<AcknowledgedParams>(&notification.params))
                && let Some(call) = state.subscribers.acknowledged(&id, params.notifications)
            {
                state.peer.remove_timeouts(call);
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
