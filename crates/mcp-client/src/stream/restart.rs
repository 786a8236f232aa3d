//! Starting a server again that has ended: only when somebody needs it, once for all who do, and not for ever.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_protocol::retry::RestartLimit;
use tokio::task::{AbortHandle, JoinHandle};

use crate::connect::negotiation_cache::NegotiationCache;
use crate::connect::offer::Offer;
use crate::connection::handlers::Handlers;
use crate::connection::{Connection, now};
use crate::error::{Error, Result};
use crate::stream::lifetime::Live;
use crate::stream::negotiate::Launch;

/// Everything needed to start a server again.
#[derive(Debug)]
pub(crate) struct Restart {
    pub(crate) offer: Offer,
    pub(crate) launch: Launch,
    pub(crate) negotiation_cache: Option<NegotiationCache>,
    pub(crate) connection: Arc<Connection>,
    pub(crate) handlers: Arc<Handlers>,
    pub(crate) live: Arc<Mutex<Live>>,
    limit: Mutex<RestartLimit>,
}

/// The starts of a client: at most one at a time, which goes on when the one who waits for it does not.
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
        live: &Arc<Mutex<Live>>,
    ) -> Self {
        let restart = Restart {
            offer,
            launch,
            negotiation_cache,
            connection: Arc::clone(connection),
            handlers: Arc::clone(handlers),
            live: Arc::clone(live),
            limit: Mutex::default(),
        };
        Self { restart: Arc::new(restart), running: tokio::sync::Mutex::default(), abort: Mutex::default() }
    }

    /// Waits until the server is usable again. Whoever comes later waits for the same start.
    ///
    /// # Cancellation
    /// Safe: the start goes on.
    pub(crate) async fn start(&self) -> Result<()> {
        let mut running = self.running.lock().await;
        // One that nobody waited for is old news.
        if running.as_ref().is_some_and(JoinHandle::is_finished) {
            *running = None;
        }
        if running.is_none() && !self.restart.connection.can_restart() {
            return Ok(());
        }
        let task = running.get_or_insert_with(|| {
            let task = tokio::spawn(Arc::clone(&self.restart).run());
            *lock(&self.abort) = Some(task.abort_handle());
            task
        });
        let outcome = task.await;
        *running = None;
        // One that was stopped or panicked has started nothing, and whoever asks next is told how the server ended.
        outcome.unwrap_or(Ok(()))
    }

    /// Ends a start that is under way, and waits until nothing is left of it. The connection must be closing, so that
    /// there is no other.
    pub(crate) async fn stopped(&self) {
        self.stop();
        if let Some(task) = self.running.lock().await.take() {
            let _ = task.await;
        }
    }

    /// Ends a start that is under way.
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
    async fn run(self: Arc<Self>) -> Result<()> {
        // Two at once would get in each other's way.
        let mut ends = lock(&self.live).shutdown.clone();
        let _ = ends.wait_for(Option::is_some).await;
        let wait = lock(&self.limit).start(now()).map_err(|wait| Error::TooManyRestarts {
            server: self.launch.to_string(),
            wait,
            ended: self.connection.ended().unwrap_or_default(),
        })?;
        tokio::time::sleep(wait).await;
        // It may have been closed meanwhile.
        if !self.connection.can_restart() {
            return Ok(());
        }
        tracing::debug!(server = %self.launch, "restarting the server");
        let negotiated = self.offer.negotiate(&self.launch, self.negotiation_cache.as_ref()).await?;
        if let Some(live) = Live::begin(&self.connection, &self.handlers, negotiated) {
            *lock(&self.live) = live;
        }
        Ok(())
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
