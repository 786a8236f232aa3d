//! What answers a request.

use std::sync::Arc;

use mcp_protocol::completion::CompleteResult;
use mcp_protocol::dialect::{Lower, Lowering};
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::input::InputRequiredResult;
use mcp_protocol::messages::{DiscoverResult, EmptyResult, Id, InitializeResult, write};
use mcp_protocol::meta::Meta;
use mcp_protocol::prompts::GetPromptResult;
use mcp_protocol::resources::ReadResourceResult;
use mcp_protocol::subscriptions::ListenResult;
use mcp_protocol::tools::CallToolResult;
use mcp_protocol::{Dialect, Json};

/// What answers a request, before it is written.
#[derive(Debug)]
pub(crate) enum Reply {
    Tool(CallToolResult),
    Prompt(GetPromptResult),
    Read(ReadResourceResult),
    Complete(CompleteResult),
    InputRequired(InputRequiredResult),
    Discover(Box<DiscoverResult>),
    Initialize(Box<InitializeResult>),
    /// A page of a list, as it was written before.
    Page(Arc<Json>),
    Listen(ListenResult),
    Empty,
    Error(ErrorObject),
}

impl Reply {
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
            Self::Tool(result) => result_of(out, id, cx, result),
            Self::Prompt(result) => result_of(out, id, cx, result),
            Self::Read(result) => result_of(out, id, cx, result),
            Self::Complete(result) => result_of(out, id, cx, result),
            Self::InputRequired(result) => result_of(out, id, cx, result),
            Self::Discover(result) => result_of(out, id, cx, &**result),
            Self::Initialize(result) => result_of(out, id, cx, &**result),
            Self::Listen(result) => result_of(out, id, cx, result),
            Self::Empty => result_of(out, id, cx, &EmptyResult::new()),
            Self::Page(page) => write::response(out, id, &**page),
            Self::Error(error) => return error_of(out, id, dialect, error),
        };
        // The version may have no way to say this; the client is told rather than left waiting.
        written.or_else(|fault| {
            error_of(out, id, dialect, &ErrorObject::new(ErrorCode::InternalError, fault.to_string()))
        })
    }
}

fn result_of(
    out: &mut Vec<u8>,
    id: &Id,
    cx: Lowering<'_>,
    result: &impl Lower,
) -> Result<(), serde_json::Error> {
    write::response(out, id, &cx.root(result))
}

fn error_of(
    out: &mut Vec<u8>,
    id: &Id,
    dialect: Dialect,
    error: &ErrorObject,
) -> Result<(), serde_json::Error> {
    write::error(out, Some(id), write::NoId::Omitted, &dialect.lower(error))
}
