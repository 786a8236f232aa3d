//! Errors of the server, of a tool, and of a request to the client (elicitation, sampling, roots).

use std::error::Error as StdError;
use std::fmt;
use std::io;

use mcp_protocol::capabilities::ClientCapabilities;
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::safe_text::SafeText;

/// An error that stopped the server or kept it from starting.
///
/// The displayed text contains the cause; [`source`](std::error::Error::source) returns `None`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server is not configured correctly; one sentence per problem.
    #[error("the server cannot start: {}", .problems.join("; "))]
    Setup {
        /// The configuration problems.
        problems: Vec<String>,
    },
    /// Binding the address failed.
    #[error("cannot listen on {address}: {error}")]
    Bind {
        /// The address to bind.
        address: std::net::SocketAddr,
        /// The error of the operating system.
        error: io::Error,
    },
    /// Reading from or writing to the client failed.
    #[error("reading from or writing to the client failed: {0}")]
    Link(io::Error),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Link(error)
    }
}

/// The error of a handler.
///
/// For a tool, the language model reads the text of an error created by [`new`](Self::new) or converted by `?`. The
/// other constructors create a JSON-RPC error response for the client.
///
/// The `?` operator converts every [`std::error::Error`] into a `ToolError`, whose text includes the sources of that
/// error. A function may also return another error type, such as `anyhow::Error` or `String`: see
/// [`IntoOutcome`](crate::IntoOutcome).
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
/// `ToolError` does not implement [`std::error::Error`], because that would conflict with this conversion.
pub struct ToolError(ToolErrorKind);

#[derive(Clone)]
enum ToolErrorKind {
    /// Sent to the model as a tool result with `isError`.
    Failed(String),
    /// Sent to the client as an error response.
    Refused(Box<ErrorObject>),
    /// A request to the client failed or is not answered yet.
    Input(AskError),
}

/// A failed call, by the response that the client receives.
pub(crate) enum HandlerFailure {
    /// For a tool a result with `isError`, otherwise an internal error with this text.
    Failed(String),
    Refused(ErrorObject),
    /// The client receives the questions that it has to answer.
    Unanswered,
    /// The client did not declare these capabilities.
    Undeclared(Box<ClientCapabilities>),
}

impl ToolError {
    /// Creates an error with this text. For a tool, the model receives it as a result with `isError` and can act on it.
    /// For a prompt or a resource, the client receives it as an error response (-32603).
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(ToolErrorKind::Failed(text.into()))
    }

    /// Creates an error of the request itself: the client receives this error response instead of a result for the
    /// model.
    #[must_use]
    pub fn refused(error: ErrorObject) -> Self {
        Self(ToolErrorKind::Refused(Box::new(error)))
    }

    /// Creates the "resource not found" error response for this URI.
    #[must_use]
    pub fn resource_not_found(uri: &str) -> Self {
        Self::refused(ErrorObject::resource_not_found(uri))
    }

    /// Creates an "invalid params" error response (-32602).
    #[must_use]
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::refused(ErrorObject::new(ErrorCode::InvalidParams, message.into()))
    }

    /// Returns true if the handler asked a modern client a question that is not answered yet. The call did not fail:
    /// the client sends it again with the answer, and the handler and its hooks run again. A hook must return this
    /// error unchanged.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        matches!(self.0, ToolErrorKind::Input(AskError::Unanswered))
    }

    /// Restores the [`AskError`] of a run if the error type of the handler, such as `anyhow::Error`, reduced it to
    /// text: `failed`, the last failed request to the client, replaces a text that is equal to its own. If the run has
    /// an unanswered question, any other error becomes [`AskError::Unanswered`].
    pub(crate) fn restore(self, is_unanswered: bool, failed: Option<AskError>) -> Self {
        match (&self.0, failed) {
            (ToolErrorKind::Input(_), _) => self,
            (ToolErrorKind::Failed(text), Some(failed)) if failed.to_string() == *text => failed.into(),
            _ if is_unanswered => AskError::Unanswered.into(),
            _ => self,
        }
    }

    pub(crate) fn into_failure(self) -> HandlerFailure {
        match self.0 {
            ToolErrorKind::Failed(text) => HandlerFailure::Failed(text),
            ToolErrorKind::Refused(error) => HandlerFailure::Refused(*error),
            ToolErrorKind::Input(AskError::Unanswered) => HandlerFailure::Unanswered,
            ToolErrorKind::Input(AskError::Undeclared(needed)) => HandlerFailure::Undeclared(needed),
            ToolErrorKind::Input(AskError::Malformed(problem)) => {
                HandlerFailure::Refused(ErrorObject::new(ErrorCode::InvalidParams, problem))
            }
            ToolErrorKind::Input(other) => HandlerFailure::Failed(other.to_string()),
        }
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self::of(&error)
    }
}

/// Any error of a handler, as a boxed trait object.
pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// For handlers whose error type is `Box<dyn Error + Send + Sync>`.
impl From<ToolError> for BoxError {
    fn from(error: ToolError) -> Self {
        Box::new(BoxedToolError(error))
    }
}

/// A [`ToolError`] inside a trait object.
#[derive(Debug)]
struct BoxedToolError(ToolError);

impl fmt::Display for BoxedToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.0 {
            ToolErrorKind::Failed(text) => f.write_str(text),
            ToolErrorKind::Refused(error) => error.fmt(f),
            ToolErrorKind::Input(ask) => ask.fmt(f),
        }
    }
}

impl StdError for BoxedToolError {}

impl ToolError {
    /// Converts the error of a handler.
    pub(crate) fn from_boxed(error: impl Into<BoxError>) -> Self {
        match error.into().downcast::<BoxedToolError>() {
            Ok(error) => error.0,
            Err(error) => Self::of(&*error),
        }
    }

    /// Converts the error of a handler: an [`AskError`] keeps its type, also inside a [`StepError`], and any other
    /// error becomes text.
    fn of(error: &(dyn StdError + 'static)) -> Self {
        if let Some(step) = error.downcast_ref::<StepError>() {
            return Self::of(&*step.0);
        }
        if let Some(BoxedToolError(error)) = error.downcast_ref() {
            return Self(error.0.clone());
        }
        if let Some(ask) = ask_error(error) {
            return Self(ToolErrorKind::Input(ask));
        }
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            // Many errors already print their source.
            if !text.ends_with(&cause_text) {
                text = format!("{text}: {cause_text}");
            }
            source = cause.source();
        }
        Self(ToolErrorKind::Failed(text))
    }
}

/// Returns the first `AskError` among an error and its sources.
fn ask_error(error: &(dyn StdError + 'static)) -> Option<AskError> {
    let mut source = Some(error);
    while let Some(cause) = source {
        if let Some(ask) = cause.downcast_ref::<AskError>() {
            return Some(ask.clone());
        }
        source = match cause.downcast_ref::<StepError>() {
            Some(StepError(error)) => Some(&**error),
            None => cause.source(),
        };
    }
    None
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ToolErrorKind::Failed(text) => f.debug_tuple("ToolError").field(text).finish(),
            ToolErrorKind::Refused(error) => f.debug_tuple("ToolError").field(error).finish(),
            ToolErrorKind::Input(ask) => f.debug_tuple("ToolError").field(ask).finish(),
        }
    }
}

/// The error of [`Context::step`](crate::Context::step): the error of its function, or of the conversion of its result
/// to or from JSON. Return it with `?`; a function that returns [`ToolError`] or `anyhow::Error` can do that.
///
/// Text and sources are those of the error of the function.
pub struct StepError(BoxError);

impl StepError {
    pub(crate) fn new(error: impl Into<BoxError>) -> Self {
        Self(error.into())
    }
}

impl fmt::Debug for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StepError").field(&self.0).finish()
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for StepError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}

/// The error of a request to the client (elicitation, sampling, roots). Return it with `?`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The client has not answered yet (modern clients only). Return this error; the function runs again when the
    /// client sends the answer.
    #[error("no answer from the client yet; return this error, and the function runs again with the answer")]
    Unanswered,
    /// The client did not declare the capabilities that this request needs.
    #[error("the client did not declare the capability `{}`", name_of(.0))]
    Undeclared(Box<ClientCapabilities>),
    /// The client returned an error response.
    #[error("the client returned an error: {}", SafeText::message(&.0.message))]
    Refused(Box<ErrorObject>),
    /// The client did not answer within [`McpServer::ask_timeout`](crate::McpServer::ask_timeout).
    #[error("timed out waiting for the client to answer; raise McpServer::ask_timeout")]
    TimedOut,
    /// The connection was closed before the client answered.
    #[error("the connection was closed before the client answered")]
    Lost,
    /// The question cannot be sent, or the answer or the request state that came with it is not valid.
    #[error("{}", SafeText::message(.0))]
    Malformed(String),
    /// The type given to [`Context::ask_form`](crate::Context::ask_form) cannot be shown as a form, for example because
    /// a field is a struct.
    #[error("invalid form: {0}")]
    InvalidForm(String),
    /// The call asked the client in more rounds than allowed. The value is the limit.
    #[error(
        "too many rounds: a call may ask the client in at most {0} rounds; ask several questions in one round"
    )]
    TooManyRounds(u32),
    /// The answers and step results of earlier rounds exceed the size limit of the request state. The values are the
    /// size and the limit in bytes.
    #[error(
        "request state too large: the answers and the results of `Context::step` in this call take {0} bytes, \
         limit {1}; store large data elsewhere"
    )]
    StateTooLarge(usize, usize),
    /// The confirmation was already used; it is valid only once.
    #[error("the confirmation was already used and is valid only once; start a new call to ask again")]
    Spent,
    /// The [`ConfirmationStore`](crate::ConfirmationStore) failed, so it is unknown whether the confirmation was
    /// already used. The log has the cause.
    #[error("the confirmation cannot be checked because its store failed; retry later")]
    SpentUnknown,
    /// The crate was built without this cargo feature, which the request needs.
    #[error("this request to the client needs the feature `{0}` of mcp-server; enable it in Cargo.toml")]
    FeatureDisabled(&'static str),
}

/// Returns the name of the capability that a request to the client needs.
fn name_of(needed: &ClientCapabilities) -> &'static str {
    match (&needed.elicitation, &needed.sampling) {
        (Some(elicitation), _) if elicitation.has_url() => "elicitation.url",
        (Some(_), _) => "elicitation",
        (None, Some(sampling)) if sampling.tools.is_some() => "sampling.tools",
        (None, Some(_)) => "sampling",
        (None, None) => "roots",
    }
}
