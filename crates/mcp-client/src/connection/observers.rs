//! The metrics and the trace context that the host has configured for calls.

use std::fmt;
use std::sync::Arc;

use mcp_protocol::meta::Meta;
use mcp_protocol::metrics::Metrics;

/// A function that returns the trace context of the calling task.
pub(crate) type TraceContext = Arc<dyn Fn() -> Option<Meta> + Send + Sync>;

/// The observers that the host has set.
#[derive(Clone, Default)]
pub(crate) struct Observers {
    pub(crate) metrics: Option<Arc<dyn Metrics>>,
    pub(crate) trace_context: Option<TraceContext>,
}

impl Observers {
    /// Returns `envelope` with the current trace context of the host, or `None` if the host has no trace context now.
    pub(super) fn with_context(&self, envelope: Option<&Meta>) -> Option<Meta> {
        let context = self.trace_context.as_ref()?()?;
        let mut meta = envelope.cloned().unwrap_or_default();
        meta.traceparent = context.traceparent;
        meta.tracestate = context.tracestate;
        meta.baggage = context.baggage;
        Some(meta)
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observers")
            .field("metrics", &self.metrics.is_some())
            .field("trace_context", &self.trace_context.is_some())
            .finish()
    }
}
