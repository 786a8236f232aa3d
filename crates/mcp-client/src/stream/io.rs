//! Reading from and writing to the byte streams of a link.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

/// Appends the bytes of one read to the buffer, after reserving `room` bytes.
///
/// # Cancellation
/// Cancel safe: nothing is lost.
pub(crate) async fn read(
    reader: &mut (dyn AsyncRead + Send + Unpin),
    buffer: &mut Vec<u8>,
    room: usize,
) -> io::Result<usize> {
    buffer.reserve(room);
    reader.read_buf(buffer).await
}

/// Writes some of the bytes, and flushes the writer once all are written. Returns the number of bytes written, and
/// whether the writer is flushed.
///
/// # Cancellation
/// Cancel safe: nothing was written.
pub(crate) async fn write(
    writer: &mut (dyn AsyncWrite + Send + Unpin),
    bytes: &[u8],
) -> io::Result<(usize, bool)> {
    poll_fn(|cx| {
        let mut count = 0;
        if !bytes.is_empty() {
            count = ready!(Pin::new(&mut *writer).poll_write(cx, bytes))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
        }
        if count < bytes.len() {
            return Poll::Ready(Ok((count, false)));
        }
        match Pin::new(&mut *writer).poll_flush(cx) {
            Poll::Ready(flushed) => Poll::Ready(flushed.map(|()| (count, true))),
            Poll::Pending if count > 0 => Poll::Ready(Ok((count, false))),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
