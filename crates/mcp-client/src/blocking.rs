//! A blocking client, for programs without an async runtime.
//!
//! ```no_run
//! # fn main() -> mcp_client::Result<()> {
//! use mcp_client::ServerConfig;
//! use mcp_client::blocking::McpClient;
//!
//! let client = McpClient::connect(ServerConfig::command("weather"))?;
//! let outcome = client.call("forecast", serde_json::json!({"city": "Oslo"}))?;
//! println!("{}", outcome.text());
//! client.close();
//! # Ok(()) }
//! ```
//!
//! A dedicated thread keeps the connection alive between calls, runs the handlers, and ends when the last clone is dropped. The
//! client also works inside of a runtime, whose thread it then blocks. A handler that calls the blocking client it belongs
//! to gets an error, because it would wait for itself.

use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use mcp_protocol::messages::Method;
use mcp_protocol::resources::ReadResourceResult;
use mcp_protocol::tools::Tool;
use serde::Serialize;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::client::McpClient as AsyncClient;
use crate::client::call::ToolResult;
use crate::client::shutdown::Shutdown;
use crate::connect::Connect;
use crate::connect::server_config::ServerConfig;
use crate::error::{Error, Result};

/// A connection to one server, with blocking methods.
#[derive(Clone, Debug)]
pub struct McpClient {
    client: AsyncClient,
    thread: Arc<Thread>,
}

/// The thread that drives the connection. It ends when this is dropped.
#[derive(Debug)]
struct Thread {
    handle: Handle,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Thread {
    fn start() -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(refused)?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new()
            .name("mcp-client".to_owned())
            .spawn(move || {
                let _ = runtime.block_on(ended);
                // Does not wait for a handler that blocks, for example on user input.
                runtime.shutdown_background();
            })
            .map_err(refused)?;
        Ok(Self { handle, end: Some(end), thread: Some(thread) })
    }

    /// Runs a future on the thread, and waits for its output.
    fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Result<T> {
        if self.is_current() {
            let method = Method::Other("the work of the client's thread".into());
            let problem = "a handler must not wait for the client that waits for it".to_owned();
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

fn refused(source: std::io::Error) -> Error {
    let path = std::path::PathBuf::from("the thread of the client");
    Error::Start(crate::error::StartError::Refused { path, error: std::sync::Arc::new(source) })
}

impl Drop for Thread {
    fn drop(&mut self) {
        // Dropping the sender completes the receiver, which ends the thread.
        drop(self.end.take());
        // A clone may be dropped by the thread itself, which cannot wait for its own end.
        if !self.is_current()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

impl McpClient {
    /// Connects to the server of a server config. See [`crate::McpClient::connect`].
    ///
    /// # Errors
    /// If the server could not be started, or did not become usable.
    pub fn connect<R>(config: R) -> Result<Self>
    where
        R: TryInto<ServerConfig>,
        Error: From<R::Error>,
    {
        Self::connect_with(AsyncClient::builder(config))
    }

    /// Connects with a builder: see [`crate::McpClient::builder`].
    ///
    /// # Errors
    /// If the server could not be started, or did not become usable.
    pub fn connect_with(connect: Connect) -> Result<Self> {
        let thread = Thread::start()?;
        let client = thread.run(connect.connect())??;
        Ok(Self { client, thread: Arc::new(thread) })
    }

    /// Runs a future that uses the asynchronous client, and waits for its output.
    ///
    /// ```no_run
    /// # fn example(client: mcp_client::blocking::McpClient) -> mcp_client::Result<()> {
    /// use std::time::Duration;
    ///
    /// let outcome = client.with(|client| async move {
    ///     client.call("dig", serde_json::json!({})).timeout(Duration::from_secs(5)).await
    /// })?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The error of the future.
    pub fn with<T, Fut>(&self, work: impl FnOnce(AsyncClient) -> Fut) -> Result<T>
    where
        T: Send + 'static,
        Fut: Future<Output = Result<T>> + Send + 'static,
    {
        self.thread.run(work(self.client.clone()))?
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// If the server responds with an error, the call times out, or the connection is lost.
    #[doc(alias = "tools/call")]
    pub fn call(&self, tool: impl Into<String>, arguments: impl Serialize) -> Result<ToolResult> {
        let call = self.client.call(tool, arguments);
        self.with(|_| call.into_future())
    }

    /// Lists all tools, sorted by name.
    ///
    /// # Errors
    /// As [`crate::McpClient::list_tools`].
    #[doc(alias = "tools/list")]
    pub fn list_tools(&self) -> Result<Vec<Tool>> {
        self.with(|client| async move { client.list_tools().await })
    }

    /// Reads a resource.
    ///
    /// # Errors
    /// If the server responds with an error, the request times out, or the connection is lost.
    #[doc(alias = "resources/read")]
    pub fn read_resource(&self, uri: impl Into<String>) -> Result<ReadResourceResult> {
        let uri = uri.into();
        self.with(|client| async move { client.read_resource(uri).await })
    }

    /// Closes the connection, and waits until the server has ended. See [`crate::McpClient::close`].
    pub fn close(self) -> Shutdown {
        let Self { client, thread } = self;
        thread.run(client.close()).unwrap_or_default()
    }

    /// Returns the asynchronous client, for operations that have no method here.
    #[must_use]
    pub fn client(&self) -> &AsyncClient {
        &self.client
    }
}

/// The error for a thread that ended during the work, which only a panic can cause.
fn gone() -> Error {
    Error::Cancelled { method: Method::Other("the work of the client's thread".into()) }
}
