//! Answers every request over stdio as fast as pipes go, without reading more of it than its id and method.
//!
//! What clients are measured against: it never changes. `--modern` makes it answer `server/discover`.

use std::io::{BufRead, BufReader, Write};

const INITIALIZED: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"responder","version":"1"}}"#;
const DISCOVERED: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}"#;
const CALLED: &str = r#"{"content":[{"type":"text","text":"hello there"}]}"#;

fn main() {
    let is_modern = std::env::args().any(|argument| argument == "--modern");
    let mut input = BufReader::with_capacity(64 << 10, std::io::stdin().lock());
    let mut output = std::io::stdout().lock();
    let (mut line, mut out) = (String::new(), Vec::new());
    while input.read_line(&mut line).unwrap() > 0 {
        if let Some((_, rest)) = line.split_once(r#""id":"#) {
            let id = &rest[..rest.find([',', '}']).unwrap()];
            out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
            out.extend_from_slice(id.as_bytes());
            let outcome = if line.contains(r#""tools/call""#) {
                Ok(CALLED)
            } else if line.contains(r#""initialize""#) {
                Ok(INITIALIZED)
            } else if is_modern && line.contains(r#""server/discover""#) {
                Ok(DISCOVERED)
            } else {
                Err(r#"{"code":-32601,"message":"no such method"}"#)
            };
            let (name, value) = outcome.map_or_else(|error| ("error", error), |result| ("result", result));
            write!(out, r#","{name}":{value}}}"#).unwrap();
            out.push(b'\n');
        }
        line.clear();
        if !input.buffer().contains(&b'\n') || out.len() > 60_000 {
            output.write_all(&out).unwrap();
            output.flush().unwrap();
            out.clear();
        }
    }
}
