//! Unit tests of one session: kept streams and cancel signals.

use mcp_protocol::capabilities::{ClientCapabilities, Implementation};

use super::*;

fn session() -> Session {
    session_of(64 << 20)
}

fn session_of(bytes: usize) -> Session {
    let memory = Budget::new(bytes);
    let share = memory.take(0).unwrap();
    Session::new(Dialect::V2025_11_25, client(), Principal::default(), &Limits::default(), memory, share)
}

fn client() -> Client {
    Client { capabilities: ClientCapabilities::new(), info: Implementation::new("c", "1") }
}

/// Creates a stream with one event of about this many bytes.
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
    for _ in 0..MAX_KEPT_STREAMS + 2 {
        let (number, outlet) = stream(&session, 10);
        outlet.close();
        session.keep(number, &outlet);
        ended.push(number);
    }
    let kept = |session: &Session| ended.iter().filter(|stream| is_kept(session, **stream)).count();
    // The newest stream does not count, because its client may still read it.
    assert_eq!(kept(&session), MAX_KEPT_STREAMS + 1);
    assert!(!is_kept(&session, ended[0]), "the oldest is dropped");
    let (number, outlet) = stream(&session, 10);
    session.keep(number, &outlet);
    assert_eq!(kept(&session), MAX_KEPT_STREAMS);
    assert!(is_kept(&session, open), "an open stream is always kept");
}

#[test]
fn ended_streams_hold_at_most_a_mebibyte() {
    let session = session();
    let mut sizes = Vec::new();
    for bytes in [MAX_KEPT_BYTES / 2, MAX_KEPT_BYTES / 4, MAX_KEPT_BYTES / 8, 16] {
        let (number, outlet) = stream(&session, bytes);
        outlet.close();
        sizes.push((number, outlet.history_bytes()));
        session.keep(number, &outlet);
    }
    assert!(sizes.iter().all(|(number, _)| is_kept(&session, *number)), "{sizes:?}");
    let (number, outlet) = stream(&session, MAX_KEPT_BYTES / 2);
    outlet.close();
    assert!(sizes.iter().map(|(_, bytes)| bytes).sum::<usize>() + outlet.history_bytes() > MAX_KEPT_BYTES);
    session.keep(number, &outlet);
    let (last, open) = stream(&session, 16);
    session.keep(last, &open);
    assert!(!is_kept(&session, sizes[0].0), "the oldest is dropped");
    assert!(is_kept(&session, sizes[1].0) && is_kept(&session, number));
}

#[test]
fn events_kept_by_all_streams_take_half_of_the_session_memory() {
    const EVENT_BYTES: usize = 16 << 10;
    let session = session_of(64 * EVENT_BYTES);
    let message = |out: &mut Vec<u8>| {
        out.resize(out.len() + EVENT_BYTES, b'x');
        Ok(())
    };
    let streams: Vec<_> = (0..8).map(|_| session.outlet()).collect();
    for _ in 0..20 {
        for (number, outlet) in &streams {
            assert!(outlet.offer(message), "the client reads all messages, so none is dropped");
            session.keep(*number, outlet);
            assert!(outlet.take(&mut Vec::new()));
        }
    }
    let kept: usize = streams.iter().map(|(_, outlet)| outlet.history_bytes()).sum();
    assert!((25..=40).contains(&(kept / EVENT_BYTES)), "{kept} bytes");
    assert!(streams.iter().all(|(_, outlet)| outlet.history_bytes() > 0));
    let (_, other) = session.outlet();
    let large = |out: &mut Vec<u8>| {
        out.resize(out.len() + 12 * EVENT_BYTES, b'x');
        Ok(())
    };
    assert!(other.offer(large), "kept events leave no room for a message of another stream");
}

#[test]
fn cancel_signal_exists_only_for_requests_in_flight() {
    let session = session();
    let id = Id::from(1);
    let (first, second) = (session.add_cancel_signal(&id), session.add_cancel_signal(&id));
    session.remove_cancel_signal(&id, &first);
    session.cancel(&id);
    assert!(!first.is_cancelled.load(Ordering::Relaxed) && second.is_cancelled.load(Ordering::Relaxed));
    session.remove_cancel_signal(&id, &second);
    assert!(session.lock().cancel_signals.is_empty());
}
