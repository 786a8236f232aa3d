//! The client without a runtime.

use std::time::Duration;

use mcp_client::Error;
use mcp_client::blocking::McpClient;
use serde_json::json;

use crate::support::{group_lives, peer};

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

fn gone(group: u32) -> bool {
    (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        !group_lives(group)
    })
}

#[test]
fn s4_51_a_program_without_a_runtime_connects_calls_and_leaves_nothing() {
    let before = threads();
    let client = McpClient::connect(peer(&[])).unwrap();
    let group = client.client().process_group().unwrap();
    assert_eq!(client.call("echo", json!({"text": "hi"})).unwrap().text(), "hi");
    assert_eq!(client.list_tools().unwrap()[0].name, "echo");
    let late = client.with(|client| async move {
        client.call("wait", json!({})).timeout(Duration::from_millis(20)).await
    });
    assert!(matches!(late, Err(Error::TimedOut { .. })), "{late:?}");
    // From many threads at once.
    std::thread::scope(|scope| {
        for number in 0..8 {
            let client = client.clone();
            scope.spawn(move || {
                let text = number.to_string();
                assert_eq!(client.call("echo", json!({"text": text})).unwrap().text(), text);
            });
        }
    });
    client.close();
    assert!(!group_lives(group));
    assert_eq!(threads(), before);
}

#[test]
fn s4_51_dropping_the_last_clone_ends_the_server_and_the_thread() {
    let before = threads();
    let client = McpClient::connect(peer(&["--stubborn"])).unwrap();
    let group = client.client().process_group().unwrap();
    drop(client.clone());
    assert!(group_lives(group));
    drop(client);
    assert!(gone(group));
    assert_eq!(threads(), before);
}

#[tokio::test]
async fn s4_51_it_works_inside_of_another_runtime() {
    let client = McpClient::connect(peer(&[])).unwrap();
    assert_eq!(client.call("echo", json!({"text": "hi"})).unwrap().text(), "hi");
    client.close();
}

#[test]
fn s4_51_a_server_that_cannot_be_started_leaves_no_thread() {
    let before = threads();
    assert!(matches!(
        McpClient::connect(mcp_client::Recipe::command("no-such-program")),
        Err(Error::Start(_))
    ));
    assert_eq!(threads(), before);
}
