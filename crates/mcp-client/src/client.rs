//! The asynchronous client: the handle of one connection.

pub(crate) mod call;
pub(crate) mod changes;
pub(crate) mod input_rounds;
pub(crate) mod lists;
mod observed;
pub(crate) mod output_schema;
mod prompts;
mod recover;
mod resources;
pub(crate) mod running;

use std::process::ExitStatus;
use std::sync::Arc;

use mcp_protocol::capabilities::{Implementation, ServerCapabilities};
use mcp_protocol::dialect::{Lower, Raise};
use mcp_protocol::logging::{LogLevel, LogMessageParams, SetLevelParams};
use mcp_protocol::messages::{EmptyParams, EmptyResult, Method};
use mcp_protocol::negotiation::{NegotiationResult, ServerResponse};
use mcp_protocol::peer::Stats;
use mcp_protocol::{Dialect, Era, Json, ProtocolVersion};
use serde::Serialize;

use crate::client::call::{ToolCall, object, object_of};
use crate::connection::feed::Feed;
use crate::connection::handlers::Handlers;
use crate::connection::shutdown::Shutdown;
use crate::connection::transport::{Exchanges, Supervisor};
use crate::connection::{Connection, RequestOptions};
use crate::error::{ConnectionEnd, Error, Result};

/// The maximum time that closing a connection waits for a refreshed token to be saved.
#[cfg(feature = "oauth")]
pub(crate) const SETTLE_TIMEOUT: std::time::Duration = std::time::Duration::from_millis(4500);

/// A connection to one server.
///
/// Clones are cheap and share the connection. All methods can be used concurrently, from any task and thread. Dropping
/// the last clone immediately kills the server process and all processes in its group; [`close`](Self::close) shuts the
/// server down gracefully.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> mcp_client::Result<()> {
/// use mcp_client::{McpClient, ServerConfig};
///
/// let client = McpClient::connect(ServerConfig::command("weather").arg("--metric")).await?;
/// for tool in client.list_tools().await? {
///     println!("{}", tool.name);
/// }
/// let outcome = client.call("forecast", serde_json::json!({"city": "Oslo"})).await?;
/// println!("{}", outcome.text());
/// client.close().await;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct McpClient {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) connection: Arc<Connection>,
    pub(crate) negotiation: NegotiationResult,
    pub(crate) handlers: Arc<Handlers>,
    pub(crate) supervisor: Box<dyn Supervisor>,
    /// Held while one caller lists the tools for all callers.
    pub(crate) listing: tokio::sync::Mutex<()>,
    #[cfg(feature = "oauth")]
    pub(crate) login: Option<crate::oauth::ConnectionLogin>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.supervisor.kill();
        self.connection
            .end(ConnectionEnd { cause: crate::error::EndCause::Closed, ..ConnectionEnd::default() });
    }
}

/// Returns the name that a server reports.
pub(crate) fn name_of(negotiation: &NegotiationResult) -> Option<String> {
    match &negotiation.server {
        ServerResponse::Discover(result) => result.server_info().map(|info| info.name),
        ServerResponse::Initialize(result) => Some(result.server_info.name.clone()),
        _ => None,
    }
}

/// Returns the capabilities that a server declared.
pub(crate) fn capabilities_of(negotiation: &NegotiationResult) -> &ServerCapabilities {
    static NONE: std::sync::OnceLock<ServerCapabilities> = std::sync::OnceLock::new();
    match &negotiation.server {
        ServerResponse::Discover(result) => &result.capabilities,
        ServerResponse::Initialize(result) => &result.capabilities,
        _ => NONE.get_or_init(ServerCapabilities::new),
    }
}

impl McpClient {
    pub(crate) fn new(inner: Inner) -> Self {
        Self { inner: Arc::new(inner) }
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// Returns the protocol version of the connection.
    #[must_use]
    pub fn version(&self) -> &ProtocolVersion {
        &self.inner.negotiation.version
    }

    /// Returns the era of the protocol version: legacy or modern.
    #[must_use]
    pub fn era(&self) -> Era {
        self.inner.negotiation.era()
    }

    /// Returns the result of the version negotiation (`server/discover` or `initialize`). A restart of the server does
    /// not change the returned value.
    #[must_use]
    pub fn negotiation(&self) -> &NegotiationResult {
        &self.inner.negotiation
    }

    /// Returns the name and version that the server reports. They are unverified: display or log them, but do not base
    /// security decisions on them.
    #[must_use]
    pub fn server_info(&self) -> Option<Implementation> {
        match &self.inner.negotiation.server {
            ServerResponse::Discover(result) => result.server_info(),
            ServerResponse::Initialize(result) => Some(result.server_info.clone()),
            _ => None,
        }
    }

    /// Returns the server capabilities.
    #[must_use]
    pub fn capabilities(&self) -> &ServerCapabilities {
        capabilities_of(&self.inner.negotiation)
    }

    /// Returns the server's instructions for a language model, or `None` if it sent none. They are untrusted.
    #[must_use]
    pub fn instructions(&self) -> Option<&str> {
        match &self.inner.negotiation.server {
            ServerResponse::Discover(result) => result.instructions.as_deref(),
            ServerResponse::Initialize(result) => result.instructions.as_deref(),
            _ => None,
        }
    }

    /// Calls a tool. The request is sent when the returned [`ToolCall`] is awaited.
    ///
    /// The arguments are a value that serializes to a JSON object: `serde_json::json!`, a struct of your own that
    /// derives `Serialize`, a map, [`Json`](mcp_protocol::Json), or `()` for none.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::McpClient) -> mcp_client::Result<()> {
    /// use std::time::Duration;
    ///
    /// let sum: i64 = client
    ///     .call("add", serde_json::json!({"a": 1, "b": 2}))
    ///     .timeout(Duration::from_secs(5))
    ///     .on_progress(|step| eprintln!("{}", step.progress))
    ///     .await?
    ///     .json()?;
    ///
    /// #[derive(serde::Serialize)]
    /// struct AddTask<'a> {
    ///     title: &'a str,
    /// }
    /// client.call("add_task", AddTask { title: "tea" }).await?.ok()?;
    /// # Ok(()) }
    /// ```
    pub fn call(&self, tool: impl Into<String>, arguments: impl Serialize) -> ToolCall {
        ToolCall::new(self.clone(), tool.into(), object_of(&arguments))
    }

    /// Calls a tool with arguments that are JSON already, like [`call`](Self::call). They are checked to be an object,
    /// and not serialized again.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::McpClient) -> Result<(), Box<dyn std::error::Error>> {
    /// let arguments: mcp_protocol::Json = r#"{"city": "Oslo"}"#.parse()?;
    /// let outcome = client.call_json("forecast", arguments).await?;
    /// # drop(outcome); Ok(()) }
    /// ```
    pub fn call_json(&self, tool: impl Into<String>, arguments: Json) -> ToolCall {
        ToolCall::new(self.clone(), tool.into(), object(arguments))
    }

    /// Calls a tool and returns the result object unchanged, `isError` included.
    ///
    /// # Errors
    /// Fails if the server responds with an error, the request times out, or the connection is lost. A result with
    /// `isError` is not an error.
    pub async fn call_tool(&self, tool: &str, arguments: serde_json::Value) -> Result<serde_json::Value> {
        let body = self.call(tool, arguments).raw().await?;
        serde_json::from_str(body.text())
            .map_err(|error| Error::unreadable(&Method::ToolsCall, &error.into()))
    }

    /// Returns the log messages that the server sends from now on. To request them, use
    /// [`Connect::log_level`](crate::Connect::log_level).
    #[must_use]
    pub fn log_messages(&self) -> Feed<Arc<LogMessageParams>> {
        self.inner.connection.lock().log_messages()
    }

    /// Sets the minimum level of the log messages that a legacy server sends. For a modern server, use
    /// [`Connect::log_level`](crate::Connect::log_level).
    ///
    /// # Errors
    /// [`Error::NotOffered`] if the server does not support logging or is a modern server. Also fails if the server
    /// responds with an error, the request times out, or the connection is lost.
    pub async fn set_log_level(&self, level: LogLevel) -> Result<()> {
        if self.capabilities().logging.is_none() {
            return Err(Error::NotOffered { method: Method::SetLevel });
        }
        let _: EmptyResult = self.request(&Method::SetLevel, &SetLevelParams::new(level.clone())).await?;
        self.inner.connection.lock().log_level = Some(level);
        Ok(())
    }

    /// Checks whether the server responds. Sends `ping` to a legacy server, and `server/discover` to a modern server,
    /// which has no `ping`.
    ///
    /// # Errors
    /// Fails if the server responds with an error, the request times out, or the connection is lost.
    pub async fn ping(&self) -> Result<()> {
        let method = if self.dialect().is_modern() { Method::Discover } else { Method::Ping };
        self.send(&method, &EmptyParams::new(), RequestOptions::default()).await.map(drop)
    }

    /// Notifies a legacy server that the roots changed. Does nothing for a modern server, which requests the roots when
    /// it needs them.
    ///
    /// # Errors
    /// Fails if the connection is lost.
    pub fn roots_changed(&self) -> Result<()> {
        let direction = mcp_protocol::dialect::Direction::ToServer;
        if !self.dialect().has(&Method::RootsChanged, direction) {
            return Ok(());
        }
        self.inner.connection.notify(&Method::RootsChanged, &EmptyParams::new())
    }

    /// Sends any request of the protocol and parses its result as `T`.
    ///
    /// # Errors
    /// [`Error::NotOffered`] if the protocol version does not have the method. This is not checked for
    /// [`Method::Other`]. Also fails if the server responds with an error, the request times out, or the connection is
    /// lost.
    ///
    /// # Cancellation
    /// Dropping the future cancels the request on the server.
    pub async fn request<T: Raise>(&self, method: &Method, params: &(dyn Lower + Sync)) -> Result<T> {
        let direction = mcp_protocol::dialect::Direction::ToServer;
        if !matches!(method, Method::Other(_)) && !self.dialect().has(method, direction) {
            return Err(Error::NotOffered { method: method.clone() });
        }
        let body = self.send(method, params, RequestOptions::default()).await?;
        self.dialect().raise(&body.body()).map_err(|error| Error::unreadable(method, &error))
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.inner.connection.dialect()
    }

    /// Returns the counters of the connection: calls, requests from the server, and messages that were ignored.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.inner.connection.lock().peer.stats()
    }

    /// Returns true if the notification streams of a server behind a URL keep failing: several in a row could not be
    /// opened, or ended within 30 s. Returns false again once a stream has stayed open for 30 s, or no stream is in
    /// use. While it returns true, changes may be missed, but calls may still work.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.exchanges().is_some_and(Exchanges::is_failing)
    }

    /// Returns how the connection ended, or `None` while it is open. If the server config allows
    /// [restarts](crate::ServerConfig::restarts), the client can still be used: the next call restarts the server.
    #[must_use]
    pub fn ended(&self) -> Option<Arc<ConnectionEnd>> {
        self.inner.connection.ended()
    }

    /// Closes the connection and shuts a server process down gracefully: closes its stdin, sends SIGTERM to its process
    /// group if it has not exited after 3 s, and kills the group after 1 s more. Requests in flight are lost. Takes at
    /// most 5 s. Closing one clone closes the connection of all clones.
    pub async fn close(self) -> Shutdown {
        self.inner.connection.close();
        #[cfg(feature = "oauth")]
        if let Some(login) = &self.inner.login {
            let settle = login.settle(SETTLE_TIMEOUT);
            let (shutdown, is_token_unsaved) = tokio::join!(self.inner.supervisor.shut_down(), settle);
            return Shutdown { is_token_unsaved, ..shutdown };
        }
        self.inner.supervisor.shut_down().await
    }

    /// Closes the connection like [`close`](Self::close), but returns nothing.
    pub async fn disconnect(self) {
        self.close().await;
    }

    /// Returns the id of the server's process group, or `None` if this client started no process.
    #[must_use]
    pub fn process_group(&self) -> Option<u32> {
        self.inner.supervisor.process_group()
    }

    /// Returns the lines that the server writes to stderr from now on, or `None` if this client started no process. The
    /// feed ends with the process; after a restart, call this again. Environment values of the server config are
    /// masked.
    #[must_use]
    pub fn stderr(&self) -> Option<Feed<Arc<str>>> {
        self.inner.supervisor.stderr()
    }

    /// Returns the exit status of the server process, or `None` while it runs or if there is no process.
    #[must_use]
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.ended().and_then(|ended| ended.status)
    }
}
