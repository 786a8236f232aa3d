//! Hooks: middleware around calls.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use mcp_protocol::Json;
use mcp_protocol::messages::Method;
use mcp_protocol::prompts::GetPromptResult;
use mcp_protocol::resources::ReadResourceResult;
use mcp_protocol::tools::CallToolResult;

use crate::call::BoxFuture;
use crate::call::context::Context;
use crate::call::reply::Reply;
use crate::error::ToolError;

/// The return type of a hook.
pub(crate) type HookResult = Result<Outcome, ToolError>;
/// A hook function.
pub(crate) type Hook = dyn Fn(Call) -> BoxFuture<HookResult> + Send + Sync;
/// The next hook, or the handler.
pub(crate) type Next = Box<dyn FnOnce(Context) -> BoxFuture<HookResult> + Send>;

/// A call that was passed to a hook (middleware), before its handler runs.
///
/// A hook is a function that receives a call and returns its outcome or an error. It can inspect the call,
/// [`run`](Self::run) it or refuse it:
///
/// ```
/// use std::time::Instant;
/// use mcp_server::{Call, McpServer, ToolError, tool};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = McpServer::named("timed", "1")
///     .tool(tool("hello", || async { "Hello!" }))
///     .tool(tool("secret", || async { "never returned" }))
///     .around(|call: Call| async move {
///         if call.context().name() == "secret" {
///             return Err(ToolError::new("not for you"));
///         }
///         let (name, began) = (call.context().name().to_owned(), Instant::now());
///         let outcome = call.run().await;
///         eprintln!("{name} took {:?}", began.elapsed());
///         outcome
///     });
/// let mut client = mcp_server::testing::RawClient::new(server)?;
/// for (name, text) in [("hello", "Hello!"), ("secret", "not for you")] {
///     let response = client.request("tools/call", serde_json::json!({"name": name})).await?;
///     assert_eq!(response["result"]["content"][0]["text"], text);
/// }
/// # Ok(()) }
/// ```
///
/// With a modern client, a call that asks a question ends with [`AskError::Unanswered`](crate::AskError::Unanswered)
/// and runs again when the client sends the answer. A hook is called for each of these runs.
pub struct Call {
    context: Context,
    arguments: Json,
    next: Next,
}

impl Call {
    /// Returns the context of the call: method, name, principal, client.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Returns the arguments as the client sent them; an empty object for `resources/read`.
    #[must_use]
    pub fn arguments(&self) -> &Json {
        &self.arguments
    }

    /// Runs the next hook, or the handler after the last hook. If the call is dropped without `run`, the remaining
    /// hooks and the handler do not run.
    ///
    /// # Errors
    /// Returns the error of the handler or of an inner hook.
    pub async fn run(self) -> Result<Outcome, ToolError> {
        (self.next)(self.context).await
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("context", &self.context).finish_non_exhaustive()
    }
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// The result of `tools/call`.
    Tool(CallToolResult),
    /// The result of `prompts/get`.
    Prompt(GetPromptResult),
    /// The result of `resources/read`.
    Read(ReadResourceResult),
}

impl Outcome {
    /// Converts the outcome into a reply; `None` if the outcome does not match the method.
    pub(crate) fn into_reply(self, method: &Method) -> Option<Reply> {
        match (self, method) {
            (Self::Tool(result), Method::ToolsCall) => Some(Reply::result(result)),
            (Self::Prompt(result), Method::PromptsGet) => Some(Reply::result(result)),
            (Self::Read(result), Method::ResourcesRead) => Some(Reply::result(result)),
            _ => None,
        }
    }
}

impl From<CallToolResult> for Outcome {
    fn from(result: CallToolResult) -> Self {
        Self::Tool(result)
    }
}

/// Boxes a hook function.
pub(crate) fn hook<F, Fut>(function: F) -> Arc<Hook>
where
    F: Fn(Call) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = HookResult> + Send + 'static,
{
    Arc::new(move |call| Box::pin(function(call)))
}

/// Returns a `Next` that runs the hook before `next`.
pub(crate) fn before(hook: &Arc<Hook>, arguments: &Json, next: Next) -> Next {
    let (hook, arguments) = (Arc::clone(hook), arguments.clone());
    Box::new(move |context| hook(Call { context, arguments, next }))
}
