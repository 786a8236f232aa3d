//! The same work through mcp-protocol, as mcp-server does it: envelope, era, then the members that are needed.

use mcp_protocol::dialect::Lowering;
use mcp_protocol::messages::{Incoming, Message, Method, OwnedBody, Request, parse_bytes, write};
use mcp_protocol::negotiation::{StdioClassification, StdioServerNegotiation};
use mcp_protocol::tools::{CallToolResponse, CallToolResult, ListToolsResult, Tool};
use mcp_protocol::version::SUPPORTED;
use mcp_protocol::{Dialect, Json, Limits};
use serde::de::DeserializeOwned;

use crate::bare::{Add, Echo, SCHEMA, quoted};

fn call<'a, A: DeserializeOwned>(
    message: &'a [u8],
    limits: &Limits,
    dialect: Dialect,
    server: &mut StdioServerNegotiation,
    tool: &str,
) -> (Request<'a>, A) {
    let request = request(message, limits, dialect, server, Method::ToolsCall);
    let name: std::borrow::Cow<'_, str> = request.params.parse_member("name").unwrap().unwrap();
    assert_eq!(name, tool);
    let arguments = request.params.parse_member("arguments").unwrap().unwrap();
    (request, arguments)
}

fn request<'a>(
    message: &'a [u8],
    limits: &Limits,
    dialect: Dialect,
    server: &mut StdioServerNegotiation,
    expected: Method,
) -> Request<'a> {
    let Ok(Incoming::Message(message)) = parse_bytes(message, limits) else { panic!() };
    match server.classify(&message) {
        StdioClassification::Modern(spoken, meta) => assert!(spoken == dialect && meta.client_info.is_some()),
        StdioClassification::Legacy(spoken) => assert_eq!(spoken, dialect),
        other => panic!("{other:?}"),
    }
    let Message::Request(request) = message else { panic!() };
    assert_eq!(request.method, expected);
    request
}

fn answer(out: &mut Vec<u8>, request: &Request<'_>, dialect: Dialect, text: String) {
    let result = CallToolResult::text(text);
    write::response(out, &request.id, &Lowering::to(dialect).root(&result)).unwrap();
}

pub fn add(dialect: Dialect) -> impl FnMut(&[u8], &mut Vec<u8>) {
    let limits = Limits::default();
    let mut server = server();
    move |message, out| {
        let (request, Add { a, b }) = call(message, &limits, dialect, &mut server, "add");
        answer(out, &request, dialect, (a + b).to_string());
    }
}

pub fn echo() -> impl FnMut(&[u8], &mut Vec<u8>) {
    let limits = Limits::default();
    let mut server = server();
    move |message, out| {
        let (request, Echo { text }) = call(message, &limits, Dialect::V2025_11_25, &mut server, "echo");
        answer(out, &request, Dialect::V2025_11_25, text);
    }
}

/// A server that shook hands for 2025-11-25 and takes modern requests besides.
fn server() -> StdioServerNegotiation {
    let mut server = StdioServerNegotiation::new(SUPPORTED);
    let handshake = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
    let Ok(Incoming::Message(message)) = parse_bytes(handshake, &Limits::default()) else { panic!() };
    assert!(matches!(server.classify(&message), StdioClassification::Initialize(..)));
    server
}

pub fn list(count: usize) -> impl FnMut(&[u8], &mut Vec<u8>) {
    let schema: Json = SCHEMA.parse().unwrap();
    let tools: Vec<Tool> = (0..count)
        .map(|n| {
            Tool::new(format!("tool_{n}"), schema.clone())
                .description(format!("Does the thing number {n} and tells about it."))
        })
        .collect();
    let limits = Limits::default();
    let mut server = server();
    // The list did not change since it was last written.
    let kept = Json::of(&Dialect::V2025_11_25.lower(&ListToolsResult::new(tools))).unwrap();
    move |message, out| {
        let request = request(message, &limits, Dialect::V2025_11_25, &mut server, Method::ToolsList);
        write::response(out, &request.id, &kept).unwrap();
    }
}

/// The body of a response as mcp-client hands it to the one who waits: a copy, because the line is gone by then.
fn body(message: &[u8], limits: &Limits) -> OwnedBody {
    let Ok(Incoming::Message(Message::Response(response))) = parse_bytes(message, limits) else { panic!() };
    response.outcome.unwrap().keep()
}

pub fn outcome() -> impl FnMut(&[u8], &mut Vec<u8>) {
    let limits = Limits::default();
    move |message, out| {
        let body = body(message, &limits);
        let response = CallToolResponse::raise(Dialect::V2025_11_25, &body.body()).unwrap();
        let CallToolResponse::Complete(result) = response else { panic!() };
        quoted(out, result.content[0].as_text().unwrap());
    }
}

pub fn tools() -> impl FnMut(&[u8], &mut Vec<u8>) {
    let limits = Limits::default();
    move |message, out| {
        let body = body(message, &limits);
        let (page, skipped) =
            ListToolsResult::raise_each(Dialect::V2025_11_25, &body.body(), usize::MAX).unwrap();
        assert!(skipped.is_empty());
        quoted(out, &page.tools[999].name);
    }
}
