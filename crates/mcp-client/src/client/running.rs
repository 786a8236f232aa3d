//! A tool call whose progress is read as a stream.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use crate::client::call::{ToolCall, ToolResult};
use crate::connection::progress::{Progress, ProgressQueue};
use crate::error::Result;

/// A tool call whose progress is read as a stream, created by [`ToolCall::running`]. The call advances only while
/// [`progress`](Self::progress) or [`outcome`](Self::outcome) is awaited. Dropping it cancels the call on the server.
///
/// ```no_run
/// # async fn example(client: mcp_client::McpClient) -> mcp_client::Result<()> {
/// let mut running = client.call("index", serde_json::json!({})).running();
/// while let Some(step) = running.progress().await {
///     println!("{} of {:?}", step.progress, step.total);
/// }
/// println!("{}", running.outcome().await?.text());
/// # Ok(()) }
/// ```
#[must_use = "a call advances only while its progress or outcome is awaited"]
pub struct RunningCall {
    future: Option<Pin<Box<dyn Future<Output = Result<ToolResult>> + Send>>>,
    outcome: Option<Result<ToolResult>>,
    steps: Arc<Mutex<ProgressQueue>>,
}

impl RunningCall {
    pub(crate) fn new(call: ToolCall) -> Self {
        let steps = Arc::new(Mutex::new(ProgressQueue::default()));
        let queue = Arc::clone(&steps);
        let call =
            call.on_progress(move |step| queue.lock().unwrap_or_else(PoisonError::into_inner).push(step));
        Self { future: Some(call.into_future()), outcome: None, steps }
    }

    /// Returns the next progress notification, or `None` after the call has ended.
    ///
    /// # Cancellation
    /// Cancel safe: nothing is lost.
    pub async fn progress(&mut self) -> Option<Progress> {
        poll_fn(|cx| {
            if let Some(step) = self.step() {
                return Poll::Ready(Some(step));
            }
            let is_over = self.poll_outcome(cx).is_ready();
            match self.step() {
                Some(step) => Poll::Ready(Some(step)),
                None if is_over => Poll::Ready(None),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Waits for the call to end, and returns its result. Progress that was not read is dropped.
    ///
    /// # Errors
    /// Fails if the server responds with an error, the call times out, or the connection is lost.
    pub async fn outcome(mut self) -> Result<ToolResult> {
        poll_fn(|cx| self.poll_outcome(cx)).await;
        match self.outcome.take() {
            Some(outcome) => outcome,
            // Unreachable: `poll_outcome` has set the outcome.
            None => std::future::pending().await,
        }
    }

    fn step(&self) -> Option<Progress> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(future) = &mut self.future else { return Poll::Ready(()) };
        match future.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(outcome) => {
                self.future = None;
                self.outcome = Some(outcome);
                Poll::Ready(())
            }
        }
    }
}

impl std::fmt::Debug for RunningCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunningCall").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}
