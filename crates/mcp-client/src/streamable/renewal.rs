//! Replaces a session that was lost by a new one: one renewal for all callers, and a limited number of them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_protocol::messages::Method;
use mcp_protocol::negotiation::Mode;
use mcp_protocol::retry::RestartLimit;
use mcp_protocol::safe_text::SafeText;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::negotiate::{self, ProbeResult};
use super::session::{OpenSession, Session};
use super::transport::HttpTransport;
use super::{http_sse, lock};
use crate::connection::{Connection, now};
use crate::error::{Error, Result};
use crate::http::http_error::HttpError;

/// The timeout for opening a new session.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum wait for the task of a renewal that was aborted.
const ABORT_TIMEOUT: Duration = Duration::from_secs(1);

/// Renewals of the session, at most one at a time. A renewal does not belong to a call: it continues if its caller is
/// dropped.
#[derive(Debug, Default)]
pub(super) struct Renewals(Mutex<RenewalState>);

#[derive(Debug, Default)]
struct RenewalState {
    limit: RestartLimit,
    last: Option<Renewal>,
    is_over: bool,
}

#[derive(Debug)]
struct Renewal {
    outcome: watch::Receiver<RenewalOutcome>,
    task: AbortHandle,
}

/// The outcome of a renewal; `None` until it is known.
type RenewalOutcome = Option<Result<()>>;

/// The next step for a caller whose session was lost.
pub(super) enum RenewalStep {
    /// Use the new session: the lost one has already been replaced.
    Renewed,
    /// Wait for the outcome of the renewal. If the connection is closed before the outcome is known, this channel is
    /// closed, too.
    Wait(watch::Receiver<RenewalOutcome>),
    /// Give up, because the session was renewed too often. The next renewal is allowed after this time.
    TooMany(Duration),
}

impl HttpTransport {
    /// Replaces a session that was lost, and waits for the new one. All callers wait for the same renewal.
    ///
    /// # Cancellation
    /// Cancel safe: the renewal continues.
    pub(super) async fn renew_session(
        self: &Arc<Self>,
        lost: &Session,
        connection: &Arc<Connection>,
    ) -> Result<()> {
        let mut outcome = match self.begin_renewal(lost, connection) {
            RenewalStep::Renewed => return Ok(()),
            RenewalStep::Wait(outcome) => outcome,
            RenewalStep::TooMany(wait) => {
                let server = self.name.clone();
                return Err(Error::TooManyRestarts { server, wait, ended: Arc::default() });
            }
        };
        let closed = || HttpError::unsent("the connection was closed").into_lost(Method::Initialize);
        let outcome = outcome.wait_for(Option::is_some).await.map_err(|_| closed())?;
        match &*outcome {
            Some(Err(error)) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Begins to replace a session that was lost, without waiting for it. Does nothing if the session was already
    /// replaced or a renewal is in progress.
    pub(super) fn begin_renewal(
        self: &Arc<Self>,
        lost: &Session,
        connection: &Arc<Connection>,
    ) -> RenewalStep {
        let mut renewals = lock(&self.renewals.0);
        if self.sessions.current().generation != lost.generation {
            return RenewalStep::Renewed;
        }
        if let Some(in_progress) = renewals.last.as_ref().filter(|renewal| !renewal.task.is_finished()) {
            return RenewalStep::Wait(in_progress.outcome.clone());
        }
        let (sender, outcome) = watch::channel(None);
        if renewals.is_over {
            return RenewalStep::Wait(outcome);
        }
        let pause = match renewals.limit.start(now()) {
            Ok(pause) => pause,
            Err(wait) => return RenewalStep::TooMany(wait),
        };
        let server = SafeText::name(&self.name);
        tracing::debug!(%server, "the server does not know the session; opening a new one");
        let (transport, connection) = (Arc::clone(self), Arc::clone(connection));
        let generation = lost.generation + 1;
        let task = tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            let renewed = transport.open_session(generation, &connection).await;
            sender.send_replace(Some(renewed));
        });
        renewals.last = Some(Renewal { outcome: outcome.clone(), task: task.abort_handle() });
        RenewalStep::Wait(outcome)
    }

    async fn open_session(&self, generation: u64, connection: &Connection) -> Result<()> {
        let Self { endpoint, offer, name, .. } = self;
        let new = if endpoint.is_http_sse {
            let (_, opened) = http_sse::open(&endpoint.target, offer, name, RENEWAL_TIMEOUT).await?;
            OpenSession::http_sse(opened, generation)
        } else {
            match negotiate::negotiate(&endpoint.target, offer, name, Mode::Legacy, RENEWAL_TIMEOUT).await? {
                ProbeResult::Streamable { session, .. } => OpenSession::streamable(session, generation),
                _ => {
                    let problem = "the server now uses another transport".to_owned();
                    return Err(Error::InvalidConfig { config: name.clone(), problem });
                }
            }
        };
        // Replaces the session under the locks, so that no message of the old session is sent in the new one.
        let mut inbound = self.inbound();
        inbound.drop_handlers(connection);
        let mut state = connection.lock();
        self.sessions.replace(new);
        connection.handle_new_session(&mut state);
        drop(state);
        drop(inbound);
        self.sessions.announce(generation);
        Ok(())
    }
}

impl Renewals {
    /// Refuses further renewals. A renewal in progress may finish within `timeout`, so that its session can be deleted.
    pub(super) async fn end(&self, timeout: Duration) {
        let Some(Renewal { mut outcome, task }) = self.stop() else { return };
        let _ = tokio::time::timeout(timeout, outcome.wait_for(Option::is_some)).await;
        task.abort();
        let gone = async { while outcome.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(ABORT_TIMEOUT, gone).await;
    }

    /// Refuses further renewals, and aborts a renewal in progress.
    pub(super) fn abort(&self) {
        if let Some(renewal) = self.stop() {
            renewal.task.abort();
        }
    }

    fn stop(&self) -> Option<Renewal> {
        let mut renewals = lock(&self.0);
        renewals.is_over = true;
        renewals.last.take()
    }
}
