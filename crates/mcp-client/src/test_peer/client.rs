//! The misbehaving client: sends one fault, then checks that the server still responds.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;

/// The timeout for every response of the server.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn run(fault: &str, command: &str, arguments: &[&str]) -> Result<ExitCode, String> {
    let bytes =
        bytes(fault).ok_or(format!("unknown fault `{fault}`; `mcp-test-peer help` lists all faults"))?;
    let mut child = Command::new(command)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{command} could not be started: {error}"))?;
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("the server process has no pipes".to_owned());
    };
    let (send, lines) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    let negotiation = try_it(&mut stdin, &lines, &bytes);
    drop(stdin);
    let _ = child.kill();
    let _ = child.wait();
    drop(lines);
    let _ = reader.join();
    match negotiation {
        Ok(said) => {
            println!("{fault}: the server wrote {said} lines and still responds");
            Ok(ExitCode::SUCCESS)
        }
        Err(problem) => {
            println!("{fault}: {problem}");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Completes the handshake, sends the fault, and pings. Returns the number of lines that the server wrote in response
/// to the fault.
fn try_it(stdin: &mut ChildStdin, lines: &mpsc::Receiver<String>, fault: &[u8]) -> Result<usize, String> {
    let hello = r#"{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test-peer","version":"1"}}}"#;
    send(stdin, hello.as_bytes())?;
    await_id(lines, "hello")?;
    send(stdin, br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)?;
    send(stdin, fault)?;
    send(stdin, br#"{"jsonrpc":"2.0","id":"still-there","method":"ping"}"#)?;
    await_id(lines, "still-there")
}

fn send(stdin: &mut ChildStdin, line: &[u8]) -> Result<(), String> {
    let sent = stdin.write_all(line).and_then(|()| stdin.write_all(b"\n")).and_then(|()| stdin.flush());
    sent.map_err(|error| format!("the server no longer reads: {error}"))
}

/// Waits for the response to a request. Returns the number of lines that came before it.
fn await_id(lines: &mpsc::Receiver<String>, id: &str) -> Result<usize, String> {
    for count in 0.. {
        let line = lines.recv_timeout(PATIENCE).map_err(|_| format!("no response to `{id}`"))?;
        let message: Value = serde_json::from_str(&line)
            .map_err(|_| "the server wrote a line that is not a JSON-RPC message".to_owned())?;
        if message["id"] == id {
            return Ok(count);
        }
    }
    Ok(0)
}

fn bytes(fault: &str) -> Option<Vec<u8>> {
    let call = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#);
    Some(match fault {
        "garbage" => b"hello?\n{\"jsonrpc\":\"2.0\",\"id\":7\n\xff\xfe".to_vec(),
        "batch" => format!("[{},{}]\n[]", call("1"), call("2")).into_bytes(),
        "deep" => {
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{}"#, r#"{"a":"#.repeat(10_000))
                .into_bytes()
        }
        "duplicate-ids" => format!("{}\n{}", call("1"), call("1")).into_bytes(),
        "cancel-unknown" => {
            let cancel = |id: &str| {
                format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
                )
            };
            [cancel("99"), cancel("\"hello\""), cancel("null"), cancel("{}")].join("\n").into_bytes()
        }
        "half-a-line" => br#"{"jsonrpc":"2.0","id":1,"meth"#.to_vec(),
        "long-line" => {
            let padding = "x".repeat(20 << 20);
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":"{padding}"}}}}"#).into_bytes()
        }
        _ => return None,
    })
}
