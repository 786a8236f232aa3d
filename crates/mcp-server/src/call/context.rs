//! The context of a call: request data, progress, log messages and cancellation.

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
use mcp_protocol::safe_text::SafeText;
use mcp_protocol::{Dialect, Json};
use serde::Serialize;
use tokio::sync::Notify;

use crate::call::identity::{Identity, Principal};
use crate::call::rounds::Rounds;
use crate::connection::outlet::Outlet;
use crate::connection::{Client, Connection};
use crate::error::{AskError, ToolError};
use crate::offer::registry::Registry;

/// The context of one call. Cheap to clone; clones can be used in tasks and threads that the function starts.
#[derive(Clone)]
pub struct Context(Arc<CallData>);

/// The data that all clones of a context share.
struct CallData {
    id: Id,
    method: Method,
    /// The name of the tool or prompt, the URI of the resource, or the name of the argument to complete.
    name: Arc<str>,
    requester: Requester,
    registry: Registry,
    rounds: Option<Rounds>,
    progress: Option<ProgressReporter>,
    /// The log level when the call began.
    log_level: Option<LogLevel>,
    /// The number of requests to a legacy client.
    asks: AtomicU32,
    /// The error of the last failed request to the client, needed if the error type of the handler reduces it to text.
    failed_ask: Mutex<Option<AskError>>,
    cancelled: AtomicBool,
    /// True after the call was answered or cancelled; no more notifications are then sent for it.
    over: AtomicBool,
    cancellation: Notify,
    /// The timeout for requests to a legacy client.
    ask_timeout: Duration,
}

/// The sender of a request: its dialect and identity, and the output for messages to it.
#[derive(Clone)]
pub(crate) struct Requester {
    pub(crate) dialect: Dialect,
    /// The `_meta` of a modern request. That of a legacy request is read only when a context needs it.
    pub(crate) meta: Option<Arc<Meta>>,
    /// Present for a legacy request.
    pub(crate) legacy: Option<LegacyClient>,
    pub(crate) outlet: Arc<Outlet>,
    pub(crate) identity: Identity,
}

/// The client of a legacy connection.
#[derive(Clone)]
pub(crate) struct LegacyClient {
    pub(crate) connection: Arc<Connection>,
    pub(crate) client: Option<Arc<Client>>,
}

/// The progress token of a request, and the rate limit of its progress notifications.
struct ProgressReporter {
    token: ProgressToken,
    gate: Mutex<ProgressGate<ProgressParams>>,
}

/// The parameters of [`Context::new`].
pub(crate) struct ContextParts {
    pub(crate) id: Id,
    pub(crate) method: Method,
    pub(crate) name: Arc<str>,
    pub(crate) requester: Requester,
    pub(crate) registry: Registry,
    pub(crate) rounds: Option<Rounds>,
    pub(crate) ask_timeout: Duration,
}

impl Context {
    pub(crate) fn new(parts: ContextParts) -> Self {
        let ContextParts { id, method, name, requester, registry, rounds, ask_timeout } = parts;
        let token = requester.meta.as_ref().and_then(|meta| meta.progress_token.clone());
        let progress = token
            .map(|token| ProgressReporter { token, gate: Mutex::new(ProgressGate::new(Instant::now())) });
        let log_level = match &requester.legacy {
            Some(legacy) => legacy.connection.lock().log_level.clone(),
            None => requester.meta.as_ref().and_then(|meta| meta.log_level.clone()),
        };
        Self(Arc::new(CallData {
            id,
            method,
            name,
            requester,
            registry,
            rounds,
            progress,
            log_level,
            asks: AtomicU32::new(0),
            failed_ask: Mutex::new(None),
            cancelled: AtomicBool::new(false),
            over: AtomicBool::new(false),
            cancellation: Notify::new(),
            ask_timeout,
        }))
    }

    /// Returns the id of the request, as the client chose it.
    #[must_use]
    pub fn request_id(&self) -> &Id {
        &self.0.id
    }

    /// Returns the method: `tools/call`, `prompts/get`, `resources/read` or `completion/complete`.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.0.method
    }

    /// Returns the name of the tool or prompt, the URI of the resource, or the name of the argument to complete.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the user on whose behalf the call is made.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.0.requester.identity.principal
    }

    /// Returns the extensions of the HTTP request that carried this call: the values that middleware in front of the
    /// service inserted. Empty for other transports.
    ///
    /// ```
    /// use mcp_server::{Context, ToolError};
    ///
    /// #[derive(Clone)]
    /// struct User { name: String }
    ///
    /// async fn whoami(cx: Context) -> Result<String, ToolError> {
    ///     let user: &User = cx.extensions().get().ok_or_else(|| ToolError::new("not logged in"))?;
    ///     Ok(user.name.clone())
    /// }
    /// ```
    #[doc(alias = "middleware")]
    #[must_use]
    #[cfg(feature = "http")]
    pub fn extensions(&self) -> &::http::Extensions {
        self.0.requester.identity.extensions()
    }

    /// Returns the `_meta` of the request: trace context and other metadata that the client sent.
    #[must_use]
    pub fn meta(&self) -> Option<&Meta> {
        self.0.requester.meta.as_deref()
    }

    /// Returns the client info (name, version, title), or `None` if the client did not send it. It is self-reported:
    /// use it for display and logs, not for access decisions.
    #[doc(alias = "clientInfo")]
    #[must_use]
    pub fn client_info(&self) -> Option<&Implementation> {
        match &self.0.requester.legacy {
            Some(legacy) => legacy.client.as_ref().map(|client| &client.info),
            None => self.meta().and_then(|meta| meta.client_info.as_deref()),
        }
    }

    /// Returns the self-reported name of the client, or `None` if the client did not send it.
    #[must_use]
    pub fn client_name(&self) -> Option<&str> {
        self.client_info().map(|info| info.name.as_str())
    }

    /// Returns the capabilities that the client declared, or `None` if it did not declare any.
    #[must_use]
    pub fn client_capabilities(&self) -> Option<&ClientCapabilities> {
        match &self.0.requester.legacy {
            Some(legacy) => legacy.client.as_ref().map(|client| &client.capabilities),
            None => self.meta().and_then(|meta| meta.client_capabilities.as_deref()),
        }
    }

    /// Returns the registry of the server, which adds and removes tools, resources and prompts.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// Sends a progress notification. `total` is the value of `progress` at the end of the call, if it is known.
    ///
    /// Does nothing if the request has no progress token. A value that is not larger than the previous one is dropped.
    /// The rate is limited: values in between may be dropped, but the last one is always sent.
    #[doc(alias = "notifications/progress")]
    #[doc(alias = "progressToken")]
    pub fn progress(&self, progress: f64, total: impl Into<Option<f64>>) {
        self.offer_progress(progress, total.into(), None);
    }

    /// Sends a progress notification with a message for people. Otherwise the same as [`progress`](Self::progress).
    pub fn progress_note(&self, progress: f64, total: impl Into<Option<f64>>, note: impl Into<String>) {
        self.offer_progress(progress, total.into(), Some(note.into()));
    }

    fn offer_progress(&self, done: f64, total: Option<f64>, note: Option<String>) {
        let Some(progress) = &self.0.progress else { return };
        let mut params = ProgressParams::new(progress.token.clone(), done);
        params.total = total;
        params.message = note;
        let mut gate = progress.gate.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_over() {
            return;
        }
        // Sent under the lock to keep the order.
        if let Some(params) = gate.offer(done, params, Instant::now()) {
            self.send_progress(&params);
        }
    }

    fn send_progress(&self, params: &ProgressParams) {
        let dialect = self.0.requester.dialect;
        self.0
            .requester
            .outlet
            .offer(|out| write::notification(out, &Method::Progress, Some(&dialect.lower(params))));
    }

    /// Sends a delayed progress notification if it is due. Returns the time at which the next one is due, if there is
    /// one.
    pub(crate) fn due_progress(&self, now: Instant) -> Option<Instant> {
        let progress = self.0.progress.as_ref()?;
        let mut gate = progress.gate.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(params) = gate.handle_timeout(now) {
            self.send_progress(&params);
        }
        gate.poll_timeout()
    }

    /// Sends the last progress value before the response, and stops further notifications.
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

    /// Closes the SSE stream of this call, while the call continues. The client is told to reconnect after the time
    /// `retry` (the SSE field of this name), and then receives the messages that were sent in the meantime. Use this
    /// method over legacy HTTP for calls that take minutes. Returns false, and keeps the stream open, if the client
    /// cannot resume the stream.
    #[doc(alias = "closeSSEStream")]
    #[doc(alias = "retry")]
    #[doc(alias = "resumability")]
    pub fn close_sse_stream(&self, retry: Duration) -> bool {
        !self.is_over() && self.0.requester.outlet.end_with_retry(retry)
    }

    /// Sends a log message to the client. Does nothing if the client did not enable this level, or if `data` cannot be
    /// serialized as JSON. The data must not contain secrets.
    #[doc(alias = "notifications/message")]
    #[doc(alias = "logging")]
    pub fn log(&self, level: LogLevel, data: impl Serialize) {
        if self.is_over() || self.0.log_level.as_ref().is_none_or(|least| !level.is_at_least(least)) {
            return;
        }
        let Ok(data) = Json::of(&data) else { return };
        let dialect = self.0.requester.dialect;
        let params = LogMessageParams::new(level, data);
        self.0
            .requester
            .outlet
            .offer(|out| write::notification(out, &Method::LogMessage, Some(&dialect.lower(&params))));
    }

    /// Returns true if the call was cancelled or has ended.
    #[doc(alias = "cancellation")]
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// Waits until the call is cancelled or has ended. Use it in tasks that the function spawned. The function itself
    /// does not need it, because its future is dropped when the call is cancelled.
    #[doc(alias = "notifications/cancelled")]
    #[doc(alias = "cancellation")]
    ///
    /// # Cancellation
    /// Cancel safe: the future can be dropped, and the method called again.
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
        self.0.requester.dialect
    }

    pub(crate) fn rounds(&self) -> Option<&Rounds> {
        self.0.rounds.as_ref()
    }

    /// Stores the error of a failed request to the client. An unanswered question is not an error here.
    pub(crate) fn note_failed_ask(&self, error: &AskError) {
        if *error != AskError::Unanswered {
            *self.0.failed_ask.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
        }
    }

    /// Finishes the outcome of a handler or hook. If a question of this run is not answered yet, the run ends with that
    /// question, whatever the handler returned: an [`AskError`] inside an `anyhow::Error` or text cannot be recognized,
    /// and a result that was computed without the answer must not replace the question.
    pub(crate) fn restore_question<T>(&self, outcome: Result<T, ToolError>) -> Result<T, ToolError> {
        let is_unanswered = self.rounds().is_some_and(Rounds::has_unanswered);
        match outcome {
            Ok(_) if is_unanswered => {
                let name = SafeText::name(self.name());
                tracing::warn!(%name, "a handler returned a result although the client has not answered its question yet; the result is discarded, and the handler runs again with the answer; use `?` on the result of `ask`");
                Err(AskError::Unanswered.into())
            }
            Ok(value) => Ok(value),
            Err(error) => {
                let failed = self.0.failed_ask.lock().unwrap_or_else(PoisonError::into_inner).take();
                Err(error.restore(is_unanswered, failed))
            }
        }
    }

    /// Counts one more request to a legacy client, and returns the count.
    pub(crate) fn next_ask(&self) -> u32 {
        self.0.asks.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Sends a request over the legacy connection.
    pub(crate) async fn request(
        &self,
        method: &Method,
        params: &(dyn Lower + Sync),
    ) -> Result<(Dialect, Json), AskError> {
        let Requester { dialect, legacy, outlet, .. } = &self.0.requester;
        let Some(legacy) = legacy.as_ref().filter(|_| !self.is_over()) else { return Err(AskError::Lost) };
        let answer = legacy.connection.request(outlet, *dialect, method, params, self.0.ask_timeout).await?;
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
