//! How long to wait before a stream that ended is opened again. Pure.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use mcp_protocol::retry::Backoff;

/// The first pause, if the server names none.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A stream that lived this long was a good one.
pub(super) const LIVED: Duration = Duration::from_secs(30);
/// What a server may wish for.
const WISH: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));

/// After so many streams that ended soon, something is wrong.
const FAILING: u32 = 4;

/// What it costs a server when a stream is opened again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// How many requests it takes.
    pub(super) requests: u32,
    /// How many times the wait is doubled from the first time on.
    pub(super) doublings: u32,
}

impl Default for Cost {
    fn default() -> Self {
        Self { requests: 1, doublings: 0 }
    }
}

/// Counts streams that ended soon. One that was opened and ended at once counts like one that was never opened.
#[derive(Debug, Default)]
pub(super) struct StreamBackoff {
    failures: u32,
}

impl StreamBackoff {
    /// A stream ended that lived so long. Gives how long to wait, not sooner than the server wishes.
    pub(super) fn ended(
        &mut self,
        lived: Duration,
        wish: Option<u64>,
        jitter: Duration,
        cost: Cost,
    ) -> Duration {
        if lived >= LIVED {
            self.failures = 0;
        }
        let wish = wish.map(|millis| Duration::from_millis(millis).clamp(WISH.0, WISH.1));
        let longest = if cost.doublings == 0 { LONGEST_PAUSE } else { LONGEST_PAUSE * 2 };
        let mut backoff = Backoff::new(FIRST_PAUSE, longest);
        backoff.fail(self.failures + cost.doublings);
        // After the first failure, the pause that the server names counts alone.
        let wait = match wish {
            Some(wish) if backoff.failures() == 0 => wish,
            wish => backoff.pause().max(wish.unwrap_or_default()),
        };
        self.failures += cost.requests;
        wait + jitter.min(wait / 4)
    }

    /// True when it is time to say that something is wrong.
    pub(super) fn is_failing(&self) -> bool {
        self.failures >= FAILING
    }
}

/// Up to a second that is different for everybody, so that not all come back at once.
pub(super) fn jitter() -> Duration {
    Duration::from_millis(RandomState::new().build_hasher().finish() % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many connections a server sees in a minute that ends every stream at once.
    fn in_a_minute(lived: Duration, wish: Option<u64>, cost: Cost) -> usize {
        let mut backoff = StreamBackoff::default();
        let (mut time, mut connects) = (Duration::ZERO, 0);
        while time < Duration::from_secs(60) {
            connects += 1;
            time += lived + backoff.ended(lived, wish, Duration::ZERO, cost);
        }
        connects
    }

    #[test]
    fn server_closing_streams_gets_at_most_8_connections_a_minute() {
        for wish in [None, Some(0), Some(1), Some(500), Some(5000), Some(u64::MAX)] {
            for lived in [0, 10, 1000] {
                let lived = Duration::from_millis(lived);
                let connects = in_a_minute(lived, wish, Cost::default());
                assert!((1..=8).contains(&connects), "{wish:?} {lived:?} {connects}");
                // One for each of what it takes.
                let connects = in_a_minute(lived, wish, super::super::http_sse::COST) * 4;
                assert!((4..=8).contains(&connects), "{wish:?} {lived:?} {connects}");
            }
        }
    }

    #[test]
    fn server_retry_value_is_clamped_and_long_streams_reset_backoff() {
        let mut backoff = StreamBackoff::default();
        assert_eq!(
            backoff.ended(Duration::ZERO, Some(500), Duration::ZERO, Cost::default()),
            Duration::from_millis(500)
        );
        assert_eq!(
            backoff.ended(Duration::ZERO, Some(500), Duration::ZERO, Cost::default()),
            Duration::from_secs(2)
        );
        assert_eq!(backoff.ended(LIVED, Some(u64::MAX), Duration::ZERO, Cost::default()), WISH.1);
        assert_eq!(backoff.ended(LIVED, Some(0), Duration::ZERO, Cost::default()), WISH.0);
        assert_eq!(
            backoff.ended(LIVED, None, Duration::from_secs(1), Cost::default()),
            FIRST_PAUSE + FIRST_PAUSE / 4
        );
        let mut backoff = StreamBackoff::default();
        let waits: Vec<u64> = (0..7)
            .map(|_| backoff.ended(Duration::ZERO, None, Duration::ZERO, Cost::default()).as_secs())
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
    }
}
