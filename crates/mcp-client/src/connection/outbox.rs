//! The messages that wait to be written.

use std::ops::Range;

use mcp_protocol::peer::CallHandle;

/// The framing of messages in the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Each message is a line. All lines are handed out together, to be written to a byte stream.
    Lines,
    /// Messages are handed out one by one, each with its call if it is a request.
    Messages,
}

/// One buffer for all messages that wait to be written. It is reused as long as the connection lives.
#[derive(Debug)]
pub(crate) struct Outbox {
    framing: Framing,
    bytes: Vec<u8>,
    /// The call and the position of each message; empty with [`Framing::Lines`].
    messages: Vec<(Option<CallHandle>, Range<usize>)>,
    /// The number of bytes that were queued since the connection began.
    queued: u64,
    /// The number of these bytes that were written or dropped.
    written: u64,
}

impl Outbox {
    pub(super) fn new(framing: Framing) -> Self {
        Self { framing, bytes: Vec::new(), messages: Vec::new(), queued: 0, written: 0 }
    }

    /// Appends a message. `call` is set if the message is a request. If `write` fails, nothing is appended.
    pub(super) fn push(
        &mut self,
        call: Option<CallHandle>,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), serde_json::Error>,
    ) -> Result<(), serde_json::Error> {
        let start = self.bytes.len();
        if let Err(error) = write(&mut self.bytes) {
            self.bytes.truncate(start);
            return Err(error);
        }
        match self.framing {
            Framing::Lines => self.bytes.push(b'\n'),
            Framing::Messages => self.messages.push((call, start..self.bytes.len())),
        }
        self.queued += (self.bytes.len() - start) as u64;
        Ok(())
    }

    /// Discards all messages for the previous link, and queues the lines that the negotiation of the new link has not
    /// written.
    pub(super) fn restart(&mut self, unsent: Vec<u8>) {
        self.written = self.queued;
        self.queued += unsent.len() as u64;
        self.bytes = unsent;
        self.messages.clear();
    }

    /// Drops all messages and frees their memory. Returns the number of dropped bytes, which do not count as written
    /// yet.
    pub(super) fn clear(&mut self) -> usize {
        self.messages.clear();
        std::mem::take(&mut self.bytes).len()
    }

    /// Returns the queued bytes that were not handed to a driver.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Removes the first `count` bytes, which the caller has written itself.
    pub(super) fn wrote_directly(&mut self, count: usize) {
        self.written += count as u64;
        if count < self.bytes.len() {
            self.bytes.drain(..count);
        } else {
            self.bytes.clear();
        }
    }

    /// Counts `count` bytes that a driver has written.
    pub(super) fn wrote(&mut self, count: usize) {
        self.written += count as u64;
    }

    /// Returns the position of the next message: the number of bytes queued so far.
    pub(super) fn queued(&self) -> u64 {
        self.queued
    }

    /// Returns the position up to which everything was written.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Returns the number of bytes that are not written yet, including those that were handed to a driver.
    pub(super) fn pending(&self) -> u64 {
        self.queued - self.written
    }

    /// Hands all lines to a driver, in exchange for an empty buffer.
    pub(super) fn swap(&mut self, into: &mut Vec<u8>) {
        std::mem::swap(&mut self.bytes, into);
    }

    /// Hands all messages to a driver.
    pub(super) fn drain(&mut self, mut take: impl FnMut(Option<CallHandle>, &[u8])) {
        for (call, range) in self.messages.drain(..) {
            take(call, &self.bytes[range]);
        }
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(outbox: &mut Outbox, text: &str) {
        let written = outbox.push(None, |out| {
            out.extend_from_slice(text.as_bytes());
            Ok(())
        });
        assert!(written.is_ok());
    }

    #[test]
    fn lines_end_with_a_newline_and_leave_in_one_buffer() {
        let mut outbox = Outbox::new(Framing::Lines);
        push(&mut outbox, "{}");
        push(&mut outbox, "[]");
        let mut writing = Vec::new();
        outbox.swap(&mut writing);
        assert_eq!(writing, b"{}\n[]\n");
        assert_eq!((outbox.pending(), outbox.bytes().len()), (6, 0));
        outbox.wrote(6);
        assert_eq!(outbox.pending(), 0);
    }

    #[test]
    fn messages_leave_one_by_one_without_newlines() {
        let mut outbox = Outbox::new(Framing::Messages);
        push(&mut outbox, "{}");
        push(&mut outbox, "[1]");
        let mut taken = Vec::new();
        outbox.drain(|call, message| taken.push((call, message.to_vec())));
        assert_eq!(taken, [(None, b"{}".to_vec()), (None, b"[1]".to_vec())]);
        assert_eq!(outbox.pending(), 5);
        outbox.drain(|_, _| panic!("handed out twice"));
    }

    #[test]
    fn message_that_cannot_be_serialized_leaves_nothing() {
        let mut outbox = Outbox::new(Framing::Lines);
        push(&mut outbox, "{}");
        let failed = outbox.push(None, |out| {
            out.extend_from_slice(b"{\"half");
            Err(serde::ser::Error::custom("not serializable"))
        });
        assert!(failed.is_err());
        assert_eq!(outbox.bytes(), b"{}\n");
        assert_eq!(outbox.pending(), 3);
    }

    #[test]
    fn dropped_messages_do_not_count_as_written() {
        let mut outbox = Outbox::new(Framing::Lines);
        push(&mut outbox, "{}");
        outbox.wrote_directly(1);
        assert_eq!((outbox.bytes(), outbox.written()), (&b"}\n"[..], 1));
        assert_eq!(outbox.clear(), 2);
        assert_eq!((outbox.written(), outbox.queued()), (1, 3));
        outbox.restart(b"{}\n".to_vec());
        assert_eq!((outbox.written(), outbox.queued(), outbox.pending()), (3, 6, 3));
    }
}
