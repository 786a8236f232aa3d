//! Tests the program as a client starts it: pipes, sockets, files, printed text and exit.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_example-everything");
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;

fn call(id: u32, name: &str, arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{name}","arguments":{arguments}}}}}"#
    )
}

/// A child process that is killed at the end of its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(stdin: impl Into<Stdio>, stdout: impl Into<Stdio>, stderr: impl Into<Stdio>) -> Running {
    Running(Command::new(PROGRAM).stdin(stdin).stdout(stdout).stderr(stderr).spawn().unwrap())
}

/// Waits at most 10 s for a child process to exit.
fn exit_code(child: &mut Running) -> Option<i32> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(10) {
        if let Some(status) = child.0.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("the process did not exit within 10 s");
}

fn lines(output: impl Read, count: usize) -> Vec<String> {
    BufReader::new(output).lines().take(count).map(Result::unwrap).collect()
}

#[test]
fn printed_text_of_a_tool_goes_to_stderr_not_stdout() {
    let mut child = start(Stdio::piped(), Stdio::piped(), Stdio::piped());
    let mut stdin = child.0.stdin.take().unwrap();
    writeln!(
        stdin,
        "{INITIALIZE}\n{}\n{}",
        call(1, "print", r#"{"text":"noise"}"#),
        call(2, "echo", r#"{"text":"hi"}"#)
    )
    .unwrap();
    drop(stdin);
    let out = lines(child.0.stdout.take().unwrap(), 10);
    assert_eq!(out.len(), 3, "{out:?}");
    assert!(
        out[1].contains("printed") && out[2].contains("hi") && !out.concat().contains("noise"),
        "{out:?}"
    );
    let mut errors = String::new();
    child.0.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!(errors, "noise\n");
    assert_eq!(exit_code(&mut child), Some(0));
}

#[test]
fn process_exits_soon_after_eof_despite_a_running_call() {
    let mut child = start(Stdio::piped(), Stdio::piped(), Stdio::null());
    let mut stdin = child.0.stdin.take().unwrap();
    writeln!(stdin, "{INITIALIZE}\n{}", call(1, "sleep", r#"{"ms":3600000}"#)).unwrap();
    let mut stdout = BufReader::new(child.0.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    drop(stdin);
    let start = Instant::now();
    assert_eq!(exit_code(&mut child), Some(0));
    // One second of grace; the rest is a margin for a busy machine.
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_probe_and_the_end_of_input_is_a_whole_life() {
    let mut child = start(Stdio::piped(), Stdio::piped(), Stdio::null());
    let probe = r#"{"jsonrpc":"2.0","id":"probe","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    child.0.stdin.take().unwrap().write_all(probe.as_bytes()).unwrap();
    let out = lines(child.0.stdout.take().unwrap(), 10);
    assert!(
        out.len() == 1 && out[0].contains(r#""id":"probe""#) && out[0].contains("supportedVersions"),
        "{out:?}"
    );
    assert_eq!(exit_code(&mut child), Some(0));
}

#[test]
fn sockets_are_served_as_node_gives_them() {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let (output, their_output) = UnixStream::pair().unwrap();
    let mut child = start(OwnedFd::from(theirs), OwnedFd::from(their_output), Stdio::null());
    writeln!(ours, "{INITIALIZE}\n{}", call(1, "echo", r#"{"text":"over a socket"}"#)).unwrap();
    let out = lines(output, 2);
    assert!(out[1].contains("over a socket"), "{out:?}");
    drop(ours);
    assert_eq!(exit_code(&mut child), Some(0));
}

#[test]
fn files_are_read_to_their_end_and_written() {
    let folder = std::env::temp_dir().join(format!("mcp-everything-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (input, output) = (folder.join("in"), folder.join("out"));
    std::fs::write(&input, format!("{INITIALIZE}\n{}", call(1, "echo", r#"{"text":"from a file"}"#)))
        .unwrap();
    let mut child = start(File::open(&input).unwrap(), File::create(&output).unwrap(), Stdio::null());
    assert_eq!(exit_code(&mut child), Some(0));
    let written = std::fs::read_to_string(&output).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(written.lines().count() == 2 && written.contains("from a file"), "{written}");
}

/// Stderr and stdout are the same pipe: making one non-blocking must not break the other.
#[test]
fn prints_survive_when_both_outputs_are_one_pipe() {
    let (read, write) = std::io::pipe().unwrap();
    let mut child = start(Stdio::piped(), write.try_clone().unwrap(), write);
    let mut stdin = child.0.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        writeln!(stdin, "{INITIALIZE}").unwrap();
        for id in 1..=2000 {
            writeln!(stdin, "{}", call(id, "print", r#"{"text":"noise noise noise noise noise"}"#)).unwrap();
        }
    });
    let mut out = String::new();
    BufReader::new(read).read_to_string(&mut out).unwrap();
    writer.join().unwrap();
    // A print may come between two parts of a message, because both go to one pipe. Nothing is lost.
    let noise = "noise noise noise noise noise\n";
    assert_eq!(out.matches(noise).count(), 2000);
    let messages = out.replace(noise, "");
    assert_eq!(messages.lines().filter(|line| line.starts_with('{') && line.ends_with('}')).count(), 2001);
    assert_eq!(messages.matches("printed").count(), 2000);
    assert_eq!(exit_code(&mut child), Some(0));
}
