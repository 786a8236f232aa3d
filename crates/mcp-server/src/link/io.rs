//! Reading from and writing to a byte stream.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::outlet::{IDLE_BUFFER_BYTES, Outlet};

/// Reads at most `room` bytes to the end of the buffer.
///
/// # Cancellation
/// Cancel safe: nothing is lost.
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
    pub(crate) count: usize,
    /// The writer was flushed.
    pub(super) is_flushed: bool,
}

/// Writes some of the bytes, and flushes the writer when all are written.
///
/// # Cancellation
/// Cancel safe: nothing was written.
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
            // Keeps a large capacity while messages are large, and shrinks at the first small one.
            if self.bytes.len() < self.bytes.capacity() / 4 {
                self.bytes.shrink_to(IDLE_BUFFER_BYTES);
            }
            self.bytes.clear();
            outlet.return_buffer(&mut self.bytes);
        }
    }
}
