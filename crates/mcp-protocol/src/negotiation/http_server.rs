//! A server tells the era of a message over HTTP.
//!
//! Spec: MCP 2026-07-28, basic/versioning and basic/transports/streamable-http.
//!
//! The body decides; the headers are a cross-check.

use std::sync::Arc;

use super::stdio_server::{check_method, claim, has_era, initialize, missing_data, modern, no_batches};
use crate::codec::header;
use crate::dialect::Dialect;
use crate::errors::{DecodeError, ErrorCode, ErrorObject};
use crate::limits::REMEMBERED_ENVELOPE;
use crate::messages::{Incoming, InitializeParams, Message, Method, Request};
use crate::meta::{self, Meta};
use crate::version::{Era, ProtocolVersion, negotiate};

/// Tells the era of each HTTP request that a server gets, after the transport's own guards.
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

/// An envelope that was whole, and what it says. Most clients send the same one with every request, and who keeps it
/// need not have it read again.
#[derive(Clone, Debug)]
pub struct Envelope {
    text: Arc<str>,
    dialect: Dialect,
    meta: Arc<Meta>,
}

impl Envelope {
    /// The envelope of a request with this negotiation result, unless it is too long to be kept.
    #[must_use]
    pub fn of(request: &Request<'_>, dialect: Dialect, meta: &Arc<Meta>) -> Option<Self> {
        let text = request.params.member("_meta").ok().flatten()?;
        let fits = text.len() <= REMEMBERED_ENVELOPE;
        fits.then(|| Self { text: text.into(), dialect, meta: Arc::clone(meta) })
    }

    /// True if a request has this very envelope.
    #[must_use]
    pub fn is_of(&self, request: &Request<'_>) -> bool {
        matches!(request.params.member("_meta"), Ok(Some(text)) if *text == *self.text)
    }
}

/// The method of an HTTP request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpMethod {
    /// GET.
    Get,
    /// POST.
    Post,
    /// DELETE.
    Delete,
}

/// What stands around the body of an HTTP request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpRequest<'a> {
    /// The method.
    pub method: HttpMethod,
    /// Every value of `MCP-Protocol-Version`.
    pub versions: &'a [&'a [u8]],
    /// Every value of `Mcp-Method`.
    pub methods: &'a [&'a [u8]],
    /// Every value of `Mcp-Name`.
    pub names: &'a [&'a [u8]],
    /// The version of the session that the request names, if it names one that exists.
    pub session: Option<Dialect>,
    /// An envelope that was whole before; it need not be this request's.
    pub known: Option<&'a Envelope>,
}

impl HttpRequest<'_> {
    /// A request without any of our headers.
    #[must_use]
    pub fn new(method: HttpMethod) -> Self {
        Self { method, versions: &[], methods: &[], names: &[], session: None, known: None }
    }
}

impl<'a> HttpRequest<'a> {
    /// With the values of `MCP-Protocol-Version`.
    #[must_use]
    pub fn versions(mut self, versions: &'a [&'a [u8]]) -> Self {
        self.versions = versions;
        self
    }

    /// With the values of `Mcp-Method`.
    #[must_use]
    pub fn methods(mut self, methods: &'a [&'a [u8]]) -> Self {
        self.methods = methods;
        self
    }

    /// With the values of `Mcp-Name`.
    #[must_use]
    pub fn names(mut self, names: &'a [&'a [u8]]) -> Self {
        self.names = names;
        self
    }

    /// With an envelope that was whole before.
    #[must_use]
    pub fn known(mut self, envelope: &'a Envelope) -> Self {
        self.known = Some(envelope);
        self
    }

    /// In a session of this version.
    #[must_use]
    pub fn session(mut self, session: Dialect) -> Self {
        self.session = Some(session);
        self
    }
}

/// What a server makes of an HTTP request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HttpVerdict {
    /// A modern request whose envelope and standard headers are right. A session id is ignored.
    Modern(Dialect, Arc<Meta>),
    /// A modern notification: 202, and nothing else unless an extension knows it.
    ModernNotification,
    /// Legacy, at this version: the rules of sessions come next.
    Legacy(Dialect),
    /// `initialize`: answer with this version, and open a session.
    Initialize(Dialect, Box<InitializeParams>),
    /// Answer with this.
    Refuse(Refusal),
}

/// An answer that refuses a request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The error; under the request's id if it has one that could be read. `None` for a bare status.
    pub error: Option<ErrorObject>,
}

impl HttpServer {
    /// A server that speaks these versions.
    #[must_use]
    pub fn new(versions: &[ProtocolVersion]) -> Self {
        Self { versions: versions.to_vec() }
    }

    /// Tells what a request is. GET and DELETE have no body.
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
            // Nothing is asked in the modern era, nor outside of a session.
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

    /// The answer to a body that is no message.
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

    /// A message without claim: the version is the session's, the header's, or 2025-03-26.
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

    /// The version of a request that names none: 2025-03-26, or the newest legacy one if that is not served.
    fn assumed(&self) -> Dialect {
        let version = negotiate(&ProtocolVersion::V2025_03_26, &self.versions);
        version.and_then(ProtocolVersion::dialect).unwrap_or(Dialect::V2025_03_26)
    }

    fn header(&self, http: &HttpRequest<'_>) -> Result<Option<ProtocolVersion>, ErrorObject> {
        let value = header::one("MCP-Protocol-Version", http.versions)?;
        Ok(value.map(|value| ProtocolVersion::from(&*String::from_utf8_lossy(value.trim_ascii()))))
    }

    /// True if the header names a modern version that is served.
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
