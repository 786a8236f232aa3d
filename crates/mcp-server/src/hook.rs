//! Around calls: what happens before them, after them, or instead of them.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use mcp_protocol::Json;
use mcp_protocol::messages::Method;
use mcp_protocol::prompts::GetPromptResult;
use mcp_protocol::resources::ReadResourceResult;
use mcp_protocol::tools::CallToolResult;

use crate::context::Context;
use crate::error::ToolError;
use crate::reply::Reply;
use crate::tool::BoxFuture;

/// What a hook gives.
pub(crate) type Hooked = Result<Outcome, ToolError>;
/// A function that is called with [`Call`]s.
pub(crate) type Hook = dyn Fn(Call) -> BoxFuture<Hooked> + Send + Sync;
/// What comes after a hook: the next one, or the function.
pub(crate) type Next = Box<dyn FnOnce(Context) -> BoxFuture<Hooked> + Send>;

/// A call on its way to its function, in the hands of a hook.
///
/// A hook is a function from a call to its outcome. It looks at the call, lets it [`run`](Self::run) or not, and
/// returns what it likes:
///
/// ```
/// use std::time::Instant;
/// use mcp_server::{Call, McpServer, ToolError, tool};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = McpServer::named("timed", "1")
///     .tool(tool("hello", || async { "Hello!" }))
///     .tool(tool("secret", || async { "never said" }))
///     .around(|call: Call| async move {
///         if call.context().name() == "secret" {
///             return Err(ToolError::new("not for you"));
///         }
///         let (name, began) = (call.context().name().to_owned(), Instant::now());
///         let outcome = call.run().await;
///         eprintln!("{name} took {:?}", began.elapsed());
///         outcome
///     });
/// let mut client = server.test_client().await?;
/// assert_eq!(client.call("hello", serde_json::json!({})).await?.text(), "Hello!");
/// assert_eq!(client.call("secret", serde_json::json!({})).await?.text(), "not for you");
/// # Ok(()) }
/// ```
///
/// In the modern era a call that asks ends with [`AskError::Unanswered`](crate::AskError::Unanswered) and begins
/// again with the answer; a hook sees each of these runs.
pub struct Call {
    context: Context,
    arguments: Json,
    next: Next,
}

impl Call {
    /// Who calls what: method, name, principal, client.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The arguments as the client sent them; an empty object for the reading of a resource.
    #[must_use]
    pub fn arguments(&self) -> &Json {
        &self.arguments
    }

    /// Lets the call go on. A call that is dropped instead does not happen.
    ///
    /// # Errors
    /// Those of the function, and of the hooks in between.
    pub async fn run(self) -> Result<Outcome, ToolError> {
        (self.next)(self.context).await
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("context", &self.context).finish_non_exhaustive()
    }
}

/// What a call ended with.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// A tool was called.
    Tool(CallToolResult),
    /// A prompt was filled in.
    Prompt(GetPromptResult),
    /// A resource was read.
    Read(ReadResourceResult),
}

impl Outcome {
    /// The reply to a request, or `None` if this is an outcome of something else.
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

/// A hook of any function that has the shape of one.
pub(crate) fn hook<F, Fut>(function: F) -> Arc<Hook>
where
    F: Fn(Call) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Hooked> + Send + 'static,
{
    Arc::new(move |call| Box::pin(function(call)))
}

/// Puts a hook before what comes next.
pub(crate) fn before(hook: &Arc<Hook>, arguments: &Json, next: Next) -> Next {
    let (hook, arguments) = (Arc::clone(hook), arguments.clone());
    Box::new(move |context| hook(Call { context, arguments, next }))
}
