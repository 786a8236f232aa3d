//! Server-sent events (SSE), as specified by the WHATWG HTML standard.
//!
//! Lines end in LF, CRLF or CR, even across chunks; comments and unknown fields are ignored; an event without data is
//! not dispatched but may set the last event id; an incomplete event at the end of the stream is discarded.
//!
//! Spec: MCP 2026-07-28, basic/transports/streamable-http; WHATWG HTML, server-sent events.

use std::borrow::Cow;

use super::input::{InputBuffer, without_mark};
use crate::errors::{DecodeError, DecodeErrorKind};
use crate::limits::{IDLE_BUFFER_BYTES, Limits, MAX_SALVAGE_BYTES};
use crate::messages::salvage_id;

/// Decodes an event stream.
///
/// ```
/// use mcp_protocol::Limits;
/// use mcp_protocol::codec::sse::{Events, Item};
///
/// let mut events = Events::new(&Limits::default());
/// events.push(b"id: 7\ndata: {\"a\":\ndata: 1}\n\n");
/// let Some(Item::Event(event)) = events.poll_event() else { panic!() };
/// assert_eq!((event.kind, event.data), ("message".into(), &b"{\"a\":\n1}"[..]));
/// assert_eq!(events.last_event_id(), "7");
/// ```
#[doc(alias = "SSE")]
#[doc(alias = "EventSource")]
#[derive(Debug)]
pub struct Events {
    input: InputBuffer,
    data: Vec<u8>,
    has_data: bool,
    kind: Vec<u8>,
    id: Option<String>,
    last_id: String,
    retry: Option<u64>,
    /// The previous line ended in CR: a following LF belongs to it.
    after_cr: bool,
    /// The current event was returned and must be cleared before the next one is read.
    given: bool,
    skip_state: SkipState,
    limit: usize,
    skip_limit: usize,
    /// Maximum bytes of an id or type. Longer ones are ignored, because the id is sent back as a header.
    header_limit: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum SkipState {
    No,
    /// Skipping to the end of the event: the number of bytes skipped so far, and whether the current line is still
    /// empty.
    Skipping {
        skipped: usize,
        blank: bool,
    },
    /// The event is longer than the maximum that is skipped.
    Endless,
    /// Like `Endless`, and already reported.
    Reported,
}

/// The next item of the stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// An event with data.
    Event(Event<'a>),
    /// An event longer than [`Limits::message`]. It is skipped. The error contains the id of the message, if the id is
    /// in the first 1 KiB.
    TooLong(DecodeError),
    /// An event longer than four times [`Limits::message`]. The rest of the stream cannot be read: no more events are
    /// returned.
    Endless,
}

/// An event with data.
#[derive(Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Event type; `message` if absent.
    pub kind: Cow<'a, str>,
    /// Data lines, joined by newlines.
    pub data: &'a [u8],
}

impl Events {
    /// Creates a decoder at the start of a stream.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self {
            input: InputBuffer::new(),
            data: Vec::new(),
            has_data: false,
            kind: Vec::new(),
            id: None,
            last_id: String::new(),
            retry: None,
            after_cr: false,
            given: false,
            skip_state: SkipState::No,
            limit: limits.message,
            skip_limit: limits.endless(),
            header_limit: limits.header,
        }
    }

    /// Returns the id of the last event, with which a client resumes the stream. Empty if no event had an id.
    #[doc(alias = "Last-Event-ID")]
    #[must_use]
    pub fn last_event_id(&self) -> &str {
        &self.last_id
    }

    /// Returns the reconnection delay (`retry`) in milliseconds, if the server sent one.
    #[must_use]
    pub fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// Appends bytes that were read. Poll the events after each push.
    pub fn push(&mut self, bytes: &[u8]) {
        self.input.space().extend_from_slice(bytes);
    }

    /// Returns the next event or error, or `None` until more bytes are pushed.
    pub fn poll_event(&mut self) -> Option<Item<'_>> {
        if self.given {
            self.forget();
        }
        loop {
            if self.after_cr && self.input.start < self.input.bytes.len() {
                self.after_cr = false;
                if self.input.bytes[self.input.start] == b'\n' {
                    self.input.start += 1;
                }
                self.input.searched = self.input.searched.max(self.input.start);
            }
            if self.skip_state != SkipState::No {
                if self.skip() {
                    continue;
                }
                if self.skip_state == SkipState::Endless {
                    self.skip_state = SkipState::Reported;
                    return Some(Item::Endless);
                }
                return None;
            }
            let Some(length) = memchr::memchr2(b'\n', b'\r', &self.input.bytes[self.input.searched..]) else {
                self.input.searched = self.input.bytes.len();
                return self.check_length();
            };
            let (start, end) = (self.input.start, self.input.searched + length);
            if self.data.len() + without_mark(&self.input.bytes[start..end]).len() > self.limit {
                self.input.searched = self.input.start;
                return self.check_length();
            }
            self.after_cr = self.input.bytes[end] == b'\r';
            self.input.consume(end + 1 - start);
            if start < end {
                self.field(start, end);
            } else if self.dispatch() {
                self.given = true;
                let kind = match &self.kind[..] {
                    b"" => "message".into(),
                    kind => String::from_utf8_lossy(kind),
                };
                return Some(Item::Event(Event { kind, data: &self.data }));
            }
        }
    }

    fn field(&mut self, start: usize, end: usize) {
        // The standard allows a byte order mark only at the beginning of the stream; elsewhere it would hide the field.
        let line = without_mark(&self.input.bytes[start..end]);
        let (name, value) = match memchr::memchr(b':', line) {
            Some(at) => {
                let value = &line[at + 1..];
                (&line[..at], value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &b""[..]),
        };
        match name {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                    self.data.extend_from_slice(value);
                } else {
                    self.has_data = true;
                    self.data.extend_from_slice(without_mark(value));
                }
            }
            b"event" if value.len() <= self.header_limit => self.kind = value.to_vec(),
            b"id" if !value.contains(&0) && value.len() <= self.header_limit => {
                self.id = Some(String::from_utf8_lossy(value).into_owned())
            }
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                self.retry = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
            }
            _ => {}
        }
    }

    /// Ends an event; returns true if it has data.
    fn dispatch(&mut self) -> bool {
        if let Some(id) = &self.id {
            self.last_id.clone_from(id);
        }
        if self.data.is_empty() {
            self.forget();
            return false;
        }
        true
    }

    fn forget(&mut self) {
        self.given = false;
        self.has_data = false;
        self.data.clear();
        self.data.shrink_to(IDLE_BUFFER_BYTES);
        self.kind.clear();
    }

    /// Reports an event that exceeds the limit, once, and starts to skip it.
    fn check_length(&mut self) -> Option<Item<'_>> {
        let line = without_mark(self.input.rest());
        if self.data.len() + line.len() <= self.limit {
            return None;
        }
        let text = if self.has_data { &self.data } else { line.strip_prefix(b"data:").unwrap_or(line) };
        let mut error =
            salvage_id(without_mark(text[..text.len().min(MAX_SALVAGE_BYTES)].trim_ascii_start()));
        error.kind = DecodeErrorKind::TooLong { limit: self.limit };
        self.forget();
        self.skip_state = SkipState::Skipping { skipped: 0, blank: false };
        Some(Item::TooLong(error))
    }

    /// Skips the buffered part of an overlong event; returns true if its end was found.
    fn skip(&mut self) -> bool {
        let SkipState::Skipping { mut skipped, mut blank } = self.skip_state else {
            self.input.consume(self.input.rest().len());
            return false;
        };
        loop {
            let line = self.input.rest();
            if line.is_empty() {
                return false;
            }
            let end = memchr::memchr2(b'\n', b'\r', line);
            skipped += end.unwrap_or(line.len());
            let is_blank = blank && end == Some(0);
            blank = end.is_some();
            self.after_cr = end.is_some_and(|end| line[end] == b'\r');
            self.input.consume(end.map_or(line.len(), |end| end + 1));
            if self.after_cr && self.input.rest().first() == Some(&b'\n') {
                self.after_cr = false;
                self.input.consume(1);
            }
            // Whether an event is endless depends only on its length, not on the size of the chunks.
            self.skip_state = match end {
                _ if skipped > self.skip_limit => SkipState::Endless,
                Some(_) if is_blank => SkipState::No,
                _ => SkipState::Skipping { skipped, blank },
            };
            match self.skip_state {
                SkipState::No => return true,
                SkipState::Skipping { .. } if end.is_some() => {}
                _ => return false,
            }
        }
    }
}

/// Appends an event of type `message` with one message. A line break in the message starts another data line. An id
/// with a line break or NUL is omitted.
///
/// ```
/// let mut out = Vec::new();
/// mcp_protocol::codec::sse::write_message(&mut out, Some("7"), b"{}");
/// assert_eq!(out, b"event: message\nid: 7\ndata: {}\n\n");
/// ```
pub fn write_message(out: &mut Vec<u8>, id: Option<&str>, message: &[u8]) {
    out.extend_from_slice(b"event: message\n");
    if let Some(id) = id.filter(|id| !id.contains(['\r', '\n', '\0'])) {
        out.extend_from_slice(b"id: ");
        out.extend_from_slice(id.as_bytes());
        out.push(b'\n');
    }
    for line in message.split(|byte| matches!(byte, b'\r' | b'\n')) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.push(b'\n');
}

/// A comment that keeps the connection alive.
#[doc(alias = "keep-alive")]
pub const KEEP_ALIVE: &[u8] = b":\n\n";

#[cfg(test)]
mod tests;
