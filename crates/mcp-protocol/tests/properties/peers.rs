//! Two peers under any interleaving: every call settles exactly once, no slot leaks, limits hold.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mcp_protocol::Limits;
use mcp_protocol::messages::{EmptyParams, EmptyResult, Id, Message, Method, ProgressParams, write};
use mcp_protocol::peer::{Arrival, Call, Clocks, DuplicateIds, Event, Peer};
use mcp_protocol::wire::Wire;

const LIMIT: usize = 6;

/// Each byte is one thing that happens.
pub(crate) fn settle_every_call_once(script: &[u8]) {
    let limits = Limits::default().in_flight(LIMIT);
    let server = Peer::server(limits.clone(), DuplicateIds::Unnamed);
    let start = Instant::now();
    let mut wire = Wire::between(Peer::client(limits), server, start)
        .latency(Duration::from_millis(u64::from(script.first().copied().unwrap_or(0)) * 10))
        .pieces(1 + usize::from(script.get(1).copied().unwrap_or(0)) % 7);
    if let Some([cut @ 1..=200, ..]) = script.get(2..) {
        wire = wire.cut_left_after(usize::from(*cut) * 3);
    }
    let mut book = Book::default();
    for byte in script.iter().skip(3) {
        let choice = usize::from(byte >> 3);
        match byte & 7 {
            0 | 1 => {
                let method = if byte & 1 == 0 { Method::ToolsCall } else { Method::Listen };
                let clocks = Clocks::default().idle(Duration::from_secs(1)).total(Duration::from_secs(3));
                if let Ok(call) = wire.call(&method, &EmptyParams::new(), clocks) {
                    book.open(call);
                }
            }
            2 => {
                if let Some(call) = book.nth_open(choice)
                    && wire.left.peer.cancel(call, "not wanted")
                {
                    book.settle(call);
                }
            }
            3 => {
                if let Some(id) = book.nth_request(choice) {
                    wire.right.respond(&id, &EmptyResult::new());
                }
            }
            4 => {
                // A response nobody waits for, or a second one.
                let id = Id::from(choice as i64);
                let _ = wire.right.outbox.line(|out| write::response(out, &id, &EmptyResult::new()));
            }
            5 => {
                let params = ProgressParams::new(choice.to_string(), 1.0);
                let _ =
                    wire.right.outbox.line(|out| write::notification(out, &Method::Progress, Some(&params)));
            }
            6 => {
                let now = wire.now();
                if let Some(call) = book.nth_open(choice) {
                    wire.left.peer.pause(call, Duration::from_secs(9), now);
                    wire.left.peer.resume(call, now + Duration::from_millis(1));
                }
            }
            _ => {
                wire.step();
            }
        }
        book.read(&mut wire);
        assert!(wire.left.peer.calls_in_flight() <= LIMIT);
        assert!(wire.right.peer.requests_in_flight() <= LIMIT);
        assert_eq!(wire.left.peer.calls_in_flight(), book.open.values().filter(|settled| !**settled).count());
    }
    wire.run_until_quiet();
    book.read(&mut wire);
    assert_eq!(wire.left.peer.calls_in_flight(), 0, "a slot leaked");
    assert!(book.open.values().all(|settled| *settled), "a call was never settled");
    let stats = wire.left.peer.stats();
    assert_eq!(stats.opened as usize, book.open.len());
}

/// What was opened, and what was settled.
#[derive(Default)]
struct Book {
    open: BTreeMap<Call, bool>,
    requests: Vec<Id>,
}

impl Book {
    fn open(&mut self, call: Call) {
        assert!(self.open.insert(call, false).is_none(), "an id was used twice");
    }

    fn settle(&mut self, call: Call) {
        let settled = self.open.get_mut(&call).expect("a call that was opened");
        assert!(!std::mem::replace(settled, true), "{call:?} was settled twice");
    }

    fn nth_open(&self, choice: usize) -> Option<Call> {
        let open: Vec<Call> =
            self.open.iter().filter(|(_, settled)| !**settled).map(|(call, _)| *call).collect();
        open.get(choice % open.len().max(1)).copied()
    }

    fn nth_request(&mut self, choice: usize) -> Option<Id> {
        (!self.requests.is_empty()).then(|| self.requests.swap_remove(choice % self.requests.len()))
    }

    fn read(&mut self, wire: &mut Wire) {
        for arrived in std::mem::take(&mut wire.right.arrived) {
            if let (Arrival::Request, Some(Message::Request(request))) = (&arrived.arrival, arrived.message())
            {
                self.requests.push(request.id);
            }
        }
        for arrived in std::mem::take(&mut wire.left.arrived) {
            match arrived.arrival {
                Arrival::Response(call) | Arrival::BrokenResponse(call) | Arrival::Ended(call) => {
                    self.settle(call)
                }
                _ => {}
            }
        }
        while let Some(event) = wire.left.peer.poll_event() {
            match event {
                Event::TimedOut(call, _) | Event::Lost(call) => self.settle(call),
                _ => {}
            }
        }
    }
}
