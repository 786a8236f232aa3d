//! Rate limit for progress notifications: a burst of 8, then 10 per second, and always the last one.

use std::time::Instant;

use crate::limits::{PROGRESS_BURST as BURST, PROGRESS_INTERVAL as INTERVAL};

/// A rate limiter for progress notifications. If the rate is exceeded, it delays the newest notification and drops the
/// older ones.
///
/// Order is preserved, and progress that does not increase is dropped. Call [`flush`](Self::flush) before sending the
/// response, and send the delayed notification that it returns.
///
/// ```
/// use std::time::Instant;
/// use mcp_protocol::peer::ProgressGate;
///
/// let now = Instant::now();
/// let mut gate = ProgressGate::new(now);
/// let sent: Vec<_> = (1..=20).filter_map(|n| gate.offer(f64::from(n), n, now)).collect();
/// assert_eq!(sent, [1, 2, 3, 4, 5, 6, 7, 8]);
/// assert_eq!(gate.flush(), Some(20));
/// ```
#[doc(alias = "progress")]
#[doc(alias = "rate limit")]
#[derive(Debug)]
pub struct ProgressGate<T> {
    tokens: u32,
    /// Time of the last refill.
    filled: Instant,
    last: Option<f64>,
    held: Option<T>,
}

impl<T> ProgressGate<T> {
    /// Creates a rate limiter for one request.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self { tokens: BURST, filled: now, last: None, held: None }
    }

    /// Takes a new progress notification. Returns it if it may be sent now. Returns `None` if it is delayed, or dropped
    /// because `progress` has not increased.
    #[must_use]
    pub fn offer(&mut self, progress: f64, item: T, now: Instant) -> Option<T> {
        if progress.is_nan() || self.last.is_some_and(|last| progress <= last) {
            return None;
        }
        self.last = Some(progress);
        self.held = Some(item);
        self.handle_timeout(now)
    }

    /// Returns the delayed notification if it may be sent now; `None` if it is too early or there is none.
    #[must_use]
    pub fn handle_timeout(&mut self, now: Instant) -> Option<T> {
        self.fill(now);
        if self.tokens == 0 || self.held.is_none() {
            return None;
        }
        self.tokens -= 1;
        self.held.take()
    }

    /// Returns the time at which the delayed notification may be sent; `None` if there is none.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.held.as_ref().map(|_| self.filled + INTERVAL)
    }

    /// Returns the delayed notification regardless of the rate limit. Call it before sending the response.
    #[must_use]
    pub fn flush(&mut self) -> Option<T> {
        self.held.take()
    }

    fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.filled).as_millis() / INTERVAL.as_millis();
        let added = u32::try_from(passed).unwrap_or(u32::MAX);
        if self.tokens.saturating_add(added) >= BURST {
            self.tokens = BURST;
            self.filled = self.filled.max(now);
        } else {
            self.tokens += added;
            self.filled += INTERVAL * added;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn progress_is_rate_limited_in_order_and_the_last_is_sent() {
        let start = Instant::now();
        let mut gate = ProgressGate::new(start);
        let mut sent = Vec::new();
        // One offer every 10 ms for two seconds.
        for n in 0..200_u32 {
            let now = start + Duration::from_millis(10) * n;
            sent.extend(gate.offer(f64::from(n), n, now));
        }
        sent.extend(gate.flush());
        assert!(sent.is_sorted(), "{sent:?}");
        assert_eq!(sent.last(), Some(&199));
        assert_eq!(&sent[..8], [0, 1, 2, 3, 4, 5, 6, 7]);
        // Burst of 8, one every 100 ms for 2 s, and the flushed one.
        assert!((26..=29).contains(&sent.len()), "{}", sent.len());
    }

    #[test]
    fn held_progress_is_sent_when_due() {
        let start = Instant::now();
        let mut gate = ProgressGate::new(start);
        for n in 0..9_u32 {
            let _ = gate.offer(f64::from(n), n, start);
        }
        let at = gate.poll_timeout().unwrap();
        assert_eq!(at, start + INTERVAL);
        assert_eq!(gate.handle_timeout(start), None);
        assert_eq!(gate.handle_timeout(at), Some(8));
        assert_eq!(gate.poll_timeout(), None);
    }

    #[test]
    fn progress_that_does_not_increase_is_dropped() {
        let now = Instant::now();
        let mut gate = ProgressGate::new(now);
        assert_eq!(gate.offer(1.0, 'a', now), Some('a'));
        assert_eq!(gate.offer(1.0, 'b', now), None);
        assert_eq!(gate.offer(0.5, 'c', now), None);
        assert_eq!(gate.offer(f64::NAN, 'd', now), None);
        assert_eq!(gate.flush(), None);
        assert_eq!(gate.offer(1.5, 'e', now), Some('e'));
    }
}
