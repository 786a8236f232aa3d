//! The notification stream of a modern server (`subscriptions/listen`), which is kept open while it has a subscriber.

use std::sync::Arc;

use mcp_protocol::messages::Method;

use super::reconnect::StreamEnd;
use super::transport::HttpTransport;
use crate::connection::subscribers::LISTEN_TIMEOUTS;
use crate::connection::transport::SubscriptionStream;
use crate::connection::{RequestOptions, State, now};
use crate::error::Error;

/// Reads a stream until the server ends it with a result. Reopens the stream if it breaks.
pub(super) async fn listen(transport: Arc<HttpTransport>, stream: SubscriptionStream) {
    let SubscriptionStream { connection, mut request, key, params } = stream;
    let _demand = transport.reconnects.demand();
    let mut permit = transport.reconnects.permit_now();
    loop {
        let opened = now();
        let retry_after = match permit.read(request).await {
            // Settling the request has already notified the subscriber.
            Ok(_) => return,
            Err(Error::Lost { .. } | Error::TimedOut { .. }) => None,
            Err(Error::Status { answer, .. }) if answer.status >= 500 || answer.status == 429 => {
                answer.retry_after
            }
            Err(error) => {
                tracing::debug!(%error, "the subscription is not reopened");
                return connection.lock().subscribers.give_up(|subscriber| subscriber == key);
            }
        };
        connection.missed(Some(key));
        let lived = now().saturating_duration_since(opened);
        let mut ended = StreamEnd { lived, retry_after, ..StreamEnd::default() };
        (permit, request) = loop {
            let permit = transport.reconnects.permit(&connection.terms.server, ended).await;
            let options = RequestOptions { timeouts: LISTEN_TIMEOUTS, ..RequestOptions::default() };
            let set_listen = |state: &mut State, call| state.subscribers.set_listen(key, call);
            match connection.request_with(&Method::Listen, &params, options, set_listen) {
                Ok(request) => break (permit, request),
                Err(Error::Busy(_)) => ended = StreamEnd::default(),
                Err(_) => return connection.lock().subscribers.give_up(|subscriber| subscriber == key),
            }
        };
    }
}
