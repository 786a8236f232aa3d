//! The stream of changes of a modern server, for as long as somebody follows it.

use std::sync::Arc;

use mcp_protocol::messages::Method;
use mcp_protocol::subscriptions::ListenParams;

use super::reconnect::StreamEnd;
use crate::client::changes::LISTEN;
use crate::connection::{Connection, Request, RequestOptions, State, Transport, now};
use crate::error::Error;

/// Reads a stream until the server ends it in good order, and opens it again when it was cut.
pub(crate) async fn listen(
    connection: Arc<Connection>,
    mut request: Request,
    key: u64,
    params: ListenParams,
) {
    let Transport::Http(endpoint) = &connection.terms.transport else { return };
    let _wanting = endpoint.gate.want();
    let mut turn = endpoint.gate.first();
    loop {
        let opened = now();
        let retry_after = match turn.read(request).await {
            // The follower knows: whatever settles its request tells it.
            Ok(_) => return,
            Err(Error::Lost { .. } | Error::TimedOut { .. }) => None,
            Err(Error::Status { answer, .. }) if answer.status >= 500 || answer.status == 429 => {
                answer.retry_after
            }
            Err(error) => {
                tracing::debug!(%error, "the subscription is not reopened");
                return connection.lock().subscribers.give_up(|follower| follower == key);
            }
        };
        connection.missed(Some(key));
        let lived = now().saturating_duration_since(opened);
        let mut ended = StreamEnd { lived, retry_after, ..StreamEnd::default() };
        (turn, request) = loop {
            let turn = endpoint.gate.again(&connection.terms.server, ended).await;
            let options = RequestOptions { clocks: LISTEN, ..RequestOptions::default() };
            let listens = |state: &mut State, call| state.subscribers.listens(key, call);
            match connection.request_with(&Method::Listen, &params, options, listens) {
                Ok(request) => break (turn, request),
                Err(Error::Busy(_)) => ended = StreamEnd::default(),
                Err(_) => return connection.lock().subscribers.give_up(|follower| follower == key),
            }
        };
    }
}
