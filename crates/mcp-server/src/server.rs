//! The server builder.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use mcp_protocol::capabilities::Implementation;
use mcp_protocol::messages::CacheScope;
use mcp_protocol::metrics::Metrics;
use mcp_protocol::{Limits, ProtocolVersion};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::budget::Budget;
use crate::call::approval::{Approver, Proposal, approver};
use crate::call::confirmation_store::{ConfirmationStore, InMemoryStore};
use crate::call::hook::{Call, Hook, Outcome, hook};
use crate::call::identity::Principal;
use crate::call::seal::Sealer;
use crate::dispatch::core::Core;
use crate::dispatch::router::{result_meta, served_versions};
use crate::dispatch::watchdog::Watchdog;
use crate::error::{Error, ToolError};
use crate::link::driver;
use crate::offer::prompt::ServedPrompt;
use crate::offer::registry::{CacheHint, Registry, ServerSettings};
use crate::offer::resource::{ServedResource, ServedTemplate, check_resource_uri, hint};
use crate::offer::tool::{Tool, ToolEntry};
use crate::offer::tool_spec::ToolSpec;
use crate::wire_trace::WireTrace;

/// The default number of items in a page of a list.
const DEFAULT_PAGE_SIZE: usize = 1000;

/// An MCP server: tools, resources and prompts, for every protocol revision.
///
/// ```
/// use mcp_server::testing::RawClient;
/// use mcp_server::{McpServer, tool};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add { a: i64, b: i64 }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = McpServer::named("calculator", env!("CARGO_PKG_VERSION"))
///     .tool(tool("add", |Add { a, b }: Add| async move { (a + b).to_string() }).description("Adds."));
/// // server.serve_stdio().await?; or, in a test, see `McpServer::in_memory`; here without a client library:
/// let mut client = RawClient::new(server)?;
/// let call = serde_json::json!({"name": "add", "arguments": {"a": 2, "b": 40}});
/// let response = client.request("tools/call", call).await?;
/// assert_eq!(response["result"]["content"][0]["text"], "42");
/// # Ok(()) }
/// ```
pub struct McpServer {
    registry: Registry,
    limits: Limits,
    ask_timeout: Duration,
    grace: Duration,
    sealer: Sealer,
    hooks: Vec<Arc<Hook>>,
    approver: Option<Arc<Approver>>,
    confirmation_store: Arc<dyn ConfirmationStore>,
    wire_trace: Option<WireTrace>,
    metrics: Option<Arc<dyn Metrics>>,
}

impl McpServer {
    /// Creates a server with these tools. The server info has the name of the executable and the version 0.0.0: see
    /// [`implementation`](Self::implementation) and [`named`](Self::named).
    #[must_use]
    pub fn new(tools: Vec<Arc<dyn ToolSpec>>) -> Self {
        let server = Self {
            registry: Registry::new(ServerSettings {
                implementation: Implementation::new(executable_name(), "0.0.0"),
                instructions: None,
                versions: served_versions(),
                lists: CacheHint::default(),
                page_size: DEFAULT_PAGE_SIZE,
            }),
            limits: Limits::default(),
            ask_timeout: Duration::from_secs(600),
            grace: Duration::from_secs(1),
            sealer: Sealer::new(),
            hooks: Vec::new(),
            approver: None,
            confirmation_store: Arc::new(InMemoryStore::default()),
            wire_trace: None,
            metrics: None,
        };
        tools.into_iter().fold(server, |server, spec| server.tool(Tool::from(spec)))
    }

    /// Creates a server without tools, with this name and version.
    #[must_use]
    pub fn named(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self::new(Vec::new()).implementation(Implementation::new(name, version))
    }

    /// Sets the server info: name, version, title, website, icons.
    #[doc(alias = "serverInfo")]
    #[must_use]
    pub fn implementation(self, implementation: Implementation) -> Self {
        self.with_settings(|settings| settings.implementation = implementation)
    }

    /// Sets the instructions, which tell a language model how to use the server.
    #[must_use]
    pub fn instructions(self, instructions: impl Into<String>) -> Self {
        let instructions = instructions.into();
        self.with_settings(|settings| settings.instructions = Some(instructions))
    }

    /// Sets the supported protocol versions, newest first. Default: all five.
    #[must_use]
    pub fn versions(self, versions: impl Into<Vec<ProtocolVersion>>) -> Self {
        let versions = versions.into();
        self.with_settings(|settings| settings.versions = versions)
    }

    /// Sets how long clients may cache the lists of tools, resources and prompts, and whether caches may share them
    /// between clients. Default: no caching.
    #[doc(alias = "ttlMs")]
    #[doc(alias = "cacheScope")]
    #[must_use]
    pub fn cache_lists(self, ttl: Duration, scope: CacheScope) -> Self {
        self.with_settings(|settings| settings.lists = hint(ttl, scope))
    }

    /// Sets the maximum number of items in a page of a list, at least 1. Default: 1000.
    #[doc(alias = "pagination")]
    #[must_use]
    pub fn page_size(self, items: usize) -> Self {
        self.with_settings(|settings| settings.page_size = items.max(1))
    }

    /// Sets the limits of each connection, such as the maximum size of a message.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how long a call waits for a legacy client to answer a request (elicitation, sampling, roots). Default: 10
    /// minutes, because a person may have to answer.
    #[must_use]
    pub fn ask_timeout(mut self, timeout: Duration) -> Self {
        self.ask_timeout = timeout;
        self
    }

    /// Sets the grace period: how long calls in flight may continue after the client has closed its end of the
    /// connection. They are then cancelled. Default: 1 s.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets the key that encrypts `requestState`, the state of a call that a modern client keeps while it answers a
    /// request of the server. Default: a random key that is lost when the process exits. Several processes that serve
    /// the same clients must share one key. Keep the key secret.
    #[doc(alias = "requestState")]
    #[must_use]
    #[cfg(feature = "sealing")]
    pub fn sealing_key(mut self, key: [u8; 32]) -> Self {
        self.sealer = Sealer::with_key(key);
        self
    }

    /// Adds a tool. A duplicate name or an invalid definition makes serving fail with [`Error::Setup`].
    #[must_use]
    pub fn tool(self, tool: Tool) -> Self {
        let name = tool.definition().name.clone();
        self.registry.update(|state| match ToolEntry::new(tool) {
            Err(problem) => state.problems.push(problem),
            Ok(_) if state.tools.get(&name).is_some() => {
                state.problems.push(format!("duplicate tool `{name}`"));
            }
            Ok(entry) => state.tools.put(entry),
        });
        self
    }

    /// Adds a resource. A duplicate or invalid URI makes serving fail with [`Error::Setup`].
    #[must_use]
    pub fn resource(self, resource: ServedResource) -> Self {
        self.registry.update(|state| {
            let uri = &resource.0.definition.uri;
            match check_resource_uri(uri) {
                Err(problem) => state.problems.push(problem),
                Ok(()) if state.resources.get(uri).is_some() => {
                    state.problems.push(format!("duplicate resource `{uri}`"));
                }
                Ok(()) => state.resources.put(resource.0),
            }
        });
        self
    }

    /// Adds a resource template. A duplicate or invalid URI template makes serving fail with [`Error::Setup`].
    #[must_use]
    pub fn template(self, template: ServedTemplate) -> Self {
        self.registry.update(|state| match template.0 {
            Err(problem) => state.problems.push(problem),
            Ok(entry) if state.templates.get(&entry.definition.uri_template).is_some() => {
                let problem = format!("duplicate resource template `{}`", entry.definition.uri_template);
                state.problems.push(problem);
            }
            Ok(entry) => state.templates.put(entry),
        });
        self
    }

    /// Adds a prompt. A duplicate name, or an argument type that cannot be read from text, makes serving fail with
    /// [`Error::Setup`].
    #[must_use]
    pub fn prompt(self, prompt: ServedPrompt) -> Self {
        self.registry.update(|state| {
            let name = &prompt.0.definition.name;
            match prompt.0.check() {
                Err(problem) => state.problems.push(problem),
                Ok(()) if state.prompts.get(name).is_some() => {
                    state.problems.push(format!("duplicate prompt `{name}`"));
                }
                Ok(()) => state.prompts.put(prompt.0),
            }
        });
        self
    }

    /// Adds a hook (middleware) around every `tools/call`, `prompts/get` and `resources/read`: see [`Call`]. The hook
    /// that was added first is the outermost.
    #[doc(alias = "middleware")]
    #[doc(alias = "hook")]
    #[must_use]
    pub fn around<F, Fut>(mut self, function: F) -> Self
    where
        F: Fn(Call) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome, ToolError>> + Send + 'static,
    {
        self.hooks.push(hook(function));
        self
    }

    /// Sets the function that asks a person to approve a call of a tool that [needs approval](Tool::needs_approval),
    /// for clients without elicitation. Default: such calls fail.
    ///
    /// ```
    /// use mcp_server::{McpServer, Proposal, tool};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = McpServer::named("careful", "1")
    ///     .tool(tool("delete", || async { "gone" }).needs_approval())
    ///     .approve_with(|proposal: Proposal| async move {
    ///         // For example a desktop dialog that shows the proposal.
    ///         proposal.to_string() == "Run `delete` with {}?"
    ///     });
    /// let mut client = mcp_server::testing::RawClient::new(server)?; // A client without elicitation.
    /// let response = client.request("tools/call", serde_json::json!({"name": "delete"})).await?;
    /// assert_eq!(response["result"]["content"][0]["text"], "gone");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn approve_with<F, Fut>(mut self, function: F) -> Self
    where
        F: Fn(Proposal) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = bool> + Send + 'static,
    {
        self.approver = Some(approver(function));
        self
    }

    /// Sets the store of used confirmations. Default: in the memory of this process. Required if several processes
    /// share one [`sealing_key`](Self::sealing_key): see [`ConfirmationStore`].
    #[must_use]
    pub fn confirmation_store(mut self, store: impl ConfirmationStore) -> Self {
        self.confirmation_store = Arc::new(store);
        self
    }

    /// Writes every message to this trace, for debugging.
    #[must_use]
    pub fn wire_trace(mut self, wire_trace: &WireTrace) -> Self {
        self.wire_trace = Some(wire_trace.clone());
        self
    }

    /// Sets the receiver of metrics, which is called at the start and the end of every call: see [`Metrics`].
    #[doc(alias = "prometheus")]
    #[must_use]
    pub fn metrics(mut self, metrics: impl Metrics) -> Self {
        self.metrics = Some(Arc::new(metrics));
        self
    }

    /// Returns the registry, which adds and removes tools, resources and prompts while the server runs.
    #[must_use]
    pub fn registry(&self) -> Registry {
        self.registry.clone()
    }

    /// Serves one client over any pair of byte streams, one message per line: a Unix socket, a TCP connection, a pipe.
    ///
    /// After the client has closed its end of the connection, waits up to the [`grace`](Self::grace) period for the
    /// calls in flight, cancels the rest, and returns.
    ///
    /// # Errors
    /// Fails if the server is not configured correctly, or reading or writing fails.
    pub async fn serve(
        self,
        mut reader: impl AsyncRead + Unpin + Send,
        mut writer: impl AsyncWrite + Unpin + Send,
    ) -> Result<(), Error> {
        let core = self.into_core(usize::MAX)?;
        driver::drive(&core, &mut reader, &mut writer, None, Principal::default()).await?;
        Ok(())
    }

    fn with_settings(self, change: impl FnOnce(&mut ServerSettings)) -> Self {
        self.registry.update(|state| change(Arc::make_mut(&mut state.settings)));
        self
    }

    /// Checks the configuration and returns the core of the server, which accepts at most `calls` calls at once.
    pub(crate) fn into_core(self, calls: usize) -> Result<Arc<Core>, Error> {
        let state = self.registry.snapshot();
        let problems = state.problems();
        if !problems.is_empty() {
            return Err(Error::Setup { problems });
        }
        for tool in state.tools.iter().filter(|tool| tool.definition.description.is_none()) {
            let name = &tool.definition.name;
            tracing::warn!(%name, "tool without a description: a language model cannot tell when to call it");
        }
        Ok(Arc::new(Core {
            meta: result_meta(&state.settings.implementation),
            registry: self.registry,
            sealer: self.sealer,
            limits: self.limits,
            ask_timeout: self.ask_timeout,
            grace: self.grace,
            hooks: self.hooks,
            approver: self.approver,
            confirmation_store: self.confirmation_store,
            wire_trace: self.wire_trace,
            metrics: self.metrics,
            watchdog: Watchdog::default(),
            calls: Budget::new(calls),
        }))
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer").field("registry", &self.registry).finish_non_exhaustive()
    }
}

fn executable_name() -> String {
    let path = std::env::current_exe().ok();
    let stem = path.as_deref().and_then(|path| path.file_stem()).and_then(|stem| stem.to_str());
    stem.unwrap_or("mcp-server").to_owned()
}
