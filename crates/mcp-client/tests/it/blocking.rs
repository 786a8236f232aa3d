//! The client without a runtime.

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
    assert!(threads_become(before));
}

#[test]
fn dropping_the_last_clone_ends_the_server_and_the_thread() {
    let before = threads();
    let client = McpClient::connect(peer(&["--stubborn"])).unwrap();
    let group = client.client().process_group().unwrap();
    drop(client.clone());
    assert!(group_lives(group));
    drop(client);
    assert!(gone(group));
    assert!(threads_become(before));
}

#[tokio::test]
async fn blocking_client_works_inside_another_runtime() {
    let client = McpClient::connect(peer(&[])).unwrap();
    assert_eq!(client.call("echo", json!({"text": "hi"})).unwrap().text(), "hi");
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
    use std::sync::{Arc, OnceLock};

    use mcp_client::Handlers;
    use mcp_client::protocol::elicitation::{ElicitFormParams, ElicitResult};

    let slot: Arc<OnceLock<McpClient>> = Arc::default();
    let told: Arc<OnceLock<String>> = Arc::default();
    let (client_slot, telling) = (Arc::clone(&slot), Arc::clone(&told));
    let handlers = Handlers::new().on_form(move |_: mcp_client::ServerRequest<ElicitFormParams>| {
        let outcome = client_slot.get().unwrap().call("echo", json!({"text": "deadlock?"}));
        let _ = telling.set(outcome.unwrap_err().to_string());
        async { ElicitResult::decline() }
    });
    let connect = mcp_client::McpClient::builder(peer(&["--era", "modern"])).handlers(handlers);
    let client = McpClient::connect_with(connect).unwrap();
    slot.set(client.clone()).unwrap();
    client.call("input-forever", json!({})).unwrap_err();
    assert!(told.get().unwrap().contains("must not wait"), "{told:?}");
    client.close();
}
