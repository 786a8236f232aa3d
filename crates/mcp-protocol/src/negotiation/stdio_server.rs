//! A server tells the era of a message on stdio.
//!
//! Spec: MCP 2026-07-28, basic/versioning and basic/transports/stdio.

use std::sync::Arc;

use crate::dialect::{Dialect, Direction};
use crate::errors::{BodyError, DecodeError, ErrorCode, ErrorObject, Looks, as_json};
use crate::json::Json;
use crate::limits::{REMEMBERED_ENVELOPE, UNREADABLE_ANSWERED};
use crate::logging::LogLevel;
use crate::map::Map;
use crate::messages::{Batch, Body, InitializeParams, Message, Method, Notification, Request};
use crate::meta::{self, Meta};
use crate::version::{Era, ProtocolVersion, negotiate};

/// Tells the era of each message that a server gets on stdio.
///
/// Nothing locks the connection: modern and legacy requests may come side by side. Legacy ones need a
/// completed `initialize` first.
///
/// ```
/// use mcp_protocol::messages::{Incoming, parse};
/// use mcp_protocol::negotiation::{ServerVerdict, StdioServer};
/// use mcp_protocol::version::SUPPORTED;
///
/// let mut server = StdioServer::new(SUPPORTED);
/// let Incoming::Message(message) = parse(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, &Default::default())?
///     else { panic!() };
/// // No claim, no handshake: the client is told what is missing.
/// assert!(matches!(server.classify(&message), ServerVerdict::Refuse(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct StdioServer {
    versions: Vec<ProtocolVersion>,
    /// One of them is modern.
    is_modern: bool,
    /// Negotiated by `initialize`.
    negotiated: Option<Dialect>,
    /// The last envelope that was whole. Most clients send the same one with every request.
    remembered: Option<(Box<str>, Dialect, Arc<Meta>)>,
    unreadable: u32,
}

/// What a server makes of a message.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ServerVerdict {
    /// A modern request. Its envelope is whole.
    Modern(Dialect, Arc<Meta>),
    /// A legacy request, notification or response.
    Legacy(Dialect),
    /// `initialize`: answer with this version; it holds from now on.
    Initialize(Dialect, Box<InitializeParams>),
    /// `ping` before the handshake: answer with an empty result.
    Ping,
    /// A cancellation: it may mean a request of either era.
    Cancelled,
    /// Answer with this error, under the request's id.
    Refuse(ErrorObject),
    /// Answer with this error, without an id.
    RefuseUnnamed(ErrorObject),
    /// Nothing to do.
    Ignore,
    /// Too much garbage: close the connection.
    Close,
}

impl StdioServer {
    /// A server that speaks these versions.
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

    /// The version that `initialize` settled, if there was one.
    #[must_use]
    pub fn negotiated(&self) -> Option<Dialect> {
        self.negotiated
    }

    /// Tells what a message is.
    pub fn classify(&mut self, message: &Message<'_>) -> ServerVerdict {
        match message {
            Message::Request(request) => self.request(request),
            Message::Notification(notification) => self.notification(notification),
            Message::Response(_) => self.legacy_or_ignore(),
        }
    }

    /// Tells what to do with an array: only 2025-03-26 has them.
    pub fn classify_batch(&self, _: &Batch<'_>) -> ServerVerdict {
        match self.negotiated {
            Some(dialect) if dialect.version().has_batches() => ServerVerdict::Legacy(dialect),
            _ => ServerVerdict::RefuseUnnamed(no_batches()),
        }
    }

    /// Tells what to do with a line that is no message.
    pub fn classify_unreadable(&mut self, error: &DecodeError) -> ServerVerdict {
        // A line that is JSON at least comes from someone who tries.
        if error.kind.code() == ErrorCode::ParseError {
            self.unreadable += 1;
            if self.unreadable > UNREADABLE_ANSWERED {
                return ServerVerdict::Close;
            }
        }
        if error.looks != Looks::Response && error.id.is_some() {
            ServerVerdict::Refuse(error.to_error_object())
        } else {
            ServerVerdict::RefuseUnnamed(error.to_error_object())
        }
    }

    fn request(&mut self, request: &Request<'_>) -> ServerVerdict {
        if !self.is_modern {
            return self.legacy_request(request);
        }
        match self.modern(request) {
            Ok(Some((dialect, meta))) => match check_method(dialect, request) {
                Ok(()) => return ServerVerdict::Modern(dialect, meta),
                Err(error) => return ServerVerdict::Refuse(error),
            },
            Ok(None) => {}
            Err(error) => return ServerVerdict::Refuse(error),
        }
        self.legacy_request(request)
    }

    fn legacy_request(&mut self, request: &Request<'_>) -> ServerVerdict {
        match (&request.method, self.negotiated) {
            (Method::Initialize, Some(_)) => {
                ServerVerdict::Refuse(ErrorObject::new(ErrorCode::InvalidRequest, "already initialized"))
            }
            (Method::Initialize, None) => match initialize(&self.versions, request) {
                Ok((dialect, params)) => {
                    self.negotiated = Some(dialect);
                    ServerVerdict::Initialize(dialect, params)
                }
                Err(error) => ServerVerdict::Refuse(error),
            },
            (_, Some(dialect)) => match check_method(dialect, request) {
                Ok(()) => ServerVerdict::Legacy(dialect),
                Err(error) => ServerVerdict::Refuse(error),
            },
            (Method::Discover, None) if !self.is_modern => ServerVerdict::Refuse(ErrorObject::new(
                ErrorCode::MethodNotFound,
                "this server supports legacy protocol versions only; send `initialize`",
            )),
            (Method::Ping, None) if has_era(&self.versions, Era::Legacy) => ServerVerdict::Ping,
            _ => ServerVerdict::Refuse(missing_claim()),
        }
    }

    /// [`modern`], unless the envelope is the one that was read last.
    fn modern(&mut self, request: &Request<'_>) -> Result<Option<(Dialect, Arc<Meta>)>, ErrorObject> {
        let text = match request.params.member("_meta") {
            // The usual legacy request: no `_meta`, no claim.
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
            .filter(|text| text.len() <= REMEMBERED_ENVELOPE)
            .map(|text| (text.into(), dialect, Arc::clone(&meta)));
        Ok(Some((dialect, meta)))
    }

    fn notification(&self, notification: &Notification<'_>) -> ServerVerdict {
        match notification.method {
            Method::Cancelled => ServerVerdict::Cancelled,
            _ => self.legacy_or_ignore(),
        }
    }

    fn legacy_or_ignore(&self) -> ServerVerdict {
        self.negotiated.map_or(ServerVerdict::Ignore, ServerVerdict::Legacy)
    }
}

/// The modern dialect and envelope of a request, or `None` if it does not state a version.
pub(super) fn modern(
    versions: &[ProtocolVersion],
    request: &Request<'_>,
) -> Result<Option<(Dialect, Meta)>, ErrorObject> {
    let invalid = |error: BodyError| ErrorObject::new(ErrorCode::InvalidParams, error.to_string());
    let meta = request.params.meta();
    // The version answers first, also when the rest of the envelope cannot be read.
    let claim = match &meta {
        Ok(Some(Meta { protocol_version: Some(version), .. })) => Some(version.clone()),
        // Absent, or there and broken: only the second is a claim.
        _ => claim(&request.params).map_err(invalid)?,
    };
    let Some(claim) = claim else { return Ok(None) };
    let dialect = claim.dialect().filter(|dialect| dialect.era() == Era::Modern && versions.contains(&claim));
    let Some(dialect) = dialect else {
        return Err(ErrorObject::unsupported_version(&claim, versions));
    };
    let meta = meta.map_err(invalid)?.unwrap_or_default();
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

/// The version that a request or notification claims. It is read before the rest of the envelope, which may be broken.
pub(super) fn claim(params: &Body<'_>) -> Result<Option<ProtocolVersion>, BodyError> {
    let Some(meta) = params.member("_meta")? else { return Ok(None) };
    let mut claims = crate::json::scan::members(meta).filter(|(key, _)| key == meta::PROTOCOL_VERSION);
    match (claims.next(), claims.next()) {
        (None, _) => Ok(None),
        (Some((_, version)), None) => Ok(Some(serde_json::from_str(version)?)),
        (Some(_), Some(_)) => {
            Err(BodyError::Member { member: meta::PROTOCOL_VERSION, problem: "occurs twice" })
        }
    }
}

/// Checks that the dialect has the method. Methods this crate does not know may belong to the server.
pub(super) fn check_method(dialect: Dialect, request: &Request<'_>) -> Result<(), ErrorObject> {
    let is_known = !matches!(request.method, Method::Other(_));
    let is_request = !request.method.is_notification();
    if is_request && (!is_known || dialect.has(&request.method, Direction::ToServer)) {
        Ok(())
    } else {
        Err(ErrorObject::new(
            ErrorCode::MethodNotFound,
            format!("`{}` does not exist in {}", request.method.as_str(), dialect.version()),
        ))
    }
}

/// The version to answer `initialize` with.
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

pub(super) fn missing_claim() -> ErrorObject {
    ErrorObject::new(
        ErrorCode::InvalidParams,
        format!("missing {}; legacy clients must send `initialize` first", meta::PROTOCOL_VERSION),
    )
    .data(missing_data(&[meta::PROTOCOL_VERSION]))
}

/// `error.data` that tells which keys of the envelope are missing.
pub(super) fn missing_data(keys: &[&'static str]) -> Json {
    as_json(&Map::from([("missing".to_owned(), keys.to_vec())]))
}

pub(super) fn no_batches() -> ErrorObject {
    ErrorObject::new(
        ErrorCode::InvalidRequest,
        "JSON-RPC batches are supported in protocol version 2025-03-26 only",
    )
}

#[cfg(test)]
mod tests;
