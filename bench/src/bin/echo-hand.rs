//! An echo server by hand: std, serde_json, and nothing that a real server needs.

use std::borrow::Cow;
use std::io::{BufRead, BufReader, Write};

use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Deserialize)]
struct Message<'a> {
    id: Option<i64>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Option<&'a serde_json::value::RawValue>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    arguments: Arguments<'a>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

#[derive(Serialize)]
struct Response<R> {
    jsonrpc: &'static str,
    id: i64,
    result: R,
}

#[derive(Serialize)]
struct Called<'a> {
    content: [Text<'a>; 1],
}

#[derive(Serialize)]
struct Text<'a> {
    r#type: &'static str,
    text: Cow<'a, str>,
}

fn main() {
    let count: usize = std::env::args().nth(2).and_then(|count| count.parse().ok()).unwrap_or(0);
    let schema: serde_json::Value = serde_json::from_str(mcp_bench::SCHEMA).unwrap();
    let tools: Vec<_> = (0..count)
        .map(|n| json!({"name": format!("tool_{n}"), "description": format!("Does the thing number {n} and tells about it."), "inputSchema": schema}))
        .collect();
    let list = json!({ "tools": tools });
    let mut input = BufReader::with_capacity(64 << 10, std::io::stdin().lock());
    let mut output = std::io::stdout().lock();
    let (mut line, mut out) = (Vec::new(), Vec::new());
    while input.read_until(b'\n', &mut line).unwrap() > 0 {
        let message: Message<'_> = serde_json::from_slice(&line).unwrap();
        if let Some(id) = message.id {
            match &*message.method {
                "tools/call" => {
                    let params: Params<'_> = serde_json::from_str(message.params.unwrap().get()).unwrap();
                    let content = [Text { r#type: "text", text: params.arguments.text }];
                    serde_json::to_writer(
                        &mut out,
                        &Response { jsonrpc: "2.0", id, result: Called { content } },
                    )
                    .unwrap();
                }
                "tools/list" => {
                    serde_json::to_writer(&mut out, &Response { jsonrpc: "2.0", id, result: &list }).unwrap()
                }
                _ => {
                    let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "echo", "version": "1"}});
                    serde_json::to_writer(&mut out, &Response { jsonrpc: "2.0", id, result }).unwrap();
                }
            }
            out.push(b'\n');
        }
        line.clear();
        // What is ready at the same moment leaves in one write.
        if !input.buffer().contains(&b'\n') || out.len() > 60_000 {
            output.write_all(&out).unwrap();
            output.flush().unwrap();
            out.clear();
        }
    }
}
