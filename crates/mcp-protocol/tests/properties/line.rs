//! Lines do not depend on chunk boundaries, and no buffer exceeds its limit.

use mcp_protocol::Limits;
use mcp_protocol::codec::line::{Line, Lines, sample};

/// The first byte selects the sizes of the pieces; the rest is the stream.
pub(crate) fn does_not_depend_on_the_cuts(input: &[u8]) {
    let Some((seed, stream)) = input.split_first() else { return };
    let limits = Limits::default().message(16 + usize::from(*seed % 32));
    let whole = read(stream, &limits, |_| usize::MAX);
    let cut = read(stream, &limits, |at| 1 + (at * 7 + usize::from(*seed)) % 13);
    let bytes = read(stream, &limits, |_| 1);
    assert_eq!(whole.0, cut.0);
    assert_eq!(whole.0, bytes.0);
    assert_eq!(whole.1, bytes.1);
    check_against_a_simple_reader(stream, &limits, &whole.0);
    let shown = sample(stream, 16);
    assert!(shown.chars().all(|c| !c.is_control()));
}

fn read(stream: &[u8], limits: &Limits, piece: impl Fn(usize) -> usize) -> (Vec<String>, Vec<u8>) {
    let mut lines = Lines::new(limits);
    let mut found = Vec::new();
    let (mut at, mut pieces) = (0, 0);
    while at < stream.len() {
        let end = stream.len().min(at.saturating_add(piece(pieces)));
        pieces += 1;
        lines.push(&stream[at..end]);
        at = end;
        while let Some(line) = lines.poll_line() {
            found.push(match line {
                Line::Whole(line) => {
                    assert!(line.len() <= limits.message && !line.contains(&b'\n'));
                    format!("whole {line:?}")
                }
                Line::TooLong(_) => "too long".into(),
                Line::Endless => "endless".into(),
            });
        }
    }
    (found, lines.rest().to_vec())
}

/// For streams without an overlong line: compares with splitting the whole text at once.
fn check_against_a_simple_reader(stream: &[u8], limits: &Limits, found: &[String]) {
    let mut parts: Vec<&[u8]> = stream.split(|byte| *byte == b'\n').collect();
    if parts.iter().any(|part| part.len() > limits.message) {
        return;
    }
    parts.pop();
    let expected: Vec<String> = parts
        .iter()
        .map(|part| part.strip_suffix(b"\r").unwrap_or(part))
        .map(|part| part.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(part))
        .filter(|part| !part.trim_ascii().is_empty())
        .map(|part| format!("whole {part:?}"))
        .collect();
    assert_eq!(found, expected);
}
