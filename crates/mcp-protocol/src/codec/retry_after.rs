//! `Retry-After`: the delay before a retry.
//!
//! Spec: RFC 9110, section 10.2.3.

use std::time::Duration;

/// Parses the value of `Retry-After`: a number of seconds, or an HTTP date. Returns `None` if the value is neither, and
/// zero if the date has passed. `now` is the time since the Unix epoch.
///
/// ```
/// use std::time::Duration;
/// use mcp_protocol::codec::retry_after::retry_after;
///
/// assert_eq!(retry_after("120", Duration::ZERO), Some(Duration::from_secs(120)));
/// let now = Duration::from_secs(784_111_770);
/// assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT", now), Some(Duration::from_secs(7)));
/// ```
#[doc(alias = "Retry-After")]
#[must_use]
pub fn retry_after(value: &str, now: Duration) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that overflows `u64` becomes the longest duration.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    Some(Duration::from_secs(seconds(value)?).saturating_sub(now))
}

/// Returns the Unix time, in seconds, of a date such as `Sun, 06 Nov 1994 08:49:37 GMT`. Other date formats are
/// obsolete.
fn seconds(date: &str) -> Option<u64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut words = date.split_once(", ")?.1.split(' ');
    let day: u64 = number(words.next()?, 2).filter(|day| (1..=31).contains(day))?;
    let name = words.next()?;
    let month = MONTHS.iter().position(|month| *month == name)? as u64 + 1;
    let year: u64 = number(words.next()?, 4).filter(|year| *year >= 1970)?;
    let mut time = words.next()?.split(':');
    let mut part = |most| number(time.next()?, 2).filter(|part| *part <= most);
    let (hour, minute, second) = (part(23)?, part(59)?, part(60)?);
    if time.next().is_some() || words.next() != Some("GMT") || words.next().is_some() {
        return None;
    }
    // Days since 1970. Years begin in March here, so that the leap day is the last day of a year.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

fn number(text: &str, digits: usize) -> Option<u64> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_counted_over_leap_years() {
        for (date, expected) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("Tue, 29 Feb 2000 12:00:00 GMT", 951_825_600),
            ("Sat, 01 Mar 2025 00:00:00 GMT", 1_740_787_200),
            ("Thu, 31 Dec 2099 23:59:59 GMT", 4_102_444_799),
        ] {
            assert_eq!(seconds(date), Some(expected), "{date}");
        }
    }

    #[test]
    fn huge_retry_after_is_kept_and_invalid_values_are_ignored() {
        let now = Duration::from_secs(784_111_777);
        assert_eq!(retry_after("99999999999999999999999", now), Some(Duration::from_secs(u64::MAX)));
        assert_eq!(retry_after(" 0 ", now), Some(Duration::ZERO));
        assert_eq!(retry_after("Sat, 05 Nov 1994 08:49:37 GMT", now), Some(Duration::ZERO), "it has passed");
        for wrong in [
            "",
            "-1",
            "1.5",
            "soon",
            "Sun, 06 Nov 1994",
            "Sun, 32 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
        ] {
            assert_eq!(retry_after(wrong, now), None, "{wrong}");
        }
    }
}
