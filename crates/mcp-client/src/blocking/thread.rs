//! The thread that drives a connection.

use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use mcp_protocol::messages::Method;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::error::{Error, Result, StartError};

/// The thread that drives a connection. Dropping this value ends the thread.
#[derive(Debug)]
pub(super) struct Thread {
    handle: Handle,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Thread {
    pub(super) fn start() -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(refused)?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new()
            .name("mcp-client".to_owned())
            .spawn(move || {
                let _ = runtime.block_on(ended);
                // Does not wait for handlers that block the thread, for example on user input.
                runtime.shutdown_background();
            })
            .map_err(refused)?;
        Ok(Self { handle, end: Some(end), thread: Some(thread) })
    }

    /// Runs a future on the thread, and waits for its output.
    pub(super) fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Result<T> {
        if self.is_current() {
            let method = Method::Other("a call of the blocking client".into());
            let problem =
                "deadlock: a handler called its own blocking client; use the asynchronous client in handlers"
                    .to_owned();
            return Err(Error::Unsendable { method, problem });
        }
        let (sender, receiver) = mpsc::sync_channel(1);
        self.handle.spawn(async move {
            let _ = sender.send(work.await);
        });
        receiver.recv().map_err(|_| gone())
    }

    fn is_current(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.thread().id() == std::thread::current().id())
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // Dropping the sender completes the receiver, which ends the thread.
        drop(self.end.take());
        // If the last clone is dropped on this thread, the thread cannot wait for its own end.
        if !self.is_current()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

fn refused(source: std::io::Error) -> Error {
    let path = PathBuf::from("the thread of the client");
    Error::Start(StartError::Refused { path, error: Arc::new(source) })
}

/// The error if the work ended without an output, which only a panic can cause.
pub(super) fn gone() -> Error {
    Error::Cancelled { method: Method::Other("a call of the blocking client".into()) }
}
