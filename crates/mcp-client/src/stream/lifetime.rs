//! One life of a server: what runs from when it is usable until it is gone.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::client::shutdown::Shutdown;
use crate::connection::Connection;
use crate::connection::handlers::Handlers;
use crate::stream::driver::Driver;
use crate::stream::link::Owner;
use crate::stream::negotiate::Negotiated;

/// How long the stream that belongs to no request may hold up a connection.
#[cfg(feature = "http")]
const STREAM: std::time::Duration = std::time::Duration::from_millis(300);

/// What has to be ended with a client. Dropped, the server and everything it has started are killed at once.
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

#[cfg(feature = "http")]
impl Live {
    /// Lets a server behind a URL serve a connection. Waits a moment for the stream that belongs to no request: servers
    /// lose what they say before it is open.
    pub(crate) async fn begin_http(
        connection: &Arc<Connection>,
        endpoint: &Arc<crate::streamable::Endpoint>,
    ) -> Self {
        let (report, shutdown) = watch::channel(None);
        let (asked, is_asked) = tokio::sync::oneshot::channel();
        let driver = crate::streamable::Driver {
            connection: Arc::clone(connection),
            endpoint: Arc::clone(endpoint),
            report,
            asked,
        };
        connection.begin(Vec::new());
        let live = Self { owner: Owner::Nobody, driver: tokio::spawn(driver.run()), shutdown };
        let _ = tokio::time::timeout(STREAM, is_asked).await;
        live
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
