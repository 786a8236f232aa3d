//! Decides whether a request is sent again after a failure.
//!
//! [`Retry`] is the only place that decides this, for all transports. A request that may have been executed is never
//! sent twice, unless its method only reads. A request is sent again at most once because of a lost connection or a
//! header mismatch, once with a new session, and once after status 429.
//!
//! | failure | over HTTP | over a stream |
//! |---|---|---|
//! | not sent | retry after a pause | restart the server |
//! | maybe sent, method only reads | retry after a pause | restart the server |
//! | maybe sent, any other method | give up | give up |
//! | session unknown | renew the session | give up |
//! | session refused, method only reads | renew the session | give up |
//! | session refused, any other method | give up, and renew the session for later requests | give up |
//! | too many requests | retry after the time in `Retry-After`, unless the deadline is earlier | give up |
//! | `Mcp-Param-*` headers do not match the tool's schema | list the tools again | give up |
//! | unauthorized | log in | log in |
//! | any other response | give up | give up |
//!
//! Without `Retry-After`, the pause after status 429 is 1 s. A request without a deadline is not sent again if the
//! pause would be longer than 60 s.
//!
//! After a restart, a new session, a new list of tools or a login, the request is sent again, unless the table says
//! "give up". A server is restarted only if its config allows that. If the server has responded with a request for
//! input, the request with the input is not sent again after a lost connection or a header mismatch, because the server
//! has seen the request before.
//!
//! ```
//! use std::time::Instant;
//!
//! use mcp_protocol::messages::Method;
//! use mcp_protocol::retry::{Decision, Failure, Retry, Route};
//!
//! let now = Instant::now();
//! let mut call = Retry::new(&Method::ToolsCall, Route::Http);
//! assert_eq!(call.handle_failure(&Failure::MaybeSent, None, now), Decision::GiveUp);
//! let mut list = Retry::new(&Method::ToolsList, Route::Http);
//! assert!(matches!(list.handle_failure(&Failure::MaybeSent, None, now), Decision::Again { .. }));
//! ```

mod backoff;
mod restart_limit;

use std::time::{Duration, Instant};

use crate::messages::Method;

pub use backoff::Backoff;
pub use restart_limit::RestartLimit;

/// The pause before a request is sent again after a network failure.
const NETWORK_PAUSE: Duration = Duration::from_millis(100);
/// The pause after status 429 without `Retry-After`.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);
/// The maximum pause before a retry of a request that has no deadline.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// The kind of transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Each request is a separate HTTP request.
    Http,
    /// All requests share one stream, such as the pipes of a process.
    Stream {
        /// True if the server is restarted after it exits.
        restarts: bool,
    },
}

/// The reason why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The connection failed before any byte of the request was sent.
    NotSent,
    /// The connection was lost after at least a part of the request was sent.
    MaybeSent,
    /// The server does not know the session, and has not executed the request.
    SessionUnknown,
    /// The server reports a problem with the session, but the request may have been executed.
    SessionRefused,
    /// HTTP status 429: the request was not executed.
    TooManyRequests {
        /// The value of `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// The `Mcp-Param-*` headers of a tool call do not match the `x-mcp-header` annotations of the tool, which may have
    /// changed.
    HeaderMismatch,
    /// A login is needed. The request was not executed.
    Unauthorized,
    /// Any other error response of the server, or an error on the side of the caller.
    Other,
}

/// The action to take after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Return the error.
    GiveUp,
    /// Return the error, and open a new session for later requests.
    GiveUpAndRenewSession,
    /// Send the request again after a pause.
    Again {
        /// The pause.
        after: Duration,
    },
    /// Open a new session, then send the request again.
    RenewSession,
    /// Restart the server, then send the request again.
    RestartServer,
    /// List the tools, then send the request again.
    RefreshTools,
    /// Log in, then send the request again.
    LogIn,
}

/// The retry state of one request.
#[derive(Clone, Debug)]
pub struct Retry {
    is_read_only: bool,
    is_tool_call: bool,
    route: Route,
    /// The server has seen an earlier round of this request.
    is_later_round: bool,
    has_repeated: bool,
    has_renewed: bool,
    has_waited: bool,
}

impl Retry {
    /// Creates the state for a request that has not failed yet.
    #[must_use]
    pub fn new(method: &Method, route: Route) -> Self {
        Self {
            is_read_only: is_read_only(method),
            is_tool_call: *method == Method::ToolsCall,
            route,
            is_later_round: false,
            has_repeated: false,
            has_renewed: false,
            has_waited: false,
        }
    }

    /// Records that the server responded with a request for input. From then on, the request is not sent again after a
    /// lost connection.
    pub fn handle_input_round(&mut self) {
        self.is_later_round = true;
    }

    /// Decides what to do after a failure. `deadline` is the time at which the request times out, or `None` if it does
    /// not.
    #[must_use]
    pub fn handle_failure(&mut self, failure: &Failure, deadline: Option<Instant>, now: Instant) -> Decision {
        let is_http = self.route == Route::Http;
        match failure {
            Failure::NotSent => self.repeat(),
            Failure::MaybeSent if self.is_read_only => self.repeat(),
            Failure::SessionUnknown if is_http => self.renew(Decision::RenewSession),
            Failure::SessionRefused if is_http && self.is_read_only => self.renew(Decision::RenewSession),
            Failure::SessionRefused if is_http => self.renew(Decision::GiveUpAndRenewSession),
            Failure::TooManyRequests { retry_after } if is_http && !self.has_waited => {
                let after = retry_after.unwrap_or(DEFAULT_RETRY_AFTER);
                let is_in_time = match deadline {
                    Some(deadline) => now.checked_add(after).is_some_and(|at| at < deadline),
                    None => after <= MAX_PAUSE,
                };
                if !is_in_time {
                    return Decision::GiveUp;
                }
                self.has_waited = true;
                Decision::Again { after }
            }
            Failure::HeaderMismatch if is_http && self.is_tool_call && self.may_repeat() => {
                self.has_repeated = true;
                Decision::RefreshTools
            }
            Failure::Unauthorized => Decision::LogIn,
            _ => Decision::GiveUp,
        }
    }

    fn may_repeat(&self) -> bool {
        !self.has_repeated && !self.is_later_round
    }

    fn repeat(&mut self) -> Decision {
        if !self.may_repeat() {
            return Decision::GiveUp;
        }
        self.has_repeated = true;
        match self.route {
            Route::Http => Decision::Again { after: NETWORK_PAUSE },
            Route::Stream { restarts: true } => Decision::RestartServer,
            Route::Stream { restarts: false } => Decision::GiveUp,
        }
    }

    fn renew(&mut self, decision: Decision) -> Decision {
        if std::mem::replace(&mut self.has_renewed, true) { Decision::GiveUp } else { decision }
    }
}

/// Returns true for methods that only read.
fn is_read_only(method: &Method) -> bool {
    matches!(
        method,
        Method::Ping
            | Method::Discover
            | Method::ToolsList
            | Method::ResourcesList
            | Method::ResourceTemplatesList
            | Method::ResourcesRead
            | Method::PromptsList
            | Method::PromptsGet
            | Method::Complete
    )
}

#[cfg(test)]
mod tests;
