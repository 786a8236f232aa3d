use mcp_protocol::capabilities::{ClientCapabilities, Implementation};

use super::*;

fn session() -> Session {
    let memory = Budget::new(64 << 20);
    let share = memory.take(0).unwrap();
    Session::new(Dialect::V2025_11_25, client(), &Limits::default(), memory, share)
}

fn client() -> Client {
    Client { capabilities: ClientCapabilities::new(), info: Implementation::new("c", "1") }
}

/// Opens a session that holds this much memory. It is not in use.
fn open(sessions: &Sessions, bytes: usize) -> Option<String> {
    let client_memory = bytes.checked_sub(SESSION_OVERHEAD).unwrap();
    let session = sessions.open(Dialect::V2025_11_25, client(), client_memory, &Limits::default())?;
    Some(session.id.clone())
}

fn is_open(sessions: &Sessions, id: &str) -> bool {
    sessions.lock().sessions.contains_key(id)
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
        sizes.push((number, outlet.kept()));
        session.keep(number, &outlet);
    }
    assert!(sizes.iter().all(|(number, _)| is_kept(&session, *number)), "{sizes:?}");
    let (number, outlet) = stream(&session, MAX_KEPT_BYTES / 2);
    outlet.close();
    assert!(sizes.iter().map(|(_, bytes)| bytes).sum::<usize>() + outlet.kept() > MAX_KEPT_BYTES);
    session.keep(number, &outlet);
    let (last, open) = stream(&session, 16);
    session.keep(last, &open);
    assert!(!is_kept(&session, sizes[0].0), "the oldest is dropped");
    assert!(is_kept(&session, sizes[1].0) && is_kept(&session, number));
}

#[test]
fn cancel_signal_exists_only_for_requests_in_flight() {
    let session = session();
    let (first, second) = (session.add_cancel_signal(&Id::from(1)), session.add_cancel_signal(&Id::from(1)));
    session.remove_cancel_signal(&first);
    session.cancel(&Id::from(1));
    assert!(!first.is_cancelled.load(Ordering::Relaxed) && second.is_cancelled.load(Ordering::Relaxed));
    session.remove_cancel_signal(&second);
    assert!(session.lock().cancel_signals.is_empty());
}

#[test]
fn session_may_take_exactly_the_memory_of_one_session() {
    let sessions = Sessions::new(&HttpOptions::default().session_memory(1 << 20), &Budget::new(8 << 20));
    assert!(open(&sessions, 1 << 20).is_some());
    assert!(open(&sessions, (1 << 20) + 1).is_none());
}

#[test]
fn reclaim_ends_large_unused_sessions_only_when_memory_is_short() {
    let memory = Budget::new(4 * LARGE_SESSION);
    let sessions = Sessions::new(&HttpOptions::default(), &memory);
    let small = open(&sessions, LARGE_SESSION - 1).unwrap();
    let large = open(&sessions, LARGE_SESSION).unwrap();
    sessions.reclaim(memory.left());
    assert!(is_open(&sessions, &large), "enough is left");
    let in_use = sessions.get(&large).unwrap();
    sessions.reclaim(memory.left() + 1);
    assert!(is_open(&sessions, &large) && is_open(&sessions, &small), "in use, or too small");
    drop(in_use);
    // A search that failed is not repeated at once.
    sessions.reclaim(memory.left() + 1);
    assert!(is_open(&sessions, &large));
    sessions.lock().failed_memory_search = None;
    sessions.reclaim(memory.left() + LARGE_SESSION + 1);
    assert!(is_open(&sessions, &large), "not enough even without it");
    sessions.lock().failed_memory_search = None;
    sessions.reclaim(memory.left() + LARGE_SESSION);
    assert!(!is_open(&sessions, &large) && is_open(&sessions, &small));
}

#[test]
fn session_that_just_fits_evicts_no_other() {
    let memory = Budget::new(2 * LARGE_SESSION);
    let sessions = Sessions::new(&HttpOptions::default(), &memory);
    let first = open(&sessions, LARGE_SESSION).unwrap();
    assert!(open(&sessions, memory.left()).is_some() && is_open(&sessions, &first));
    assert!(open(&sessions, LARGE_SESSION).is_some() && !is_open(&sessions, &first));
}

#[test]
fn failed_search_for_large_sessions_does_not_stop_one_for_all() {
    let memory = Budget::new(2 * LARGE_SESSION);
    let sessions = Sessions::new(&HttpOptions::default(), &memory);
    let small = open(&sessions, LARGE_SESSION - 1).unwrap();
    sessions.reclaim(memory.left() + 1);
    assert!(is_open(&sessions, &small) && sessions.lock().failed_memory_search.is_some());
    assert!(open(&sessions, memory.left() + 1).is_some(), "a new session evicts small ones as well");
    assert!(!is_open(&sessions, &small));
}

#[tokio::test]
async fn sessions_with_abandoned_calls_are_ended() {
    let sessions = Sessions::new(&HttpOptions::default(), &Budget::new(8 << 20));
    let idle = open(&sessions, SESSION_OVERHEAD).unwrap();
    assert!(!sessions.end_abandoned(), "no call is in flight");
    sessions.lock().last_call_search = None;
    let busy = open(&sessions, SESSION_OVERHEAD).unwrap();
    sessions.get(&busy).unwrap().0.spawn(std::future::pending());
    assert!(sessions.end_abandoned());
    assert!(is_open(&sessions, &idle) && !is_open(&sessions, &busy));
    let busy = open(&sessions, SESSION_OVERHEAD).unwrap();
    sessions.get(&busy).unwrap().0.spawn(std::future::pending());
    assert!(!sessions.end_abandoned(), "not searched again at once");
}

#[test]
fn sweep_runs_once_per_interval() {
    let sessions = Sessions::new(&HttpOptions::default(), &Budget::new(8 << 20));
    let start = sessions.lock().last_sweep;
    let sweep = |after| {
        let mut table = sessions.lock();
        sessions.sweep(&mut table, start + after);
        table.last_sweep.duration_since(start)
    };
    assert_eq!(sweep(SWEEP_INTERVAL / 2), Duration::ZERO);
    assert_eq!(sweep(SWEEP_INTERVAL), SWEEP_INTERVAL);
}

#[cfg(feature = "serve")]
#[test]
fn idle_sessions_end_without_a_request() {
    let sessions = Sessions::new(&HttpOptions::default().session_idle(Duration::ZERO), &Budget::new(8 << 20));
    let idle = open(&sessions, SESSION_OVERHEAD).unwrap();
    sessions.reap();
    assert!(!is_open(&sessions, &idle));
}
