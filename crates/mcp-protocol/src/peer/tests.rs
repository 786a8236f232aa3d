use super::*;
use crate::dialect::{Dialect, Lowering};
use crate::messages::{EmptyParams, EmptyResult};
use crate::simulated_link::SimulatedLink;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn link() -> SimulatedLink {
    let limits = Limits::default().in_flight(4);
    let server = Peer::server(limits.clone(), DuplicateIds::Unnamed);
    SimulatedLink::between(Peer::client(limits), server, Instant::now())
}

fn ping(link: &mut SimulatedLink, timeouts: Timeouts) -> CallHandle {
    link.call(&Method::Ping, &EmptyParams::new(), timeouts).unwrap()
}

/// Responds to every request that arrived at the right end.
fn answer_all(link: &mut SimulatedLink) {
    for received in std::mem::take(&mut link.right.received) {
        if let (Arrival::Request, Some(Message::Request(request))) = (&received.arrival, received.message()) {
            link.right.respond(&request.id, &Dialect::V2025_11_25.lower(&EmptyResult::new()));
        }
    }
}

#[track_caller]
fn feed(peer: &mut Peer, text: &str) -> Arrival {
    match crate::messages::parse(text, &Limits::default()) {
        Ok(crate::messages::Incoming::Message(message)) => peer.handle_message(&message, Instant::now()),
        Ok(_) => panic!("a batch"),
        Err(error) => peer.handle_unreadable(&error),
    }
}

#[test]
fn response_in_any_chunks_completes_its_call() {
    for bytes in 1..60 {
        let mut link = link().latency(secs(1)).chunk_size(bytes);
        let call = ping(&mut link, Timeouts::default());
        link.run_until_delivered();
        answer_all(&mut link);
        link.run_until_delivered();
        assert_eq!(link.left.received.pop_front().unwrap().arrival, Arrival::Response(call));
        assert_eq!(link.left.peer.calls_in_flight() + link.right.peer.requests_in_flight(), 0);
    }
}

#[test]
fn response_after_the_deadline_is_counted_and_dropped() {
    let mut link = link().latency(secs(6));
    let call = ping(&mut link, Timeouts::default().idle(secs(8)));
    while link.right.received.is_empty() {
        link.step();
    }
    answer_all(&mut link);
    link.run_until_quiet();
    assert_eq!(link.left.peer.poll_failure(), Some(CallFailure::TimedOut(call, TimeoutReason::Idle)));
    assert_eq!(link.left.peer.poll_failure(), None);
    assert_eq!(link.left.peer.stats().late, 1);
    // The server received the cancellation after it had responded: neither side fails.
    assert_eq!(link.right.peer.stats().unknown, 1);
}

#[test]
fn duplicate_response_is_late_and_unmatched_is_unknown() {
    let mut peer = Peer::client(Limits::default());
    let call = peer.open(&Method::Ping, Timeouts::default(), Instant::now()).unwrap();
    let response = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    assert_eq!(feed(&mut peer, response), Arrival::Response(call));
    assert_eq!(feed(&mut peer, response), Arrival::Ignored(IgnoreReason::Late));
    for stranger in ["2", "0", "-1", "\"1\"", "\"probe-1\""] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{stranger},"result":{{}}}}"#);
        assert_eq!(feed(&mut peer, &text), Arrival::Ignored(IgnoreReason::Unknown), "{stranger}");
    }
    assert_eq!((peer.stats().late, peer.stats().unknown), (1, 5));
}

#[test]
fn string_id_does_not_match_a_numeric_id() {
    let mut peer = Peer::client(Limits::default());
    peer.open(&Method::Ping, Timeouts::default(), Instant::now()).unwrap();
    assert_eq!(
        feed(&mut peer, r#"{"jsonrpc":"2.0","id":"1","result":{}}"#),
        Arrival::Ignored(IgnoreReason::Unknown)
    );
    assert_eq!(peer.calls_in_flight(), 1);
}

#[test]
fn malformed_response_settles_its_call_at_once() {
    for broken in [
        r#"{"jsonrpc":"2.0","id":1,"result":[]}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"a":"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":"x"}}"#,
        r#"{"jsonrpc":"1.0","id":1,"result":{}}"#,
        r#"{"id":1,"jsonrpc":"2.0","result":{},"error":{"code":1,"message":""}}"#,
    ] {
        let mut peer = Peer::client(Limits::default());
        let call = peer.open(&Method::Ping, Timeouts::default(), Instant::now()).unwrap();
        assert_eq!(feed(&mut peer, broken), Arrival::BrokenResponse(call), "{broken}");
        assert_eq!(peer.calls_in_flight(), 0);
    }
}

#[test]
fn duplicate_request_id_is_refused_and_the_first_stays_open() {
    let request = r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#;
    for (duplicates, named) in [(DuplicateIds::Unnamed, None), (DuplicateIds::Named, Some(Id::from("a")))] {
        let mut peer = Peer::server(Limits::default(), duplicates);
        assert_eq!(feed(&mut peer, request), Arrival::Request);
        assert_eq!(feed(&mut peer, request), Arrival::Ignored(IgnoreReason::Rejected));
        let Some(Transmit::Error { id, error }) = peer.poll_transmit() else { panic!() };
        assert_eq!((id, error.code), (named, ErrorCode::InvalidRequest));
        assert!(peer.complete_request(&"a".into()));
        assert!(!peer.complete_request(&"a".into()));
    }
}

#[test]
fn cancelled_request_is_not_answered() {
    let mut peer = Peer::server(Limits::default(), DuplicateIds::Unnamed);
    feed(&mut peer, r#"{"jsonrpc":"2.0","id":7,"method":"tools/call"}"#);
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
    assert!(!peer.is_cancelled(&7.into()));
    assert_eq!(feed(&mut peer, cancel), Arrival::Cancelled(7.into()));
    assert!(peer.is_cancelled(&7.into()) && !peer.is_cancelled(&8.into()));
    assert!(!peer.complete_request(&7.into()));
    assert_eq!(feed(&mut peer, cancel), Arrival::Ignored(IgnoreReason::Unknown));
    let malformed = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}"#;
    assert_eq!(feed(&mut peer, malformed), Arrival::Ignored(IgnoreReason::Malformed));
}

#[test]
fn cancelled_call_is_notified_except_for_initialize() {
    let now = Instant::now();
    let mut peer = Peer::client(Limits::default());
    let call = peer.open(&Method::ToolsCall, Timeouts::default(), now).unwrap();
    assert!(peer.cancel(call, "no longer wanted"));
    assert!(!peer.cancel(call, "again"));
    assert_eq!(peer.poll_transmit(), Some(Transmit::Cancelled { id: 1.into(), reason: "no longer wanted" }));
    let handshake = peer.open(&Method::Initialize, Timeouts::default(), now).unwrap();
    assert!(peer.cancel(handshake, "no longer wanted"));
    assert_eq!(peer.poll_transmit(), None);
}

#[test]
fn progress_resets_the_idle_timeout_but_not_the_total_one() {
    let start = Instant::now();
    let mut peer = Peer::client(Limits::default());
    let call =
        peer.open(&Method::ToolsCall, Timeouts::default().idle(secs(5)).total(secs(12)), start).unwrap();
    let progress = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{},"progress":1}}}}"#,
        call.progress_token()
    );
    for second in [4, 8] {
        let Ok(crate::messages::Incoming::Message(message)) =
            crate::messages::parse(&progress, &Limits::default())
        else {
            panic!()
        };
        peer.handle_timeout(start + secs(second));
        assert_eq!(peer.handle_message(&message, start + secs(second)), Arrival::Progress(call));
    }
    peer.handle_timeout(start + secs(11));
    assert_eq!(peer.poll_failure(), None);
    assert_eq!(peer.poll_timeout(), Some((start + secs(12), TimeoutReason::Total)));
    peer.handle_timeout(start + secs(12));
    assert_eq!(peer.poll_failure(), Some(CallFailure::TimedOut(call, TimeoutReason::Total)));
}

#[test]
fn timeouts_stop_during_a_pause_of_limited_length() {
    let start = Instant::now();
    let mut peer = Peer::client(Limits::default());
    let timeouts = Timeouts::default().idle(secs(5)).total(secs(12));
    let call = peer.open(&Method::ToolsCall, timeouts, start).unwrap();
    peer.pause(call, secs(100), start + secs(2));
    peer.handle_timeout(start + secs(90));
    assert_eq!(peer.poll_failure(), None);
    peer.resume(call, start + secs(92));
    // The total timeout has 10 s left, and the idle timeout restarted.
    peer.handle_timeout(start + secs(96));
    assert_eq!(peer.poll_failure(), None);
    peer.pause(call, secs(3), start + secs(96));
    peer.handle_timeout(start + secs(99));
    assert_eq!(peer.poll_failure(), Some(CallFailure::TimedOut(call, TimeoutReason::Ask)));
}

#[test]
fn calls_over_the_limit_are_rejected_and_not_queued() {
    let now = Instant::now();
    let mut peer = Peer::client(Limits::default().in_flight(3));
    let calls: Vec<CallHandle> =
        (0..3).map(|_| peer.open(&Method::Ping, Timeouts::default(), now).unwrap()).collect();
    assert_eq!(peer.open(&Method::Ping, Timeouts::default(), now), Err(OpenError::Full(3)));
    // An unsent cancellation counts toward the limit.
    peer.cancel(calls[0], "");
    assert_eq!(peer.open(&Method::Ping, Timeouts::default(), now), Err(OpenError::Full(3)));
    assert!(peer.poll_transmit().is_some());
    assert_eq!(peer.open(&Method::Ping, Timeouts::default(), now).unwrap().id(), 4.into());
}

#[test]
fn request_flood_is_rejected_and_rejections_are_bounded() {
    let mut peer = Peer::server(Limits::default().in_flight(3), DuplicateIds::Unnamed);
    for id in 0..100 {
        feed(&mut peer, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
    }
    assert_eq!(peer.requests_in_flight(), 3);
    assert_eq!(std::iter::from_fn(|| peer.poll_transmit()).count(), 3);
    let stats = peer.stats();
    assert_eq!((stats.requests, stats.refused, stats.dropped), (100, 97, 94));
}

#[test]
fn closed_connection_loses_every_call_once() {
    for bytes in 0..40 {
        let mut link = link().cut_right_after(bytes);
        let call = ping(&mut link, Timeouts::default());
        link.run_until_quiet();
        let lost = link.left.peer.poll_failure();
        assert!(lost == Some(CallFailure::Lost(call)), "after {bytes} bytes: {lost:?}");
        assert_eq!(link.left.peer.poll_failure(), None);
        assert_eq!(
            link.left.peer.open(&Method::Ping, Timeouts::default(), link.now()),
            Err(OpenError::Closed)
        );
    }
}

#[test]
fn server_ends_a_subscription_with_result_or_cancellation() {
    let now = Instant::now();
    let mut peer = Peer::client(Limits::default());
    let listen = peer.open(&Method::Listen, Timeouts::default().idle(secs(10)), now).unwrap();
    peer.remove_timeouts(listen);
    peer.handle_timeout(now + secs(100_000));
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    assert_eq!(feed(&mut peer, cancel), Arrival::Ended(listen));
    assert_eq!(feed(&mut peer, cancel), Arrival::Ignored(IgnoreReason::Unknown));
    // If the result arrives first, the cancellation has no effect.
    let listen = peer.open(&Method::Listen, Timeouts::none(), now).unwrap();
    assert_eq!(feed(&mut peer, r#"{"jsonrpc":"2.0","id":2,"result":{}}"#), Arrival::Response(listen));
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#;
    assert_eq!(feed(&mut peer, cancel), Arrival::Ignored(IgnoreReason::Unknown));
    // Other calls cannot be ended by the server.
    peer.open(&Method::ToolsCall, Timeouts::none(), now).unwrap();
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#;
    assert_eq!(feed(&mut peer, cancel), Arrival::Ignored(IgnoreReason::Unknown));
    assert_eq!(peer.calls_in_flight(), 1);
}

#[test]
fn server_responds_to_unreadable_input_but_client_does_not() {
    let mut server = Peer::server(Limits::default(), DuplicateIds::Unnamed);
    feed(&mut server, "hello");
    assert!(
        matches!(server.poll_transmit(), Some(Transmit::Error { id: None, error }) if error.code == ErrorCode::ParseError)
    );
    feed(&mut server, r#"{"jsonrpc":"2.0","id":5,"method":"ping","params":[]}"#);
    assert!(matches!(server.poll_transmit(), Some(Transmit::Error { id: Some(id), error })
        if id == 5.into() && error.code == ErrorCode::InvalidRequest));
    // Without a method it is not a request, but its sender may wait for a response with its id.
    feed(&mut server, r#"{"jsonrpc":"2.0","id":6,"params":{}}"#);
    assert!(matches!(server.poll_transmit(), Some(Transmit::Error { id: Some(id), error })
        if id == 6.into() && error.code == ErrorCode::InvalidRequest));
    // A request in flight with this id must not be completed by the error.
    feed(&mut server, r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#);
    feed(&mut server, r#"{"jsonrpc":"2.0","id":7}"#);
    assert!(matches!(server.poll_transmit(), Some(Transmit::Error { id: None, .. })));
    let mut client = Peer::client(Limits::default());
    assert_eq!(feed(&mut client, "hello"), Arrival::Ignored(IgnoreReason::Malformed));
    assert_eq!(client.poll_transmit(), None);
}

#[test]
fn malformed_request_never_settles_an_outgoing_call() {
    let mut server = Peer::server(Limits::default(), DuplicateIds::Unnamed);
    server.open(&Method::RootsList, Timeouts::default(), Instant::now()).unwrap();
    feed(&mut server, r#"{"jsonrpc":"2.0","id":1,"params":{"a":01},"method":"tools/call"}"#);
    assert_eq!(server.calls_in_flight(), 1);
}

#[test]
fn client_rejects_malformed_request_of_server() {
    let mut client = Peer::client(Limits::default());
    feed(&mut client, r#"{"jsonrpc":"2.0","id":5,"method":"elicitation/create","params":[1]}"#);
    assert!(matches!(client.poll_transmit(), Some(Transmit::Error { id: Some(id), .. }) if id == 5.into()));
}

#[test]
fn unsent_rejections_do_not_block_new_calls() {
    let mut peer = Peer::server(Limits::default().in_flight(2), DuplicateIds::Unnamed);
    for _ in 0..10 {
        feed(&mut peer, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    }
    assert!(peer.open(&Method::Ping, Timeouts::default(), Instant::now()).is_ok());
}

#[test]
fn initialize_cannot_be_cancelled_by_its_sender() {
    let mut peer = Peer::server(Limits::default(), DuplicateIds::Unnamed);
    feed(&mut peer, r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#);
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    assert_eq!(feed(&mut peer, cancel), Arrival::Ignored(IgnoreReason::Unknown));
    assert!(peer.complete_request(&1.into()));
}

#[test]
fn progress_token_must_match_exactly() {
    let mut peer = Peer::client(Limits::default());
    peer.open(&Method::ToolsCall, Timeouts::default(), Instant::now()).unwrap();
    for token in ["\"+01\"", "\"01\"", "1", "\"2\""] {
        let text = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#
        );
        assert_eq!(feed(&mut peer, &text), Arrival::Ignored(IgnoreReason::Unknown), "{token}");
    }
}

#[test]
fn progress_token_of_a_call_is_written_like_the_token() {
    let call =
        Peer::client(Limits::default()).open(&Method::Ping, Timeouts::default(), Instant::now()).unwrap();
    let (lowering, params) = (Lowering::to(Dialect::V2025_11_25), EmptyParams::new());
    let written = lowering.with_progress_of(call).root(&params).to_json().unwrap();
    assert_eq!(written.get(), r#"{"_meta":{"progressToken":"1"}}"#);
    let token = call.progress_token();
    assert_eq!(lowering.with_progress_token(&token).root(&params).to_json().unwrap(), written);
}

#[test]
fn responses_in_any_order_complete_their_calls() {
    let mut peer = Peer::client(Limits::default());
    let calls: Vec<CallHandle> =
        (0..5).map(|_| peer.open(&Method::Ping, Timeouts::default(), Instant::now()).unwrap()).collect();
    let response = |id: i64| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
    for id in [i64::MIN, -1, 0, 6, i64::MAX] {
        assert_eq!(feed(&mut peer, &response(id)), Arrival::Ignored(IgnoreReason::Unknown), "{id}");
    }
    for at in [3, 0, 4, 1, 2] {
        assert_eq!(feed(&mut peer, &response(at as i64 + 1)), Arrival::Response(calls[at]));
    }
    assert_eq!(feed(&mut peer, &response(3)), Arrival::Ignored(IgnoreReason::Late));
}

#[test]
fn timeouts_resume_after_the_last_of_several_pauses() {
    let start = Instant::now();
    let mut peer = Peer::client(Limits::default());
    let call =
        peer.open(&Method::ToolsCall, Timeouts::default().idle(secs(5)).total(secs(12)), start).unwrap();
    peer.pause(call, secs(100), start);
    peer.pause(call, Duration::MAX, start);
    peer.resume(call, start + secs(1));
    peer.handle_timeout(start + secs(1000));
    assert_eq!(peer.poll_failure(), None);
    peer.resume(call, start + secs(1000));
    assert_eq!(peer.poll_timeout(), Some((start + secs(1005), TimeoutReason::Idle)));
}

#[test]
fn unpolled_events_count_as_calls_in_flight() {
    let now = Instant::now();
    let mut peer = Peer::client(Limits::default().in_flight(2));
    let timeouts = Timeouts::default().total(Duration::from_secs(1));
    for _ in 0..2 {
        peer.open(&Method::Ping, timeouts, now).unwrap();
    }
    let later = now + Duration::from_secs(2);
    peer.handle_timeout(later);
    while peer.poll_transmit().is_some() {}
    assert_eq!(peer.open(&Method::Ping, timeouts, later), Err(OpenError::Full(2)));
    while peer.poll_failure().is_some() {}
    peer.open(&Method::Ping, timeouts, later).unwrap();
}

#[test]
fn calls_continue_with_new_ids_after_reconnect() {
    let mut peer = Peer::client(Limits::default());
    let now = Instant::now();
    let old = peer.open(&Method::Ping, Timeouts::default(), now).unwrap();
    peer.handle_closed();
    assert_eq!(peer.poll_failure(), Some(CallFailure::Lost(old)));
    assert!(matches!(peer.open(&Method::Ping, Timeouts::default(), now), Err(OpenError::Closed)));
    peer.handle_reopened();
    let new = peer.open(&Method::Ping, Timeouts::default(), now).unwrap();
    assert!(new > old);
    // A late response of the previous server matches no call.
    let late = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, old.0);
    assert!(matches!(feed(&mut peer, &late), Arrival::Ignored(_)));
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, new.0);
    assert_eq!(feed(&mut peer, &answer), Arrival::Response(new));
}

#[test]
fn timeouts_of_a_call_can_be_paused_at_most_ten_times() {
    let start = Instant::now();
    let mut peer = Peer::client(Limits::default());
    let call = peer.open(&Method::ToolsCall, Timeouts::none().total(secs(5)), start).unwrap();
    let mut now = start;
    for _ in 0..10 {
        assert!(peer.pause(call, secs(100), now));
        now += secs(50);
        peer.resume(call, now);
    }
    assert!(!peer.pause(call, secs(100), now));
    peer.handle_timeout(now + secs(4));
    assert_eq!(peer.poll_failure(), None);
    peer.handle_timeout(now + secs(5));
    assert_eq!(peer.poll_failure(), Some(CallFailure::TimedOut(call, TimeoutReason::Total)));
}
