//! Prompts: a definition, the function that renders it, and the completion of its arguments.

use std::fmt;
use std::future::ready;
use std::sync::Arc;

use mcp_protocol::content::{ContentBlock, Role};
use mcp_protocol::prompts::{GetPromptResult, ListPromptsResult, Prompt, PromptMessage};

use crate::call::BoxFuture;
use crate::call::context::Context;
use crate::error::{BoxError, ToolError};
use crate::offer::completion::{Completers, CompletionRequest};
use crate::offer::handler::Handler;
use crate::offer::prompt_args::{PromptArgs, PromptArguments};
use crate::offer::registry::list_entry;

/// A function that renders a prompt.
type PromptFn =
    dyn Fn(PromptArguments, Context) -> BoxFuture<Result<GetPromptResult, ToolError>> + Send + Sync;

/// A prompt and the function that renders it. Created by [`prompt`].
pub struct ServedPrompt(pub(crate) PromptEntry);

/// A prompt in the registry.
pub(crate) struct PromptEntry {
    pub(crate) definition: Prompt,
    pub(crate) get: Arc<PromptFn>,
    pub(crate) completers: Completers,
    /// What makes the argument type unusable.
    arguments_problem: Option<String>,
}

/// Creates a prompt from its name or definition and an async function. The fields of the argument type become the
/// arguments of the prompt, unless the definition already lists arguments.
///
/// ```
/// use mcp_server::{CompletionRequest, prompt};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Review {
///     /// The programming language.
///     language: String,
/// }
///
/// let review = prompt("review", |Review { language }: Review| async move {
///     format!("Review this {language} code.")
/// })
/// .description("Asks for a code review.")
/// .complete("language", |request: CompletionRequest| async move {
///     ["rust", "ruby"].into_iter().filter(move |name| name.starts_with(&request.value))
/// });
/// ```
pub fn prompt<S, F>(definition: impl Into<Prompt>, function: F) -> ServedPrompt
where
    F: Handler<S>,
    F::Args: PromptArgs,
    F::Output: IntoPrompt,
    F::Future: Send + 'static,
{
    let mut definition = definition.into();
    definition.arguments = definition.arguments.or_else(F::Args::arguments);
    let get =
        move |arguments: PromptArguments, cx: Context| -> BoxFuture<Result<GetPromptResult, ToolError>> {
            match F::Args::from_call(arguments, &cx) {
                Ok(args) => {
                    let future = function.call(args, || cx.clone());
                    Box::pin(async move { cx.restore_question(future.await.into_prompt()) })
                }
                Err(problem) => {
                    Box::pin(ready(Err(ToolError::invalid_params(format!("invalid arguments: {problem}")))))
                }
            }
        };
    ServedPrompt(PromptEntry {
        definition,
        get: Arc::new(get),
        completers: Completers::default(),
        arguments_problem: F::Args::problem(),
    })
}

impl PromptEntry {
    /// Returns an error if the argument type cannot be read from text.
    pub(crate) fn check(&self) -> Result<(), String> {
        match &self.arguments_problem {
            Some(problem) => Err(format!("the arguments of prompt `{}` {problem}", self.definition.name)),
            None => Ok(()),
        }
    }
}

impl ServedPrompt {
    /// Sets the description, which is shown to people who choose a prompt.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.0.definition = self.0.definition.description(description);
        self
    }

    /// Adds a function that completes the values of one argument. Clients get at most the first 100 values that it
    /// returns.
    #[doc(alias = "completion")]
    #[doc(alias = "completion/complete")]
    #[must_use]
    pub fn complete<S, F>(mut self, argument: impl Into<String>, function: F) -> Self
    where
        F: Handler<S, Args = CompletionRequest>,
        F::Output: IntoIterator<Item: Into<String>>,
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

/// A return type of a prompt function: text, messages, a whole result, or a `Result` of these.
#[diagnostic::on_unimplemented(
    message = "a prompt cannot return `{Self}`",
    label = "return text, `Vec<PromptMessage>`, a `GetPromptResult`, or a `Result` of these"
)]
pub trait IntoPrompt {
    /// Converts the value into the result on the wire.
    ///
    /// # Errors
    /// Fails if the value is an error.
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

impl<T: IntoPrompt, E: Into<BoxError>> IntoPrompt for Result<T, E> {
    fn into_prompt(self) -> Result<GetPromptResult, ToolError> {
        self.map_err(ToolError::from_boxed)?.into_prompt()
    }
}
