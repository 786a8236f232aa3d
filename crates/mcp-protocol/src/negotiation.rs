//! Negotiation of the era and protocol version.
//!
//! | side | transport | machine |
//! |---|---|---|
//! | client | stdio | [`StdioClientNegotiation`] |
//! | client | HTTP | [`HttpClientNegotiation`] |
//! | server | stdio | [`StdioServerNegotiation`] |
//! | server | HTTP | [`HttpServerNegotiation`] |
//!
//! A client first sends `server/discover`, the *probe*, and infers the era from the response. A server classifies each
//! message separately. Apart from [`crate::dialect`], only this module compares versions.
//!
//! Spec: MCP 2026-07-28, basic/versioning and basic/transports.

mod era_detection;
mod http_client;
mod http_server;
mod stdio_client;
mod stdio_server;

use std::time::Duration;

pub use http_client::{HttpAction, HttpClientNegotiation, HttpFailure, NegotiationResponse};
pub use http_server::{
    Envelope, HttpClassification, HttpMethod, HttpRejection, HttpRequest, HttpServerNegotiation,
};
pub use stdio_client::{MessageHandling, StdioAction, StdioClientNegotiation};
pub use stdio_server::{StdioClassification, StdioServerNegotiation};

use crate::codec::line::stray_line_hint;
use crate::errors::ErrorObject;
use crate::messages::{DiscoverResult, InitializeResult};
use crate::safe_text::SafeText;
use crate::version::{Era, ProtocolVersion, SUPPORTED};

/// The versions, eras and timeouts with which a client negotiates.
///
/// ```
/// use mcp_protocol::negotiation::{Mode, NegotiationOptions};
///
/// let options = NegotiationOptions::default().mode(Mode::Modern);
/// assert_eq!(options.versions[0].as_str(), "2026-07-28");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NegotiationOptions {
    /// Supported versions, most preferred first.
    pub versions: Vec<ProtocolVersion>,
    /// Eras to try.
    pub mode: Mode,
    /// Timeout of the whole negotiation. Default: 30 s.
    pub timeout: Duration,
    /// Timeout of each probe (`server/discover`). Default: 10 s. If it exceeds a third of `timeout`, a third of
    /// `timeout` applies.
    pub probe_timeout: Duration,
}

/// Eras that a client tries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Both eras; the modern era is tried first.
    #[default]
    Auto,
    /// Legacy era only: sends `initialize`, but no probe.
    Legacy,
    /// Modern era only.
    Modern,
}

impl Default for NegotiationOptions {
    fn default() -> Self {
        Self {
            versions: SUPPORTED.to_vec(),
            mode: Mode::Auto,
            timeout: Duration::from_secs(30),
            probe_timeout: Duration::from_secs(10),
        }
    }
}

impl NegotiationOptions {
    /// Sets the versions, most preferred first.
    #[must_use]
    pub fn versions(mut self, versions: impl Into<Vec<ProtocolVersion>>) -> Self {
        self.versions = versions.into();
        self
    }

    /// Sets the eras to try.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the timeout of the whole negotiation.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the timeout of each probe (`server/discover`).
    #[must_use]
    pub fn probe_timeout(mut self, probe_timeout: Duration) -> Self {
        self.probe_timeout = probe_timeout;
        self
    }

    fn effective_probe_timeout(&self) -> Duration {
        self.probe_timeout.min(self.timeout / 3)
    }

    /// Returns the versions that the mode allows.
    fn allowed(&self) -> Vec<ProtocolVersion> {
        let is_allowed = |version: &&ProtocolVersion| match self.mode {
            Mode::Auto => true,
            Mode::Legacy => version.era() == Some(Era::Legacy),
            Mode::Modern => version.era() == Some(Era::Modern),
        };
        self.versions.iter().filter(is_allowed).cloned().collect()
    }

    /// Returns the client's most preferred version of this era.
    fn preferred(&self, era: Era) -> Option<&ProtocolVersion> {
        self.versions.iter().find(|version| version.era() == Some(era))
    }

    /// Returns the client's most preferred version of this era that the server supports as well.
    fn mutual(&self, era: Era, theirs: &[ProtocolVersion]) -> Option<&ProtocolVersion> {
        self.versions.iter().find(|version| version.era() == Some(era) && theirs.contains(version))
    }
}

/// The result of a negotiation with a server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct NegotiationResult {
    /// Negotiated version.
    pub version: ProtocolVersion,
    /// The server's response.
    pub server: ServerResponse,
    /// False if the era was inferred from a timeout. The result is then valid for this connection only and must not be
    /// cached.
    pub is_cacheable: bool,
    /// False if the server omitted its capabilities. Call a method to find out whether the server supports it.
    pub declares_capabilities: bool,
}

/// The server's response that determined its era.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ServerResponse {
    /// The result of `server/discover`.
    Discover(Box<DiscoverResult>),
    /// The result of `initialize`.
    Initialize(Box<InitializeResult>),
}

impl NegotiationResult {
    /// Returns the negotiated era.
    #[must_use]
    pub fn era(&self) -> Era {
        match self.server {
            ServerResponse::Discover(_) => Era::Modern,
            ServerResponse::Initialize(_) => Era::Legacy,
        }
    }
}

/// Reason why a negotiation failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NegotiationError {
    /// The client and the server have no protocol version in common.
    #[error(
        "no protocol version in common: the server supports {}; this client supports {}; {}",
        list(theirs),
        list(ours),
        remedy(ours, theirs)
    )]
    NoCommonVersion {
        /// Versions that the client allows.
        ours: Vec<ProtocolVersion>,
        /// Versions that the server supports. Untrusted.
        theirs: Vec<ProtocolVersion>,
    },
    /// The server responded to `initialize` with a version that this client does not support.
    #[error(
        "the server answered `initialize` with an unsupported protocol version: the server supports {}; this client \
         supports {}; update the older side",
        list(std::slice::from_ref(answered)),
        list(ours)
    )]
    UnsupportedVersion {
        /// Legacy versions that this client supports.
        ours: Vec<ProtocolVersion>,
        /// Version in the response. Untrusted.
        answered: ProtocolVersion,
    },
    /// Only modern versions are allowed, but the server is legacy.
    #[error("the server does not support modern protocol versions; allow the legacy era to connect")]
    NotModern,
    /// The server is modern but rejected the request.
    #[error("the server rejected the negotiation: {0}")]
    Rejected(ErrorObject),
    /// The server is modern, but its response to `server/discover` is invalid.
    #[error("invalid response to `server/discover`")]
    InvalidResponse,
    /// The server does not support `server/discover` and did not complete `initialize`.
    #[error("handshake failed: {handshake}{}", after(probe))]
    Handshake {
        /// Error response to `server/discover`, if there was one.
        probe: Option<ErrorObject>,
        /// Failure of `initialize`.
        handshake: HandshakeFailure,
    },
    /// The server wrote too many lines to stdout that are not messages, or a message over several lines.
    #[error(
        "the server wrote lines that are not JSON-RPC messages; {}; first line: \"{}\"",
        stray_line_hint(sample),
        SafeText::message(sample)
    )]
    Noise {
        /// Beginning of the first such line.
        sample: String,
    },
    /// The process could not be started.
    #[error("the server process could not be started")]
    NotStarted,
    /// The process exited before it responded. If a probe may have caused the exit and the legacy era is allowed, the
    /// process was restarted once.
    #[error("the server process exited before it responded")]
    Exited,
    /// The options have no version that the mode allows.
    #[error("no protocol version to offer; allow at least one")]
    NoVersionToOffer,
    /// The HTTP request failed; the era is unknown.
    #[error("the HTTP request failed: {0}")]
    Http(HttpFailure),
    /// The URL is not an MCP endpoint of any kind.
    #[error(
        "no MCP endpoint at this URL (POST server/discover: {probe}, POST initialize: {initialize}, GET: {get})"
    )]
    NoEndpoint {
        /// HTTP status of `server/discover`.
        probe: u16,
        /// HTTP status of `initialize`.
        initialize: u16,
        /// HTTP status of GET; 0 if the status was 200 but the first event was not `endpoint`, or if no event arrived
        /// in time.
        get: u16,
    },
}

impl NegotiationError {
    /// Returns true if the server did not respond in time.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(
            self,
            Self::Handshake { handshake: HandshakeFailure::Timeout, .. } | Self::Http(HttpFailure::Timeout)
        )
    }
}

/// Reason why a handshake failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeFailure {
    /// The server responded with an error.
    #[error("{0}")]
    Rejected(ErrorObject),
    /// The response is not a valid result of `initialize`.
    #[error("invalid response to `initialize`")]
    InvalidResponse,
    /// The server did not respond in time.
    #[error("timed out waiting for the response")]
    Timeout,
}

/// Maximum number of versions listed in an error.
const MAX_LISTED_VERSIONS: usize = 16;
/// Maximum number of displayed characters of a version. A date has ten.
const MAX_VERSION_CHARACTERS: usize = 24;

/// Formats a list of versions. The output is limited, because a server may send any number of versions with any text.
fn list(versions: &[ProtocolVersion]) -> String {
    let shown = |version: &ProtocolVersion| {
        SafeText::new(version.as_str()).at_most(MAX_VERSION_CHARACTERS).to_string()
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
        "allow the legacy era to connect"
    } else if has(theirs, Era::Modern) && !has(ours, Era::Modern) {
        "allow the modern era to connect"
    } else {
        "update the older side"
    }
}

fn after(probe: &Option<ErrorObject>) -> String {
    probe.as_ref().map(|error| format!(" (`server/discover` failed before: {error})")).unwrap_or_default()
}
