//! Requests that are made at the same moment are written together, also on a runtime with threads.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use mcp_client::McpClient;
use mcp_client::protocol::ProtocolVersion;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream};

const CALLERS: usize = 32;
const CALLS_PER_CALLER: usize = 50;

/// A writer that counts the writes.
struct CountingWriter<W> {
    inner: W,
    writes: Arc<AtomicUsize>,
}

impl<W: AsyncWrite + Unpin> AsyncWrite for CountingWriter<W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// Answers the calls of all callers with one write, until the client closes its end.
async fn respond(mut stream: DuplexStream) {
    let initialized = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
        "serverInfo": {"name": "batching", "version": "1"}});
    let (mut received, mut responses, mut calls) = (Vec::new(), String::new(), 0);
    while stream.read_buf(&mut received).await.unwrap() > 0 {
        let Some(end) = received.iter().rposition(|byte| *byte == b'\n') else { continue };
        let lines: Vec<u8> = received.drain(..=end).collect();
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let request: Value = serde_json::from_slice(line).unwrap();
            let result = match request["method"].as_str() {
                Some("initialize") => initialized.clone(),
                Some("tools/call") => {
                    calls += 1;
                    json!({"content": []})
                }
                _ => continue,
            };
            responses += &json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string();
            responses.push('\n');
        }
        if calls % CALLERS == 0 {
            stream.write_all(responses.as_bytes()).await.unwrap();
            responses.clear();
        }
    }
}

#[test]
fn requests_of_woken_callers_are_written_together() {
    let (near, far) = tokio::io::duplex(1 << 20);
    let server = std::thread::spawn(|| {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(respond(far));
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let writes = Arc::new(AtomicUsize::new(0));
    runtime.block_on(async {
        let (reader, writer) = tokio::io::split(near);
        let writer = CountingWriter { inner: writer, writes: Arc::clone(&writes) };
        let connect = McpClient::over((reader, writer)).versions([ProtocolVersion::V2025_06_18]);
        let client = connect.connect().await.unwrap();
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move {
                    for _ in 0..CALLS_PER_CALLER {
                        client.call("echo", ()).await.unwrap();
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.await.unwrap();
        }
        client.close().await;
    });
    server.join().unwrap();
    let (calls, writes) = (CALLERS * CALLS_PER_CALLER, writes.load(Ordering::Relaxed));
    assert!(writes * 8 <= calls, "{writes} writes for {calls} calls");
}
