//! Exponential backoff.

use std::time::Duration;

/// A pause that doubles with each failure, up to a limit.
///
/// ```
/// use std::time::Duration;
/// use mcp_protocol::retry::Backoff;
///
/// let mut backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(5));
/// assert_eq!(backoff.pause(), Duration::from_millis(250));
/// backoff.fail(1);
/// assert_eq!(backoff.pause(), Duration::from_millis(500));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    /// Creates a backoff with the given first and longest pause, and no failures.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, failures: 0 }
    }

    /// Counts `count` more failures.
    pub fn fail(&mut self, count: u32) {
        self.failures = self.failures.saturating_add(count);
    }

    /// Resets the number of failures to zero.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Returns the number of failures.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Returns the pause before the next attempt.
    #[must_use]
    pub fn pause(&self) -> Duration {
        self.first.saturating_mul(2u32.saturating_pow(self.failures)).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_doubles_with_each_failure_up_to_the_limit() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            assert_eq!(backoff.pause().as_secs(), seconds);
            backoff.fail(1);
        }
        assert_eq!(backoff.failures(), 7);
        backoff.fail(u32::MAX);
        assert_eq!(backoff.pause().as_secs(), 30);
        backoff.reset();
        backoff.fail(2);
        assert_eq!(backoff.pause().as_secs(), 4);
    }
}
