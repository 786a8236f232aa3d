//! Tools as trait objects.

use std::future::ready;
use std::sync::Arc;

use async_trait::async_trait;
use mcp_protocol::Json;
use mcp_protocol::tools::{CallToolResult, Tool as Definition, ToolAnnotations};

use super::tool::{Tool, ToolOutcome};
use crate::call::BoxFuture;
use crate::call::context::Context;
use crate::error::ToolError;

/// A tool as a trait object, with the interface of RFC 2190 of this project (`docs/rfcs`). For most tools, the function
/// [`tool`](crate::tool) is simpler.
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
        Self { definition, start: Arc::new(start), needs_approval, scopes: Vec::new() }
    }
}
