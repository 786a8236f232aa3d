//! Header values of the modern HTTP transport.
//!
//! `Mcp-Method` and `Mcp-Name` repeat values of the body, so that proxies can route without parsing it. A value that is
//! not valid in a header is encoded as `=?base64?…?=`.
//!
//! Spec: MCP 2026-07-28, basic/transports/streamable-http.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::errors::{BodyError, ErrorCode, ErrorObject};
use crate::json::Text;
use crate::messages::{Body, Method, Request};

/// `MCP-Protocol-Version`.
pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// `Mcp-Method`.
pub const METHOD: &str = "mcp-method";
/// `Mcp-Name`.
pub const NAME: &str = "mcp-name";
/// `Mcp-Session-Id`; legacy.
pub const SESSION_ID: &str = "mcp-session-id";
/// `Last-Event-ID`; legacy.
pub const LAST_EVENT_ID: &str = "last-event-id";
/// Prefix of the names of the headers that carry tool arguments.
pub const PARAM_PREFIX: &str = "mcp-param-";

const BASE64_PREFIX: &str = "=?base64?";
const BASE64_SUFFIX: &str = "?=";

/// Encodes a value for a header. A value that is valid in a header is returned unchanged.
///
/// ```
/// use mcp_protocol::codec::header::encode;
///
/// assert_eq!(encode("us-west1"), "us-west1");
/// assert_eq!(encode("Hello, 世界"), "=?base64?SGVsbG8sIOS4lueVjA==?=");
/// assert_eq!(encode(" padded "), "=?base64?IHBhZGRlZCA=?=");
/// ```
#[must_use]
pub fn encode(value: &str) -> Cow<'_, str> {
    let looks_encoded = value.starts_with(BASE64_PREFIX) && value.ends_with(BASE64_SUFFIX);
    let is_padded = value.starts_with([' ', '\t']) || value.ends_with([' ', '\t']);
    let is_plain = value.bytes().all(is_header_byte) && !is_padded && !looks_encoded;
    if is_plain {
        value.into()
    } else {
        format!("{BASE64_PREFIX}{}{BASE64_SUFFIX}", STANDARD.encode(value)).into()
    }
}

/// Decodes the value of a header. White space around the value is ignored.
///
/// # Errors
/// Fails if the value has characters other than tab and printable ASCII, or invalid Base64.
pub fn decode(header: &[u8]) -> Result<Cow<'_, str>, HeaderError> {
    let header = header.trim_ascii();
    let text = std::str::from_utf8(header).map_err(|_| HeaderError::Characters)?;
    if !text.bytes().all(is_header_byte) {
        return Err(HeaderError::Characters);
    }
    match text.strip_prefix(BASE64_PREFIX).and_then(|rest| rest.strip_suffix(BASE64_SUFFIX)) {
        None => Ok(text.into()),
        Some(encoded) => {
            let bytes = STANDARD.decode(encoded).map_err(|_| HeaderError::Base64)?;
            String::from_utf8(bytes).map(Cow::Owned).map_err(|_| HeaderError::Base64)
        }
    }
}

fn is_header_byte(byte: u8) -> bool {
    byte == b'\t' || (0x20..=0x7e).contains(&byte)
}

/// Reason why the value of a header cannot be decoded. The caller puts the name of the header before the displayed
/// text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The value has characters other than tab and printable ASCII.
    #[error("has characters outside printable ASCII")]
    Characters,
    /// The Base64 is invalid, or does not decode to UTF-8.
    #[error("has invalid Base64")]
    Base64,
}

/// Returns the member of the params whose value `Mcp-Name` repeats, such as `name` for `tools/call`. Returns `None` if
/// the method does not use this header.
#[must_use]
pub fn name_member(method: &Method) -> Option<&'static str> {
    match method {
        Method::ToolsCall | Method::PromptsGet => Some("name"),
        Method::ResourcesRead => Some("uri"),
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => Some("taskId"),
        _ => None,
    }
}

/// Returns the value of `Mcp-Name` for a request, not yet encoded. Returns `None` if the method does not use this
/// header, or if the params do not have the member that [`name_member`] returns.
///
/// # Errors
/// Fails if the member occurs twice or is not a string.
pub fn name_of<'a>(method: &Method, params: &Body<'a>) -> Result<Option<Cow<'a, str>>, BodyError> {
    match name_member(method) {
        None => Ok(None),
        Some(member) => Ok(params.parse_member::<Text<'a>>(member)?.map(|text| text.0)),
    }
}

/// Checks `Mcp-Method` and `Mcp-Name` against the body. `methods` contains all values of `Mcp-Method`, and `names` all
/// values of `Mcp-Name`.
///
/// # Errors
/// Returns the -32020 error to respond with if a header is missing, occurs twice or differs from the body.
pub fn check(request: &Request<'_>, methods: &[&[u8]], names: &[&[u8]]) -> Result<(), ErrorObject> {
    let method = one("Mcp-Method", methods)?.ok_or_else(|| missing("Mcp-Method"))?;
    if method.trim_ascii() != request.method.as_str().as_bytes() {
        return Err(mismatch(format!(
            "`Mcp-Method` differs from the method `{}` in the body",
            request.method.as_str()
        )));
    }
    let Ok(Some(expected)) = name_of(&request.method, &request.params) else {
        // A missing or invalid name in the body is reported when the params are parsed.
        return Ok(());
    };
    let name = one("Mcp-Name", names)?.ok_or_else(|| missing("Mcp-Name"))?;
    let name = decode(name).map_err(|error| mismatch(format!("`Mcp-Name` {error}")))?;
    if name == expected { Ok(()) } else { Err(mismatch("`Mcp-Name` differs from the body".into())) }
}

/// Returns the value of a header that may occur only once.
pub(crate) fn one<'a>(name: &str, values: &[&'a [u8]]) -> Result<Option<&'a [u8]>, ErrorObject> {
    match values {
        [] => Ok(None),
        [value] => Ok(Some(value)),
        _ => Err(mismatch(format!("duplicate header `{name}`"))),
    }
}

pub(crate) fn missing(name: &str) -> ErrorObject {
    mismatch(format!("missing header `{name}`"))
}

pub(crate) fn mismatch(message: String) -> ErrorObject {
    ErrorObject::new(ErrorCode::HeaderMismatch, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_values_round_trip() {
        for value in
            ["", "a", "a b", "\t", " a", "a ", "世界", "=?base64?literal?=", "a\r\nb: c", "=?base64?"]
        {
            let encoded = encode(value);
            assert!(encoded.bytes().all(is_header_byte), "{encoded:?}");
            assert_eq!(decode(encoded.as_bytes()).unwrap(), value);
        }
        assert_eq!(encode("=?base64?literal?="), "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=");
    }

    #[test]
    fn malformed_header_values_are_rejected() {
        assert_eq!(decode(b"=?base64?a?="), Err(HeaderError::Base64));
        assert_eq!(decode(b"=?base64?/w==?="), Err(HeaderError::Base64));
        assert_eq!(decode("ä".as_bytes()), Err(HeaderError::Characters));
        assert_eq!(decode(b"a\nb"), Err(HeaderError::Characters));
        // The markers are case-sensitive: another case is an ordinary value.
        assert_eq!(decode(b"=?BASE64?a?=").unwrap(), "=?BASE64?a?=");
    }
}
