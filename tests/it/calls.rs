//! Calls: outcomes, progress, timeouts, cancellation.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_client::Error;
use mcp_client::protocol::peer::TimeoutReason;
use mcp_server::{Context, McpServer, NoArgs, Structured, ToolError, tool};
use serde_json::json;

use crate::support::{BOTH_ERAS, connect, revisions};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Text {
    text: String,
}

fn server() -> McpServer {
    McpServer::named("test", "1")
        .tool(tool("echo", |Text { text }: Text| async { text }))
        .tool(tool("fail", || async { Err::<(), _>(ToolError::new("no luck")) }))
        .tool(tool("five", || async { Structured(5) }))
}

#[tokio::test]
async fn a_tool_is_called_in_every_revision() {
    for version in revisions() {
        let client = connect(server(), version).await;
        let outcome = client.call("echo", json!({"text": "hi"})).await.unwrap();
        assert_eq!((outcome.text().as_str(), outcome.is_error()), ("hi", false), "{version}");
        assert_eq!(client.call("five", json!({})).await.unwrap().json::<i64>().unwrap(), 5, "{version}");
        let failed = client.call("fail", json!(null)).await.unwrap();
        assert_eq!((failed.text().as_str(), failed.is_error()), ("no luck", true), "{version}");
        client.close().await;
    }
}

#[tokio::test]
async fn call_tool_returns_the_raw_result_and_typed_errors() {
    let client = connect(server(), &BOTH_ERAS[1]).await;
    let raw = client.call_tool("fail", json!({})).await.unwrap();
    assert_eq!(raw, json!({"content": [{"type": "text", "text": "no luck"}], "isError": true}));
    let refused = client.call_tool("nobody", json!({})).await.unwrap_err();
    assert!(
        matches!(&refused, Error::Refused { error: source, .. } if i64::from(source.code) == -32602),
        "{refused:?}"
    );
    let unsendable = client.call_tool("echo", json!([1])).await.unwrap_err();
    assert!(matches!(unsendable, Error::Unsendable { .. }), "{unsendable:?}");
}

#[tokio::test]
async fn failure_of_a_tool_becomes_an_error_that_names_it() {
    for version in &BOTH_ERAS {
        let server = server().tool(tool("mute", || async { Err::<(), _>(ToolError::new("")) }));
        let client = connect(server, version).await;
        let failed = client.call("fail", ()).await.unwrap();
        let error = failed.json::<i64>().unwrap_err();
        assert_eq!(error.to_string(), "tool `fail` failed: no luck", "{version}");
        assert!(!error.is_retry_safe() && !error.may_have_happened());
        assert_eq!(failed.ok().unwrap_err().to_string(), error.to_string());
        let error = client.call("mute", ()).await.unwrap().ok().unwrap_err();
        assert_eq!(error.to_string(), "tool `mute` failed: the result has no text");
        assert_eq!(client.call("five", ()).await.unwrap().ok().unwrap().json::<i64>().unwrap(), 5);
        client.close().await;
    }
}

#[tokio::test]
async fn arguments_are_any_value_that_serializes_to_an_object() {
    #[derive(serde::Serialize)]
    struct Echo<'a> {
        text: &'a str,
    }

    let client = connect(server(), &BOTH_ERAS[1]).await;
    let name = String::from("echo");
    assert_eq!(client.call(&name, Echo { text: "struct" }).await.unwrap().text(), "struct");
    assert_eq!(client.call(&name, json!({"text": "value"})).await.unwrap().text(), "value");
    let map = std::collections::HashMap::from([("text", "map")]);
    assert_eq!(client.call(&name, &map).await.unwrap().text(), "map");
    let json: mcp_client::protocol::Json = r#"{"text": "json"}"#.parse().unwrap();
    assert_eq!(client.call(name, json.clone()).await.unwrap().text(), "json");
    assert_eq!(client.call_json("echo", json).await.unwrap().text(), "json");
    assert_eq!(client.call_json("five", mcp_client::protocol::Json::default()).await.unwrap().text(), "5");
    let list = client.call_json("echo", json!([1]).into()).await.unwrap_err();
    assert_eq!(list.to_string(), client.call("echo", [1]).await.unwrap_err().to_string());
    let wrong_keys = std::collections::HashMap::from([([1, 2], 3)]);
    let calls = [client.call("echo", 5), client.call("echo", "text"), client.call("echo", wrong_keys)];
    for call in calls {
        let error = call.await.unwrap_err();
        assert!(matches!(&error, Error::Unsendable { .. }), "{error:?}");
        assert!(error.to_string().contains("arguments"), "{error}");
    }
    let refused = client.get_prompt("greet", json!({"name": "Ada", "times": 3})).await.unwrap_err();
    assert!(
        refused.to_string().contains("prompt arguments must be strings, but `times` is not"),
        "{refused}"
    );
}

#[tokio::test]
async fn hundred_concurrent_calls_are_not_delayed_by_a_slow_one() {
    for version in &BOTH_ERAS {
        let (release, released) = tokio::sync::watch::channel(false);
        let server = server().tool(tool("wait", move || {
            let mut released = released.clone();
            async move {
                released.wait_for(|released| *released).await.unwrap();
                "released"
            }
        }));
        let client = connect(server, version).await;
        let slow = tokio::spawn(client.call("wait", json!({})).into_future());
        let calls = (0..100).map(|number| {
            let client = client.clone();
            tokio::spawn(async move {
                let text = number.to_string();
                assert_eq!(client.call("echo", json!({"text": text})).await.unwrap().text(), text);
            })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap();
        }
        assert!(!slow.is_finished());
        release.send(true).unwrap();
        assert_eq!(slow.await.unwrap().unwrap().text(), "released");
    }
}

/// A tool that runs until it is cancelled, and how many of it run.
fn endless() -> (McpServer, Arc<AtomicUsize>) {
    struct Running(Arc<AtomicUsize>);
    impl Drop for Running {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let count = Arc::new(AtomicUsize::new(0));
    let running = Arc::clone(&count);
    let server = server().tool(tool("endless", move || {
        running.fetch_add(1, Ordering::SeqCst);
        let guard = Running(Arc::clone(&running));
        async move {
            std::future::pending::<()>().await;
            drop(guard);
        }
    }));
    (server, count)
}

async fn until_running(count: &AtomicUsize, wanted: usize) {
    for _ in 0..1000 {
        if count.load(Ordering::SeqCst) == wanted {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("{} run, not {wanted}", count.load(Ordering::SeqCst));
}

#[tokio::test]
async fn dropped_call_is_cancelled_on_the_server() {
    for version in &BOTH_ERAS {
        let (server, running) = endless();
        let client = connect(server, version).await;
        let call = tokio::spawn(client.call("endless", json!({})).into_future());
        until_running(&running, 1).await;
        call.abort();
        until_running(&running, 0).await;
        assert_eq!(client.call("echo", json!({"text": "still here"})).await.unwrap().text(), "still here");
        assert_eq!(client.stats().cancelled, 1);
    }
}

#[tokio::test]
async fn cancel_when_ends_the_call_and_cancels_on_the_server() {
    for version in &BOTH_ERAS {
        let (server, running) = endless();
        let client = connect(server, version).await;
        let (fire, fired) = tokio::sync::oneshot::channel::<()>();
        let call = client.call("endless", json!({})).cancel_when(async {
            let _ = fired.await;
        });
        let call = tokio::spawn(call.into_future());
        until_running(&running, 1).await;
        fire.send(()).unwrap();
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Cancelled { .. }) && error.may_have_happened(), "{error:?}");
        until_running(&running, 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn idle_timeout_ends_a_silent_call_and_cancels_on_the_server() {
    for version in &BOTH_ERAS {
        let (server, running) = endless();
        let client = connect(server, version).await;
        let began = tokio::time::Instant::now();
        let error = client.call("endless", json!({})).timeout(Duration::from_secs(7)).await.unwrap_err();
        assert!(matches!(error, Error::TimedOut { reason: TimeoutReason::Idle, .. }), "{error:?}");
        assert_eq!(began.elapsed().as_secs(), 7);
        until_running(&running, 0).await;
        // Without a word from the caller it is a minute.
        let began = tokio::time::Instant::now();
        client.call("endless", json!({})).await.unwrap_err();
        assert_eq!(began.elapsed().as_secs(), 60);
    }
}

/// A tool that tells progress every ten seconds, for ever.
fn progressing() -> McpServer {
    server().tool(tool("slow", |_: NoArgs, cx: Context| async move {
        for step in 1_u32.. {
            tokio::time::sleep(Duration::from_secs(10)).await;
            cx.progress_note(f64::from(step), 100.0, format!("step {step}"));
        }
    }))
}

#[tokio::test(start_paused = true)]
async fn progress_resets_the_idle_timeout_but_not_the_total_timeout() {
    for version in &BOTH_ERAS {
        let client = connect(progressing(), version).await;
        let began = tokio::time::Instant::now();
        let call = client.call("slow", json!({})).timeout(Duration::from_secs(15));
        let error = call.total_timeout(Duration::from_secs(95)).await.unwrap_err();
        assert!(matches!(error, Error::TimedOut { reason: TimeoutReason::Total, .. }), "{error:?}");
        assert_eq!(began.elapsed().as_secs(), 95);
    }
}

#[tokio::test(start_paused = true)]
async fn progress_is_told_in_order_with_its_words() {
    for version in revisions() {
        let client = connect(progressing(), version).await;
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let call = client.call("slow", json!({})).on_progress(move |step| tell.send(step).unwrap());
        let call = call.total_timeout(Duration::from_secs(35));
        call.await.unwrap_err();
        let mut steps = Vec::new();
        while let Ok(step) = told.try_recv() {
            steps.push((step.progress, step.total, step.message, step.gap));
        }
        let has_words = steps[0].2.is_some();
        let word = |step: u32| has_words.then(|| format!("step {step}"));
        let expected = [1, 2, 3].map(|step| (f64::from(step), Some(100.0), word(step), 0));
        assert_eq!(steps, expected, "{version}");
        // 2024-11-05 has no words for progress.
        assert_eq!(has_words, version != revisions().last().unwrap());
    }
}

#[tokio::test]
async fn call_future_is_at_most_1024_bytes() {
    let client = connect(server(), &BOTH_ERAS[0]).await;
    let call = client.call("echo", json!({"text": "hi"})).into_future();
    assert!(size_of_val(&*call) <= 1024, "{}", size_of_val(&*call));
}

#[tokio::test(start_paused = true)]
async fn progress_is_read_as_a_stream_and_drop_cancels_the_call() {
    for version in &BOTH_ERAS {
        let server = server().tool(tool("three", |_: NoArgs, cx: Context| async move {
            for step in 1_u32..=3 {
                cx.progress(f64::from(step), 3.0);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            "done"
        }));
        let client = connect(server, version).await;
        let mut running = client.call("three", json!({})).running();
        let mut steps = Vec::new();
        while let Some(step) = running.progress().await {
            steps.push(step.progress);
        }
        assert_eq!(steps, [1.0, 2.0, 3.0], "{version}");
        assert_eq!(running.outcome().await.unwrap().text(), "done");
        let (endless, count) = endless();
        let client = connect(endless, version).await;
        let mut running = client.call("endless", json!({})).running();
        assert!(tokio::time::timeout(Duration::from_secs(1), running.progress()).await.is_err());
        until_running(&count, 1).await;
        drop(running);
        until_running(&count, 0).await;
    }
}
