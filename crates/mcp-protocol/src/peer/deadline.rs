//! Timeouts of a call.
//!
//! Progress restarts the idle timeout, but not the total timeout. Both pause while the user is asked. Each deadline has
//! a reason, so that the error can name the timeout that expired.

use std::time::{Duration, Instant};

/// The timeouts of a call.
///
/// ```
/// use std::time::Duration;
/// use mcp_protocol::peer::Timeouts;
///
/// let timeouts = Timeouts::default().idle(Duration::from_secs(5));
/// assert_eq!(timeouts.total, Some(Duration::from_secs(600)));
/// ```
#[doc(alias = "timeout")]
#[doc(alias = "deadline")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// Maximum time without a response or progress; `None` means unlimited. Default: 60 s.
    pub idle: Option<Duration>,
    /// Maximum total time; `None` means unlimited. Default: 600 s.
    pub total: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { idle: Some(Duration::from_secs(60)), total: Some(Duration::from_secs(600)) }
    }
}

impl Timeouts {
    /// Creates timeouts that never expire.
    #[must_use]
    pub const fn none() -> Self {
        Self { idle: None, total: None }
    }

    /// Sets the maximum time without a response or progress.
    #[must_use]
    pub const fn idle(mut self, idle: Duration) -> Self {
        self.idle = Some(idle);
        self
    }

    /// Sets the maximum total time.
    #[must_use]
    pub const fn total(mut self, total: Duration) -> Self {
        self.total = Some(total);
        self
    }
}

/// The timeout that expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum TimeoutReason {
    /// No response and no progress within the idle timeout.
    Idle,
    /// No response within the total timeout.
    Total,
    /// The user, who was asked during the call, did not respond in time.
    Ask,
}

impl TimeoutReason {
    /// Returns a text for the `reason` of the cancellation.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "request timed out: no response and no progress",
            Self::Total => "request timed out: total time limit reached",
            Self::Ask => "request timed out: the user did not respond",
        }
    }
}

/// The running timeouts of one call.
#[derive(Debug)]
pub(super) struct Timers {
    idle: Option<Duration>,
    idle_at: Option<Instant>,
    total_at: Option<Instant>,
    paused: Option<Pause>,
    /// Number of pauses so far.
    pauses: u32,
}

/// Maximum number of pauses per call, so that a server cannot extend a call without limit.
const MAX_PAUSES: u32 = 10;

#[derive(Debug)]
struct Pause {
    since: Instant,
    /// `None` if an `Instant` cannot represent the end of the pause.
    until: Option<Instant>,
    /// Number of overlapping pauses.
    asks: u32,
}

impl Timers {
    pub(super) fn start(timeouts: Timeouts, now: Instant) -> Self {
        Self {
            idle: timeouts.idle,
            idle_at: timeouts.idle.and_then(|idle| now.checked_add(idle)),
            total_at: timeouts.total.and_then(|total| now.checked_add(total)),
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

    /// Returns false, without pausing, if there were too many pauses.
    pub(super) fn pause(&mut self, cap: Duration, now: Instant) -> bool {
        if self.pauses == MAX_PAUSES {
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

    pub(super) fn due(&self) -> Option<(Instant, TimeoutReason)> {
        if let Some(pause) = &self.paused {
            return pause.until.map(|until| (until, TimeoutReason::Ask));
        }
        let idle = self.idle_at.map(|at| (at, TimeoutReason::Idle));
        let total = self.total_at.map(|at| (at, TimeoutReason::Total));
        match (idle, total) {
            (Some(idle), Some(total)) => Some(idle.min(total)),
            (one, other) => one.or(other),
        }
    }
}

/// A lower bound of the deadlines of all calls. It may be too early after a call was completed or got more time; it is
/// recomputed when it is reached.
#[derive(Debug, Default)]
pub(super) struct NextDeadline(Option<(Instant, TimeoutReason)>);

impl NextDeadline {
    pub(super) fn include(&mut self, due: Option<(Instant, TimeoutReason)>) {
        self.0 = match (self.0, due) {
            (Some(old), Some(new)) => Some(old.min(new)),
            (old, new) => old.or(new),
        };
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.0.is_some_and(|(at, _)| at <= now)
    }

    pub(super) fn next(&self) -> Option<(Instant, TimeoutReason)> {
        self.0
    }
}
