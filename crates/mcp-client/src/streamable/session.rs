//! The sessions of a legacy server: the current one, and how a new one replaces it.

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
    /// HTTP+SSE: where to post, while the event stream is open.
    pub(super) sse_post_target: Option<Arc<PostTarget>>,
    /// The number of the session.
    pub(super) generation: u64,
}

impl Session {
    /// True if a response may mean that the server does not know the session.
    pub(super) fn can_be_unknown(&self) -> bool {
        self.id.is_some() || self.sse_post_target.is_some()
    }
}

/// A session, with its event stream if it is an HTTP+SSE session whose stream nobody reads yet.
#[derive(Debug)]
pub(super) struct OpenSession {
    session: Session,
    stream: Option<Box<HttpSseStream>>,
}

impl OpenSession {
    pub(super) fn streamable(id: Option<HeaderValue>, generation: u64) -> Self {
        // Anyone who knows the id can use the session.
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

/// The sessions of one server, one after the other.
#[derive(Debug)]
pub(super) struct Sessions {
    current: Mutex<OpenSession>,
    renewals: Mutex<Renewals>,
    generations: watch::Sender<u64>,
}

/// The outcome of a renewal, once it is known.
pub(super) type RenewalOutcome = Option<Result<()>>;

/// Renewals of the session, one at a time. They belong to no call: a caller that gives up leaves the renewal to the
/// next.
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

/// The decision about a session that was lost.
pub(super) enum RenewalStep {
    /// Nothing: there is a new one.
    Renewed,
    /// Wait for the renewal that is in progress, or that will never come.
    Wait(watch::Receiver<RenewalOutcome>),
    /// Give up: it was renewed too often. Allowed again after this time.
    TooMany(Duration),
}

impl Sessions {
    pub(super) fn new(first: OpenSession) -> Self {
        Self { current: Mutex::new(first), renewals: Mutex::default(), generations: watch::channel(0).0 }
    }

    /// The current session.
    pub(super) fn current(&self) -> Session {
        lock(&self.current).session.clone()
    }

    /// Reports the number of every new session.
    pub(super) fn generations(&self) -> watch::Receiver<u64> {
        self.generations.subscribe()
    }

    /// The current HTTP+SSE session, and its event stream if nobody reads it yet.
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

    /// True if the event stream of this HTTP+SSE session is still open, so that requests can be answered.
    pub(super) fn is_open(&self, session: &Session) -> bool {
        let current = lock(&self.current);
        current.session.generation == session.generation && current.session.sse_post_target.is_some()
    }

    /// Replaces the current session.
    pub(super) fn replace(&self, new: OpenSession) {
        *lock(&self.current) = new;
    }

    /// Tells everyone who waits for it that the session was replaced.
    pub(super) fn announce(&self, generation: u64) {
        self.generations.send_replace(generation);
    }

    /// Starts a renewal, unless there is a new session or one is being opened. `start` spawns it: it waits for the
    /// pause it is given, opens the session and sends the outcome.
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

    /// Refuses further renewals. One in progress may finish within `timeout`, so that its session can be ended.
    pub(super) async fn end_renewals(&self, timeout: Duration) {
        let Some(Renewal { mut outcome, task }) = self.stop_renewals() else { return };
        let _ = tokio::time::timeout(timeout, outcome.wait_for(Option::is_some)).await;
        task.abort();
        let gone = async { while outcome.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(ABORT_TIMEOUT, gone).await;
    }

    /// Refuses further renewals, and aborts one in progress.
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
