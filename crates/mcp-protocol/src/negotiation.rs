//! Finding out which era and version the other side speaks.
//!
//! | side | transport | machine |
//! |---|---|---|
//! | client | stdio | [`StdioClient`] |
//! | client | HTTP | [`HttpClient`] |
//! | server | stdio | [`StdioServer`] |
//! | server | HTTP | [`HttpServer`] |
//!
//! A client asks `server/discover` first and reads the answer as evidence; a server looks at every message by
//! itself. Besides [`crate::dialect`], this is the only place that compares versions.
//!
//! Spec: MCP 2026-07-28, basic/versioning and basic/transports.

mod http_client;
mod http_server;
mod judge;
mod stdio_client;
mod stdio_server;

use std::time::Duration;

pub use http_client::{HttpAction, HttpAnswer, HttpClient, Obstacle};
pub use http_server::{Envelope, HttpMethod, HttpRequest, HttpServer, HttpVerdict, Refusal};
pub use stdio_client::{Handling, StdioAction, StdioClient};
pub use stdio_server::{ServerVerdict, StdioServer};

use crate::errors::ErrorObject;
use crate::messages::{DiscoverResult, InitializeResult};
use crate::version::{Era, ProtocolVersion, SUPPORTED};
use crate::visible::Visible;

/// What a client is willing to speak, and how long it waits.
///
/// ```
/// use mcp_protocol::negotiation::{Mode, Terms};
///
/// let terms = Terms::default().mode(Mode::Modern);
/// assert_eq!(terms.versions[0].as_str(), "2026-07-28");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Terms {
    /// The versions, most preferred first.
    pub versions: Vec<ProtocolVersion>,
    /// Which eras to try.
    pub mode: Mode,
    /// How long all of it may take. Default: 30 s.
    pub budget: Duration,
    /// How long the first answer may take. Default: 10 s, and never more than a third of the budget.
    pub probe: Duration,
}

/// Which eras a client tries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Whatever the server speaks.
    #[default]
    Auto,
    /// `initialize` only.
    Legacy,
    /// Modern versions only.
    Modern,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            versions: SUPPORTED.to_vec(),
            mode: Mode::Auto,
            budget: Duration::from_secs(30),
            probe: Duration::from_secs(10),
        }
    }
}

impl Terms {
    /// Sets the versions, most preferred first.
    #[must_use]
    pub fn versions(mut self, versions: impl Into<Vec<ProtocolVersion>>) -> Self {
        self.versions = versions.into();
        self
    }

    /// Sets which eras to try.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets how long all of it may take.
    #[must_use]
    pub fn budget(mut self, budget: Duration) -> Self {
        self.budget = budget;
        self
    }

    /// Sets how long the first answer may take.
    #[must_use]
    pub fn probe(mut self, probe: Duration) -> Self {
        self.probe = probe;
        self
    }

    fn probe_time(&self) -> Duration {
        self.probe.min(self.budget / 3)
    }

    /// The versions that the mode allows.
    fn allowed(&self) -> Vec<ProtocolVersion> {
        let is_allowed = |version: &&ProtocolVersion| match self.mode {
            Mode::Auto => true,
            Mode::Legacy => version.era() == Some(Era::Legacy),
            Mode::Modern => version.era() == Some(Era::Modern),
        };
        self.versions.iter().filter(is_allowed).cloned().collect()
    }

    /// The client's most preferred version of this era.
    fn preferred(&self, era: Era) -> Option<&ProtocolVersion> {
        self.versions.iter().find(|version| version.era() == Some(era))
    }

    /// The client's most preferred version of this era that the server has too.
    fn mutual(&self, era: Era, theirs: &[ProtocolVersion]) -> Option<&ProtocolVersion> {
        self.versions.iter().find(|version| version.era() == Some(era) && theirs.contains(version))
    }
}

/// What a client found out about a server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct NegotiationResult {
    /// The version to speak.
    pub version: ProtocolVersion,
    /// What the server said of itself.
    pub server: ServerAnswer,
    /// False if it rests on silence: true only for this connection, and never kept.
    pub may_be_kept: bool,
    /// False if the server did not say what it can: it has to be asked.
    pub is_announced: bool,
}

/// What a server said of itself while its era was found out.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ServerAnswer {
    /// The answer to `server/discover`.
    Discovered(Box<DiscoverResult>),
    /// The answer to `initialize`.
    Initialized(Box<InitializeResult>),
}

impl NegotiationResult {
    /// The era to speak.
    #[must_use]
    pub fn era(&self) -> Era {
        match self.server {
            ServerAnswer::Discovered(_) => Era::Modern,
            ServerAnswer::Initialized(_) => Era::Legacy,
        }
    }
}

/// Why client and server do not come together.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NegotiationError {
    /// Client and server support no version in common.
    #[error(
        "no protocol version in common: the server supports {}; this client supports {}; {}",
        list(theirs),
        list(ours),
        remedy(ours, theirs)
    )]
    NothingInCommon {
        /// The versions that were allowed.
        ours: Vec<ProtocolVersion>,
        /// The versions that the server supports. Untrusted.
        theirs: Vec<ProtocolVersion>,
    },
    /// The server answered `initialize` with a version that this client does not support.
    #[error(
        "the server answered `initialize` with an unsupported protocol version: the server supports {}; this client \
         supports {}; update the older side",
        list(std::slice::from_ref(answered)),
        list(ours)
    )]
    UnsupportedAnswer {
        /// The legacy versions that this client supports.
        ours: Vec<ProtocolVersion>,
        /// The version in the answer. Untrusted.
        answered: ProtocolVersion,
    },
    /// Only modern versions were wanted, and the server is a legacy one.
    #[error("the server does not support a modern protocol version; allow the legacy era to use it")]
    NotModern,
    /// The server is modern and refused all the same.
    #[error("the server rejected the negotiation: {0}")]
    Refused(ErrorObject),
    /// The server is modern, and its answer to `server/discover` cannot be read.
    #[error("invalid response to `server/discover`")]
    Unreadable,
    /// The server answered neither to `server/discover` as a modern one nor to `initialize`.
    #[error("handshake failed: {handshake}{}", after(probe))]
    Handshake {
        /// The error that answered `server/discover`, if there was one.
        probe: Option<ErrorObject>,
        /// What answered `initialize`.
        handshake: HandshakeFailure,
    },
    /// Too much on standard output that was no message.
    #[error(
        "the server wrote lines that are not JSON-RPC messages; write logs to stderr; first line: \"{}\"",
        Visible::message(sample)
    )]
    Noise {
        /// The beginning of the first such line.
        sample: String,
    },
    /// The process could not be started.
    #[error("the server process could not be started")]
    NotStarted,
    /// The process ended, also when it was started a second time.
    #[error("the server process exited before it responded")]
    Ended,
    /// Nothing to offer: the terms have no version that the mode allows.
    #[error("no protocol version to offer; allow at least one")]
    NothingToOffer,
    /// HTTP stood in the way; says nothing about the era.
    #[error("the HTTP request failed: {0}")]
    Http(Obstacle),
    /// No kind of MCP endpoint.
    #[error(
        "no MCP endpoint at this URL (POST server/discover: {probe}, POST initialize: {initialize}, GET: {get})"
    )]
    NoEndpoint {
        /// The status that answered `server/discover`.
        probe: u16,
        /// The status that answered `initialize`.
        initialize: u16,
        /// The status that answered GET; 0 if it was an event stream of another kind.
        get: u16,
    },
}

/// How a handshake can fail.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeFailure {
    /// The server answered with an error.
    #[error("{0}")]
    Refused(ErrorObject),
    /// The answer is no result of `initialize`.
    #[error("invalid response to `initialize`")]
    Unreadable,
    /// No answer in time.
    #[error("`initialize` timed out")]
    Silence,
}

/// How many versions are listed in an error.
const MAX_LISTED_VERSIONS: usize = 16;
/// How many characters of a version are shown. A date has ten.
const MAX_VERSION_CHARACTERS: usize = 24;

/// Versions, of which those of a server may be any text of any number.
fn list(versions: &[ProtocolVersion]) -> String {
    let shown = |version: &ProtocolVersion| {
        Visible::new(version.as_str()).at_most(MAX_VERSION_CHARACTERS).to_string()
    };
    let names: Vec<String> = versions.iter().take(MAX_LISTED_VERSIONS).map(shown).collect();
    match versions.len().saturating_sub(MAX_LISTED_VERSIONS) {
        _ if names.is_empty() => "none".to_owned(),
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

fn remedy(ours: &[ProtocolVersion], theirs: &[ProtocolVersion]) -> &'static str {
    let has = |versions: &[ProtocolVersion], era| versions.iter().any(|version| version.era() == Some(era));
    if has(theirs, Era::Legacy) && !has(ours, Era::Legacy) {
        "allow the legacy era to use it"
    } else if has(theirs, Era::Modern) && !has(ours, Era::Modern) {
        "allow the modern era to use it"
    } else {
        "update the older side"
    }
}

fn after(probe: &Option<ErrorObject>) -> String {
    probe.as_ref().map(|error| format!(" (`server/discover` failed before: {error})")).unwrap_or_default()
}
