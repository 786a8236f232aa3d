//! From a recipe to a client that is usable, or to an error that tells why not.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_protocol::capabilities::Implementation;
use mcp_protocol::fingerprint::fingerprint;
use mcp_protocol::logging::LogLevel;
use mcp_protocol::messages::Method;
use mcp_protocol::meta::Meta;
use mcp_protocol::negotiation::{Mode, Verdict};
use mcp_protocol::{Limits, ProtocolVersion};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::cache::{Cache, View};
use crate::client::{Inner, McpClient};
use crate::connection::{Agreed, Connection, Transport};
use crate::error::{Error, Result, Sent};
use crate::handlers::Handlers;
use crate::link::{Link, Owner};
use crate::live::Live;
use crate::negotiate::{Launch, Negotiated, Offer};
use crate::recipe::Recipe;
use crate::restart::Restarts;
use crate::verdicts::{Verdicts, digest};

/// A connection to be made: a recipe, and what the host brings along.
///
/// ```no_run
/// # async fn example() -> mcp_client::Result<()> {
/// use mcp_client::{Handlers, McpClient, Recipe};
///
/// let client = McpClient::builder(Recipe::command("weather"))
///     .name("my-agent", "1.0")
///     .handlers(Handlers::new())
///     .connect()
///     .await?;
/// # client.close().await; Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "nothing is started before `connect`"]
pub struct Connect {
    target: Target,
    handlers: Handlers,
    info: Implementation,
    versions: Vec<ProtocolVersion>,
    verdicts: Option<Verdicts>,
    log_level: Option<LogLevel>,
    cache: Cache,
    #[cfg(feature = "stdio")]
    ledger: Option<crate::Ledger>,
    #[cfg(feature = "http")]
    network: crate::http::Network,
}

enum Target {
    Recipe(Box<Recipe>),
    Streams(Box<Streams>),
}

struct Streams {
    reader: Box<dyn AsyncRead + Send + Unpin>,
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    limits: Limits,
    mode: Mode,
    budget: Duration,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Recipe(recipe) => recipe.fmt(f),
            Self::Streams(_) => f.write_str("streams"),
        }
    }
}

impl McpClient {
    /// Connects to the server of a recipe.
    ///
    /// Returns when the server is usable, or with an error that tells why it is not, within
    /// [the time the recipe allows](Recipe::start_timeout).
    ///
    /// # Errors
    /// [`Error::Start`] if the program could not be started, [`Error::Connect`] if it was and no connection came of it.
    ///
    /// # Cancellation
    /// When dropped, everything that was started is killed.
    pub async fn connect<R>(recipe: R) -> Result<Self>
    where
        R: TryInto<Recipe>,
        Error: From<R::Error>,
    {
        Self::builder(recipe.try_into()?).connect().await
    }

    /// A connection to be made, with more to say about it.
    pub fn builder(recipe: Recipe) -> Connect {
        Connect::to(Target::Recipe(Box::new(recipe)))
    }

    /// A connection over any pair of byte streams: one message a line. In memory, take the two ends of
    /// `tokio::io::duplex`.
    pub fn over(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Connect {
        Connect::to(Target::Streams(Box::new(Streams {
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
    fn to(target: Target) -> Self {
        Self {
            target,
            handlers: Handlers::new(),
            info: Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")),
            versions: mcp_protocol::version::SUPPORTED.to_vec(),
            verdicts: None,
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
    pub fn verdicts(mut self, verdicts: &Verdicts) -> Self {
        self.verdicts = Some(verdicts.clone());
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
        match &mut self.target {
            Target::Recipe(recipe) => recipe.era = era,
            Target::Streams(streams) => streams.mode = era,
        }
        self
    }

    /// Sets the bounds of the connection.
    pub fn limits(mut self, limits: Limits) -> Self {
        match &mut self.target {
            Target::Recipe(recipe) => recipe.limits = limits,
            Target::Streams(streams) => streams.limits = limits,
        }
        self
    }

    /// Sets how long it may take until the server is usable.
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        match &mut self.target {
            Target::Recipe(recipe) => recipe.start_timeout = Some(timeout),
            Target::Streams(streams) => streams.budget = timeout,
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
        let Self { target, handlers, info, versions, verdicts, log_level, cache, .. } = self;
        let offer = Offer { info, capabilities: handlers.capabilities(), versions };
        let brought = Brought { offer, handlers: Arc::new(handlers), verdicts, log_level, cache };
        match target {
            Target::Recipe(recipe) => {
                if let Some(problem) = recipe.problem() {
                    return Err(Error::Recipe { recipe: recipe.to_string(), problem: problem.to_owned() });
                }
                let launch = Launch {
                    recipe: *recipe,
                    #[cfg(feature = "stdio")]
                    ledger: self.ledger,
                    #[cfg(feature = "http")]
                    network: self.network,
                };
                match &launch.recipe.address {
                    Some(_) => brought.with_url(launch).await,
                    None => brought.with_launch(launch).await,
                }
            }
            Target::Streams(streams) => {
                let Streams { reader, writer, limits, mode, budget } = *streams;
                let link = Link { reader, writer, owner: Owner::Nobody };
                let name = "the server".to_owned();
                let negotiated = brought.offer.over(link, None, &limits, mode, budget).await;
                let negotiated = negotiated.map_err(|failed| failed.named(name.clone()))?;
                brought.over(negotiated, limits, name, Identity::unknown(), None)
            }
        }
    }
}

/// What the host brings along.
struct Brought {
    offer: Offer,
    handlers: Arc<Handlers>,
    verdicts: Option<Verdicts>,
    log_level: Option<LogLevel>,
    cache: Cache,
}

/// Which server it is, and who asks it: digests, of which nothing can be read.
struct Identity {
    server: String,
    principal: String,
}

impl Identity {
    fn of(launch: &Launch) -> Self {
        let recipe = &launch.recipe;
        let headers = recipe.address.iter().flat_map(|address| &address.headers);
        let parts = headers
            .flat_map(|(name, value)| [name.to_ascii_lowercase().into_bytes(), value.clone().into_bytes()]);
        #[cfg(feature = "http")]
        let parts = parts.chain(launch.network.identity());
        Self { server: digest(recipe), principal: fingerprint(parts) }
    }

    /// Streams that were handed in: nobody else has the same.
    fn unknown() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { server: format!("streams {number}"), principal: String::new() }
    }
}

impl Brought {
    async fn with_launch(self, launch: Launch) -> Result<McpClient> {
        let (limits, name) = (launch.recipe.limits.clone(), launch.recipe.to_string());
        let identity = Identity::of(&launch);
        let negotiated = self.offer.negotiate(&launch, self.verdicts.as_ref()).await?;
        let again = Some(launch).filter(|launch| launch.recipe.restarts);
        self.over(negotiated, limits, name, identity, again)
    }

    #[cfg(not(feature = "http"))]
    async fn with_url(self, _: Launch) -> Result<McpClient> {
        Err(Error::FeatureDisabled { feature: "http" })
    }

    #[cfg(feature = "http")]
    async fn with_url(self, launch: Launch) -> Result<McpClient> {
        use crate::http::{Endpoint, find};

        let (limits, name) = (launch.recipe.limits.clone(), launch.recipe.to_string());
        let identity = Identity::of(&launch);
        let (contact, verdict, start) =
            find(&self.offer, &launch.recipe, &launch.network, self.verdicts.as_ref()).await?;
        let arrivals = crate::arrivals::Arrivals::new(Arc::clone(&self.handlers), Owner::Nobody).quiet();
        let endpoint =
            Endpoint::new(contact, self.offer.clone(), name.clone(), &verdict.version, start, arrivals);
        let endpoint = Arc::new(endpoint);
        let transport = Transport::Http(Arc::clone(&endpoint));
        let agreed = self.agreed(&verdict, limits, name, identity, transport);
        let connection = Arc::new(Connection::new(agreed, self.standing_level(&verdict)));
        let live = Live::begin_http(&connection, &endpoint).await;
        let live = Arc::new(Mutex::new(live));
        Ok(McpClient::new(Inner { connection, verdict, handlers: self.handlers, live, restarts: None }))
    }

    fn over(
        self,
        negotiated: Negotiated,
        limits: Limits,
        name: String,
        identity: Identity,
        again: Option<Launch>,
    ) -> Result<McpClient> {
        let verdict = negotiated.verdict.clone();
        let mut agreed = self.agreed(&verdict, limits, name, identity, Transport::Link);
        agreed.restarts = again.is_some();
        let dialect = agreed.dialect;
        let connection = Arc::new(Connection::new(agreed, self.standing_level(&verdict)));
        let Self { mut offer, handlers, verdicts, .. } = self;
        let ended = || Error::Lost { method: Method::Initialize, sent: Sent::No, ended: Arc::default() };
        let live = Live::begin(&connection, &handlers, negotiated).ok_or_else(ended)?;
        let live = Arc::new(Mutex::new(live));
        let restarts = again.map(|mut launch| {
            // It is the same program, and everything that was said is in its revision.
            launch.recipe.era = if dialect.is_modern() { Mode::Modern } else { Mode::Legacy };
            offer.versions = vec![verdict.version.clone()];
            Restarts::new(offer, launch, verdicts, &connection, &handlers, &live)
        });
        Ok(McpClient::new(Inner { connection, verdict, handlers, live, restarts }))
    }

    fn agreed(
        &self,
        verdict: &Verdict,
        limits: Limits,
        name: String,
        Identity { server, principal }: Identity,
        transport: Transport,
    ) -> Agreed {
        // A machine that settles on a version knows its dialect.
        let dialect = verdict.version.dialect().unwrap_or(mcp_protocol::Dialect::V2025_11_25);
        let Offer { info, capabilities, .. } = &self.offer;
        let mut envelope =
            Meta::envelope(verdict.version.clone(), capabilities.clone()).client_info(info.clone());
        envelope.log_level = self.log_level.clone();
        Agreed {
            server: crate::client::name_of(verdict).unwrap_or(name),
            dialect,
            envelope: dialect.is_modern().then_some(envelope),
            limits,
            restarts: false,
            transport,
            cache: View::new(self.cache.clone(), format!("{server} {}", verdict.version), principal),
        }
    }

    /// The level of log messages that is set once for the whole connection; legacy.
    fn standing_level(&self, verdict: &Verdict) -> Option<LogLevel> {
        let has_log = crate::client::capabilities_of(verdict).logging.is_some();
        let is_modern = verdict.version.dialect().is_some_and(|dialect| dialect.is_modern());
        self.log_level.clone().filter(|_| !is_modern && has_log)
    }
}
