//! Unit tests of the table: memory, eviction and idle sessions.

use mcp_protocol::capabilities::{ClientCapabilities, Implementation};

use super::*;

fn client() -> Client {
    Client { capabilities: ClientCapabilities::new(), info: Implementation::new("c", "1") }
}

/// Opens a session that holds this much memory. It is not in use.
fn open(sessions: &Sessions, bytes: usize) -> Option<String> {
    let client_memory = bytes.checked_sub(SESSION_OVERHEAD_BYTES).unwrap();
    let session = sessions.open(
        Dialect::V2025_11_25,
        client(),
        Principal::default(),
        client_memory,
        &Limits::default(),
    )?;
    Some(session.id.clone())
}

fn is_open(sessions: &Sessions, id: &str) -> bool {
    sessions.lock().sessions.contains_key(id)
}

#[test]
fn session_may_take_exactly_the_memory_of_one_session() {
    let sessions = Sessions::new(&HttpOptions::default().session_memory(1 << 20), &Budget::new(8 << 20));
    assert!(open(&sessions, 1 << 20).is_some());
    assert!(open(&sessions, (1 << 20) + 1).is_none());
}

#[test]
fn reclaim_ends_large_unused_sessions_only_when_memory_is_short() {
    let memory = Budget::new(4 * LARGE_SESSION_BYTES);
    let sessions = Sessions::new(&HttpOptions::default(), &memory);
    let small = open(&sessions, LARGE_SESSION_BYTES - 1).unwrap();
    let large = open(&sessions, LARGE_SESSION_BYTES).unwrap();
    sessions.reclaim(memory.left());
    assert!(is_open(&sessions, &large), "enough is left");
    let in_use = sessions.get(&large, &Principal::default()).unwrap();
    sessions.reclaim(memory.left() + 1);
    assert!(is_open(&sessions, &large) && is_open(&sessions, &small), "in use, or too small");
    drop(in_use);
    // A search that failed is not repeated at once.
    sessions.reclaim(memory.left() + 1);
    assert!(is_open(&sessions, &large));
    sessions.lock().failed_memory_search = None;
    sessions.reclaim(memory.left() + LARGE_SESSION_BYTES + 1);
    assert!(is_open(&sessions, &large), "not enough even without it");
    sessions.lock().failed_memory_search = None;
    sessions.reclaim(memory.left() + LARGE_SESSION_BYTES);
    assert!(!is_open(&sessions, &large) && is_open(&sessions, &small));
}

#[test]
fn session_that_just_fits_evicts_no_other() {
    let memory = Budget::new(2 * LARGE_SESSION_BYTES);
    let sessions = Sessions::new(&HttpOptions::default(), &memory);
    let first = open(&sessions, LARGE_SESSION_BYTES).unwrap();
    assert!(open(&sessions, memory.left()).is_some() && is_open(&sessions, &first));
    assert!(open(&sessions, LARGE_SESSION_BYTES).is_some() && !is_open(&sessions, &first));
}

#[test]
fn failed_search_for_large_sessions_does_not_stop_one_for_all() {
    let memory = Budget::new(2 * LARGE_SESSION_BYTES);
    let sessions = Sessions::new(&HttpOptions::default(), &memory);
    let small = open(&sessions, LARGE_SESSION_BYTES - 1).unwrap();
    sessions.reclaim(memory.left() + 1);
    assert!(is_open(&sessions, &small) && sessions.lock().failed_memory_search.is_some());
    assert!(open(&sessions, memory.left() + 1).is_some(), "a new session evicts small ones as well");
    assert!(!is_open(&sessions, &small));
}

#[tokio::test]
async fn sessions_with_abandoned_calls_are_ended() {
    let sessions = Sessions::new(&HttpOptions::default(), &Budget::new(8 << 20));
    let idle = open(&sessions, SESSION_OVERHEAD_BYTES).unwrap();
    assert!(!sessions.end_abandoned(), "no call is in flight");
    sessions.lock().last_call_search = None;
    let busy = open(&sessions, SESSION_OVERHEAD_BYTES).unwrap();
    sessions.get(&busy, &Principal::default()).unwrap().0.spawn(std::future::pending());
    assert!(sessions.end_abandoned());
    assert!(is_open(&sessions, &idle) && !is_open(&sessions, &busy));
    let busy = open(&sessions, SESSION_OVERHEAD_BYTES).unwrap();
    sessions.get(&busy, &Principal::default()).unwrap().0.spawn(std::future::pending());
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
    let idle = open(&sessions, SESSION_OVERHEAD_BYTES).unwrap();
    sessions.reap();
    assert!(!is_open(&sessions, &idle));
}
