//! The handle of a connection, and every method of the protocol on it.

pub(crate) mod call;
pub(crate) mod changes;
pub(crate) mod input_rounds;
pub(crate) mod lists;
pub(crate) mod output_schema;
mod prompts;
mod resources;
pub(crate) mod running;
mod send;
pub(crate) mod shutdown;

use std::process::ExitStatus;
use std::sync::Arc;

use mcp_protocol::capabilities::{Implementation, ServerCapabilities};
use mcp_protocol::dialect::{Lower, Raise};
use mcp_protocol::logging::{LogLevel, LogMessageParams, SetLevelParams};
use mcp_protocol::messages::{EmptyParams, EmptyResult, Method};
use mcp_protocol::negotiation::{NegotiationResult, ServerAnswer};
use mcp_protocol::peer::Stats;
use mcp_protocol::{Dialect, Era, Json, ProtocolVersion};

use crate::client::call::ToolCall;
use crate::client::shutdown::Shutdown;
use crate::connection::feed::Feed;
use crate::connection::handlers::Handlers;
use crate::connection::transport::{Exchanges, Lifetime};
use crate::connection::{Connection, RequestOptions};
use crate::error::{ConnectionEnd, Error, Result};

/// A connection to one server.
///
/// Clones are cheap and share it. All methods work side by side, from any future and thread. When the last clone is
/// dropped, the server and everything it has started are killed at once; [`close`](Self::close) ends them in good
/// order.
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
    pub(crate) lifetime: Box<dyn Lifetime>,
    /// Held by the caller that lists the tools for all callers.
    pub(crate) listing: tokio::sync::Mutex<()>,
}

impl Inner {
    pub(crate) fn new(
        connection: Arc<Connection>,
        negotiation: NegotiationResult,
        handlers: Arc<Handlers>,
        lifetime: Box<dyn Lifetime>,
    ) -> Self {
        Self { connection, negotiation, handlers, lifetime, listing: tokio::sync::Mutex::default() }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.lifetime.kill();
        self.connection
            .end(ConnectionEnd { cause: crate::error::EndCause::Closed, ..ConnectionEnd::default() });
    }
}

/// What a server calls itself.
pub(crate) fn name_of(negotiation: &NegotiationResult) -> Option<String> {
    match &negotiation.server {
        ServerAnswer::Discovered(result) => result.server_info().map(|info| info.name),
        ServerAnswer::Initialized(result) => Some(result.server_info.name.clone()),
        _ => None,
    }
}

/// What a server says it can.
pub(crate) fn capabilities_of(negotiation: &NegotiationResult) -> &ServerCapabilities {
    static NONE: std::sync::OnceLock<ServerCapabilities> = std::sync::OnceLock::new();
    match &negotiation.server {
        ServerAnswer::Discovered(result) => &result.capabilities,
        ServerAnswer::Initialized(result) => &result.capabilities,
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

    /// The revision that is spoken.
    #[must_use]
    pub fn version(&self) -> &ProtocolVersion {
        &self.inner.negotiation.version
    }

    /// The era of that revision.
    #[must_use]
    pub fn era(&self) -> Era {
        self.inner.negotiation.era()
    }

    /// What was found out about the server when it was first started.
    #[must_use]
    pub fn negotiation(&self) -> &NegotiationResult {
        &self.inner.negotiation
    }

    /// What the server calls itself. Self-reported: for display and logs, never for decisions.
    #[must_use]
    pub fn server_info(&self) -> Option<Implementation> {
        match &self.inner.negotiation.server {
            ServerAnswer::Discovered(result) => result.server_info(),
            ServerAnswer::Initialized(result) => Some(result.server_info.clone()),
            _ => None,
        }
    }

    /// What the server can.
    #[must_use]
    pub fn capabilities(&self) -> &ServerCapabilities {
        capabilities_of(&self.inner.negotiation)
    }

    /// How to use the server, for a language model. Untrusted.
    #[must_use]
    pub fn instructions(&self) -> Option<&str> {
        match &self.inner.negotiation.server {
            ServerAnswer::Discovered(result) => result.instructions.as_deref(),
            ServerAnswer::Initialized(result) => result.instructions.as_deref(),
            _ => None,
        }
    }

    /// Calls a tool. The call begins when it is awaited.
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
    /// # Ok(()) }
    /// ```
    pub fn call(&self, tool: impl Into<String>, arguments: impl Into<Json>) -> ToolCall {
        ToolCall::new(self.clone(), tool.into(), arguments.into())
    }

    /// Calls a tool and gives the result as it came, `isError` included. It is sent once.
    ///
    /// # Errors
    /// When the server refuses, the time is over, or the connection is lost. A tool that fails is no error.
    pub async fn call_tool(&self, tool: &str, arguments: serde_json::Value) -> Result<serde_json::Value> {
        let body = self.call(tool, arguments).raw().await?;
        serde_json::from_str(body.text())
            .map_err(|error| Error::unreadable(&Method::ToolsCall, &error.into()))
    }

    /// What the server logs, from now on. Servers are asked for it by [`Connect::log_level`](crate::Connect::log_level).
    #[must_use]
    pub fn log_messages(&self) -> Feed<Arc<LogMessageParams>> {
        Feed::new(self.inner.connection.lock().log_messages())
    }

    /// Sets the mildest level of log messages; legacy era.
    ///
    /// # Errors
    /// [`Error::NotOffered`] if the server has no log or is a modern one; otherwise as every request.
    pub async fn set_log_level(&self, level: LogLevel) -> Result<()> {
        if self.capabilities().logging.is_none() {
            return Err(Error::NotOffered { method: Method::SetLevel });
        }
        let _: EmptyResult = self.request(&Method::SetLevel, &SetLevelParams::new(level.clone())).await?;
        self.inner.connection.lock().log_level = Some(level);
        Ok(())
    }

    /// Asks whether the server lives. A modern server has no ping and is asked what it can instead.
    ///
    /// # Errors
    /// As every request.
    pub async fn ping(&self) -> Result<()> {
        let method = if self.dialect().is_modern() { Method::Discover } else { Method::Ping };
        self.send(&method, &EmptyParams::new(), RequestOptions::default()).await.map(drop)
    }

    /// Tells the server that the roots changed; legacy era. A modern server asks when it wants to know.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn roots_changed(&self) -> Result<()> {
        let direction = mcp_protocol::dialect::Direction::ToServer;
        if !self.dialect().has(&Method::RootsChanged, direction) {
            return Ok(());
        }
        self.inner.connection.notify(&Method::RootsChanged, &EmptyParams::new())
    }

    /// Makes any request, and reads its result as a type of the protocol.
    ///
    /// # Errors
    /// [`Error::NotOffered`] if the revision does not have the method; otherwise when the server refuses, the time is
    /// over, or the connection is lost.
    ///
    /// # Cancellation
    /// When dropped, the request is cancelled on the server.
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

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.inner.connection.lock().peer.stats()
    }

    /// True while a server behind a URL keeps ending the streams on which it tells of changes, or cannot be reached for them:
    /// since the fourth that ended soon, until one has lived for half a minute. What it tells of its own accord may be
    /// missed meanwhile; calls may work all the same.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.exchanges().is_some_and(Exchanges::is_failing)
    }

    /// Returns how the connection ended, or `None` while it is open. A server that
    /// [restarts](crate::ServerConfig::restarts) can still be used.
    #[must_use]
    pub fn ended(&self) -> Option<Arc<ConnectionEnd>> {
        self.inner.connection.ended()
    }

    /// Ends the connection in good order: the server's input is closed, and it gets three seconds to end, then one
    /// after it was asked by a signal, before it and everything it has started are killed. What is in flight is lost.
    /// Takes at most five seconds, and can be called on every clone.
    pub async fn close(self) -> Shutdown {
        self.inner.connection.close();
        self.inner.lifetime.shut_down().await
    }

    /// [`close`](Self::close), without telling how it went.
    pub async fn disconnect(self) {
        self.close().await;
    }

    /// The group of the server's process; `None` if there is none.
    #[must_use]
    pub fn process_group(&self) -> Option<u32> {
        self.inner.lifetime.process_group()
    }

    /// What the server writes to standard error, line by line, from now on; `None` if there is no process. Values of
    /// variables that were given to the server are masked.
    #[must_use]
    pub fn stderr(&self) -> Option<Feed<Arc<str>>> {
        self.inner.lifetime.stderr()
    }

    /// What the server's process ended with, once it has.
    #[must_use]
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.ended().and_then(|ended| ended.status)
    }
}
