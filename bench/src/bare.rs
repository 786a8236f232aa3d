//! The physical limit: serde_json into the smallest structs that do the job.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Request<'a, A> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    id: i64,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Params<'a, A>,
}

#[derive(Deserialize)]
struct Params<'a, A> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    arguments: A,
}

#[derive(Deserialize)]
pub struct Add {
    pub a: i64,
    pub b: i64,
}

#[derive(Deserialize)]
pub struct Echo {
    pub text: String,
}

#[derive(Serialize)]
struct Response<R> {
    jsonrpc: &'static str,
    id: i64,
    result: R,
}

#[derive(Serialize)]
struct CallResult {
    content: Vec<Text>,
}

#[derive(Serialize)]
struct Text {
    r#type: &'static str,
    text: String,
}

fn answer(out: &mut Vec<u8>, id: i64, text: String) {
    let result = CallResult { content: vec![Text { r#type: "text", text }] };
    serde_json::to_writer(out, &Response { jsonrpc: "2.0", id, result }).unwrap();
}

fn call<'a, A: Deserialize<'a>>(message: &'a [u8], tool: &str) -> (i64, A) {
    let request: Request<'a, A> = serde_json::from_slice(message).unwrap();
    assert!(request.jsonrpc == "2.0" && request.method == "tools/call" && request.params.name == tool);
    (request.id, request.params.arguments)
}

pub fn add(message: &[u8], out: &mut Vec<u8>) {
    let (id, Add { a, b }) = call(message, "add");
    answer(out, id, (a + b).to_string());
}

pub fn echo(message: &[u8], out: &mut Vec<u8>) {
    let (id, Echo { text }) = call(message, "echo");
    answer(out, id, text);
}

#[derive(Deserialize)]
struct Bare<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    id: i64,
    #[serde(borrow)]
    method: Cow<'a, str>,
}

#[derive(Serialize)]
struct Tools {
    tools: Vec<Tool>,
}

#[derive(Serialize)]
struct Tool {
    name: String,
    description: String,
    #[serde(rename = "inputSchema")]
    input_schema: Box<RawValue>,
}

pub use mcp_bench::SCHEMA;

pub fn list(count: usize) -> impl FnMut(&[u8], &mut Vec<u8>) {
    let tools = (0..count).map(|n| Tool {
        name: format!("tool_{n}"),
        description: format!("Does the thing number {n} and tells about it."),
        input_schema: RawValue::from_string(SCHEMA.into()).unwrap(),
    });
    let result = Tools { tools: tools.collect() };
    move |message, out| {
        let request: Bare<'_> = serde_json::from_slice(message).unwrap();
        assert!(request.jsonrpc == "2.0" && request.method == "tools/list");
        serde_json::to_writer(out, &Response { jsonrpc: "2.0", id: request.id, result: &result }).unwrap();
    }
}

/// A client that takes the result of a call as it comes.
pub fn outcome(message: &[u8], out: &mut Vec<u8>) {
    let message: serde_json::Value = serde_json::from_slice(message).unwrap();
    quoted(out, message["result"]["content"][0]["text"].as_str().unwrap());
}

/// The same with a list of tools.
pub fn tools(message: &[u8], out: &mut Vec<u8>) {
    let message: serde_json::Value = serde_json::from_slice(message).unwrap();
    quoted(out, message["result"]["tools"][999]["name"].as_str().unwrap());
}

pub fn quoted(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}
