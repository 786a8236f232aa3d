//! A reader of byte chunks that arrive through a channel.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;

use crate::budget::Share;

/// A byte stream that consists of the chunks of a channel. The stream ends when all senders are dropped.
pub(crate) struct ChunkReader {
    receiver: mpsc::Receiver<io::Result<Chunk>>,
    chunk: Chunk,
    read: usize,
}

/// A chunk of bytes with its share of the memory budget. It is kept until the next chunk is requested, because the
/// reader may still be processing it.
#[derive(Default)]
pub(crate) struct Chunk {
    pub(crate) bytes: Vec<u8>,
    pub(crate) _memory: Option<Share>,
}

impl ChunkReader {
    pub(crate) fn new(receiver: mpsc::Receiver<io::Result<Chunk>>) -> Self {
        Self { receiver, chunk: Chunk::default(), read: 0 }
    }
}

impl AsyncRead for ChunkReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read == self.chunk.bytes.len() {
            self.chunk = Chunk::default();
            self.read = 0;
            match self.receiver.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Ready(Some(chunk)) => {
                    self.chunk = chunk?;
                    self.read = 0;
                }
            }
        }
        let rest = &self.chunk.bytes[self.read..];
        let count = rest.len().min(buf.remaining());
        buf.put_slice(&rest[..count]);
        self.read += count;
        Poll::Ready(Ok(()))
    }
}
