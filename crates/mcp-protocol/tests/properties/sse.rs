//! Events do not depend on chunk boundaries, and equal those of a simple decoder of the whole text.

use mcp_protocol::Limits;
use mcp_protocol::codec::sse::{Events, Item};

/// The first byte selects the sizes of the pieces; the rest is the stream.
pub(crate) fn does_not_depend_on_the_cuts(input: &[u8]) {
    let Some((seed, stream)) = input.split_first() else { return };
    let limits = Limits::default().message(16 + usize::from(*seed % 32));
    let bytes = read(stream, &limits, |_| 1);
    assert_eq!(bytes, read(stream, &limits, |_| 1 + usize::from(*seed % 7)));
    assert_eq!(bytes, read(stream, &limits, |at| 1 + (at * 5 + usize::from(*seed)) % 11));
    assert_eq!(bytes, read(stream, &limits, |_| usize::MAX));
    let generous = Limits::default();
    let whole = read(stream, &generous, |_| usize::MAX);
    assert_eq!(whole, read(stream, &generous, |_| 1));
    assert_eq!(whole, simple(stream));
}

const MARK: &[u8] = b"\xEF\xBB\xBF";

type Read = (Vec<(String, Vec<u8>)>, String, Option<u64>);

fn read(stream: &[u8], limits: &Limits, piece: impl Fn(usize) -> usize) -> Read {
    let mut events = Events::new(limits);
    let mut found = Vec::new();
    let (mut at, mut pieces) = (0, 0);
    while at < stream.len() {
        let end = stream.len().min(at.saturating_add(piece(pieces)));
        pieces += 1;
        events.push(&stream[at..end]);
        at = end;
        while let Some(item) = events.poll_event() {
            found.push(match item {
                Item::Event(event) => {
                    assert!(event.data.len() <= limits.message);
                    (event.kind.into_owned(), event.data.to_vec())
                }
                Item::TooLong(_) => ("TOO LONG".into(), Vec::new()),
                Item::Endless => ("ENDLESS".into(), Vec::new()),
            });
        }
    }
    (found, events.last_event_id().to_owned(), events.retry())
}

/// The algorithm of the standard over the whole text, without optimization. A byte order mark is skipped before any
/// field and before any message.
fn simple(stream: &[u8]) -> Read {
    let (mut found, mut last_id, mut retry) = (Vec::new(), String::new(), None);
    let (mut data, mut kind, mut id): (Vec<u8>, Vec<u8>, Option<Vec<u8>>) = Default::default();
    let mut rest = stream;
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
        let line = &rest[..at];
        rest = if rest[at..].starts_with(b"\r\n") { &rest[at + 2..] } else { &rest[at + 1..] };
        if line.is_empty() {
            if let Some(id) = &id {
                last_id = String::from_utf8_lossy(id).into_owned();
            }
            let mut data = std::mem::take(&mut data);
            let kind = std::mem::take(&mut kind);
            data.pop();
            if !data.is_empty() {
                let kind = if kind.is_empty() { b"message".to_vec() } else { kind };
                found.push((String::from_utf8_lossy(&kind).into_owned(), data));
            }
            continue;
        }
        let line = line.strip_prefix(MARK).unwrap_or(line);
        let (name, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                let value = if data.is_empty() { value.strip_prefix(MARK).unwrap_or(value) } else { value };
                data.extend_from_slice(value);
                data.push(b'\n');
            }
            b"event" => kind = value.to_vec(),
            b"id" if !value.contains(&0) => id = Some(value.to_vec()),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                retry = std::str::from_utf8(value).unwrap().parse().ok();
            }
            _ => {}
        }
    }
    (found, last_id, retry)
}
