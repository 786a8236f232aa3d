//! Messages appended to a buffer, each serialized once.
//!
//! What is appended is one JSON object without a line break. When a body cannot be written, the buffer is
//! left as it was.
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

/// A message is written in its dialect by a view that knows it; what knows none is written with all it has.
const AS_IT_IS: Lowering<'static> = Lowering::CANONICAL;

/// Appends a request.
///
/// # Errors
/// When `params` cannot be serialized, for example because the revision cannot say it.
pub fn request(
    out: &mut Vec<u8>,
    id: &Id,
    method: &Method,
    params: &dyn Lower,
) -> Result<(), serde_json::Error> {
    whole(out, |out| {
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        id.lower(AS_IT_IS, out)?;
        push_method(out, method)?;
        out.extend_from_slice(br#","params":"#);
        params.lower(AS_IT_IS, out)
    })
}

/// Appends a notification. `None` leaves `params` out.
///
/// # Errors
/// When `params` cannot be serialized.
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
            params.lower(AS_IT_IS, out)?;
        }
        Ok(())
    })
}

/// Appends the response with a result. A result that did not change since it was last written can be kept as
/// [`Json`](crate::Json) and is then only copied.
///
/// # Errors
/// When `result` cannot be serialized.
pub fn response(out: &mut Vec<u8>, id: &Id, result: &dyn Lower) -> Result<(), serde_json::Error> {
    whole(out, |out| {
        push_response(out, id)?;
        result.lower(AS_IT_IS, out)
    })
}

/// How an error response without id is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoId {
    /// The member is left out: HTTP, and stdio since 2025-11-25.
    Omitted,
    /// `"id":null`: stdio up to 2025-06-18.
    Null,
}

/// Appends the response with an error.
///
/// # Errors
/// When `error` cannot be serialized.
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
                id.lower(AS_IT_IS, out)?;
            }
            (None, NoId::Null) => out.extend_from_slice(br#","id":null"#),
            (None, NoId::Omitted) => {}
        }
        out.extend_from_slice(br#","error":"#);
        error.lower(AS_IT_IS, out)
    })
}

/// Appends a request whose params are passed on as they came.
///
/// # Errors
/// Never, for ids and methods that came from a message.
pub fn relay_request(
    out: &mut Vec<u8>,
    id: &Id,
    method: &Method,
    params: &Body<'_>,
) -> Result<(), serde_json::Error> {
    whole(out, |out| {
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        id.lower(AS_IT_IS, out)?;
        push_method(out, method)?;
        out.extend_from_slice(br#","params":"#);
        out.extend_from_slice(crate::json::compact(params.text()).as_bytes());
        Ok(())
    })
}

/// Appends a response whose result is passed on as it came.
///
/// # Errors
/// Never, for ids that came from a message.
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
    method.lower(AS_IT_IS, out)
}

fn push_response(out: &mut Vec<u8>, id: &Id) -> Written {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    id.lower(AS_IT_IS, out)?;
    out.extend_from_slice(br#","result":"#);
    Ok(())
}
