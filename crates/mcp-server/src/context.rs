//! What a function knows of the call it serves, and what it can do besides returning.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mcp_protocol::capabilities::{ClientCapabilities, Implementation};
use mcp_protocol::dialect::Lower;
use mcp_protocol::logging::{LogLevel, LogMessageParams};
use mcp_protocol::messages::{Id, Method, ProgressParams, ProgressToken, write};
use mcp_protocol::meta::Meta;
use mcp_protocol::peer::ProgressGate;
use mcp_protocol::{Dialect, Json};
use serde::Serialize;
use tokio::sync::Notify;

use crate::ask::Rounds;
use crate::connection::{Client, Connection};
use crate::error::AskError;
use crate::outlet::Outlet;
use crate::registry::Registry;

/// The call that a function serves. Cheap to clone; it may be kept by what the function starts.
#[derive(Clone)]
pub struct Context(Arc<Call>);

struct Call {
    id: Id,
    method: Method,
    /// The tool, prompt or resource.
    name: Arc<str>,
    exchange: Exchange,
    registry: Registry,
    rounds: Option<Rounds>,
    progress: Option<Progress>,
    log_level: Option<LogLevel>,
    asks: AtomicU32,
    cancelled: AtomicBool,
    /// The response is there, or not wanted: nothing more is said about this call.
    over: AtomicBool,
    cancellation: Notify,
    patience: Duration,
}

/// Who asked, and how to reach them.
#[derive(Clone)]
pub(crate) struct Exchange {
    pub(crate) dialect: Dialect,
    /// The envelope of a modern request; the `_meta` of a legacy one that has any.
    pub(crate) meta: Option<Arc<Meta>>,
    /// The connection of a legacy request.
    pub(crate) legacy: Option<Legacy>,
    pub(crate) outlet: Arc<Outlet>,
    pub(crate) principal: Principal,
}

#[derive(Clone)]
pub(crate) struct Legacy {
    pub(crate) connection: Arc<Connection>,
    pub(crate) client: Option<Arc<Client>>,
    pub(crate) log_level: Option<LogLevel>,
}

/// On whose behalf a call is made. Anonymous, unless the transport knows better.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Principal {
    /// Who it is, in the words of the authorization server.
    pub subject: Option<Arc<str>>,
}

struct Progress {
    token: ProgressToken,
    gate: Mutex<ProgressGate<ProgressParams>>,
}

/// What a context is made of.
pub(crate) struct Parts {
    pub(crate) id: Id,
    pub(crate) method: Method,
    pub(crate) name: Arc<str>,
    pub(crate) exchange: Exchange,
    pub(crate) registry: Registry,
    pub(crate) rounds: Option<Rounds>,
    pub(crate) patience: Duration,
}

impl Context {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { id, method, name, exchange, registry, rounds, patience } = parts;
        let token = exchange.meta.as_ref().and_then(|meta| meta.progress_token.clone());
        let progress =
            token.map(|token| Progress { token, gate: Mutex::new(ProgressGate::new(Instant::now())) });
        let log_level = match &exchange.legacy {
            Some(legacy) => legacy.log_level.clone(),
            None => exchange.meta.as_ref().and_then(|meta| meta.log_level.clone()),
        };
        Self(Arc::new(Call {
            id,
            method,
            name,
            exchange,
            registry,
            rounds,
            progress,
            log_level,
            asks: AtomicU32::new(0),
            cancelled: AtomicBool::new(false),
            over: AtomicBool::new(false),
            cancellation: Notify::new(),
            patience,
        }))
    }

    /// The id of the request, as the client chose it.
    #[must_use]
    pub fn request_id(&self) -> &Id {
        &self.0.id
    }

    /// What is asked for: `tools/call`, `prompts/get`, `resources/read` or `completion/complete`.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.0.method
    }

    /// The name of the tool or prompt, or the URI of the resource.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// On whose behalf the call is made.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.0.exchange.principal
    }

    /// The `_meta` of the request: trace context and whatever else the client put there.
    #[must_use]
    pub fn meta(&self) -> Option<&Meta> {
        self.0.exchange.meta.as_deref()
    }

    /// What the client calls itself. Self-reported: for display and logs, never for decisions.
    #[must_use]
    pub fn client_info(&self) -> Option<&Implementation> {
        match &self.0.exchange.legacy {
            Some(legacy) => legacy.client.as_ref().map(|client| &client.info),
            None => self.meta().and_then(|meta| meta.client_info.as_deref()),
        }
    }

    /// The name that the client gave itself.
    #[must_use]
    pub fn client_name(&self) -> Option<&str> {
        self.client_info().map(|info| info.name.as_str())
    }

    /// What the client can.
    #[must_use]
    pub fn client_capabilities(&self) -> Option<&ClientCapabilities> {
        match &self.0.exchange.legacy {
            Some(legacy) => legacy.client.as_ref().map(|client| &client.capabilities),
            None => self.meta().and_then(|meta| meta.client_capabilities.as_deref()),
        }
    }

    /// What the server offers, to be changed if need be.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// Tells how far the call is. What does not grow is dropped; what comes too fast is held back, and the last
    /// word is always sent. Nothing happens if the client did not ask for progress.
    pub fn progress(&self, progress: f64, total: impl Into<Option<f64>>) {
        self.tell_progress(progress, total.into(), None);
    }

    /// The same, with a word for people.
    pub fn progress_note(&self, progress: f64, total: impl Into<Option<f64>>, note: impl Into<String>) {
        self.tell_progress(progress, total.into(), Some(note.into()));
    }

    fn tell_progress(&self, done: f64, total: Option<f64>, note: Option<String>) {
        let Some(progress) = &self.0.progress else { return };
        let mut params = ProgressParams::new(progress.token.clone(), done);
        params.total = total;
        params.message = note;
        let mut gate = progress.gate.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_over() {
            return;
        }
        // Sent under the lock, so that the order is that of the offers.
        if let Some(params) = gate.offer(done, params, Instant::now()) {
            self.send_progress(&params);
        }
    }

    fn send_progress(&self, params: &ProgressParams) {
        let dialect = self.0.exchange.dialect;
        self.0
            .exchange
            .outlet
            .offer(|out| write::notification(out, &Method::Progress, Some(&dialect.lower(params))));
    }

    /// Sends progress that was held back and is due. Returns when to come again.
    pub(crate) fn due_progress(&self, now: Instant) -> Option<Instant> {
        let progress = self.0.progress.as_ref()?;
        let mut gate = progress.gate.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(params) = gate.handle_timeout(now) {
            self.send_progress(&params);
        }
        gate.poll_timeout()
    }

    /// Sends the last word about progress, before the response. After it nothing more is said.
    pub(crate) fn finish(&self) {
        let mut gate = self
            .0
            .progress
            .as_ref()
            .map(|progress| progress.gate.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(params) = gate.as_mut().and_then(|gate| gate.flush()) {
            self.send_progress(&params);
        }
        self.0.over.store(true, Ordering::Release);
    }

    fn is_over(&self) -> bool {
        self.0.over.load(Ordering::Acquire)
    }

    /// Lets the client go and come back for the rest, after about this long: for work that takes minutes, over
    /// legacy HTTP, where an open stream is a burden. False if the client cannot come back; it then waits on.
    pub fn send_away(&self, come_back: Duration) -> bool {
        !self.is_over() && self.0.exchange.outlet.send_away(come_back)
    }

    /// Sends a log message to the client, if it wants messages of this level. Must hold no secrets.
    pub fn log(&self, level: LogLevel, data: impl Serialize) {
        if self.is_over() || self.0.log_level.as_ref().is_none_or(|least| !level.is_at_least(least)) {
            return;
        }
        let Ok(data) = Json::of(&data) else { return };
        let dialect = self.0.exchange.dialect;
        let params = LogMessageParams::new(level, data);
        self.0
            .exchange
            .outlet
            .offer(|out| write::notification(out, &Method::LogMessage, Some(&dialect.lower(&params))));
    }

    /// True if the client no longer wants the result.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// Waits until the client no longer wants the result. The function's own future is dropped then anyway; this
    /// is for what the function has started elsewhere.
    ///
    /// # Cancellation
    /// Safe.
    pub async fn cancelled(&self) {
        loop {
            let notified = self.0.cancellation.notified();
            if self.is_cancelled() {
                return;
            }
            notified.await;
        }
    }

    pub(crate) fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Release);
        self.0.over.store(true, Ordering::Release);
        self.0.cancellation.notify_waiters();
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.0.exchange.dialect
    }

    pub(crate) fn rounds(&self) -> Option<&Rounds> {
        self.0.rounds.as_ref()
    }

    /// How often this call has asked over a legacy connection, this time included.
    pub(crate) fn next_ask(&self) -> u32 {
        self.0.asks.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Asks the client over its legacy connection.
    pub(crate) async fn request(
        &self,
        method: &Method,
        params: &(dyn Lower + Sync),
    ) -> Result<(Dialect, Json), AskError> {
        let Exchange { dialect, legacy, outlet, .. } = &self.0.exchange;
        let Some(legacy) = legacy.as_ref().filter(|_| !self.is_over()) else { return Err(AskError::Lost) };
        let answer = legacy.connection.request(outlet, *dialect, method, params, self.0.patience).await?;
        Ok((*dialect, answer))
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("id", &self.0.id)
            .field("method", &self.0.method)
            .field("name", &self.0.name)
            .finish_non_exhaustive()
    }
}
