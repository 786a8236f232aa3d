//! Parses and answers messages, side by side: bare serde_json, this crate, rmcp.
//!
//! `cargo run --release [ROUNDS [CASE]]` in this folder prints a table and writes `target/bench.json`. All contenders run
//! interleaved on one thread, so that a busy machine slows them alike; read the ratios, not the times.

mod alloc;
mod bare;
mod ours;
mod peers;
mod rmcp_side;

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

type Contender = Box<dyn FnMut(&[u8], &mut Vec<u8>)>;

struct Case {
    name: &'static str,
    message: String,
    /// What we want to reach, as a multiple of bare.
    target: f64,
    bare: Contender,
    ours: Contender,
    rmcp: Option<Contender>,
}

fn main() {
    let rounds: usize = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(60);
    let only = std::env::args().nth(2).unwrap_or_default();
    println!("rmcp {}, {rounds} interleaved rounds", rmcp_side::VERSION);
    println!(
        "{:<22} {:>10} {:>10} {:>10} {:>8} {:>8} {:>8} {:>9}",
        "case", "bare µs", "ours µs", "rmcp µs", "ours/b", "target", "rmcp/b", "allocs"
    );
    let mut rows = Vec::new();
    for mut case in cases().into_iter().filter(|case| case.name.contains(&only)) {
        check(&mut case);
        rows.push(measure(&mut case, rounds));
    }
    if peers::NAME.contains(&only) {
        rows.push(peers::measure(rounds));
    }
    std::fs::create_dir_all("target").ok();
    std::fs::write("target/bench.json", serde_json::to_string_pretty(&rows).unwrap()).unwrap();
}

fn cases() -> Vec<Case> {
    let envelope = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "ExampleClient", "version": "1.0.0"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    });
    let call = |name: &str, arguments: Value| json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": name, "arguments": arguments}});
    let mut modern = call("add", json!({"a": 2, "b": 40}));
    modern["params"]["_meta"] = envelope;
    let plain = "the quick brown fox jumps over it ".repeat((1 << 20) / 34);
    let escaped = "say \"hi\"\n\tand\\or é ".repeat((1 << 20) / 20);
    let echo = |text: &str| call("echo", json!({"text": text})).to_string();
    let list = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {}}).to_string();
    let result = json!({"jsonrpc": "2.0", "id": 7, "result": {"content": [{"type": "text", "text": "hello there"}],
        "structuredContent": {"sum": 42}, "isError": false}});
    let mut tiny = Vec::new();
    bare::list(1000)(list.as_bytes(), &mut tiny);
    let tools: Vec<Value> = (0..1000).map(tool).collect();
    let tools = json!({"jsonrpc": "2.0", "id": 7, "result": {"tools": tools}}).to_string();
    vec![
        Case {
            name: "small call, legacy",
            message: call("add", json!({"a": 2, "b": 40})).to_string(),
            target: 1.5,
            bare: Box::new(bare::add),
            ours: Box::new(ours::add(mcp_protocol::Dialect::V2025_11_25)),
            rmcp: Some(Box::new(rmcp_side::add)),
        },
        Case {
            name: "small call, modern",
            message: modern.to_string(),
            target: 1.5,
            bare: Box::new(bare::add),
            ours: Box::new(ours::add(mcp_protocol::Dialect::V2026_07_28)),
            rmcp: Some(Box::new(rmcp_side::add)),
        },
        Case {
            name: "1 MiB call",
            message: echo(&plain),
            target: 1.2,
            bare: Box::new(bare::echo),
            ours: Box::new(ours::echo()),
            rmcp: Some(Box::new(rmcp_side::echo)),
        },
        Case {
            name: "1 MiB call, escapes",
            message: echo(&escaped),
            target: 1.6,
            bare: Box::new(bare::echo),
            ours: Box::new(ours::echo()),
            rmcp: Some(Box::new(rmcp_side::echo)),
        },
        Case {
            name: "1000 tools, unchanged",
            message: list,
            target: 0.3,
            bare: Box::new(bare::list(1000)),
            ours: Box::new(ours::list(1000)),
            rmcp: Some(Box::new(rmcp_side::list(1000))),
        },
        // What a client does. Here bare is `Value`, which is no physical limit but what many a program takes.
        Case {
            name: "small result",
            message: result.to_string(),
            target: 1.0,
            bare: Box::new(bare::outcome),
            ours: Box::new(ours::outcome()),
            rmcp: Some(Box::new(rmcp_side::outcome)),
        },
        Case {
            name: "list of 1000 tools",
            message: tools,
            target: 0.5,
            bare: Box::new(bare::tools),
            ours: Box::new(ours::tools()),
            rmcp: Some(Box::new(rmcp_side::tools)),
        },
        Case {
            name: "list of 1000, tiny",
            message: String::from_utf8(tiny).unwrap(),
            target: 0.5,
            bare: Box::new(bare::tools),
            ours: Box::new(ours::tools()),
            rmcp: Some(Box::new(rmcp_side::tools)),
        },
    ]
}

/// A tool as servers of a large service have them: what it does in a paragraph, and a dozen parameters that are explained.
fn tool(number: usize) -> Value {
    let parameters = [
        "owner",
        "repository",
        "title",
        "body",
        "head",
        "base",
        "labels",
        "assignees",
        "milestone",
        "draft",
        "page",
        "perPage",
    ];
    let properties: serde_json::Map<String, Value> = parameters
        .iter()
        .map(|name| {
            let kind = if name.ends_with("age") { "integer" } else { "string" };
            let words = format!("The {name} of what is changed; leave it out to keep what is there.");
            (name.to_string(), json!({"type": kind, "description": words}))
        })
        .collect();
    json!({
        "name": format!("tool_{number}"),
        "title": format!("Change thing {number}"),
        "description": format!("Changes the thing number {number} in a repository and tells what was changed. \
            Use it when the user asks for a change, never to look something up: that is what the others are for."),
        "inputSchema": {"type": "object", "properties": properties, "required": ["owner", "repository", "title"]},
        "annotations": {"readOnlyHint": false, "destructiveHint": false, "idempotentHint": true},
    })
}

/// All contenders say the same, or the numbers mean nothing.
fn check(case: &mut Case) {
    let answer = |contender: &mut Contender| {
        let mut out = Vec::new();
        contender(case.message.as_bytes(), &mut out);
        let answer: Value = serde_json::from_slice(&out).unwrap();
        (
            answer["id"].clone(),
            answer["result"]["content"][0]["text"].clone(),
            answer["result"]["tools"][999]["name"].clone(),
            answer.as_str().map(str::to_owned),
        )
    };
    let expected = answer(&mut case.bare);
    assert_eq!(answer(&mut case.ours), expected, "{}", case.name);
    if let Some(rmcp) = &mut case.rmcp {
        assert_eq!(answer(rmcp), expected, "{}", case.name);
    }
}

fn measure(case: &mut Case, rounds: usize) -> Value {
    let Case { name, message, target, bare, ours, rmcp } = case;
    let message = message.as_bytes();
    let mut contenders: Vec<&mut Contender> = vec![bare, ours];
    contenders.extend(rmcp);
    let times = interleaved(
        rounds,
        contenders
            .iter_mut()
            .map(|contender| {
                let mut out = Vec::new();
                move || {
                    out.clear();
                    contender(black_box(message), &mut out);
                    black_box(&out);
                }
            })
            .collect(),
    );
    let mut out = Vec::with_capacity(4 << 20);
    let allocs = alloc::count(|| contenders[1](message, &mut out));
    let micros = |at: usize| times.get(at).map(|time| time.as_secs_f64() * 1e6);
    let ratio = |at: usize| times.get(at).map(|time| time.as_secs_f64() / times[0].as_secs_f64());
    println!(
        "{:<22} {:>10.3} {:>10.3} {:>10.3} {:>8.2} {:>8.2} {:>8.2} {:>9}",
        name,
        micros(0).unwrap(),
        micros(1).unwrap(),
        micros(2).unwrap_or(0.0),
        ratio(1).unwrap(),
        target,
        ratio(2).unwrap_or(0.0),
        allocs
    );
    json!({"case": name, "bytes": message.len(), "bare_us": micros(0), "ours_us": micros(1), "rmcp_us": micros(2),
        "ours_ratio": ratio(1), "rmcp_ratio": ratio(2), "target": target, "allocations": allocs})
}

/// The median time of one run of each contender, over interleaved rounds.
pub fn interleaved(rounds: usize, mut contenders: Vec<impl FnMut()>) -> Vec<Duration> {
    let mut times = vec![Vec::new(); contenders.len()];
    let repeats: Vec<u32> = contenders
        .iter_mut()
        .map(|contender| {
            let start = Instant::now();
            contender();
            (Duration::from_millis(2).as_nanos() / start.elapsed().as_nanos().max(1)).clamp(1, 100_000) as u32
        })
        .collect();
    for _ in 0..rounds {
        for ((contender, repeats), times) in contenders.iter_mut().zip(&repeats).zip(&mut times) {
            let start = Instant::now();
            for _ in 0..*repeats {
                contender();
            }
            times.push(start.elapsed() / *repeats);
        }
    }
    times
        .iter_mut()
        .map(|times| {
            times.sort();
            times[times.len() / 2]
        })
        .collect()
}
