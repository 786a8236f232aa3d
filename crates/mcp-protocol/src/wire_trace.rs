//! The wire trace: every message with its time and direction, one per line, without credentials.
//!
//! `mcp-client` and `mcp-server` write it: see the guide on debugging. This module contains the parts that both use:
//! [`WireLog`] formats lines, [`WireMessages`] splits the bytes of a stream into messages, [`Secrets`] masks values
//! that must not be shown, and [`shown_headers`] formats HTTP headers. It opens no file and reads no clock.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

use crate::codec::header::PARAM_PREFIX;
use crate::codec::line::{Line, Lines};
use crate::codec::sse::{Events, Item};
use crate::limits::Limits;
use crate::safe_text::SafeText;

/// Minimum length of a secret. Shorter values are not masked: masking every `1` would make the trace unreadable.
const MIN_SECRET_BYTES: usize = 4;
/// The text that replaces a secret.
const MASK: &str = "***";
/// The headers whose values are shown. All others may hold credentials.
const SHOWN_HEADERS: &[&str] = &[
    "accept",
    "accept-encoding",
    "allow",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "origin",
    "retry-after",
    "server",
    "traceparent",
    "transfer-encoding",
    "user-agent",
    "www-authenticate",
];

/// The direction of a message, seen from the side that writes the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireDirection {
    /// `-->`: sent by this side.
    Sent,
    /// `<--`: received from the peer.
    Received,
}

/// Writes the lines of a wire trace.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_protocol::wire_trace::{WireDirection, WireLog};
///
/// let (mut reader, writer) = std::io::pipe()?;
/// let mut log = WireLog::new(writer);
/// log.write(Duration::from_millis(45_296_007), WireDirection::Sent, "weather", r#"{"jsonrpc":"2.0"}"#)?;
/// drop(log);
/// assert_eq!(std::io::read_to_string(&mut reader)?, "12:34:56.007 --> weather {\"jsonrpc\":\"2.0\"}\n");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct WireLog {
    /// `None` after the writer has failed.
    writer: Option<Box<dyn Write + Send>>,
}

impl WireLog {
    /// Creates a trace that is written to `writer`.
    #[must_use]
    pub fn new(writer: impl Write + Send + 'static) -> Self {
        Self { writer: Some(Box::new(writer)) }
    }

    /// Writes and flushes one line: the time of day in UTC, the direction, the label, which may be empty, and the text.
    /// Control characters are escaped. `time` is the time since the Unix epoch. Each line is passed to the writer in a
    /// single `write_all`.
    ///
    /// # Errors
    /// Fails if the writer fails. From then on, nothing is written, and later calls return `Ok`.
    pub fn write(
        &mut self,
        time: Duration,
        direction: WireDirection,
        label: &str,
        text: &str,
    ) -> io::Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let (seconds, millis) = (time.as_secs() % 86_400, time.subsec_millis());
        let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        let arrow = match direction {
            WireDirection::Sent => "-->",
            WireDirection::Received => "<--",
        };
        let space = if label.is_empty() { "" } else { " " };
        let (label, text) = (SafeText::name(label), SafeText::new(text));
        let line = format!("{hours:02}:{minutes:02}:{seconds:02}.{millis:03} {arrow}{space}{label} {text}\n");
        let written = writer.write_all(line.as_bytes()).and_then(|()| writer.flush());
        if written.is_err() {
            self.writer = None;
        }
        written
    }
}

impl std::fmt::Debug for WireLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WireLog").field("has_failed", &self.writer.is_none()).finish_non_exhaustive()
    }
}

/// Splits the bytes of a stream into the messages that a trace shows.
#[derive(Debug)]
pub struct WireMessages(WireFraming);

#[derive(Debug)]
enum WireFraming {
    Lines(Box<Lines>),
    Events(Box<Events>),
    Whole(Vec<u8>),
}

impl WireMessages {
    /// Creates a splitter for a stream with one message per line, as over stdio.
    #[must_use]
    pub fn lines() -> Self {
        Self(WireFraming::Lines(Box::new(Lines::new(&unlimited()))))
    }

    /// Creates a splitter for a stream with one message per server-sent event.
    #[must_use]
    pub fn events() -> Self {
        Self(WireFraming::Events(Box::new(Events::new(&unlimited()))))
    }

    /// Creates a splitter for a stream that is one message.
    #[must_use]
    pub fn whole() -> Self {
        Self(WireFraming::Whole(Vec::new()))
    }

    /// Takes the next bytes of the stream, and calls `show` with the text of each message that they complete.
    pub fn push(&mut self, bytes: &[u8], mut show: impl FnMut(&str)) {
        match &mut self.0 {
            WireFraming::Lines(lines) => {
                lines.push(bytes);
                while let Some(line) = lines.poll_line() {
                    if let Line::Whole(line) = line {
                        show(&String::from_utf8_lossy(line));
                    }
                }
            }
            WireFraming::Events(events) => {
                events.push(bytes);
                while let Some(item) = events.poll_event() {
                    let Item::Event(event) = item else { continue };
                    let data = String::from_utf8_lossy(event.data);
                    match &*event.kind {
                        "message" => show(&data),
                        // The URL of the HTTP+SSE transport (2024-11-05) contains the session id.
                        "endpoint" => show(&format!("event: endpoint {}", without_query(&data))),
                        kind => show(&format!("event: {kind} {data}")),
                    }
                }
            }
            WireFraming::Whole(whole) => whole.extend_from_slice(bytes),
        }
    }

    /// Calls `show` with the message that is left at the end of the stream, if there is one.
    pub fn end(&mut self, mut show: impl FnMut(&str)) {
        match &mut self.0 {
            WireFraming::Lines(lines) if !lines.rest().is_empty() => {
                show(&String::from_utf8_lossy(lines.rest()));
            }
            WireFraming::Whole(whole) if !whole.is_empty() => {
                show(&String::from_utf8_lossy(&std::mem::take(whole)));
            }
            _ => {}
        }
    }
}

/// The transport limits its messages itself. The trace shows all messages that the transport accepts.
fn unlimited() -> Limits {
    Limits::default().message(usize::MAX / 8)
}

/// Returns a URL without its query, which may contain secrets.
///
/// ```
/// assert_eq!(mcp_protocol::wire_trace::without_query("/messages?session=1"), "/messages?…");
/// ```
#[must_use]
pub fn without_query(url: &str) -> Cow<'_, str> {
    match url.find(['?', '#']) {
        Some(at) => Cow::Owned(format!("{}?…", &url[..at])),
        None => Cow::Borrowed(url),
    }
}

/// Values that a trace must not show.
#[derive(Clone, Default)]
pub struct Secrets(Vec<String>);

impl Secrets {
    /// Creates a list of secrets. Values with fewer than four bytes are not masked, because they are too common.
    ///
    /// ```
    /// let secrets = mcp_protocol::wire_trace::Secrets::new(["k\"123".to_owned()]);
    /// assert_eq!(secrets.mask(r#"{"key":"k\"123"}"#), r#"{"key":"***"}"#);
    /// ```
    #[must_use]
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        let mut secrets: Vec<String> = Vec::new();
        for value in values.into_iter().filter(|value| value.len() >= MIN_SECRET_BYTES) {
            // A message may contain the value in a JSON string, with escapes.
            let quoted = serde_json::to_string(&value).unwrap_or_default();
            let escaped = quoted.trim_start_matches('"').strip_suffix('"').unwrap_or_default();
            if escaped != value && !escaped.is_empty() {
                secrets.push(escaped.to_owned());
            }
            secrets.push(value);
        }
        // Longer secrets are replaced first, because they may contain shorter ones.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets)
    }

    /// Replaces each secret in `text` with `***`.
    #[must_use]
    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut masked = Cow::Borrowed(text);
        for secret in self.0.iter().filter(|secret| text.contains(secret.as_str())) {
            masked = Cow::Owned(masked.replace(secret.as_str(), MASK));
        }
        masked
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

/// Returns HTTP headers as text. Values are shown only for headers that are known to hold no credentials. The values of
/// all others, such as `Authorization`, `Cookie`, `Mcp-Session-Id` and unknown headers, are replaced with `***`.
///
/// ```
/// let headers = [("content-type", &b"application/json"[..]), ("authorization", b"Bearer t-123")];
/// let shown = mcp_protocol::wire_trace::shown_headers(headers);
/// assert_eq!(shown, "content-type: application/json, authorization: ***");
/// ```
#[must_use]
pub fn shown_headers<'a>(headers: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> String {
    let mut text = String::new();
    for (name, value) in headers {
        let comma = if text.is_empty() { "" } else { ", " };
        let is_shown = SHOWN_HEADERS.iter().any(|shown| name.eq_ignore_ascii_case(shown))
            || name.get(..PARAM_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PARAM_PREFIX));
        let value = if is_shown { String::from_utf8_lossy(value) } else { Cow::Borrowed(MASK) };
        // Writing to a string does not fail.
        let _ = write!(text, "{comma}{name}: {value}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(mut messages: WireMessages, chunks: &[&str]) -> Vec<String> {
        let mut shown = Vec::new();
        for chunk in chunks {
            messages.push(chunk.as_bytes(), |text| shown.push(text.to_owned()));
        }
        messages.end(|text| shown.push(text.to_owned()));
        shown
    }

    #[test]
    fn trace_splits_every_framing_into_messages() {
        let lines = ["{\"a\":1}\n{\"b\"", ":2}\n\n{\"cut\""];
        assert_eq!(split(WireMessages::lines(), &lines), ["{\"a\":1}", "{\"b\":2}", "{\"cut\""]);
        let events =
            ["event: endpoint\ndata: /m?id=s3cret\n\n: ping\n\ndata: {}\n", "\nevent: x\ndata: y\n\n"];
        assert_eq!(split(WireMessages::events(), &events), ["event: endpoint /m?…", "{}", "event: x y"]);
        assert_eq!(split(WireMessages::whole(), &["{\"a\"", ":1}"]), ["{\"a\":1}"]);
        assert_eq!(split(WireMessages::whole(), &[]), Vec::<String>::new());
    }

    #[test]
    fn trace_line_escapes_control_characters() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut log = WireLog::new(writer);
        log.write(Duration::from_secs(86_399), WireDirection::Received, "", "{\n\"é\":\"\u{1b}\"}").unwrap();
        drop(log);
        let text = std::io::read_to_string(&mut reader).unwrap();
        assert_eq!(text, "23:59:59.000 <-- {\\n\"é\":\"\\u{1b}\"}\n");
    }

    #[test]
    fn failed_trace_writer_is_not_used_again() {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut log = WireLog::new(writer);
        assert!(log.write(Duration::ZERO, WireDirection::Sent, "", "{}").is_err());
        assert!(log.write(Duration::ZERO, WireDirection::Sent, "", "{}").is_ok());
    }

    #[test]
    fn longest_secret_is_masked_first() {
        let secrets = Secrets::new(["abcd", "abcdef", "abc", "a\nbcd"].map(str::to_owned));
        assert_eq!(secrets.mask(r"abcdef abcd abc a\nbcd"), "*** *** abc ***");
    }

    #[test]
    fn only_headers_without_credentials_are_shown() {
        let headers = ["Authorization", "cookie", "MCP-Session-Id", "x-api-key", "proxy-authorization"];
        for name in headers {
            assert_eq!(shown_headers([(name, &b"hush"[..])]), format!("{name}: ***"));
        }
        assert_eq!(shown_headers([("Mcp-Param-Region", &b"eu"[..])]), "Mcp-Param-Region: eu");
    }
}
