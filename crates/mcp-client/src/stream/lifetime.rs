//! The tasks behind a connection over byte streams: the driver and process of the current server, and restarts.

use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::client::shutdown::Shutdown;
use crate::connection::Connection;
use crate::connection::feed::Feed;
use crate::connection::handlers::Handlers;
use crate::connection::transport::{Lifetime, TransportFuture};
use crate::error::Result;
use crate::stream::driver::StreamDriver;
use crate::stream::link::Owner;
use crate::stream::negotiate::NegotiatedLink;
use crate::stream::restart::{Restarts, lock};

/// One run of a server: its process and its driver. Dropping it kills the process group at once.
#[derive(Debug)]
pub(crate) struct ServerRun {
    pub(crate) owner: Owner,
    driver: JoinHandle<()>,
    pub(crate) shutdown: watch::Receiver<Option<Shutdown>>,
}

impl ServerRun {
    /// Starts the driver of a link. Returns `None` if the connection was closed meanwhile.
    pub(crate) fn begin(
        connection: &Arc<Connection>,
        handlers: &Arc<Handlers>,
        negotiated: NegotiatedLink,
    ) -> Option<Self> {
        let NegotiatedLink { link, lines, held, unsent, noise, .. } = negotiated;
        let owner = link.owner.clone();
        if !connection.begin(unsent) {
            owner.kill();
            return None;
        }
        {
            let mut state = connection.lock();
            state.peer.count_unreadable(noise.lines as u64);
            state.stray_line = noise.sample.map(Into::into);
        }
        let (report, shutdown) = watch::channel(None);
        let driver = StreamDriver {
            connection: Arc::clone(connection),
            link,
            lines,
            handlers: Arc::clone(handlers),
            held: if connection.dialect().is_modern() { Vec::new() } else { held },
            report,
        };
        Some(Self { owner, driver: tokio::spawn(driver.run()), shutdown })
    }
}

impl ServerRun {
    /// Aborts the driver and kills the process group.
    pub(crate) fn end(&self) {
        self.driver.abort();
        self.owner.kill();
    }
}

impl Drop for ServerRun {
    fn drop(&mut self) {
        self.end();
    }
}

/// The runs of a server: the current one, and the restarts that replace it.
#[derive(Debug)]
pub(crate) struct StreamLifetime {
    /// Shared with a restart in progress.
    pub(crate) run: Arc<Mutex<ServerRun>>,
    pub(crate) restarts: Option<Restarts>,
}

impl StreamLifetime {
    fn owner(&self) -> Owner {
        lock(&self.run).owner.clone()
    }
}

impl Lifetime for StreamLifetime {
    fn restart(&self) -> TransportFuture<'_, Result<()>> {
        Box::pin(async {
            match &self.restarts {
                Some(restarts) => restarts.start().await,
                None => Ok(()),
            }
        })
    }

    fn shut_down(&self) -> TransportFuture<'_, Shutdown> {
        Box::pin(async {
            if let Some(restarts) = &self.restarts {
                restarts.stopped().await;
            }
            // If the driver was dropped with its runtime, dropping `ServerRun` kills the process.
            let mut shutdown = lock(&self.run).shutdown.clone();
            shutdown.wait_for(Option::is_some).await.ok().and_then(|shutdown| *shutdown).unwrap_or_default()
        })
    }

    fn kill(&self) {
        if let Some(restarts) = &self.restarts {
            restarts.stop();
        }
        // A restart in progress shares the run that it replaces.
        lock(&self.run).end();
    }

    fn process_group(&self) -> Option<u32> {
        self.owner().group()
    }

    fn stderr(&self) -> Option<Feed<Arc<str>>> {
        self.owner().stderr_lines()
    }
}
