//! What answers a request.

use std::sync::Arc;

use mcp_protocol::dialect::{Lower, Lowering};
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::messages::{EmptyResult, Id, write};
use mcp_protocol::meta::Meta;
use mcp_protocol::{Dialect, Json};

/// What answers a request, before it is written.
pub(crate) enum Reply {
    Result(Box<dyn Lower + Send + Sync>),
    /// A page of a list, as it was written before.
    Page(Arc<Json>),
    Empty,
    Error(ErrorObject),
    /// Nothing was done, because a limit of the whole server is reached; says which.
    Overloaded(&'static str),
}

impl Reply {
    pub(crate) fn result(result: impl Lower + Send + Sync + 'static) -> Self {
        Self::Result(Box::new(result))
    }

    /// Writes the response. `meta` is added to a modern result: what the server calls itself.
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
            Self::Error(error) => return error_of(out, id, dialect, error),
            Self::Overloaded(why) => {
                return error_of(out, id, dialect, &ErrorObject::new(ErrorCode::InternalError, *why));
            }
        };
        // The version may have no way to say this; the client is told rather than left waiting.
        written.or_else(|fault| {
            error_of(out, id, dialect, &ErrorObject::new(ErrorCode::InternalError, fault.to_string()))
        })
    }
}

fn error_of(
    out: &mut Vec<u8>,
    id: &Id,
    dialect: Dialect,
    error: &ErrorObject,
) -> Result<(), serde_json::Error> {
    write::error(out, Some(id), write::NoId::Omitted, &dialect.lower(error))
}
