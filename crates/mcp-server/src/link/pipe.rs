//! An in-memory pipe with a fixed capacity.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Creates a pipe. Dropping one end closes the other.
pub(crate) fn pipe(capacity: usize) -> (PipeWriter, PipeReader) {
    let pipe = Arc::new(Pipe { capacity, state: Mutex::default() });
    (PipeWriter(Arc::clone(&pipe)), PipeReader(pipe))
}

#[derive(Debug)]
struct Pipe {
    capacity: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    /// The number of bytes that were read.
    read: usize,
    is_closed: bool,
    /// The waker of the reader of an empty pipe, or of the writer of a full one.
    waiting: Option<Waker>,
}

#[derive(Debug)]
pub(crate) struct PipeWriter(Arc<Pipe>);

#[derive(Debug)]
pub(crate) struct PipeReader(Arc<Pipe>);

impl Pipe {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.wake();
    }
}

impl State {
    fn wake(&mut self) {
        if let Some(waker) = self.waiting.take() {
            waker.wake();
        }
    }
}

impl AsyncWrite for PipeWriter {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.0.lock();
        if state.is_closed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let count = bytes.len().min(self.0.capacity.saturating_sub(state.bytes.len()));
        if count == 0 && !bytes.is_empty() {
            state.waiting = Some(cx.waker().clone());
            return Poll::Pending;
        }
        state.bytes.extend_from_slice(&bytes[..count]);
        state.wake();
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.close();
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for PipeReader {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.lock();
        let rest = &state.bytes[state.read..];
        if rest.is_empty() && !state.is_closed {
            state.waiting = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let count = rest.len().min(buf.remaining());
        buf.put_slice(&rest[..count]);
        state.read += count;
        if state.read == state.bytes.len() {
            state.bytes.clear();
            state.read = 0;
            state.wake();
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for PipeWriter {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Drop for PipeReader {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn reader_gets_all_bytes_and_end_of_file() {
        let (mut writer, mut reader) = pipe(7);
        let sent: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        let expected = sent.clone();
        let writing = tokio::spawn(async move { writer.write_all(&sent).await });
        let mut received = Vec::new();
        reader.read_to_end(&mut received).await.unwrap();
        assert_eq!(received, expected);
        writing.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn write_without_a_reader_fails_with_broken_pipe() {
        let (mut writer, reader) = pipe(4);
        let writing = tokio::spawn(async move { writer.write_all(b"more than fits").await });
        tokio::task::yield_now().await;
        drop(reader);
        assert_eq!(writing.await.unwrap().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
