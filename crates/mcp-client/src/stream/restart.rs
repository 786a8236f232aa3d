//! Restarts a server that has exited: on demand, one restart for all callers, and a limited number of times.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_protocol::retry::RestartLimit;
use tokio::task::{AbortHandle, JoinHandle};

use crate::config::negotiation_cache::NegotiationCache;
use crate::config::offer::Offer;
use crate::connection::handlers::Handlers;
use crate::connection::{Connection, now};
use crate::error::{Error, Result};
use crate::stream::negotiate::Launch;
use crate::stream::server_run::ServerRun;

/// The data needed to restart a server.
#[derive(Debug)]
pub(crate) struct Restart {
    pub(crate) offer: Offer,
    pub(crate) launch: Launch,
    pub(crate) negotiation_cache: Option<NegotiationCache>,
    pub(crate) connection: Arc<Connection>,
    pub(crate) handlers: Arc<Handlers>,
    pub(crate) run: Arc<Mutex<ServerRun>>,
    limit: Mutex<RestartLimit>,
}

/// The restarts of a server, at most one at a time. A restart continues if the caller that began it is dropped.
#[derive(Debug)]
pub(crate) struct Restarts {
    restart: Arc<Restart>,
    running: tokio::sync::Mutex<Option<JoinHandle<Result<()>>>>,
    abort: Mutex<Option<AbortHandle>>,
}

impl Restarts {
    pub(crate) fn new(
        offer: Offer,
        launch: Launch,
        negotiation_cache: Option<NegotiationCache>,
        connection: &Arc<Connection>,
        handlers: &Arc<Handlers>,
        run: &Arc<Mutex<ServerRun>>,
    ) -> Self {
        let restart = Restart {
            offer,
            launch,
            negotiation_cache,
            connection: Arc::clone(connection),
            handlers: Arc::clone(handlers),
            run: Arc::clone(run),
            limit: Mutex::default(),
        };
        Self { restart: Arc::new(restart), running: tokio::sync::Mutex::default(), abort: Mutex::default() }
    }

    /// Restarts the server and waits for the handshake. Callers that come while a restart is in progress wait for that
    /// restart.
    ///
    /// # Cancellation
    /// Cancel safe: the restart continues.
    pub(crate) async fn restart(&self) -> Result<()> {
        let mut running = self.running.lock().await;
        // The caller that began this restart was dropped. The outcome is outdated.
        if running.as_ref().is_some_and(JoinHandle::is_finished) {
            *running = None;
        }
        if running.is_none() && !self.restart.connection.can_restart() {
            return Ok(());
        }
        let task = running.get_or_insert_with(|| {
            let task = tokio::spawn(Arc::clone(&self.restart).restart());
            *lock(&self.abort) = Some(task.abort_handle());
            task
        });
        let outcome = task.await;
        *running = None;
        // If the restart was aborted or panicked, no server was started. The next request reports how the server ended.
        outcome.unwrap_or(Ok(()))
    }

    /// Aborts a restart in progress and waits for its task to end. The caller must have closed the connection, so that
    /// no other restart begins.
    pub(crate) async fn stop_and_wait(&self) {
        self.stop();
        if let Some(task) = self.running.lock().await.take() {
            let _ = task.await;
        }
    }

    /// Aborts a restart in progress.
    pub(crate) fn stop(&self) {
        if let Some(task) = lock(&self.abort).take() {
            task.abort();
        }
    }
}

impl Drop for Restarts {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Restart {
    async fn restart(self: Arc<Self>) -> Result<()> {
        // Waits for the old process to end: two processes of one server could conflict.
        let mut shutdown = lock(&self.run).shutdown.clone();
        let _ = shutdown.wait_for(Option::is_some).await;
        let wait = lock(&self.limit).start(now()).map_err(|wait| Error::TooManyRestarts {
            server: self.launch.to_string(),
            wait,
            ended: self.connection.ended().unwrap_or_default(),
        })?;
        tokio::time::sleep(wait).await;
        // The connection may have been closed in the meantime.
        if !self.connection.can_restart() {
            return Ok(());
        }
        tracing::debug!(server = %self.launch, "restarting the server");
        let negotiated =
            self.offer.start_and_negotiate(&self.launch, self.negotiation_cache.as_ref()).await?;
        if let Some(run) = ServerRun::begin(&self.connection, &self.handlers, negotiated) {
            *lock(&self.run) = run;
            let terms = &self.connection.terms;
            if let Some(metrics) = &terms.observers.metrics {
                metrics.server_restarted(&terms.server);
            }
        }
        Ok(())
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
