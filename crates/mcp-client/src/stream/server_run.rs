//! One run of a server: its process and its driver.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::connection::Connection;
use crate::connection::handlers::Handlers;
use crate::connection::shutdown::Shutdown;
use crate::stream::driver::StreamDriver;
use crate::stream::link::LinkProcess;
use crate::stream::negotiate::NegotiatedLink;

/// One run of a server: its process and its driver. Dropping it kills the process group at once.
#[derive(Debug)]
pub(crate) struct ServerRun {
    pub(crate) process: LinkProcess,
    driver: JoinHandle<()>,
    pub(crate) shutdown: watch::Receiver<Option<Shutdown>>,
    /// Watches whether the token of the program is current.
    token_watch: Option<JoinHandle<()>>,
}

impl ServerRun {
    /// Starts the driver of a link. If the connection has been closed in the meantime, kills the process and returns
    /// `None`.
    pub(crate) fn begin(
        connection: &Arc<Connection>,
        handlers: &Arc<Handlers>,
        negotiated: NegotiatedLink,
    ) -> Option<Self> {
        #[cfg(feature = "oauth")]
        let token = negotiated.token.clone();
        let NegotiatedLink { link, lines, held, unsent, noise, .. } = negotiated;
        let process = link.process.clone();
        if !connection.begin(unsent) {
            process.kill();
            return None;
        }
        {
            let mut state = connection.lock();
            state.peer.count_unreadable(noise.lines as u64);
            state.stray_line = noise.sample.map(Into::into);
        }
        #[cfg(feature = "oauth")]
        let token_watch = token.map(|token| tokio::spawn(token.watch(Arc::downgrade(connection))));
        #[cfg(not(feature = "oauth"))]
        let token_watch = None;
        let (report, shutdown) = watch::channel(None);
        let driver = StreamDriver {
            connection: Arc::clone(connection),
            link,
            lines,
            handlers: Arc::clone(handlers),
            held: if connection.dialect().is_modern() { Vec::new() } else { held },
            report,
        };
        Some(Self { process, driver: tokio::spawn(driver.run()), shutdown, token_watch })
    }
}

impl ServerRun {
    /// Aborts the driver and kills the process group.
    pub(crate) fn end(&self) {
        self.driver.abort();
        if let Some(token_watch) = &self.token_watch {
            token_watch.abort();
        }
        self.process.kill();
    }
}

impl Drop for ServerRun {
    fn drop(&mut self) {
        self.end();
    }
}
