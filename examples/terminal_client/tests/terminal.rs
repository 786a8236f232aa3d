//! Tests progress, tool errors and Ctrl-C of the program.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::BufRead;
use std::process::{Command, Stdio};

/// The program, calling a tool of the example server, which is built first.
fn calling(tool: &str, arguments: &str) -> Command {
    let built = Command::new(env!("CARGO")).args(["build", "--quiet", "-p", "example-everything"]).status();
    assert!(built.unwrap().success());
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_example-terminal-client"));
    let mut command = Command::new(program);
    command.args([tool, arguments]).arg(program.with_file_name("example-everything"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn result_progress_and_failure_are_shown() {
    let done = calling("sleep", r#"{"ms": 300}"#).output().unwrap();
    assert!(done.status.success() && !done.stdout.is_empty() && !done.stderr.is_empty(), "{done:?}");
    let failed = calling("fail", r#"{"message": "no luck"}"#).output().unwrap();
    assert_eq!(failed.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&failed.stderr), "tool `fail` failed: no luck\n");
    // There is no terminal, so nobody answers the question.
    let asked = calling("ask", "{}").output().unwrap();
    assert!(!String::from_utf8_lossy(&asked.stderr).contains("asks:"), "{asked:?}");
}

#[cfg(unix)]
#[test]
fn interrupt_during_a_call_exits_130() {
    let mut child = calling("sleep", r#"{"ms": 6000}"#).spawn().unwrap();
    let mut lines = std::io::BufReader::new(child.stderr.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
