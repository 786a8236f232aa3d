//! Negotiates the era of a server over a link, by driving [`StdioClientNegotiation`].

use std::time::{Duration, SystemTime};

use mcp_protocol::capabilities::{ClientCapabilities, Implementation};
use mcp_protocol::codec::line::{Line, Lines};
use mcp_protocol::messages::{EmptyParams, Incoming, InitializeParams, Method, parse_bytes, write};
use mcp_protocol::meta::Meta;
use mcp_protocol::negotiation::{
    MessageHandling, Mode, NegotiationError, NegotiationOptions, NegotiationResult, StdioAction,
    StdioClientNegotiation,
};
use mcp_protocol::{Era, Limits};

use crate::config::negotiation_cache::NegotiationCache;
use crate::config::offer::{Offer, has_all};
use crate::config::server_config::{CommandTarget, ServerConfig};
use crate::connection::alarm::until;
use crate::connection::now;
use crate::connection::transport::Mask;
use crate::error::{ConnectionEnd, EndCause, Error, Result};
use crate::stream::driver::FINAL_READ_TIMEOUT;
use crate::stream::io::{read, write};
use crate::stream::link::Link;
#[cfg(feature = "oauth")]
use crate::stream::program_token::ProgramToken;
use crate::wire_trace::WireTrace;

/// The maximum wait for the exit of a server after a failed negotiation.
const EXIT_GRACE: Duration = Duration::from_millis(300);
/// The maximum wait for the exit of a server if no time is left.
const MIN_EXIT_GRACE: Duration = Duration::from_millis(20);
/// The part of the start timeout that is reserved for ending a server.
const KILL_RESERVE: Duration = Duration::from_millis(600);

/// A link to a server whose era is known.
pub(crate) struct NegotiatedLink {
    pub(crate) link: Link,
    pub(crate) lines: Lines,
    /// Messages received during the negotiation that the connection has to handle.
    pub(crate) held: Vec<Vec<u8>>,
    /// Bytes that the negotiation has not written yet, usually `notifications/initialized`.
    pub(crate) unsent: Vec<u8>,
    pub(crate) negotiation: NegotiationResult,
    pub(crate) noise: NegotiationNoise,
    /// The token that the program was started with.
    #[cfg(feature = "oauth")]
    pub(crate) token: Option<ProgramToken>,
}

/// The lines received during a negotiation that were not messages.
#[derive(Debug)]
pub(crate) struct NegotiationNoise {
    pub(crate) lines: usize,
    /// The beginning of the first such line, with secrets masked.
    pub(crate) sample: Option<String>,
}

/// A failed negotiation, with the exit status and stderr of the server.
pub(crate) struct NegotiationFailure {
    source: NegotiationError,
    ended: ConnectionEnd,
}

impl NegotiationFailure {
    pub(crate) fn into_error(self, server: String) -> Error {
        Error::Connect { server, error: Box::new(self.source), ended: self.ended }
    }
}

impl Offer {
    /// Starts a server and negotiates its era. If the server is cached as legacy, it is initialized without a probe; if
    /// that fails, it is started again and probed.
    pub(crate) async fn start_and_negotiate(
        &self,
        launch: &Launch,
        negotiation_cache: Option<&NegotiationCache>,
    ) -> Result<NegotiatedLink> {
        let digest = launch.config.target.digest();
        #[cfg(feature = "oauth")]
        let (launch, token) = &launch.with_token().await?;
        let config = &launch.config;
        let until = now().checked_add(config.start_budget());
        let known = negotiation_cache.and_then(|cache| cache.era(&digest, SystemTime::now()));
        let is_guess = config.era == Mode::Auto && known == Some(Era::Legacy);
        let mut mode = if is_guess { Mode::Legacy } else { config.era };
        loop {
            let budget = until.map_or(config.start_budget(), |until| until.saturating_duration_since(now()));
            let link = launch.start()?;
            let negotiated = match self.negotiate_over(link, Some(launch), &config.limits, mode, budget).await
            {
                Ok(negotiated) => negotiated,
                Err(failed) => {
                    if let Some(negotiation_cache) = negotiation_cache {
                        negotiation_cache.remove(&digest);
                    }
                    if mode == config.era {
                        return Err(failed.into_error(config.to_string()));
                    }
                    mode = config.era;
                    continue;
                }
            };
            if let Some(negotiation_cache) = negotiation_cache {
                negotiation_cache.keep(&digest, &negotiated.negotiation, SystemTime::now());
            }
            #[cfg(feature = "oauth")]
            let negotiated = NegotiatedLink { token: token.clone(), ..negotiated };
            return Ok(negotiated);
        }
    }

    /// Negotiates the era over a link. If that fails, ends the server. `again` is the program to start if the
    /// negotiation needs a restart.
    pub(crate) async fn negotiate_over(
        &self,
        link: Link,
        again: Option<&Launch>,
        limits: &Limits,
        mode: Mode,
        budget: Duration,
    ) -> Result<NegotiatedLink, NegotiationFailure> {
        let until = now().checked_add(budget);
        let negotiation = budget.saturating_sub(KILL_RESERVE.min(budget / 4));
        let options =
            NegotiationOptions::default().versions(self.versions.clone()).mode(mode).timeout(negotiation);
        let mut negotiation_run = LinkNegotiation {
            machine: StdioClientNegotiation::new(options, limits.clone(), now()),
            lines: Lines::new(limits),
            limits: limits.clone(),
            link,
            again: again.cloned(),
            info: self.info.clone(),
            capabilities: self.capabilities.clone(),
            outbox: Vec::new(),
            held: Vec::new(),
        };
        let settled = negotiation_run.run().await;
        let LinkNegotiation { machine, link, lines, held, outbox, .. } = negotiation_run;
        let sample = machine.noise_sample().map(|sample| link.process.mask(sample));
        let noise = NegotiationNoise { lines: machine.noise_lines(), sample };
        match settled {
            Ok(negotiation) => Ok(NegotiatedLink {
                link,
                lines,
                held,
                unsent: outbox,
                negotiation,
                noise,
                #[cfg(feature = "oauth")]
                token: None,
            }),
            Err(mut source) => {
                let Link { reader: _, writer, process } = link;
                let mut stray_line = noise.sample.unwrap_or_default();
                if let NegotiationError::Noise { sample } = &mut source {
                    *sample = std::mem::take(&mut stray_line);
                }
                let has_exited = process.exits_within(Duration::ZERO).await.is_some();
                drop(writer);
                let left = until.map_or(EXIT_GRACE, |until| until.saturating_duration_since(now()));
                let status = process
                    .exits_within(left.saturating_sub(KILL_RESERVE).min(EXIT_GRACE).max(MIN_EXIT_GRACE))
                    .await;
                let stderr = if status.is_some() { process.stderr().await } else { process.stderr_so_far() };
                process.end(false).await;
                // A server that still ran has exited because its stdin was closed.
                let is_closed_here =
                    status.is_some() && !has_exited && !matches!(source, NegotiationError::Exited);
                let cause = if is_closed_here { EndCause::Closed } else { EndCause::Server };
                Err(NegotiationFailure { source, ended: ConnectionEnd { cause, status, stderr, stray_line } })
            }
        }
    }
}

/// The program to start, the ledger in which it is recorded, and the trace of its messages.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) config: ServerConfig<CommandTarget>,
    #[cfg_attr(not(feature = "stdio"), expect(dead_code, reason = "nothing is started"))]
    pub(crate) trace: Option<WireTrace>,
    #[cfg(feature = "stdio")]
    pub(crate) ledger: Option<crate::Ledger>,
    /// The login whose token the program receives.
    #[cfg(feature = "oauth")]
    pub(crate) login: Option<crate::oauth::ConnectionLogin>,
}

impl std::fmt::Display for Launch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.config.fmt(f)
    }
}

impl Launch {
    /// Returns this launch with the current token in the environment of the program, and that token.
    #[cfg(feature = "oauth")]
    async fn with_token(&self) -> Result<(Self, Option<ProgramToken>)> {
        let mut launch = self.clone();
        let Some(login) = &self.login else { return Ok((launch, None)) };
        let token = login.token().await?;
        let target = &mut launch.config.target;
        for variable in login.token_variables() {
            let text = std::ffi::OsString::from(token.access_token().expose());
            target.environment.insert(variable.into(), text);
        }
        let token = ProgramToken::new(login.clone(), &token, target.restarts_for_token);
        Ok((launch, Some(token)))
    }

    #[cfg(feature = "stdio")]
    fn start(&self) -> Result<Link> {
        let trace = self.trace.as_ref().map(|trace| self.config.target.traced(trace));
        Ok(Link::start(&self.config, self.ledger.as_ref())?.traced(trace))
    }

    #[cfg(not(feature = "stdio"))]
    fn start(&self) -> Result<Link> {
        Err(Error::FeatureDisabled { feature: "stdio" })
    }
}

/// A negotiation in progress.
struct LinkNegotiation {
    machine: StdioClientNegotiation,
    link: Link,
    lines: Lines,
    limits: Limits,
    /// The program to start again if the negotiation needs a restart of the server.
    again: Option<Launch>,
    info: Implementation,
    capabilities: ClientCapabilities,
    outbox: Vec<u8>,
    held: Vec<Vec<u8>>,
}

impl LinkNegotiation {
    async fn run(&mut self) -> Result<NegotiationResult, NegotiationError> {
        let mut written = 0;
        let mut is_open = true;
        let mut is_flushed = true;
        let mut read_until: Option<tokio::time::Instant> = None;
        loop {
            while let Some(action) = self.machine.poll_action() {
                match action {
                    StdioAction::Succeeded(negotiation) => {
                        self.outbox.drain(..written);
                        return Ok(*negotiation);
                    }
                    StdioAction::Failed(error) => return Err(error),
                    StdioAction::Restart => {
                        self.respawn().await;
                        (written, is_open, is_flushed, read_until) = (0, true, true, None);
                    }
                    action => self.act(&action),
                }
            }
            let due = self.machine.poll_timeout().map(tokio::time::Instant::from_std);
            tokio::select! {
                biased;
                () = until(due) => self.machine.handle_timeout(now()),
                result = write(&mut *self.link.writer, &self.outbox[written..]),
                    if is_open && (written < self.outbox.len() || !is_flushed) =>
                {
                    match result {
                        Ok((count, flushed)) => {
                            written += count;
                            is_flushed = flushed;
                        }
                        // The server may have written the reason before it exited. It is read first.
                        Err(_) => {
                            is_open = false;
                            read_until = read_until.or(Some(tokio::time::Instant::now() + FINAL_READ_TIMEOUT));
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
                _ = self.link.process.exited(), if read_until.is_none() => {
                    read_until = Some(tokio::time::Instant::now() + FINAL_READ_TIMEOUT);
                }
                () = until(read_until), if read_until.is_some() => {
                    self.take_rest();
                    self.machine.handle_closed();
                }
            }
        }
    }

    fn act(&mut self, action: &StdioAction) {
        let outbox = &mut self.outbox;
        // Serializing cannot fail: every revision supports these messages.
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
                // The first attempt declared all capabilities of the client. Another attempt helps only if these
                // include all that the server requires.
                let declared = has_all(&self.capabilities, required);
                self.machine.handle_declared(declared, now());
                return;
            }
            _ => return,
        };
        outbox.push(b'\n');
    }

    fn take_lines(&mut self) {
        // Lines after the last response of the negotiation are left for the connection.
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
        self.link.process.end(false).await;
        match launch.start() {
            Ok(link) => {
                self.link = link;
                self.machine.handle_started(now());
            }
            Err(_) => self.machine.handle_not_started(),
        }
    }
}

fn take_line(machine: &mut StdioClientNegotiation, held: &mut Vec<Vec<u8>>, line: &[u8], limits: &Limits) {
    match parse_bytes(line, limits) {
        Ok(Incoming::Message(message)) => {
            if machine.handle_message(&message, now()) == MessageHandling::Queue {
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
