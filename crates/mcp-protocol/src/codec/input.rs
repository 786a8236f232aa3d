//! A buffer for bytes that were read from a stream and not yet parsed.

use crate::limits::IDLE_BUFFER_BYTES;

/// A buffer that is filled at the end and consumed at the beginning, with the position up to which it was searched.
#[derive(Debug)]
pub(super) struct InputBuffer {
    pub(super) bytes: Vec<u8>,
    /// Start of the next item.
    pub(super) start: usize,
    /// Position up to which the end of the item has been searched for; no byte before it is searched again.
    pub(super) searched: usize,
}

/// Returns the text without a leading byte order mark. JSON does not allow one, but some programs write it at the
/// beginning of a stream or before every message.
pub(crate) fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes)
}

impl InputBuffer {
    pub(super) fn new() -> Self {
        Self { bytes: Vec::new(), start: 0, searched: 0 }
    }

    /// Returns the buffer to append to. Moves the unconsumed bytes only if they are fewer than the consumed bytes.
    pub(super) fn space(&mut self) -> &mut Vec<u8> {
        if self.start == 0 {
            // Nothing was consumed since the last call.
        } else if self.start == self.bytes.len() {
            // Keep the capacity while large messages arrive; release it at the first small one.
            if self.bytes.len() < self.bytes.capacity() / 4 {
                self.bytes.shrink_to(IDLE_BUFFER_BYTES);
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

    /// Releases the memory of a large buffer if all its bytes are consumed.
    pub(super) fn shrink(&mut self) {
        if self.start == self.bytes.len() && self.bytes.capacity() > IDLE_BUFFER_BYTES {
            *self = Self::new();
        }
    }

    /// Returns the unconsumed bytes.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Consumes `count` bytes. The next search starts after them.
    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
        self.searched = self.start;
    }
}
