//! What can go wrong, by whose fault, and what a caller may do about it.

mod start;

use std::fmt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use mcp_protocol::codec::challenge::Challenge;
use mcp_protocol::errors::{BodyError, ErrorObject};
use mcp_protocol::messages::Method;
use mcp_protocol::negotiation::NegotiationError;
use mcp_protocol::peer::Reason;
use mcp_protocol::visible::Visible;

pub use start::StartError;

/// What the calls of this crate return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something failed.
///
/// Four questions are answered without reading text: whose fault it is ([`blame`](Self::blame)), whether trying again
/// can do harm ([`is_retry_safe`](Self::is_retry_safe)), whether the server may have acted
/// ([`may_have_happened`](Self::may_have_happened)) and whether a login is needed ([`needs_login`](Self::needs_login)).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The program could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The server was reached, but never became usable.
    #[error("`{}` did not become usable: {source}{ended}", Visible::message(server))]
    Connect {
        /// What was started.
        server: String,
        /// Why.
        source: Box<NegotiationError>,
        /// What the server left behind.
        ended: ConnectionEnd,
    },
    /// The server config cannot be used. Nothing was sent.
    #[error("`{}` cannot be used: {}", Visible::message(config), Visible::message(problem))]
    InvalidConfig {
        /// The server config, fit to be shown.
        config: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The network policy does not allow to connect there. Nothing was sent.
    #[error("connecting is not allowed: `{}` {}", Visible::message(host), Visible::message(reason))]
    Denied {
        /// The host.
        host: String,
        /// Why not.
        reason: String,
    },
    /// The `endpoint` event of a server of the HTTP+SSE transport (2024-11-05) names an address on another web origin, or one
    /// with credentials. Nothing was sent there.
    #[error(
        "`{server}` named an endpoint on another web origin, {}, which is not allowed; fix the server, or connect to that \
         address directly if you trust it", Visible::new(origin).at_most(200)
    )]
    ForeignEndpoint {
        /// The server that was connected to.
        server: String,
        /// The web origin of the endpoint. Untrusted.
        origin: String,
    },
    /// The server wants to know who asks, or wants somebody who may more. Nothing was done.
    #[error("the server refused `{method}` with status {status}{}", wanted(challenges))]
    Unauthorized {
        /// What was asked.
        method: Method,
        /// 401, or 403.
        status: u16,
        /// What would be accepted. Untrusted.
        challenges: Vec<Challenge>,
    },
    /// Something answered with an HTTP status instead of a message.
    #[error("`{method}` was answered with {answer}")]
    Status {
        /// What was asked.
        method: Method,
        /// The answer.
        answer: Box<HttpStatus>,
    },
    /// The server answered with an error.
    #[error("the server refused `{method}`: {source}")]
    Refused {
        /// What was asked.
        method: Method,
        /// What it said.
        source: ErrorObject,
    },
    /// The server's answer cannot be read.
    #[error("the server's answer to `{method}` cannot be read: {}", Visible::message(problem))]
    Unreadable {
        /// What was asked.
        method: Method,
        /// What is wrong with the answer.
        problem: String,
    },
    /// The connection ended first.
    #[error("the connection ended before `{method}` was answered{}{ended}", sent.as_note())]
    Lost {
        /// What was asked.
        method: Method,
        /// Whether the request had left.
        sent: Sent,
        /// How it ended.
        ended: Arc<ConnectionEnd>,
    },
    /// The time was over. The server was told.
    #[error("`{method}` took longer than {after:.1?}: {}", reason.as_str())]
    TimedOut {
        /// What was asked.
        method: Method,
        /// Which clock it was.
        reason: Reason,
        /// How long it took.
        after: Duration,
    },
    /// The caller cancelled it. The server was told.
    #[error("`{method}` was cancelled")]
    Cancelled {
        /// What was asked.
        method: Method,
    },
    /// Too much is in flight, or the server does not read what it is sent. Nothing was sent.
    #[error("{0} requests are in flight already, or the server does not read; wait for one to end")]
    Busy(usize),
    /// The server does not offer this. Nothing was sent.
    #[error("the server does not offer `{method}`")]
    NotOffered {
        /// What was asked.
        method: Method,
    },
    /// The server wants something from the person or the host that it cannot have.
    #[error("the server asked for input in the middle of `{method}` and did not get it: {source}")]
    Input {
        /// What was asked of the server.
        method: Method,
        /// Why it did not get it.
        source: ErrorObject,
    },
    /// What is to be sent cannot be written, for example because the server's revision has no way to say it.
    #[error("`{method}` cannot be sent: {}", Visible::message(problem))]
    Unsendable {
        /// What was to be sent.
        method: Method,
        /// What is wrong with it.
        problem: String,
    },
    /// The server was started again and again and kept ending, or its session was. Nothing was sent.
    #[error(
        "`{}` keeps ending: it was begun with five times in 30 s, and can be again in {wait:.0?}{ended}",
        Visible::message(server)
    )]
    KeepsEnding {
        /// What was started.
        server: String,
        /// How long it is left alone.
        wait: Duration,
        /// How it last ended.
        ended: Arc<ConnectionEnd>,
    },
    /// A list that exceeds its limits, or repeats a cursor.
    #[error("the list of `{method}` is incomplete: {problem}")]
    Endless {
        /// The list.
        method: Method,
        /// Which limit it exceeds.
        problem: &'static str,
    },
    /// What was written down about servers cannot be read; begin anew.
    #[error("line {line} of the negotiation_cache that were kept cannot be read; start without them")]
    Kept {
        /// The line.
        line: usize,
    },
    /// The configuration needs a feature of this crate that is not switched on.
    #[error("this needs the feature `{feature}` of mcp-client")]
    FeatureDisabled {
        /// The feature.
        feature: &'static str,
    },
}

/// An answer that is no message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpStatus {
    /// The status.
    pub status: u16,
    /// The media type of its body.
    pub content_type: Option<String>,
    /// How its body begins, escaped. Untrusted.
    pub excerpt: String,
    /// How long the server wants to be left alone.
    pub retry_after: Option<Duration>,
    /// Where it points to, if it is a redirect that was not followed. Untrusted.
    pub location: Option<String>,
}

impl fmt::Display for HttpStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {}", self.status)?;
        if let Some(kind) = &self.content_type {
            write!(f, " and {}", Visible::new(kind).at_most(80))?;
        }
        if let Some(location) = &self.location {
            write!(f, "; it points to {}, which was not followed", Visible::new(location).at_most(200))?;
        }
        if let Some(wait) = self.retry_after {
            write!(f, "; it wants to be left alone for {} s", wait.as_secs())?;
        }
        if !self.excerpt.is_empty() {
            write!(f, ": {}", self.excerpt)?;
        }
        Ok(())
    }
}

fn wanted(challenges: &[Challenge]) -> String {
    let Some(challenge) = challenges.first() else { return String::new() };
    let mut text = format!("; it wants `{}`", Visible::new(&challenge.scheme).at_most(32));
    if let Some(scope) = challenge.scope() {
        text.push_str(&format!(" with scope `{}`", Visible::new(scope).at_most(200)));
    }
    text
}

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Blame {
    /// The one who called.
    Caller,
    /// The server.
    Server,
    /// What lies between: the process, the pipe, the time.
    Link,
}

/// Whether a request had left when its connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Not a byte of it.
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

/// How a connection ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionEnd {
    /// Why.
    pub cause: EndCause,
    /// What the program ended with, if it has.
    pub status: Option<ExitStatus>,
    /// What it last wrote to standard error, masked.
    pub stderr: String,
}

/// Why a connection ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndCause {
    /// The server ended it.
    #[default]
    Server,
    /// We closed it.
    Closed,
    /// What was sent could not be written.
    Write(String),
    /// What was sent could not be read.
    Read(String),
    /// The network failed.
    Network(String),
    /// Something answered over HTTP, but not with a message: a web page, for example.
    Response(Box<HttpStatus>),
    /// A line without end.
    EndlessLine,
    /// The server asked without end for what it may not ask.
    Flood,
}

impl fmt::Display for ConnectionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            EndCause::Server => {}
            EndCause::Closed => f.write_str("; it was closed")?,
            EndCause::Write(error) => write!(f, "; writing to it failed: {}", Visible::message(error))?,
            EndCause::Read(error) => write!(f, "; reading from it failed: {}", Visible::message(error))?,
            EndCause::Network(problem) => write!(f, "; the network failed: {}", Visible::message(problem))?,
            EndCause::Response(answer) => write!(f, "; the response was {answer}")?,
            EndCause::EndlessLine => f.write_str("; it sent a line without end")?,
            EndCause::Flood => f.write_str("; it kept asking for what it may not ask")?,
        }
        if let Some(status) = self.status {
            write!(f, "; it ended with {status}")?;
        }
        if !self.stderr.is_empty() {
            write!(f, "; its last words were:\n{}", self.stderr)?;
        }
        Ok(())
    }
}

impl Error {
    /// Whose fault it is.
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
            | Self::Kept { .. }
            | Self::FeatureDisabled { .. } => Blame::Caller,
            Self::Connect { .. }
            | Self::ForeignEndpoint { .. }
            | Self::Status { .. }
            | Self::Refused { .. }
            | Self::Unreadable { .. }
            | Self::KeepsEnding { .. }
            | Self::Endless { .. } => Blame::Server,
            Self::Lost { .. } | Self::TimedOut { .. } => Blame::Link,
        }
    }

    /// True if the same can be asked again without acting twice: nothing was done the first time.
    #[must_use]
    pub fn is_retry_safe(&self) -> bool {
        matches!(
            self,
            Self::Busy(_)
                | Self::Unauthorized { .. }
                | Self::Lost { sent: Sent::No, .. }
                | Self::Connect { .. }
                | Self::KeepsEnding { .. }
        ) || matches!(self, Self::Status { answer, .. } if answer.status == 429)
    }

    /// True if the server may have done what it was asked, although there is no answer that says so.
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

    /// True if a login is needed first.
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
