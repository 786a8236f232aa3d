use super::*;

/// Returns type and data of all events of a stream that is pushed in pieces of `size` bytes.
fn read(stream: &[u8], size: usize) -> (Vec<(String, String)>, String, Option<u64>) {
    let mut events = Events::new(&Limits::default().message(64));
    let mut found = Vec::new();
    for piece in stream.chunks(size) {
        events.push(piece);
        while let Some(item) = events.poll_event() {
            found.push(match item {
                Item::Event(event) => {
                    (event.kind.into_owned(), String::from_utf8_lossy(event.data).into_owned())
                }
                Item::TooLong(error) => ("too long".into(), format!("{:?}", error.id)),
                Item::Endless => ("endless".into(), String::new()),
            });
        }
    }
    (found, events.last_event_id().to_owned(), events.retry())
}

#[track_caller]
fn check(stream: &[u8], expected: &[(&str, &str)], last_id: &str) {
    for size in 1..=stream.len().max(1) {
        let (found, id, _) = read(stream, size);
        let found: Vec<_> = found.iter().map(|(kind, data)| (kind.as_str(), data.as_str())).collect();
        assert_eq!(found, expected, "in pieces of {size}");
        assert_eq!(id, last_id, "in pieces of {size}");
    }
}

#[test]
fn examples_of_the_sse_standard_are_parsed() {
    check(b"data: YHOO\ndata: +2\ndata: 10\n\n", &[("message", "YHOO\n+2\n10")], "");
    check(
        b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
        &[("message", "first event"), ("message", "second event"), ("message", " third event")],
        "",
    );
    // An event with empty data is not dispatched. Two empty data lines are one newline.
    check(b"data\n\ndata\ndata\n\ndata:", &[("message", "\n")], "");
    check(b"data:test\n\ndata: test\n\n", &[("message", "test"), ("message", "test")], "");
}

#[test]
fn lines_end_in_lf_crlf_or_cr() {
    for end in ["\n", "\r\n", "\r"] {
        let stream = format!("event: x{end}data: a{end}data: b{end}{end}data: c{end}{end}");
        check(stream.as_bytes(), &[("x", "a\nb"), ("message", "c")], "");
    }
    check(
        b"data: a\r\n\r\ndata: b\r\rdata: c\n\n",
        &[("message", "a"), ("message", "b"), ("message", "c")],
        "",
    );
}

#[test]
fn event_without_data_sets_only_the_last_event_id() {
    check(b"\xEF\xBB\xBFid: p1\ndata:\n\nid: bad\0\ndata: x\n\n", &[("message", "x")], "p1");
    assert_eq!(read(b"retry: 1500\n\nretry: soon\n\n", 3).2, Some(1500));
}

#[test]
fn incomplete_event_is_discarded() {
    check(b"data: a\n\ndata: b\n", &[("message", "a")], "");
}

#[test]
fn event_over_the_limit_is_skipped_and_reported_with_id() {
    let long = format!("data: {{\"id\":7,\"result\":\"{}\"}}\r\n\r\ndata: next\n\n", "x".repeat(100));
    check(long.as_bytes(), &[("too long", "Some(Number(7))"), ("message", "next")], "");
    let many = format!("{}\ndata: next\n\n", "data: 0123456789\n".repeat(12));
    check(many.as_bytes(), &[("too long", "None"), ("message", "next")], "");
    let endless = format!("data: {}\n\ndata: next\n\n", "x".repeat(1000));
    let (found, ..) = read(endless.as_bytes(), 7);
    assert_eq!(found, [("too long".into(), "None".into()), ("endless".into(), String::new())]);
}

#[test]
fn event_id_invalid_in_a_header_is_ignored() {
    let limits = Limits::default().header(8);
    let mut events = Events::new(&limits);
    events.push(b"id: 12345678\ndata: a\n\nid: 123456789\nevent: 123456789\ndata: b\n\n");
    assert!(matches!(events.poll_event(), Some(Item::Event(_))));
    let Some(Item::Event(event)) = events.poll_event() else { panic!() };
    assert_eq!(event.kind, "message");
    assert_eq!(events.last_event_id(), "12345678");
}

#[test]
fn written_message_cannot_start_another_event() {
    let mut out = Vec::new();
    write_message(&mut out, Some("1\n\ndata: forged"), b"{\n\n}");
    let (found, id, _) = read(&out, 1);
    assert_eq!((found, id.as_str()), (vec![("message".into(), "{\n\n}".into())], ""));
}

#[test]
fn byte_order_mark_before_any_field_or_message_is_skipped() {
    let mark = "\u{feff}";
    let stream = format!(
        "{mark}data: 1\n\n{mark}id: 7\n{mark}data: {mark}2\ndata: {mark}3\n\n{mark}:\n{mark}\n\ndata: 4\n\n"
    );
    let expected = [("message", "1"), ("message", "2\n\u{feff}3"), ("message", "4")];
    check(stream.as_bytes(), &expected, "7");
    let long =
        format!(r#"{mark}data: {mark}{{"jsonrpc":"2.0","id":7,"result":{{"long":"{}"}}}}"#, "x".repeat(64));
    check(format!("{long}\n\n").as_bytes(), &[("too long", "Some(Number(7))")], "");
}
