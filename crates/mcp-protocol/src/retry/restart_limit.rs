//! The limit for restarts of a server.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Backoff;

/// The maximum number of starts within [`START_WINDOW`].
const MAX_STARTS: usize = 5;
/// The time within which starts are counted.
const START_WINDOW: Duration = Duration::from_secs(30);
/// The pauses before the second and later starts within the window.
const RESTART_BACKOFF: Backoff = Backoff::new(Duration::from_millis(250), START_WINDOW);

/// Limits how often one server is restarted, or its session renewed: at most five times in 30 s, with increasing
/// pauses.
#[derive(Debug, Default)]
pub struct RestartLimit {
    starts: VecDeque<Instant>,
}

impl RestartLimit {
    /// Counts a restart or renewal, and returns the pause to make before it. The pause is zero if it is the first one
    /// within 30 s.
    ///
    /// # Errors
    /// If the limit is reached, returns the time until the next restart or renewal is allowed. A refused one is not
    /// counted.
    pub fn start(&mut self, now: Instant) -> Result<Duration, Duration> {
        let age = |start: &Instant| now.saturating_duration_since(*start);
        while self.starts.front().is_some_and(|oldest| age(oldest) >= START_WINDOW) {
            self.starts.pop_front();
        }
        match (self.starts.len(), self.starts.front()) {
            (MAX_STARTS.., Some(oldest)) => Err(START_WINDOW - age(oldest)),
            (count, _) => {
                self.starts.push_back(now);
                let failures = u32::try_from(count).unwrap_or(u32::MAX).checked_sub(1);
                Ok(failures.map_or(Duration::ZERO, |failures| {
                    let mut backoff = RESTART_BACKOFF;
                    backoff.fail(failures);
                    backoff.pause()
                }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_back_off_and_stop_after_five_in_30_s() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut limit = RestartLimit::default();
        for (second, millis) in [(0, 0), (1, 250), (2, 500), (3, 1000), (4, 2000)] {
            assert_eq!(limit.start(at(second)), Ok(Duration::from_millis(millis)));
        }
        assert_eq!(limit.start(at(10)), Err(Duration::from_secs(20)));
        // A refused start does not extend the wait.
        assert_eq!(limit.start(at(29)), Err(Duration::from_secs(1)));
        assert_eq!(limit.start(at(30)), Ok(Duration::from_millis(2000)));
        assert_eq!(limit.start(at(30)), Err(Duration::from_secs(1)));
        assert_eq!(limit.start(at(1000)), Ok(Duration::ZERO));
    }
}
