//! Errors of HTTP requests, and whether a failed request was sent.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use hyper_util::client::legacy::Error as ClientError;

use super::policy::Denied;
use crate::error::{ConnectionEnd, EndCause, Error, Sent};

/// The error of an HTTP request that got no complete response.
#[derive(Debug)]
pub struct HttpError {
    sent: Sent,
    problem: String,
    /// The reason why this client did not send the request, if it was its own decision.
    pub(crate) refusal: Option<Box<Error>>,
}

impl HttpError {
    /// Creates an error for a request of which no byte was sent.
    #[must_use]
    pub fn unsent(problem: impl Into<String>) -> Self {
        Self { sent: Sent::No, problem: problem.into(), refusal: None }
    }

    /// Creates an error for a request that may have been sent, at least in part.
    #[must_use]
    pub fn maybe_sent(problem: impl Into<String>) -> Self {
        Self { sent: Sent::Maybe, problem: problem.into(), refusal: None }
    }

    /// Tells whether the request was sent.
    #[must_use]
    pub fn sent(&self) -> Sent {
        self.sent
    }

    /// Creates an error for a request that this client decided not to send.
    #[cfg(feature = "oauth")]
    pub(crate) fn refused(error: Error) -> Self {
        Self { sent: Sent::No, problem: error.to_string(), refusal: Some(Box::new(error)) }
    }

    /// Converts this error into the error of an MCP request.
    pub(crate) fn into_lost(self, method: mcp_protocol::messages::Method) -> Error {
        if let Some(error) = self.refusal {
            return *error;
        }
        let ended = ConnectionEnd { cause: EndCause::Network(self.problem), ..ConnectionEnd::default() };
        Error::Lost { method, sent: self.sent, ended: Arc::new(ended) }
    }
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        mcp_protocol::safe_text::SafeText::message(&self.problem).fmt(f)
    }
}

impl StdError for HttpError {}

impl From<Denied> for HttpError {
    fn from(denied: Denied) -> Self {
        let problem = denied.to_string();
        let error = Error::Denied { host: denied.host, reason: denied.reason };
        Self { sent: Sent::No, problem, refusal: Some(Box::new(error)) }
    }
}

impl From<ClientError> for HttpError {
    /// A request counts as not sent if connecting failed, or if hyper returned it because its pooled connection was
    /// closed.
    fn from(error: ClientError) -> Self {
        let causes = || std::iter::successors(error.source(), |error| (*error).source());
        let is_returned =
            causes().any(|cause| cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled));
        let sent = if error.is_connect() || is_returned { Sent::No } else { Sent::Maybe };
        if let Some(denied) = causes().find_map(|cause| cause.downcast_ref::<Denied>()) {
            return Self { sent, ..Self::from(denied.clone()) };
        }
        // The last cause is the most specific one.
        let problem = causes().last().map_or_else(|| error.to_string(), ToString::to_string);
        Self { sent, problem, refusal: None }
    }
}
