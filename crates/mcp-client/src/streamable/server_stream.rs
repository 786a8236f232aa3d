//! The stream on which a legacy server says what belongs to no request. It never holds up a call.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::sync::oneshot;

use super::backoff::Cost;
use super::events::{End, EventStream, SseMessage};
use super::exchange::is_events;
use super::reconnect::{StreamEnd, Turn, Wanting};
use super::session::Session;
use super::target::wait;
use super::transport::HttpTransport;
use crate::connection::{Connection, now};
use crate::http::request::{Answer, HttpError};

/// How long a server may take to say whether it has a stream.
const HEAD: Duration = Duration::from_secs(30);
/// A new session, and a stream in it.
const RENEWED: Cost = Cost { requests: 4, doublings: 0 };

/// What became of one attempt.
enum Attempt {
    /// It may be tried again.
    Ended(StreamEnd),
    /// The server offers none in this session.
    NotOffered,
}

/// The stream of one session.
struct Side<'a> {
    transport: &'a Arc<HttpTransport>,
    connection: &'a Arc<Connection>,
    session: Session,
    /// Whether the session has had a stream.
    had: bool,
    /// Where to go on.
    last_id: Option<String>,
    /// Whether there is a new session because the stream asked for one.
    has_renewed: bool,
    _wanting: Option<Wanting<'a>>,
}

/// Keeps the stream open for as long as the server offers one, in one session after the other.
pub(super) async fn run(
    transport: Arc<HttpTransport>,
    connection: Arc<Connection>,
    asked: oneshot::Sender<()>,
) {
    let mut asked = Some(asked);
    let mut generations = transport.sessions.generations();
    let mut is_first = true;
    loop {
        let session = transport.sessions.current();
        let generation = session.generation;
        let mut side = Side {
            transport: &transport,
            connection: &connection,
            session,
            had: false,
            last_id: None,
            has_renewed: false,
            _wanting: Some(transport.gate.want()),
        };
        tokio::select! {
            () = side.keep(is_first, &mut asked) => {}
            // The stream belongs to a session that is over, and what is said in the new one begins anew.
            changed = generations.wait_for(|now| *now != generation) => if changed.is_err() { return },
        }
        is_first = !side.has_renewed;
    }
}

impl Side<'_> {
    /// Ends never: whoever asks for it ends it with its session.
    async fn keep(&mut self, is_first: bool, asked: &mut Option<oneshot::Sender<()>>) {
        let gate = &self.transport.gate;
        let renewed = StreamEnd { cost: RENEWED, ..StreamEnd::default() };
        let mut turn = match is_first {
            true => gate.first(),
            false => gate.again(&self.connection.terms.server, renewed).await,
        };
        loop {
            match self.attempt(turn, asked).await {
                Attempt::Ended(ended) => turn = gate.again(&self.connection.terms.server, ended).await,
                Attempt::NotOffered => {
                    self._wanting = None;
                    return std::future::pending().await;
                }
            }
        }
    }

    async fn attempt(&mut self, turn: Turn<'_>, asked: &mut Option<oneshot::Sender<()>>) -> Attempt {
        let opened = now();
        // The one before is closed by now: servers allow one.
        let ask = || self.transport.endpoint.stream(&self.session, self.last_id.as_deref());
        let answer = tokio::time::timeout(HEAD, self.transport.endpoint.target.wire.send(ask)).await;
        if let Some(asked) = asked.take() {
            let _ = asked.send(());
        }
        match answer {
            Ok(Ok(answer)) if is_events(&answer) => {
                self.had = true;
                let mut stream = EventStream::new(answer.body, self.transport.endpoint.limits());
                let take_in = |taken: SseMessage<'_>| {
                    self.transport.receive(self.connection, taken);
                    false
                };
                let end = turn.read(stream.messages(take_in)).await;
                self.last_id = stream.last_id().map(str::to_owned).or(self.last_id.take());
                if self.last_id.is_none() || end == End::Endless {
                    // What was said meanwhile is lost.
                    self.connection.missed(None);
                }
                let lived = now().saturating_duration_since(opened);
                Attempt::Ended(StreamEnd { lived, retry: stream.retry(), ..StreamEnd::default() })
            }
            // Without a stream before, 404 says that there is none: the session may be as good as ever.
            Ok(Ok(answer)) if answer.status == StatusCode::NOT_FOUND && self.had => {
                self.transport.endpoint.target.wire.drain(answer.body);
                self.has_renewed = true;
                match self.transport.renew(&self.session, self.connection).await {
                    Ok(()) => Attempt::Ended(StreamEnd::default()),
                    Err(error) => {
                        tracing::debug!(%error, "opening a new session failed");
                        Attempt::Ended(StreamEnd::after(&error, RENEWED))
                    }
                }
            }
            Ok(outcome) => self.refused(&outcome),
            Err(_) => Attempt::Ended(StreamEnd::default()),
        }
    }

    fn refused(&mut self, outcome: &Result<Answer, HttpError>) -> Attempt {
        let retry_after = outcome.as_ref().ok().and_then(|answer| wait(&answer.headers));
        let ended = Attempt::Ended(StreamEnd { retry_after, ..StreamEnd::default() });
        if is_worth_another_try(outcome) {
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
        if self.had {
            return ended;
        }
        tracing::debug!(status, "the server has no notification stream");
        Attempt::NotOffered
    }
}

/// True for a failure that may be over soon: the network, a server that is busy or broken, a second stream (409).
fn is_worth_another_try(outcome: &Result<Answer, HttpError>) -> bool {
    match outcome {
        Ok(answer) => {
            answer.status.is_server_error() && answer.status != StatusCode::NOT_IMPLEMENTED
                || matches!(answer.status.as_u16(), 408 | 409 | 425 | 429)
        }
        Err(error) => error.denied.is_none(),
    }
}
