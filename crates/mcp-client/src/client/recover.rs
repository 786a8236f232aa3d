//! Sends one request, and sends it again if `mcp_protocol::retry` decides so.

use std::time::{Duration, Instant};

use mcp_protocol::dialect::Lower;
use mcp_protocol::errors::ErrorCode;
use mcp_protocol::messages::{Method, OwnedBody};
use mcp_protocol::peer::Timeouts;
use mcp_protocol::retry::{Decision, Failure, Retry};

use crate::client::{Inner, McpClient};
use crate::connection::transport::Exchanges;
use crate::connection::{InFlightRequest, RequestOptions, now};
use crate::error::{Error, Result, Sent};

impl McpClient {
    /// Makes a request, and sends it again after a failure if a retry is safe.
    pub(super) async fn send_with_retry(
        &self,
        method: &Method,
        params: &(dyn Lower + Sync),
        mut options: RequestOptions,
    ) -> Result<OwnedBody> {
        let connection = &self.inner().connection;
        let began = now();
        match Self::response(connection.request(method, params, options)).await {
            Err(error) => {
                options.timeouts.total =
                    self.recover_from(&mut self.new_retry(method), error, options.timeouts, began).await?;
                connection.request(method, params, options)?.await
            }
            body => body,
        }
    }

    async fn response(request: Result<InFlightRequest>) -> Result<OwnedBody> {
        request?.await
    }

    /// Returns the machine that decides whether a request is sent again.
    pub(crate) fn new_retry(&self, method: &Method) -> Retry {
        Retry::new(method, self.inner().connection.terms.transport.route())
    }

    /// Waits until a request that failed can be sent again. Returns what is left of its total timeout (`None` if it has
    /// none), or the error if the request must not be sent again.
    pub(crate) async fn recover_from(
        &self,
        retry: &mut Retry,
        error: Error,
        timeouts: Timeouts,
        began: Instant,
    ) -> Result<Option<Duration>> {
        let decision = retry.handle_failure(&self.failure(&error), None, now());
        let left =
            || timeouts.total.map(|total| total.saturating_sub(now().saturating_duration_since(began)));
        let clock = timeouts.idle.into_iter().chain(left()).min();
        let recovered = match clock {
            Some(clock) => tokio::time::timeout(clock, self.carry_out(decision)).await.unwrap_or(None),
            None => self.carry_out(decision).await,
        };
        match (recovered, left()) {
            (None, _) | (Some(Ok(())), Some(Duration::ZERO)) => Err(error),
            (Some(Err(error)), _) => Err(error),
            (Some(Ok(())), left) => Ok(left),
        }
    }

    fn failure(&self, error: &Error) -> Failure {
        match error {
            Error::Lost { sent: Sent::No, .. } => Failure::NotSent,
            Error::Lost { sent: Sent::Maybe, .. } => Failure::MaybeSent,
            Error::Refused { error, .. }
                if error.code == ErrorCode::HeaderMismatch && self.dialect().is_modern() =>
            {
                Failure::HeaderMismatch
            }
            Error::Unauthorized { .. } => Failure::Unauthorized,
            _ => Failure::Other,
        }
    }

    /// Carries out a decision: waits, restarts the server or lists the tools. Returns `None` if the request must not be
    /// sent again, and an error if the action failed.
    async fn carry_out(&self, decision: Decision) -> Option<Result<()>> {
        match decision {
            Decision::RestartServer => return self.restart().await,
            Decision::Again { .. } if self.inner().connection.ended().is_some() => return None,
            Decision::Again { after } => tokio::time::sleep(after).await,
            Decision::RefreshTools => self.refresh_tools().await,
            // A login is not implemented yet. Sessions are renewed by the transport before an error is returned.
            _ => return None,
        }
        Some(Ok(()))
    }

    /// Returns the transport if it sends each request as a separate exchange.
    pub(crate) fn exchanges(&self) -> Option<&dyn Exchanges> {
        self.inner().connection.terms.transport.exchanges().map(|exchanges| &**exchanges)
    }

    /// Restarts a server that has ended. Returns `None` if the server cannot be restarted.
    pub(crate) async fn restart(&self) -> Option<Result<()>> {
        let Inner { connection, supervisor, .. } = self.inner();
        if connection.can_restart() {
            return Some(supervisor.restart().await);
        }
        // Another caller may already have restarted the server.
        let is_running = connection.terms.transport.restarts() && connection.ended().is_none();
        is_running.then_some(Ok(()))
    }
}
