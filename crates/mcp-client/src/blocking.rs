//! A blocking client, for programs without an async runtime.
//!
//! ```no_run
//! use std::process::ExitCode;
//! use std::time::Duration;
//!
//! use mcp_client::blocking::McpClient;
//! use mcp_client::{Result, ServerConfig};
//!
//! fn main() -> ExitCode {
//!     if let Err(error) = run() {
//!         eprintln!("{error}");
//!         return ExitCode::FAILURE;
//!     }
//!     ExitCode::SUCCESS
//! }
//!
//! fn run() -> Result<()> {
//!     let client = McpClient::connect(ServerConfig::command("weather"))?;
//!     let result = client
//!         .call("forecast", serde_json::json!({"city": "Oslo"}))
//!         .timeout(Duration::from_secs(10))
//!         .on_progress(|step| eprintln!("{} of {:?}", step.progress, step.total))
//!         .send()?;
//!     println!("{}", result.ok()?.text());
//!     client.close();
//!     Ok(())
//! }
//! ```
//!
//! It has the methods of the [asynchronous client](crate::McpClient), which wait instead of returning a future: a call
//! is made by [`ToolCall::send`], a connection with options by [`Connect::connect_blocking`].
//!
//! A dedicated thread keeps the connection alive between calls, runs the handlers, and ends when the last clone is
//! dropped. The client also works inside of a runtime, whose thread it then blocks. A handler that calls the blocking
//! client it belongs to gets an error instead of a deadlock.

mod call;
mod streams;
mod thread;

use std::process::ExitStatus;
use std::sync::Arc;

use mcp_protocol::capabilities::{Implementation, ServerCapabilities};
use mcp_protocol::completion::{CompleteParams, Completion};
use mcp_protocol::dialect::{Lower, Raise};
use mcp_protocol::logging::{LogLevel, LogMessageParams};
use mcp_protocol::messages::Method;
use mcp_protocol::negotiation::NegotiationResult;
use mcp_protocol::peer::Stats;
use mcp_protocol::prompts::{GetPromptResult, Prompt};
use mcp_protocol::resources::{ReadResourceResult, Resource, ResourceTemplate};
use mcp_protocol::subscriptions::SubscriptionFilter;
use mcp_protocol::tools::Tool;
use mcp_protocol::{Era, ProtocolVersion};
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::client::McpClient as AsyncClient;
use crate::client::lists::List;
use crate::config::server_config::ServerConfig;
use crate::connect::Connect;
use crate::connection::shutdown::Shutdown;
use crate::error::{ConnectionEnd, Error, Result};
use thread::Thread;

pub use call::{RunningCall, ToolCall};
pub use streams::{Changes, Feed};

/// A connection to one server, with blocking methods.
#[derive(Clone, Debug)]
pub struct McpClient {
    client: AsyncClient,
    thread: Arc<Thread>,
}

impl Connect {
    /// Connects, for programs without an async runtime. See [`blocking::McpClient`](McpClient).
    ///
    /// ```no_run
    /// # fn main() -> mcp_client::Result<()> {
    /// use mcp_client::blocking::McpClient;
    /// use mcp_client::{Handlers, ServerConfig};
    ///
    /// let connect = McpClient::builder(ServerConfig::command("weather")).handlers(Handlers::new());
    /// let client = connect.connect_blocking()?;
    /// # client.close(); Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the server could not be started, or did not become usable.
    #[cfg_attr(docsrs, doc(cfg(feature = "blocking")))]
    pub fn connect_blocking(self) -> Result<McpClient> {
        let thread = Thread::start()?;
        let client = thread.run(self.connect())??;
        Ok(McpClient { client, thread: Arc::new(thread) })
    }
}

impl McpClient {
    /// Connects to a server: a [`ServerConfig`], or the URL of a server as a string. See [`crate::McpClient::connect`].
    ///
    /// # Errors
    /// If the server could not be started, or did not become usable.
    pub fn connect<R>(config: R) -> Result<Self>
    where
        R: TryInto<ServerConfig>,
        Error: From<R::Error>,
    {
        Self::builder(config).connect_blocking()
    }

    /// Returns a builder, for a connection with more options, to finish with [`Connect::connect_blocking`].
    pub fn builder<R>(config: R) -> Connect
    where
        R: TryInto<ServerConfig>,
        Error: From<R::Error>,
    {
        AsyncClient::builder(config)
    }

    /// Returns a builder of a connection over any pair of byte streams, to finish with [`Connect::connect_blocking`].
    /// See [`crate::McpClient::over`].
    pub fn over(
        streams: (impl AsyncRead + Send + Unpin + 'static, impl AsyncWrite + Send + Unpin + 'static),
    ) -> Connect {
        AsyncClient::over(streams)
    }

    /// Runs a future that uses the asynchronous client, and waits for its output.
    ///
    /// ```no_run
    /// # fn example(client: mcp_client::blocking::McpClient) -> mcp_client::Result<()> {
    /// let (tools, prompts) = client.with(|client| async move {
    ///     tokio::try_join!(client.list_tools(), client.list_prompts())
    /// })?;
    /// # drop((tools, prompts)); Ok(()) }
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

    /// Returns the asynchronous client.
    #[must_use]
    pub fn client(&self) -> &AsyncClient {
        &self.client
    }

    /// Calls a tool. The request is sent by [`ToolCall::send`]. See [`crate::McpClient::call`].
    #[doc(alias = "tools/call")]
    pub fn call(&self, tool: impl Into<String>, arguments: impl Serialize) -> ToolCall {
        ToolCall::new(self.client.call(tool, arguments), Arc::clone(&self.thread))
    }

    /// Calls a tool and returns the result object unchanged, `isError` included.
    ///
    /// # Errors
    /// If the server refuses, the request times out, or the connection is lost. A result with `isError` is not an
    /// error.
    pub fn call_tool(&self, tool: &str, arguments: serde_json::Value) -> Result<serde_json::Value> {
        let tool = tool.to_owned();
        self.with(|client| async move { client.call_tool(&tool, arguments).await })
    }

    /// Awaits a call or any other future; on Ctrl-C or SIGTERM, drops it, closes the connection, and returns `None`.
    /// See [`crate::McpClient::unless_interrupted`].
    ///
    /// ```no_run
    /// # fn example(client: mcp_client::blocking::McpClient) -> mcp_client::Result<()> {
    /// let Some(outcome) = client.unless_interrupted(client.call("dig", ())) else { std::process::exit(130) };
    /// println!("{}", outcome?.text());
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "stdio")]
    pub fn unless_interrupted<T, W>(&self, work: W) -> Option<Result<T>>
    where
        T: Send + 'static,
        W: IntoFuture<Output = Result<T>, IntoFuture: Send + 'static>,
    {
        let (client, work) = (self.client.clone(), work.into_future());
        let done = self.thread.run(async move { client.unless_interrupted(work).await });
        done.unwrap_or_else(|error| Some(Err(error)))
    }

    /// Returns all tools, sorted by name. See [`crate::McpClient::list_tools`].
    ///
    /// # Errors
    /// [`Error::IncompleteList`] when the list exceeds its limits, otherwise as every request.
    #[doc(alias = "tools/list")]
    pub fn list_tools(&self) -> Result<Vec<Tool>> {
        self.with(|client| async move { client.list_tools().await })
    }

    /// Returns all usable tools in the server's order, and those that were left out. See [`crate::McpClient::tools`].
    ///
    /// # Errors
    /// If the server responds with an error, the request times out, or the connection is lost.
    pub fn tools(&self) -> Result<List<Tool>> {
        self.with(|client| async move { client.tools().await })
    }

    /// Returns all resources. See [`crate::McpClient::list_resources`].
    ///
    /// # Errors
    /// [`Error::IncompleteList`] when the list exceeds its limits, otherwise as every request.
    pub fn list_resources(&self) -> Result<Vec<Resource>> {
        self.with(|client| async move { client.list_resources().await })
    }

    /// Returns all resource templates. See [`crate::McpClient::list_resource_templates`].
    ///
    /// # Errors
    /// [`Error::IncompleteList`] when the list exceeds its limits, otherwise as every request.
    pub fn list_resource_templates(&self) -> Result<Vec<ResourceTemplate>> {
        self.with(|client| async move { client.list_resource_templates().await })
    }

    /// Returns all prompts. See [`crate::McpClient::list_prompts`].
    ///
    /// # Errors
    /// [`Error::IncompleteList`] when the list exceeds its limits, otherwise as every request.
    pub fn list_prompts(&self) -> Result<Vec<Prompt>> {
        self.with(|client| async move { client.list_prompts().await })
    }

    /// Reads a resource. See [`crate::McpClient::read_resource`].
    ///
    /// # Errors
    /// If the server refuses, the request times out, or the connection is lost.
    #[doc(alias = "resources/read")]
    pub fn read_resource(&self, uri: impl Into<String>) -> Result<ReadResourceResult> {
        let uri = uri.into();
        self.with(|client| async move { client.read_resource(uri).await })
    }

    /// Gets a prompt with its arguments filled in. See [`crate::McpClient::get_prompt`].
    ///
    /// # Errors
    /// If the server refuses, the request times out, or the connection is lost.
    pub fn get_prompt(
        &self,
        name: impl Into<String>,
        arguments: impl Serialize + Send + 'static,
    ) -> Result<GetPromptResult> {
        let name = name.into();
        self.with(|client| async move { client.get_prompt(name, arguments).await })
    }

    /// Completes an argument of a prompt or resource template. See [`crate::McpClient::complete`].
    ///
    /// # Errors
    /// [`Error::NotOffered`] if the server does not support completion; otherwise as every request.
    pub fn complete(&self, params: &CompleteParams) -> Result<Completion> {
        let params = params.clone();
        self.with(|client| async move { client.complete(&params).await })
    }

    /// Subscribes to changes of lists and of single resources. See [`crate::McpClient::changes`].
    ///
    /// # Errors
    /// If the server refuses, the request times out, or the connection is lost.
    pub fn changes(&self, filter: SubscriptionFilter) -> Result<Changes> {
        let changes = self.with(|client| async move { client.changes(filter).await })?;
        Ok(Changes::new(changes, Arc::clone(&self.thread)))
    }

    /// Makes any request and parses its result as a type of the protocol. See [`crate::McpClient::request`].
    ///
    /// # Errors
    /// [`Error::NotOffered`] if the protocol version does not have the method; otherwise as every request.
    pub fn request<T: Raise + Send + 'static>(
        &self,
        method: &Method,
        params: impl Lower + Send + Sync + 'static,
    ) -> Result<T> {
        let method = method.clone();
        self.with(|client| async move { client.request(&method, &params).await })
    }

    /// Checks whether the server responds. See [`crate::McpClient::ping`].
    ///
    /// # Errors
    /// If the server responds with an error, the request times out, or the connection is lost.
    pub fn ping(&self) -> Result<()> {
        self.with(|client| async move { client.ping().await })
    }

    /// Sets the minimum level of log messages; legacy era. See [`crate::McpClient::set_log_level`].
    ///
    /// # Errors
    /// [`Error::NotOffered`] if the server does not log or is a modern one; otherwise as every request.
    pub fn set_log_level(&self, level: LogLevel) -> Result<()> {
        self.with(|client| async move { client.set_log_level(level).await })
    }

    /// Notifies the server that the roots changed; legacy era. See [`crate::McpClient::roots_changed`].
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn roots_changed(&self) -> Result<()> {
        self.with(|client| async move { client.roots_changed() })
    }

    /// Returns the log messages of the server from now on. See [`crate::McpClient::log_messages`].
    #[must_use]
    pub fn log_messages(&self) -> Feed<Arc<LogMessageParams>> {
        Feed::new(self.client.log_messages(), Arc::clone(&self.thread))
    }

    /// Returns the lines that the server writes to stderr from now on. See [`crate::McpClient::stderr`].
    #[must_use]
    pub fn stderr(&self) -> Option<Feed<Arc<str>>> {
        self.client.stderr().map(|lines| Feed::new(lines, Arc::clone(&self.thread)))
    }

    /// Closes the connection, and waits until the server has ended. See [`crate::McpClient::close`].
    pub fn close(self) -> Shutdown {
        let Self { client, thread } = self;
        thread.run(client.close()).unwrap_or_default()
    }

    /// Closes the connection like [`close`](Self::close), without a report.
    pub fn disconnect(self) {
        self.close();
    }
}

/// Methods of the asynchronous client that do not wait.
macro_rules! same_as_async {
    ($($name:ident: $result:ty;)*) => {
        /// Methods that do not wait: see those of [`crate::McpClient`].
        impl McpClient {
            $(
                #[doc = concat!("See [`crate::McpClient::", stringify!($name), "`].")]
                #[must_use]
                pub fn $name(&self) -> $result {
                    self.client.$name()
                }
            )*
        }
    };
}

same_as_async! {
    version: &ProtocolVersion;
    era: Era;
    negotiation: &NegotiationResult;
    server_info: Option<Implementation>;
    capabilities: &ServerCapabilities;
    instructions: Option<&str>;
    stats: Stats;
    is_failing: bool;
    ended: Option<Arc<ConnectionEnd>>;
    process_group: Option<u32>;
    exit_status: Option<ExitStatus>;
}
