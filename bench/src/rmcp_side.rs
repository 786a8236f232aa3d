//! The same work through rmcp's types.

use std::sync::Arc;

use rmcp::model::{
    CallToolResult, ClientJsonRpcMessage, ClientRequest, ContentBlock, JsonRpcMessage, ListToolsResult,
    RequestId, ServerJsonRpcMessage, ServerResult, Tool,
};

use crate::bare::{Add, Echo, SCHEMA, quoted};

pub const VERSION: &str = "3.8.0";

fn request(message: &[u8]) -> (RequestId, ClientRequest) {
    match serde_json::from_slice(message).unwrap() {
        ClientJsonRpcMessage::Request(request) => (request.id, request.request),
        _ => panic!(),
    }
}

fn call<A: serde::de::DeserializeOwned>(message: &[u8], tool: &str) -> (RequestId, A) {
    let (id, ClientRequest::CallToolRequest(request)) = request(message) else { panic!() };
    assert_eq!(request.params.name, tool);
    let arguments = serde_json::Value::Object(request.params.arguments.unwrap());
    (id, serde_json::from_value(arguments).unwrap())
}

fn answer(out: &mut Vec<u8>, id: RequestId, result: ServerResult) {
    let message: ServerJsonRpcMessage = JsonRpcMessage::response(result, id);
    serde_json::to_writer(out, &message).unwrap();
}

pub fn add(message: &[u8], out: &mut Vec<u8>) {
    let (id, Add { a, b }) = call(message, "add");
    answer(
        out,
        id,
        ServerResult::CallToolResult(CallToolResult::success(vec![ContentBlock::text((a + b).to_string())])),
    );
}

pub fn echo(message: &[u8], out: &mut Vec<u8>) {
    let (id, Echo { text }) = call(message, "echo");
    answer(out, id, ServerResult::CallToolResult(CallToolResult::success(vec![ContentBlock::text(text)])));
}

pub fn list(count: usize) -> impl FnMut(&[u8], &mut Vec<u8>) {
    let schema: Arc<serde_json::Map<String, serde_json::Value>> =
        Arc::new(serde_json::from_str(SCHEMA).unwrap());
    let tools: Vec<Tool> = (0..count)
        .map(|n| {
            Tool::new(
                format!("tool_{n}"),
                format!("Does the thing number {n} and tells about it."),
                schema.clone(),
            )
        })
        .collect();
    move |message, out| {
        let (id, ClientRequest::ListToolsRequest(_)) = request(message) else { panic!() };
        answer(out, id, ServerResult::ListToolsResult(ListToolsResult::with_all_items(tools.clone())));
    }
}

fn result(message: &[u8]) -> ServerResult {
    match serde_json::from_slice(message).unwrap() {
        ServerJsonRpcMessage::Response(response) => response.result,
        _ => panic!(),
    }
}

pub fn outcome(message: &[u8], out: &mut Vec<u8>) {
    let ServerResult::CallToolResult(result) = result(message) else { panic!() };
    quoted(out, &result.content[0].as_text().unwrap().text);
}

pub fn tools(message: &[u8], out: &mut Vec<u8>) {
    let ServerResult::ListToolsResult(result) = result(message) else { panic!() };
    quoted(out, &result.tools[999].name);
}
