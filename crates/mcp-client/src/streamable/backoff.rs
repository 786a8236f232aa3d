//! The pause before a stream that has ended is reopened. This module does no I/O.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use mcp_protocol::retry::Backoff;

/// The first pause, if the server sends no `retry` value.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The maximum pause without jitter. It is doubled for streams whose [`Cost`] has doublings.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A stream that stayed open this long resets the backoff.
pub(super) const RESET_AFTER: Duration = Duration::from_secs(30);
/// The shortest and longest pause that a server may request with `retry`.
const RETRY_RANGE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));

/// The number of requests for short-lived streams after which a server counts as failing.
const MIN_FAILURES_TO_REPORT: u32 = 4;

/// The cost, for the server, of reopening a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// The number of requests that reopening takes.
    pub(super) requests: u32,
    /// The number of times that the pause is doubled in addition.
    pub(super) doublings: u32,
}

impl Default for Cost {
    fn default() -> Self {
        Self { requests: 1, doublings: 0 }
    }
}

/// Counts the requests for streams that ended soon, including those that could not be opened.
#[derive(Debug, Default)]
pub(super) struct StreamBackoff {
    failures: u32,
}

impl StreamBackoff {
    /// Records the end of a stream that was open for `lived`. Returns the pause before it is reopened, which is at
    /// least the `retry` value of the server (in milliseconds).
    pub(super) fn pause_after(
        &mut self,
        lived: Duration,
        retry: Option<u64>,
        jitter: Duration,
        cost: Cost,
    ) -> Duration {
        if lived >= RESET_AFTER {
            self.failures = 0;
        }
        let retry = retry.map(|millis| Duration::from_millis(millis).clamp(RETRY_RANGE.0, RETRY_RANGE.1));
        let longest = if cost.doublings == 0 { LONGEST_PAUSE } else { LONGEST_PAUSE * 2 };
        let mut backoff = Backoff::new(FIRST_PAUSE, longest);
        backoff.fail(self.failures + cost.doublings);
        // After the first failure, the pause is exactly the one that the server requested.
        let wait = match retry {
            Some(retry) if backoff.failures() == 0 => retry,
            retry => backoff.pause().max(retry.unwrap_or_default()),
        };
        self.failures += cost.requests;
        wait + jitter.min(wait / 4)
    }

    /// Returns true if the server has failed often enough to report it.
    pub(super) fn is_failing(&self) -> bool {
        self.failures >= MIN_FAILURES_TO_REPORT
    }
}

/// Returns a random time of less than a second, so that clients do not all reconnect at the same moment.
pub(super) fn jitter() -> Duration {
    Duration::from_millis(RandomState::new().build_hasher().finish() % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of connections that a server gets in one minute if every stream ends after `lived`.
    fn in_a_minute(lived: Duration, retry: Option<u64>, cost: Cost) -> usize {
        let mut backoff = StreamBackoff::default();
        let (mut time, mut connects) = (Duration::ZERO, 0);
        while time < Duration::from_secs(60) {
            connects += 1;
            time += lived + backoff.pause_after(lived, retry, Duration::ZERO, cost);
        }
        connects
    }

    #[test]
    fn server_closing_streams_gets_at_most_8_connections_a_minute() {
        for retry in [None, Some(0), Some(1), Some(500), Some(5000), Some(u64::MAX)] {
            for lived in [0, 10, 1000] {
                let lived = Duration::from_millis(lived);
                let connects = in_a_minute(lived, retry, Cost::default());
                assert!((1..=8).contains(&connects), "{retry:?} {lived:?} {connects}");
                // Reopening an HTTP+SSE session takes four requests.
                let connects = in_a_minute(lived, retry, super::super::http_sse::REOPEN_COST) * 4;
                assert!((4..=8).contains(&connects), "{retry:?} {lived:?} {connects}");
            }
        }
    }

    #[test]
    fn server_retry_value_is_clamped_and_long_streams_reset_backoff() {
        let mut backoff = StreamBackoff::default();
        assert_eq!(
            backoff.pause_after(Duration::ZERO, Some(500), Duration::ZERO, Cost::default()),
            Duration::from_millis(500)
        );
        assert_eq!(
            backoff.pause_after(Duration::ZERO, Some(500), Duration::ZERO, Cost::default()),
            Duration::from_secs(2)
        );
        assert_eq!(
            backoff.pause_after(RESET_AFTER, Some(u64::MAX), Duration::ZERO, Cost::default()),
            RETRY_RANGE.1
        );
        assert_eq!(backoff.pause_after(RESET_AFTER, Some(0), Duration::ZERO, Cost::default()), RETRY_RANGE.0);
        assert_eq!(
            backoff.pause_after(RESET_AFTER, None, Duration::from_secs(1), Cost::default()),
            FIRST_PAUSE + FIRST_PAUSE / 4
        );
        let mut backoff = StreamBackoff::default();
        let waits: Vec<u64> = (0..7)
            .map(|_| backoff.pause_after(Duration::ZERO, None, Duration::ZERO, Cost::default()).as_secs())
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
    }
}
