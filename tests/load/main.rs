//! Bounded load on the release build of the everything example: `cargo run --release -p mcp-tests --bin load [PART]…`
//!
//! - `stdio`: a million pipelined calls; each is answered once, with its own text, and memory stays flat
//! - `http`: the same with 100,000 calls of each era on 64 connections
//! - `disconnect`: three waves of 500 slow calls whose clients leave; none runs two seconds later
//! - `sessions`: 100,000 legacy sessions are opened and abandoned: the idlest make room for others, all become idle in
//!   the end, and memory stays flat
//! - `leavers`: 35,000 clients leave while they are asked; the next one is served, and the cost grows in proportion
//! - `hoarders`: sessions, subscriptions and bodies as large as they may be, until the server is full; its memory stays
//!   below a stated ceiling, and others are served
//! - `children`: our client with 300 children at once, all usable, no thread for any of them, none left
//! - `cycles`: our client through 900 lives; descriptors, threads, futures and memory stay as they were
//! - `lists`: four times as many tools with wrong annotations on one page cost at most five times the time
//! - `schemas`: a schema that is four times as long and as deep costs at most five times the time
//!
//! Build the example before: `cargo build --release -p example-everything`. Memory is the server's own, from the kernel.

mod bounds;
mod clients;
mod growth;
mod http;
mod server;
mod sessions;
mod stdio;

use std::process::ExitCode;
use std::time::Instant;

/// What a part is called, and what it does: the line that it prints, or why it failed.
type Part = (&'static str, fn() -> Result<String, String>);

const PARTS: &[Part] = &[
    ("stdio", stdio::pipelined),
    ("http", http::both_eras),
    ("disconnect", http::disconnect),
    ("sessions", sessions::abandoned),
    ("leavers", bounds::leavers),
    ("hoarders", bounds::hoarders),
    ("children", clients::children),
    ("cycles", clients::cycles),
    ("lists", growth::lists),
    ("schemas", growth::schemas),
];

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = wanted.iter().find(|name| PARTS.iter().all(|(part, _)| part != name)) {
        let known: Vec<_> = PARTS.iter().map(|(name, _)| *name).collect();
        eprintln!("`{unknown}` is not known: {}", known.join(", "));
        return ExitCode::from(2);
    }
    let mut failed = false;
    for (name, part) in PARTS.iter().filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|w| w == name))
    {
        let start = Instant::now();
        match part() {
            Ok(figures) => println!("{name}: {figures}, {:.1} s", start.elapsed().as_secs_f64()),
            Err(problem) => {
                eprintln!("error: {name}: {problem}");
                failed = true;
            }
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The text that a call with this id sends, and wants back.
fn text_of(id: u64) -> String {
    format!("call {id}")
}

/// The body of a call of a tool; with the metadata of the modern era, if it is one.
fn call(id: u64, tool: &str, arguments: &serde_json::Value, is_modern: bool) -> String {
    let mut params = serde_json::json!({ "name": tool, "arguments": arguments });
    if is_modern {
        params["_meta"] = serde_json::json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "load", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
    }
    serde_json::json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
}

fn initialize() -> String {
    initialize_as(&serde_json::json!({ "name": "load", "version": "1" }))
}

/// `initialize` of a client that can be asked and says this of itself.
fn initialize_as(info: &serde_json::Value) -> String {
    let params = serde_json::json!({
        "protocolVersion": "2025-11-25", "capabilities": { "elicitation": {} }, "clientInfo": info,
    });
    serde_json::json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }).to_string()
}

/// The id and the text of the response of a tool.
fn id_and_text(response: &[u8]) -> Result<(u64, String), String> {
    let wrong = || format!("not the response of a tool: {}", String::from_utf8_lossy(response));
    let response: serde_json::Value = serde_json::from_slice(response).map_err(|_| wrong())?;
    let id = response["id"].as_u64().ok_or_else(wrong)?;
    let text = response["result"]["content"][0]["text"].as_str().ok_or_else(wrong)?;
    Ok((id, text.to_owned()))
}
