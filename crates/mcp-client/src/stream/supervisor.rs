//! The tasks behind a connection over byte streams: the current run of the server, and restarts.

use std::sync::{Arc, Mutex};

use crate::connection::feed::Feed;
use crate::connection::shutdown::Shutdown;
use crate::connection::transport::{Supervisor, TransportFuture};
use crate::error::Result;
use crate::stream::link::LinkProcess;
use crate::stream::restart::{Restarts, lock};
use crate::stream::server_run::ServerRun;

/// The current run of a server, and the restarts that replace it.
#[derive(Debug)]
pub(crate) struct StreamSupervisor {
    /// Shared with a restart in progress.
    pub(crate) run: Arc<Mutex<ServerRun>>,
    pub(crate) restarts: Option<Restarts>,
}

impl StreamSupervisor {
    fn process(&self) -> LinkProcess {
        lock(&self.run).process.clone()
    }
}

impl Supervisor for StreamSupervisor {
    fn restart(&self) -> TransportFuture<'_, Result<()>> {
        Box::pin(async {
            match &self.restarts {
                Some(restarts) => restarts.restart().await,
                None => Ok(()),
            }
        })
    }

    fn shut_down(&self) -> TransportFuture<'_, Shutdown> {
        Box::pin(async {
            if let Some(restarts) = &self.restarts {
                restarts.stop_and_wait().await;
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
        // A restart in progress holds a reference to the run, so dropping `self` would not end the run.
        lock(&self.run).end();
    }

    fn process_group(&self) -> Option<u32> {
        self.process().group()
    }

    fn stderr(&self) -> Option<Feed<Arc<str>>> {
        self.process().stderr_lines()
    }
}
