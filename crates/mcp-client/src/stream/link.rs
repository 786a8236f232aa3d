//! A link: the two byte streams to one server, and the server process if this crate started it.

use std::process::ExitStatus;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::connection::shutdown::Shutdown;
use crate::connection::transport::Mask;
#[cfg(feature = "stdio")]
use crate::stdio::process::{Process, ShutdownTimeouts};

/// The byte streams to one server, and its process if this crate started it.
pub(crate) struct Link {
    pub(crate) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) writer: Box<dyn AsyncWrite + Send + Unpin>,
    pub(crate) process: LinkProcess,
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
            process: LinkProcess::Child(Arc::new(process)),
        })
    }
}

/// The process at the other end of a link, if this crate started it.
#[derive(Clone, Debug)]
pub(crate) enum LinkProcess {
    /// No process that this crate may end: the host opened the streams.
    None,
    /// A process that this crate started.
    #[cfg(feature = "stdio")]
    Child(Arc<Process>),
}

impl LinkProcess {
    /// Waits for the process to exit. Never returns if there is no process.
    ///
    /// # Cancellation
    /// Cancel safe.
    pub(crate) async fn exited(&self) -> Option<ExitStatus> {
        match self {
            Self::None => std::future::pending().await,
            #[cfg(feature = "stdio")]
            Self::Child(process) => process.exited().await,
        }
    }

    /// Returns the exit status if the process exits within this time, otherwise `None`.
    pub(crate) async fn exits_within(&self, time: std::time::Duration) -> Option<ExitStatus> {
        match self {
            Self::None => {
                let _ = time;
                None
            }
            #[cfg(feature = "stdio")]
            Self::Child(_) => tokio::time::timeout(time, self.exited()).await.ok().flatten(),
        }
    }

    /// Returns the last stderr output of a process that has exited, after reading the rest of it.
    pub(crate) async fn stderr(&self) -> String {
        match self {
            Self::None => String::new(),
            #[cfg(feature = "stdio")]
            Self::Child(process) => {
                process.stderr().read_to_end().await;
                process.stderr().tail()
            }
        }
    }

    /// Returns the last stderr output so far of a process that still runs.
    pub(crate) fn stderr_so_far(&self) -> String {
        match self {
            Self::None => String::new(),
            #[cfg(feature = "stdio")]
            Self::Child(process) => process.stderr().tail(),
        }
    }

    /// Ends the process, after its stdin was closed. `patiently` selects the longer timeouts, for a connection that
    /// this client closed.
    pub(crate) async fn end(&self, patiently: bool) -> Shutdown {
        match self {
            Self::None => {
                let _ = patiently;
                Shutdown::default()
            }
            #[cfg(feature = "stdio")]
            Self::Child(process) => {
                process.end(if patiently { ShutdownTimeouts::DEFAULT } else { ShutdownTimeouts::SHORT }).await
            }
        }
    }

    /// Returns the id of the process group, if there is a process.
    pub(crate) fn group(&self) -> Option<u32> {
        match self {
            Self::None => None,
            #[cfg(feature = "stdio")]
            Self::Child(process) => process.group(),
        }
    }

    pub(crate) fn stderr_lines(&self) -> Option<crate::Feed<Arc<str>>> {
        match self {
            Self::None => None,
            #[cfg(feature = "stdio")]
            Self::Child(process) => Some(process.stderr().lines()),
        }
    }

    /// Kills the process group at once, without a runtime.
    pub(crate) fn kill(&self) {
        match self {
            Self::None => {}
            #[cfg(feature = "stdio")]
            Self::Child(process) => process.kill(),
        }
    }
}

impl Mask for LinkProcess {
    fn mask(&self, text: &str) -> String {
        match self {
            Self::None => text.to_owned(),
            #[cfg(feature = "stdio")]
            Self::Child(process) => process.stderr().mask(text),
        }
    }
}
