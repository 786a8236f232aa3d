//! Messages as lines: the framing of stdio.
//!
//! [`Lines`] splits a byte stream into lines. [`LineBuffer`] buffers the lines to write. A `\r` before the newline,
//! blank lines and byte order marks are tolerated.
//!
//! Spec: MCP 2026-07-28, basic/transports/stdio.

use super::input::{InputBuffer, without_mark};
use crate::errors::{DecodeError, DecodeErrorKind};
use crate::limits::{IDLE_BUFFER_BYTES, Limits, MAX_SALVAGE_BYTES};
use crate::messages::salvage_id;
use crate::safe_text::SafeText;

/// Splits a byte stream into lines.
///
/// ```
/// use mcp_protocol::Limits;
/// use mcp_protocol::codec::line::{Line, Lines};
///
/// let mut lines = Lines::new(&Limits::default());
/// lines.push(b"{\"a\":1}\r\n\n{\"b\"");
/// assert_eq!(lines.poll_line(), Some(Line::Whole(b"{\"a\":1}")));
/// assert_eq!(lines.poll_line(), None);
/// lines.push(b":2}\n");
/// assert_eq!(lines.poll_line(), Some(Line::Whole(b"{\"b\":2}")));
/// ```
///
/// # Invariants
/// - No byte is searched for a newline twice, whatever the size of the chunks.
/// - At most one line of [`Limits::message`] bytes is buffered, in addition to the last push.
#[derive(Debug)]
pub struct Lines {
    input: InputBuffer,
    limit: usize,
    skip_limit: usize,
    state: LineState,
}

#[derive(Debug, PartialEq, Eq)]
enum LineState {
    Reading,
    /// Inside an overlong line, of which this many bytes were skipped.
    Skipping(usize),
    /// The line is longer than the maximum that is skipped. Reading has stopped.
    Endless,
}

/// The next item of the stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A line without its newline; never blank.
    Whole(&'a [u8]),
    /// A line longer than [`Limits::message`]. It is skipped. The error contains the id of the message, if the id is in
    /// the first 1 KiB.
    TooLong(DecodeError),
    /// A line longer than four times [`Limits::message`]. The rest of the stream cannot be read: no more lines are
    /// returned.
    Endless,
}

impl Lines {
    /// Creates a decoder at the start of a stream.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self {
            input: InputBuffer::new(),
            limit: limits.message,
            skip_limit: limits.endless(),
            state: LineState::Reading,
        }
    }

    /// Appends bytes that were read. Poll the lines after each push.
    pub fn push(&mut self, bytes: &[u8]) {
        self.space().extend_from_slice(bytes);
    }

    /// Returns the buffer to read into. Poll the lines after each read.
    pub fn space(&mut self) -> &mut Vec<u8> {
        self.input.space()
    }

    /// Releases the memory of a large buffer if all its bytes are consumed, for programs with many streams. Without
    /// this call, the memory is released after the next small line.
    pub fn shrink(&mut self) {
        self.input.shrink();
    }

    /// Returns the next line or error, or `None` until more bytes are pushed.
    pub fn poll_line(&mut self) -> Option<Line<'_>> {
        loop {
            match self.state {
                LineState::Endless => {
                    self.input.consume(self.input.rest().len());
                    return None;
                }
                LineState::Skipping(skipped) => {
                    if !self.skip(skipped) {
                        return (self.state == LineState::Endless).then_some(Line::Endless);
                    }
                }
                LineState::Reading => {}
            }
            let Some(length) = memchr::memchr(b'\n', &self.input.bytes[self.input.searched..]) else {
                self.input.searched = self.input.bytes.len();
                return self.overlong();
            };
            let (start, end) = (self.input.start, self.input.searched + length);
            if without_mark(&self.input.bytes[start..end]).len() > self.limit {
                // The next call skips to the newline that is already buffered.
                return self.overlong();
            }
            self.input.consume(end + 1 - start);
            let end = if self.input.bytes[start..end].last() == Some(&b'\r') { end - 1 } else { end };
            let start = end - without_mark(&self.input.bytes[start..end]).len();
            if !self.input.bytes[start..end].trim_ascii().is_empty() {
                return Some(Line::Whole(&self.input.bytes[start..end]));
            }
        }
    }

    /// Returns the bytes after the last newline without surrounding white space. At the end of the stream, they are an
    /// incomplete line. Returns nothing while an overlong line is skipped.
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        match self.state {
            LineState::Reading => without_mark(self.input.rest()).trim_ascii(),
            LineState::Skipping(_) | LineState::Endless => &[],
        }
    }

    /// Reports a line that exceeds the limit, once, and starts to skip it.
    fn overlong(&mut self) -> Option<Line<'_>> {
        let line = without_mark(self.input.rest());
        if line.len() <= self.limit {
            return None;
        }
        let mut error = salvage_id(&line[..line.len().min(MAX_SALVAGE_BYTES)]);
        error.kind = DecodeErrorKind::TooLong { limit: self.limit };
        self.state = LineState::Skipping(0);
        self.input.searched = self.input.start;
        Some(Line::TooLong(error))
    }

    /// Returns true if the end of the overlong line was found.
    fn skip(&mut self, skipped: usize) -> bool {
        let line = self.input.rest();
        let newline = memchr::memchr(b'\n', line);
        // Whether a line is endless depends only on its length, not on the size of the chunks.
        let skipped = skipped + newline.unwrap_or(line.len());
        self.input.consume(newline.map_or(line.len(), |length| length + 1));
        self.state = match newline {
            _ if skipped > self.skip_limit => LineState::Endless,
            Some(_) => LineState::Reading,
            None => LineState::Skipping(skipped),
        };
        self.state == LineState::Reading
    }
}

/// The size of the next read from a stream, which adapts to the previous reads: 4 KiB to 64 KiB.
///
/// It shrinks only after two small reads in a row. A burst that does not fit into one read leaves a small rest for the
/// next read, but the burst after it is usually as large. If the size shrank at once, every burst would be read in two
/// pieces, and answered in two.
///
/// ```
/// use mcp_protocol::codec::line::ReadSize;
///
/// let mut size = ReadSize::default();
/// size.handle_read(size.bytes());
/// assert_eq!(size.bytes(), 8 << 10);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ReadSize {
    bytes: usize,
    was_small: bool,
}

impl ReadSize {
    /// The smallest size, in bytes.
    pub const MIN_BYTES: usize = 4 << 10;
    /// The largest size, in bytes.
    pub const MAX_BYTES: usize = 64 << 10;

    /// Returns the number of bytes to reserve for the next read.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Handles a read of `count` bytes.
    pub fn handle_read(&mut self, count: usize) {
        let is_small = count < self.bytes / 4;
        if count >= self.bytes {
            self.bytes = (self.bytes * 2).min(Self::MAX_BYTES);
        } else if is_small && self.was_small {
            self.bytes = (self.bytes / 2).max(Self::MIN_BYTES);
        }
        self.was_small = is_small;
    }
}

impl Default for ReadSize {
    fn default() -> Self {
        Self { bytes: Self::MIN_BYTES, was_small: false }
    }
}

/// Returns at most `limit` bytes of a line that is not a message, for display. Control characters are escaped, and `…`
/// marks truncation.
///
/// ```
/// assert_eq!(mcp_protocol::codec::line::sample(b"\x1b[31mlog line", 8), "\\u{1b}[31mlog…");
/// ```
#[must_use]
pub fn sample(bytes: &[u8], limit: usize) -> String {
    let kept = &bytes[..bytes.len().min(limit)];
    let mut text = SafeText::new(&String::from_utf8_lossy(kept)).to_string();
    if kept.len() < bytes.len() {
        text.push('…');
    }
    text
}

/// Returns the usual remedy for output that is not a message, given a sample of the first such line.
///
/// ```
/// use mcp_protocol::codec::line::stray_line_hint;
///
/// assert_eq!(stray_line_hint("Listening on port 3000"), "write logs to stderr");
/// assert_eq!(stray_line_hint("{"), "write each message on one line, without line breaks");
/// ```
#[must_use]
pub fn stray_line_hint(sample: &str) -> &'static str {
    let line = sample.trim_start();
    let is_header = line.get(..15).is_some_and(|start| start.eq_ignore_ascii_case("content-length:"));
    if is_header {
        "write each message on one line, without a Content-Length header"
    } else if line.starts_with(['{', '[']) || is_pretty_printed(line.as_bytes()) {
        "write each message on one line, without line breaks"
    } else {
        "write logs to stderr"
    }
}

/// Returns true for the line `"jsonrpc": "2.0",` of a message that is written over several lines.
pub(crate) fn is_pretty_printed(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"\"jsonrpc\"")
}

/// A reusable buffer of lines to write.
///
/// ```
/// use mcp_protocol::codec::line::LineBuffer;
///
/// let mut outbox = LineBuffer::default();
/// outbox.line(|out| { out.extend_from_slice(b"{}"); Ok::<(), ()>(()) }).unwrap();
/// assert_eq!(outbox.bytes(), b"{}\n");
/// outbox.advance(2);
/// assert_eq!(outbox.bytes(), b"\n");
/// ```
#[derive(Debug, Default)]
pub struct LineBuffer {
    buffer: Vec<u8>,
    written: usize,
}

impl LineBuffer {
    /// Appends the output of `write` as one line. Appends nothing if `write` fails.
    ///
    /// # Errors
    /// Returns the error of `write`.
    pub fn line<E>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        let before = self.buffer.len();
        let result = write(&mut self.buffer);
        match result {
            Ok(()) => self.buffer.push(b'\n'),
            Err(_) => self.buffer.truncate(before),
        }
        result
    }

    /// Returns the bytes that are not yet written.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.written..]
    }

    /// Returns true if all bytes are written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }

    /// Marks `count` more bytes as written.
    pub fn advance(&mut self, count: usize) {
        self.written = self.written.saturating_add(count).min(self.buffer.len());
        // Written bytes are removed when they are at least half of the buffer, so that no more bytes are moved than
        // were written.
        if self.written * 2 >= self.buffer.len() {
            self.buffer.drain(..self.written);
            self.buffer.shrink_to(IDLE_BUFFER_BYTES.max(self.buffer.len()));
            self.written = 0;
        }
    }
}

#[cfg(test)]
mod tests;
