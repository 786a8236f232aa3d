//! The server side: one tool, both eras.

use std::time::Instant;

use mcp_protocol::capabilities::{Implementation, ListCapability, ServerCapabilities};
use mcp_protocol::codec::line::{Line, LineBuffer, Lines};
use mcp_protocol::dialect::{Dialect, Lower, Lowering};
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::messages::{
    DiscoverResult, Id, Incoming, InitializeResult, Message, Method, Request, parse_bytes, write,
};
use mcp_protocol::negotiation::{StdioClassification, StdioServerNegotiation};
use mcp_protocol::peer::{Arrival, DuplicateIds, Peer};
use mcp_protocol::tools::{CallToolParams, CallToolResult, ListToolsResult, Tool};
use mcp_protocol::version::SUPPORTED;
use mcp_protocol::{Json, Limits};
use serde_json::json;

pub(crate) struct Server {
    limits: Limits,
    lines: Lines,
    eras: StdioServerNegotiation,
    peer: Peer,
    outbox: LineBuffer,
}

impl Server {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            limits: limits.clone(),
            lines: Lines::new(limits),
            eras: StdioServerNegotiation::new(SUPPORTED),
            peer: Peer::server(limits.clone(), DuplicateIds::Unnamed),
            outbox: LineBuffer::default(),
        }
    }

    /// Handles bytes from the client and returns the bytes to send back.
    pub(crate) fn receive(&mut self, bytes: &[u8], now: Instant) -> &[u8] {
        self.lines.push(bytes);
        while let Some(Line::Whole(line)) = self.lines.poll_line() {
            let Ok(Incoming::Message(message)) = parse_bytes(line, &self.limits) else { continue };
            let negotiation = self.eras.classify(&message);
            let arrival = self.peer.handle_message(&message, now);
            if let (Arrival::Request, Message::Request(request)) = (arrival, &message)
                && self.peer.complete_request(&request.id)
            {
                answer(&mut self.outbox, negotiation, request);
            }
        }
        self.outbox.bytes()
    }

    /// Discards the bytes that were returned last, because they were sent.
    pub(crate) fn sent(&mut self) {
        self.outbox.advance(usize::MAX);
    }
}

fn answer(outbox: &mut LineBuffer, negotiation: StdioClassification, request: &Request<'_>) {
    match negotiation {
        StdioClassification::Initialize(dialect, _) => {
            let result = InitializeResult::new(dialect.version().clone(), capabilities(), name());
            respond(outbox, dialect, &request.id, Ok(&result));
        }
        StdioClassification::Modern(dialect, _) | StdioClassification::Legacy(dialect) => {
            serve(outbox, dialect, request)
        }
        StdioClassification::Reject(error) => {
            respond::<CallToolResult>(outbox, newest(), &request.id, Err(error))
        }
        _ => {}
    }
}

fn serve(outbox: &mut LineBuffer, dialect: Dialect, request: &Request<'_>) {
    let id = &request.id;
    match request.method {
        Method::Discover => respond(outbox, dialect, id, Ok(&DiscoverResult::new(SUPPORTED, capabilities()))),
        Method::ToolsList => respond(outbox, dialect, id, Ok(&ListToolsResult::new([add()]))),
        Method::ToolsCall => {
            respond(outbox, dialect, id, call(dialect, request).as_ref().map_err(Clone::clone))
        }
        _ => {
            let error = ErrorObject::new(ErrorCode::MethodNotFound, "not offered");
            respond::<CallToolResult>(outbox, dialect, id, Err(error));
        }
    }
}

fn add() -> Tool {
    let number = json!({"type": "integer"});
    let schema = json!({"type": "object", "properties": {"a": number, "b": number}, "required": ["a", "b"]});
    Tool::new("add", schema).title("Add").description("Adds two numbers.")
}

fn call(dialect: Dialect, request: &Request<'_>) -> Result<CallToolResult, ErrorObject> {
    let invalid = |message: String| ErrorObject::new(ErrorCode::InvalidParams, message);
    let params: CallToolParams =
        dialect.raise(&request.params).map_err(|error| invalid(error.to_string()))?;
    if params.name != "add" {
        return Err(invalid(format!("unknown tool: {}", params.name)));
    }
    let argument =
        |name| params.arguments.as_ref().and_then(|arguments| arguments.member(name)?.parse::<i64>().ok());
    Ok(match (argument("a"), argument("b")) {
        (Some(a), Some(b)) => {
            let sum = a.saturating_add(b);
            CallToolResult::text(sum.to_string()).structured_content(Json::from(json!({ "sum": sum })))
        }
        _ => CallToolResult::error("`a` and `b` must be whole numbers"),
    })
}

fn respond<T: Lower>(outbox: &mut LineBuffer, dialect: Dialect, id: &Id, result: Result<&T, ErrorObject>) {
    let own = mcp_protocol::meta::Meta::new().server_info(name());
    let lowering = Lowering::to(dialect).with_meta(&own);
    let written = outbox.line(|out| match &result {
        Ok(result) => write::response(out, id, &lowering.root(*result)),
        Err(error) => write::error(out, Some(id), write::NoId::Omitted, &dialect.lower(error)),
    });
    if let Err(error) = written {
        eprintln!("cannot write a response: {error}");
    }
}

fn capabilities() -> ServerCapabilities {
    ServerCapabilities::new().tools(ListCapability::new())
}

fn name() -> Implementation {
    Implementation::new("conversation-server", env!("CARGO_PKG_VERSION"))
}

fn newest() -> Dialect {
    Dialect::V2026_07_28
}
