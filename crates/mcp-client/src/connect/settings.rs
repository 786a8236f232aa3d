//! Connects with the settings of a [`Connect`](crate::Connect).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use mcp_protocol::Limits;
use mcp_protocol::logging::LogLevel;
use mcp_protocol::messages::Method;
use mcp_protocol::meta::Meta;
use mcp_protocol::negotiation::{Mode, NegotiationResult};

use crate::client::{Inner, McpClient};
use crate::config::negotiation_cache::NegotiationCache;
use crate::config::offer::Offer;
#[cfg(feature = "http")]
use crate::config::server_config::{self, ServerConfig};
use crate::connection::cache::{Cache, CacheView};
use crate::connection::handlers::Handlers;
use crate::connection::observers::Observers;
use crate::connection::transport::Supervisor;
use crate::connection::{Connection, ConnectionTerms, Transport};
use crate::error::{Error, Result, Sent};
use crate::stream::negotiate::{Launch, NegotiatedLink};
use crate::stream::restart::Restarts;
use crate::stream::server_run::ServerRun;
use crate::stream::supervisor::StreamSupervisor;

/// The settings of a builder, without the destination.
#[derive(Clone)]
pub(super) struct ConnectSettings {
    pub(super) offer: Offer,
    pub(super) handlers: Arc<Handlers>,
    pub(super) negotiation_cache: Option<NegotiationCache>,
    pub(super) log_level: Option<LogLevel>,
    pub(super) cache: Cache,
    pub(super) observers: Observers,
    #[cfg(feature = "oauth")]
    pub(super) login: Option<crate::oauth::ConnectionLogin>,
}

/// The server that is connected to.
#[derive(Clone)]
pub(super) enum Connecting {
    /// A program that is started.
    Launch(Box<Launch>),
    /// A server behind a URL.
    #[cfg(feature = "http")]
    Url(Box<(ServerConfig<server_config::UrlTarget>, crate::http::Network)>),
}

/// The identity of the server and of the user, as digests. It is part of the key of cached responses.
pub(super) struct CacheIdentity {
    server: String,
    principal: String,
}

impl CacheIdentity {
    /// Returns the identity for a program. Its user is the one who starts it, or the one of its login.
    fn of_launch(launch: &Launch) -> Self {
        #[cfg(feature = "oauth")]
        let principal = launch.login.as_ref().map(|login| login.key()).unwrap_or_default();
        #[cfg(not(feature = "oauth"))]
        let principal = String::new();
        Self { server: launch.config.target.digest(), principal }
    }

    #[cfg(feature = "http")]
    fn of_url(target: &server_config::UrlTarget, network: &crate::http::Network) -> Self {
        let headers = target
            .headers
            .iter()
            .flat_map(|(name, value)| [name.to_ascii_lowercase().into_bytes(), value.clone().into_bytes()]);
        let principal = mcp_protocol::fingerprint::fingerprint(headers.chain(network.identity()));
        Self { server: target.digest(), principal }
    }

    /// Returns an identity that no other connection has: the server behind streams that the host opened is not known.
    pub(super) fn unknown() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { server: format!("streams {number}"), principal: String::new() }
    }
}

impl ConnectSettings {
    pub(super) async fn connect(self, connecting: Connecting) -> Result<McpClient> {
        #[cfg(feature = "oauth")]
        let login = self.login.clone();
        let connected = match connecting {
            Connecting::Launch(launch) => self.with_launch(*launch).await,
            #[cfg(feature = "http")]
            Connecting::Url(target) => self.with_url(target.0, target.1).await,
        };
        // The program may exit now, and a token that is being refreshed would be lost.
        #[cfg(feature = "oauth")]
        if let (Err(_), Some(login)) = (&connected, &login) {
            login.settle(crate::client::SETTLE_TIMEOUT).await;
        }
        connected
    }

    async fn with_launch(self, launch: Launch) -> Result<McpClient> {
        let (limits, name) = (launch.config.limits.clone(), launch.config.to_string());
        let identity = CacheIdentity::of_launch(&launch);
        let negotiated = self.offer.start_and_negotiate(&launch, self.negotiation_cache.as_ref()).await?;
        let again = Some(launch).filter(|launch| launch.config.target.restarts);
        self.over(negotiated, limits, name, identity, again)
    }

    #[cfg(feature = "http")]
    async fn with_url(
        self,
        config: ServerConfig<server_config::UrlTarget>,
        network: crate::http::Network,
    ) -> Result<McpClient> {
        use crate::connection::inbound::Inbound;
        use crate::connection::transport::Exchanges;
        use crate::streamable::{HttpSupervisor, HttpTransport, find};

        let (limits, name) = (config.limits.clone(), config.to_string());
        let identity = CacheIdentity::of_url(&config.target, &network);
        let (target, negotiation, start) =
            find(&self.offer, &config, &network, self.negotiation_cache.as_ref()).await?;
        let inbound = Inbound::new(Arc::clone(&self.handlers), None);
        let (offer, version) = (self.offer.clone(), &negotiation.version);
        let http = Arc::new(HttpTransport::new(target, offer, name.clone(), version, start, inbound));
        let exchanges: Arc<dyn Exchanges> = Arc::clone(&http) as _;
        let transport = Transport::Exchanges(exchanges);
        let terms = self.terms(&negotiation, limits, name, identity, transport);
        let connection = Arc::new(Connection::new(terms, self.standing_level(&negotiation)));
        let supervisor = Box::new(HttpSupervisor::begin(&connection, &http).await);
        Ok(self.client(connection, negotiation, supervisor))
    }

    pub(super) fn over(
        self,
        negotiated: NegotiatedLink,
        limits: Limits,
        name: String,
        identity: CacheIdentity,
        again: Option<Launch>,
    ) -> Result<McpClient> {
        let negotiation = negotiated.negotiation.clone();
        let transport = Transport::Stream { restarts: again.is_some() };
        let terms = self.terms(&negotiation, limits, name, identity, transport);
        let dialect = terms.dialect;
        let connection = Arc::new(Connection::new(terms, self.standing_level(&negotiation)));
        let ended = || Error::Lost { method: Method::Initialize, sent: Sent::No, ended: Arc::default() };
        let run = ServerRun::begin(&connection, &self.handlers, negotiated).ok_or_else(ended)?;
        let run = Arc::new(Mutex::new(run));
        let restarts = again.map(|mut launch| {
            // A restarted server must use the same version: the requests of this connection are serialized for it.
            launch.config.era = if dialect.is_modern() { Mode::Modern } else { Mode::Legacy };
            let offer = Offer { versions: vec![negotiation.version.clone()], ..self.offer.clone() };
            let negotiation_cache = self.negotiation_cache.clone();
            Restarts::new(offer, launch, negotiation_cache, &connection, &self.handlers, &run)
        });
        let supervisor = Box::new(StreamSupervisor { run, restarts });
        Ok(self.client(connection, negotiation, supervisor))
    }

    fn client(
        self,
        connection: Arc<Connection>,
        negotiation: NegotiationResult,
        supervisor: Box<dyn Supervisor>,
    ) -> McpClient {
        McpClient::new(Inner {
            connection,
            negotiation,
            handlers: self.handlers,
            supervisor,
            listing: tokio::sync::Mutex::default(),
            #[cfg(feature = "oauth")]
            login: self.login,
        })
    }

    fn terms(
        &self,
        negotiation: &NegotiationResult,
        limits: Limits,
        name: String,
        CacheIdentity { server, principal }: CacheIdentity,
        transport: Transport,
    ) -> ConnectionTerms {
        // Negotiation only selects versions that have a dialect.
        let dialect = negotiation.version.dialect().unwrap_or(mcp_protocol::Dialect::V2025_11_25);
        let Offer { info, capabilities, .. } = &self.offer;
        let mut envelope =
            Meta::envelope(negotiation.version.clone(), capabilities.clone()).client_info(info.clone());
        envelope.log_level = self.log_level.clone();
        ConnectionTerms {
            server: crate::client::name_of(negotiation).unwrap_or(name),
            dialect,
            envelope: dialect.is_modern().then_some(envelope),
            limits,
            transport,
            observers: self.observers.clone(),
            cache: CacheView::new(self.cache.clone(), format!("{server} {}", negotiation.version), principal),
        }
    }

    /// Returns the log level to set once for the whole connection, or `None` for a modern server, which receives it
    /// with each request.
    fn standing_level(&self, negotiation: &NegotiationResult) -> Option<LogLevel> {
        let has_log = crate::client::capabilities_of(negotiation).logging.is_some();
        let is_modern = negotiation.version.dialect().is_some_and(|dialect| dialect.is_modern());
        self.log_level.clone().filter(|_| !is_modern && has_log)
    }
}
