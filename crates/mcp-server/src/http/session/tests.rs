use mcp_protocol::capabilities::{ClientCapabilities, Implementation};

use super::*;

fn session() -> Session {
    let memory = Budget::new(64 << 20);
    let share = memory.take(0).unwrap();
    let client = Client { capabilities: ClientCapabilities::new(), info: Implementation::new("c", "1") };
    Session::new(Dialect::V2025_11_25, client, &Limits::default(), memory, share)
}

/// A stream with an event of about this many bytes.
fn stream(session: &Session, bytes: usize) -> (u64, Arc<Outlet>) {
    let (stream, outlet) = session.outlet();
    outlet
        .send(|out| {
            out.extend_from_slice(b"{\"x\":\"");
            out.resize(out.len() + bytes, b'x');
            out.extend_from_slice(b"\"}");
            Ok(())
        })
        .unwrap();
    (stream, outlet)
}

fn is_kept(session: &Session, stream: u64) -> bool {
    session.find_stream(&format!("{stream}-0")).is_some()
}

#[test]
fn sixteen_ended_streams_are_kept_for_resumption() {
    let session = session();
    let (open, outlet) = stream(&session, 10);
    session.keep(open, &outlet);
    let mut ended = Vec::new();
    for _ in 0..STREAMS + 2 {
        let (number, outlet) = stream(&session, 10);
        outlet.close();
        session.keep(number, &outlet);
        ended.push(number);
    }
    let kept = |session: &Session| ended.iter().filter(|stream| is_kept(session, **stream)).count();
    // The stream that was kept last does not count: its client may still read it.
    assert_eq!(kept(&session), STREAMS + 1);
    assert!(!is_kept(&session, ended[0]), "the oldest makes room");
    let (number, outlet) = stream(&session, 10);
    session.keep(number, &outlet);
    assert_eq!(kept(&session), STREAMS);
    assert!(is_kept(&session, open), "a stream that goes on is kept in any case");
}

#[test]
fn ended_streams_hold_at_most_a_mebibyte() {
    let session = session();
    let mut sizes = Vec::new();
    for bytes in [KEPT / 2, KEPT / 4, KEPT / 8, 16] {
        let (number, outlet) = stream(&session, bytes);
        outlet.close();
        sizes.push((number, outlet.kept()));
        session.keep(number, &outlet);
    }
    assert!(sizes.iter().all(|(number, _)| is_kept(&session, *number)), "{sizes:?}");
    let (number, outlet) = stream(&session, KEPT / 2);
    outlet.close();
    assert!(sizes.iter().map(|(_, bytes)| bytes).sum::<usize>() + outlet.kept() > KEPT);
    session.keep(number, &outlet);
    let (last, open) = stream(&session, 16);
    session.keep(last, &open);
    assert!(!is_kept(&session, sizes[0].0), "the oldest makes room");
    assert!(is_kept(&session, sizes[1].0) && is_kept(&session, number));
}

#[test]
fn only_requests_in_flight_are_noted() {
    let session = session();
    let (first, second) = (session.depart(&Id::from(1)), session.depart(&Id::from(1)));
    session.arrive(&first);
    session.cancel(&Id::from(1));
    assert!(!first.unwanted.load(Ordering::Relaxed) && second.unwanted.load(Ordering::Relaxed));
    session.arrive(&second);
    assert!(session.lock().flights.is_empty());
}
