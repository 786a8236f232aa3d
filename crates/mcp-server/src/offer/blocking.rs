//! Handlers that block their thread: long computations and synchronous I/O.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, LazyLock};
use std::thread;

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};

use crate::call::BoxFuture;
use crate::call::context::Context;
use crate::offer::handler::{Handler, NoArgs};

/// The maximum number of blocking handlers that run at once in the process.
const MAX_BLOCKING_THREADS: usize = 64;

static BLOCKING_PERMITS: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new(MAX_BLOCKING_THREADS)));

/// Creates a handler from a synchronous function. Each call runs on its own thread.
///
/// ```
/// use mcp_server::{Context, McpServer, NoArgs, blocking, tool};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Count { up_to: u64 }
///
/// // A thread cannot be stopped from outside, so a long computation checks for cancellation.
/// fn count(Count { up_to }: Count, cx: Context) -> String {
///     let counted = (0..up_to).take_while(|_| !cx.is_cancelled()).count();
///     format!("counted {counted}")
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = McpServer::new(vec![]).tool(tool("count", blocking(count)));
/// let mut client = mcp_server::testing::RawClient::new(server)?;
/// let call = serde_json::json!({"name": "count", "arguments": {"up_to": 1000}});
/// let response = client.request("tools/call", call).await?;
/// assert_eq!(response["result"]["content"][0]["text"], "counted 1000");
/// # Ok(()) }
/// ```
///
/// At most 64 blocking handlers run at once in a process; further calls wait in a queue. A shutdown of the server does
/// not wait for blocking handlers: the process may exit while one runs.
///
/// # Cancellation
/// A call that is cancelled while it waits in the queue does not run. A call that is cancelled while it runs continues
/// to its end, and its result is dropped.
#[doc(alias = "spawn_blocking")]
pub fn blocking<F>(function: F) -> Blocking<F> {
    Blocking(Arc::new(function))
}

/// A synchronous function as a handler. Created by [`blocking`].
#[derive(Debug)]
pub struct Blocking<F>(Arc<F>);

/// The `Shape` of [`Handler`] for functions wrapped by [`blocking`]. It only distinguishes the implementations for the
/// compiler; programs never name it.
#[derive(Debug)]
pub struct BlockingShape<Shape>(PhantomData<Shape>);

#[diagnostic::do_not_recommend]
impl<F, R> Handler<BlockingShape<()>> for Blocking<F>
where
    F: Fn() -> R + Send + Sync + 'static,
    R: Send + 'static,
{
    type Args = NoArgs;
    type Output = R;
    type Future = BoxFuture<R>;

    fn call(&self, _: NoArgs, _: impl FnOnce() -> Context) -> BoxFuture<R> {
        let function = Arc::clone(&self.0);
        on_thread(move || function())
    }
}

#[diagnostic::do_not_recommend]
impl<F, A, R> Handler<BlockingShape<(A,)>> for Blocking<F>
where
    F: Fn(A) -> R + Send + Sync + 'static,
    A: Send + 'static,
    R: Send + 'static,
{
    type Args = A;
    type Output = R;
    type Future = BoxFuture<R>;

    fn call(&self, args: A, _: impl FnOnce() -> Context) -> BoxFuture<R> {
        let function = Arc::clone(&self.0);
        on_thread(move || function(args))
    }
}

#[diagnostic::do_not_recommend]
impl<F, A, R> Handler<BlockingShape<(A, Context)>> for Blocking<F>
where
    F: Fn(A, Context) -> R + Send + Sync + 'static,
    A: Send + 'static,
    R: Send + 'static,
{
    type Args = A;
    type Output = R;
    type Future = BoxFuture<R>;

    fn call(&self, args: A, context: impl FnOnce() -> Context) -> BoxFuture<R> {
        let (function, context) = (Arc::clone(&self.0), context());
        on_thread(move || function(args, context))
    }
}

/// Runs a function on a new thread as soon as a permit is free. The blocking threads of the runtime (`spawn_blocking`)
/// are not used, because the shutdown of the runtime waits for them.
fn on_thread<R: Send + 'static>(function: impl FnOnce() -> R + Send + 'static) -> BoxFuture<R> {
    Box::pin(async move {
        let permit = Arc::clone(&BLOCKING_PERMITS).acquire_owned().await;
        let (sender, receiver) = oneshot::channel();
        let (span, runtime) = (tracing::Span::current(), Handle::current());
        let work = move || {
            let _entered = runtime.enter();
            let done = catch_unwind(AssertUnwindSafe(|| span.in_scope(function)));
            drop(permit);
            // Fails if the call was cancelled.
            let _ = sender.send(done);
        };
        if let Err(error) = thread::Builder::new().name("mcp-blocking".to_owned()).spawn(work) {
            resume_unwind(Box::new(error.to_string()));
        }
        match receiver.await {
            Ok(Ok(result)) => result,
            // As in an async handler, the panic makes only this call fail.
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => resume_unwind(Box::new("the thread of the blocking handler ended without a result")),
        }
    })
}
