//! Server-side classification of HTTP requests by era.
//!
//! Spec: MCP 2026-07-28, basic/versioning and basic/transports/streamable-http.
//!
//! The body of a request determines its era; the headers are only checked against the body.

use std::sync::Arc;

use super::stdio_server::{
    batches_unsupported, check_method, has_era, initialize, missing_data, modern, stated_version,
};
use crate::codec::header;
use crate::dialect::Dialect;
use crate::errors::{DecodeError, ErrorCode, ErrorObject};
use crate::limits::MAX_CACHED_ENVELOPE_BYTES;
use crate::messages::{Incoming, InitializeParams, Message, Method, Request};
use crate::meta::{self, Meta};
use crate::version::{Era, ProtocolVersion, negotiate};

/// Classifies each HTTP request by era. Call it after the transport has made its own checks of the request.
///
/// ```
/// use mcp_protocol::messages::parse;
/// use mcp_protocol::negotiation::{HttpMethod, HttpRequest, HttpServerNegotiation, HttpClassification};
/// use mcp_protocol::version::SUPPORTED;
///
/// let server = HttpServerNegotiation::new(SUPPORTED);
/// let body = parse(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, &Default::default())?;
/// let negotiation = server.classify(&HttpRequest::new(HttpMethod::Post), Some(&body));
/// assert!(matches!(negotiation, HttpClassification::Legacy(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct HttpServerNegotiation {
    versions: Vec<ProtocolVersion>,
}

/// The valid `params._meta` of a modern request, as text and parsed. Most clients send an identical envelope with every
/// request; a caller that caches it avoids parsing it again.
#[derive(Clone, Debug)]
pub struct Envelope {
    text: Arc<str>,
    dialect: Dialect,
    meta: Arc<Meta>,
}

impl Envelope {
    /// Returns the envelope of a request that was classified as modern, or `None` if the envelope is longer than 4 KiB.
    /// Longer ones are not cached.
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
    /// Version of the session, if the request names an existing session.
    pub session: Option<Dialect>,
    /// A cached envelope of an earlier request, if there is one. It is used only if this request has an identical
    /// envelope.
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

    /// Sets a cached envelope of an earlier request.
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
pub enum HttpClassification {
    /// A modern request with a valid envelope and valid MCP headers. A session id in the headers is ignored.
    Modern(Dialect, Arc<Meta>),
    /// A modern notification: respond with 202; only an extension may process it.
    ModernNotification,
    /// A legacy message of this version: check its session next.
    Legacy(Dialect),
    /// `initialize`: respond with this version and open a session.
    Initialize(Dialect, Box<InitializeParams>),
    /// Respond with this rejection.
    Reject(HttpRejection),
}

/// A response that rejects a request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HttpRejection {
    /// HTTP status.
    pub status: u16,
    /// Error to send as the body, with the id of the request if it could be read. `None` if the response has no body.
    pub error: Option<ErrorObject>,
}

impl HttpServerNegotiation {
    /// Creates a classifier for a server that supports these versions.
    #[must_use]
    pub fn new(versions: &[ProtocolVersion]) -> Self {
        Self { versions: versions.to_vec() }
    }

    /// Classifies a request. GET and DELETE have no body.
    #[must_use]
    pub fn classify(&self, http: &HttpRequest<'_>, body: Option<&Incoming<'_>>) -> HttpClassification {
        match (http.method, body) {
            // The modern era has only POST.
            (HttpMethod::Get | HttpMethod::Delete, _) if !self.is_dual() || self.names_modern(http) => {
                reject(405, None)
            }
            (HttpMethod::Get | HttpMethod::Delete, _) => self.legacy(http),
            (HttpMethod::Post, None) => {
                bad_request(ErrorObject::new(ErrorCode::ParseError, "missing request body"))
            }
            (HttpMethod::Post, Some(Incoming::Batch(batch))) => {
                let misplaced = batch.messages().flatten().any(|message| match &message {
                    Message::Request(request) => {
                        request.method == Method::Initialize
                            || !matches!(stated_version(&request.params), Ok(None))
                    }
                    Message::Notification(notification) => {
                        !matches!(stated_version(&notification.params), Ok(None))
                    }
                    Message::Response(_) => false,
                });
                match self.legacy(http) {
                    HttpClassification::Legacy(dialect) if !misplaced && dialect.version().has_batches() => {
                        HttpClassification::Legacy(dialect)
                    }
                    _ => bad_request(batches_unsupported()),
                }
            }
            (HttpMethod::Post, Some(Incoming::Message(Message::Request(request)))) => {
                self.request(http, request)
            }
            (HttpMethod::Post, Some(Incoming::Message(Message::Notification(notification)))) => {
                let states_version = !matches!(stated_version(&notification.params), Ok(None));
                if has_era(&self.versions, Era::Modern) && (states_version || self.names_modern(http)) {
                    HttpClassification::ModernNotification
                } else {
                    self.legacy(http)
                }
            }
            // The server sends no requests in the modern era or outside a session.
            (HttpMethod::Post, Some(Incoming::Message(Message::Response(_))))
                if !self.is_dual() || self.names_modern(http) =>
            {
                bad_request(ErrorObject::new(
                    ErrorCode::InvalidRequest,
                    "unexpected response: this server sent no request",
                ))
            }
            (HttpMethod::Post, Some(Incoming::Message(Message::Response(_)))) => self.legacy(http),
        }
    }

    /// Returns the rejection of a body that is not a message.
    #[must_use]
    pub fn classify_unreadable(&self, error: &DecodeError) -> HttpRejection {
        HttpRejection { status: 400, error: Some(error.to_error_object()) }
    }

    fn request(&self, http: &HttpRequest<'_>, request: &Request<'_>) -> HttpClassification {
        let known = http.known.filter(|known| known.is_of(request));
        let stated = match known {
            Some(known) => Ok(known.meta.protocol_version.clone()),
            None => stated_version(&request.params),
        };
        let stated = match stated {
            Ok(stated) => stated,
            Err(error) => return bad_request(ErrorObject::new(ErrorCode::InvalidParams, error.to_string())),
        };
        let named = match self.header(http) {
            Ok(named) => named,
            Err(error) => return bad_request(error),
        };
        match (stated, named) {
            (Some(stated), Some(named)) if stated != named => bad_request(header::mismatch(format!(
                "`MCP-Protocol-Version` says {}, the body says {}",
                named.as_str(),
                stated.as_str()
            ))),
            (Some(_), None) => bad_request(header::missing("MCP-Protocol-Version")),
            (Some(_), Some(_)) => self.modern(http, request, known),
            (None, _) if request.method == Method::Initialize => match initialize(&self.versions, request) {
                Ok((dialect, params)) => HttpClassification::Initialize(dialect, params),
                Err(error) => bad_request(error),
            },
            (None, Some(named)) if named.era() == Some(Era::Modern) => bad_request(
                ErrorObject::new(ErrorCode::InvalidParams, format!("missing {}", meta::PROTOCOL_VERSION))
                    .data(missing_data(&[meta::PROTOCOL_VERSION])),
            ),
            (None, named) => match self.legacy_with_header(http, named) {
                HttpClassification::Legacy(dialect) => match check_method(dialect, request) {
                    Ok(()) => HttpClassification::Legacy(dialect),
                    // In the legacy era, an error is an ordinary response with status 200.
                    Err(error) => reject(200, Some(error)),
                },
                rejection => rejection,
            },
        }
    }

    /// Checks the version, the capabilities, the headers and the method, in this order.
    fn modern(
        &self,
        http: &HttpRequest<'_>,
        request: &Request<'_>,
        known: Option<&Envelope>,
    ) -> HttpClassification {
        let (dialect, meta) = match known {
            Some(known) => (known.dialect, Arc::clone(&known.meta)),
            None => match modern(&self.versions, request) {
                Ok(Some((dialect, meta))) => (dialect, Arc::new(meta)),
                Ok(None) => return bad_request(header::missing("MCP-Protocol-Version")),
                Err(error) => return bad_request(error),
            },
        };
        if let Err(error) = header::check(request, http.methods, http.names) {
            return bad_request(error);
        }
        match check_method(dialect, request) {
            Ok(()) => HttpClassification::Modern(dialect, meta),
            Err(error) => reject(404, Some(error)),
        }
    }

    /// Classifies a message that does not state a version. Its version is that of the session, else that of the header,
    /// else 2025-03-26.
    fn legacy(&self, http: &HttpRequest<'_>) -> HttpClassification {
        match self.header(http) {
            Ok(named) => self.legacy_with_header(http, named),
            Err(error) => bad_request(error),
        }
    }

    fn legacy_with_header(
        &self,
        http: &HttpRequest<'_>,
        named: Option<ProtocolVersion>,
    ) -> HttpClassification {
        if !self.is_dual() {
            return match named {
                Some(version) => bad_request(ErrorObject::unsupported_version(&version, &self.versions)),
                None => bad_request(header::missing("MCP-Protocol-Version")),
            };
        }
        match named {
            Some(version) => match version.dialect() {
                Some(dialect) if dialect.era() == Era::Legacy && self.versions.contains(&version) => {
                    HttpClassification::Legacy(http.session.unwrap_or(dialect))
                }
                _ => bad_request(ErrorObject::unsupported_version(&version, &self.versions)),
            },
            None => HttpClassification::Legacy(http.session.unwrap_or(self.assumed())),
        }
    }

    /// Returns the version of a request that does not name one: 2025-03-26, or the newest legacy version if the server
    /// does not support 2025-03-26.
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

fn bad_request(error: ErrorObject) -> HttpClassification {
    reject(400, Some(error))
}

fn reject(status: u16, error: Option<ErrorObject>) -> HttpClassification {
    HttpClassification::Reject(HttpRejection { status, error })
}

#[cfg(test)]
mod tests;
