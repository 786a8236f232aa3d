//! A call in flight: the future of the handler, its context, and the conversion of its outcome into a reply.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Instant;

use mcp_protocol::Dialect;
use mcp_protocol::completion::{CompleteResult, Completion};
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::messages::Method;
use mcp_protocol::metrics::CallOutcome;
use mcp_protocol::safe_text::SafeText;
use mcp_protocol::tools::CallToolResult;
use tokio::time::Sleep;

use crate::budget::Share;
use crate::call::BoxFuture;
use crate::call::context::Context;
use crate::call::hook::{HookResult, Outcome};
use crate::call::reply::Reply;
use crate::dispatch::core::Core;
use crate::dispatch::observed::CallObservation;
use crate::error::{AskError, HandlerFailure, ToolError};
use crate::offer::tool::ToolOutcome;

/// The maximum number of values in a completion (MCP 2026-07-28, server/utilities/completion).
const MAX_COMPLETIONS: usize = 100;

/// The future of a call. It always returns a reply, even if the handler panics.
pub(crate) struct CallFuture {
    handler: FunctionFuture,
    /// `None` if the handler does not take a context.
    pub(crate) context: Option<Context>,
    dialect: Dialect,
    core: Arc<Core>,
    /// The name of the tool or prompt, the URI of the resource, or the name of the argument to complete.
    name: Arc<str>,
    /// The timer of delayed progress.
    timer: Option<Pin<Box<Sleep>>>,
    span: tracing::Span,
    /// The share of the call budget. It is taken when a poll of the call returns `Pending` for the first time.
    call_share: Option<Share>,
    /// The memory charged for the request, parts of which the handler may keep.
    request: Option<Share>,
    /// Present if calls are observed by metrics or a `tracing` subscriber.
    observation: Option<Box<CallObservation>>,
    observed_outcome: CallOutcome,
}

/// The future of a handler.
pub(crate) enum FunctionFuture {
    Tool(BoxFuture<ToolOutcome>),
    Complete(BoxFuture<Vec<String>>),
    /// A call with a context, and possibly with hooks.
    Hooked(BoxFuture<HookResult>, Method),
}

impl CallFuture {
    pub(crate) fn new(
        handler: FunctionFuture,
        context: Option<Context>,
        dialect: Dialect,
        core: Arc<Core>,
        name: Arc<str>,
        span: tracing::Span,
        observation: Option<Box<CallObservation>>,
    ) -> Self {
        Self {
            handler,
            context,
            dialect,
            core,
            name,
            timer: None,
            span,
            call_share: None,
            request: None,
            observation,
            observed_outcome: CallOutcome::Completed,
        }
    }

    /// Charges the memory of those parts of the request that a pending call keeps in addition to the body.
    #[cfg(feature = "http")]
    pub(crate) fn hold_more(&mut self, bytes: usize) {
        if let Some(request) = &mut self.request {
            request.grow_beyond(bytes);
        }
    }

    /// Keeps the memory of the request charged until the call ends.
    pub(crate) fn hold(&mut self, request: Share) {
        self.request = Some(request);
    }

    /// Polls the handler once. If the handler panics, only this call fails.
    fn poll_handler(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<Reply, ToolError>> {
        let Self { handler, context, core, name, observed_outcome, .. } = self;
        let poll = || match handler {
            FunctionFuture::Tool(future) => future.as_mut().poll(cx).map(|result| {
                let result = result?;
                *observed_outcome = outcome_of(&result);
                Ok(Reply::result(result))
            }),
            FunctionFuture::Complete(future) => {
                future.as_mut().poll(cx).map(|values| Ok(Reply::result(completion(values))))
            }
            FunctionFuture::Hooked(future, method) => future.as_mut().poll(cx).map(|hooked| {
                let hooked = match context {
                    Some(context) => context.restore_question(hooked)?,
                    None => hooked?,
                };
                if let Outcome::Tool(result) = &hooked {
                    *observed_outcome = outcome_of(result);
                }
                Ok(hooked.into_reply(method).unwrap_or_else(|| mismatch_reply(method)))
            }),
        };
        let result = catch_unwind(AssertUnwindSafe(|| core.watchdog.watch(name, poll)));
        result.unwrap_or_else(|_| {
            self.observed_outcome = CallOutcome::Panicked;
            Poll::Ready(Ok(panic_reply(Some(&self.name))))
        })
    }

    /// Returns the reply to a call whose handler returned an error, and sets the outcome for observers.
    fn failure_reply(&mut self, error: ToolError) -> Reply {
        let is_tool =
            matches!(self.handler, FunctionFuture::Tool(_) | FunctionFuture::Hooked(_, Method::ToolsCall));
        let is_modern = self.dialect.is_modern();
        let invalid = |message: String| Reply::Error(ErrorObject::new(ErrorCode::InvalidParams, message));
        let failure = error.into_failure();
        self.observed_outcome = match failure {
            HandlerFailure::Failed(_) if is_tool => CallOutcome::ToolError,
            HandlerFailure::Failed(_) => CallOutcome::Failed,
            HandlerFailure::Unanswered => CallOutcome::InputRequired,
            _ => CallOutcome::Refused,
        };
        match failure {
            HandlerFailure::Failed(text) if is_tool => Reply::result(CallToolResult::error(text)),
            HandlerFailure::Failed(text) => Reply::Error(ErrorObject::new(ErrorCode::InternalError, text)),
            HandlerFailure::Refused(error) => Reply::Error(error),
            HandlerFailure::Undeclared(needed) if is_modern => {
                Reply::Error(ErrorObject::missing_client_capability(*needed))
            }
            HandlerFailure::Undeclared(needed) => {
                let text = format!("this call needs input, but {}", AskError::Undeclared(needed));
                if is_tool { Reply::result(CallToolResult::error(text)) } else { invalid(text) }
            }
            HandlerFailure::Unanswered => match self.context.as_ref().and_then(Context::rounds) {
                Some(rounds) => match rounds.input_required(&self.core.sealer) {
                    Ok(result) => Reply::result(result),
                    Err(error @ AskError::FeatureDisabled(_)) => {
                        Reply::Error(ErrorObject::new(ErrorCode::InternalError, error.to_string()))
                    }
                    Err(error) if is_tool => Reply::result(CallToolResult::error(error.to_string())),
                    Err(error) => invalid(error.to_string()),
                },
                None => invalid("this call cannot ask the client for input".to_owned()),
            },
        }
    }
}

impl Future for CallFuture {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Reply> {
        let span = self.span.clone();
        let _entered = (!span.is_none()).then(|| span.enter());
        match self.poll_handler(cx) {
            Poll::Ready(done) => {
                if let Some(context) = &self.context {
                    context.finish();
                }
                let reply = done.unwrap_or_else(|error| self.failure_reply(error));
                if let Some(observation) = self.observation.take() {
                    observation.end(self.observed_outcome);
                }
                Poll::Ready(reply)
            }
            Poll::Pending => {
                if self.call_share.is_none() {
                    self.call_share = Some(self.core.calls.overdraw(1));
                }
                while let Some(due) =
                    self.context.as_ref().and_then(|context| context.due_progress(Instant::now()))
                {
                    let mut timer = Box::pin(tokio::time::sleep_until(due.into()));
                    let is_due = timer.as_mut().poll(cx).is_ready();
                    self.timer = Some(timer);
                    if !is_due {
                        break;
                    }
                }
                Poll::Pending
            }
        }
    }
}

/// Cancels the context when the call has ended or is dropped, so that tasks that hold a clone of the context can stop.
impl Drop for CallFuture {
    fn drop(&mut self) {
        if let Some(context) = &self.context {
            context.cancel();
        }
    }
}

/// Returns the reply to a call whose handler panicked. The panic message is not sent to the client.
pub(crate) fn panic_reply(name: Option<&str>) -> Reply {
    let name = name.map(|name| tracing::field::display(SafeText::name(name)));
    tracing::error!(name, "handler panicked");
    Reply::Error(ErrorObject::new(ErrorCode::InternalError, "the handler failed"))
}

/// Returns the reply to a call whose hook returned an outcome that does not match the method.
fn mismatch_reply(method: &Method) -> Reply {
    tracing::error!(%method, "a hook returned an outcome that does not match the method");
    Reply::Error(ErrorObject::new(ErrorCode::InternalError, "the handler failed"))
}

/// Starts a call. If the handler panics before it returns its future, the panic becomes a reply to this call.
pub(crate) fn catch_panic<T>(
    name: &str,
    start: impl FnOnce() -> BoxFuture<T>,
) -> Result<BoxFuture<T>, Reply> {
    catch_unwind(AssertUnwindSafe(start)).map_err(|_| panic_reply(Some(name)))
}

fn outcome_of(result: &CallToolResult) -> CallOutcome {
    if result.is_error == Some(true) { CallOutcome::ToolError } else { CallOutcome::Completed }
}

fn completion(mut values: Vec<String>) -> CompleteResult {
    let total = values.len();
    values.truncate(MAX_COMPLETIONS);
    let mut completion = Completion::new(values).has_more(total > MAX_COMPLETIONS);
    completion.total = u64::try_from(total).ok();
    CompleteResult::new(completion)
}
