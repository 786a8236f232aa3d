//! When a server fetches the keys of an issuer again.
//!
//! ```
//! use std::time::Instant;
//!
//! use mcp_protocol::oauth::key_refresh::{KeyRefresh, KeyStep};
//!
//! let (mut refresh, now) = (KeyRefresh::default(), Instant::now());
//! assert_eq!(refresh.step(false, now), KeyStep::Fetch);
//! refresh.handle_attempt(now, true);
//! assert_eq!(refresh.step(true, now), KeyStep::Use);
//! // A flood of tokens with invented keys causes no requests.
//! assert_eq!(refresh.step(false, now), KeyStep::Unknown);
//! ```

use std::time::{Duration, Instant};

/// The time for which keys are used without fetching them again.
const FRESH: Duration = Duration::from_secs(15 * 60);
/// The time for which keys are used while the issuer cannot be reached.
const USABLE: Duration = Duration::from_secs(24 * 60 * 60);
/// The shortest time between two attempts: while there are keys, and while there are none.
const PAUSE: Duration = Duration::from_secs(30);
const PAUSE_WITHOUT_KEYS: Duration = Duration::from_secs(5);

/// When the keys of an issuer were fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyRefresh {
    fetched: Option<Instant>,
    attempted: Option<Instant>,
}

/// What to do for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyStep {
    /// Use the key.
    Use,
    /// Fetch the keys first. If that fails, the next step says what to do.
    Fetch,
    /// The issuer does not have the key of this token.
    Unknown,
    /// The keys are not known, or too old, and cannot be fetched at the moment.
    Unavailable,
}

impl KeyRefresh {
    /// Returns what to do for a token whose key is among the fetched keys, or is not.
    #[must_use]
    pub fn step(&self, is_known: bool, now: Instant) -> KeyStep {
        let age = self.fetched.map(|at| now.saturating_duration_since(at));
        let is_usable = age.is_some_and(|age| age < USABLE);
        let pause = if is_usable { PAUSE } else { PAUSE_WITHOUT_KEYS };
        let may_fetch = self.attempted.is_none_or(|at| now.saturating_duration_since(at) >= pause);
        let is_fresh = age.is_some_and(|age| age < FRESH);
        // The last attempt failed: whether the issuer has the key is not known.
        let has_failed = self.attempted > self.fetched;
        match (is_usable, is_known) {
            (true, true) if is_fresh || !may_fetch => KeyStep::Use,
            _ if may_fetch => KeyStep::Fetch,
            (true, false) if !has_failed => KeyStep::Unknown,
            _ => KeyStep::Unavailable,
        }
    }

    /// Notes that an attempt to fetch the keys has ended.
    pub fn handle_attempt(&mut self, now: Instant, is_fetched: bool) {
        self.attempted = Some(now);
        if is_fetched {
            self.fetched = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_fetched_when_they_are_old_or_a_key_is_missing() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let refresh = |fetched: u64, attempted: u64| KeyRefresh {
            fetched: Some(at(fetched)),
            attempted: Some(at(attempted)),
        };
        let hour = 3600;
        for (refresh, is_known, now, expected) in [
            // Never fetched.
            (KeyRefresh::default(), false, 0, KeyStep::Fetch),
            (KeyRefresh { fetched: None, attempted: Some(at(0)) }, false, 4, KeyStep::Unavailable),
            (KeyRefresh { fetched: None, attempted: Some(at(0)) }, false, 5, KeyStep::Fetch),
            // Fresh.
            (refresh(0, 0), true, 899, KeyStep::Use),
            (refresh(0, 0), true, 900, KeyStep::Fetch),
            // The key is missing.
            (refresh(0, 0), false, 29, KeyStep::Unknown),
            (refresh(0, 0), false, 30, KeyStep::Fetch),
            // The last attempt failed.
            (refresh(0, 900), true, 929, KeyStep::Use),
            (refresh(0, 900), true, 930, KeyStep::Fetch),
            (refresh(0, 900), false, 929, KeyStep::Unavailable),
            (refresh(0, 900), false, 930, KeyStep::Fetch),
            // Too old.
            (refresh(0, 24 * hour - 10), true, 24 * hour - 1, KeyStep::Use),
            (refresh(0, 24 * hour - 4), true, 24 * hour, KeyStep::Unavailable),
            (refresh(0, 24 * hour - 5), true, 24 * hour, KeyStep::Fetch),
        ] {
            assert_eq!(refresh.step(is_known, at(now)), expected, "{refresh:?} {is_known} {now}");
        }
        let mut refresh = KeyRefresh::default();
        refresh.handle_attempt(at(1), true);
        refresh.handle_attempt(at(2), false);
        assert_eq!(refresh, KeyRefresh { fetched: Some(at(1)), attempted: Some(at(2)) });
    }
}
