//! Counters and gauges of a client or a server, for any metrics system.
//!
//! A program implements [`Metrics`] with the counters of its metrics system, and passes it to `mcp-client` or
//! `mcp-server`. Without an implementation, nothing is counted and no clock is read.

use std::time::Duration;

use crate::messages::Method;

/// Receives the events that are counted and measured. The methods are called while messages are handled, so they must
/// be fast and must not block.
///
/// | metric | kind | how |
/// |---|---|---|
/// | calls, and errors by kind | counter | [`call_ended`](Self::call_ended), by [`CallEnd::outcome`] |
/// | calls in flight | gauge | plus one in [`call_started`](Self::call_started), minus one in [`call_ended`](Self::call_ended) |
/// | duration of calls | histogram | [`CallEnd::elapsed`] |
/// | bytes | counter | [`CallEnd::bytes`] |
/// | restarts of servers | counter | [`server_restarted`](Self::server_restarted) |
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use mcp_protocol::metrics::{CallEnd, CallLabels, CallOutcome, Metrics};
///
/// #[derive(Default)]
/// struct Counters {
///     calls: AtomicU64,
///     failed: AtomicU64,
/// }
///
/// impl Metrics for Counters {
///     fn call_ended(&self, _: &CallLabels<'_>, end: &CallEnd) {
///         self.calls.fetch_add(1, Ordering::Relaxed);
///         if end.outcome != CallOutcome::Completed {
///             self.failed.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
/// ```
pub trait Metrics: Send + Sync + 'static {
    /// Called when a call has started. Exactly one [`call_ended`](Self::call_ended) follows.
    fn call_started(&self, call: &CallLabels<'_>) {
        let _ = call;
    }

    /// Called when a call has ended, successfully or not.
    fn call_ended(&self, call: &CallLabels<'_>, end: &CallEnd) {
        let _ = (call, end);
    }

    /// Called when a server that had exited was restarted. Only clients call it.
    fn server_restarted(&self, server: &str) {
        let _ = server;
    }
}

/// The labels of a call. Each label has few distinct values, except the URIs of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallLabels<'a> {
    /// The method, such as `tools/call`.
    pub method: &'a Method,
    /// The name of the tool or prompt, or the URI of the resource without its query. `None` for other methods, and on
    /// a server that does not have this tool, prompt or resource.
    pub name: Option<&'a str>,
    /// The name of the server.
    pub server: &'a str,
}

impl<'a> CallLabels<'a> {
    /// Creates the labels of a call.
    #[must_use]
    pub fn new(method: &'a Method, name: Option<&'a str>, server: &'a str) -> Self {
        Self { method, name, server }
    }
}

/// The end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallEnd {
    /// Whether the call succeeded, and the kind of error if it did not.
    pub outcome: CallOutcome,
    /// The duration of the call.
    pub elapsed: Duration,
    /// The size of the received body in bytes: the result on a client, the params on a server.
    pub bytes: usize,
}

impl CallEnd {
    /// Creates the end of a call.
    #[must_use]
    pub fn new(outcome: CallOutcome, elapsed: Duration, bytes: usize) -> Self {
        Self { outcome, elapsed, bytes }
    }
}

/// Whether a call succeeded, and the kind of error if it did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CallOutcome {
    /// The call succeeded.
    Completed,
    /// The tool reported an error (`isError`).
    ToolError,
    /// The response was a JSON-RPC error.
    Refused,
    /// The server asked for input; the client repeats the call with the input. Only servers report this.
    InputRequired,
    /// The call timed out.
    TimedOut,
    /// The caller cancelled the call.
    Cancelled,
    /// The connection was lost.
    Lost,
    /// The handler panicked.
    Panicked,
    /// Any other error, such as a response that cannot be read.
    Failed,
}

impl CallOutcome {
    /// Returns the outcome as a label: `completed`, `tool_error`, `refused`, `input_required`, `timed_out`,
    /// `cancelled`, `lost`, `panicked` or `failed`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::ToolError => "tool_error",
            Self::Refused => "refused",
            Self::InputRequired => "input_required",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
            Self::Panicked => "panicked",
            Self::Failed => "failed",
        }
    }
}
