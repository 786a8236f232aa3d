//! Replies to requests.

use std::sync::Arc;

use mcp_protocol::dialect::{Lower, Lowering};
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::messages::{EmptyResult, Id, write};
use mcp_protocol::meta::Meta;
#[cfg(feature = "http")]
use mcp_protocol::oauth::scopes::Scopes;
use mcp_protocol::{Dialect, Json};

use crate::connection::write_error;

/// A reply that is not serialized yet.
pub(crate) enum Reply {
    Result(Box<dyn Lower + Send + Sync>),
    /// A serialized page of a list.
    Page(Arc<Json>),
    Empty,
    Error(ErrorObject),
    /// The request was not started, because the caller lacks scopes. Contains all scopes that the request needs.
    #[cfg(feature = "http")]
    InsufficientScope(Scopes),
    /// The error message for a request that was not started, because a limit of the whole server is reached.
    Overloaded(&'static str),
}

impl Reply {
    pub(crate) fn result(result: impl Lower + Send + Sync + 'static) -> Self {
        Self::Result(Box::new(result))
    }

    /// Writes the response. `meta` contains the server info and is added to a modern result.
    pub(crate) fn write(
        &self,
        out: &mut Vec<u8>,
        id: &Id,
        dialect: Dialect,
        meta: &Meta,
    ) -> Result<(), serde_json::Error> {
        let cx = Lowering::to(dialect).with_meta(meta);
        let written = match self {
            Self::Result(result) => write::response(out, id, &cx.root(&**result)),
            Self::Empty => write::response(out, id, &cx.root(&EmptyResult::new())),
            Self::Page(page) => write::response(out, id, &**page),
            Self::Error(error) => return write_error(out, Some(id), dialect, error),
            #[cfg(feature = "http")]
            Self::InsufficientScope(needed) => {
                let error = ErrorObject::new(
                    ErrorCode::InvalidRequest,
                    format!("the caller lacks scopes: `{needed}`"),
                );
                return write_error(out, Some(id), dialect, &error);
            }
            Self::Overloaded(why) => {
                return write_error(
                    out,
                    Some(id),
                    dialect,
                    &ErrorObject::new(ErrorCode::InternalError, *why),
                );
            }
        };
        // The protocol version may not support this result; the client gets an error instead of no response.
        written.or_else(|fault| {
            write_error(
                out,
                Some(id),
                dialect,
                &ErrorObject::new(ErrorCode::InternalError, fault.to_string()),
            )
        })
    }
}
