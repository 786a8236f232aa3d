//! The stream on which a legacy server says what belongs to no request. It never holds up a call.

use std::sync::Arc;

use http::StatusCode;
use tokio::sync::oneshot;

use super::backoff::{Backoff, jitter};
use super::endpoint::Endpoint;
use super::events::{End, EventStream, Taken};
use super::exchange::is_events;
use super::wire::{Answer, HttpError};
use crate::connection::{Connection, now};

/// Keeps the stream open for as long as the server offers one.
pub(super) async fn run(endpoint: Arc<Endpoint>, connection: Arc<Connection>, asked: oneshot::Sender<()>) {
    let mut asked = Some(asked);
    let mut backoff = Backoff::telling(&endpoint.failing);
    let mut generations = endpoint.generations();
    // Which session had a stream.
    let mut had = None;
    let mut last_id: Option<String> = None;
    loop {
        let session = endpoint.session();
        generations.mark_unchanged();
        let opened = now();
        let mut wish = None;
        // The one before is closed by now: servers allow one.
        let answer = tokio::select! {
            answer = endpoint.contact.wire.send(|| endpoint.stream(&session, last_id.as_deref())) => answer,
            // It is asked for in a session that is over.
            _ = generations.changed() => {
                last_id = None;
                continue;
            }
        };
        if let Some(asked) = asked.take() {
            let _ = asked.send(());
        }
        match answer {
            Ok(answer) if is_events(&answer) => {
                had = Some(session.generation);
                let mut stream = EventStream::new(answer.body, endpoint.limits());
                let end = tokio::select! {
                    end = backoff.living(stream.messages(|taken| take_in(&endpoint, &connection, taken))) => end,
                    // It belongs to a session that is over.
                    _ = generations.changed() => {
                        last_id = None;
                        continue;
                    }
                };
                last_id = stream.last_id().map(str::to_owned).or(last_id);
                wish = stream.retry();
                if last_id.is_none() || end == End::Endless {
                    // What was said meanwhile is lost.
                    connection.missed(None);
                }
            }
            // Without a stream before, 404 says that there is none: the session may be as good as ever.
            Ok(answer) if answer.status == StatusCode::NOT_FOUND && had == Some(session.generation) => {
                last_id = None;
                let renewed = endpoint.renew(&session, &connection).await;
                if let Err(error) = renewed {
                    tracing::debug!(%error, "no new session");
                }
            }
            outcome if !is_worth_another_try(&outcome) => {
                let status = outcome.ok().map(|answer| answer.status.as_u16());
                tracing::debug!(status, "the server offers no stream of its own");
                // With another session it may.
                if generations.changed().await.is_err() {
                    return;
                }
                last_id = None;
                continue;
            }
            _ => {}
        }
        let wait = backoff.ended(now().saturating_duration_since(opened), wish, jitter());
        if backoff.has_begun_to_fail() {
            tracing::warn!(server = %connection.agreed.server, "keeps ending the stream of its notifications");
        }
        tokio::time::sleep(wait).await;
    }
}

fn take_in(endpoint: &Endpoint, connection: &Connection, taken: Taken<'_>) -> bool {
    match taken {
        Taken::Message(message) => endpoint.arrivals().line(connection, message, now()),
        Taken::TooLong(error) => tracing::debug!(%error, "an event that is no message"),
    }
    false
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
