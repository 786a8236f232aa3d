//! The clocks of a call.
//!
//! The idle clock starts anew with every sign of life; the total clock never does, and stands still only
//! while a person is asked. Each deadline has a reason, so that an error can say which one it was.

use std::time::{Duration, Instant};

/// How long a call may take.
///
/// ```
/// use std::time::Duration;
/// use mcp_protocol::peer::Clocks;
///
/// let clocks = Clocks::default().idle(Duration::from_secs(5));
/// assert_eq!(clocks.total, Some(Duration::from_secs(600)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Clocks {
    /// Without a sign of life. Default: 60 s.
    pub idle: Option<Duration>,
    /// In all. Default: 600 s.
    pub total: Option<Duration>,
}

impl Default for Clocks {
    fn default() -> Self {
        Self { idle: Some(Duration::from_secs(60)), total: Some(Duration::from_secs(600)) }
    }
}

impl Clocks {
    /// No deadline at all.
    #[must_use]
    pub const fn none() -> Self {
        Self { idle: None, total: None }
    }

    /// Sets how long a call may go without a sign of life.
    #[must_use]
    pub const fn idle(mut self, idle: Duration) -> Self {
        self.idle = Some(idle);
        self
    }

    /// Sets how long a call may take in all.
    #[must_use]
    pub const fn total(mut self, total: Duration) -> Self {
        self.total = Some(total);
        self
    }
}

/// Why a deadline is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// No response and no progress for too long.
    Idle,
    /// Too long in all, whatever the progress.
    Total,
    /// A person was asked and did not answer.
    Ask,
}

impl Reason {
    /// For the one whose request is cancelled.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "request timed out: no response and no progress",
            Self::Total => "request timed out: total time limit reached",
            Self::Ask => "request timed out: the user did not respond",
        }
    }
}

/// The running clocks of one call.
#[derive(Debug)]
pub(super) struct Timers {
    idle: Option<Duration>,
    idle_at: Option<Instant>,
    total_at: Option<Instant>,
    paused: Option<Pause>,
    /// How often they were stopped.
    pauses: u32,
}

/// How often the clocks of one call are stopped: a server cannot live on questions.
const PAUSES: u32 = 10;

#[derive(Debug)]
struct Pause {
    since: Instant,
    /// `None` if the cap lies beyond all time.
    until: Option<Instant>,
    /// How many are being asked at once.
    asks: u32,
}

impl Timers {
    pub(super) fn start(clocks: Clocks, now: Instant) -> Self {
        Self {
            idle: clocks.idle,
            idle_at: clocks.idle.and_then(|idle| now.checked_add(idle)),
            total_at: clocks.total.and_then(|total| now.checked_add(total)),
            paused: None,
            pauses: 0,
        }
    }

    pub(super) fn none() -> Self {
        Self { idle: None, idle_at: None, total_at: None, paused: None, pauses: 0 }
    }

    pub(super) fn renew(&mut self, now: Instant) {
        self.idle_at = self.idle.and_then(|idle| now.checked_add(idle));
    }

    /// False if they were stopped too often, and go on.
    pub(super) fn pause(&mut self, cap: Duration, now: Instant) -> bool {
        if self.pauses == PAUSES {
            return false;
        }
        self.pauses += 1;
        let until = now.checked_add(cap);
        match &mut self.paused {
            None => self.paused = Some(Pause { since: now, until, asks: 1 }),
            Some(pause) => {
                pause.asks += 1;
                pause.until = pause.until.and_then(|old| until.map(|new| old.max(new)));
            }
        }
        true
    }

    pub(super) fn resume(&mut self, now: Instant) {
        if let Some(pause) = &mut self.paused
            && pause.asks > 1
        {
            pause.asks -= 1;
        } else if let Some(pause) = self.paused.take() {
            let paused = now.saturating_duration_since(pause.since);
            self.total_at = self.total_at.and_then(|total_at| total_at.checked_add(paused));
            self.renew(now);
        }
    }

    pub(super) fn due(&self) -> Option<(Instant, Reason)> {
        if let Some(pause) = &self.paused {
            return pause.until.map(|until| (until, Reason::Ask));
        }
        let idle = self.idle_at.map(|at| (at, Reason::Idle));
        let total = self.total_at.map(|at| (at, Reason::Total));
        match (idle, total) {
            (Some(idle), Some(total)) => Some(idle.min(total)),
            (one, other) => one.or(other),
        }
    }
}

/// A lower bound of all deadlines. It may be early when a call ended or got more time, and then nothing
/// happens but a new look.
#[derive(Debug, Default)]
pub(super) struct Wake(Option<(Instant, Reason)>);

impl Wake {
    pub(super) fn include(&mut self, due: Option<(Instant, Reason)>) {
        self.0 = match (self.0, due) {
            (Some(old), Some(new)) => Some(old.min(new)),
            (old, new) => old.or(new),
        };
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.0.is_some_and(|(at, _)| at <= now)
    }

    pub(super) fn next(&self) -> Option<(Instant, Reason)> {
        self.0
    }
}
