//! What can go wrong: while serving, in a tool, and while asking.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::io;

use mcp_protocol::capabilities::ClientCapabilities;
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::visible::Visible;

/// Why serving ended, or did not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server was put together wrong: each problem in one sentence.
    #[error("the server cannot start: {}", .problems.join("; "))]
    Setup {
        /// What is wrong.
        problems: Vec<String>,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address.
        address: std::net::SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Reading from or writing to the client failed.
    #[error("the link to the client failed")]
    Link(#[from] io::Error),
}

/// What a tool failed with. The model reads its text.
///
/// Every error of the standard kind turns into one by `?`, its sources included:
///
/// ```
/// use mcp_server::ToolError;
///
/// async fn parse(text: String) -> Result<String, ToolError> {
///     let number: i64 = text.parse()?;
///     if number < 0 {
///         return Err(ToolError::new("the number must not be negative"));
///     }
///     Ok(number.to_string())
/// }
/// ```
///
/// It is no [`std::error::Error`] itself; otherwise `?` could not turn every other one into it.
pub struct ToolError(Kind);

enum Kind {
    /// For the model: a result with `isError`.
    Failed(String),
    /// For the client: an error response.
    Refused(Box<ErrorObject>),
    /// The call waits for input.
    Asked(AskError),
}

/// How a failure is answered.
pub(crate) enum Failure {
    Failed(String),
    Refused(ErrorObject),
    Unanswered,
    /// The client did not declare what the ask needs.
    Undeclared(Box<ClientCapabilities>),
}

impl ToolError {
    /// A failure that the model can read and act on.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(Kind::Failed(text.into()))
    }

    /// A failure of the request itself: the client gets this error response and the model nothing.
    #[must_use]
    pub fn refused(error: ErrorObject) -> Self {
        Self(Kind::Refused(Box::new(error)))
    }

    /// There is no resource with this URI.
    #[must_use]
    pub fn resource_not_found(uri: &str) -> Self {
        Self::refused(ErrorObject::resource_not_found(uri))
    }

    /// The params of the request are wrong.
    #[must_use]
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::refused(ErrorObject::new(ErrorCode::InvalidParams, message.into()))
    }

    /// True if the call did not fail but asks: it ends here and begins again with the answer. For hooks, which see
    /// every run; such an error is to be returned as it is.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        matches!(self.0, Kind::Asked(AskError::Unanswered))
    }

    pub(crate) fn into_failure(self) -> Failure {
        match self.0 {
            Kind::Failed(text) => Failure::Failed(text),
            Kind::Refused(error) => Failure::Refused(*error),
            Kind::Asked(AskError::Unanswered) => Failure::Unanswered,
            Kind::Asked(AskError::Undeclared(needed)) => Failure::Undeclared(needed),
            Kind::Asked(AskError::Malformed(problem)) => {
                Failure::Refused(ErrorObject::new(ErrorCode::InvalidParams, problem))
            }
            Kind::Asked(other) => Failure::Failed(other.to_string()),
        }
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for ToolError {
    fn from(error: E) -> Self {
        if let Some(asked) = ask_error(&error) {
            return Self(Kind::Asked(asked));
        }
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            // Many errors print their source themselves.
            if !text.ends_with(&cause_text) {
                text = format!("{text}: {cause_text}");
            }
            source = cause.source();
        }
        Self(Kind::Failed(text))
    }
}

/// The ask that this error is, or was caused by.
fn ask_error<E: StdError + 'static>(error: &E) -> Option<AskError> {
    if let Some(asked) = (error as &dyn Any).downcast_ref::<AskError>() {
        return Some(asked.clone());
    }
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(asked) = cause.downcast_ref::<AskError>() {
            return Some(asked.clone());
        }
        source = cause.source();
    }
    None
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Failed(text) => f.debug_tuple("ToolError").field(text).finish(),
            Kind::Refused(error) => f.debug_tuple("ToolError").field(error).finish(),
            Kind::Asked(asked) => f.debug_tuple("ToolError").field(asked).finish(),
        }
    }
}

/// Why an ask gave no answer. Return it with `?`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The client has to be asked first; the function will run again with the answer at hand.
    #[error("the answer is not there yet; return this error, and the function runs again with the answer")]
    Unanswered,
    /// The client cannot be asked this.
    #[error("the client did not declare that it can be asked this")]
    Undeclared(Box<ClientCapabilities>),
    /// The client answered with an error.
    #[error("the client refused: {}", Visible::message(&.0.message))]
    Refused(Box<ErrorObject>),
    /// The client did not answer in time.
    #[error("the client did not answer in time")]
    TimedOut,
    /// The connection ended first.
    #[error("the connection ended before the client answered")]
    Lost,
    /// The answer, or what came back with it, cannot be read.
    #[error("{}", Visible::message(.0))]
    Malformed(String),
    /// The call asked too often.
    #[error("a call may ask in at most {0} rounds")]
    TooManyRounds(u32),
    /// Answers and steps of earlier rounds do not fit into what the client carries.
    #[error("answers and steps of this call take {0} bytes, of at most {1}; keep large things elsewhere")]
    StateTooLarge(usize, usize),
    /// The confirmation was for one run, and that has been.
    #[error("it was confirmed for one run, and has had it; call again to be asked again")]
    Spent,
    /// Whether a confirmation was used before cannot be told; the log says why.
    #[error("the confirmation cannot be honoured now; retry later")]
    SpentUnknown,
    /// The crate was built without what this needs.
    #[error("asking needs the feature `{0}` of mcp-server")]
    FeatureDisabled(&'static str),
}
