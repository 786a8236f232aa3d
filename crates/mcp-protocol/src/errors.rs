//! Error codes, error objects and what can be wrong with input.
//!
//! [`ErrorObject`] is what travels; [`ErrorCode`] names its code and keeps unknown ones. Which code a
//! version uses for a thing is the dialect's business: `ResourceNotFound` is -32002 up to 2025-11-25 and
//! -32602 after it.
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
use crate::version::ProtocolVersion;
use crate::visible::Visible;

macro_rules! codes {
    ($($(#[$attr:meta])* $constant:ident $variant:ident = $code:literal,)*) => {
        $($(#[$attr])* pub const $constant: i64 = $code;)*

        /// The code of an error response.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $($(#[$attr])* $variant,)*
            /// A code this crate does not know, kept as it came.
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
    /// The text was not JSON.
    PARSE_ERROR ParseError = -32700,
    /// JSON, but no valid request.
    INVALID_REQUEST InvalidRequest = -32600,
    /// The method is unknown or not offered.
    METHOD_NOT_FOUND MethodNotFound = -32601,
    /// The params do not fit the method.
    INVALID_PARAMS InvalidParams = -32602,
    /// The receiver failed.
    INTERNAL_ERROR InternalError = -32603,
    /// No such resource; up to 2025-11-25.
    RESOURCE_NOT_FOUND ResourceNotFound = -32002,
    /// A person must open a URL first; 2025-11-25 only.
    URL_ELICITATION_REQUIRED UrlElicitationRequired = -32042,
    /// A header is missing or differs from the body; since 2026-07-28, HTTP only.
    HEADER_MISMATCH HeaderMismatch = -32020,
    /// The request did not declare a capability it needs; since 2026-07-28.
    MISSING_CLIENT_CAPABILITY MissingClientCapability = -32021,
    /// The version is not served; since 2026-07-28.
    UNSUPPORTED_VERSION UnsupportedVersion = -32022,
    /// The person refused a sampling request; legacy era.
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
    /// The error of an error response.
    ///
    /// ```
    /// use mcp_protocol::errors::{ErrorCode, ErrorObject};
    ///
    /// let error = ErrorObject::new(ErrorCode::InvalidParams, "unknown tool: ad");
    /// assert_eq!(serde_json::to_string(&error)?, r#"{"code":-32602,"message":"unknown tool: ad"}"#);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub struct ErrorObject {
        required {
            /// What kind of error it is.
            code: ErrorCode = "code",
            /// One short sentence.
            message: String = "message",
        }
        present {
            /// Details, their shape given by the code.
            data: Json = "data",
        }
        lower by crate::dialect::errors::lower;
    }
}

impl ErrorObject {
    /// There is no resource with this URI. Each version gets its own code.
    #[must_use]
    pub fn resource_not_found(uri: &str) -> Self {
        Self::new(ErrorCode::ResourceNotFound, "resource not found")
            .data(as_json(&ResourceNotFoundData::new(uri)))
    }

    /// The version is not served; names those that are.
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

    /// The request needs capabilities that it did not declare.
    #[must_use]
    pub fn missing_client_capability(required: ClientCapabilities) -> Self {
        Self::new(ErrorCode::MissingClientCapability, "the request did not declare a capability it needs")
            .data(as_json(&MissingClientCapabilityData::new(required)))
    }

    /// The typed data of [`ErrorCode::UnsupportedVersion`], if it is whole.
    #[must_use]
    pub fn unsupported_version_data(&self) -> Option<UnsupportedVersionData> {
        self.typed_data(ErrorCode::UnsupportedVersion)
    }

    /// The typed data of [`ErrorCode::MissingClientCapability`], if it is whole.
    #[must_use]
    pub fn missing_client_capability_data(&self) -> Option<MissingClientCapabilityData> {
        self.typed_data(ErrorCode::MissingClientCapability)
    }

    /// The typed data of [`ErrorCode::UrlElicitationRequired`], if it is whole.
    #[must_use]
    pub fn url_elicitation_data(&self) -> Option<UrlElicitationData> {
        self.typed_data(ErrorCode::UrlElicitationRequired)
    }

    /// True if the error means "no such resource", in the words of any version.
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

    fn typed_data<T: Raise>(&self, code: ErrorCode) -> Option<T> {
        if self.code != code {
            return None;
        }
        self.data.as_ref()?.raise().ok()
    }
}

/// The message escaped and cut, because it is the peer's: [`ErrorObject::message`] holds all of it.
impl std::fmt::Display for ErrorObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", Visible::message(&self.message), i64::from(self.code))
    }
}

impl std::error::Error for ErrorObject {}

object! {
    /// `error.data` of -32022.
    pub struct UnsupportedVersionData {
        required {
            /// The versions that are served.
            supported: Vec<ProtocolVersion> = "supported",
            /// The version that was asked for.
            requested: ProtocolVersion = "requested",
        }
    }
}

object! {
    /// `error.data` of -32021.
    pub struct MissingClientCapabilityData {
        required {
            /// What the request should have declared.
            required_capabilities: ClientCapabilities = "requiredCapabilities",
        }
    }
}

object! {
    /// `error.data` of -32042 (2025-11-25).
    pub struct UrlElicitationData {
        required {
            /// What a person has to complete before the request is sent again.
            elicitations: Vec<ElicitUrlParams> = "elicitations",
        }
    }
}

object! {
    /// `error.data` of "resource not found".
    pub struct ResourceNotFoundData {
        required {
            /// The URI that was asked for.
            uri: String = "uri",
        }
    }
}

/// What an error tells, as its `data`.
pub(crate) fn as_json(data: &dyn Lower) -> Json {
    Lowering::CANONICAL.root(data).to_json().unwrap_or_default()
}

/// A body that does not have the shape it should have.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The JSON does not fit the type.
    #[error("the body does not fit: {0}")]
    Shape(#[source] serde_json::Error),
    /// The text is not JSON, or nests too deeply.
    #[error("the body is not JSON: {0}")]
    NotJson(DecodeErrorKind),
    /// A member that decides what the body is holds something else than it should.
    #[error("`{member}` {problem}")]
    Member {
        /// The member.
        member: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A result of a kind that the request cannot have.
    #[error("a result of type `{}` is not a valid response to this request", Visible::name(.0))]
    ResultType(String),
    /// A tool whose arguments cannot travel as headers, which it asks for.
    #[error(transparent)]
    Annotation(#[from] AnnotationError),
}

impl From<serde_json::Error> for BodyError {
    /// Escapes and cuts the text of the error: it may quote the peer, and whoever prints all causes prints it as it is.
    fn from(error: serde_json::Error) -> Self {
        let text = error.to_string();
        let shown = Visible::message(&text).to_string();
        Self::Shape(if shown == text { error } else { serde::de::Error::custom(shown) })
    }
}

impl From<Fault> for BodyError {
    fn from(fault: Fault) -> Self {
        Self::NotJson(fault.into())
    }
}

/// Input that is no message, with as much as could be read of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct DecodeError {
    /// What is wrong.
    pub kind: DecodeErrorKind,
    /// The id, when it could be read: a broken response still settles its call.
    pub id: Option<Id>,
    /// What it would have been: only then is it known whose id it is.
    pub looks: Looks,
}

/// What a broken message looks like, as far as it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Looks {
    /// It has a `method`: the id is the sender's.
    Request,
    /// It has a `result` or an `error`: the id is ours.
    Response,
    /// Neither was read.
    #[default]
    Unknown,
}

/// What is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// Not UTF-8.
    #[error("not UTF-8 at byte {at}")]
    NotUtf8 {
        /// The first bad byte.
        at: usize,
    },
    /// Not JSON.
    #[error("not JSON at byte {at}")]
    NotJson {
        /// The first byte that cannot stand there.
        at: usize,
    },
    /// JSON that nests more than [`MAX_DEPTH`](crate::limits::MAX_DEPTH) levels.
    #[error("nested too deeply at byte {at}")]
    TooDeep {
        /// The brace or bracket too many.
        at: usize,
    },
    /// More bytes than [`Limits::message`](crate::Limits::message).
    #[error("longer than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// JSON, but neither an object nor an array.
    #[error("a message is an object")]
    NotAnObject,
    /// The member is missing or not `"2.0"`.
    #[error("`jsonrpc` must be \"2.0\"")]
    Version,
    /// The id is null, a fraction, beyond 64 bits, too long, or of another type.
    #[error("`id` must be a string or a 64-bit integer")]
    Id,
    /// The method is no string.
    #[error("`method` must be a string")]
    Method,
    /// Params are no object.
    #[error("`params` must be an object")]
    Params,
    /// The result is no object.
    #[error("`result` must be an object")]
    Result,
    /// The error has no integer code or no message.
    #[error("`error` must have a `code` and a `message`")]
    Error,
    /// A known member stands there twice.
    #[error("`{0}` stands there twice")]
    Duplicate(&'static str),
    /// Neither a request nor a response, or both.
    #[error("a message has a `method`, a `result` or an `error`, and only one of them")]
    Ambiguous,
    /// A batch with no message, or more than [`Limits::batch`](crate::Limits::batch).
    #[error("a batch holds 1 to {limit} messages")]
    Batch {
        /// The limit.
        limit: usize,
    },
}

impl DecodeError {
    /// The error response that this input deserves.
    #[must_use]
    pub fn to_error_object(&self) -> ErrorObject {
        ErrorObject::new(self.kind.code(), self.kind.to_string())
    }
}

impl DecodeErrorKind {
    /// The code to answer with.
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
