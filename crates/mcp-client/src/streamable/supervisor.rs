//! The task behind a connection over HTTP: its driver, from the handshake to the close.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::driver::Driver;
use super::transport::HttpTransport;
use crate::connection::Connection;
use crate::connection::shutdown::Shutdown;
use crate::connection::transport::{Supervisor, TransportFuture};
use crate::error::Result;

/// The maximum time that connecting waits for the notification stream to open.
const STREAM_WAIT: Duration = Duration::from_millis(300);

/// The driver of a connection over HTTP. Dropping it stops the driver.
#[derive(Debug)]
pub(crate) struct HttpSupervisor {
    driver: JoinHandle<()>,
    shutdown: watch::Receiver<Option<Shutdown>>,
}

impl HttpSupervisor {
    /// Starts the driver, and waits a moment for the notification stream to open, because messages that a server
    /// sends before that are lost.
    pub(crate) async fn begin(connection: &Arc<Connection>, transport: &Arc<HttpTransport>) -> Self {
        let (report, shutdown) = watch::channel(None);
        let (probed, is_probed) = oneshot::channel();
        let driver =
            Driver { connection: Arc::clone(connection), transport: Arc::clone(transport), report, probed };
        connection.begin(Vec::new());
        let supervisor = Self { driver: tokio::spawn(driver.run()), shutdown };
        let _ = tokio::time::timeout(STREAM_WAIT, is_probed).await;
        supervisor
    }
}

impl Supervisor for HttpSupervisor {
    fn restart(&self) -> TransportFuture<'_, Result<()>> {
        // Sessions are renewed by the transport; there is no process.
        Box::pin(async { Ok(()) })
    }

    fn shut_down(&self) -> TransportFuture<'_, Shutdown> {
        Box::pin(async {
            // If the runtime has ended, and the driver with it, there is nothing to wait for.
            let mut shutdown = self.shutdown.clone();
            shutdown.wait_for(Option::is_some).await.ok().and_then(|shutdown| *shutdown).unwrap_or_default()
        })
    }

    fn kill(&self) {
        self.driver.abort();
    }
}

impl Drop for HttpSupervisor {
    fn drop(&mut self) {
        self.kill();
    }
}
