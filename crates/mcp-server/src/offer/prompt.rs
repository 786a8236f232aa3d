//! Prompts: a definition, the function that renders it, and the completion of its arguments.

use std::fmt;
use std::sync::Arc;

use mcp_protocol::Map;
use mcp_protocol::content::{ContentBlock, Role};
use mcp_protocol::prompts::{GetPromptResult, ListPromptsResult, Prompt, PromptMessage};

use crate::call::BoxFuture;
use crate::call::context::Context;
use crate::error::ToolError;
use crate::offer::completion::{Completers, CompletionRequest};
use crate::offer::handler::{Handler, NoArgs};
use crate::offer::registry::list_entry;

/// Renders a prompt.
type PromptFn =
    dyn Fn(PromptArguments, Context) -> BoxFuture<Result<GetPromptResult, ToolError>> + Send + Sync;

/// A prompt and the function that renders it. Created by [`prompt`].
pub struct ServedPrompt(pub(crate) PromptEntry);

/// A prompt in the registry.
pub(crate) struct PromptEntry {
    pub(crate) definition: Prompt,
    pub(crate) get: Arc<PromptFn>,
    pub(crate) completers: Completers,
}

/// Creates a prompt from a definition and an async function.
///
/// ```
/// use mcp_protocol::prompts::{Prompt, PromptArgument};
/// use mcp_server::{CompletionRequest, PromptArguments, prompt};
///
/// let review = Prompt::new("review").arguments([PromptArgument::new("language").required(true)]);
/// let review = prompt(review, |arguments: PromptArguments| async move {
///     format!("Review this {} code.", arguments.get("language"))
/// })
/// .complete("language", |request: CompletionRequest| async move {
///     ["rust", "ruby"].into_iter().filter(|name| name.starts_with(&request.value)).map(Into::into).collect()
/// });
/// ```
pub fn prompt<S, F>(definition: Prompt, function: F) -> ServedPrompt
where
    F: Handler<S>,
    F::Args: From<PromptArguments>,
    F::Output: IntoPrompt,
    F::Future: Send + 'static,
{
    let get =
        move |arguments: PromptArguments, cx: Context| -> BoxFuture<Result<GetPromptResult, ToolError>> {
            let future = function.call(arguments.into(), || cx);
            Box::pin(async move { future.await.into_prompt() })
        };
    ServedPrompt(PromptEntry { definition, get: Arc::new(get), completers: Completers::default() })
}

impl ServedPrompt {
    /// Adds a completion function for one argument.
    #[doc(alias = "completion")]
    #[doc(alias = "completion/complete")]
    #[must_use]
    pub fn complete<S, F>(mut self, argument: impl Into<String>, function: F) -> Self
    where
        F: Handler<S, Args = CompletionRequest, Output = Vec<String>>,
        F::Future: Send + 'static,
    {
        self.0.completers.add(argument.into(), function);
        self
    }
}

impl fmt::Debug for ServedPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServedPrompt").field(&self.0.definition).finish()
    }
}

list_entry! { PromptEntry by name in ListPromptsResult }

/// The arguments of a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptArguments(pub Map<String, String>);

impl PromptArguments {
    /// Returns the value of an argument; empty if the client did not send it. Required arguments are always present.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }
}

impl From<PromptArguments> for NoArgs {
    fn from(_: PromptArguments) -> Self {
        Self
    }
}

/// A return type of a prompt function: text, messages, a whole result, or a `Result` of these.
#[diagnostic::on_unimplemented(
    message = "a prompt cannot return `{Self}`",
    label = "return text, `Vec<PromptMessage>`, a `GetPromptResult`, or a `Result` of these"
)]
pub trait IntoPrompt {
    /// Converts the value into the result on the wire.
    ///
    /// # Errors
    /// When the function returned an error.
    fn into_prompt(self) -> Result<GetPromptResult, ToolError>;
}

impl IntoPrompt for GetPromptResult {
    fn into_prompt(self) -> Result<GetPromptResult, ToolError> {
        Ok(self)
    }
}

impl IntoPrompt for Vec<PromptMessage> {
    fn into_prompt(self) -> Result<GetPromptResult, ToolError> {
        Ok(GetPromptResult::new(self))
    }
}

impl IntoPrompt for String {
    fn into_prompt(self) -> Result<GetPromptResult, ToolError> {
        Ok(GetPromptResult::new([PromptMessage::new(Role::User, ContentBlock::text(self))]))
    }
}

impl IntoPrompt for &'static str {
    fn into_prompt(self) -> Result<GetPromptResult, ToolError> {
        self.to_owned().into_prompt()
    }
}

impl<T: IntoPrompt, E: Into<ToolError>> IntoPrompt for Result<T, E> {
    fn into_prompt(self) -> Result<GetPromptResult, ToolError> {
        self.map_err(Into::into)?.into_prompt()
    }
}
