//! The polling of a device login (RFC 8628, section 3.5).
//!
//! ```
//! use std::time::{Duration, Instant};
//!
//! use mcp_protocol::oauth::device::{DeviceEnd, DevicePolling, DeviceResponse, DeviceStep};
//!
//! let now = Instant::now();
//! let mut polling = DevicePolling::new(None, Duration::from_secs(900), now);
//! // The first request is sent after the default interval.
//! let at = now + Duration::from_secs(5);
//! assert_eq!(polling.poll(now), DeviceStep::Wait(at));
//! assert_eq!(polling.poll(at), DeviceStep::Request);
//! polling.handle_response(DeviceResponse::Pending, at);
//! assert_eq!(polling.poll(at), DeviceStep::Wait(at + Duration::from_secs(5)));
//! polling.handle_response(DeviceResponse::Denied, at);
//! assert_eq!(polling.poll(at), DeviceStep::End(DeviceEnd::Denied));
//! ```

use std::time::{Duration, Instant};

/// The interval between requests if the server does not say one.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(5);
/// The shortest interval, whatever the server says.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// The longest pause while the server cannot be reached, unless the interval is longer.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// The increase of the interval after `slow_down`.
const SLOW_DOWN: Duration = Duration::from_secs(5);
/// The longest time for a login, whatever the server says.
const MAX_LIFETIME: Duration = Duration::from_secs(30 * 60);

/// The result of one request to the token endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceResponse {
    /// `authorization_pending`: the user has not decided yet.
    Pending,
    /// `slow_down`, with the new interval if the server names one.
    SlowDown {
        /// The interval that the response names.
        interval: Option<Duration>,
    },
    /// The server could not be reached, or did not send an OAuth response: a network error, a status from 500 on, 429,
    /// or another document.
    Unreachable,
    /// `access_denied`: the user refused.
    Denied,
    /// `expired_token`: the code has expired.
    Expired,
    /// Any other error code.
    Failed(String),
}

/// The next step of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceStep {
    /// Wait until this time.
    Wait(Instant),
    /// Send a request to the token endpoint, and report its result with [`DevicePolling::handle_response`]. A response
    /// with a token ends the polling.
    Request,
    /// Stop: there will be no token.
    End(DeviceEnd),
}

/// The reason why a device login ended without a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceEnd {
    /// The user refused.
    Denied,
    /// The code expired before the user entered it.
    Expired,
    /// The server refused with this error code. Untrusted.
    Failed(String),
}

/// The state of the polling of one device login.
#[derive(Clone, Debug)]
pub struct DevicePolling {
    interval: Duration,
    /// The pause before the next request: the interval, or longer while the server cannot be reached.
    pause: Duration,
    next: Instant,
    deadline: Instant,
    end: Option<DeviceEnd>,
}

impl DevicePolling {
    /// Creates the polling state for a device authorization response that arrived at `now`. `interval` and `lifetime`
    /// are its `interval` and `expires_in`.
    #[must_use]
    pub fn new(interval: Option<Duration>, lifetime: Duration, now: Instant) -> Self {
        let interval = interval.unwrap_or(DEFAULT_INTERVAL).clamp(MIN_INTERVAL, MAX_LIFETIME);
        let deadline = now + lifetime.min(MAX_LIFETIME);
        Self { interval, pause: interval, next: now + interval, deadline, end: None }
    }

    /// Returns the time at which the code expires.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the next step.
    #[must_use]
    pub fn poll(&self, now: Instant) -> DeviceStep {
        match &self.end {
            Some(end) => DeviceStep::End(end.clone()),
            None if now >= self.deadline => DeviceStep::End(DeviceEnd::Expired),
            None if now >= self.next => DeviceStep::Request,
            None => DeviceStep::Wait(self.next.min(self.deadline)),
        }
    }

    /// Reports the result of a request. `now` is the time at which it arrived.
    pub fn handle_response(&mut self, response: DeviceResponse, now: Instant) {
        match response {
            DeviceResponse::Pending => self.pause = self.interval,
            DeviceResponse::SlowDown { interval } => {
                // The interval is never lowered: RFC 8628 increases it for all later requests.
                let longer = self.interval + SLOW_DOWN;
                self.interval = interval.map_or(longer, |named| named.max(longer)).min(MAX_LIFETIME);
                self.pause = self.interval;
            }
            DeviceResponse::Unreachable => self.pause = (self.pause * 2).min(MAX_PAUSE).max(self.interval),
            DeviceResponse::Denied => self.end = Some(DeviceEnd::Denied),
            DeviceResponse::Expired => self.end = Some(DeviceEnd::Expired),
            DeviceResponse::Failed(code) => self.end = Some(DeviceEnd::Failed(code)),
        }
        self.next = now + self.pause;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Sends each response as soon as a request is due, and returns the pauses before the requests, in seconds.
    fn pauses(polling: &mut DevicePolling, mut now: Instant, responses: &[DeviceResponse]) -> Vec<u64> {
        let mut pauses = Vec::new();
        for response in responses {
            let DeviceStep::Wait(until) = polling.poll(now) else { panic!("{:?}", polling.poll(now)) };
            pauses.push((until - now).as_secs());
            now = until;
            assert_eq!(polling.poll(now), DeviceStep::Request);
            polling.handle_response(response.clone(), now);
        }
        pauses
    }

    #[test]
    fn interval_has_a_default_and_bounds() {
        let now = Instant::now();
        for (given, expected) in
            [(None, 5), (Some(0), 1), (Some(1), 1), (Some(7), 7), (Some(60), 60), (Some(300), 300)]
        {
            let mut polling = DevicePolling::new(given.map(seconds), seconds(1800), now);
            let responses = [DeviceResponse::Pending, DeviceResponse::Pending];
            assert_eq!(pauses(&mut polling, now, &responses), [expected, expected], "{given:?}");
        }
        // Such a login ends before its first request.
        let polling = DevicePolling::new(Some(Duration::MAX), seconds(900), now);
        assert_eq!(polling.poll(now), DeviceStep::Wait(now + seconds(900)));
    }

    #[test]
    fn slow_down_lengthens_all_later_intervals() {
        use DeviceResponse::{Pending, SlowDown};
        let now = Instant::now();
        let mut polling = DevicePolling::new(Some(seconds(5)), seconds(1800), now);
        let none = SlowDown { interval: None };
        let shorter = SlowDown { interval: Some(seconds(3)) };
        let longer = SlowDown { interval: Some(seconds(40)) };
        let responses =
            [none.clone(), Pending, shorter, longer, Pending, none.clone(), none.clone(), none.clone(), none];
        assert_eq!(pauses(&mut polling, now, &responses), [5, 10, 10, 15, 40, 40, 45, 50, 55]);
        let DeviceStep::Wait(until) = polling.poll(now) else { panic!() };
        assert_eq!((until - polling.next).as_secs(), 0);
        assert_eq!(polling.interval, seconds(60));
        polling.handle_response(SlowDown { interval: None }, now);
        assert_eq!(polling.interval, seconds(65), "RFC 8628 has no longest interval");
        polling.handle_response(DeviceResponse::Unreachable, now);
        assert_eq!(polling.pause, seconds(65));
        polling.handle_response(SlowDown { interval: Some(Duration::MAX) }, now);
        assert_eq!(polling.interval, seconds(1800));
    }

    #[test]
    fn unreachable_server_is_asked_less_often_until_it_responds() {
        use DeviceResponse::{Pending, SlowDown, Unreachable};
        let now = Instant::now();
        let mut polling = DevicePolling::new(Some(seconds(5)), seconds(1800), now);
        let responses = [
            Unreachable,
            Unreachable,
            Unreachable,
            Unreachable,
            Unreachable,
            Pending,
            Unreachable,
            SlowDown { interval: None },
            Pending,
        ];
        assert_eq!(pauses(&mut polling, now, &responses), [5, 10, 20, 40, 60, 60, 5, 10, 10]);
    }

    #[test]
    fn polling_ends_with_the_code_and_with_each_final_error() {
        let now = Instant::now();
        let polling = DevicePolling::new(Some(seconds(5)), seconds(7), now);
        assert_eq!(polling.deadline(), now + seconds(7));
        let mut late = polling.clone();
        late.handle_response(DeviceResponse::Pending, now + seconds(5));
        // The next request would be too late, so the driver wakes up at the deadline.
        assert_eq!(late.poll(now + seconds(6)), DeviceStep::Wait(now + seconds(7)));
        assert_eq!(late.poll(now + seconds(7)), DeviceStep::End(DeviceEnd::Expired));
        assert_eq!(
            DevicePolling::new(None, seconds(999_999), now).deadline(),
            now + seconds(1800),
            "a login does not wait for ever"
        );
        for (response, end) in [
            (DeviceResponse::Denied, DeviceEnd::Denied),
            (DeviceResponse::Expired, DeviceEnd::Expired),
            (
                DeviceResponse::Failed("invalid_scope".to_owned()),
                DeviceEnd::Failed("invalid_scope".to_owned()),
            ),
        ] {
            let mut polling = polling.clone();
            polling.handle_response(response, now);
            assert_eq!(polling.poll(now), DeviceStep::End(end));
        }
    }
}
