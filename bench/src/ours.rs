//! The same work through mcp-protocol, as a server does it: nothing is left out that a real one needs.

use mcp_protocol::dialect::Lowering;
use mcp_protocol::messages::{Incoming, Message, Method, Request, parse_bytes, write};
use mcp_protocol::tools::{CallToolResult, ListToolsResult, Tool};
use mcp_protocol::{Dialect, Era, Json, Limits};
use serde::de::DeserializeOwned;

use crate::bare::{Add, Echo, SCHEMA};

fn request<'a>(message: &'a [u8], limits: &Limits, expected: Method) -> Request<'a> {
    let Ok(Incoming::Message(Message::Request(request))) = parse_bytes(message, limits) else { panic!() };
    assert_eq!(request.method, expected);
    request
}

fn call<'a, A: DeserializeOwned>(
    message: &'a [u8],
    limits: &Limits,
    dialect: Dialect,
    tool: &str,
) -> (Request<'a>, A) {
    let request = request(message, limits, Method::ToolsCall);
    if dialect.era() == Era::Modern {
        let meta = request.params.meta().unwrap().unwrap();
        assert!(meta.missing_from_envelope().is_empty());
        assert_eq!(meta.protocol_version.as_ref(), Some(dialect.version()));
    }
    let name: std::borrow::Cow<'_, str> = request.params.parse_member("name").unwrap().unwrap();
    assert_eq!(name, tool);
    let arguments = request.params.parse_member("arguments").unwrap().unwrap();
    (request, arguments)
}

fn answer(out: &mut Vec<u8>, request: &Request<'_>, dialect: Dialect, text: String) {
    let result = CallToolResult::text(text);
    write::response(out, &request.id, &Lowering::to(dialect).root(&result)).unwrap();
}

pub fn add(dialect: Dialect) -> impl FnMut(&[u8], &mut Vec<u8>) {
    let limits = Limits::default();
    move |message, out| {
        let (request, Add { a, b }) = call(message, &limits, dialect, "add");
        answer(out, &request, dialect, (a + b).to_string());
    }
}

pub fn echo(message: &[u8], out: &mut Vec<u8>) {
    let (request, Echo { text }) = call(message, &Limits::default(), Dialect::V2025_11_25, "echo");
    answer(out, &request, Dialect::V2025_11_25, text);
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
    // The list did not change since it was last written.
    let kept = Json::of(&Dialect::V2025_11_25.lower(&ListToolsResult::new(tools))).unwrap();
    move |message, out| {
        let request = request(message, &limits, Method::ToolsList);
        write::response(out, &request.id, &kept).unwrap();
    }
}
