//! Error codes, error objects and decoding errors.
//!
//! [`ErrorObject`] is the `error` member of a response; [`ErrorCode`] is its code and preserves unknown codes. The
//! dialect chooses the code for each protocol version: `ResourceNotFound` is -32002 up to 2025-11-25, and -32602 since
//! 2026-07-28.
//!
//! Spec: MCP 2026-07-28, basic and schema.

use crate::capabilities::ClientCapabilities;
use crate::codec::param_header::AnnotationError;
use crate::dialect::{Lower, Lowering, Raise, Written, raise, serde_by_dialect};
use crate::elicitation::ElicitUrlParams;
use crate::json::Json;
use crate::json::scan::{Fault, FaultKind};
use crate::macros::object;
use crate::messages::Id;
use crate::safe_text::SafeText;
use crate::version::ProtocolVersion;

macro_rules! codes {
    ($($(#[$attr:meta])* $constant:ident $variant:ident = $code:literal,)*) => {
        $($(#[$attr])* pub const $constant: i64 = $code;)*

        /// The code of an error response.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $($(#[$attr])* $variant,)*
            /// A code unknown to this crate, preserved as received.
            Other(i64),
        }

        impl From<i64> for ErrorCode {
            fn from(code: i64) -> Self {
                match code {
                    $($code => Self::$variant,)*
                    other => Self::Other(other),
                }
            }
        }

        impl From<ErrorCode> for i64 {
            fn from(code: ErrorCode) -> i64 {
                match code {
                    $(ErrorCode::$variant => $code,)*
                    ErrorCode::Other(other) => other,
                }
            }
        }
    };
}

codes! {
    /// The text is not valid JSON.
    PARSE_ERROR ParseError = -32700,
    /// The JSON is not a valid request.
    INVALID_REQUEST InvalidRequest = -32600,
    /// The method is unknown or not supported.
    METHOD_NOT_FOUND MethodNotFound = -32601,
    /// The params are invalid for the method.
    INVALID_PARAMS InvalidParams = -32602,
    /// Internal error of the receiver.
    INTERNAL_ERROR InternalError = -32603,
    /// The resource does not exist; up to 2025-11-25.
    RESOURCE_NOT_FOUND ResourceNotFound = -32002,
    /// The user must open a URL first; 2025-11-25 only.
    URL_ELICITATION_REQUIRED UrlElicitationRequired = -32042,
    /// A header is missing or differs from the body; since 2026-07-28, HTTP only.
    HEADER_MISMATCH HeaderMismatch = -32020,
    /// The request did not declare a required client capability; since 2026-07-28.
    MISSING_CLIENT_CAPABILITY MissingClientCapability = -32021,
    /// The protocol version is not supported; since 2026-07-28.
    UNSUPPORTED_VERSION UnsupportedVersion = -32022,
    /// The user rejected a sampling request; legacy era.
    USER_REJECTED UserRejected = -1,
}

serde_by_dialect!(ErrorCode);

impl Lower for ErrorCode {
    fn lower(&self, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        i64::from(*self).lower(cx, out)
    }
}

raise! { ErrorCode, Self::Other(0), |from| from.integer::<i64>().map(Self::from); }

object! {
    /// The `error` member of a JSON-RPC error response.
    ///
    /// ```
    /// use mcp_protocol::errors::{ErrorCode, ErrorObject};
    ///
    /// let error = ErrorObject::new(ErrorCode::InvalidParams, "unknown tool: ad");
    /// assert_eq!(serde_json::to_string(&error)?, r#"{"code":-32602,"message":"unknown tool: ad"}"#);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[doc(alias = "JSON-RPC error")]
    pub struct ErrorObject {
        required {
            /// Error code.
            code: ErrorCode = "code",
            /// Short description of the error.
            message: String = "message",
        }
        present {
            /// Details, in the format that the code defines.
            data: Json = "data",
        }
        lower by crate::dialect::errors::lower;
    }
}

impl ErrorObject {
    /// Creates a "resource not found" error for `uri`. The dialect chooses the code when the error is serialized.
    #[must_use]
    pub fn resource_not_found(uri: &str) -> Self {
        Self::new(ErrorCode::ResourceNotFound, "resource not found")
            .data(as_json(&ResourceNotFoundData::new(uri)))
    }

    /// Creates an "unsupported protocol version" error that lists the supported versions.
    #[must_use]
    pub fn unsupported_version(requested: &ProtocolVersion, supported: &[ProtocolVersion]) -> Self {
        let data = UnsupportedVersionData::new(supported, requested.clone());
        let names: Vec<&str> = supported.iter().map(ProtocolVersion::as_str).collect();
        Self::new(
            ErrorCode::UnsupportedVersion,
            format!(
                "protocol version `{}` is not supported; use one of {}",
                requested.as_str(),
                names.join(", ")
            ),
        )
        .data(as_json(&data))
    }

    /// Creates an error for a request that did not declare the `required` capabilities.
    #[must_use]
    pub fn missing_client_capability(required: ClientCapabilities) -> Self {
        Self::new(
            ErrorCode::MissingClientCapability,
            "the request did not declare a required client capability",
        )
        .data(as_json(&MissingClientCapabilityData::new(required)))
    }

    /// Returns the typed data of [`ErrorCode::UnsupportedVersion`], if it is well-formed.
    #[must_use]
    pub fn unsupported_version_data(&self) -> Option<UnsupportedVersionData> {
        self.typed_data(ErrorCode::UnsupportedVersion)
    }

    /// Returns the typed data of [`ErrorCode::MissingClientCapability`], if it is well-formed.
    #[must_use]
    pub fn missing_client_capability_data(&self) -> Option<MissingClientCapabilityData> {
        self.typed_data(ErrorCode::MissingClientCapability)
    }

    /// Returns the typed data of [`ErrorCode::UrlElicitationRequired`], if it is well-formed.
    #[must_use]
    pub fn url_elicitation_data(&self) -> Option<UrlElicitationData> {
        self.typed_data(ErrorCode::UrlElicitationRequired)
    }

    /// Returns true if the error means "resource not found" in any protocol version.
    #[must_use]
    pub fn is_resource_not_found(&self) -> bool {
        match self.code {
            ErrorCode::ResourceNotFound => true,
            ErrorCode::InvalidParams => {
                self.data.as_ref().is_some_and(|data| data.raise::<ResourceNotFoundData>().is_ok())
            }
            _ => false,
        }
    }

    /// Returns the text that the data adds to the displayed message.
    fn detail(&self) -> Option<String> {
        let data = self.data.as_ref()?;
        if self.is_resource_not_found() {
            return data.raise::<ResourceNotFoundData>().ok().map(|data| data.uri);
        }
        if let Some(data) = self.unsupported_version_data() {
            let names: Vec<&str> = data.supported.iter().map(ProtocolVersion::as_str).collect();
            return Some(format!("use one of {}", names.join(", ")));
        }
        if let Some(data) = self.missing_client_capability_data() {
            return Some(as_json(&data.required_capabilities).get().to_owned());
        }
        data.to().ok().filter(|text: &String| !text.is_empty())
    }

    fn typed_data<T: Raise>(&self, code: ErrorCode) -> Option<T> {
        if self.code != code {
            return None;
        }
        self.data.as_ref()?.raise().ok()
    }
}

/// Prints the message, a detail from the data, and the code. The detail is the URI of a resource that was not found,
/// the supported versions, the missing capabilities, or the data itself if it is a string. Message and detail are
/// escaped and truncated, because they come from the peer; [`ErrorObject::message`] holds the full message.
///
/// ```
/// use mcp_protocol::errors::ErrorObject;
///
/// let error = ErrorObject::resource_not_found("file:///x");
/// assert_eq!(error.to_string(), "resource not found: file:///x (-32002)");
/// ```
impl std::fmt::Display for ErrorObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", SafeText::message(&self.message))?;
        // Many servers repeat the data in the message.
        if let Some(detail) = self.detail().filter(|detail| !self.message.contains(detail)) {
            write!(f, ": {}", SafeText::message(&detail))?;
        }
        write!(f, " ({})", i64::from(self.code))
    }
}

impl std::error::Error for ErrorObject {}

object! {
    /// `error.data` of -32022.
    pub struct UnsupportedVersionData {
        required {
            /// Supported protocol versions.
            supported: Vec<ProtocolVersion> = "supported",
            /// Requested protocol version.
            requested: ProtocolVersion = "requested",
        }
    }
}

object! {
    /// `error.data` of -32021.
    pub struct MissingClientCapabilityData {
        required {
            /// Client capabilities that the request must declare.
            required_capabilities: ClientCapabilities = "requiredCapabilities",
        }
    }
}

object! {
    /// `error.data` of -32042 (2025-11-25).
    pub struct UrlElicitationData {
        required {
            /// URLs that the user must visit before the request is retried.
            elicitations: Vec<ElicitUrlParams> = "elicitations",
        }
    }
}

object! {
    /// `error.data` of "resource not found".
    pub struct ResourceNotFoundData {
        required {
            /// Requested URI.
            uri: String = "uri",
        }
    }
}

/// Converts typed error details to the `data` member.
pub(crate) fn as_json(data: &dyn Lower) -> Json {
    Lowering::CANONICAL.root(data).to_json().unwrap_or_default()
}

/// An error for a body that does not match the expected type.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The JSON does not match the expected type.
    #[error("invalid body: {0}")]
    Shape(serde_json::Error),
    /// The text is not JSON, or is nested too deeply.
    #[error("the body cannot be parsed: {0}")]
    NotJson(DecodeErrorKind),
    /// A member occurs twice or has an invalid value.
    #[error("`{member}` {problem}")]
    Member {
        /// Name of the member.
        member: &'static str,
        /// Description of the problem.
        problem: &'static str,
    },
    /// The result type is not valid for the request.
    #[error("a result of type `{}` is not valid for this request", SafeText::name(.0))]
    ResultType(String),
    /// The tool has an invalid `x-mcp-header` annotation.
    #[error(transparent)]
    Annotation(#[from] AnnotationError),
}

impl From<serde_json::Error> for BodyError {
    /// Escapes and truncates the error text: it may quote the peer, and error reporters print all sources verbatim.
    fn from(error: serde_json::Error) -> Self {
        let text = error.to_string();
        let shown = SafeText::message(&text).to_string();
        Self::Shape(if shown == text { error } else { serde::de::Error::custom(shown) })
    }
}

impl From<Fault> for BodyError {
    fn from(fault: Fault) -> Self {
        Self::NotJson(fault.into())
    }
}

/// An error for input that is not a valid message, with the id and the type of the message if these could be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct DecodeError {
    /// Kind of error.
    pub kind: DecodeErrorKind,
    /// Id in the message, if it could be read. With it, a malformed response can still complete its request.
    pub id: Option<Id>,
    /// Type of the message, if it could be read. It determines which side assigned the id.
    pub shape: MessageShape,
}

/// Apparent type of a malformed message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MessageShape {
    /// The message has a `method`: the sender assigned the id.
    Request,
    /// The message has a `result` or an `error`: this side assigned the id.
    Response,
    /// None of these members was read.
    #[default]
    Unknown,
}

/// Reasons why a message cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// Not UTF-8.
    #[error("invalid UTF-8 at byte {at}")]
    NotUtf8 {
        /// Offset of the first invalid byte.
        at: usize,
    },
    /// Not JSON.
    #[error("invalid JSON at byte {at}")]
    NotJson {
        /// Offset of the first unexpected byte.
        at: usize,
    },
    /// JSON that nests more than [`MAX_DEPTH`](crate::limits::MAX_DEPTH) levels.
    #[error("JSON nested too deeply at byte {at}")]
    TooDeep {
        /// Offset of the brace or bracket that exceeds the limit.
        at: usize,
    },
    /// The message is longer than [`Limits::message`](crate::Limits::message).
    #[error("message longer than {limit} bytes")]
    TooLong {
        /// Maximum number of bytes.
        limit: usize,
    },
    /// The JSON is neither an object nor an array, or is a batch inside a batch.
    #[error("a JSON-RPC message must be an object")]
    NotAnObject,
    /// `jsonrpc` is missing or not `"2.0"`.
    #[error("`jsonrpc` must be \"2.0\"")]
    Version,
    /// `id` is null, a fraction, beyond 64 bits, too long, of another type, or missing in a response with a result.
    #[error("`id` must be a string or a 64-bit integer")]
    Id,
    /// `method` is not a string.
    #[error("`method` must be a string")]
    Method,
    /// `params` is not an object.
    #[error("`params` must be an object")]
    Params,
    /// `result` is not an object.
    #[error("`result` must be an object")]
    Result,
    /// `error` lacks an integer `code` or a `message`.
    #[error("`error` must have an integer `code` and a string `message`")]
    Error,
    /// A known member occurs twice.
    #[error("duplicate member `{0}`")]
    Duplicate(&'static str),
    /// The message is neither a request nor a response, or is both.
    #[error("a JSON-RPC message must have exactly one of `method`, `result` and `error`")]
    Ambiguous,
    /// The batch is empty or has more messages than [`Limits::batch`](crate::Limits::batch).
    #[error("a batch must have 1 to {limit} messages")]
    Batch {
        /// Maximum number of messages.
        limit: usize,
    },
}

impl DecodeError {
    /// Returns the error object to send as the response to this input.
    #[must_use]
    pub fn to_error_object(&self) -> ErrorObject {
        ErrorObject::new(self.kind.code(), self.kind.to_string())
    }
}

impl DecodeErrorKind {
    /// Returns the JSON-RPC error code for this kind.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotUtf8 { .. } | Self::NotJson { .. } | Self::TooDeep { .. } => ErrorCode::ParseError,
            _ => ErrorCode::InvalidRequest,
        }
    }
}

impl From<Fault> for DecodeErrorKind {
    fn from(fault: Fault) -> Self {
        match fault.kind {
            FaultKind::Syntax => Self::NotJson { at: fault.at },
            FaultKind::TooDeep => Self::TooDeep { at: fault.at },
        }
    }
}
