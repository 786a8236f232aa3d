//! The notification stream of a legacy server: the response to a GET. It never delays a call.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::sync::oneshot;

use super::backoff::Cost;
use super::events::{EventStream, ReadEnd, SseMessage, is_events};
use super::reconnect::{ReconnectPermit, StreamDemand, StreamEnd};
use super::session::Session;
use super::target::retry_after_of;
use super::transport::HttpTransport;
use crate::connection::{Connection, now};
use crate::http::http_error::HttpError;
use crate::http::request::RawResponse;

/// The timeout for the response headers.
const HEADERS_TIMEOUT: Duration = Duration::from_secs(30);
/// The cost of a new session with a stream.
const RENEWAL_COST: Cost = Cost { requests: 4, doublings: 0 };

/// The outcome of one attempt to open the stream.
enum Attempt {
    /// The stream ended or could not be opened; it may be reopened.
    Ended(StreamEnd),
    /// The server offers no notification stream in this session.
    NotOffered,
}

/// The notification stream of one session.
struct NotificationStream<'a> {
    transport: &'a Arc<HttpTransport>,
    connection: &'a Arc<Connection>,
    session: Session,
    /// True once the session has had an open stream.
    was_open: bool,
    /// The id of the last event. The server resumes the stream after it.
    last_id: Option<String>,
    /// True if this stream began to open a new session.
    has_renewed: bool,
    _demand: Option<StreamDemand<'a>>,
}

/// Keeps a stream open as long as the server offers one. Starts again in each new session.
pub(super) async fn run(
    transport: Arc<HttpTransport>,
    connection: Arc<Connection>,
    probed: oneshot::Sender<()>,
) {
    let mut probed = Some(probed);
    let mut generations = transport.sessions.generations();
    let mut is_first = true;
    loop {
        let session = transport.sessions.current();
        let generation = session.generation;
        let mut stream = NotificationStream {
            transport: &transport,
            connection: &connection,
            session,
            was_open: false,
            last_id: None,
            has_renewed: false,
            _demand: Some(transport.reconnects.demand()),
        };
        tokio::select! {
            () = stream.keep(is_first, &mut probed) => {}
            // The stream belongs to the old session. The new session gets its own stream.
            changed = generations.wait_for(|now| *now != generation) => if changed.is_err() { return },
        }
        is_first = !stream.has_renewed;
    }
}

impl NotificationStream<'_> {
    /// Keeps the stream open. Never returns; the caller drops the future when the session ends.
    async fn keep(&mut self, is_first: bool, probed: &mut Option<oneshot::Sender<()>>) {
        let reconnects = &self.transport.reconnects;
        let renewed = StreamEnd { cost: RENEWAL_COST, ..StreamEnd::default() };
        let mut permit = match is_first {
            true => reconnects.permit_now(),
            false => reconnects.permit(&self.connection.terms.server, renewed).await,
        };
        loop {
            match self.attempt(permit, probed).await {
                Attempt::Ended(ended) => {
                    permit = reconnects.permit(&self.connection.terms.server, ended).await
                }
                Attempt::NotOffered => {
                    self._demand = None;
                    return std::future::pending().await;
                }
            }
        }
    }

    async fn attempt(
        &mut self,
        permit: ReconnectPermit<'_>,
        probed: &mut Option<oneshot::Sender<()>>,
    ) -> Attempt {
        let opened = now();
        // The previous stream is closed at this point, because servers allow only one at a time.
        let request = || self.transport.endpoint.stream(&self.session, self.last_id.as_deref());
        let answer =
            tokio::time::timeout(HEADERS_TIMEOUT, self.transport.endpoint.target.http.send(request)).await;
        if let Some(probed) = probed.take() {
            let _ = probed.send(());
        }
        match answer {
            Ok(Ok(answer)) if is_events(&answer) => {
                self.was_open = true;
                let mut stream = EventStream::new(answer.body, self.transport.endpoint.limits());
                let handle = |message: SseMessage<'_>| {
                    self.transport.receive(self.connection, message);
                    false
                };
                let end = permit.read(stream.messages(handle)).await;
                self.last_id = stream.last_id().map(str::to_owned).or(self.last_id.take());
                if self.last_id.is_none() || end == ReadEnd::TooLong {
                    // Messages sent in the meantime are lost.
                    self.connection.missed(None);
                }
                let lived = now().saturating_duration_since(opened);
                Attempt::Ended(StreamEnd { lived, retry: stream.retry(), ..StreamEnd::default() })
            }
            // If the stream was open before, 404 means that the server does not know the session. Otherwise it means
            // that the server has no notification stream.
            Ok(Ok(answer)) if answer.status == StatusCode::NOT_FOUND && self.was_open => {
                self.transport.endpoint.target.http.drain(answer.body);
                self.has_renewed = true;
                match self.transport.renew_session(&self.session, self.connection).await {
                    Ok(()) => Attempt::Ended(StreamEnd::default()),
                    Err(error) => {
                        tracing::debug!(%error, "opening a new session failed");
                        Attempt::Ended(StreamEnd::after(&error, RENEWAL_COST))
                    }
                }
            }
            Ok(outcome) => self.refused(&outcome),
            Err(_) => Attempt::Ended(StreamEnd::default()),
        }
    }

    fn refused(&mut self, outcome: &Result<RawResponse, HttpError>) -> Attempt {
        let retry_after = outcome.as_ref().ok().and_then(|answer| retry_after_of(&answer.headers));
        let ended = Attempt::Ended(StreamEnd { retry_after, ..StreamEnd::default() });
        if is_transient(outcome) {
            return ended;
        }
        let status = outcome.as_ref().ok().map(|answer| answer.status.as_u16());
        if self.last_id.take().is_some() {
            tracing::debug!(
                status,
                "the server cannot resume its notification stream; messages in between are lost"
            );
            self.connection.missed(None);
            return ended;
        }
        if self.was_open {
            return ended;
        }
        tracing::debug!(status, "the server has no notification stream");
        Attempt::NotOffered
    }
}

/// Returns true for a transient failure: a network error, a busy or failing server, or a server that still counts the
/// previous stream as open (409).
fn is_transient(outcome: &Result<RawResponse, HttpError>) -> bool {
    match outcome {
        Ok(answer) => {
            answer.status.is_server_error() && answer.status != StatusCode::NOT_IMPLEMENTED
                || matches!(answer.status.as_u16(), 408 | 409 | 425 | 429)
        }
        Err(error) => error.refusal.as_ref().is_none_or(|error| error.is_retry_safe()),
    }
}
