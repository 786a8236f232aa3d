//! The builder of a connection.

#[cfg(feature = "oauth")]
mod login;
mod settings;

use std::sync::Arc;
use std::time::Duration;

use mcp_protocol::capabilities::Implementation;
use mcp_protocol::logging::LogLevel;
use mcp_protocol::meta::Meta;
use mcp_protocol::metrics::Metrics;
use mcp_protocol::negotiation::Mode;
use mcp_protocol::{Limits, ProtocolVersion};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::client::McpClient;
use crate::config::negotiation_cache::NegotiationCache;
use crate::config::offer::Offer;
use crate::config::server_config::{ServerConfig, Target};
use crate::connect::settings::{CacheIdentity, ConnectSettings, Connecting};
use crate::connection::cache::Cache;
use crate::connection::handlers::Handlers;
use crate::connection::observers::Observers;
use crate::error::{Error, Result};
use crate::stream::link::{Link, LinkProcess};
use crate::stream::negotiate::Launch;
use crate::wire_trace::WireTrace;

/// A builder of a connection: a server config, and the options of the host (the application that uses this crate).
///
/// ```no_run
/// # async fn example() -> mcp_client::Result<()> {
/// use mcp_client::{Handlers, McpClient, ServerConfig};
///
/// let client = McpClient::builder(ServerConfig::command("weather"))
///     .name("my-agent", "1.0")
///     .handlers(Handlers::new())
///     .connect()
///     .await?;
/// # client.close().await; Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "nothing is started before `connect`"]
pub struct Connect {
    destination: Destination,
    handlers: Handlers,
    info: Implementation,
    versions: Vec<ProtocolVersion>,
    negotiation_cache: Option<NegotiationCache>,
    log_level: Option<LogLevel>,
    cache: Cache,
    wire_trace: Option<WireTrace>,
    observers: Observers,
    #[cfg(feature = "stdio")]
    ledger: Option<crate::Ledger>,
    #[cfg(feature = "http")]
    network: crate::http::Network,
    #[cfg(feature = "oauth")]
    login: login::LoginSettings,
}

/// The destination of a connection.
enum Destination {
    ServerConfig(Box<ServerConfig>),
    Streams(Box<Streams>),
    /// The argument could not be converted to a server config.
    Invalid(Error),
}

struct Streams {
    reader: Box<dyn AsyncRead + Send + Unpin>,
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    limits: Limits,
    mode: Mode,
    budget: Duration,
}

impl std::fmt::Debug for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ServerConfig(config) => config.fmt(f),
            Self::Streams(_) => f.write_str("streams"),
            Self::Invalid(error) => error.fmt(f),
        }
    }
}

impl McpClient {
    /// Connects to a server: a [`ServerConfig`], or the URL of a server as a string.
    ///
    /// Returns once the handshake is complete. Fails if that takes longer than the [start
    /// timeout](ServerConfig::start_timeout) of the config.
    ///
    /// ```no_run
    /// # async fn example() -> mcp_client::Result<()> {
    /// use mcp_client::{McpClient, ServerConfig};
    ///
    /// let local = McpClient::connect(ServerConfig::command("weather")).await?;
    /// let remote = McpClient::connect("https://mcp.example.com/mcp").await?;
    /// # drop((local, remote)); Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Start`] if the program could not be started, [`Error::Connect`] if the server was started or reached
    /// but the handshake failed, [`Error::InvalidConfig`] for a string that is not a URL. For a URL also
    /// [`Error::Denied`], [`Error::Unauthorized`] and [`Error::ForeignEndpoint`]. For a config with OAuth options also
    /// [`Error::LoginNeeded`] and [`Error::NoToken`].
    ///
    /// # Cancellation
    /// Dropping the future kills the process that it started.
    pub async fn connect<R>(config: R) -> Result<Self>
    where
        R: TryInto<ServerConfig>,
        Error: From<R::Error>,
    {
        Self::builder(config).connect().await
    }

    /// Returns a builder of a connection, to set more options. If the config is invalid, [`Connect::connect`] returns
    /// the error.
    pub fn builder<R>(config: R) -> Connect
    where
        R: TryInto<ServerConfig>,
        Error: From<R::Error>,
    {
        Connect::to(match config.try_into() {
            Ok(config) => Destination::ServerConfig(Box::new(config)),
            Err(error) => Destination::Invalid(error.into()),
        })
    }

    /// Returns a builder of a connection over any pair of byte streams (reader, writer) with one message per line, such
    /// as the halves of a socket, or `McpServer::in_memory` of mcp-server in a test.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use mcp_client::McpClient;
    ///
    /// let socket = tokio::net::TcpStream::connect("127.0.0.1:9000").await?;
    /// let client = McpClient::over(socket.into_split()).connect().await?;
    /// # client.close().await; Ok(()) }
    /// ```
    pub fn over(
        (reader, writer): (impl AsyncRead + Send + Unpin + 'static, impl AsyncWrite + Send + Unpin + 'static),
    ) -> Connect {
        Connect::to(Destination::Streams(Box::new(Streams {
            reader: Box::new(reader),
            writer: Box::new(writer),
            limits: Limits::default(),
            mode: Mode::Auto,
            budget: Duration::from_secs(30),
        })))
    }
}

impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

impl Connect {
    fn to(destination: Destination) -> Self {
        Self {
            destination,
            handlers: Handlers::new(),
            info: Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")),
            versions: mcp_protocol::version::SUPPORTED.to_vec(),
            negotiation_cache: None,
            log_level: None,
            cache: Cache::new(),
            wire_trace: None,
            observers: Observers::default(),
            #[cfg(feature = "stdio")]
            ledger: None,
            #[cfg(feature = "http")]
            network: crate::http::Network::new(),
            #[cfg(feature = "oauth")]
            login: login::LoginSettings::default(),
        }
    }

    /// Sets the name and version that the client reports to the server. Default: those of this crate.
    pub fn name(self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.implementation(Implementation::new(name, version))
    }

    /// Sets what the client reports about itself to the server: name, version, title, icons and so on.
    pub fn implementation(mut self, implementation: Implementation) -> Self {
        self.info = implementation;
        self
    }

    /// Sets the handlers for requests from the server. Capabilities without a handler are not declared. Default: no
    /// handlers.
    pub fn handlers(mut self, handlers: Handlers) -> Self {
        self.handlers = handlers;
        self
    }

    /// Sets the protocol revisions to offer, most preferred first. Default: all that this crate supports, newest first.
    pub fn versions(mut self, versions: impl Into<Vec<ProtocolVersion>>) -> Self {
        self.versions = versions.into();
        self
    }

    /// Sets the cache of negotiation results. Connecting reads and updates it. Default: none.
    pub fn negotiation_cache(mut self, negotiation_cache: &NegotiationCache) -> Self {
        self.negotiation_cache = Some(negotiation_cache.clone());
        self
    }

    /// Sets the cache for lists and resources that a modern server allows to be cached. Default: each client has its
    /// own cache.
    pub fn cache(mut self, cache: &Cache) -> Self {
        self.cache = cache.clone();
        self
    }

    /// Requests log messages of this level and above, to be read with [`McpClient::log_messages`]. By default, a modern
    /// server sends none, and a legacy server decides itself which messages it sends.
    pub fn log_level(mut self, level: LogLevel) -> Self {
        self.log_level = Some(level);
        self
    }

    /// Sets the ledger that records the server process, so that it can be found if the host crashes.
    #[cfg(feature = "stdio")]
    pub fn ledger(mut self, ledger: &crate::Ledger) -> Self {
        self.ledger = Some(ledger.clone());
        self
    }

    /// Sets proxies, certificates and allowed addresses for a server behind a URL.
    #[cfg(feature = "http")]
    #[cfg_attr(docsrs, doc(cfg(feature = "http")))]
    pub fn network(mut self, network: &crate::http::Network) -> Self {
        self.network = network.clone();
        self
    }

    /// Writes every message to this trace, for debugging.
    pub fn wire_trace(mut self, wire_trace: &WireTrace) -> Self {
        self.wire_trace = Some(wire_trace.clone());
        self
    }

    /// Sets the [`Metrics`] that are notified of each call and each restart of the server.
    #[doc(alias = "prometheus")]
    pub fn metrics(mut self, metrics: impl Metrics) -> Self {
        self.observers.metrics = Some(Arc::new(metrics));
        self
    }

    /// Sets the function that returns the trace context of a request: `traceparent`, `tracestate` and `baggage`. It is
    /// called in the task that makes the request. Members that are set with [`ToolCall::meta`](crate::ToolCall::meta)
    /// take precedence.
    ///
    /// ```
    /// use mcp_client::protocol::meta::Meta;
    /// use mcp_client::{McpClient, ServerConfig};
    ///
    /// let connect = McpClient::builder(ServerConfig::command("weather"))
    ///     // For example from the current span of OpenTelemetry.
    ///     .trace_context(|| Some(Meta::new().traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")));
    /// ```
    #[doc(alias = "traceparent")]
    #[doc(alias = "OpenTelemetry")]
    pub fn trace_context(mut self, context: impl Fn() -> Option<Meta> + Send + Sync + 'static) -> Self {
        self.observers.trace_context = Some(Arc::new(context));
        self
    }

    /// Sets which eras to try. See [`ServerConfig::era`].
    pub fn era(mut self, era: Mode) -> Self {
        match &mut self.destination {
            Destination::ServerConfig(config) => config.era = era,
            Destination::Streams(streams) => streams.mode = era,
            Destination::Invalid(_) => {}
        }
        self
    }

    /// Sets the limits of the connection, such as the maximum size of a message.
    pub fn limits(mut self, limits: Limits) -> Self {
        match &mut self.destination {
            Destination::ServerConfig(config) => config.limits = limits,
            Destination::Streams(streams) => streams.limits = limits,
            Destination::Invalid(_) => {}
        }
        self
    }

    /// Sets the timeout for starting the server and for the handshake. See [`ServerConfig::start_timeout`].
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        match &mut self.destination {
            Destination::ServerConfig(config) => config.start_timeout = Some(timeout),
            Destination::Streams(streams) => streams.budget = timeout,
            Destination::Invalid(_) => {}
        }
        self
    }

    /// Connects. See [`McpClient::connect`].
    ///
    /// # Errors
    /// Fails if the server could not be started or reached, or the handshake failed.
    ///
    /// # Cancellation
    /// Dropping the future kills the process that it started.
    pub async fn connect(self) -> Result<McpClient> {
        let Self {
            destination,
            handlers,
            info,
            versions,
            negotiation_cache,
            log_level,
            cache,
            wire_trace,
            observers,
            ..
        } = self;
        let offer = Offer { info, capabilities: handlers.capabilities(), versions };
        let settings = ConnectSettings {
            offer,
            handlers: Arc::new(handlers),
            negotiation_cache,
            log_level,
            cache,
            observers,
            #[cfg(feature = "oauth")]
            login: None,
        };
        match destination {
            Destination::Invalid(error) => Err(error),
            Destination::ServerConfig(config) => {
                let (target, config) = config.take_target();
                #[cfg(feature = "oauth")]
                let (settings, on_login) = self.login.add_to(settings, &target, &config)?;
                let connecting = match target {
                    Target::Command(command) => {
                        let launch = Launch {
                            trace: wire_trace,
                            config: config.with_target(|()| command),
                            #[cfg(feature = "stdio")]
                            ledger: self.ledger,
                            #[cfg(feature = "oauth")]
                            login: settings.login.clone(),
                        };
                        Connecting::Launch(Box::new(launch))
                    }
                    #[cfg(feature = "http")]
                    Target::Url(url) => {
                        let network = self.network.traced(wire_trace.map(|trace| url.traced(&trace)));
                        #[cfg(feature = "oauth")]
                        let network = match &settings.login {
                            Some(login) => network.authorized(Arc::new(login.clone())),
                            None => network,
                        };
                        Connecting::Url(Box::new((config.with_target(|()| url), network)))
                    }
                    #[cfg(not(feature = "http"))]
                    Target::Url(_) => return Err(Error::FeatureDisabled { feature: "http" }),
                };
                #[cfg(feature = "oauth")]
                if let Some(handler) = on_login {
                    return handler.connect(settings, connecting).await;
                }
                settings.connect(connecting).await
            }
            Destination::Streams(streams) => {
                let Streams { reader, writer, limits, mode, budget } = *streams;
                let trace = wire_trace.map(|trace| trace.connection("streams", []));
                let link = Link { reader, writer, process: LinkProcess::None }.traced(trace);
                let name = "the server".to_owned();
                let negotiated = settings.offer.negotiate_over(link, None, &limits, mode, budget).await;
                let negotiated = negotiated.map_err(|failed| failed.into_error(name.clone()))?;
                settings.over(negotiated, limits, name, CacheIdentity::unknown(), None)
            }
        }
    }
}
