//! Reading from and writing to a byte stream.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::outlet::{IDLE_BUFFER_BYTES, Outlet};

/// Reads at most `room` bytes and appends them to the buffer. Returns their number, which is 0 at the end of the
/// stream.
///
/// # Cancellation
/// Cancel safe: no bytes are lost if the future is dropped.
pub(crate) async fn read(
    reader: &mut (dyn AsyncRead + Send + Unpin),
    buffer: &mut Vec<u8>,
    room: usize,
) -> io::Result<usize> {
    let end = buffer.len();
    poll_fn(|cx| {
        buffer.resize(end + room, 0);
        let mut space = ReadBuf::new(&mut buffer[end..]);
        let poll = Pin::new(&mut *reader).poll_read(cx, &mut space);
        let count = space.filled().len();
        buffer.truncate(end + count);
        poll.map_ok(|()| count)
    })
    .await
}

/// The result of a write.
pub(crate) struct WriteResult {
    /// The number of bytes written.
    pub(crate) count: usize,
    /// True if the writer was flushed after the last byte.
    pub(super) is_flushed: bool,
}

/// Writes as many of the bytes as the writer accepts at once. If these are all of them (or there are none), flushes the
/// writer.
///
/// # Cancellation
/// Cancel safe: if the future is dropped before it completes, nothing was written.
pub(crate) async fn write(
    writer: &mut (dyn AsyncWrite + Send + Unpin),
    bytes: &[u8],
) -> io::Result<WriteResult> {
    poll_fn(|cx| {
        let mut count = 0;
        if !bytes.is_empty() {
            count = ready!(Pin::new(&mut *writer).poll_write(cx, bytes))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
        }
        if count < bytes.len() {
            return Poll::Ready(Ok(WriteResult { count, is_flushed: false }));
        }
        match Pin::new(&mut *writer).poll_flush(cx) {
            Poll::Ready(flushed) => Poll::Ready(flushed.map(|()| WriteResult { count, is_flushed: true })),
            Poll::Pending if count > 0 => Poll::Ready(Ok(WriteResult { count, is_flushed: false })),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// The buffer that is being written.
#[derive(Default)]
pub(super) struct WriteBuffer {
    bytes: Vec<u8>,
    written: usize,
}

impl WriteBuffer {
    pub(super) fn refill(&mut self, outlet: &Outlet) {
        if self.bytes.is_empty() {
            outlet.take(&mut self.bytes);
        }
    }

    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn advance(&mut self, count: usize, outlet: &Outlet) {
        self.written += count;
        if self.written == self.bytes.len() {
            self.written = 0;
            // Keeps a large capacity while messages are large, and releases it after the first small message.
            if self.bytes.len() < self.bytes.capacity() / 4 {
                self.bytes.shrink_to(IDLE_BUFFER_BYTES);
            }
            self.bytes.clear();
            outlet.return_buffer(&mut self.bytes);
        }
    }
}
