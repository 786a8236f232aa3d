//! Server-side classification of HTTP requests by era.
//!
//! Spec: MCP 2026-07-28, basic/versioning and basic/transports/streamable-http.
//!
//! The body determines the era; the headers are only checked against it.

use std::sync::Arc;

use super::stdio_server::{check_method, claim, has_era, initialize, missing_data, modern, no_batches};
use crate::codec::header;
use crate::dialect::Dialect;
use crate::errors::{DecodeError, ErrorCode, ErrorObject};
use crate::limits::MAX_CACHED_ENVELOPE_BYTES;
use crate::messages::{Incoming, InitializeParams, Message, Method, Request};
use crate::meta::{self, Meta};
use crate::version::{Era, ProtocolVersion, negotiate};

/// Classifies each HTTP request by era, after the checks of the transport.
///
/// ```
/// use mcp_protocol::messages::parse;
/// use mcp_protocol::negotiation::{HttpMethod, HttpRequest, HttpServer, HttpVerdict};
/// use mcp_protocol::version::SUPPORTED;
///
/// let server = HttpServer::new(SUPPORTED);
/// let body = parse(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, &Default::default())?;
/// let negotiation = server.classify(&HttpRequest::new(HttpMethod::Post), Some(&body));
/// assert!(matches!(negotiation, HttpVerdict::Legacy(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct HttpServer {
    versions: Vec<ProtocolVersion>,
}

/// A valid envelope and its contents. Most clients send an identical one with every request; a caller that caches it
/// avoids parsing it again.
#[derive(Clone, Debug)]
pub struct Envelope {
    text: Arc<str>,
    dialect: Dialect,
    meta: Arc<Meta>,
}

impl Envelope {
    /// Returns the envelope of a classified request, unless it is too long to be cached.
    #[must_use]
    pub fn of(request: &Request<'_>, dialect: Dialect, meta: &Arc<Meta>) -> Option<Self> {
        let text = request.params.member("_meta").ok().flatten()?;
        let fits = text.len() <= MAX_CACHED_ENVELOPE_BYTES;
        fits.then(|| Self { text: text.into(), dialect, meta: Arc::clone(meta) })
    }

    /// Returns true if the request has exactly this envelope.
    #[must_use]
    pub fn is_of(&self, request: &Request<'_>) -> bool {
        matches!(request.params.member("_meta"), Ok(Some(text)) if *text == *self.text)
    }
}

/// HTTP method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpMethod {
    /// GET.
    Get,
    /// POST.
    Post,
    /// DELETE.
    Delete,
}

/// The parts of an HTTP request other than the body.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpRequest<'a> {
    /// HTTP method.
    pub method: HttpMethod,
    /// All values of `MCP-Protocol-Version`.
    pub versions: &'a [&'a [u8]],
    /// All values of `Mcp-Method`.
    pub methods: &'a [&'a [u8]],
    /// All values of `Mcp-Name`.
    pub names: &'a [&'a [u8]],
    /// Version of the session, if the request names an existing one.
    pub session: Option<Dialect>,
    /// A valid envelope of an earlier request, not necessarily identical.
    pub known: Option<&'a Envelope>,
}

impl HttpRequest<'_> {
    /// Creates a request without MCP headers.
    #[must_use]
    pub fn new(method: HttpMethod) -> Self {
        Self { method, versions: &[], methods: &[], names: &[], session: None, known: None }
    }
}

impl<'a> HttpRequest<'a> {
    /// Sets the values of `MCP-Protocol-Version`.
    #[must_use]
    pub fn versions(mut self, versions: &'a [&'a [u8]]) -> Self {
        self.versions = versions;
        self
    }

    /// Sets the values of `Mcp-Method`.
    #[must_use]
    pub fn methods(mut self, methods: &'a [&'a [u8]]) -> Self {
        self.methods = methods;
        self
    }

    /// Sets the values of `Mcp-Name`.
    #[must_use]
    pub fn names(mut self, names: &'a [&'a [u8]]) -> Self {
        self.names = names;
        self
    }

    /// Sets a valid envelope of an earlier request.
    #[must_use]
    pub fn known(mut self, envelope: &'a Envelope) -> Self {
        self.known = Some(envelope);
        self
    }

    /// Sets the version of the session.
    #[must_use]
    pub fn session(mut self, session: Dialect) -> Self {
        self.session = Some(session);
        self
    }
}

/// Classification of an HTTP request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HttpVerdict {
    /// A modern request with a valid envelope and standard headers. A session id is ignored.
    Modern(Dialect, Arc<Meta>),
    /// A modern notification: respond with 202; only an extension may process it.
    ModernNotification,
    /// A legacy message of this version: apply the session rules next.
    Legacy(Dialect),
    /// `initialize`: respond with this version and open a session.
    Initialize(Dialect, Box<InitializeParams>),
    /// Respond with this rejection.
    Refuse(Refusal),
}

/// A response that rejects a request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Refusal {
    /// HTTP status.
    pub status: u16,
    /// Error, with the request's id if that could be read. `None` for a status without a body.
    pub error: Option<ErrorObject>,
}

impl HttpServer {
    /// Creates a classifier for a server that supports these versions.
    #[must_use]
    pub fn new(versions: &[ProtocolVersion]) -> Self {
        Self { versions: versions.to_vec() }
    }

    /// Classifies a request. GET and DELETE have no body.
    #[must_use]
    pub fn classify(&self, http: &HttpRequest<'_>, body: Option<&Incoming<'_>>) -> HttpVerdict {
        match (http.method, body) {
            // The modern era has only POST.
            (HttpMethod::Get | HttpMethod::Delete, _) if !self.is_dual() || self.names_modern(http) => {
                refuse(405, None)
            }
            (HttpMethod::Get | HttpMethod::Delete, _) => self.legacy(http),
            (HttpMethod::Post, None) => bad(ErrorObject::new(ErrorCode::ParseError, "missing request body")),
            (HttpMethod::Post, Some(Incoming::Batch(batch))) => {
                let misplaced = batch.messages().flatten().any(|message| match &message {
                    Message::Request(request) => {
                        request.method == Method::Initialize || !matches!(claim(&request.params), Ok(None))
                    }
                    Message::Notification(notification) => !matches!(claim(&notification.params), Ok(None)),
                    Message::Response(_) => false,
                });
                match self.legacy(http) {
                    HttpVerdict::Legacy(dialect) if !misplaced && dialect.version().has_batches() => {
                        HttpVerdict::Legacy(dialect)
                    }
                    _ => bad(no_batches()),
                }
            }
            (HttpMethod::Post, Some(Incoming::Message(Message::Request(request)))) => {
                self.request(http, request)
            }
            (HttpMethod::Post, Some(Incoming::Message(Message::Notification(notification)))) => {
                let claims = !matches!(claim(&notification.params), Ok(None));
                if has_era(&self.versions, Era::Modern) && (claims || self.names_modern(http)) {
                    HttpVerdict::ModernNotification
                } else {
                    self.legacy(http)
                }
            }
            // The server sends no requests in the modern era or outside a session.
            (HttpMethod::Post, Some(Incoming::Message(Message::Response(_))))
                if !self.is_dual() || self.names_modern(http) =>
            {
                bad(ErrorObject::new(
                    ErrorCode::InvalidRequest,
                    "unexpected response: this server sent no request",
                ))
            }
            (HttpMethod::Post, Some(Incoming::Message(Message::Response(_)))) => self.legacy(http),
        }
    }

    /// Returns the rejection of a body that is not a message.
    #[must_use]
    pub fn classify_unreadable(&self, error: &DecodeError) -> Refusal {
        Refusal { status: 400, error: Some(error.to_error_object()) }
    }

    fn request(&self, http: &HttpRequest<'_>, request: &Request<'_>) -> HttpVerdict {
        let known = http.known.filter(|known| known.is_of(request));
        let claim = match known {
            Some(known) => Ok(known.meta.protocol_version.clone()),
            None => claim(&request.params),
        };
        let claim = match claim {
            Ok(claim) => claim,
            Err(error) => return bad(ErrorObject::new(ErrorCode::InvalidParams, error.to_string())),
        };
        let named = match self.header(http) {
            Ok(named) => named,
            Err(error) => return bad(error),
        };
        match (claim, named) {
            (Some(claim), Some(named)) if claim != named => bad(header::mismatch(format!(
                "`MCP-Protocol-Version` says {}, the body says {}",
                named.as_str(),
                claim.as_str()
            ))),
            (Some(_), None) => bad(header::missing("MCP-Protocol-Version")),
            (Some(_), Some(_)) => self.modern(http, request, known),
            (None, _) if request.method == Method::Initialize => match initialize(&self.versions, request) {
                Ok((dialect, params)) => HttpVerdict::Initialize(dialect, params),
                Err(error) => bad(error),
            },
            (None, Some(named)) if named.era() == Some(Era::Modern) => {
                bad(ErrorObject::new(ErrorCode::InvalidParams, format!("missing {}", meta::PROTOCOL_VERSION))
                    .data(missing_data(&[meta::PROTOCOL_VERSION])))
            }
            (None, named) => match self.legacy_at(http, named) {
                HttpVerdict::Legacy(dialect) => match check_method(dialect, request) {
                    Ok(()) => HttpVerdict::Legacy(dialect),
                    // A legacy error is an ordinary response.
                    Err(error) => refuse(200, Some(error)),
                },
                refused => refused,
            },
        }
    }

    /// Checks the version, the capabilities, the headers and the method, in this order.
    fn modern(&self, http: &HttpRequest<'_>, request: &Request<'_>, known: Option<&Envelope>) -> HttpVerdict {
        let (dialect, meta) = match known {
            Some(known) => (known.dialect, Arc::clone(&known.meta)),
            None => match modern(&self.versions, request) {
                Ok(Some((dialect, meta))) => (dialect, Arc::new(meta)),
                Ok(None) => return bad(header::missing("MCP-Protocol-Version")),
                Err(error) => return bad(error),
            },
        };
        if let Err(error) = header::check(request, http.methods, http.names) {
            return bad(error);
        }
        match check_method(dialect, request) {
            Ok(()) => HttpVerdict::Modern(dialect, meta),
            Err(error) => refuse(404, Some(error)),
        }
    }

    /// Classifies a message without a version: the version is that of the session, of the header, or 2025-03-26.
    fn legacy(&self, http: &HttpRequest<'_>) -> HttpVerdict {
        match self.header(http) {
            Ok(named) => self.legacy_at(http, named),
            Err(error) => bad(error),
        }
    }

    fn legacy_at(&self, http: &HttpRequest<'_>, named: Option<ProtocolVersion>) -> HttpVerdict {
        if !self.is_dual() {
            return match named {
                Some(version) => bad(ErrorObject::unsupported_version(&version, &self.versions)),
                None => bad(header::missing("MCP-Protocol-Version")),
            };
        }
        match named {
            Some(version) => match version.dialect() {
                Some(dialect) if dialect.era() == Era::Legacy && self.versions.contains(&version) => {
                    HttpVerdict::Legacy(http.session.unwrap_or(dialect))
                }
                _ => bad(ErrorObject::unsupported_version(&version, &self.versions)),
            },
            None => HttpVerdict::Legacy(http.session.unwrap_or(self.assumed())),
        }
    }

    /// Returns the version of a request that names none: 2025-03-26, or the newest legacy version if that is not
    /// supported.
    fn assumed(&self) -> Dialect {
        let version = negotiate(&ProtocolVersion::V2025_03_26, &self.versions);
        version.and_then(ProtocolVersion::dialect).unwrap_or(Dialect::V2025_03_26)
    }

    fn header(&self, http: &HttpRequest<'_>) -> Result<Option<ProtocolVersion>, ErrorObject> {
        let value = header::one("MCP-Protocol-Version", http.versions)?;
        Ok(value.map(|value| ProtocolVersion::from(&*String::from_utf8_lossy(value.trim_ascii()))))
    }

    /// Returns true if the header names a supported modern version.
    fn names_modern(&self, http: &HttpRequest<'_>) -> bool {
        let named = self.header(http).ok().flatten();
        named.is_some_and(|version| version.era() == Some(Era::Modern) && self.versions.contains(&version))
    }

    fn is_dual(&self) -> bool {
        has_era(&self.versions, Era::Legacy)
    }
}

fn bad(error: ErrorObject) -> HttpVerdict {
    refuse(400, Some(error))
}

fn refuse(status: u16, error: Option<ErrorObject>) -> HttpVerdict {
    HttpVerdict::Refuse(Refusal { status, error })
}

#[cfg(test)]
mod tests;
