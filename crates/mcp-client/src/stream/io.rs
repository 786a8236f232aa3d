//! Reading from and writing to the byte streams of a link.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

/// Reserves `room` bytes in the buffer, and appends the bytes of one read. Returns their number; 0 at the end of the
/// stream.
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

/// Writes as many of the bytes as one write accepts, and flushes the writer if all are written. Returns the number of
/// bytes written, and whether the writer is flushed.
///
/// # Cancellation
/// Cancel safe: if the future is dropped before it completes, nothing was written.
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
