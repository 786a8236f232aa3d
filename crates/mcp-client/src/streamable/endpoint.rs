//! Requests to a server whose protocol version is known: its target, and the headers of MCP.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use mcp_protocol::codec::header;
use mcp_protocol::{Limits, ProtocolVersion};

use super::session::Session;
use super::target::HttpTarget;
use crate::http::request::RawRequest;

/// A server behind a URL whose protocol version is known.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) target: Arc<HttpTarget>,
    pub(super) is_modern: bool,
    /// True for the HTTP+SSE transport (2024-11-05).
    pub(super) is_http_sse: bool,
    version: HeaderValue,
}

impl Endpoint {
    pub(super) fn new(target: Arc<HttpTarget>, version: &ProtocolVersion, is_http_sse: bool) -> Self {
        Self {
            target,
            is_modern: version.dialect().is_some_and(|dialect| dialect.is_modern()),
            is_http_sse,
            version: HeaderValue::from_str(version.as_str()).unwrap_or(HeaderValue::from_static("")),
        }
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.target.limits
    }

    /// Builds the POST of a message. `repeated` are the headers that repeat parts of its body.
    pub(super) fn message(
        &self,
        repeated: &[(HeaderName, HeaderValue)],
        body: &Bytes,
        session: &Session,
    ) -> RawRequest {
        if let Some(to) = &session.sse_post_target {
            return self.target.post_to(&to.url, &to.uri, body.clone());
        }
        let mut headers = self.target.headers();
        self.add_common_headers(&mut headers, session);
        headers.extend(repeated.iter().cloned());
        self.target.post(headers, body.clone())
    }

    /// Builds the GET that opens the notification stream of a legacy server, or that resumes a stream of a legacy server
    /// after the event with the id `after`.
    pub(super) fn stream(&self, session: &Session, after: Option<&str>) -> RawRequest {
        let mut headers = HeaderMap::new();
        self.add_common_headers(&mut headers, session);
        self.target.get(headers, after)
    }

    /// Builds the DELETE that ends the session of a legacy server.
    pub(super) fn delete_session(&self, session: &Session) -> RawRequest {
        let mut headers = HeaderMap::new();
        self.add_common_headers(&mut headers, session);
        self.target.delete(headers)
    }

    /// Adds the headers that every request carries.
    fn add_common_headers(&self, headers: &mut HeaderMap, session: &Session) {
        headers.insert(HeaderName::from_static(header::PROTOCOL_VERSION), self.version.clone());
        if let Some(id) = &session.id {
            headers.insert(HeaderName::from_static(header::SESSION_ID), id.clone());
        }
    }
}
