//! Two peers under any interleaving: every call completes exactly once, no slot leaks, limits hold.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mcp_protocol::Limits;
use mcp_protocol::messages::{EmptyParams, EmptyResult, Id, Message, Method, ProgressParams, write};
use mcp_protocol::peer::{Arrival, CallFailure, CallHandle, DuplicateIds, Peer, Timeouts};
use mcp_protocol::simulated_link::{LinkEnd, SimulatedLink};

const LIMIT: usize = 6;

/// Each byte is one event: three bits select its kind, one the end, four the object.
pub(crate) fn settle_every_call_once(script: &[u8]) {
    let limits = Limits::default().in_flight(LIMIT);
    let duplicates = if script.len() & 1 == 0 { DuplicateIds::Unnamed } else { DuplicateIds::Named };
    let server = Peer::server(limits.clone(), duplicates);
    let start = Instant::now();
    let mut link = SimulatedLink::between(Peer::client(limits), server, start)
        .latency(Duration::from_millis(u64::from(script.first().copied().unwrap_or(0)) * 10))
        .chunk_size(1 + usize::from(script.get(1).copied().unwrap_or(0)) % 7);
    match script.get(2) {
        Some(cut @ 1..=100) => link = link.cut_left_after(usize::from(*cut) * 5),
        Some(cut @ 101..=200) => link = link.cut_right_after(usize::from(*cut) * 3),
        _ => {}
    }
    let mut books = [Book::default(), Book::default()];
    for byte in script.iter().skip(3) {
        let now = link.now();
        let choice = usize::from(byte >> 4);
        let side = usize::from(byte >> 3 & 1);
        let end = if side == 0 { &mut link.left } else { &mut link.right };
        let book = &mut books[side];
        match byte & 7 {
            0 | 1 => {
                let method = match choice {
                    0..8 => Method::ToolsCall,
                    8..14 => Method::Listen,
                    _ => Method::Initialize,
                };
                let timeouts = Timeouts::default().idle(Duration::from_secs(1)).total(Duration::from_secs(3));
                if let Ok(call) = end.peer.open(&method, timeouts, now) {
                    let _ =
                        end.outbox.line(|out| write::request(out, &call.id(), &method, &EmptyParams::new()));
                    book.open(call);
                }
            }
            2 => {
                if let Some(call) = book.nth_open(choice)
                    && end.peer.cancel(call, "not wanted")
                {
                    book.settle(call);
                }
            }
            3 => {
                if let Some(id) = book.nth_request(choice) {
                    end.respond(&id, &EmptyResult::new());
                }
            }
            4 => {
                // An unexpected or duplicate response.
                let id = Id::from(choice as i64);
                let _ = end.outbox.line(|out| write::response(out, &id, &EmptyResult::new()));
            }
            5 => {
                let params = ProgressParams::new(choice.to_string(), 1.0);
                let _ = end.outbox.line(|out| write::notification(out, &Method::Progress, Some(&params)));
            }
            6 if choice < 4 => {
                if let Some(call) = book.nth_open(choice) {
                    end.peer.pause(call, Duration::from_secs(9), now);
                    end.peer.resume(call, now + Duration::from_millis(1));
                }
            }
            6 if choice < 8 => {
                // Input that is not a message, or a message truncated after its id.
                let noise: &[u8] =
                    if choice & 1 == 0 { b"noise" } else { br#"{"jsonrpc":"2.0","id":1,"result":{"# };
                let _ = end.outbox.line(|out| {
                    out.extend_from_slice(noise);
                    Ok::<_, ()>(())
                });
            }
            6 => {
                // A request that bypasses the peer: its id may already be in flight.
                let id = Id::from((choice - 8) as i64);
                let _ = end.outbox.line(|out| write::request(out, &id, &Method::Ping, &EmptyParams::new()));
            }
            _ => {
                link.step();
            }
        }
        read(&mut link, &mut books);
        for (end, book) in [&link.left, &link.right].into_iter().zip(&books) {
            assert!(end.peer.calls_in_flight() <= LIMIT);
            assert!(end.peer.requests_in_flight() <= LIMIT);
            assert_eq!(end.peer.calls_in_flight(), book.open.values().filter(|settled| !**settled).count());
        }
    }
    link.run_until_quiet();
    read(&mut link, &mut books);
    for (end, book) in [&link.left, &link.right].into_iter().zip(&books) {
        assert_eq!(end.peer.calls_in_flight(), 0, "a slot leaked");
        assert!(book.open.values().all(|settled| *settled), "a call was never settled");
        assert_eq!(end.peer.stats().opened as usize, book.open.len());
    }
}

fn read(link: &mut SimulatedLink, books: &mut [Book; 2]) {
    let [left, right] = books;
    left.read(&mut link.left);
    right.read(&mut link.right);
}

/// Opened and completed calls.
#[derive(Default)]
struct Book {
    open: BTreeMap<CallHandle, bool>,
    requests: Vec<Id>,
}

impl Book {
    fn open(&mut self, call: CallHandle) {
        assert!(self.open.insert(call, false).is_none(), "an id was used twice");
    }

    fn settle(&mut self, call: CallHandle) {
        let settled = self.open.get_mut(&call).expect("a call that was opened");
        assert!(!std::mem::replace(settled, true), "{call:?} was settled twice");
    }

    fn nth_open(&self, choice: usize) -> Option<CallHandle> {
        let open: Vec<CallHandle> =
            self.open.iter().filter(|(_, settled)| !**settled).map(|(call, _)| *call).collect();
        open.get(choice % open.len().max(1)).copied()
    }

    fn nth_request(&mut self, choice: usize) -> Option<Id> {
        (!self.requests.is_empty()).then(|| self.requests.swap_remove(choice % self.requests.len()))
    }

    fn read(&mut self, end: &mut LinkEnd) {
        for received in std::mem::take(&mut end.received) {
            match (&received.arrival, received.message()) {
                (Arrival::Request, Some(Message::Request(request))) => self.requests.push(request.id),
                (Arrival::Response(call) | Arrival::BrokenResponse(call) | Arrival::Ended(call), _) => {
                    self.settle(*call);
                }
                _ => {}
            }
        }
        while let Some(event) = end.peer.poll_failure() {
            match event {
                CallFailure::TimedOut(call, _) | CallFailure::Lost(call) => self.settle(call),
                _ => {}
            }
        }
    }
}
