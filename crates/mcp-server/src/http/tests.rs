//! Unit tests of the service: the size of its futures, and the return of its budgets.

use http_body_util::Full;

use super::legacy::SESSION_ID;
use super::*;

/// Allocations above 1 KiB miss the fast path of common allocators.
#[tokio::test]
async fn future_of_an_exchange_is_at_most_1000_bytes() {
    let service = McpServer::named("small", "1").into_http_service(HttpOptions::default()).unwrap();
    let parts = || FullRequest::new(()).into_parts().0;
    let body = || Full::new(Bytes::new());
    let handle = size_of_val(&Arc::clone(&service.0).handle(parts(), body()));
    assert!(handle <= 1000, "{handle}");
}

/// Drops exchanges at random times, with tools that panic and sessions that end.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn dropped_exchanges_return_everything_to_the_budgets() {
    use std::time::Duration;

    use crate::{Context, NoArgs, ToolError, tool};

    let server = McpServer::named("stress", "1")
        .tool(tool("now", || async { "done" }))
        .tool(tool("crash", crash))
        .tool(tool("slow", |_: NoArgs, cx: Context| async move {
            for step in 0..3 {
                tokio::time::sleep(Duration::from_micros(300)).await;
                cx.progress(f64::from(step), 3.0);
            }
            "done"
        }))
        .tool(tool("ask", |_: NoArgs, cx: Context| async move {
            Ok::<_, ToolError>(cx.confirm("key", "Really?").await?.to_string())
        }));
    let options = HttpOptions::default().sessions(20).calls(100).session_memory(256 << 10).memory(1 << 20);
    let service = server.into_http_service(options).unwrap();
    let workers = (0..8_u64).map(|worker| {
        let service = service.clone();
        tokio::spawn(async move {
            let mut random = worker + 1;
            let mut next = move |bound: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % bound
            };
            let mut session = String::new();
            for id in 0..400 {
                let (verb, headers, body) = stress_request(next(10), id, &session);
                let mut request = FullRequest::builder().method(verb).uri("/mcp").header("host", "localhost");
                for (name, value) in headers {
                    request = request.header(name, value);
                }
                let request = request.body(Full::new(Bytes::from(body))).unwrap();
                let mut service = service.clone();
                let reading_time = next(2000);
                let exchange = async {
                    let response = service.call(request).await.unwrap();
                    let opened =
                        response.headers().get(SESSION_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
                    let mut body = response.into_body();
                    let reading =
                        async { while http_body_util::BodyExt::frame(&mut body).await.is_some() {} };
                    let _ = tokio::time::timeout(Duration::from_micros(reading_time), reading).await;
                    opened
                };
                // A third is dropped before the response.
                let timeout = if next(3) == 0 { next(500) } else { 5000 };
                if let Ok(Some(opened)) = tokio::time::timeout(Duration::from_micros(timeout), exchange).await
                {
                    session = opened;
                }
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    let state = &service.0;
    state.sessions.end_all();
    for _ in 0..1000 {
        let used = [
            state.core.calls.used(),
            state.streams.used(),
            state.memory.used(),
            state.bodies.used(),
            state.large_bodies.used(),
        ];
        if used == [0; 5] {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!(
        "calls {:?}, streams {:?}, memory {:?}, bodies {:?}",
        state.core.calls, state.streams, state.memory, state.bodies
    );
}

async fn crash() -> &'static str {
    tokio::task::yield_now().await;
    panic!("on purpose")
}

type StressRequest = (&'static str, Vec<(&'static str, String)>, String);

fn stress_request(kind: u64, id: u64, session: &str) -> StressRequest {
    let json = ("content-type", "application/json".to_owned());
    let accept = ("accept", "application/json, text/event-stream".to_owned());
    let session = ("mcp-session-id", session.to_owned());
    let legacy = |method: &str, params: serde_json::Value| {
        let body = serde_json::json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        ("POST", vec![json.clone(), accept.clone(), session.clone()], body.to_string())
    };
    let padding = "x".repeat(usize::try_from(id).unwrap_or(0) * 100);
    let call =
        |name: &str| serde_json::json!({"name": name, "_meta": {"progressToken": id, "padding": padding}});
    match kind {
        0 => {
            let params = serde_json::json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": {"name": padding, "version": "1"}});
            let body =
                serde_json::json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params});
            ("POST", vec![json, accept], body.to_string())
        }
        1 => legacy("tools/call", call("now")),
        2 => legacy("tools/call", call("crash")),
        3 | 4 => legacy("tools/call", call("slow")),
        5 => legacy("tools/call", call("ask")),
        6 => legacy("resources/subscribe", serde_json::json!({"uri": format!("file:///{id}/{padding}")})),
        7 => ("GET", vec![accept, session], String::new()),
        8 if id.is_multiple_of(7) => ("DELETE", vec![session], String::new()),
        kind => {
            let (method, mut params) = match kind {
                8 => (
                    "subscriptions/listen",
                    serde_json::json!({"notifications": {"resourceSubscriptions": [padding]}}),
                ),
                _ => ("tools/call", call("slow")),
            };
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = serde_json::json!({});
            let body = serde_json::json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
            let mut headers = vec![json, accept, ("mcp-protocol-version", "2026-07-28".to_owned())];
            headers.push(("mcp-method", method.to_owned()));
            if method == "tools/call" {
                headers.push(("mcp-name", "slow".to_owned()));
            }
            ("POST", headers, body.to_string())
        }
    }
}
