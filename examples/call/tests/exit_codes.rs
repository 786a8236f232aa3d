//! Tests the output and the exit codes of the program.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::io::BufRead;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// The path of the example server, which is built first.
fn everything() -> &'static PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let built =
            Command::new(env!("CARGO")).args(["build", "--quiet", "-p", "example-everything"]).status();
        assert!(built.unwrap().success());
        PathBuf::from(env!("CARGO_BIN_EXE_example-call")).with_file_name("example-everything")
    })
}

fn call(words: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_example-call")).args(words).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn on_everything(words: &[&str]) -> (Option<i32>, String, String) {
    let server = everything().to_str().unwrap();
    call(&[words, &["--", server]].concat())
}

#[test]
fn results_go_to_stdout_and_tool_errors_to_stderr() {
    for era in ["auto", "legacy", "modern"] {
        let done = on_everything(&["call", "echo", r#"{"text":"hi"}"#, "--era", era]);
        assert_eq!(done, (Some(0), "hi\n".into(), String::new()));
    }
    let (code, list, _) = on_everything(&["list"]);
    assert!(code == Some(0) && list.contains("echo\tReturns its argument.\n"), "{list}");
    assert_eq!(
        on_everything(&["call", "fail", r#"{"message":"no"}"#]),
        (Some(1), String::new(), "no\n".into())
    );
}

#[test]
fn failures_of_tools_are_escaped_and_piped_results_are_not() {
    let text = r#"{"message":"\u001b[2Jone\ntwo","text":"\u001b[2Jone\ntwo"}"#;
    let (code, _, error) = on_everything(&["call", "fail", text]);
    assert_eq!((code, error.as_str()), (Some(1), "\\u{1b}[2Jone\ntwo\n"));
    let (code, result, _) = on_everything(&["call", "echo", text]);
    assert_eq!((code, result.as_str()), (Some(0), "\u{1b}[2Jone\ntwo\n"));
}

#[test]
fn failures_are_told_apart_by_exit_codes() {
    for (words, expected) in [
        (&["call", "nobody", "{}"][..], 4),
        (&["call", "sleep", r#"{"ms":60000}"#, "--timeout", "0.2"], 124),
        (&["call", "echo", "[]"], 2),
        (&["call", "echo", "{"], 2),
        (&["list", "--era", "future"], 2),
        (&["list", "--timeout", "-1"], 2),
        (&["sing"], 2),
    ] {
        let (code, out, error) = on_everything(words);
        assert_eq!((code, out.as_str()), (Some(expected), ""), "{words:?}: {error}");
        assert!(!error.is_empty(), "{words:?}");
    }
    assert_eq!(call(&["list", "--", "no-such-program"]).0, Some(3));
    assert_eq!(call(&["list", "--", "false"]).0, Some(3));
    let (code, _, error) = call(&["list", "--timeout", "0.5", "--", "sleep", "60"]);
    assert!(code == Some(124) && error.contains("timed out"), "{error}");
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", silent.local_addr().unwrap());
    let (code, _, error) = call(&["list", "--timeout", "0.5", "--url", &url]);
    assert!(code == Some(124) && error.contains("timed out"), "{error}");
    let (code, _, error) = call(&["list", "--url", "http://127.0.0.1:1/mcp"]);
    assert!(code == Some(3) && error.contains("refused"), "{error}");
    assert_eq!(call(&["list", "--url", "ftp://127.0.0.1/"]).0, Some(2));
    assert_eq!(call(&["list", "--url", "http://127.0.0.1:1/", "--header", "Host: x"]).0, Some(2));
    assert_eq!(call(&["--help"]).0, Some(0));
}

#[test]
fn trace_option_writes_every_message_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let words = ["call", "echo", r#"{"text":"hi"}"#, "--trace", trace.to_str().unwrap()];
    assert_eq!(on_everything(&words), (Some(0), "hi\n".into(), String::new()));
    let text = std::fs::read_to_string(&trace).unwrap();
    let calls = |start: &str| text.lines().filter(|line| line.contains(start)).count();
    assert!(calls("--> [example-everything] {") >= 2 && calls("<-- [example-everything] {") >= 2, "{text}");
    let (code, _, error) = on_everything(&["list", "--trace", "/no/such/folder/trace"]);
    assert!(code == Some(2) && error.contains("/no/such/folder/trace"), "{error}");
}

#[test]
fn a_server_behind_a_url_is_called_in_every_era() {
    let mut server =
        Command::new(everything()).args(["--http", "127.0.0.1:0"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufReader::new(server.stderr.take().unwrap()).lines();
    let url = lines.next().unwrap().unwrap();
    for era in ["auto", "legacy", "modern"] {
        let words =
            ["call", "echo", r#"{"text":"hi"}"#, "--era", era, "--url", &url, "--header", "X-Team: blue"];
        assert_eq!(call(&words), (Some(0), "hi\n".into(), String::new()));
    }
    server.kill().unwrap();
    server.wait().unwrap();
}

#[cfg(unix)]
#[test]
fn an_interrupt_cancels_on_the_server_first() {
    // The server is a script that reports the messages it reads.
    let script = r#"
        while read -r line; do
            case $line in
                *server/discover*) echo '{"jsonrpc":"2.0","id":"probe-1","result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}}' ;;
                *tools/call*) echo called >"$0" ;;
                *notifications/cancelled*) echo cancelled >"$0" ;;
            esac
        done"#;
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("told");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut child = Command::new(env!("CARGO_BIN_EXE_example-call"))
        .args(["call", "x", "{}", "--", "sh", "-c", script])
        .arg(&pipe)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // A previous writer may still hold the pipe open without writing.
    let told = || {
        let read = || std::io::BufReader::new(std::fs::File::open(&pipe).unwrap()).lines().next();
        std::iter::repeat_with(read).find_map(|line| line).unwrap().unwrap()
    };
    assert_eq!(told(), "called");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(told(), "cancelled");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[cfg(unix)]
#[test]
fn interrupt_while_connecting_exits_130_and_ends_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("started");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for signal in ["-INT", "-TERM"] {
        // A server that never responds and ignores all signals that can be ignored.
        let script = r#"trap '' INT TERM HUP; echo $$ >"$0"; sleep 60"#;
        let mut child = Command::new(env!("CARGO_BIN_EXE_example-call"))
            .args(["list", "--", "sh", "-c", script])
            .arg(&pipe)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let server = std::fs::read_to_string(&pipe).unwrap();
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(130), "{signal}");
        let alive = Command::new("kill").args(["-0", server.trim()]).stderr(Stdio::null()).status().unwrap();
        assert!(!alive.success(), "the server is still running");
    }
}

#[cfg(unix)]
#[test]
fn interrupt_while_connecting_to_a_url_exits_130() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let mut child = Command::new(env!("CARGO_BIN_EXE_example-call"))
        .args(["list", "--url", &url])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // The program waits for a response that never comes.
    let _accepted = listener.accept().unwrap();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
