//! What runs behind a connection over byte streams: the driver and the process of one life of a server after the other.

use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::client::shutdown::Shutdown;
use crate::connection::Connection;
use crate::connection::feed::Feed;
use crate::connection::handlers::Handlers;
use crate::connection::transport::{Lifetime, TransportFuture};
use crate::error::Result;
use crate::stream::driver::Driver;
use crate::stream::link::Owner;
use crate::stream::negotiate::Negotiated;
use crate::stream::restart::{Restarts, lock};

/// One life of a server. Dropped, the server and everything it has started are killed at once.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) owner: Owner,
    driver: JoinHandle<()>,
    pub(crate) shutdown: watch::Receiver<Option<Shutdown>>,
}

impl Live {
    /// Lets a link serve a connection; `None` if that was closed meanwhile.
    pub(crate) fn begin(
        connection: &Arc<Connection>,
        handlers: &Arc<Handlers>,
        negotiated: Negotiated,
    ) -> Option<Self> {
        let Negotiated { link, lines, held, unsent, .. } = negotiated;
        let owner = link.owner.clone();
        if !connection.begin(unsent) {
            owner.kill();
            return None;
        }
        let (report, shutdown) = watch::channel(None);
        let driver = Driver {
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

impl Live {
    /// Kills the server and everything it has started.
    pub(crate) fn end(&self) {
        self.driver.abort();
        self.owner.kill();
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.end();
    }
}

/// The lives of a server: the current one, and the restarts that replace it.
#[derive(Debug)]
pub(crate) struct StreamLifetime {
    /// Shared with a restart in progress.
    pub(crate) live: Arc<Mutex<Live>>,
    pub(crate) restarts: Option<Restarts>,
}

impl StreamLifetime {
    fn owner(&self) -> Owner {
        lock(&self.live).owner.clone()
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
            // If the runtime is gone with the driver, dropping does the rest.
            let mut shutdown = lock(&self.live).shutdown.clone();
            shutdown.wait_for(Option::is_some).await.ok().and_then(|shutdown| *shutdown).unwrap_or_default()
        })
    }

    fn kill(&self) {
        if let Some(restarts) = &self.restarts {
            restarts.stop();
        }
        // A restart in progress still holds the life that it is to replace.
        lock(&self.live).end();
    }

    fn process_group(&self) -> Option<u32> {
        self.owner().group()
    }

    fn stderr(&self) -> Option<Feed<Arc<str>>> {
        self.owner().stderr_lines()
    }
}
