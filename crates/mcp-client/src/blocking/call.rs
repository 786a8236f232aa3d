//! A tool call of the blocking client.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mcp_protocol::meta::Meta;

use super::thread::Thread;
use crate::client::call::{ToolCall as AsyncToolCall, ToolResult};
use crate::client::running::RunningCall as AsyncRunningCall;
use crate::connection::progress::Progress;
use crate::error::Result;

/// A tool call, which is made by [`send`](Self::send). It has the same options and timeouts as [`crate::ToolCall`].
#[derive(Debug)]
#[must_use = "a call begins with `send`"]
pub struct ToolCall {
    call: AsyncToolCall,
    thread: Arc<Thread>,
}

impl ToolCall {
    pub(super) fn new(call: AsyncToolCall, thread: Arc<Thread>) -> Self {
        Self { call, thread }
    }

    fn map(self, set: impl FnOnce(AsyncToolCall) -> AsyncToolCall) -> Self {
        Self { call: set(self.call), thread: self.thread }
    }

    /// Sets the idle timeout, which each progress notification resets. Default: 60 s.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.map(|call| call.timeout(timeout))
    }

    /// Sets the total timeout, which progress does not reset. Default: 600 s.
    pub fn total_timeout(self, timeout: Duration) -> Self {
        self.map(|call| call.total_timeout(timeout))
    }

    /// Calls `f` for each progress notification, in order, on the client's thread. See
    /// [`crate::ToolCall::on_progress`].
    pub fn on_progress(self, f: impl FnMut(Progress) + Send + 'static) -> Self {
        self.map(|call| call.on_progress(f))
    }

    /// Cancels the call when this future completes, for example the receiver of a `tokio::sync::oneshot` channel.
    pub fn cancel_when(self, cancel: impl Future<Output = ()> + Send + 'static) -> Self {
        self.map(|call| call.cancel_when(cancel))
    }

    /// Adds members to the call's `_meta`.
    pub fn meta(self, meta: Meta) -> Self {
        self.map(|call| call.meta(meta))
    }

    /// Converts the call into a [`RunningCall`], to read its progress before its result.
    pub fn running(self) -> RunningCall {
        RunningCall { call: Some(self.call.running()), thread: self.thread }
    }

    /// Makes the call, and waits for its result.
    ///
    /// # Errors
    /// Fails if the server responds with an error, the call times out, or the connection is lost.
    pub fn send(self) -> Result<ToolResult> {
        self.thread.run(self.call.into_future())?
    }
}

/// The call as a future, for [`McpClient::unless_interrupted`](super::McpClient::unless_interrupted) and
/// [`McpClient::with`](super::McpClient::with).
impl IntoFuture for ToolCall {
    type Output = Result<ToolResult>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        self.call.into_future()
    }
}

/// A tool call whose progress is read before its result. It advances only during [`progress`](Self::progress) and
/// [`outcome`](Self::outcome). Dropping it cancels the call on the server.
///
/// ```no_run
/// # fn example(client: mcp_client::blocking::McpClient) -> mcp_client::Result<()> {
/// let mut running = client.call("index", ()).running();
/// while let Some(step) = running.progress() {
///     println!("{} of {:?}", step.progress, step.total);
/// }
/// println!("{}", running.outcome()?.text());
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a call advances only while its progress or outcome is read"]
pub struct RunningCall {
    /// `None` after reading progress has failed.
    call: Option<AsyncRunningCall>,
    thread: Arc<Thread>,
}

impl RunningCall {
    /// Waits for the next progress notification. Returns `None` after the call has ended.
    pub fn progress(&mut self) -> Option<Progress> {
        let mut call = self.call.take()?;
        let read = async move { (call.progress().await, call) };
        let (step, call) = self.thread.run(read).ok()?;
        self.call = Some(call);
        step
    }

    /// Waits for the call to end, and returns its result. Progress that was not read is dropped.
    ///
    /// # Errors
    /// Fails if the server responds with an error, the call times out, or the connection is lost.
    pub fn outcome(self) -> Result<ToolResult> {
        let Some(call) = self.call else { return Err(super::thread::gone()) };
        self.thread.run(call.outcome())?
    }
}
