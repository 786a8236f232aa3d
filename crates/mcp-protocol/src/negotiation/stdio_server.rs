//! Server-side classification of stdio messages by era.
//!
//! Spec: MCP 2026-07-28, basic/versioning and basic/transports/stdio.

use std::sync::Arc;

use crate::dialect::{Dialect, Direction};
use crate::errors::{BodyError, DecodeError, ErrorCode, ErrorObject, MessageShape, as_json};
use crate::json::Json;
use crate::limits::{MAX_CACHED_ENVELOPE_BYTES, MAX_PARSE_ERROR_RESPONSES};
use crate::logging::LogLevel;
use crate::map::Map;
use crate::messages::{Batch, Body, InitializeParams, Message, Method, Notification, Request};
use crate::meta::{self, Meta};
use crate::version::{Era, ProtocolVersion, negotiate};

/// Classifies each message on stdio by era.
///
/// The connection is not bound to an era: modern and legacy requests may alternate. Before `initialize`, legacy
/// requests other than `ping` are rejected.
///
/// ```
/// use mcp_protocol::messages::{Incoming, parse};
/// use mcp_protocol::negotiation::{StdioClassification, StdioServerNegotiation};
/// use mcp_protocol::version::SUPPORTED;
///
/// let mut server = StdioServerNegotiation::new(SUPPORTED);
/// let Incoming::Message(message) = parse(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, &Default::default())?
///     else { panic!() };
/// // Without a version in `_meta` and without a handshake, the request is rejected.
/// assert!(matches!(server.classify(&message), StdioClassification::Reject(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct StdioServerNegotiation {
    versions: Vec<ProtocolVersion>,
    /// At least one supported version is modern.
    is_modern: bool,
    /// Version negotiated by `initialize`.
    negotiated: Option<Dialect>,
    /// Last valid envelope. Most clients send an identical one with every request.
    remembered: Option<(Box<str>, Dialect, Arc<Meta>)>,
    unreadable: u32,
}

/// Classification of a message.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StdioClassification {
    /// A modern request with a valid envelope.
    Modern(Dialect, Arc<Meta>),
    /// A legacy request, notification or response.
    Legacy(Dialect),
    /// `initialize`: respond with this version, which applies from now on.
    Initialize(Dialect, Box<InitializeParams>),
    /// `ping` before the handshake: respond with an empty result.
    Ping,
    /// A cancellation, which may refer to a request of either era.
    #[doc(alias = "cancellation")]
    Cancelled,
    /// Respond with this error and the request's id.
    Reject(ErrorObject),
    /// Respond with this error, without an id.
    RejectWithoutId(ErrorObject),
    /// Ignore the message.
    Ignore,
    /// Too many unreadable lines: close the connection.
    Close,
}

impl StdioServerNegotiation {
    /// Creates a classifier for a server that supports these versions.
    #[must_use]
    pub fn new(versions: &[ProtocolVersion]) -> Self {
        Self {
            versions: versions.to_vec(),
            is_modern: has_era(versions, Era::Modern),
            negotiated: None,
            remembered: None,
            unreadable: 0,
        }
    }

    /// Returns the version negotiated by `initialize`, if any.
    #[must_use]
    pub fn negotiated(&self) -> Option<Dialect> {
        self.negotiated
    }

    /// Classifies a message.
    pub fn classify(&mut self, message: &Message<'_>) -> StdioClassification {
        match message {
            Message::Request(request) => self.request(request),
            Message::Notification(notification) => self.notification(notification),
            Message::Response(_) => self.legacy_or_ignore(),
        }
    }

    /// Classifies a batch; only 2025-03-26 supports them.
    pub fn classify_batch(&self, _: &Batch<'_>) -> StdioClassification {
        match self.negotiated {
            Some(dialect) if dialect.version().has_batches() => StdioClassification::Legacy(dialect),
            _ => StdioClassification::RejectWithoutId(batches_unsupported()),
        }
    }

    /// Classifies a line that is not a message.
    pub fn classify_unreadable(&mut self, error: &DecodeError) -> StdioClassification {
        // Only lines that are not JSON count toward the limit.
        if error.kind.code() == ErrorCode::ParseError {
            self.unreadable += 1;
            if self.unreadable > MAX_PARSE_ERROR_RESPONSES {
                return StdioClassification::Close;
            }
        }
        if error.shape != MessageShape::Response && error.id.is_some() {
            StdioClassification::Reject(error.to_error_object())
        } else {
            StdioClassification::RejectWithoutId(error.to_error_object())
        }
    }

    fn request(&mut self, request: &Request<'_>) -> StdioClassification {
        if !self.is_modern {
            return self.legacy_request(request);
        }
        match self.modern(request) {
            Ok(Some((dialect, meta))) => match check_method(dialect, request) {
                Ok(()) => return StdioClassification::Modern(dialect, meta),
                Err(error) => return StdioClassification::Reject(error),
            },
            Ok(None) => {}
            Err(error) => return StdioClassification::Reject(error),
        }
        self.legacy_request(request)
    }

    fn legacy_request(&mut self, request: &Request<'_>) -> StdioClassification {
        match (&request.method, self.negotiated) {
            (Method::Initialize, Some(_)) => StdioClassification::Reject(ErrorObject::new(
                ErrorCode::InvalidRequest,
                "already initialized",
            )),
            (Method::Initialize, None) => match initialize(&self.versions, request) {
                Ok((dialect, params)) => {
                    self.negotiated = Some(dialect);
                    StdioClassification::Initialize(dialect, params)
                }
                Err(error) => StdioClassification::Reject(error),
            },
            (_, Some(dialect)) => match check_method(dialect, request) {
                Ok(()) => StdioClassification::Legacy(dialect),
                Err(error) => StdioClassification::Reject(error),
            },
            (Method::Discover, None) if !self.is_modern => StdioClassification::Reject(ErrorObject::new(
                ErrorCode::MethodNotFound,
                "this server supports legacy protocol versions only; send `initialize`",
            )),
            (Method::Ping, None) if has_era(&self.versions, Era::Legacy) => StdioClassification::Ping,
            _ => StdioClassification::Reject(missing_version()),
        }
    }

    /// Calls [`modern`], unless the envelope equals the cached one.
    fn modern(&mut self, request: &Request<'_>) -> Result<Option<(Dialect, Arc<Meta>)>, ErrorObject> {
        let text = match request.params.member("_meta") {
            // A typical legacy request without `_meta`.
            Ok(None) => return Ok(None),
            Ok(text) => text,
            Err(_) => None,
        };
        if let (Some(text), Some((known, dialect, meta))) = (text, &self.remembered)
            && **known == *text
        {
            return Ok(Some((*dialect, Arc::clone(meta))));
        }
        let Some((dialect, meta)) = modern(&self.versions, request)? else { return Ok(None) };
        let meta = Arc::new(meta);
        self.remembered = text
            .filter(|text| text.len() <= MAX_CACHED_ENVELOPE_BYTES)
            .map(|text| (text.into(), dialect, Arc::clone(&meta)));
        Ok(Some((dialect, meta)))
    }

    fn notification(&self, notification: &Notification<'_>) -> StdioClassification {
        match notification.method {
            Method::Cancelled => StdioClassification::Cancelled,
            _ => self.legacy_or_ignore(),
        }
    }

    fn legacy_or_ignore(&self) -> StdioClassification {
        self.negotiated.map_or(StdioClassification::Ignore, StdioClassification::Legacy)
    }
}

/// Returns the modern dialect and envelope of a request, or `None` if it does not state a version.
pub(super) fn modern(
    versions: &[ProtocolVersion],
    request: &Request<'_>,
) -> Result<Option<(Dialect, Meta)>, ErrorObject> {
    let invalid = |error: BodyError| ErrorObject::new(ErrorCode::InvalidParams, error.to_string());
    // Read before the rest of `_meta`: a legacy request may have a large one, and an unsupported version is reported even
    // if the rest of the envelope is malformed.
    let Some(stated) = stated_version(&request.params).map_err(invalid)? else { return Ok(None) };
    let dialect =
        stated.dialect().filter(|dialect| dialect.era() == Era::Modern && versions.contains(&stated));
    let Some(dialect) = dialect else {
        return Err(ErrorObject::unsupported_version(&stated, versions));
    };
    let meta = request.params.meta().map_err(invalid)?.unwrap_or_default();
    if let Some(LogLevel::Other(level)) = &meta.log_level {
        return Err(ErrorObject::new(ErrorCode::InvalidParams, format!("`{level}` is not a log level")));
    }
    match meta.missing_from_envelope()[..] {
        [] => Ok(Some((dialect, meta))),
        ref missing => {
            Err(ErrorObject::new(ErrorCode::InvalidParams, format!("missing {}", missing.join(", ")))
                .data(missing_data(missing)))
        }
    }
}

/// Returns the version that a request or notification states. It is read before the rest of the envelope, which may be
/// malformed.
pub(super) fn stated_version(params: &Body<'_>) -> Result<Option<ProtocolVersion>, BodyError> {
    let Some(meta) = params.member("_meta")? else { return Ok(None) };
    let mut versions_stated =
        crate::json::scan::members(meta).filter(|(key, _)| key == meta::PROTOCOL_VERSION);
    match (versions_stated.next(), versions_stated.next()) {
        (None, _) => Ok(None),
        (Some((_, version)), None) => Ok(Some(serde_json::from_str(version)?)),
        (Some(_), Some(_)) => {
            Err(BodyError::Member { member: meta::PROTOCOL_VERSION, problem: "occurs twice" })
        }
    }
}

/// Checks that the dialect has the method. Methods unknown to this crate are accepted, because the server may define
/// them.
pub(super) fn check_method(dialect: Dialect, request: &Request<'_>) -> Result<(), ErrorObject> {
    let is_known = !matches!(request.method, Method::Other(_));
    let is_request = !request.method.is_notification();
    if is_request && (!is_known || dialect.has(&request.method, Direction::ToServer)) {
        Ok(())
    } else {
        Err(ErrorObject::new(
            ErrorCode::MethodNotFound,
            format!(
                "method `{}` does not exist in protocol version {}",
                request.method.as_str(),
                dialect.version()
            ),
        ))
    }
}

/// Returns the version with which to respond to `initialize`, and the params of the request.
pub(super) fn initialize(
    versions: &[ProtocolVersion],
    request: &Request<'_>,
) -> Result<(Dialect, Box<InitializeParams>), ErrorObject> {
    let params = Dialect::V2025_11_25.raise::<InitializeParams>(&request.params);
    let params = match params {
        Ok(params) => params,
        Err(error) => return Err(ErrorObject::new(ErrorCode::InvalidParams, error.to_string())),
    };
    match negotiate(&params.protocol_version, versions).and_then(ProtocolVersion::dialect) {
        Some(dialect) => Ok((dialect, Box::new(params))),
        None => Err(ErrorObject::unsupported_version(&params.protocol_version, versions)),
    }
}

pub(super) fn has_era(versions: &[ProtocolVersion], era: Era) -> bool {
    versions.iter().any(|version| version.era() == Some(era))
}

pub(super) fn missing_version() -> ErrorObject {
    ErrorObject::new(
        ErrorCode::InvalidParams,
        format!("missing {}; legacy clients must send `initialize` first", meta::PROTOCOL_VERSION),
    )
    .data(missing_data(&[meta::PROTOCOL_VERSION]))
}

/// Returns `error.data` with the missing keys of the envelope.
pub(super) fn missing_data(keys: &[&'static str]) -> Json {
    as_json(&Map::from([("missing".to_owned(), keys.to_vec())]))
}

pub(super) fn batches_unsupported() -> ErrorObject {
    ErrorObject::new(
        ErrorCode::InvalidRequest,
        "JSON-RPC batches are supported in protocol version 2025-03-26 only",
    )
}

#[cfg(test)]
mod tests;
