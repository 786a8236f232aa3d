//! From a recipe to a client that is usable, or to an error that tells why not.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mcp_protocol::capabilities::{ClientCapabilities, Implementation};
use mcp_protocol::codec::line::{Line, Lines};
use mcp_protocol::logging::{LogLevel, SetLevelParams};
use mcp_protocol::messages::{EmptyParams, Incoming, InitializeParams, Method, parse_bytes, write};
use mcp_protocol::meta::Meta;
use mcp_protocol::negotiation::{Handling, Mode, NegotiationError, StdioAction, StdioClient, Terms, Verdict};
use mcp_protocol::{Era, Limits, ProtocolVersion};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::client::{Inner, McpClient};
use crate::connection::{Connection, now};
use crate::driver::{Driver, read, write as write_some};
use crate::error::{EndCause, Ended, Error, Result};
use crate::handlers::Handlers;
use crate::link::{Link, Owner};
use crate::recipe::Recipe;
use crate::verdicts::Verdicts;

/// How long a process that ended is still read, if something else holds its pipe.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// How long a server may take to end that failed to become usable.
const EXIT: Duration = Duration::from_millis(300);

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
    #[cfg(feature = "stdio")]
    ledger: Option<crate::Ledger>,
}

enum Target {
    Recipe(Recipe),
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
        Connect::to(Target::Recipe(recipe))
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
            #[cfg(feature = "stdio")]
            ledger: None,
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
        let Self { target, handlers, info, versions, verdicts, log_level, .. } = self;
        let offer = Offer { info, capabilities: handlers.capabilities(), versions };
        let (negotiated, limits, name) = match target {
            Target::Recipe(recipe) => {
                let (limits, name) = (recipe.limits.clone(), recipe.to_string());
                #[cfg(feature = "stdio")]
                let launch = Launch { recipe, ledger: self.ledger };
                #[cfg(not(feature = "stdio"))]
                let launch = Launch { recipe };
                (offer.negotiate(&launch, verdicts.as_ref()).await?, limits, name)
            }
            Target::Streams(streams) => {
                let Streams { reader, writer, limits, mode, budget } = *streams;
                let link = Link { reader, writer, owner: Owner::Nobody };
                let name = "the server".to_owned();
                let negotiated = offer.over(link, None, &limits, mode, budget).await;
                (negotiated.map_err(|failed| failed.named(name.clone()))?, limits, name)
            }
        };
        let Negotiated { link, lines, held, unsent, verdict } = negotiated;
        // A machine that settles on a version knows its dialect.
        let dialect = verdict.version.dialect().unwrap_or(mcp_protocol::Dialect::V2025_11_25);
        let mut envelope =
            Meta::envelope(verdict.version.clone(), offer.capabilities).client_info(offer.info);
        envelope.log_level = log_level.clone();
        let connection = Arc::new(Connection::new(dialect, envelope, limits, unsent));
        let handlers = Arc::new(handlers);
        let (report, shutdown) = watch::channel(None);
        let owner = link.owner.clone();
        let driver = Driver {
            connection: Arc::clone(&connection),
            link,
            lines,
            handlers: Arc::clone(&handlers),
            server: crate::client::name_of(&verdict).unwrap_or(name),
            held: if dialect.is_modern() { Vec::new() } else { held },
            report,
        };
        let driver = tokio::spawn(driver.run());
        let client = McpClient::new(Inner::new(connection, verdict, handlers, owner, driver, shutdown));
        if let Some(level) =
            log_level.filter(|_| !dialect.is_modern() && client.capabilities().logging.is_some())
        {
            // A server that has a log and does not take a level logs what it likes.
            let params = SetLevelParams::new(level);
            let _ = client.inner().connection.request_and_forget(&Method::SetLevel, &params);
        }
        Ok(client)
    }
}

/// What we say of ourselves while an era is found out.
struct Offer {
    info: Implementation,
    capabilities: ClientCapabilities,
    versions: Vec<ProtocolVersion>,
}

/// A link whose other side is known.
struct Negotiated {
    link: Link,
    lines: Lines,
    held: Vec<Vec<u8>>,
    /// What is left to be written, `notifications/initialized` most of all.
    unsent: Vec<u8>,
    verdict: Verdict,
}

/// A negotiation that failed, and what the server left behind.
struct Failed {
    source: NegotiationError,
    ended: Ended,
}

impl Failed {
    fn named(self, server: String) -> Error {
        Error::Connect { server, source: Box::new(self.source), ended: self.ended }
    }
}

impl Offer {
    /// Starts a server and finds out its era. One that is known to be a legacy one is greeted as such; if that proves
    /// wrong, it is started again and asked.
    async fn negotiate(&self, launch: &Launch, verdicts: Option<&Verdicts>) -> Result<Negotiated> {
        let recipe = &launch.recipe;
        let until = now().checked_add(recipe.start_budget());
        let known = verdicts.and_then(|verdicts| verdicts.era(recipe, SystemTime::now()));
        let is_guess = recipe.era == Mode::Auto && known == Some(Era::Legacy);
        let mut mode = if is_guess { Mode::Legacy } else { recipe.era };
        loop {
            let budget = until.map_or(recipe.start_budget(), |until| until.saturating_duration_since(now()));
            let link = launch.start()?;
            let negotiated = match self.over(link, Some(launch), &recipe.limits, mode, budget).await {
                Ok(negotiated) => negotiated,
                Err(failed) => {
                    if let Some(verdicts) = verdicts {
                        verdicts.forget(recipe);
                    }
                    if mode == recipe.era {
                        return Err(failed.named(recipe.to_string()));
                    }
                    mode = recipe.era;
                    continue;
                }
            };
            if let Some(verdicts) = verdicts {
                verdicts.keep(recipe, &negotiated.verdict, SystemTime::now());
            }
            return Ok(negotiated);
        }
    }

    /// Finds out the era of what is behind a link, and ends it if that fails.
    async fn over(
        &self,
        link: Link,
        again: Option<&Launch>,
        limits: &Limits,
        mode: Mode,
        budget: Duration,
    ) -> Result<Negotiated, Failed> {
        let terms = Terms::default().versions(self.versions.clone()).mode(mode).budget(budget);
        let mut negotiating = Negotiating {
            machine: StdioClient::new(terms, limits.clone(), now()),
            lines: Lines::new(limits),
            limits: limits.clone(),
            link,
            again: again.cloned(),
            info: self.info.clone(),
            capabilities: self.capabilities.clone(),
            outbox: Vec::new(),
            held: Vec::new(),
        };
        let settled = negotiating.run().await;
        let Negotiating { link, lines, held, outbox, .. } = negotiating;
        match settled {
            Ok(verdict) => Ok(Negotiated { link, lines, held, unsent: outbox, verdict }),
            Err(mut source) => {
                let Link { reader: _, writer, owner } = link;
                if let NegotiationError::Noise { sample } = &mut source {
                    *sample = owner.mask(sample);
                }
                drop(writer);
                let status = tokio::time::timeout(EXIT, owner.exited()).await.ok().flatten();
                let stderr = owner.stderr().await;
                owner.end(false).await;
                Err(Failed { source, ended: Ended { cause: EndCause::Server, status, stderr } })
            }
        }
    }
}

/// What is started, and where that is written down.
#[derive(Clone)]
struct Launch {
    recipe: Recipe,
    #[cfg(feature = "stdio")]
    ledger: Option<crate::Ledger>,
}

impl Launch {
    #[cfg(feature = "stdio")]
    fn start(&self) -> Result<Link> {
        let (process, pipes) = crate::process::Process::start_in(&self.recipe, self.ledger.as_ref())?;
        Ok(Link {
            reader: Box::new(pipes.stdout),
            writer: Box::new(pipes.stdin),
            owner: Owner::Process(Arc::new(process)),
        })
    }

    #[cfg(not(feature = "stdio"))]
    fn start(&self) -> Result<Link> {
        Err(Error::FeatureDisabled { feature: "stdio" })
    }
}

/// A link whose other side is being found out.
struct Negotiating {
    machine: StdioClient,
    link: Link,
    lines: Lines,
    limits: Limits,
    /// What to start if the server has to be started again.
    again: Option<Launch>,
    info: Implementation,
    capabilities: ClientCapabilities,
    outbox: Vec<u8>,
    held: Vec<Vec<u8>>,
}

impl Negotiating {
    async fn run(&mut self) -> Result<Verdict, NegotiationError> {
        let mut written = 0;
        let mut is_open = true;
        let mut is_flushed = true;
        let mut last: Option<tokio::time::Instant> = None;
        loop {
            while let Some(action) = self.machine.poll_action() {
                match action {
                    StdioAction::Settled(verdict) => {
                        self.outbox.drain(..written);
                        return Ok(*verdict);
                    }
                    StdioAction::Failed(error) => return Err(error),
                    StdioAction::Respawn => {
                        self.respawn().await;
                        (written, is_open, is_flushed, last) = (0, true, true, None);
                    }
                    action => self.act(&action),
                }
            }
            let due = self.machine.poll_timeout().map(tokio::time::Instant::from_std);
            tokio::select! {
                biased;
                () = until(due) => self.machine.handle_timeout(now()),
                result = write_some(&mut *self.link.writer, &self.outbox[written..]),
                    if is_open && (written < self.outbox.len() || !is_flushed) =>
                {
                    match result {
                        Ok((count, flushed)) => {
                            written += count;
                            is_flushed = flushed;
                        }
                        // It may have said why before it ended, which is read first.
                        Err(_) => {
                            is_open = false;
                            last = last.or(Some(tokio::time::Instant::now() + LAST_WORDS));
                        }
                    }
                }
                count = read(&mut *self.link.reader, self.lines.space(), 64 << 10) => match count {
                    Ok(1..) => self.take_lines(),
                    Ok(0) | Err(_) => {
                        self.take_rest();
                        self.machine.handle_closed();
                    }
                },
                _ = self.link.owner.exited(), if last.is_none() => {
                    last = Some(tokio::time::Instant::now() + LAST_WORDS);
                }
                () = until(last), if last.is_some() => {
                    self.take_rest();
                    self.machine.handle_closed();
                }
            }
        }
    }

    fn act(&mut self, action: &StdioAction) {
        let outbox = &mut self.outbox;
        // These have nothing that a revision cannot say.
        let _ = match action {
            StdioAction::Probe { id, version } => {
                let envelope = Meta::envelope(version.clone(), self.capabilities.clone());
                let params = EmptyParams::new().meta(envelope.client_info(self.info.clone()));
                write::request(outbox, id, &Method::Discover, &params)
            }
            StdioAction::Initialize { id, version } => {
                let params =
                    InitializeParams::new(version.clone(), self.capabilities.clone(), self.info.clone());
                let dialect = version.dialect().unwrap_or(mcp_protocol::Dialect::V2025_11_25);
                write::request(outbox, id, &Method::Initialize, &dialect.lower(&params))
            }
            StdioAction::Initialized => write::notification(outbox, &Method::Initialized, None),
            StdioAction::Declare(required) => {
                // Everything there is was declared before; once more can only help if all of it is there.
                let declared = has_all(&self.capabilities, required);
                self.machine.handle_declared(declared, now());
                return;
            }
            _ => return,
        };
        outbox.push(b'\n');
    }

    fn take_lines(&mut self) {
        // What stands behind the last answer belongs to the connection.
        while !self.machine.is_over()
            && let Some(line) = self.lines.poll_line()
        {
            match line {
                Line::Whole(line) => take_line(&mut self.machine, &mut self.held, line, &self.limits),
                Line::TooLong(error) => {
                    self.machine.handle_unreadable(&error, b"", now());
                }
                Line::Endless => return self.machine.handle_closed(),
            }
        }
    }

    fn take_rest(&mut self) {
        let rest = self.lines.rest();
        if !rest.is_empty() {
            take_line(&mut self.machine, &mut self.held, rest, &self.limits);
        }
    }

    async fn respawn(&mut self) {
        self.outbox.clear();
        self.held.clear();
        self.lines = Lines::new(&self.limits);
        let Some(launch) = &self.again else { return self.machine.handle_not_started() };
        self.link.owner.end(false).await;
        match launch.start() {
            Ok(link) => {
                self.link = link;
                self.machine.handle_started(now());
            }
            Err(_) => self.machine.handle_not_started(),
        }
    }
}

fn take_line(machine: &mut StdioClient, held: &mut Vec<Vec<u8>>, line: &[u8], limits: &Limits) {
    match parse_bytes(line, limits) {
        Ok(Incoming::Message(message)) => {
            if machine.handle_message(&message, now()) == Handling::Hold {
                held.push(line.to_vec());
            }
        }
        Ok(Incoming::Batch(batch)) => {
            machine.handle_batch(&batch, now());
        }
        Err(error) => {
            machine.handle_unreadable(&error, line, now());
        }
    }
}

fn has_all(ours: &ClientCapabilities, required: &ClientCapabilities) -> bool {
    (required.elicitation.is_none() || ours.elicitation.is_some())
        && (required.sampling.is_none() || ours.sampling.is_some())
        && (required.roots.is_none() || ours.roots.is_some())
        && required.extensions.as_ref().is_none_or(mcp_protocol::Map::is_empty)
}

async fn until(instant: Option<tokio::time::Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
