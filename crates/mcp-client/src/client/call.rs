//! A tool call and its result.

use std::pin::Pin;
use std::time::Duration;

use mcp_protocol::content::ContentBlock;
use mcp_protocol::errors::BodyError;
use mcp_protocol::messages::{Method, OwnedBody};
use mcp_protocol::meta::Meta;
use mcp_protocol::peer::Timeouts;
use mcp_protocol::tools::{CallToolParams, CallToolResponse, CallToolResult};
use mcp_protocol::{Dialect, Json};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::McpClient;
use crate::client::input_rounds::{self, OnProgress};
use crate::client::observed::{is_observed, run_observed};
use crate::client::running::RunningCall;
use crate::connection::progress::Progress;
use crate::error::{Error, Result};

/// A tool call, which is made when it is awaited.
///
/// A call has two timeouts: an idle timeout of 60 s, which progress resets, and a total timeout of 600 s. Both can be
/// changed. Both are paused while the server waits for input from the host.
///
/// # Cancellation
/// Dropping the future of the call cancels the call on the server.
#[doc(alias = "tools/call")]
#[must_use = "a call begins when it is awaited"]
pub struct ToolCall {
    client: McpClient,
    /// The `Err` variant says why the arguments cannot be sent. It is returned when the call is awaited.
    params: Result<CallToolParams, String>,
    timeouts: Timeouts,
    on_progress: Option<OnProgress>,
    cancel: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl ToolCall {
    /// Creates a call. The `Err` variant of the arguments says why they cannot be sent.
    pub(crate) fn new(client: McpClient, tool: String, arguments: Result<Option<Json>, String>) -> Self {
        let params = arguments.map(|arguments| {
            let mut params = CallToolParams::new(tool);
            params.arguments = arguments;
            params
        });
        Self { client, params, timeouts: Timeouts::default(), on_progress: None, cancel: None }
    }

    /// Sets the idle timeout, which each progress notification resets. Default: 60 s.
    #[doc(alias = "idle timeout")]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeouts = self.timeouts.idle(timeout);
        self
    }

    /// Sets the total timeout, which progress does not reset. Default: 600 s.
    pub fn total_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts = self.timeouts.total(timeout);
        self
    }

    /// Calls `f` for each progress notification, in order, while the call is awaited. If notifications arrive faster
    /// than the call is polled, the oldest are dropped; [`gap`](Progress::gap) of the next one is their number.
    #[doc(alias = "notifications/progress")]
    pub fn on_progress(mut self, f: impl FnMut(Progress) + Send + 'static) -> Self {
        self.on_progress = Some(Box::new(f));
        self
    }

    /// Cancels the call when this future completes: a cancellation is sent, and the call fails with
    /// [`Error::Cancelled`].
    #[doc(alias = "notifications/cancelled")]
    pub fn cancel_when(mut self, cancel: impl Future<Output = ()> + Send + 'static) -> Self {
        self.cancel = Some(Box::pin(cancel));
        self
    }

    /// Converts the call into a [`RunningCall`], to read its progress as a stream before its result.
    pub fn running(self) -> RunningCall {
        RunningCall::new(self)
    }

    /// Adds members to the call's `_meta`.
    pub fn meta(mut self, meta: Meta) -> Self {
        self.params = self.params.map(|params| params.meta(meta));
        self
    }

    /// Makes the call, and returns the unparsed body of the result.
    pub(crate) async fn raw(&mut self) -> Result<OwnedBody> {
        if self.cancel.is_some() || is_observed(&self.client.inner().connection) {
            // Boxed because this path is rare: it keeps the common future small.
            return Box::pin(self.observed_or_cancellable()).await;
        }
        let Self { client, params, timeouts, on_progress, .. } = self;
        let params = sendable(params)?;
        // The future is created where it is awaited: moving it would take its space twice.
        input_rounds::run(client, &Method::ToolsCall, params, *timeouts, on_progress.as_mut()).await
    }

    /// Makes a call that is observed, or that the caller may cancel.
    async fn observed_or_cancellable(&mut self) -> Result<OwnedBody> {
        let Self { client, params, timeouts, on_progress, cancel } = self;
        let params = sendable(params)?;
        let run = run_observed(client, &Method::ToolsCall, params, *timeouts, on_progress.as_mut());
        match cancel.take() {
            Some(cancel) => unless(run, cancel).await,
            None => run.await,
        }
    }
}

/// Returns the params of a call, or the error if they cannot be sent.
fn sendable(params: &mut Result<CallToolParams, String>) -> Result<&mut CallToolParams> {
    params.as_mut().map_err(|problem| {
        let problem = std::mem::take(problem);
        Error::Unsendable { method: Method::ToolsCall, problem }
    })
}

/// Serializes arguments to a JSON object. Returns `None` if they serialize to null. The `Err` variant describes the
/// problem.
pub(super) fn object_of(arguments: &impl Serialize) -> Result<Option<Json>, String> {
    Json::of(arguments).map_err(|error| format!("invalid arguments: {error}")).and_then(object)
}

/// Returns arguments that are an object, and `None` if they are null. The `Err` variant describes the problem.
pub(super) fn object(arguments: Json) -> Result<Option<Json>, String> {
    match arguments {
        arguments if arguments.is_null() => Ok(None),
        arguments if arguments.is_object() => Ok(Some(arguments)),
        _ => Err("arguments must be an object".to_owned()),
    }
}

/// Runs a call until it completes or `cancel` completes.
async fn unless<T>(
    run: impl Future<Output = Result<T>>,
    cancel: Pin<Box<dyn Future<Output = ()> + Send>>,
) -> Result<T> {
    tokio::select! {
        biased;
        () = cancel => Err(Error::Cancelled { method: Method::ToolsCall }),
        outcome = run => outcome,
    }
}

impl IntoFuture for ToolCall {
    type Output = Result<ToolResult>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(mut self) -> Self::IntoFuture {
        // Not an async function, whose future would have space for the call twice.
        Box::pin(async move {
            let body = self.raw().await?;
            let (dialect, tool) = (self.client.dialect(), self.params.map(|params| params.name));
            ToolResult::read(tool.unwrap_or_default(), dialect, &body)
                .map_err(|error| Error::unreadable(&Method::ToolsCall, &error))
        })
    }
}

impl std::fmt::Debug for ToolCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Arguments may contain secrets.
        f.debug_struct("ToolCall")
            .field("tool", &self.params.as_ref().map(|params| &params.name))
            .field("timeouts", &self.timeouts)
            .finish_non_exhaustive()
    }
}

/// The result of a tool call.
///
/// A tool that fails also returns a result; its text is meant for the language model. A program that needs the value of
/// a successful call uses [`ok`](Self::ok) or [`json`](Self::json), which return an error if the tool failed:
///
/// ```no_run
/// # async fn example(client: mcp_client::McpClient) -> mcp_client::Result<()> {
/// let text = client.call("add_task", serde_json::json!({"title": "tea"})).await?.ok()?.text();
/// // Fails with, for example: tool `add_task` failed: the title is empty
/// # drop(text); Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    tool: String,
    result: CallToolResult,
}

impl ToolResult {
    fn read(tool: String, dialect: Dialect, body: &OwnedBody) -> Result<Self, BodyError> {
        match CallToolResponse::raise(dialect, &body.body())? {
            CallToolResponse::Complete(result) => Ok(Self { tool, result }),
            CallToolResponse::Task(_) | CallToolResponse::LegacyTask(_) => {
                Err(BodyError::ResultType("task".to_owned()))
            }
            _ => Err(BodyError::ResultType("input_required".to_owned())),
        }
    }

    /// Returns all text blocks of the result, joined by newlines.
    #[must_use]
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.result.content.iter().filter_map(ContentBlock::as_text).collect();
        texts.join("\n")
    }

    /// Returns the result itself, or an error if the tool reports that it failed.
    ///
    /// # Errors
    /// [`Error::ToolFailed`] with the text of the result, if `isError` is true.
    pub fn ok(self) -> Result<Self> {
        self.failure().map_or(Ok(self), Err)
    }

    fn failure(&self) -> Option<Error> {
        self.is_error().then(|| Error::ToolFailed { tool: self.tool.clone(), message: self.text() })
    }

    /// Deserializes the structured content of the result, or its text if it has no structured content.
    ///
    /// In legacy revisions structured content has to be an object, so servers wrap other values as `{"result": …}`. If
    /// the structured content does not match `T`, its member `result` is tried.
    ///
    /// # Errors
    /// [`Error::ToolFailed`] if the tool reports that it failed, [`Error::Unreadable`] if the data cannot be
    /// deserialized as `T`.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        let unreadable = |problem: String| Error::Unreadable { method: Method::ToolsCall, problem };
        let Some(structured) = &self.result.structured_content else {
            return serde_json::from_str(&self.text()).map_err(|error| {
                unreadable(format!(
                    "the result has no structured content, and its text is not the expected JSON: {error}"
                ))
            });
        };
        match structured.to() {
            Ok(value) => Ok(value),
            Err(error) => {
                let wrapped = structured.member("result").and_then(|inner| serde_json::from_str(inner).ok());
                wrapped.ok_or_else(|| unreadable(error.to_string()))
            }
        }
    }

    /// Returns true if the tool reports that it failed. The text of the result says why.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.result.is_error == Some(true)
    }

    /// Returns the content blocks: text, images, audio, resources, and types that this crate does not know.
    #[must_use]
    pub fn content(&self) -> &[ContentBlock] {
        &self.result.content
    }

    /// Returns the whole result.
    #[must_use]
    pub fn result(&self) -> &CallToolResult {
        &self.result
    }

    /// Converts this value into the whole result.
    #[must_use]
    pub fn into_result(self) -> CallToolResult {
        self.result
    }
}
