//! Calls that may be observed: one `tracing` event at the end of each call, and the metrics of the host.

use std::pin::{Pin, pin};
use std::time::Instant;

use mcp_protocol::dialect::Lower;
use mcp_protocol::messages::{Method, OwnedBody};
use mcp_protocol::metrics::{CallEnd, CallLabels, CallOutcome};
use mcp_protocol::peer::Timeouts;
use mcp_protocol::safe_text::SafeText;
use tracing::{Instrument, Level};

use crate::client::McpClient;
use crate::client::input_rounds::{self, OnProgress, RoundParams};
use crate::connection::{Connection, RequestOptions, now};
use crate::error::{Error, Result};

/// The `tracing` target of the event and of the span, for filters.
const TARGET: &str = "mcp_client::call";

/// Returns true if calls are observed: by a `tracing` subscriber or by the metrics of the host.
pub(crate) fn is_observed(connection: &Connection) -> bool {
    connection.terms.observers.metrics.is_some() || tracing::enabled!(target: TARGET, Level::DEBUG)
}

/// Sends a request until its result is complete, like [`input_rounds::run`], and reports the call if it is observed.
pub(crate) async fn run_observed(
    client: &McpClient,
    method: &Method,
    params: &mut dyn RoundParams,
    timeouts: Timeouts,
    on_progress: Option<&mut OnProgress>,
) -> Result<OwnedBody> {
    let connection = &client.inner().connection;
    let name = is_observed(connection).then(|| params.name());
    let call = pin!(input_rounds::run(client, method, params, timeouts, on_progress));
    observed(connection, method, name, call).await
}

impl McpClient {
    /// Makes a request without input rounds, and reports the call if calls are observed. After a failure, the request
    /// is sent again if a retry is safe.
    pub(crate) async fn send(
        &self,
        method: &Method,
        params: &(dyn Lower + Sync),
        options: RequestOptions,
    ) -> Result<OwnedBody> {
        let call = pin!(self.send_with_retry(method, params, options));
        observed(&self.inner().connection, method, None, call).await
    }
}

/// Runs a call, and reports its end if calls are observed. If they are not, this costs a load and a branch.
async fn observed(
    connection: &Connection,
    method: &Method,
    name: Option<String>,
    call: Pin<&mut (dyn Future<Output = Result<OwnedBody>> + Send)>,
) -> Result<OwnedBody> {
    if !is_observed(connection) {
        return call.await;
    }
    // Boxed because this path is rare: it keeps the common future small.
    Box::pin(async {
        let observed = ObservedCall::begin(connection, method, name);
        let outcome = call.instrument(observed.span()).await;
        observed.end(&outcome);
        outcome
    })
    .await
}

/// A call in flight. If it is dropped before the call has ended, the call is reported as cancelled.
struct ObservedCall<'a> {
    connection: &'a Connection,
    method: &'a Method,
    name: Option<String>,
    began: Instant,
    is_ended: bool,
}

impl<'a> ObservedCall<'a> {
    fn begin(connection: &'a Connection, method: &'a Method, name: Option<String>) -> Self {
        let call = Self { connection, method, name, began: now(), is_ended: false };
        if let Some(metrics) = &connection.terms.observers.metrics {
            metrics.call_started(&call.labels());
        }
        call
    }

    fn labels(&self) -> CallLabels<'_> {
        CallLabels::new(self.method, self.name.as_deref(), &self.connection.terms.server)
    }

    fn span(&self) -> tracing::Span {
        tracing::debug_span!(
            target: TARGET,
            "call",
            method = %SafeText::name(self.method.as_str()),
            name = self.name.as_deref().map(|name| tracing::field::display(SafeText::name(name))),
            server = %SafeText::name(&self.connection.terms.server),
        )
    }

    fn end(mut self, outcome: &Result<OwnedBody>) {
        let bytes = outcome.as_ref().map_or(0, |body| body.text().len());
        self.report(kind(outcome), bytes);
    }

    fn report(&mut self, outcome: CallOutcome, bytes: usize) {
        self.is_ended = true;
        let end = CallEnd::new(outcome, now().saturating_duration_since(self.began), bytes);
        if let Some(metrics) = &self.connection.terms.observers.metrics {
            metrics.call_ended(&self.labels(), &end);
        }
        tracing::debug!(
            target: TARGET,
            method = %SafeText::name(self.method.as_str()),
            name = self.name.as_deref().map(|name| tracing::field::display(SafeText::name(name))),
            server = %SafeText::name(&self.connection.terms.server),
            outcome = outcome.as_str(),
            ms = u64::try_from(end.elapsed.as_millis()).unwrap_or(u64::MAX),
            bytes,
            "call ended"
        );
    }
}

impl Drop for ObservedCall<'_> {
    fn drop(&mut self) {
        if !self.is_ended {
            self.report(CallOutcome::Cancelled, 0);
        }
    }
}

fn kind(outcome: &Result<OwnedBody>) -> CallOutcome {
    match outcome {
        Ok(body) if matches!(body.body().member("isError"), Ok(Some("true"))) => CallOutcome::ToolError,
        Ok(_) => CallOutcome::Completed,
        Err(Error::Refused { .. }) => CallOutcome::Refused,
        Err(Error::TimedOut { .. }) => CallOutcome::TimedOut,
        Err(Error::Cancelled { .. }) => CallOutcome::Cancelled,
        Err(Error::Lost { .. } | Error::TooManyRestarts { .. }) => CallOutcome::Lost,
        Err(_) => CallOutcome::Failed,
    }
}
