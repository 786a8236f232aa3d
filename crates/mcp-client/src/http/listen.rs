//! The stream of changes of a modern server, for as long as somebody follows it.

use std::sync::Arc;
use std::time::Duration;

use mcp_protocol::messages::Method;
use mcp_protocol::subscriptions::ListenParams;

use super::backoff::{Backoff, jitter};
use crate::connection::{Connection, Manner, Request, Transport, now};
use crate::error::Error;
use crate::subscription::LISTEN;

/// Reads a stream until the server ends it in good order, and opens it again when it was cut.
pub(crate) async fn listen(
    connection: Arc<Connection>,
    mut request: Request,
    key: u64,
    params: ListenParams,
) {
    let Transport::Http(endpoint) = &connection.agreed.transport else { return };
    let mut backoff = Backoff::telling(&endpoint.failing);
    let mut opened = now();
    loop {
        match backoff.living(request).await {
            // The follower knows: whatever settles its request tells it.
            Ok(_) => return,
            Err(Error::Lost { .. } | Error::TimedOut { .. }) => {}
            Err(Error::Status { answer, .. }) if answer.status >= 500 || answer.status == 429 => {}
            Err(error) => {
                tracing::debug!(%error, "a stream of changes is not opened again");
                return connection.lock().hub.give_up(|follower| follower == key);
            }
        }
        connection.missed(Some(key));
        let mut lived = now().saturating_duration_since(opened);
        request = loop {
            tokio::time::sleep(backoff.ended(lived, None, jitter())).await;
            if backoff.has_begun_to_fail() {
                tracing::warn!(server = %connection.agreed.server, "keeps ending the stream of its changes");
            }
            let manner = Manner { clocks: LISTEN, ..Manner::default() };
            let listens = |state: &mut crate::connection::State, call| state.hub.listens(key, call);
            match connection.request_with(&Method::Listen, &params, manner, listens) {
                Ok(request) => break request,
                Err(Error::Busy(_)) => lived = Duration::ZERO,
                Err(_) => return connection.lock().hub.give_up(|follower| follower == key),
            }
        };
        opened = now();
    }
}
