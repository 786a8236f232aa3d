//! Bytes that were read from a stream and are not understood yet.

use crate::limits::KEPT_BUFFER;

/// A buffer that is filled at its end and consumed at its beginning, with a mark for how far it was searched.
#[derive(Debug)]
pub(super) struct Intake {
    pub(super) bytes: Vec<u8>,
    /// Where the next item begins.
    pub(super) start: usize,
    /// How far the search for its end got; no byte before it is looked at again.
    pub(super) searched: usize,
}

/// Text without the byte order mark that it may begin with. Programs write one at the beginning of a stream, and some
/// before every message, where it would make a message unreadable.
pub(crate) fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes)
}

impl Intake {
    pub(super) fn new() -> Self {
        Self { bytes: Vec::new(), start: 0, searched: 0 }
    }

    /// The buffer to read into, at its end. Moves fewer bytes than were consumed since the last time.
    pub(super) fn space(&mut self) -> &mut Vec<u8> {
        if self.start == 0 {
            // Nothing was consumed: asked once more for the same space.
        } else if self.start == self.bytes.len() {
            // Kept while large messages keep coming, let go at the first small one.
            if self.bytes.len() < self.bytes.capacity() / 4 {
                self.bytes.shrink_to(KEPT_BUFFER);
            }
            self.bytes.clear();
            self.searched = 0;
            self.start = 0;
        } else if self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        &mut self.bytes
    }

    /// Releases memory that holds nothing any more.
    pub(super) fn shrink(&mut self) {
        if self.start == self.bytes.len() && self.bytes.capacity() > KEPT_BUFFER {
            *self = Self::new();
        }
    }

    /// What is not consumed.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Moves on to `count` bytes further; the search begins there.
    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
        self.searched = self.start;
    }
}
