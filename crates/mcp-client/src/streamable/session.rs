//! The current session of a legacy server.

use std::sync::{Arc, Mutex};

use http::HeaderValue;
use tokio::sync::watch;

use super::http_sse::{HttpSseStream, PostTarget};
use super::lock;

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
    generations: watch::Sender<u64>,
}

impl Sessions {
    pub(super) fn new(first: OpenSession) -> Self {
        Self { current: Mutex::new(first), generations: watch::channel(0).0 }
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
}
