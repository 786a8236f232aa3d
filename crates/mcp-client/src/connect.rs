//! From a server config to a client that is usable, or to an error that tells why not.

pub(crate) mod negotiation_cache;
pub(crate) mod offer;
pub(crate) mod rfc_config;
pub(crate) mod server_config;
mod settings;

use std::sync::Arc;
use std::time::Duration;

use mcp_protocol::capabilities::Implementation;
use mcp_protocol::logging::LogLevel;
use mcp_protocol::negotiation::Mode;
use mcp_protocol::{Limits, ProtocolVersion};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::client::McpClient;
use crate::connect::negotiation_cache::NegotiationCache;
use crate::connect::offer::Offer;
use crate::connect::server_config::{ServerConfig, Target};
use crate::connect::settings::{ConnectSettings, Identity};
use crate::connection::cache::Cache;
use crate::connection::handlers::Handlers;
use crate::error::{Error, Result};
use crate::stream::link::{Link, Owner};
use crate::stream::negotiate::Launch;

/// A connection to be made: a server config, and what the host brings along.
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
    #[cfg(feature = "stdio")]
    ledger: Option<crate::Ledger>,
    #[cfg(feature = "http")]
    network: crate::http::Network,
}

/// Where a connection leads.
enum Destination {
    ServerConfig(Box<ServerConfig>),
    Streams(Box<Streams>),
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
        }
    }
}

impl McpClient {
    /// Connects to the server of a server config.
    ///
    /// Returns when the server is usable, or with an error that tells why it is not, within
    /// [the time the server config allows](ServerConfig::start_timeout).
    ///
    /// # Errors
    /// [`Error::Start`] if the program could not be started, [`Error::Connect`] if it was and no connection came of it.
    ///
    /// # Cancellation
    /// When dropped, everything that was started is killed.
    pub async fn connect<R>(config: R) -> Result<Self>
    where
        R: TryInto<ServerConfig>,
        Error: From<R::Error>,
    {
        Self::builder(config.try_into()?).connect().await
    }

    /// A connection to be made, with more to say about it.
    pub fn builder(config: impl Into<ServerConfig>) -> Connect {
        Connect::to(Destination::ServerConfig(Box::new(config.into())))
    }

    /// A connection over any pair of byte streams: one message a line. In memory, take the two ends of
    /// `tokio::io::duplex`.
    pub fn over(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
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
            #[cfg(feature = "stdio")]
            ledger: None,
            #[cfg(feature = "http")]
            network: crate::http::Network::new(),
        }
    }

    /// Sets what the host calls itself.
    pub fn name(self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.implementation(Implementation::new(name, version))
    }

    /// Sets what the host calls itself, with title, icons and all.
    pub fn implementation(mut self, implementation: Implementation) -> Self {
        self.info = implementation;
        self
    }

    /// Sets what the host answers when the server asks. What has no handler is not declared.
    pub fn handlers(mut self, handlers: Handlers) -> Self {
        self.handlers = handlers;
        self
    }

    /// Sets the revisions to offer, most preferred first. Default: all of them, newest first.
    pub fn versions(mut self, versions: impl Into<Vec<ProtocolVersion>>) -> Self {
        self.versions = versions.into();
        self
    }

    /// Sets what is known about servers, and what is found out goes to.
    pub fn negotiation_cache(mut self, negotiation_cache: &NegotiationCache) -> Self {
        self.negotiation_cache = Some(negotiation_cache.clone());
        self
    }

    /// Sets where lists and resources are kept that a modern server allows to be kept. Default: a cache of its own.
    pub fn cache(mut self, cache: &Cache) -> Self {
        self.cache = cache.clone();
        self
    }

    /// Asks the server for log messages, from this level on: [`McpClient::log_messages`]. Otherwise a modern server logs
    /// nothing, and a legacy one what it likes.
    pub fn log_level(mut self, level: LogLevel) -> Self {
        self.log_level = Some(level);
        self
    }

    /// Sets where the process is written down, so that it is found if this host crashes.
    #[cfg(feature = "stdio")]
    pub fn ledger(mut self, ledger: &crate::Ledger) -> Self {
        self.ledger = Some(ledger.clone());
        self
    }

    /// Sets how a server behind a URL is reached.
    #[cfg(feature = "http")]
    #[cfg_attr(docsrs, doc(cfg(feature = "http")))]
    pub fn network(mut self, network: &crate::http::Network) -> Self {
        self.network = network.clone();
        self
    }

    /// Sets which eras to try.
    pub fn era(mut self, era: Mode) -> Self {
        match &mut self.destination {
            Destination::ServerConfig(config) => config.era = era,
            Destination::Streams(streams) => streams.mode = era,
        }
        self
    }

    /// Sets the bounds of the connection.
    pub fn limits(mut self, limits: Limits) -> Self {
        match &mut self.destination {
            Destination::ServerConfig(config) => config.limits = limits,
            Destination::Streams(streams) => streams.limits = limits,
        }
        self
    }

    /// Sets how long it may take until the server is usable.
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        match &mut self.destination {
            Destination::ServerConfig(config) => config.start_timeout = Some(timeout),
            Destination::Streams(streams) => streams.budget = timeout,
        }
        self
    }

    /// Connects. See [`McpClient::connect`].
    ///
    /// # Errors
    /// When the server could not be started, or did not become usable.
    ///
    /// # Cancellation
    /// When dropped, everything that was started is killed.
    pub async fn connect(self) -> Result<McpClient> {
        let Self { destination, handlers, info, versions, negotiation_cache, log_level, cache, .. } = self;
        let offer = Offer { info, capabilities: handlers.capabilities(), versions };
        let settings =
            ConnectSettings { offer, handlers: Arc::new(handlers), negotiation_cache, log_level, cache };
        match destination {
            Destination::ServerConfig(config) => {
                let (target, config) = config.take_target();
                match target {
                    Target::Command(command) => {
                        let launch = Launch {
                            config: config.with_target(|()| command),
                            #[cfg(feature = "stdio")]
                            ledger: self.ledger,
                        };
                        settings.with_launch(launch).await
                    }
                    #[cfg(feature = "http")]
                    Target::Url(url) => settings.with_url(config.with_target(|()| url), self.network).await,
                    #[cfg(not(feature = "http"))]
                    Target::Url(_) => Err(Error::FeatureDisabled { feature: "http" }),
                }
            }
            Destination::Streams(streams) => {
                let Streams { reader, writer, limits, mode, budget } = *streams;
                let link = Link { reader, writer, owner: Owner::Nobody };
                let name = "the server".to_owned();
                let negotiated = settings.offer.over(link, None, &limits, mode, budget).await;
                let negotiated = negotiated.map_err(|failed| failed.named(name.clone()))?;
                settings.over(negotiated, limits, name, Identity::unknown(), None)
            }
        }
    }
}
