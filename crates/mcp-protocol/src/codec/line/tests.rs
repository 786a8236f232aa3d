use super::*;
use crate::errors::DecodeErrorKind;

fn all(stream: &[u8], limits: &Limits) -> Vec<String> {
    let mut lines = Lines::new(limits);
    lines.push(stream);
    let mut found = Vec::new();
    while let Some(line) = lines.poll_line() {
        found.push(match line {
            Line::Whole(line) => String::from_utf8_lossy(line).into_owned(),
            Line::TooLong(error) => format!("too long {:?}", error.id),
            Line::Endless => "endless".into(),
        });
    }
    found
}

#[test]
fn line_over_the_limit_is_skipped_and_reported_with_id() {
    let limits = Limits::default().message(40);
    let long = format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{{\"a\":\"{}\"}}}}", "x".repeat(60));
    assert_eq!(all(format!("{long}\n{{}}\n").as_bytes(), &limits), ["too long Some(Number(7))", "{}"]);
    // A line is skipped up to four times the limit.
    let long = format!("{}\n{{}}\n", "x".repeat(160));
    assert_eq!(all(long.as_bytes(), &limits), ["too long None", "{}"]);
    let endless = format!("{}\n{{}}\n", "x".repeat(161));
    assert_eq!(all(endless.as_bytes(), &limits), ["too long None", "endless"]);
}

#[test]
fn line_of_exactly_the_limit_is_accepted() {
    let limits = Limits::default().message(10);
    assert_eq!(all(b"0123456789\n", &limits), ["0123456789"]);
    assert_eq!(all(b"0123456789a\n{}\n", &limits), ["too long None", "{}"]);
}

#[test]
fn byte_order_mark_at_the_start_is_accepted() {
    let limits = Limits::default();
    assert_eq!(all(b"\xEF\xBB\xBF{}\n", &limits), ["{}"]);
}

#[test]
fn byte_order_mark_before_any_line_is_skipped() {
    let limits = Limits::default().message(40);
    assert_eq!(all(b"{}\n\xEF\xBB\xBF{}\n\xEF\xBB\xBF\r\n[]\n", &limits), ["{}", "{}", "[]"]);
    let mut lines = Lines::new(&limits);
    lines.push(
        b"{}\n\xEF\xBB\xBF{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"long\":\"line\"}}\n\xEF\xBB\xBF{}",
    );
    assert_eq!(lines.poll_line(), Some(Line::Whole(b"{}")));
    let Some(Line::TooLong(error)) = lines.poll_line() else { panic!() };
    assert_eq!(error.id, Some(7.into()));
    assert_eq!(lines.poll_line(), None);
    assert_eq!(lines.rest(), b"{}");
}

#[test]
fn rest_is_the_text_after_the_last_newline() {
    let mut lines = Lines::new(&Limits::default());
    lines.push(b"{}\n {\"a\":1} ");
    assert_eq!(lines.poll_line(), Some(Line::Whole(b"{}")));
    assert_eq!(lines.poll_line(), None);
    assert_eq!(lines.rest(), b"{\"a\":1}");
}

#[test]
fn too_long_error_states_the_limit() {
    let mut lines = Lines::new(&Limits::default().message(3));
    lines.push(b"12345");
    let Some(Line::TooLong(error)) = lines.poll_line() else { panic!() };
    assert_eq!(error.kind, DecodeErrorKind::TooLong { limit: 3 });
    assert_eq!(lines.poll_line(), None);
}

#[test]
fn buffer_of_large_line_is_kept_until_next_small_line() {
    let mut lines = Lines::new(&Limits::default());
    lines.push(&[b'1'; 1 << 20]);
    lines.push(b"\n");
    assert!(lines.poll_line().is_some());
    // The capacity is kept even if the driver requests space more often than it reads.
    for _ in 0..3 {
        assert!(lines.space().capacity() > 1 << 20);
    }
    lines.push(b"1\n");
    assert!(lines.poll_line().is_some());
    assert!(lines.space().capacity() <= IDLE_BUFFER_BYTES);
}

#[test]
fn outbox_that_is_never_empty_does_not_grow() {
    let mut outbox = LineBuffer::default();
    for _ in 0..10_000 {
        outbox
            .line(|out| {
                out.extend_from_slice(&[b'1'; 99]);
                Ok::<_, ()>(())
            })
            .unwrap();
        let rest = outbox.bytes().len();
        outbox.advance(rest - 1);
        assert_eq!(outbox.bytes(), b"\n");
    }
    assert!(outbox.buffer.capacity() <= IDLE_BUFFER_BYTES);
}

#[test]
fn equal_amounts_are_soon_read_at_once() {
    for amount in [1, 3 << 10, 7 << 10, (32 << 10) + 1, 40 << 10, 64 << 10] {
        let mut size = ReadSize::default();
        let mut reads = 0;
        for _ in 0..10 {
            let mut left = amount;
            reads = 0;
            while left > 0 {
                let count = left.min(size.bytes());
                left -= count;
                reads += 1;
                size.handle_read(count);
            }
        }
        assert_eq!(reads, 1, "{amount} bytes");
    }
}

#[test]
fn read_size_shrinks_after_small_reads() {
    let mut size = ReadSize::default();
    for _ in 0..10 {
        size.handle_read(1 << 20);
    }
    assert_eq!(size.bytes(), ReadSize::MAX_BYTES);
    for _ in 0..10 {
        size.handle_read(100);
    }
    assert_eq!(size.bytes(), ReadSize::MIN_BYTES);
}
