//! The errors of this crate, and what a caller can do about each.

mod ended;
mod http_status;
mod start;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use mcp_protocol::codec::challenge::Challenge;
use mcp_protocol::errors::{BodyError, ErrorObject};
use mcp_protocol::messages::Method;
use mcp_protocol::negotiation::NegotiationError;
use mcp_protocol::peer::TimeoutReason;
use mcp_protocol::safe_text::SafeText;

pub use ended::{ConnectionEnd, EndCause};
pub use http_status::HttpStatus;
pub use start::StartError;

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate.
///
/// Five methods answer the usual questions, so that a program need not parse the text: whose fault it is
/// ([`blame`](Self::blame)), whether a retry is safe ([`is_retry_safe`](Self::is_retry_safe)), whether the server may
/// have acted ([`may_have_happened`](Self::may_have_happened)), whether a timeout elapsed
/// ([`is_timeout`](Self::is_timeout)) and whether a login is needed ([`needs_login`](Self::needs_login)).
///
/// The displayed text is complete: [`source`](std::error::Error::source) never repeats a part of it. An error can be
/// cloned and given to every task that waited for the same result.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The program could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The server was started or reached, but the handshake failed.
    #[error("cannot connect to `{}`: {error}{ended}", SafeText::message(server))]
    Connect {
        /// The command or URL of the server.
        server: String,
        /// The cause.
        error: Box<NegotiationError>,
        /// Exit status and stderr output of the server.
        ended: ConnectionEnd,
    },
    /// The server config cannot be used. Nothing was sent.
    #[error("invalid server config `{}`: {}", SafeText::message(config), SafeText::message(problem))]
    InvalidConfig {
        /// The server config, without secrets.
        config: String,
        /// The problem.
        problem: String,
    },
    /// The network policy does not allow the connection. Nothing was sent.
    #[error(
        "connection to `{}` denied by the network policy: {}",
        SafeText::message(host),
        SafeText::message(reason)
    )]
    Denied {
        /// The host.
        host: String,
        /// The reason.
        reason: String,
    },
    /// The `endpoint` event of a server of the HTTP+SSE transport (2024-11-05) names an address on another web origin,
    /// or one with credentials. Nothing was sent there.
    #[error(
        "`{server}` named an endpoint that this client does not post to, {}: only a URL on the same web origin, without a \
         user name, is allowed; fix the server, or connect to that address directly if you trust it",
        SafeText::new(origin).at_most(200)
    )]
    ForeignEndpoint {
        /// The server that was connected to.
        server: String,
        /// The web origin of the endpoint, or a description of its URL. Untrusted.
        origin: String,
    },
    /// The server requires authorization, or a scope that the token of this client lacks. The request was not executed.
    #[error("unauthorized: the server refused `{method}` with HTTP status {status}{}", demanded(challenges))]
    Unauthorized {
        /// The method of the request.
        method: Method,
        /// 401 or 403.
        status: u16,
        /// The credentials that the server accepts. Untrusted.
        challenges: Vec<Challenge>,
    },
    /// The response has an HTTP status instead of a JSON-RPC message.
    #[error("unexpected response to `{method}`: {answer}")]
    Status {
        /// The method of the request.
        method: Method,
        /// The HTTP response.
        answer: Box<HttpStatus>,
    },
    /// The server responded with a JSON-RPC error.
    #[error("the server refused `{method}`: {error}")]
    Refused {
        /// The method of the request.
        method: Method,
        /// The error of the server. Untrusted.
        error: ErrorObject,
    },
    /// The tool ran and reported that it failed. Returned by [`ToolResult::ok`](crate::ToolResult::ok) and
    /// [`ToolResult::json`](crate::ToolResult::json).
    #[error("tool `{}` failed: {}", SafeText::name(tool), message_or_note(message))]
    ToolFailed {
        /// The name of the tool.
        tool: String,
        /// The text of the result. Untrusted.
        message: String,
    },
    /// The response cannot be parsed.
    #[error("invalid response to `{method}`: {}", SafeText::message(problem))]
    Unreadable {
        /// The method of the request.
        method: Method,
        /// The problem.
        problem: String,
    },
    /// The connection was lost before a response arrived.
    #[error("connection lost before the response to `{method}`{}{ended}", sent.as_note())]
    Lost {
        /// The method of the request.
        method: Method,
        /// Whether the request had been sent.
        sent: Sent,
        /// The end of the connection: its cause, the exit status and the last stderr output.
        ended: Arc<ConnectionEnd>,
    },
    /// The request timed out; a cancellation was sent.
    #[error(
        "`{method}` timed out after {after:.1?}: {}{}",
        reason.as_str(),
        ended::StrayLine(stray_line.as_deref())
    )]
    TimedOut {
        /// The method of the request.
        method: Method,
        /// The timeout that elapsed.
        reason: TimeoutReason,
        /// The time since the request was made.
        after: Duration,
        /// The beginning of the first line on stdout that is not a JSON-RPC message: it may have been the response.
        stray_line: Option<Arc<str>>,
    },
    /// The caller cancelled the request; a cancellation was sent.
    #[error("`{method}` was cancelled")]
    Cancelled {
        /// The method of the request.
        method: Method,
    },
    /// Too many requests are in flight, or the server does not read its input. Nothing was sent.
    #[error(
        "too many requests in flight ({0}), or the server does not read its input; wait for one to finish"
    )]
    Busy(usize),
    /// The server does not have this capability. Nothing was sent.
    #[error("the server does not support `{method}`")]
    NotOffered {
        /// The method of the request.
        method: Method,
    },
    /// The server requested input (elicitation, sampling or roots) that the client could not provide.
    #[error("the server requested input during `{method}`, and the client could not provide it: {error}")]
    Input {
        /// The method of the request.
        method: Method,
        /// The reason why there was no answer.
        error: ErrorObject,
    },
    /// The request cannot be serialized, for example because the server's revision has no way to express it.
    #[error("cannot serialize `{method}`: {}", SafeText::message(problem))]
    Unsendable {
        /// The method of the request.
        method: Method,
        /// The problem.
        problem: String,
    },
    /// The server kept exiting after restarts, or kept forgetting its session. Nothing was sent.
    #[error(
        "`{}` kept failing: restarted 5 times in 30 s; next attempt allowed in {wait:.0?}{ended}",
        SafeText::message(server)
    )]
    TooManyRestarts {
        /// The command or URL of the server.
        server: String,
        /// The time until the next attempt is allowed.
        wait: Duration,
        /// The most recent end of the server: its cause, exit status and stderr output.
        ended: Arc<ConnectionEnd>,
    },
    /// A list exceeds its limits, or repeats a cursor.
    #[error("the list of `{method}` is incomplete: {problem}")]
    IncompleteList {
        /// The method of the list.
        method: Method,
        /// The limit that was exceeded.
        problem: &'static str,
    },
    /// The text of a [`NegotiationCache`](crate::NegotiationCache) cannot be parsed.
    #[error("line {line} of the negotiation cache is invalid; start with an empty cache")]
    InvalidCache {
        /// The line, from 1.
        line: usize,
    },
    /// The configuration needs a feature of this crate that is not enabled.
    #[error("this needs the feature `{feature}` of mcp-client; enable it in Cargo.toml")]
    FeatureDisabled {
        /// The feature.
        feature: &'static str,
    },
}

/// The message of a tool that failed.
fn message_or_note(message: &str) -> SafeText<'_> {
    SafeText::message(if message.is_empty() { "the result has no text" } else { message })
}

fn demanded(challenges: &[Challenge]) -> String {
    let Some(challenge) = challenges.first() else { return String::new() };
    let mut text = format!("; it accepts `{}`", SafeText::new(&challenge.scheme).at_most(32));
    if let Some(scope) = challenge.scope() {
        text.push_str(&format!(" with scope `{}`", SafeText::new(scope).at_most(200)));
    }
    text
}

/// The side at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Blame {
    /// The caller.
    Caller,
    /// The server.
    Server,
    /// The connection: the process, the pipe, the network, or a timeout.
    Link,
}

/// Whether a request had been sent when its connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Not a single byte.
    No,
    /// At least a part of it: the server may have acted.
    Maybe,
}

impl Sent {
    fn as_note(self) -> &'static str {
        match self {
            Self::No => " (it was not sent)",
            Self::Maybe => "",
        }
    }
}

impl Error {
    /// Returns the side at fault.
    #[must_use]
    pub fn blame(&self) -> Blame {
        match self {
            Self::Start(_)
            | Self::InvalidConfig { .. }
            | Self::Denied { .. }
            | Self::Unauthorized { .. }
            | Self::Cancelled { .. }
            | Self::Busy(_)
            | Self::NotOffered { .. }
            | Self::Input { .. }
            | Self::Unsendable { .. }
            | Self::InvalidCache { .. }
            | Self::FeatureDisabled { .. } => Blame::Caller,
            _ if self.is_timeout() => Blame::Link,
            Self::Connect { .. }
            | Self::ForeignEndpoint { .. }
            | Self::Status { .. }
            | Self::Refused { .. }
            | Self::ToolFailed { .. }
            | Self::Unreadable { .. }
            | Self::TooManyRestarts { .. }
            | Self::IncompleteList { .. } => Blame::Server,
            Self::Lost { .. } | Self::TimedOut { .. } => Blame::Link,
        }
    }

    /// Returns true if a retry cannot execute the request twice: it was not executed the first time.
    #[must_use]
    pub fn is_retry_safe(&self) -> bool {
        matches!(
            self,
            Self::Busy(_)
                | Self::Unauthorized { .. }
                | Self::Lost { sent: Sent::No, .. }
                | Self::Connect { .. }
                | Self::TooManyRestarts { .. }
        ) || matches!(self, Self::Status { answer, .. } if answer.status == 429)
    }

    /// Returns true if the server may have executed the request although no response says so.
    #[must_use]
    pub fn may_have_happened(&self) -> bool {
        matches!(
            self,
            Self::Lost { sent: Sent::Maybe, .. }
                | Self::TimedOut { .. }
                | Self::Cancelled { .. }
                | Self::Unreadable { .. }
                | Self::Input { .. }
        ) || matches!(self, Self::Status { answer, .. } if !(400..500).contains(&answer.status))
    }

    /// Returns true if a timeout expired: of a request, or while connecting.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::TimedOut { .. } => true,
            Self::Connect { error, .. } => error.is_timeout(),
            _ => false,
        }
    }

    /// Returns true if a login is needed first.
    #[must_use]
    pub fn needs_login(&self) -> bool {
        match self {
            Self::Unauthorized { status, challenges, .. } => {
                let is_scope = |challenge: &Challenge| challenge.error() == Some("insufficient_scope");
                *status == 401 || challenges.iter().any(is_scope)
            }
            _ => false,
        }
    }

    pub(crate) fn unreadable(method: &Method, error: &BodyError) -> Self {
        Self::Unreadable { method: method.clone(), problem: error.to_string() }
    }
}
