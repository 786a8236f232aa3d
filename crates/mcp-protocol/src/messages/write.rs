//! Serialization of messages into a buffer.
//!
//! Each function appends one JSON object without a line break. If serialization fails, the buffer is left unchanged.
//!
//! ```
//! use mcp_protocol::Dialect;
//! use mcp_protocol::messages::{EmptyResult, write};
//!
//! let mut out = Vec::new();
//! write::response(&mut out, &7.into(), &Dialect::V2025_11_25.lower(&EmptyResult::new()))?;
//! assert_eq!(out, br#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
//! # Ok::<(), serde_json::Error>(())
//! ```

use super::{Body, Id, Method};
use crate::dialect::{Lower, Lowering, Written};

/// A body made by [`Dialect::lower`](crate::Dialect::lower) is written in its dialect; any other body is written with
/// every member.
const CANONICAL_FORM: Lowering<'static> = Lowering::CANONICAL;

/// Appends a request.
///
/// # Errors
/// Fails if `params` cannot be serialized, for example because the revision cannot express them.
pub fn request(
    out: &mut Vec<u8>,
    id: &Id,
    method: &Method,
    params: &dyn Lower,
) -> Result<(), serde_json::Error> {
    whole(out, |out| {
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        id.lower(CANONICAL_FORM, out)?;
        push_method(out, method)?;
        out.extend_from_slice(br#","params":"#);
        params.lower(CANONICAL_FORM, out)
    })
}

/// Appends a notification. If `params` is `None`, the member is omitted.
///
/// # Errors
/// Fails if `params` cannot be serialized.
pub fn notification(
    out: &mut Vec<u8>,
    method: &Method,
    params: Option<&dyn Lower>,
) -> Result<(), serde_json::Error> {
    whole(out, |out| {
        out.extend_from_slice(br#"{"jsonrpc":"2.0""#);
        push_method(out, method)?;
        if let Some(params) = params {
            out.extend_from_slice(br#","params":"#);
            params.lower(CANONICAL_FORM, out)?;
        }
        Ok(())
    })
}

/// Appends a response with a result. To send the same result several times, store it as [`Json`](crate::Json), which is
/// only copied.
///
/// # Errors
/// Fails if `result` cannot be serialized.
pub fn response(out: &mut Vec<u8>, id: &Id, result: &dyn Lower) -> Result<(), serde_json::Error> {
    whole(out, |out| {
        push_response(out, id)?;
        result.lower(CANONICAL_FORM, out)
    })
}

/// Form of the `id` member in an error response to a request whose id is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoId {
    /// `id` is omitted: HTTP, and stdio since 2025-11-25.
    Omitted,
    /// `"id":null`: stdio up to 2025-06-18.
    Null,
}

/// Appends a response with an error.
///
/// # Errors
/// Fails if `error` cannot be serialized.
pub fn error(
    out: &mut Vec<u8>,
    id: Option<&Id>,
    no_id: NoId,
    error: &dyn Lower,
) -> Result<(), serde_json::Error> {
    whole(out, |out| {
        out.extend_from_slice(br#"{"jsonrpc":"2.0""#);
        match (id, no_id) {
            (Some(id), _) => {
                out.extend_from_slice(br#","id":"#);
                id.lower(CANONICAL_FORM, out)?;
            }
            (None, NoId::Null) => out.extend_from_slice(br#","id":null"#),
            (None, NoId::Omitted) => {}
        }
        out.extend_from_slice(br#","error":"#);
        error.lower(CANONICAL_FORM, out)
    })
}

/// Appends a request with the params unchanged, except that line breaks are removed.
///
/// # Errors
/// Does not fail for ids and methods that were parsed from a message.
pub fn relay_request(
    out: &mut Vec<u8>,
    id: &Id,
    method: &Method,
    params: &Body<'_>,
) -> Result<(), serde_json::Error> {
    whole(out, |out| {
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        id.lower(CANONICAL_FORM, out)?;
        push_method(out, method)?;
        out.extend_from_slice(br#","params":"#);
        out.extend_from_slice(crate::json::compact(params.text()).as_bytes());
        Ok(())
    })
}

/// Appends a response with the result unchanged, except that line breaks are removed.
///
/// # Errors
/// Does not fail for ids that were parsed from a message.
pub fn relay_response(out: &mut Vec<u8>, id: &Id, result: &Body<'_>) -> Result<(), serde_json::Error> {
    whole(out, |out| {
        push_response(out, id)?;
        out.extend_from_slice(crate::json::compact(result.text()).as_bytes());
        Ok(())
    })
}

fn whole(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Written) -> Written {
    let start = out.len();
    let written = write(out);
    match written {
        Ok(()) => out.push(b'}'),
        Err(_) => out.truncate(start),
    }
    written
}

fn push_method(out: &mut Vec<u8>, method: &Method) -> Written {
    out.extend_from_slice(br#","method":"#);
    method.lower(CANONICAL_FORM, out)
}

fn push_response(out: &mut Vec<u8>, id: &Id) -> Written {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    id.lower(CANONICAL_FORM, out)?;
    out.extend_from_slice(br#","result":"#);
    Ok(())
}
