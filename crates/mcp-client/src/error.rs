//! The errors of this crate.

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
use mcp_protocol::oauth::refresh::LogInReason;
use mcp_protocol::peer::TimeoutReason;
use mcp_protocol::safe_text::SafeText;

pub use ended::{ConnectionEnd, EndCause};
pub use http_status::HttpStatus;
pub use start::StartError;

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate.
///
/// Five methods answer the usual questions, so that a program need not parse the text: which side is at fault
/// ([`blame`](Self::blame)), whether a retry is safe ([`is_retry_safe`](Self::is_retry_safe)), whether the server may
/// have acted ([`may_have_happened`](Self::may_have_happened)), whether a timeout elapsed
/// ([`is_timeout`](Self::is_timeout)) and whether a login is needed ([`needs_login`](Self::needs_login)).
///
/// The displayed text is complete; [`source`](std::error::Error::source) never repeats a part of it. An error can be
/// cloned, for example for several tasks that wait for the same result.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The program could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The server was started or reached, but the handshake failed.
    #[error("cannot connect to `{}`: {error}{ended}", SafeText::message(server))]
    Connect {
        /// The command line or URL of the server, without secrets.
        server: String,
        /// The cause.
        error: Box<NegotiationError>,
        /// The exit status and last stderr output of the server.
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
        "connection to `{}` denied by the network policy: it {}",
        SafeText::message(host),
        SafeText::message(reason)
    )]
    Denied {
        /// The host that was not connected to.
        host: String,
        /// The reason, as a predicate with the host as subject: `is a multicast address`.
        reason: String,
    },
    /// A server of the HTTP+SSE transport (2024-11-05) sent an `endpoint` event whose URL is on another web origin,
    /// contains credentials, or is not an HTTP URL. Nothing was sent to that URL.
    #[error(
        "`{server}` sent an `endpoint` event that names {}: only a URL on the same web origin, without a user name, is \
         allowed; fix the server, or connect to that address directly if you trust it",
        SafeText::new(origin).at_most(200)
    )]
    ForeignEndpoint {
        /// The server that was connected to.
        server: String,
        /// The web origin of the URL, or a description of the URL. Untrusted.
        origin: String,
    },
    /// The server requires authorization, or a scope that the token of this client lacks. The request was not executed.
    #[error("unauthorized: the server refused `{method}` with HTTP status {status}{}", demanded(challenges))]
    Unauthorized {
        /// The method of the request.
        method: Method,
        /// The HTTP status, 401 or 403.
        status: u16,
        /// The challenges of the response (`WWW-Authenticate`): the credentials that the server accepts. Untrusted.
        challenges: Vec<Challenge>,
    },
    /// A login is needed before anything can be sent. Nothing was sent.
    #[error("login needed for `{}`: {}", SafeText::message(server), reason.as_str())]
    LoginNeeded {
        /// The URL of the server, without its query.
        server: String,
        /// The reason.
        reason: LogInReason,
    },
    /// There is a login, but no token could be obtained. Nothing was sent.
    #[error("no token for `{}`: {}", SafeText::message(server), SafeText::message(problem))]
    NoToken {
        /// The URL of the server, without its query.
        server: String,
        /// The problem.
        problem: String,
        /// True if a retry is safe: the authorization server or the credential store did not respond.
        is_retry_safe: bool,
    },
    /// The HTTP response is not a JSON-RPC message, for example an error status without a JSON-RPC error, or a web
    /// page.
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
        /// The error that the server sent. Untrusted.
        error: ErrorObject,
    },
    /// The tool ran and reported that it failed. Returned by [`ToolResult::ok`](crate::ToolResult::ok) and
    /// [`ToolResult::json`](crate::ToolResult::json).
    #[error("tool `{}` failed: {}", SafeText::name(tool), message_or_note(message))]
    ToolFailed {
        /// The name of the tool.
        tool: String,
        /// The text of the result, which may be empty. Untrusted.
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
        /// Tells whether the request was sent.
        sent: Sent,
        /// The end of the connection: its cause, and the exit status and last stderr output of the server.
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
        /// The time from making the request to the timeout.
        after: Duration,
        /// The beginning of the first line on stdout that is not a JSON-RPC message. That line may have been the
        /// response.
        stray_line: Option<Arc<str>>,
    },
    /// The caller cancelled the request; a cancellation was sent.
    #[error("`{method}` was cancelled")]
    Cancelled {
        /// The method of the request.
        method: Method,
    },
    /// Too many requests are in flight, or the server does not read its input. Nothing was sent. The number is that of
    /// the requests in flight.
    #[error(
        "too many requests in flight ({0}), or the server does not read its input; wait for a request to finish"
    )]
    Busy(usize),
    /// The server did not declare the capability for this method, or its protocol version does not have the method.
    /// Nothing was sent.
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
        /// The reason why the input could not be provided.
        error: ErrorObject,
    },
    /// The request cannot be sent, for example because its arguments are not a JSON object, or the server's revision
    /// cannot express it.
    #[error("cannot send `{method}`: {}", SafeText::message(problem))]
    Unsendable {
        /// The method of the request.
        method: Method,
        /// The problem.
        problem: String,
    },
    /// The server kept exiting after restarts, or kept losing the session. Nothing was sent.
    #[error(
        "`{}` kept failing: restarted 5 times in 30 s; next attempt allowed in {wait:.0?}{ended}",
        SafeText::message(server)
    )]
    TooManyRestarts {
        /// The command line or URL of the server, without secrets.
        server: String,
        /// The time until the next attempt is allowed.
        wait: Duration,
        /// The most recent end of the server: its cause, and the exit status and last stderr output.
        ended: Arc<ConnectionEnd>,
    },
    /// A list exceeds its limits, or repeats a cursor.
    #[error("the list of `{method}` is incomplete: {problem}")]
    IncompleteList {
        /// The method of the list.
        method: Method,
        /// The limit that was exceeded, or the problem with the cursor.
        problem: &'static str,
    },
    /// The text of a [`NegotiationCache`](crate::NegotiationCache) cannot be parsed.
    #[error("line {line} of the negotiation cache is invalid; start with an empty cache")]
    InvalidCache {
        /// The number of the line; the first line is 1.
        line: usize,
    },
    /// The server config needs a feature of this crate that is not enabled.
    #[error("this needs the feature `{feature}` of mcp-client; enable it in Cargo.toml")]
    FeatureDisabled {
        /// The name of the feature.
        feature: &'static str,
    },
}

/// Returns the message of a failed tool, or a note if the message is empty.
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
    /// The caller: its server config, its arguments, its handlers, or a missing login.
    Caller,
    /// The server.
    Server,
    /// The connection: the process, the pipe, the network, or a timeout.
    Link,
}

/// Whether a request was sent before its connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Not a single byte of it was sent.
    No,
    /// At least a part of it may have been sent, so the server may have acted.
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
            | Self::LoginNeeded { .. }
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
            Self::Lost { .. } | Self::TimedOut { .. } | Self::NoToken { .. } => Blame::Link,
        }
    }

    /// Returns true if the request was not executed, so that a retry cannot execute it twice. Returns false for errors
    /// that a retry would only repeat, such as [`Error::InvalidConfig`], although their request was not executed.
    #[must_use]
    pub fn is_retry_safe(&self) -> bool {
        matches!(
            self,
            Self::Busy(_)
                | Self::Unauthorized { .. }
                | Self::Lost { sent: Sent::No, .. }
                | Self::Connect { .. }
                | Self::TooManyRestarts { .. }
                | Self::LoginNeeded { .. }
                | Self::NoToken { is_retry_safe: true, .. }
        ) || matches!(self, Self::Status { answer, .. } if answer.status == 429)
    }

    /// Returns true if it is unknown whether the server executed the request.
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

    /// Returns true if a timeout elapsed: the timeout of a request, or the start timeout while connecting.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::TimedOut { .. } => true,
            Self::Connect { error, .. } => error.is_timeout(),
            _ => false,
        }
    }

    /// Returns true if the request needs a login, or a login with another scope.
    #[must_use]
    pub fn needs_login(&self) -> bool {
        match self {
            Self::Unauthorized { status, challenges, .. } => {
                let is_scope = |challenge: &Challenge| challenge.error() == Some("insufficient_scope");
                *status == 401 || challenges.iter().any(is_scope)
            }
            Self::LoginNeeded { .. } => true,
            _ => false,
        }
    }

    pub(crate) fn unreadable(method: &Method, error: &BodyError) -> Self {
        Self::Unreadable { method: method.clone(), problem: error.to_string() }
    }
}
