//! Functions that block: computing for long, or waiting without `await`.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use tokio::task::JoinHandle;

use crate::context::Context;
use crate::handler::{Handler, NoArgs};

/// Makes a handler of a function that is not async and takes its time: it runs on a thread of its own.
///
/// ```
/// use mcp_server::{Context, McpServer, NoArgs, blocking, tool};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Count { up_to: u64 }
///
/// // A thread cannot be stopped from outside: what takes long looks whether it is still wanted.
/// fn count(Count { up_to }: Count, cx: Context) -> String {
///     let counted = (0..up_to).take_while(|_| !cx.is_cancelled()).count();
///     format!("counted {counted}")
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut client = McpServer::new(vec![]).tool(tool("count", blocking(count))).test_client().await?;
/// assert_eq!(client.call("count", serde_json::json!({"up_to": 1000})).await?.text(), "counted 1000");
/// # Ok(()) }
/// ```
///
/// The threads are those of the runtime's blocking pool, at most 512 unless its builder says otherwise.
///
/// # Cancellation
/// A call that is cancelled before a thread was free does not run; one that runs goes on to its end, and its result
/// is dropped.
pub fn blocking<F>(function: F) -> Blocking<F> {
    Blocking(Arc::new(function))
}

/// A function that blocks, as a handler. Made by [`blocking`].
#[derive(Debug)]
pub struct Blocking<F>(Arc<F>);

/// The shape of a handler made by [`blocking`].
#[derive(Debug)]
pub struct BlockingShape<Shape>(PhantomData<Shape>);

impl<F, R> Handler<BlockingShape<()>> for Blocking<F>
where
    F: Fn() -> R + Send + Sync + 'static,
    R: Send + 'static,
{
    type Args = NoArgs;
    type Output = R;
    type Future = OnThread<R>;

    fn call(&self, _: NoArgs, _: impl FnOnce() -> Context) -> OnThread<R> {
        let function = Arc::clone(&self.0);
        OnThread::spawn(move || function())
    }
}

impl<F, A, R> Handler<BlockingShape<(A,)>> for Blocking<F>
where
    F: Fn(A) -> R + Send + Sync + 'static,
    A: Send + 'static,
    R: Send + 'static,
{
    type Args = A;
    type Output = R;
    type Future = OnThread<R>;

    fn call(&self, args: A, _: impl FnOnce() -> Context) -> OnThread<R> {
        let function = Arc::clone(&self.0);
        OnThread::spawn(move || function(args))
    }
}

impl<F, A, R> Handler<BlockingShape<(A, Context)>> for Blocking<F>
where
    F: Fn(A, Context) -> R + Send + Sync + 'static,
    A: Send + 'static,
    R: Send + 'static,
{
    type Args = A;
    type Output = R;
    type Future = OnThread<R>;

    fn call(&self, args: A, context: impl FnOnce() -> Context) -> OnThread<R> {
        let (function, context) = (Arc::clone(&self.0), context());
        OnThread::spawn(move || function(args, context))
    }
}

/// The result of a function that runs on a thread of its own.
#[derive(Debug)]
pub struct OnThread<R>(JoinHandle<R>);

impl<R: Send + 'static> OnThread<R> {
    fn spawn(function: impl FnOnce() -> R + Send + 'static) -> Self {
        let span = tracing::Span::current();
        Self(tokio::task::spawn_blocking(move || span.in_scope(function)))
    }
}

impl<R> Future for OnThread<R> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<R> {
        match Pin::new(&mut self.0).poll(cx) {
            Poll::Ready(Ok(result)) => Poll::Ready(result),
            Poll::Ready(Err(error)) => match error.try_into_panic() {
                // It hurts this call, as if it had happened here.
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is going down, and this future with it.
                Err(_) => Poll::Pending,
            },
            Poll::Pending => Poll::Pending,
        }
    }
}

/// What waits for a thread need not run any more.
impl<R> Drop for OnThread<R> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
