use mcp_protocol::messages::{Incoming, Message, parse_bytes};
use mcp_protocol::Limits;
use std::hint::black_box;
use std::time::Instant;
fn main() {
    let text = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"io.modelcontextprotocol/clientInfo":{"name":"ExampleClient","version":"1.0.0"},"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"arguments":{"a":2,"b":40},"name":"add"}}"#;
    let limits = Limits::default();
    let n = 200_000;
    for _ in 0..3 {
    let t = Instant::now();
    for _ in 0..n { black_box(std::str::from_utf8(black_box(text.as_bytes())).unwrap()); }
    let utf = t.elapsed()/n;
    let t = Instant::now();
    for _ in 0..n { black_box(parse_bytes(black_box(text.as_bytes()), &limits).unwrap()); }
    let env = t.elapsed()/n;
    let Ok(Incoming::Message(Message::Request(r))) = parse_bytes(text.as_bytes(), &limits) else { panic!() };
    let t = Instant::now();
    for _ in 0..n { black_box(black_box(&r).params.meta().unwrap()); }
    let meta = t.elapsed()/n;
    let t = Instant::now();
    for _ in 0..n { black_box(black_box(&r).params.parse_member::<serde::de::IgnoredAny>("_meta").unwrap()); }
    let ign = t.elapsed()/n;
    println!("utf8 {utf:?} envelope {env:?} meta {meta:?} ignored {ign:?}");
    }
    println!("{} {}", std::mem::size_of::<mcp_protocol::meta::Meta>(), std::mem::size_of::<mcp_protocol::capabilities::ClientCapabilities>());
}
