//! The wire trace of a server: a record of every message, for debugging.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use mcp_protocol::wire_trace::{WireDirection, WireLog, WireMessages};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A wire trace: every message of a server, with its time and direction, for debugging. Set it with
/// [`McpServer::wire_trace`](crate::McpServer::wire_trace).
///
/// Each message is one line. `-->` was sent, `<--` was received; over HTTP, each exchange has a number:
///
/// ```text
/// 12:34:56.007 <-- #1 POST /mcp content-type: application/json, authorization: ***
/// 12:34:56.007 <-- #1 {"jsonrpc":"2.0","id":1,"method":"tools/list"}
/// 12:34:56.008 --> #1 HTTP 200 OK content-type: application/json
/// 12:34:56.008 --> #1 {"jsonrpc":"2.0","id":1,"result":{"tools":[]}}
/// ```
///
/// Bodies are written unchanged and may contain secrets. Session ids are masked, and so is the value of every HTTP
/// header that is not known to be harmless. Clones share the writer, so one trace can record several servers.
///
/// The task that sends or receives a message also writes and flushes its line, so that the last message before a crash
/// is in the trace. A writer that blocks therefore blocks the server: pass a file or stderr, not a pipe that nobody
/// reads. Do not pass stdout, which belongs to the protocol. If the writer fails, the trace ends and the server
/// continues.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use mcp_server::{McpServer, WireTrace};
///
/// let trace = WireTrace::new(std::fs::File::create("server.trace")?);
/// McpServer::named("weather", "1.0").wire_trace(&trace).serve_stdio().await?;
/// # Ok(()) }
/// ```
#[doc(alias = "debug")]
#[doc(alias = "log")]
#[derive(Clone, Debug)]
pub struct WireTrace(Arc<TraceState>);

#[derive(Debug)]
struct TraceState {
    log: Mutex<WireLog>,
    exchanges: AtomicU64,
}

impl WireTrace {
    /// Creates a trace that writes to `writer`.
    #[must_use]
    pub fn new(writer: impl io::Write + Send + 'static) -> Self {
        Self(Arc::new(TraceState { log: Mutex::new(WireLog::new(writer)), exchanges: AtomicU64::new(1) }))
    }

    /// Returns the label of the next HTTP exchange.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP has exchanges"))]
    pub(crate) fn next_exchange(&self) -> String {
        format!("#{}", self.0.exchanges.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn write(&self, direction: WireDirection, label: &str, text: &str) {
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut log = self.0.log.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = log.write(time, direction, label, text) {
            tracing::warn!(%error, "the wire trace cannot be written any more");
        }
    }
}

/// One direction of a byte stream, whose messages are written to the trace.
pub(crate) struct TracedStream<S> {
    stream: S,
    trace: WireTrace,
    direction: WireDirection,
    messages: WireMessages,
    is_ended: bool,
}

impl<S> TracedStream<S> {
    pub(crate) fn new(stream: S, trace: &WireTrace, direction: WireDirection) -> Self {
        Self { stream, trace: trace.clone(), direction, messages: WireMessages::lines(), is_ended: false }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.messages.push(bytes, |text| self.trace.write(self.direction, "", text));
    }

    fn end(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_ended, true) {
            self.messages.end(|text| self.trace.write(self.direction, "", text));
            self.trace.write(self.direction, "", why);
        }
    }
}

impl<S> Drop for TracedStream<S> {
    fn drop(&mut self) {
        if self.direction == WireDirection::Sent {
            self.end("(closed)");
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TracedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let start = buf.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buf));
        match &read {
            Ok(()) if buf.filled().len() > start => self.push(&buf.filled()[start..]),
            Ok(()) => self.end("(end of stream)"),
            Err(error) => self.end(&format!("(reading failed: {error})")),
        }
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TracedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes));
        match &written {
            Ok(count) => self.push(&bytes[..*count]),
            Err(error) => self.end(&format!("(writing failed: {error})")),
        }
        Poll::Ready(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
