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
//! This client has the methods of the [asynchronous client](crate::McpClient), but they wait for the result instead of
//! returning a future. A tool call is made by [`ToolCall::send`]; a connection with options is made by
//! [`Connect::connect_blocking`].
//!
//! A dedicated thread keeps the connection alive between calls and runs the handlers. It ends when the last clone of
//! the client is dropped. The client can also be used on a thread of an async runtime, which it then blocks. If a
//! handler calls the blocking client that it belongs to, the call fails with an error instead of a deadlock.

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
use mcp_protocol::{Era, Json, ProtocolVersion};
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
    /// Connects, and returns the [blocking client](McpClient), for programs without an async runtime.
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
    /// Fails if the server could not be started or reached, or the handshake failed.
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
    /// Fails if the server could not be started or reached, or the handshake failed.
    pub fn connect<R>(config: R) -> Result<Self>
    where
        R: TryInto<ServerConfig>,
        Error: From<R::Error>,
    {
        Self::builder(config).connect_blocking()
    }

    /// Returns a builder of a connection, to set more options. Finish it with [`Connect::connect_blocking`].
    pub fn builder<R>(config: R) -> Connect
    where
        R: TryInto<ServerConfig>,
        Error: From<R::Error>,
    {
        AsyncClient::builder(config)
    }

    /// Returns a builder of a connection over any pair of byte streams. Finish it with [`Connect::connect_blocking`].
    /// See [`crate::McpClient::over`].
    pub fn over(
        streams: (impl AsyncRead + Send + Unpin + 'static, impl AsyncWrite + Send + Unpin + 'static),
    ) -> Connect {
        AsyncClient::over(streams)
    }

    /// Runs a future that uses the asynchronous client on the client's thread, and waits for its output.
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
    /// Returns the error of the future. [`Error::Unsendable`] if a handler of this client calls it, and
    /// [`Error::Cancelled`] if the future panics.
    pub fn with<T, Fut>(&self, work: impl FnOnce(AsyncClient) -> Fut) -> Result<T>
    where
        T: Send + 'static,
        Fut: Future<Output = Result<T>> + Send + 'static,
    {
        self.thread.run(work(self.client.clone()))?
    }

    /// Returns the asynchronous client of the same connection.
    #[must_use]
    pub fn client(&self) -> &AsyncClient {
        &self.client
    }

    /// Calls a tool. The request is sent by [`ToolCall::send`]. See [`crate::McpClient::call`].
    #[doc(alias = "tools/call")]
    pub fn call(&self, tool: impl Into<String>, arguments: impl Serialize) -> ToolCall {
        ToolCall::new(self.client.call(tool, arguments), Arc::clone(&self.thread))
    }

    /// Calls a tool with arguments that are JSON already. See [`crate::McpClient::call_json`].
    pub fn call_json(&self, tool: impl Into<String>, arguments: Json) -> ToolCall {
        ToolCall::new(self.client.call_json(tool, arguments), Arc::clone(&self.thread))
    }

    /// Calls a tool and returns the result object unchanged, `isError` included.
    ///
    /// # Errors
    /// Fails if the server responds with an error, the request times out, or the connection is lost. A result with
    /// `isError` is not an error.
    pub fn call_tool(&self, tool: &str, arguments: serde_json::Value) -> Result<serde_json::Value> {
        let tool = tool.to_owned();
        self.with(|client| async move { client.call_tool(&tool, arguments).await })
    }

    /// Waits for a call or any other future. On Ctrl-C or SIGTERM, drops the future, closes the connection, and returns
    /// `None`. See [`crate::McpClient::unless_interrupted`].
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
    /// [`Error::IncompleteList`] if the list exceeds its limits. Also fails if the server responds with an error, a
    /// request times out, or the connection is lost.
    #[doc(alias = "tools/list")]
    pub fn list_tools(&self) -> Result<Vec<Tool>> {
        self.with(|client| async move { client.list_tools().await })
    }

    /// Returns all valid tools in the server's order, and the tools that were left out. See
    /// [`crate::McpClient::tools`].
    ///
    /// # Errors
    /// Fails if the server responds with an error, the request times out, or the connection is lost.
    pub fn tools(&self) -> Result<List<Tool>> {
        self.with(|client| async move { client.tools().await })
    }

    /// Returns all resources. See [`crate::McpClient::list_resources`].
    ///
    /// # Errors
    /// [`Error::IncompleteList`] if the list exceeds its limits. Also fails if the server responds with an error, a
    /// request times out, or the connection is lost.
    pub fn list_resources(&self) -> Result<Vec<Resource>> {
        self.with(|client| async move { client.list_resources().await })
    }

    /// Returns all resource templates. See [`crate::McpClient::list_resource_templates`].
    ///
    /// # Errors
    /// [`Error::IncompleteList`] if the list exceeds its limits. Also fails if the server responds with an error, a
    /// request times out, or the connection is lost.
    pub fn list_resource_templates(&self) -> Result<Vec<ResourceTemplate>> {
        self.with(|client| async move { client.list_resource_templates().await })
    }

    /// Returns all prompts. See [`crate::McpClient::list_prompts`].
    ///
    /// # Errors
    /// [`Error::IncompleteList`] if the list exceeds its limits. Also fails if the server responds with an error, a
    /// request times out, or the connection is lost.
    pub fn list_prompts(&self) -> Result<Vec<Prompt>> {
        self.with(|client| async move { client.list_prompts().await })
    }

    /// Reads a resource. See [`crate::McpClient::read_resource`].
    ///
    /// # Errors
    /// Fails if the server responds with an error, the request times out, or the connection is lost.
    #[doc(alias = "resources/read")]
    pub fn read_resource(&self, uri: impl Into<String>) -> Result<ReadResourceResult> {
        let uri = uri.into();
        self.with(|client| async move { client.read_resource(uri).await })
    }

    /// Requests a prompt with its arguments filled in. See [`crate::McpClient::get_prompt`].
    ///
    /// # Errors
    /// Fails if the server responds with an error, the request times out, or the connection is lost.
    pub fn get_prompt(
        &self,
        name: impl Into<String>,
        arguments: impl Serialize + Send + 'static,
    ) -> Result<GetPromptResult> {
        let name = name.into();
        self.with(|client| async move { client.get_prompt(name, arguments).await })
    }

    /// Requests completions for an argument of a prompt or resource template. See [`crate::McpClient::complete`].
    ///
    /// # Errors
    /// [`Error::NotOffered`] if the server does not support completion. Also fails if the server responds with an
    /// error, the request times out, or the connection is lost.
    pub fn complete(&self, params: &CompleteParams) -> Result<Completion> {
        let params = params.clone();
        self.with(|client| async move { client.complete(&params).await })
    }

    /// Subscribes to changes of lists and of individual resources. See [`crate::McpClient::changes`].
    ///
    /// # Errors
    /// Fails if the server responds with an error, the request times out, or the connection is lost.
    pub fn changes(&self, filter: SubscriptionFilter) -> Result<Changes> {
        let changes = self.with(|client| async move { client.changes(filter).await })?;
        Ok(Changes::new(changes, Arc::clone(&self.thread)))
    }

    /// Sends any request of the protocol and parses its result as `T`. See [`crate::McpClient::request`].
    ///
    /// # Errors
    /// [`Error::NotOffered`] if the protocol version does not have the method. Also fails if the server responds with
    /// an error, the request times out, or the connection is lost.
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
    /// Fails if the server responds with an error, the request times out, or the connection is lost.
    pub fn ping(&self) -> Result<()> {
        self.with(|client| async move { client.ping().await })
    }

    /// Sets the minimum level of the log messages that a legacy server sends. See [`crate::McpClient::set_log_level`].
    ///
    /// # Errors
    /// [`Error::NotOffered`] if the server does not support logging or is a modern server. Also fails if the server
    /// responds with an error, the request times out, or the connection is lost.
    pub fn set_log_level(&self, level: LogLevel) -> Result<()> {
        self.with(|client| async move { client.set_log_level(level).await })
    }

    /// Notifies a legacy server that the roots changed. See [`crate::McpClient::roots_changed`].
    ///
    /// # Errors
    /// Fails if the connection is lost.
    pub fn roots_changed(&self) -> Result<()> {
        self.with(|client| async move { client.roots_changed() })
    }

    /// Returns the log messages that the server sends from now on. See [`crate::McpClient::log_messages`].
    #[must_use]
    pub fn log_messages(&self) -> Feed<Arc<LogMessageParams>> {
        Feed::new(self.client.log_messages(), Arc::clone(&self.thread))
    }

    /// Returns the lines that the server writes to stderr from now on, or `None` if this client started no process. See
    /// [`crate::McpClient::stderr`].
    #[must_use]
    pub fn stderr(&self) -> Option<Feed<Arc<str>>> {
        self.client.stderr().map(|lines| Feed::new(lines, Arc::clone(&self.thread)))
    }

    /// Closes the connection, and waits until the server process has ended. See [`crate::McpClient::close`].
    pub fn close(self) -> Shutdown {
        let Self { client, thread } = self;
        thread.run(client.close()).unwrap_or_default()
    }

    /// Closes the connection like [`close`](Self::close), but returns nothing.
    pub fn disconnect(self) {
        self.close();
    }
}

/// Defines the methods that are the same in the asynchronous client: they do not wait.
macro_rules! same_as_async {
    ($($name:ident: $result:ty;)*) => {
        /// Methods that return at once. They are the same as those of [`crate::McpClient`].
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
