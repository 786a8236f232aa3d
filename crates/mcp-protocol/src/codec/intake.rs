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
    /// Nothing was consumed; a byte order mark may come.
    is_fresh: bool,
}

impl Intake {
    pub(super) fn new() -> Self {
        Self { bytes: Vec::new(), start: 0, searched: 0, is_fresh: true }
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

    /// False while the stream may still begin with a byte order mark, which is skipped.
    pub(super) fn is_past_the_mark(&mut self) -> bool {
        const MARK: &[u8] = b"\xEF\xBB\xBF";
        if self.is_fresh {
            if self.bytes.len() < MARK.len() && MARK.starts_with(&self.bytes) {
                return false;
            }
            self.is_fresh = false;
            if self.bytes.starts_with(MARK) {
                self.consume(MARK.len());
            }
        }
        true
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
