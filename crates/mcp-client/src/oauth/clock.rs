//! The time of day, in which the expiry of a token is stored.

use std::time::{Duration, SystemTime};

/// Returns the time since 1970.
pub(in crate::oauth) fn unix_time() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
