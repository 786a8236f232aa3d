//! Observation of calls: one `tracing` event at the end of each call, and the metrics set by the program.

use std::sync::Arc;
use std::time::Instant;

use mcp_protocol::messages::{Method, Request};
use mcp_protocol::metrics::{CallEnd, CallLabels, CallOutcome};
use mcp_protocol::safe_text::SafeText;
use mcp_protocol::wire_trace::without_query;
use tracing::Level;

use super::core::Core;
use crate::call::reply::Reply;

/// The target of the `tracing` event, by which programs filter it.
const TARGET: &str = "mcp_server::call";

/// An observed call in flight. If it is dropped before its end was reported, it is reported as cancelled.
pub(crate) struct CallObservation {
    core: Arc<Core>,
    server: String,
    method: Method,
    name: Option<Arc<str>>,
    bytes: usize,
    began: Instant,
    is_ended: bool,
}

impl CallObservation {
    /// Begins to observe a call. Returns `None` if there are no metrics and the `tracing` event is disabled; that check
    /// costs a load and a branch.
    pub(super) fn begin(
        core: &Arc<Core>,
        request: &Request<'_>,
        name: Option<&Arc<str>>,
    ) -> Option<Box<Self>> {
        if core.metrics.is_none() && !tracing::enabled!(target: TARGET, Level::DEBUG) {
            return None;
        }
        let call = Self {
            core: Arc::clone(core),
            server: core.registry.snapshot().settings.implementation.name.clone(),
            method: request.method.clone(),
            name: name.map(|name| without_query(name).into()),
            bytes: request.params.text().len(),
            began: Instant::now(),
            is_ended: false,
        };
        if let Some(metrics) = &core.metrics {
            metrics.call_started(&call.labels());
        }
        Some(Box::new(call))
    }

    fn labels(&self) -> CallLabels<'_> {
        CallLabels::new(&self.method, self.name.as_deref(), &self.server)
    }

    /// Reports the end of a request that was answered without a handler.
    pub(super) fn end_with(self, reply: &Reply) {
        self.end(match reply {
            Reply::Error(_) => CallOutcome::Refused,
            Reply::Overloaded(_) => CallOutcome::Failed,
            _ => CallOutcome::Completed,
        });
    }

    pub(super) fn end(mut self, outcome: CallOutcome) {
        self.report(outcome);
    }

    fn report(&mut self, outcome: CallOutcome) {
        self.is_ended = true;
        let end = CallEnd::new(outcome, self.began.elapsed(), self.bytes);
        if let Some(metrics) = &self.core.metrics {
            metrics.call_ended(&self.labels(), &end);
        }
        tracing::debug!(
            target: TARGET,
            method = %SafeText::name(self.method.as_str()),
            name = self.name.as_deref().map(|name| tracing::field::display(SafeText::name(name))),
            server = %SafeText::name(&self.server),
            outcome = outcome.as_str(),
            ms = u64::try_from(end.elapsed.as_millis()).unwrap_or(u64::MAX),
            bytes = self.bytes,
            "call ended"
        );
    }
}

impl Drop for CallObservation {
    fn drop(&mut self) {
        if !self.is_ended {
            self.report(CallOutcome::Cancelled);
        }
    }
}
