//! The client without a runtime.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use mcp_client::Error;
use mcp_client::blocking::McpClient;
use serde_json::json;

use crate::support::{group_lives, peer};

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

fn soon(is_true: impl Fn() -> bool) -> bool {
    (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        is_true()
    })
}

fn gone(group: u32) -> bool {
    soon(|| !group_lives(group))
}

/// A joined thread is listed for a moment longer.
fn threads_become(count: usize) -> bool {
    soon(|| threads() == count)
}

#[test]
fn blocking_client_works_without_a_runtime_and_leaves_nothing() {
    let before = threads();
    let client = McpClient::connect(peer(&[])).unwrap();
    let group = client.process_group().unwrap();
    assert_eq!(client.call("echo", json!({"text": "hi"})).send().unwrap().text(), "hi");
    assert_eq!(client.list_tools().unwrap()[0].name, "echo");
    let late = client.call("wait", json!({})).timeout(Duration::from_millis(20)).send();
    assert!(matches!(late, Err(Error::TimedOut { .. })), "{late:?}");
    // From many threads at once.
    std::thread::scope(|scope| {
        for number in 0..8 {
            let client = client.clone();
            scope.spawn(move || {
                let text = number.to_string();
                assert_eq!(client.call("echo", json!({"text": text})).send().unwrap().text(), text);
            });
        }
    });
    client.close();
    assert!(!group_lives(group));
    assert!(threads_become(before));
}

#[test]
fn dropping_the_last_clone_ends_the_server_and_the_thread() {
    let before = threads();
    let client = McpClient::connect(peer(&["--stubborn"])).unwrap();
    let group = client.process_group().unwrap();
    drop(client.clone());
    assert!(group_lives(group));
    drop(client);
    assert!(gone(group));
    assert!(threads_become(before));
}

#[tokio::test]
async fn blocking_client_works_inside_another_runtime() {
    let client = McpClient::connect(peer(&[])).unwrap();
    assert_eq!(client.call("echo", json!({"text": "hi"})).send().unwrap().text(), "hi");
    client.close();
}

#[test]
fn failed_start_leaves_no_thread() {
    let before = threads();
    assert!(matches!(
        McpClient::connect(mcp_client::ServerConfig::command("no-such-program")),
        Err(Error::Start(_))
    ));
    assert!(threads_become(before));
}

#[test]
fn blocking_call_from_a_handler_of_the_client_is_an_error() {
    use mcp_client::Handlers;
    use mcp_client::protocol::elicitation::{ElicitFormParams, ElicitResult};

    let slot: Arc<OnceLock<McpClient>> = Arc::default();
    let told: Arc<OnceLock<String>> = Arc::default();
    let (client_slot, telling) = (Arc::clone(&slot), Arc::clone(&told));
    let handlers = Handlers::new().on_form(move |_: mcp_client::ServerRequest<ElicitFormParams>| {
        let outcome = client_slot.get().unwrap().call("echo", json!({"text": "deadlock?"})).send();
        let _ = telling.set(outcome.unwrap_err().to_string());
        async { ElicitResult::decline() }
    });
    let connect = McpClient::builder(peer(&["--era", "modern"])).handlers(handlers);
    let client = connect.connect_blocking().unwrap();
    slot.set(client.clone()).unwrap();
    client.call("input-forever", json!({})).send().unwrap_err();
    assert!(told.get().unwrap().contains("deadlock"), "{told:?}");
    client.close();
}

#[test]
fn blocking_call_reports_progress_and_can_be_cancelled() {
    let client = McpClient::connect(peer(&[])).unwrap();
    let steps: Arc<Mutex<Vec<f64>>> = Arc::default();
    let seen = Arc::clone(&steps);
    let call = client.call("flood", json!({"count": 3}));
    call.on_progress(move |step| seen.lock().unwrap().push(step.progress)).send().unwrap();
    assert!(!steps.lock().unwrap().is_empty());

    let mut running = client.call("flood", json!({"count": 3})).running();
    assert!(running.progress().is_some());
    while running.progress().is_some() {}
    running.outcome().unwrap().ok().unwrap();

    let late = client.call("wait", json!({})).total_timeout(Duration::from_millis(20)).send();
    assert!(late.unwrap_err().is_timeout());
    let cancelled = client.call("wait", json!({})).cancel_when(std::future::ready(())).send();
    assert!(matches!(cancelled, Err(Error::Cancelled { .. })), "{cancelled:?}");
    let outcome = client.unless_interrupted(client.call("echo", json!({"text": "hi"})));
    assert_eq!(outcome.unwrap().unwrap().text(), "hi");
    client.disconnect();
}

#[test]
fn blocking_feed_ends_with_the_server() {
    let client = McpClient::connect(peer(&["--says", "hello"])).unwrap();
    let lines = client.stderr().unwrap();
    let reader = std::thread::spawn(move || lines.count());
    client.close();
    reader.join().unwrap();
}

/// Returns the public methods of a type in the sources of a folder or file, without those of traits.
fn methods(paths: &[&str], name: &str) -> BTreeSet<String> {
    fn texts(path: &Path, out: &mut Vec<String>) {
        if path.is_dir() {
            let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
            entries.for_each(|path| texts(&path, out));
        } else {
            out.push(std::fs::read_to_string(path).unwrap());
        }
    }

    let mut all = Vec::new();
    for path in paths {
        texts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(path), &mut all);
    }
    let mut found = BTreeSet::new();
    for text in &all {
        let mut is_inside = false;
        for line in text.lines() {
            if line.starts_with("impl") && !line.contains(" for ") {
                let of = line.trim_end_matches(" {").rsplit(' ').next().unwrap();
                is_inside = of.split('<').next() == Some(name);
            } else if line == "}" {
                is_inside = false;
            } else if is_inside && let Some(method) = line.strip_prefix("    pub ") {
                let method = method.trim_start_matches("async ").strip_prefix("fn ");
                found.extend(method.map(|method| method.split(['(', '<']).next().unwrap().to_owned()));
            }
        }
        // The methods that do not wait are made by a macro.
        if name == "McpClient" {
            let same = text.split("same_as_async! {\n").nth(1).unwrap_or_default();
            let lines = same.lines().take_while(|line| *line != "}");
            found.extend(lines.map(|line| line.split(':').next().unwrap().trim().to_owned()));
        }
    }
    found
}

#[test]
fn blocking_client_has_every_method_of_the_async_client() {
    let asynchronous = ["client.rs", "client", "connect.rs", "connection/feed.rs", "stdio/interrupt.rs"];
    let blocking = ["blocking.rs", "blocking"];
    for (name, least, own) in [
        ("McpClient", 30, &["client", "with"][..]),
        ("ToolCall", 6, &["send"]),
        ("RunningCall", 2, &[]),
        ("Changes", 2, &[]),
        ("Feed", 1, &[]),
    ] {
        let mut expected = methods(&asynchronous, name);
        assert!(expected.len() >= least, "{name}: {expected:?}");
        expected.extend(own.iter().map(|&own| own.to_owned()));
        assert_eq!(methods(&blocking, name), expected, "{name}");
    }
}
