//! Tools: a definition and its handler.

use std::fmt;
use std::future::{Future, ready};
use std::sync::Arc;

use mcp_protocol::Json;
use mcp_protocol::capabilities::Icon;
use mcp_protocol::codec::param_header::ParamHeaders;
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::oauth::scopes::{Scopes, is_scope};
use mcp_protocol::tools::{CallToolResult, ListToolsResult, Tool as Definition, ToolAnnotations};

use crate::call::BoxFuture;
use crate::call::context::Context;
use crate::call::hook::{Call, Next, Outcome, before, hook};
use crate::call::validate::Validator;
use crate::error::ToolError;
use crate::offer::handler::{Handler, ToolArgs};
use crate::offer::outcome::IntoOutcome;
use crate::offer::registry::list_entry;

pub(crate) type ToolOutcome = Result<CallToolResult, ToolError>;
/// A function that starts a call with its arguments. The context is created only if the handler takes one.
type ToolFn = dyn Fn(&str, &mut dyn FnMut() -> Context) -> BoxFuture<ToolOutcome> + Send + Sync;

/// A tool: its definition and its handler.
///
/// Created by [`tool`] from a function whose types determine the schemas, by [`Tool::dynamic`] from a schema that is
/// known only at run time, or from a [`ToolSpec`](crate::ToolSpec).
#[derive(Clone)]
pub struct Tool {
    pub(super) definition: Definition,
    pub(super) start: Arc<ToolFn>,
    pub(super) needs_approval: bool,
    pub(super) scopes: Vec<String>,
}

/// Creates a tool from an async function or closure.
///
/// ```
/// use mcp_server::{Context, ToolError, tool};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add { a: i64, b: i64 }
///
/// async fn add(Add { a, b }: Add) -> Result<String, ToolError> {
///     Ok(a.checked_add(b).ok_or_else(|| ToolError::new("that is too much"))?.to_string())
/// }
///
/// let add = tool("add", add).description("Adds two numbers.");
/// assert_eq!(add.definition().name, "add");
///
/// // A closure captures state; a second parameter receives the context.
/// let greeting = "Hello".to_owned();
/// let hello = tool("hello", move |_: mcp_server::NoArgs, cx: Context| {
///     let greeting = greeting.clone();
///     async move { format!("{greeting}, {}", cx.client_name().unwrap_or("stranger")) }
/// });
/// # drop(hello);
/// ```
pub fn tool<S, F>(name: impl Into<String>, function: F) -> Tool
where
    F: Handler<S>,
    F::Args: ToolArgs,
    F::Output: IntoOutcome,
    F::Future: Send + 'static,
{
    let mut definition = Definition::new(name, F::Args::schema());
    definition.output_schema = F::Output::output_schema();
    let start = move |arguments: &str, context: &mut dyn FnMut() -> Context| -> BoxFuture<ToolOutcome> {
        let mut used = None;
        let mut context = || used.insert(context()).clone();
        match F::Args::from_call(arguments, &mut context) {
            Ok(args) => {
                let future = function.call(args, context);
                Box::pin(async move { restore_question(used, future.await.into_outcome()) })
            }
            Err(problem) => Box::pin(ready(Err(ToolError::new(format!("invalid arguments: {problem}"))))),
        }
    };
    Tool { definition, start: Arc::new(start), needs_approval: false, scopes: Vec::new() }
}

/// Applies [`Context::restore_question`] to the outcome of a function. A function without a context cannot have asked
/// the client.
fn restore_question(context: Option<Context>, outcome: ToolOutcome) -> ToolOutcome {
    match context {
        Some(context) => context.restore_question(outcome),
        None => outcome,
    }
}

impl Tool {
    /// Creates a tool whose schema is known only at run time. The handler receives the arguments as [`Json`].
    ///
    /// ```
    /// use mcp_server::{Json, Tool};
    /// use serde_json::json;
    ///
    /// let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    /// let tool = Tool::dynamic("open", schema, |arguments: Json| async move { arguments.get().to_owned() });
    /// ```
    pub fn dynamic<S, F>(name: impl Into<String>, input_schema: impl Into<Json>, function: F) -> Self
    where
        F: Handler<S, Args = Json>,
        F::Output: IntoOutcome,
        F::Future: Send + 'static,
    {
        let mut definition = Definition::new(name, input_schema.into());
        definition.output_schema = F::Output::output_schema();
        let start = move |arguments: &str, context: &mut dyn FnMut() -> Context| -> BoxFuture<ToolOutcome> {
            let mut used = None;
            match arguments.parse() {
                Ok(arguments) => {
                    let future = function.call(arguments, || used.insert(context()).clone());
                    Box::pin(async move { restore_question(used, future.await.into_outcome()) })
                }
                Err(error) => Box::pin(ready(Err(ToolError::from(error)))),
            }
        };
        Self { definition, start: Arc::new(start), needs_approval: false, scopes: Vec::new() }
    }

    /// Sets the description, from which a language model learns when and how to call the tool.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.definition = self.definition.description(description);
        self
    }

    /// Sets the display name.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.definition = self.definition.title(title);
        self
    }

    /// Sets the annotations: hints about the behaviour of the tool.
    #[must_use]
    pub fn annotations(mut self, annotations: ToolAnnotations) -> Self {
        self.definition = self.definition.annotations(annotations);
        self
    }

    /// Declares that the tool does not change anything (`readOnlyHint`).
    #[doc(alias = "readOnlyHint")]
    #[must_use]
    pub fn read_only(self) -> Self {
        self.annotate(|hints| hints.read_only_hint(true))
    }

    /// Declares that the tool may delete or overwrite data (`destructiveHint`).
    #[doc(alias = "destructiveHint")]
    #[must_use]
    pub fn destructive(self) -> Self {
        self.annotate(|hints| hints.read_only_hint(false).destructive_hint(true))
    }

    /// Declares that repeated calls with the same arguments have no further effect (`idempotentHint`).
    #[doc(alias = "idempotentHint")]
    #[must_use]
    pub fn idempotent(self) -> Self {
        self.annotate(|hints| hints.idempotent_hint(true))
    }

    fn annotate(mut self, change: impl FnOnce(ToolAnnotations) -> ToolAnnotations) -> Self {
        let hints = self.definition.annotations.take().unwrap_or_default();
        self.definition.annotations = Some(change(hints));
        self
    }

    /// Sets the icons.
    #[must_use]
    pub fn icons(mut self, icons: impl Into<Vec<Icon>>) -> Self {
        self.definition = self.definition.icons(icons);
        self
    }

    /// Sets the JSON Schema of the structured content, instead of the one derived from the return type.
    #[must_use]
    pub fn output_schema(mut self, schema: impl Into<Json>) -> Self {
        self.definition = self.definition.output_schema(schema);
        self
    }

    /// Sets the JSON Schema of the arguments, instead of the one derived from their type, for example to add
    /// `x-mcp-header`, examples or bounds.
    #[must_use]
    pub fn input_schema(mut self, schema: impl Into<Json>) -> Self {
        self.definition.input_schema = schema.into();
        self
    }

    /// Requires that a person approves each call with its exact arguments. The person is asked through elicitation if
    /// the client supports it, otherwise through the function given to
    /// [`McpServer::approve_with`](crate::McpServer::approve_with). Without either of them, the call fails.
    #[doc(alias = "consent")]
    #[doc(alias = "elicitation")]
    #[must_use]
    pub fn needs_approval(mut self) -> Self {
        self.needs_approval = true;
        self
    }

    /// Sets the scopes that a call over HTTP needs, in addition to those of the
    /// [server](crate::auth::ProtectedResource::scopes). A call without them gets status 403, from which the client learns
    /// which scopes to ask the user for. On stdio there are no scopes, and this has no effect.
    ///
    /// ```
    /// use mcp_server::tool;
    ///
    /// let delete = tool("delete", || async { "deleted" }).requires_scopes(["notes:write"]);
    /// ```
    #[doc(alias = "authorization")]
    #[must_use]
    pub fn requires_scopes<T: Into<String>>(mut self, scopes: impl IntoIterator<Item = T>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Adds a hook (middleware) around this tool. It runs after the hooks of the server and after the approval. The
    /// hook that was added last is the outermost, unlike in [`McpServer::around`](crate::McpServer::around).
    #[doc(alias = "middleware")]
    #[doc(alias = "hook")]
    ///
    /// ```
    /// use mcp_server::{Call, ToolError, tool};
    ///
    /// let greet = tool("greet", || async { "Hello!" }).around(|call: Call| async move {
    ///     match call.context().client_name() {
    ///         Some("rude") => Err(ToolError::new("say please")),
    ///         _ => call.run().await,
    ///     }
    /// });
    /// ```
    #[must_use]
    pub fn around<F, Fut>(mut self, function: F) -> Self
    where
        F: Fn(Call) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome, ToolError>> + Send + 'static,
    {
        let (hook, inner) = (hook(function), self.start);
        self.start = Arc::new(move |arguments, context| {
            let parsed = match arguments.parse() {
                Ok(parsed) => parsed,
                Err(error) => return Box::pin(ready(Err(ToolError::from(error)))),
            };
            let (inner, arguments) = (Arc::clone(&inner), Box::<str>::from(arguments));
            let next: Next = Box::new(move |cx| {
                let started = inner(&arguments, &mut || cx.clone());
                Box::pin(async move { Ok(Outcome::Tool(started.await?)) })
            });
            let hooked = before(&hook, &parsed, next)(context());
            Box::pin(async move {
                match hooked.await? {
                    Outcome::Tool(result) => Ok(result),
                    _ => Err(ToolError::refused(ErrorObject::new(
                        ErrorCode::InternalError,
                        "the handler failed",
                    ))),
                }
            })
        });
        self
    }

    /// Returns the definition that clients see.
    #[must_use]
    pub fn definition(&self) -> &Definition {
        &self.definition
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("definition", &self.definition).finish_non_exhaustive()
    }
}

/// A tool in the registry.
pub(crate) struct ToolEntry {
    pub(crate) definition: Definition,
    start: Arc<ToolFn>,
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only HTTP has headers"))]
    pub(crate) headers: ParamHeaders,
    pub(crate) name: Arc<str>,
    pub(crate) needs_approval: bool,
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only HTTP has scopes"))]
    pub(crate) scopes: Scopes,
    validator: Validator,
}

impl ToolEntry {
    /// Validates the arguments and starts the call.
    pub(crate) fn start(
        &self,
        arguments: &str,
        context: &mut dyn FnMut() -> Context,
    ) -> BoxFuture<ToolOutcome> {
        match self.check(arguments) {
            Ok(()) => (self.start)(arguments, context),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    /// Validates the arguments against the input schema. Does nothing without the feature `validate`.
    pub(crate) fn check(&self, arguments: &str) -> Result<(), ToolError> {
        let checked = self.validator.check(arguments);
        checked.map_err(|problem| ToolError::new(format!("invalid arguments: {problem}")))
    }

    /// Creates the entry, or returns the problem in the definition.
    pub(crate) fn new(tool: Tool) -> Result<Self, String> {
        let Tool { definition, start, needs_approval, scopes } = tool;
        let name = &definition.name;
        let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || name.len() > 128 || !name.chars().all(is_letter) {
            return Err(format!(
                "invalid tool name `{name}`: use 1 to 128 characters of A-Z, a-z, 0-9, `_`, `-`, `.`"
            ));
        }
        if definition.input_schema.member("type") != Some("\"object\"") {
            return Err(format!(
                "the arguments of tool `{name}` are not an object: the function must take a struct with named fields, \
                 whose schema has `\"type\": \"object\"`"
            ));
        }
        let headers =
            ParamHeaders::of(&definition.input_schema).map_err(|error| format!("tool `{name}`: {error}"))?;
        let validator = Validator::new(&definition.input_schema)
            .map_err(|problem| format!("invalid input schema of tool `{name}`: {problem}"))?;
        if let Some(scope) = scopes.iter().find(|scope| !is_scope(scope)) {
            return Err(format!(
                "`{scope}`, required by tool `{name}`, is not a scope: use visible ASCII characters without quotation marks"
            ));
        }
        let (name, scopes) = (name.as_str().into(), scopes.iter().collect());
        Ok(Self { definition, start, headers, name, needs_approval, scopes, validator })
    }
}

list_entry! { ToolEntry by name in ListToolsResult }
