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
    /// The number of bytes that a caller is writing: they may have been written.
    lent: u64,
}

impl Outbox {
    pub(super) fn new(framing: Framing) -> Self {
        Self { framing, bytes: Vec::new(), messages: Vec::new(), queued: 0, written: 0, lent: 0 }
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
        (self.written, self.lent) = (self.queued, 0);
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

    /// Hands all lines to a caller, which writes them and then calls `take_back`.
    pub(super) fn lend(&mut self) -> Vec<u8> {
        self.lent = self.bytes.len() as u64;
        std::mem::take(&mut self.bytes)
    }

    /// Takes the lines back from a caller that wrote this many bytes of them. The rest is written first.
    pub(super) fn take_back(&mut self, mut lines: Vec<u8>, written: usize) {
        self.lent = 0;
        self.written += written as u64;
        if written < lines.len() {
            lines.drain(..written);
        } else {
            lines.clear();
        }
        // Reuses the buffer of the caller. Usually nothing was queued meanwhile.
        lines.append(&mut self.bytes);
        self.bytes = lines;
    }

    /// Counts `count` bytes that a driver has written.
    pub(super) fn wrote(&mut self, count: usize) {
        self.written += count as u64;
    }

    /// Returns the position of the next message: the number of bytes queued so far.
    pub(super) fn queued(&self) -> u64 {
        self.queued
    }

    /// Returns the position up to which everything was written, or may have been.
    pub(super) fn maybe_written(&self) -> u64 {
        self.written + self.lent
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
        let lines = outbox.lend();
        outbox.take_back(lines, 1);
        assert_eq!((outbox.bytes(), outbox.maybe_written()), (&b"}\n"[..], 1));
        assert_eq!(outbox.clear(), 2);
        assert_eq!((outbox.maybe_written(), outbox.queued()), (1, 3));
        outbox.restart(b"{}\n".to_vec());
        assert_eq!((outbox.maybe_written(), outbox.queued(), outbox.pending()), (3, 6, 3));
    }

    #[test]
    fn lines_that_a_caller_writes_may_be_sent_and_stay_first() {
        let mut outbox = Outbox::new(Framing::Lines);
        push(&mut outbox, "{}");
        let lines = outbox.lend();
        push(&mut outbox, "[]");
        assert_eq!((outbox.maybe_written(), outbox.pending(), outbox.bytes()), (3, 6, &b"[]\n"[..]));
        outbox.take_back(lines, 2);
        assert_eq!((outbox.maybe_written(), outbox.pending(), outbox.bytes()), (2, 4, &b"\n[]\n"[..]));
        let lines = outbox.lend();
        outbox.take_back(lines, 4);
        assert_eq!((outbox.maybe_written(), outbox.pending(), outbox.bytes()), (6, 0, &b""[..]));
        assert!(outbox.bytes.capacity() > 0, "the buffer is reused");
        push(&mut outbox, "{}");
        assert_eq!((outbox.lend().len(), outbox.maybe_written()), (3, 9));
        outbox.restart(Vec::new());
        assert_eq!((outbox.maybe_written(), outbox.pending()), (9, 0));
    }
}
