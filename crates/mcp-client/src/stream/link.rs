//! A link: the two byte streams to one server, and the server process if this crate started it.

use std::process::ExitStatus;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::connection::shutdown::Shutdown;
use crate::connection::transport::Mask;
#[cfg(feature = "stdio")]
use crate::stdio::process::{Process, ShutdownTimeouts};

/// The byte streams to one server, and the owner of the server.
pub(crate) struct Link {
    pub(crate) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) writer: Box<dyn AsyncWrite + Send + Unpin>,
    pub(crate) owner: Owner,
}

#[cfg(feature = "stdio")]
impl Link {
    /// Starts the program of a server config, and records it in the ledger if there is one.
    pub(crate) fn start(
        config: &crate::ServerConfig<crate::CommandTarget>,
        ledger: Option<&crate::Ledger>,
    ) -> Result<Self, crate::StartError> {
        let (process, pipes) = Process::start_in(config, ledger)?;
        Ok(Self {
            reader: Box::new(pipes.stdout),
            writer: Box::new(pipes.stdin),
            owner: Owner::Process(Arc::new(process)),
        })
    }
}

/// The owner of the server at the other end of a link.
#[derive(Clone, Debug)]
pub(crate) enum Owner {
    /// The host: it opened the streams, so there is no process to end here.
    Host,
    /// This crate, which started the process.
    #[cfg(feature = "stdio")]
    Process(Arc<Process>),
}

impl Owner {
    /// Waits for the process to exit. Never returns if there is no process.
    ///
    /// # Cancellation
    /// Cancel safe.
    pub(crate) async fn exited(&self) -> Option<ExitStatus> {
        match self {
            Self::Host => std::future::pending().await,
            #[cfg(feature = "stdio")]
            Self::Process(process) => process.exited().await,
        }
    }

    /// Returns the exit status if the process exits within this time, otherwise `None`.
    pub(crate) async fn exits_within(&self, time: std::time::Duration) -> Option<ExitStatus> {
        match self {
            Self::Host => {
                let _ = time;
                None
            }
            #[cfg(feature = "stdio")]
            Self::Process(_) => tokio::time::timeout(time, self.exited()).await.ok().flatten(),
        }
    }

    /// Returns the last stderr output of a process that has exited, after reading the rest of it.
    pub(crate) async fn stderr(&self) -> String {
        match self {
            Self::Host => String::new(),
            #[cfg(feature = "stdio")]
            Self::Process(process) => {
                process.stderr().settled().await;
                process.stderr().tail()
            }
        }
    }

    /// Returns the last stderr output so far of a process that still runs.
    pub(crate) fn stderr_so_far(&self) -> String {
        match self {
            Self::Host => String::new(),
            #[cfg(feature = "stdio")]
            Self::Process(process) => process.stderr().tail(),
        }
    }

    /// Ends the process, after its stdin was closed. `patiently` selects the longer timeouts, for a connection that
    /// this client closed.
    pub(crate) async fn end(&self, patiently: bool) -> Shutdown {
        match self {
            Self::Host => {
                let _ = patiently;
                Shutdown::default()
            }
            #[cfg(feature = "stdio")]
            Self::Process(process) => {
                process
                    .end(if patiently { ShutdownTimeouts::DEFAULT } else { ShutdownTimeouts::FAILED_START })
                    .await
            }
        }
    }

    /// Returns the id of the process group, if there is a process.
    pub(crate) fn group(&self) -> Option<u32> {
        match self {
            Self::Host => None,
            #[cfg(feature = "stdio")]
            Self::Process(process) => process.group(),
        }
    }

    pub(crate) fn stderr_lines(&self) -> Option<crate::Feed<Arc<str>>> {
        match self {
            Self::Host => None,
            #[cfg(feature = "stdio")]
            Self::Process(process) => Some(process.stderr().lines()),
        }
    }

    /// Kills the process group at once, without a runtime.
    pub(crate) fn kill(&self) {
        match self {
            Self::Host => {}
            #[cfg(feature = "stdio")]
            Self::Process(process) => process.kill(),
        }
    }
}

impl Mask for Owner {
    fn mask(&self, text: &str) -> String {
        match self {
            Self::Host => text.to_owned(),
            #[cfg(feature = "stdio")]
            Self::Process(process) => process.stderr().mask(text),
        }
    }
}
