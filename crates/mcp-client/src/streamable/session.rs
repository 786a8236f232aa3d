//! The sessions of a legacy server: the current one, and its replacement by a new one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::HeaderValue;
use mcp_protocol::retry::RestartLimit;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::http_sse::{HttpSseStream, PostTarget};
use super::lock;
use crate::connection::now;
use crate::error::Result;

/// The maximum wait for the task of a renewal that was aborted.
const ABORT_TIMEOUT: Duration = Duration::from_secs(1);

/// The session of a legacy server. A modern server has none: `id` and `sse_post_target` are empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Session {
    pub(super) id: Option<HeaderValue>,
    /// The URL to which messages are posted, while the event stream of an HTTP+SSE session is open.
    pub(super) sse_post_target: Option<Arc<PostTarget>>,
    /// The number of the session; each new session has the next number.
    pub(super) generation: u64,
}

impl Session {
    /// Returns true if there is a session that the server may no longer know.
    pub(super) fn can_be_unknown(&self) -> bool {
        self.id.is_some() || self.sse_post_target.is_some()
    }
}

/// A session. It includes the event stream if it is an HTTP+SSE session whose stream is not being read yet.
#[derive(Debug)]
pub(super) struct OpenSession {
    session: Session,
    stream: Option<Box<HttpSseStream>>,
}

impl OpenSession {
    pub(super) fn streamable(id: Option<HeaderValue>, generation: u64) -> Self {
        // The id is sensitive, because anyone who knows it can use the session.
        let id = id.map(|mut id| {
            id.set_sensitive(true);
            id
        });
        Self { session: Session { id, sse_post_target: None, generation }, stream: None }
    }

    pub(super) fn http_sse(opened: Box<HttpSseStream>, generation: u64) -> Self {
        let session = Session { id: None, sse_post_target: Some(Arc::clone(&opened.to)), generation };
        Self { session, stream: Some(opened) }
    }
}

/// The sessions of one server, of which one is current.
#[derive(Debug)]
pub(super) struct Sessions {
    current: Mutex<OpenSession>,
    renewals: Mutex<Renewals>,
    generations: watch::Sender<u64>,
}

/// The outcome of a renewal; `None` until it is known.
pub(super) type RenewalOutcome = Option<Result<()>>;

/// Renewals of the session, at most one at a time. A renewal does not belong to a call: it continues if its caller is
/// dropped.
#[derive(Debug, Default)]
struct Renewals {
    limit: RestartLimit,
    last: Option<Renewal>,
    is_over: bool,
}

#[derive(Debug)]
struct Renewal {
    outcome: watch::Receiver<RenewalOutcome>,
    task: AbortHandle,
}

/// The next step for a caller whose session was lost.
pub(super) enum RenewalStep {
    /// Use the new session: the lost one has already been replaced.
    Renewed,
    /// Wait for the outcome of the renewal. If the connection was closed, there is none, and the channel is closed.
    Wait(watch::Receiver<RenewalOutcome>),
    /// Give up, because the session was renewed too often. The next renewal is allowed after this time.
    TooMany(Duration),
}

impl Sessions {
    pub(super) fn new(first: OpenSession) -> Self {
        Self { current: Mutex::new(first), renewals: Mutex::default(), generations: watch::channel(0).0 }
    }

    /// Returns the current session.
    pub(super) fn current(&self) -> Session {
        lock(&self.current).session.clone()
    }

    /// Returns a receiver of the number of each new session.
    pub(super) fn generations(&self) -> watch::Receiver<u64> {
        self.generations.subscribe()
    }

    /// Returns the current session, and takes the event stream of an HTTP+SSE session if it is not being read yet.
    pub(super) fn take_stream(&self) -> (Session, Option<Box<HttpSseStream>>) {
        let mut current = lock(&self.current);
        (current.session.clone(), current.stream.take())
    }

    /// Records that the event stream of an HTTP+SSE session has ended, and with it the session.
    pub(super) fn end_stream(&self, session: &Session) {
        let mut current = lock(&self.current);
        if current.session.generation == session.generation {
            current.session.sse_post_target = None;
        }
    }

    /// Returns true if the event stream of this HTTP+SSE session is still open, so that responses can arrive.
    pub(super) fn is_open(&self, session: &Session) -> bool {
        let current = lock(&self.current);
        current.session.generation == session.generation && current.session.sse_post_target.is_some()
    }

    /// Replaces the current session.
    pub(super) fn replace(&self, new: OpenSession) {
        *lock(&self.current) = new;
    }

    /// Notifies the receivers of [`generations`](Self::generations) that the session was replaced.
    pub(super) fn announce(&self, generation: u64) {
        self.generations.send_replace(generation);
    }

    /// Starts a renewal, unless the session was already replaced or a renewal is in progress. `start` spawns the task
    /// of the renewal, which waits for the given pause, opens the new session and sends the outcome.
    pub(super) fn renew(
        &self,
        lost: &Session,
        start: impl FnOnce(Duration, watch::Sender<RenewalOutcome>) -> AbortHandle,
    ) -> RenewalStep {
        let mut renewals = lock(&self.renewals);
        if self.current().generation != lost.generation {
            return RenewalStep::Renewed;
        }
        if let Some(in_progress) = renewals.last.as_ref().filter(|renewal| !renewal.task.is_finished()) {
            return RenewalStep::Wait(in_progress.outcome.clone());
        }
        let (sender, outcome) = watch::channel(None);
        if renewals.is_over {
            return RenewalStep::Wait(outcome);
        }
        match renewals.limit.start(now()) {
            Ok(pause) => {
                renewals.last = Some(Renewal { outcome: outcome.clone(), task: start(pause, sender) });
                RenewalStep::Wait(outcome)
            }
            Err(wait) => RenewalStep::TooMany(wait),
        }
    }

    /// Refuses further renewals. A renewal in progress may finish within `timeout`, so that its session can be deleted.
    pub(super) async fn end_renewals(&self, timeout: Duration) {
        let Some(Renewal { mut outcome, task }) = self.stop_renewals() else { return };
        let _ = tokio::time::timeout(timeout, outcome.wait_for(Option::is_some)).await;
        task.abort();
        let gone = async { while outcome.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(ABORT_TIMEOUT, gone).await;
    }

    /// Refuses further renewals, and aborts a renewal in progress.
    pub(super) fn abort_renewals(&self) {
        if let Some(renewal) = self.stop_renewals() {
            renewal.task.abort();
        }
    }

    fn stop_renewals(&self) -> Option<Renewal> {
        let mut renewals = lock(&self.renewals);
        renewals.is_over = true;
        renewals.last.take()
    }
}
