//! HTTP responses: JSON, an SSE stream, or a status without a body.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use mcp_protocol::Dialect;
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::messages::{Id, write};
use mcp_protocol::negotiation::HttpRejection;
use mcp_protocol::oauth::scopes::Scopes;

use super::ServiceState;
use super::protection;
use super::response_body::HttpBody;
use crate::call::reply::Reply;

pub(super) type HttpResponse = Response<HttpBody>;

const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

impl ServiceState {
    /// Returns one reply as a JSON body, with the status that matches it.
    pub(super) fn reply(&self, id: &Id, dialect: Dialect, reply: &Reply) -> HttpResponse {
        let status = match reply {
            Reply::Error(error) => status_of(error),
            Reply::Overloaded(why) => return overload_response(why, Some(id)),
            Reply::InsufficientScope(needed) => return self.insufficient_scope(needed),
            _ => StatusCode::OK,
        };
        self.json_reply(status, id, dialect, reply)
    }

    /// Returns the response to a request whose caller lacks scopes.
    pub(super) fn insufficient_scope(&self, needed: &Scopes) -> HttpResponse {
        match &self.protection {
            Some(protection) => protection.insufficient_scope(needed),
            None => protection::insufficient_scope(needed),
        }
    }

    /// Returns one reply as a JSON body with this status.
    pub(super) fn json_reply(
        &self,
        status: StatusCode,
        id: &Id,
        dialect: Dialect,
        reply: &Reply,
    ) -> HttpResponse {
        let mut out = self.buffers.take_for_response();
        // Does not fail: `Reply::write` falls back to an error response.
        let _ = reply.write(&mut out, id, dialect, &self.core.meta);
        json_response(status, self.buffers.share(out))
    }

    pub(super) fn error(&self, id: &Id, dialect: Dialect, error: &ErrorObject) -> HttpResponse {
        self.reply(id, dialect, &Reply::Error(error.clone()))
    }
}

/// Returns the HTTP status of an error response that is sent as JSON and not on a stream.
fn status_of(error: &ErrorObject) -> StatusCode {
    match error.code {
        ErrorCode::MethodNotFound => StatusCode::NOT_FOUND,
        ErrorCode::ParseError
        | ErrorCode::InvalidRequest
        | ErrorCode::HeaderMismatch
        | ErrorCode::MissingClientCapability
        | ErrorCode::UnsupportedVersion => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

pub(super) fn refusal_response(refusal: HttpRejection, id: Option<&Id>) -> HttpResponse {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_REQUEST);
    match refusal.error {
        Some(error) => error_response(status, &error, id),
        None => empty_response(status),
    }
}

pub(super) fn error_response(status: StatusCode, error: &ErrorObject, id: Option<&Id>) -> HttpResponse {
    let mut out = Vec::new();
    let _ = write::error(&mut out, id, write::NoId::Omitted, error);
    json_response(status, out)
}

/// Returns 503 with `Retry-After`, for a request that was not started because a limit of the service is reached.
pub(super) fn overload_response(why: &str, id: Option<&Id>) -> HttpResponse {
    let error = ErrorObject::new(ErrorCode::InternalError, why);
    let mut response = error_response(StatusCode::SERVICE_UNAVAILABLE, &error, id);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

pub(super) fn already_initialized(id: &Id) -> HttpResponse {
    let message = "the session is already initialized; send `initialize` without Mcp-Session-Id to open another session";
    error_response(StatusCode::BAD_REQUEST, &ErrorObject::new(ErrorCode::InvalidRequest, message), Some(id))
}

pub(super) fn not_acceptable(id: &Id) -> HttpResponse {
    let message = "a subscription stream needs `Accept: text/event-stream`";
    error_response(
        StatusCode::NOT_ACCEPTABLE,
        &ErrorObject::new(ErrorCode::InvalidRequest, message),
        Some(id),
    )
}

pub(super) fn json_response(status: StatusCode, bytes: impl Into<Bytes>) -> HttpResponse {
    let mut response = Response::new(HttpBody::full(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub(super) fn empty_response(status: StatusCode) -> HttpResponse {
    let mut response = Response::new(HttpBody::empty());
    *response.status_mut() = status;
    response
}

pub(super) fn stream_response(body: HttpBody) -> HttpResponse {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}
