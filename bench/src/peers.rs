//! One whole call through two peers in memory: written once and parsed once each way, with its deadline.

use std::borrow::Cow;
use std::hint::black_box;
use std::time::Instant;

use mcp_protocol::codec::line::{Line, LineBuffer, Lines};
use mcp_protocol::messages::{Incoming, Message, Method, parse_bytes, write};
use mcp_protocol::peer::{Arrival, DuplicateIds, Peer, Timeouts};
use mcp_protocol::tools::{CallToolParams, CallToolResult};
use mcp_protocol::{Dialect, Json, Limits};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::alloc;
use crate::bare::Add;

const DIALECT: Dialect = Dialect::V2025_11_25;

struct Pair {
    limits: Limits,
    client: Peer,
    server: Peer,
    up: LineBuffer,
    down: LineBuffer,
    client_lines: Lines,
    server_lines: Lines,
}

impl Pair {
    fn new() -> Self {
        let limits = Limits::default();
        Self {
            client: Peer::client(limits.clone()),
            server: Peer::server(limits.clone(), DuplicateIds::Unnamed),
            up: LineBuffer::default(),
            down: LineBuffer::default(),
            client_lines: Lines::new(&limits),
            server_lines: Lines::new(&limits),
            limits,
        }
    }

    fn call(&mut self, a: i64, b: i64, now: Instant) -> String {
        let params = CallToolParams::new("add").arguments(Json::of(&Arguments { a, b }).unwrap());
        let call = self.client.open(&Method::ToolsCall, Timeouts::default(), now).unwrap();
        self.up
            .line(|out| write::request(out, &call.id(), &Method::ToolsCall, &DIALECT.lower(&params)))
            .unwrap();

        self.server_lines.push(self.up.bytes());
        self.up.advance(usize::MAX);
        let Some(Line::Whole(line)) = self.server_lines.poll_line() else { panic!() };
        let Ok(Incoming::Message(message)) = parse_bytes(line, &self.limits) else { panic!() };
        assert_eq!(self.server.handle_message(&message, now), Arrival::Request);
        let Message::Request(request) = &message else { panic!() };
        let name: Cow<'_, str> = request.params.parse_member("name").unwrap().unwrap();
        assert_eq!(name, "add");
        let Add { a, b } = request.params.parse_member("arguments").unwrap().unwrap();
        let result = CallToolResult::text((a + b).to_string());
        assert!(self.server.complete_request(&request.id));
        self.down.line(|out| write::response(out, &request.id, &DIALECT.lower(&result))).unwrap();

        self.client_lines.push(self.down.bytes());
        self.down.advance(usize::MAX);
        let Some(Line::Whole(line)) = self.client_lines.poll_line() else { panic!() };
        let Ok(Incoming::Message(message)) = parse_bytes(line, &self.limits) else { panic!() };
        assert_eq!(self.client.handle_message(&message, now), Arrival::Response(call));
        let Message::Response(response) = &message else { panic!() };
        let mut result: CallToolResult = DIALECT.raise(response.outcome.as_ref().unwrap()).unwrap();
        match result.content.pop() {
            Some(mcp_protocol::content::ContentBlock::Text(text)) => text.text,
            _ => panic!(),
        }
    }
}

#[derive(Serialize)]
struct Arguments {
    a: i64,
    b: i64,
}

#[derive(Serialize, Deserialize)]
struct BareRequest<'a, P> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    id: i64,
    #[serde(borrow)]
    method: Cow<'a, str>,
    params: P,
}

#[derive(Serialize)]
struct BareParams<'a> {
    name: &'a str,
    arguments: Arguments,
}

#[derive(Deserialize)]
struct BareParamsIn {
    name: String,
    arguments: Add,
}

#[derive(Serialize, Deserialize)]
struct BareResponse<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    id: i64,
    result: BareResult,
}

#[derive(Serialize, Deserialize)]
struct BareResult {
    content: Vec<BareText>,
}

#[derive(Serialize, Deserialize)]
struct BareText {
    r#type: String,
    text: String,
}

fn bare(out: &mut Vec<u8>, a: i64, b: i64) -> String {
    out.clear();
    let params = BareParams { name: "add", arguments: Arguments { a, b } };
    let request = BareRequest { jsonrpc: "2.0".into(), id: 1, method: "tools/call".into(), params };
    serde_json::to_writer(&mut *out, &request).unwrap();
    let request: BareRequest<'_, BareParamsIn> = serde_json::from_slice(out).unwrap();
    assert!(request.params.name == "add" && request.method == "tools/call");
    let Add { a, b } = request.params.arguments;
    let id = request.id;
    out.clear();
    let result = BareResult { content: vec![BareText { r#type: "text".into(), text: (a + b).to_string() }] };
    serde_json::to_writer(&mut *out, &BareResponse { jsonrpc: "2.0".into(), id, result }).unwrap();
    let mut response: BareResponse<'_> = serde_json::from_slice(out).unwrap();
    response.result.content.pop().unwrap().text
}

/// What the case is called.
pub const NAME: &str = "call through two peers";

pub fn measure(rounds: usize) -> Value {
    let mut pair = Pair::new();
    let mut out = Vec::new();
    let now = Instant::now();
    assert_eq!(pair.call(2, 40, now), bare(&mut out, 2, 40));
    let allocs = alloc::count(|| {
        pair.call(2, 40, now);
    });
    let mut work: Vec<Box<dyn FnMut()>> = vec![
        Box::new(move || {
            black_box(bare(&mut out, black_box(2), black_box(40)));
        }),
        Box::new(move || {
            black_box(pair.call(black_box(2), black_box(40), now));
        }),
    ];
    let times = crate::interleaved(rounds, work.iter_mut().collect());
    let micros = |at: usize| times[at].as_secs_f64() * 1e6;
    println!(
        "{:<22} {:>10.3} {:>10.3} {:>10} {:>8.2} {:>8.2} {:>8} {:>9}",
        NAME,
        micros(0),
        micros(1),
        "-",
        micros(1) / micros(0),
        3.0,
        "-",
        allocs
    );
    json!({"case": NAME, "bare_us": micros(0), "ours_us": micros(1),
        "ours_ratio": micros(1) / micros(0), "target": 3.0, "allocations": allocs, "allocations_target": 12})
}
