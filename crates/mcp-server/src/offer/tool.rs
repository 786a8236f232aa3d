//! Tools: a definition and its handler.

use std::fmt;
use std::future::{Future, ready};
use std::sync::Arc;

use async_trait::async_trait;
use mcp_protocol::Json;
use mcp_protocol::capabilities::Icon;
use mcp_protocol::codec::param_header::ParamHeaders;
use mcp_protocol::errors::{ErrorCode, ErrorObject};
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
/// known only at run time, or from a [`ToolSpec`].
#[derive(Clone)]
pub struct Tool {
    definition: Definition,
    start: Arc<ToolFn>,
    needs_approval: bool,
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
    Tool { definition, start: Arc::new(start), needs_approval: false }
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
        Self { definition, start: Arc::new(start), needs_approval: false }
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

/// A tool as a trait object, with the interface of RFC 2190 of this project (`docs/rfcs`). For most tools, the function
/// [`tool`] is simpler.
///
/// ```
/// use mcp_server::{Context, Json, McpServer, ToolError, ToolSpec, async_trait};
/// use mcp_protocol::tools::CallToolResult;
///
/// struct Echo;
///
/// #[async_trait]
/// impl ToolSpec for Echo {
///     fn name(&self) -> &str { "echo" }
///     fn description(&self) -> &str { "Returns its arguments." }
///     fn input_schema(&self) -> Json { serde_json::json!({"type": "object"}).into() }
///     async fn execute(&self, arguments: Json, _: Context) -> Result<CallToolResult, ToolError> {
///         Ok(CallToolResult::text(arguments.get()))
///     }
/// }
///
/// let server = McpServer::new(vec![std::sync::Arc::new(Echo)]);
/// ```
#[async_trait]
pub trait ToolSpec: Send + Sync + 'static {
    /// Returns the name.
    fn name(&self) -> &str;

    /// Returns the description, from which a language model learns when and how to call the tool.
    fn description(&self) -> &str;

    /// Returns the JSON Schema of the arguments, with `"type":"object"`.
    fn input_schema(&self) -> Json;

    /// Runs the tool with the arguments of one call.
    async fn execute(&self, arguments: Json, cx: Context) -> Result<CallToolResult, ToolError>;

    /// Returns the display name. Default: none.
    fn title(&self) -> Option<&str> {
        None
    }

    /// Returns the JSON Schema of the structured content. Default: none.
    fn output_schema(&self) -> Option<Json> {
        None
    }

    /// Returns the annotations: hints about the behaviour of the tool.
    fn annotations(&self) -> Option<ToolAnnotations> {
        None
    }

    /// Returns true if a person has to approve each call: see [`Tool::needs_approval`].
    fn needs_approval(&self) -> bool {
        false
    }
}

impl From<Arc<dyn ToolSpec>> for Tool {
    fn from(spec: Arc<dyn ToolSpec>) -> Self {
        let mut definition =
            Definition::new(spec.name(), spec.input_schema()).description(spec.description());
        definition.title = spec.title().map(Into::into);
        definition.output_schema = spec.output_schema();
        definition.annotations = spec.annotations();
        let needs_approval = spec.needs_approval();
        let start = move |arguments: &str, context: &mut dyn FnMut() -> Context| -> BoxFuture<ToolOutcome> {
            match arguments.parse() {
                Ok(arguments) => {
                    let (spec, cx) = (Arc::clone(&spec), context());
                    Box::pin(async move { cx.restore_question(spec.execute(arguments, cx.clone()).await) })
                }
                Err(error) => Box::pin(ready(Err(ToolError::from(error)))),
            }
        };
        Self { definition, start: Arc::new(start), needs_approval }
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
        let Tool { definition, start, needs_approval } = tool;
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
        let name = name.as_str().into();
        Ok(Self { definition, start, headers, name, needs_approval, validator })
    }
}

list_entry! { ToolEntry by name in ListToolsResult }
