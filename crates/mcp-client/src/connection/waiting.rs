//! The requests whose callers wait, and how they are settled.

use std::sync::Arc;
use std::task::Waker;

use mcp_protocol::errors::ErrorObject;
use mcp_protocol::messages::{KeptBody, ProgressParams};
use mcp_protocol::peer::{Call, Event, Reason};

use super::state::State;
use crate::connection::progress::ProgressQueue;
use crate::error::{ConnectionEnd, Sent};

/// Somebody who waits for a response.
#[derive(Debug)]
pub(super) struct Waiting {
    /// When it leaves.
    pub(super) departure: Departure,
    pub(super) waker: Option<Waker>,
    pub(super) settled: Option<Settled>,
    pub(super) progress: Option<Box<ProgressQueue>>,
    /// Whether its clocks stand still while a person is asked.
    pub(super) asks: bool,
}

/// When a request leaves.
#[derive(Clone, Copy, Debug)]
pub(super) enum Departure {
    /// When everything was written that had been queued before it.
    After(u64),
    /// By itself, and nobody can say when.
    Apart,
    /// By itself, to be answered on the stream with this number.
    On(u64),
}

#[derive(Debug)]
pub(super) enum Settled {
    Response(std::result::Result<KeptBody, Box<ErrorObject>>),
    /// With what is wrong with it.
    Broken(String),
    TimedOut(Reason),
    Lost(Sent, Arc<ConnectionEnd>),
}

impl State {
    /// A response came.
    pub(crate) fn settle(&mut self, call: Call, response: std::result::Result<KeptBody, ErrorObject>) {
        self.settle_with(call, Settled::Response(response.map_err(Box::new)));
    }

    /// A response came that cannot be read.
    pub(crate) fn settle_broken(&mut self, call: Call, problem: String) {
        self.settle_with(call, Settled::Broken(problem));
    }

    /// Tells of calls that ended without a message.
    pub(crate) fn settle_events(&mut self) {
        let written = self.outbox.written();
        while let Some(event) = self.peer.poll_event() {
            match event {
                Event::TimedOut(call, reason) => self.settle_with(call, Settled::TimedOut(reason)),
                Event::Lost(call) => {
                    let is_sent = self.waiting(call).is_some_and(|waiting| match waiting.departure {
                        Departure::After(offset) => offset < written,
                        Departure::Apart | Departure::On(_) => true,
                    });
                    let sent = if is_sent { Sent::Maybe } else { Sent::No };
                    self.settle_with(call, Settled::Lost(sent, self.ended.clone().unwrap_or_default()));
                }
                _ => {}
            }
        }
    }

    /// Keeps progress for the one who waits.
    pub(crate) fn progressed(&mut self, call: Call, params: ProgressParams) {
        if let Some(waiting) = self.waiting(call)
            && let Some(progress) = &mut waiting.progress
        {
            progress.push(params.into());
            let waker = waiting.waker.take();
            self.wake(waker);
        }
    }

    pub(super) fn waiting(&mut self, call: Call) -> Option<&mut Waiting> {
        let at = self.waiting.binary_search_by_key(&call, |(call, _)| *call).ok()?;
        self.waiting.get_mut(at).map(|(_, waiting)| waiting)
    }

    /// A request leaves, to be answered on this stream; or it was refused there, and leaves again.
    pub(crate) fn departs(&mut self, call: Call, stream: Option<u64>) {
        if let Some(waiting) = self.waiting(call) {
            waiting.departure = stream.map_or(Departure::Apart, Departure::On);
        }
    }

    /// What was to be answered on this stream never will be.
    pub(super) fn lose(&mut self, stream: u64, ended: &Arc<ConnectionEnd>) {
        let is_lost = |waiting: &Waiting| {
            waiting.settled.is_none() && matches!(waiting.departure, Departure::On(on) if on <= stream)
        };
        let calls: Vec<Call> =
            self.waiting.iter().filter(|(_, waiting)| is_lost(waiting)).map(|(call, _)| *call).collect();
        for call in calls {
            self.peer.handle_lost(call);
            self.settle_with(call, Settled::Lost(Sent::Maybe, Arc::clone(ended)));
        }
    }

    /// True if somebody waits for a call that has not ended.
    pub(crate) fn is_open(&mut self, call: Call) -> bool {
        self.waiting(call).is_some_and(|waiting| waiting.settled.is_none())
    }

    pub(super) fn stop_waiting(&mut self, call: Call) {
        if let Ok(at) = self.waiting.binary_search_by_key(&call, |(call, _)| *call) {
            self.waiting.remove(at);
        }
    }

    fn settle_with(&mut self, call: Call, settled: Settled) {
        // What followed a link that is gone may follow the next one.
        let is_made_again = match settled {
            Settled::Lost(..) => true,
            Settled::TimedOut(_) => self.has_exchanges,
            _ => false,
        };
        if !is_made_again {
            self.subscribers.settled(call);
        }
        // Nobody may wait for it any more.
        let Some(waiting) = self.waiting(call) else { return };
        waiting.settled = Some(settled);
        let waker = waiting.waker.take();
        self.wake(waker);
    }
}
