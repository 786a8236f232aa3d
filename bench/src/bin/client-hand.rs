//! A client by hand: std, serde_json, and nothing that a real client needs.

use std::borrow::Cow;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use mcp_bench::client::{IN_FLIGHT, Meter, Work, responder};
use serde::{Deserialize, Serialize};

#[derive(Serialize)]
struct Request<'a> {
    jsonrpc: &'static str,
    id: u64,
    method: &'static str,
    params: Params<'a>,
}

#[derive(Serialize)]
struct Params<'a> {
    name: &'a str,
    arguments: Arguments<'a>,
}

#[derive(Serialize)]
struct Arguments<'a> {
    text: &'a str,
}

#[derive(Deserialize)]
struct Response<'a> {
    id: u64,
    #[serde(borrow)]
    result: Outcome<'a>,
}

#[derive(Deserialize)]
struct Outcome<'a> {
    #[serde(borrow)]
    content: Vec<Text<'a>>,
}

#[derive(Deserialize)]
struct Text<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

fn main() {
    let work = Work::from_arguments();
    let mut child = Command::new(responder()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::with_capacity(64 << 10, child.stdout.take().unwrap());
    let window = if work.is_sequential { 1 } else { IN_FLIGHT };
    let (mut line, mut out) = (Vec::new(), Vec::new());
    let mut run = |calls: u64| {
        let (mut sent, mut received) = (0, 0);
        while received < calls {
            while sent < calls && sent - received < window {
                sent += 1;
                let params = Params { name: "echo", arguments: Arguments { text: "hello there" } };
                let request = Request { jsonrpc: "2.0", id: sent, method: "tools/call", params };
                serde_json::to_writer(&mut out, &request).unwrap();
                out.push(b'\n');
            }
            input.write_all(&out).unwrap();
            out.clear();
            loop {
                line.clear();
                output.read_until(b'\n', &mut line).unwrap();
                let response: Response<'_> = serde_json::from_slice(&line).unwrap();
                assert!(response.id <= sent && response.result.content[0].text == "hello there");
                received += 1;
                if !output.buffer().contains(&b'\n') {
                    break;
                }
            }
        }
    };
    run(work.calls / 10);
    let meter = Meter::begin();
    run(work.calls);
    meter.tell(work.calls);
    drop(input);
    child.wait().unwrap();
}
