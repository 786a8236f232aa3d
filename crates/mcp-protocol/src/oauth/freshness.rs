//! Whether an access token can still be used.
//!
//! ```
//! use std::time::Duration;
//!
//! use mcp_protocol::oauth::freshness::{Freshness, freshness};
//!
//! let hour = Duration::from_secs(3600);
//! let obtained = Duration::from_secs(1_800_000_000);
//! assert_eq!(freshness(obtained, Some(hour), obtained), Freshness::Fresh);
//! // A minute before it expires, a token is refreshed.
//! assert_eq!(freshness(obtained, Some(hour), obtained + Duration::from_secs(3545)), Freshness::Due);
//! assert_eq!(freshness(obtained, Some(hour), obtained + hour), Freshness::Expired);
//! assert_eq!(freshness(obtained, None, obtained + 1000 * hour), Freshness::Fresh);
//! ```

use std::time::Duration;

/// The longest time before the expiry at which a token is refreshed.
const MAX_MARGIN: Duration = Duration::from_secs(60);
/// The part of the lifetime of a token that is the margin of short-lived tokens.
const MARGIN_DIVISOR: u32 = 4;

/// Tells whether an access token can still be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// The token can be used.
    Fresh,
    /// The token can be used, and should be refreshed: it expires within a minute, or within a quarter of its lifetime.
    Due,
    /// The token has expired.
    Expired,
}

/// Returns whether a token can be used at the time `now`. `obtained` is the time at which it was obtained and `lifetime`
/// its `expires_in`, if the server named one. Times are durations since 1970.
///
/// If the clock was set back to before `obtained`, the age of the token is unknown, and the result is
/// [`Freshness::Due`].
#[must_use]
pub fn freshness(obtained: Duration, lifetime: Option<Duration>, now: Duration) -> Freshness {
    let Some(lifetime) = lifetime else { return Freshness::Fresh };
    let Some(age) = now.checked_sub(obtained) else {
        // The clock was set back, so the age is unknown.
        return Freshness::Due;
    };
    let margin = MAX_MARGIN.min(lifetime / MARGIN_DIVISOR);
    if age >= lifetime {
        Freshness::Expired
    } else if age >= lifetime - margin {
        Freshness::Due
    } else {
        Freshness::Fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn margin_is_a_minute_or_a_quarter_of_the_lifetime() {
        let obtained = Duration::from_secs(1_000_000);
        for (lifetime, due) in [(3600, 3540), (240, 180), (239, 180), (100, 75), (4, 3), (1, 1)] {
            let at = |age: u64| {
                freshness(obtained, Some(Duration::from_secs(lifetime)), obtained + Duration::from_secs(age))
            };
            assert_eq!(at(0), Freshness::Fresh, "{lifetime}");
            assert_eq!(at(due - 1), Freshness::Fresh, "{lifetime}");
            let expected = if due < lifetime { Freshness::Due } else { Freshness::Expired };
            assert_eq!(at(due), expected, "{lifetime}");
            assert_eq!(at(lifetime), Freshness::Expired, "{lifetime}");
            assert_eq!(at(lifetime * 10), Freshness::Expired, "{lifetime}");
        }
        assert_eq!(freshness(obtained, Some(Duration::ZERO), obtained), Freshness::Expired);
    }

    #[test]
    fn clock_that_was_set_back_makes_a_token_due() {
        let obtained = Duration::from_secs(1_000_000);
        let before = obtained - Duration::from_secs(1);
        assert_eq!(freshness(obtained, Some(Duration::from_secs(3600)), before), Freshness::Due);
        assert_eq!(freshness(obtained, None, before), Freshness::Fresh);
    }
}
