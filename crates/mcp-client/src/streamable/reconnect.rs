//! Limits how often event streams are reopened, for all streams to one server together.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use mcp_protocol::negotiation::{HttpFailure, NegotiationError};
use mcp_protocol::safe_text::SafeText;
use tokio::sync::{Mutex, MutexGuard, watch};

use super::backoff::{Cost, RESET_AFTER, StreamBackoff, jitter};
use crate::error::Error;

/// If a reopened stream stays open this long, the other streams may be reopened, too.
const STABLE_AFTER: Duration = Duration::from_secs(5);
/// The maximum `Retry-After` that is honored. A longer one is shortened to this.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60 * 60);

/// Lets one ended stream at a time be reopened, with backoff. Once that stream stays open, the others may be reopened
/// at once.
#[derive(Debug)]
pub(super) struct Reconnects {
    backoff: Mutex<StreamBackoff>,
    /// Notified when a reopened stream has stayed open.
    stable: watch::Sender<()>,
    /// The number of streams that are in use.
    demands: AtomicUsize,
    is_failing: AtomicBool,
}

/// The end of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StreamEnd {
    /// The time that the stream was open; zero if it could not be opened.
    pub(super) lived: Duration,
    /// The `retry` value of the server, in milliseconds.
    pub(super) retry: Option<u64>,
    /// The `Retry-After` header of the server.
    pub(super) retry_after: Option<Duration>,
    pub(super) cost: Cost,
}

impl StreamEnd {
    /// Describes a stream that could not be opened.
    pub(super) fn after(error: &Error, cost: Cost) -> Self {
        let retry_after = match error {
            Error::Status { answer, .. } => answer.retry_after,
            Error::Connect { error: source, .. } => match &**source {
                NegotiationError::Http(HttpFailure::Busy { retry_after, .. }) => *retry_after,
                _ => None,
            },
            Error::TooManyRestarts { wait, .. } => Some(*wait),
            _ => None,
        };
        Self { retry_after, cost, ..Self::default() }
    }
}

/// The permission to open a stream.
pub(super) struct ReconnectPermit<'a> {
    reconnects: &'a Reconnects,
    /// The lock of the backoff, which is held by the one stream that the others wait for.
    probing: Option<MutexGuard<'a, StreamBackoff>>,
}

/// Counts a stream as in use until this is dropped.
pub(super) struct StreamDemand<'a>(&'a Reconnects);

impl Default for Reconnects {
    fn default() -> Self {
        Self {
            backoff: Mutex::default(),
            stable: watch::channel(()).0,
            demands: AtomicUsize::new(0),
            is_failing: AtomicBool::new(false),
        }
    }
}

impl Reconnects {
    /// Returns true while the server keeps closing a stream that is in use.
    pub(super) fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed) && self.demands.load(Ordering::Relaxed) > 0
    }

    pub(super) fn demand(&self) -> StreamDemand<'_> {
        self.demands.fetch_add(1, Ordering::Relaxed);
        StreamDemand(self)
    }

    /// Permits opening a stream without a pause.
    pub(super) fn permit_now(&self) -> ReconnectPermit<'_> {
        ReconnectPermit { reconnects: self, probing: None }
    }

    /// Waits until an ended stream may be reopened.
    pub(super) async fn permit(&self, server: &str, ended: StreamEnd) -> ReconnectPermit<'_> {
        let mut stable = self.stable.subscribe();
        tokio::select! {
            biased;
            _ = stable.changed() => self.permit_now(),
            mut backoff = self.backoff.lock() => {
                let wait = backoff.pause_after(ended.lived, ended.retry, jitter(), ended.cost);
                if backoff.is_failing() && !self.is_failing.swap(true, Ordering::Relaxed) {
                    let server = SafeText::name(server);
                    tracing::warn!(%server, "the server keeps closing its notification stream");
                }
                let least = ended.retry_after.unwrap_or_default().min(MAX_RETRY_AFTER);
                tokio::time::sleep(wait.max(least)).await;
                ReconnectPermit { reconnects: self, probing: Some(backoff) }
            }
        }
    }

    fn reset(&self, backoff: &mut StreamBackoff) {
        *backoff = StreamBackoff::default();
        self.is_failing.store(false, Ordering::Relaxed);
    }
}

impl ReconnectPermit<'_> {
    /// Reads a stream to its end. If it stays open, the other streams may be reopened, and the backoff is reset.
    pub(super) async fn read<T>(self, stream: impl Future<Output = T>) -> T {
        let Self { reconnects, probing } = self;
        let mut stream = pin!(stream);
        if let Ok(end) = tokio::time::timeout(STABLE_AFTER, &mut stream).await {
            return end;
        }
        if let Some(backoff) = probing {
            reconnects.stable.send_replace(());
            drop(backoff);
        }
        if let Ok(end) = tokio::time::timeout(RESET_AFTER - STABLE_AFTER, &mut stream).await {
            return end;
        }
        // Skipped if another stream is being reopened: its result decides then.
        if let Ok(mut backoff) = reconnects.backoff.try_lock() {
            reconnects.reset(&mut backoff);
        }
        stream.await
    }
}

impl Drop for StreamDemand<'_> {
    fn drop(&mut self) {
        if self.0.demands.fetch_sub(1, Ordering::Relaxed) == 1
            && let Ok(mut backoff) = self.0.backoff.try_lock()
        {
            self.0.reset(&mut backoff);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Returns how often streams are opened in one minute, and how many are open at the end of it.
    async fn in_a_minute(
        streams: usize,
        lives: impl Fn(usize) -> Duration + Send + Sync + 'static,
    ) -> (usize, usize) {
        let reconnects = Arc::new(Reconnects::default());
        let (opened, open) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let lives = Arc::new(lives);
        let mut running = tokio::task::JoinSet::new();
        for _ in 0..streams {
            let (reconnects, opened, open, lives) =
                (Arc::clone(&reconnects), Arc::clone(&opened), Arc::clone(&open), Arc::clone(&lives));
            running.spawn(async move {
                let _demand = reconnects.demand();
                loop {
                    let permit = reconnects.permit("x", StreamEnd::default()).await;
                    let number = opened.fetch_add(1, Ordering::SeqCst);
                    open.fetch_add(1, Ordering::SeqCst);
                    permit.read(tokio::time::sleep(lives(number))).await;
                    open.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        (opened.load(Ordering::SeqCst), open.load(Ordering::SeqCst))
    }

    #[tokio::test(start_paused = true)]
    async fn reconnects_are_limited_however_many_streams_there_are() {
        for streams in [1, 8, 50] {
            let (opened, _) = in_a_minute(streams, |_| Duration::ZERO).await;
            assert!((4..=6).contains(&opened), "{opened} of {streams}");
        }
        // After a short outage, all streams are reopened soon.
        let (opened, open) =
            in_a_minute(50, |number| Duration::from_secs(if number < 3 { 0 } else { 999 })).await;
        assert_eq!((opened, open), (53, 50));
    }

    #[tokio::test(start_paused = true)]
    async fn server_closing_streams_is_failing_until_one_stays_open() {
        let reconnects = Reconnects::default();
        let _demand = reconnects.demand();
        for _ in 0..3 {
            drop(reconnects.permit("x", StreamEnd::default()).await);
            assert!(!reconnects.is_failing());
        }
        let permit = reconnects.permit("x", StreamEnd::default()).await;
        assert!(reconnects.is_failing());
        permit.read(tokio::time::sleep(RESET_AFTER / 2)).await;
        assert!(reconnects.is_failing());
        let permit =
            reconnects.permit("x", StreamEnd { lived: RESET_AFTER / 2, ..StreamEnd::default() }).await;
        let is_failing = permit.read(async {
            tokio::time::sleep(RESET_AFTER * 2).await;
            reconnects.is_failing()
        });
        assert!(!is_failing.await, "while the stream is open");
        for _ in 0..9 {
            drop(reconnects.permit("x", StreamEnd::default()).await);
        }
        assert!(reconnects.is_failing());
        drop(_demand);
        assert!(!reconnects.is_failing(), "no stream is in use");
    }

    #[tokio::test(start_paused = true)]
    async fn reconnect_waits_for_retry_after_up_to_a_limit() {
        let began = tokio::time::Instant::now();
        let ten_minutes = StreamEnd { retry_after: Some(Duration::from_secs(600)), ..StreamEnd::default() };
        drop(Reconnects::default().permit("x", ten_minutes).await);
        assert!(began.elapsed() >= Duration::from_secs(600));
        let unbounded = StreamEnd { retry_after: Some(Duration::MAX), ..StreamEnd::default() };
        drop(Reconnects::default().permit("x", unbounded).await);
        assert!(began.elapsed() < Duration::from_secs(600) + MAX_RETRY_AFTER * 2);
    }
}
