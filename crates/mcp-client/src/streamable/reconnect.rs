//! Who may open a stream again, and when: shared by all that one server keeps ending, so that they cannot be a storm together.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use mcp_protocol::negotiation::{NegotiationError, Obstacle};
use mcp_protocol::visible::Visible;
use tokio::sync::{Mutex, MutexGuard, watch};

use super::backoff::{Cost, LIVED, StreamBackoff, jitter};
use crate::error::Error;

/// A stream that lived this long shows that others may be opened, too.
const PROVEN: Duration = Duration::from_secs(5);
/// The longest that a server can have itself left alone for.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// One of the streams that ended is opened again at a time, ever slower; when it lives, the others follow.
#[derive(Debug)]
pub(super) struct Gate {
    backoff: Mutex<StreamBackoff>,
    /// Told when a stream has shown that it lives.
    proven: watch::Sender<()>,
    /// How many streams are wanted.
    wanted: AtomicUsize,
    is_failing: AtomicBool,
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StreamEnd {
    pub(super) lived: Duration,
    /// When the server wants it opened again, in milliseconds.
    pub(super) retry: Option<u64>,
    /// How long the server wants to be left alone.
    pub(super) retry_after: Option<Duration>,
    pub(super) cost: Cost,
}

impl StreamEnd {
    /// One that could not be opened.
    pub(super) fn after(error: &Error, cost: Cost) -> Self {
        let retry_after = match error {
            Error::Status { answer, .. } => answer.retry_after,
            Error::Connect { error: source, .. } => match &**source {
                NegotiationError::Http(Obstacle::Busy { retry_after, .. }) => *retry_after,
                _ => None,
            },
            Error::TooManyRestarts { wait, .. } => Some(*wait),
            _ => None,
        };
        Self { retry_after, cost, ..Self::default() }
    }
}

/// The right to open a stream.
pub(super) struct Turn<'a> {
    gate: &'a Gate,
    /// Held by the one that others wait for.
    probing: Option<MutexGuard<'a, StreamBackoff>>,
}

/// A stream that is wanted for as long as this is there.
pub(super) struct Wanting<'a>(&'a Gate);

impl Default for Gate {
    fn default() -> Self {
        Self {
            backoff: Mutex::default(),
            proven: watch::channel(()).0,
            wanted: AtomicUsize::new(0),
            is_failing: AtomicBool::new(false),
        }
    }
}

impl Gate {
    /// True while a stream is wanted that keeps ending.
    pub(super) fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed) && self.wanted.load(Ordering::Relaxed) > 0
    }

    pub(super) fn want(&self) -> Wanting<'_> {
        self.wanted.fetch_add(1, Ordering::Relaxed);
        Wanting(self)
    }

    /// The first time, when somebody asked for it: nobody waits.
    pub(super) fn first(&self) -> Turn<'_> {
        Turn { gate: self, probing: None }
    }

    /// Waits until a stream that ended may be opened again.
    pub(super) async fn again(&self, server: &str, ended: StreamEnd) -> Turn<'_> {
        let mut proven = self.proven.subscribe();
        tokio::select! {
            biased;
            _ = proven.changed() => self.first(),
            mut backoff = self.backoff.lock() => {
                let wait = backoff.ended(ended.lived, ended.retry, jitter(), ended.cost);
                if backoff.is_failing() && !self.is_failing.swap(true, Ordering::Relaxed) {
                    let server = Visible::name(server);
                    tracing::warn!(%server, "the server keeps closing its notification stream");
                }
                let least = ended.retry_after.unwrap_or_default().min(LONGEST);
                tokio::time::sleep(wait.max(least)).await;
                Turn { gate: self, probing: Some(backoff) }
            }
        }
    }

    fn forgive(&self, backoff: &mut StreamBackoff) {
        *backoff = StreamBackoff::default();
        self.is_failing.store(false, Ordering::Relaxed);
    }
}

impl Turn<'_> {
    /// Reads a stream to its end. If it lives, others may be opened, and what was before is forgiven.
    pub(super) async fn read<T>(self, stream: impl Future<Output = T>) -> T {
        let Self { gate, probing } = self;
        let mut stream = pin!(stream);
        if let Ok(end) = tokio::time::timeout(PROVEN, &mut stream).await {
            return end;
        }
        if let Some(backoff) = probing {
            gate.proven.send_replace(());
            drop(backoff);
        }
        if let Ok(end) = tokio::time::timeout(LIVED - PROVEN, &mut stream).await {
            return end;
        }
        // Somebody who has it now has another opinion.
        if let Ok(mut backoff) = gate.backoff.try_lock() {
            gate.forgive(&mut backoff);
        }
        stream.await
    }
}

impl Drop for Wanting<'_> {
    fn drop(&mut self) {
        if self.0.wanted.fetch_sub(1, Ordering::Relaxed) == 1
            && let Ok(mut backoff) = self.0.backoff.try_lock()
        {
            self.0.forgive(&mut backoff);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// How often streams are opened in a minute that each live so long, and how many live at its end.
    async fn in_a_minute(
        streams: usize,
        lives: impl Fn(usize) -> Duration + Send + Sync + 'static,
    ) -> (usize, usize) {
        let gate = Arc::new(Gate::default());
        let (opened, open) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let lives = Arc::new(lives);
        let mut running = tokio::task::JoinSet::new();
        for _ in 0..streams {
            let (gate, opened, open, lives) =
                (Arc::clone(&gate), Arc::clone(&opened), Arc::clone(&open), Arc::clone(&lives));
            running.spawn(async move {
                let _wanting = gate.want();
                loop {
                    let turn = gate.again("x", StreamEnd::default()).await;
                    let number = opened.fetch_add(1, Ordering::SeqCst);
                    open.fetch_add(1, Ordering::SeqCst);
                    turn.read(tokio::time::sleep(lives(number))).await;
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
        // A server that was away for a moment has all of them back soon.
        let (opened, open) =
            in_a_minute(50, |number| Duration::from_secs(if number < 3 { 0 } else { 999 })).await;
        assert_eq!((opened, open), (53, 50));
    }

    #[tokio::test(start_paused = true)]
    async fn server_closing_streams_is_failing_until_one_stays_open() {
        let gate = Gate::default();
        let wanting = gate.want();
        for _ in 0..3 {
            drop(gate.again("x", StreamEnd::default()).await);
            assert!(!gate.is_failing());
        }
        let turn = gate.again("x", StreamEnd::default()).await;
        assert!(gate.is_failing());
        turn.read(tokio::time::sleep(LIVED / 2)).await;
        assert!(gate.is_failing());
        let turn = gate.again("x", StreamEnd { lived: LIVED / 2, ..StreamEnd::default() }).await;
        let told = turn.read(async {
            tokio::time::sleep(LIVED * 2).await;
            gate.is_failing()
        });
        assert!(!told.await, "while it lives");
        for _ in 0..9 {
            drop(gate.again("x", StreamEnd::default()).await);
        }
        assert!(gate.is_failing());
        drop(wanting);
        assert!(!gate.is_failing(), "nobody wants the stream any more");
    }

    #[tokio::test(start_paused = true)]
    async fn reconnect_waits_for_retry_after_up_to_a_limit() {
        let began = tokio::time::Instant::now();
        let left_alone = StreamEnd { retry_after: Some(Duration::from_secs(600)), ..StreamEnd::default() };
        drop(Gate::default().again("x", left_alone).await);
        assert!(began.elapsed() >= Duration::from_secs(600));
        let for_ever = StreamEnd { retry_after: Some(Duration::MAX), ..StreamEnd::default() };
        drop(Gate::default().again("x", for_ever).await);
        assert!(began.elapsed() < Duration::from_secs(600) + LONGEST * 2);
    }
}
