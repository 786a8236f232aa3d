//! Parsing the params of a request.

use mcp_protocol::dialect::Raise;
use mcp_protocol::errors::{BodyError, ErrorCode, ErrorObject};
use mcp_protocol::limits::MAX_URI_BYTES;
use mcp_protocol::messages::Request;

use crate::call::context::Requester;

/// Parses one member of the params; `None` if it is absent.
pub(super) fn member<'a, T: serde::Deserialize<'a>>(
    request: &Request<'a>,
    name: &'static str,
) -> Result<Option<T>, ErrorObject> {
    request.params.parse_member(name).map_err(invalid)
}

/// Parses the params by the rules of the dialect of the request.
pub(super) fn raise<T: Raise>(request: &Request<'_>, requester: &Requester) -> Result<T, ErrorObject> {
    requester.dialect.raise(&request.params).map_err(invalid)
}

pub(super) fn invalid(error: BodyError) -> ErrorObject {
    ErrorObject::new(ErrorCode::InvalidParams, error.to_string())
}

pub(super) fn missing(name: &str) -> ErrorObject {
    ErrorObject::new(ErrorCode::InvalidParams, format!("missing `{name}`"))
}

/// Returns an error for a URI that is too long.
pub(super) fn check_uri(uri: &str) -> Result<(), ErrorObject> {
    if uri.len() <= MAX_URI_BYTES {
        return Ok(());
    }
    let message = format!("URI too long: {} bytes, limit {MAX_URI_BYTES}", uri.len());
    Err(ErrorObject::new(ErrorCode::InvalidParams, message))
}
