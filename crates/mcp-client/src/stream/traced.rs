//! Byte streams whose messages are written to the wire trace.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use mcp_protocol::wire_trace::{WireDirection, WireMessages};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::stream::link::Link;
use crate::wire_trace::ConnectionTrace;

impl Link {
    /// Writes all messages of the link to the trace, if there is one.
    pub(crate) fn traced(mut self, trace: Option<ConnectionTrace>) -> Self {
        if let Some(trace) = trace {
            self.reader =
                Box::new(TracedLinkStream::new(self.reader, trace.clone(), WireDirection::Received));
            self.writer = Box::new(TracedLinkStream::new(self.writer, trace, WireDirection::Sent));
        }
        self
    }
}

/// One direction of a link, whose messages are written to the wire trace.
struct TracedLinkStream<S> {
    stream: S,
    trace: ConnectionTrace,
    direction: WireDirection,
    messages: WireMessages,
    is_ended: bool,
}

impl<S> TracedLinkStream<S> {
    fn new(stream: S, trace: ConnectionTrace, direction: WireDirection) -> Self {
        Self { stream, trace, direction, messages: WireMessages::lines(), is_ended: false }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.messages.push(bytes, |text| self.trace.write(self.direction, text));
    }

    fn end(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_ended, true) {
            self.messages.end(|text| self.trace.write(self.direction, text));
            self.trace.write(self.direction, why);
        }
    }
}

impl<S> Drop for TracedLinkStream<S> {
    fn drop(&mut self) {
        if self.direction == WireDirection::Sent {
            self.end("(closed)");
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TracedLinkStream<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for TracedLinkStream<S> {
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
