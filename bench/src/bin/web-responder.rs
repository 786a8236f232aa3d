//! Answers every request over HTTP as fast as sockets go, without reading more of it than its id and method. Prints its
//! port. What clients are measured against: it never changes. `--modern` makes it answer `server/discover`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

const INITIALIZED: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"responder","version":"1"}}"#;
const DISCOVERED: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}"#;
const LISTED: &str = r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"echo","inputSchema":{"type":"object"}}]}"#;
const CALLED: &str = r#"{"content":[{"type":"text","text":"hello there"}]}"#;

fn main() {
    let is_modern = std::env::args().any(|argument| argument == "--modern");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    for stream in listener.incoming() {
        let stream = stream.unwrap();
        std::thread::spawn(move || serve(stream, is_modern));
    }
}

fn serve(stream: TcpStream, is_modern: bool) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut output = stream.try_clone()?;
    let mut input = BufReader::with_capacity(16 << 10, stream);
    let (mut line, mut body, mut out) = (String::new(), Vec::new(), Vec::new());
    loop {
        let (mut length, mut is_post, mut is_first) = (0, false, true);
        loop {
            line.clear();
            if input.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if is_first {
                is_post = line.starts_with("POST");
                is_first = false;
            } else if line == "\r\n" {
                break;
            } else if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap();
            }
        }
        body.resize(length, 0);
        input.read_exact(&mut body)?;
        let text = std::str::from_utf8(&body).unwrap();
        out.clear();
        if !is_post {
            out.extend_from_slice(b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n");
        } else if let Some((_, rest)) = text.split_once(r#""id":"#) {
            let id = &rest[..rest.find([',', '}']).unwrap()];
            let outcome = if text.contains(r#""tools/call""#) {
                Ok(CALLED)
            } else if text.contains(r#""tools/list""#) {
                Ok(LISTED)
            } else if text.contains(r#""initialize""#) {
                Ok(INITIALIZED)
            } else if is_modern && text.contains(r#""server/discover""#) {
                Ok(DISCOVERED)
            } else {
                Err(r#"{"code":-32601,"message":"no such method"}"#)
            };
            let (name, value) = outcome.map_or_else(|error| ("error", error), |result| ("result", result));
            let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"{name}":{value}}}"#);
            write!(
                out,
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{message}",
                message.len()
            )?;
        } else {
            out.extend_from_slice(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n");
        }
        output.write_all(&out)?;
    }
}
