//! A reader over byte chunks received from a channel.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;

use crate::budget::Share;

/// A byte stream of the chunks of a channel. Ends when all senders are dropped.
pub(crate) struct Pieces {
    receiver: mpsc::Receiver<io::Result<Piece>>,
    piece: Piece,
    taken: usize,
}

/// A chunk of bytes with its share of the memory budget, held until the next chunk is requested, because the reader may
/// still process it until then.
#[derive(Default)]
pub(crate) struct Piece {
    pub(crate) bytes: Vec<u8>,
    pub(crate) _memory: Option<Share>,
}

impl Pieces {
    pub(crate) fn new(receiver: mpsc::Receiver<io::Result<Piece>>) -> Self {
        Self { receiver, piece: Piece::default(), taken: 0 }
    }
}

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.taken == self.piece.bytes.len() {
            self.piece = Piece::default();
            self.taken = 0;
            match self.receiver.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Ready(Some(piece)) => {
                    self.piece = piece?;
                    self.taken = 0;
                }
            }
        }
        let rest = &self.piece.bytes[self.taken..];
        let count = rest.len().min(buf.remaining());
        buf.put_slice(&rest[..count]);
        self.taken += count;
        Poll::Ready(Ok(()))
    }
}
