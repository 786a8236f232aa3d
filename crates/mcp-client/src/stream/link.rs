//! One live pair of byte streams, and what has to be ended with it.

use std::process::ExitStatus;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::client::shutdown::Shutdown;
use crate::connection::transport::Mask;
#[cfg(feature = "stdio")]
use crate::stdio::process::{Patience, Process};

pub(crate) struct Link {
    pub(crate) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) writer: Box<dyn AsyncWrite + Send + Unpin>,
    pub(crate) owner: Owner,
}

#[cfg(feature = "stdio")]
impl Link {
    /// Starts what the server config says, and writes it down.
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

/// What is behind a link.
#[derive(Clone, Debug)]
pub(crate) enum Owner {
    /// Nothing of ours: streams that were handed in.
    Nobody,
    /// A process that we started.
    #[cfg(feature = "stdio")]
    Process(Arc<Process>),
}

impl Owner {
    /// Waits for the process to end; for ever if there is none.
    ///
    /// # Cancellation
    /// Safe.
    pub(crate) async fn exited(&self) -> Option<ExitStatus> {
        match self {
            Self::Nobody => std::future::pending().await,
            #[cfg(feature = "stdio")]
            Self::Process(process) => process.exited().await,
        }
    }

    /// What the process ended with, if it does within this time.
    pub(crate) async fn exits_within(&self, time: std::time::Duration) -> Option<ExitStatus> {
        match self {
            Self::Nobody => {
                let _ = time;
                None
            }
            #[cfg(feature = "stdio")]
            Self::Process(_) => tokio::time::timeout(time, self.exited()).await.ok().flatten(),
        }
    }

    /// What it last wrote to standard error.
    pub(crate) async fn stderr(&self) -> String {
        match self {
            Self::Nobody => String::new(),
            #[cfg(feature = "stdio")]
            Self::Process(process) => {
                process.stderr().settled().await;
                process.stderr().tail()
            }
        }
    }

    /// The same of a process that still runs.
    pub(crate) fn stderr_so_far(&self) -> String {
        match self {
            Self::Nobody => String::new(),
            #[cfg(feature = "stdio")]
            Self::Process(process) => process.stderr().tail(),
        }
    }

    /// Ends what is behind the link, whose input is closed; patiently if it was usable.
    pub(crate) async fn end(&self, patiently: bool) -> Shutdown {
        match self {
            Self::Nobody => {
                let _ = patiently;
                Shutdown::default()
            }
            #[cfg(feature = "stdio")]
            Self::Process(process) => {
                process.end(if patiently { Patience::ORDERLY } else { Patience::FAILED_START }).await
            }
        }
    }

    /// The group of the process.
    pub(crate) fn group(&self) -> Option<u32> {
        match self {
            Self::Nobody => None,
            #[cfg(feature = "stdio")]
            Self::Process(process) => process.group(),
        }
    }

    pub(crate) fn stderr_lines(&self) -> Option<crate::Feed<Arc<str>>> {
        match self {
            Self::Nobody => None,
            #[cfg(feature = "stdio")]
            Self::Process(process) => Some(process.stderr().lines()),
        }
    }

    /// Ends it at once, without a runtime.
    pub(crate) fn kill(&self) {
        match self {
            Self::Nobody => {}
            #[cfg(feature = "stdio")]
            Self::Process(process) => process.kill(),
        }
    }
}

impl Mask for Owner {
    fn mask(&self, text: &str) -> String {
        match self {
            Self::Nobody => text.to_owned(),
            #[cfg(feature = "stdio")]
            Self::Process(process) => process.stderr().mask(text),
        }
    }
}
