//! The driver of a connection over HTTP. It handles deadlines, posts responses to the server, and reads the
//! notification stream.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use mcp_protocol::peer::CallHandle;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use super::events::{EventStream, SseMessage, is_events};
use super::session::Session;
use super::target::{BodyRead, read_body};
use super::transport::HttpTransport;
use super::{http_sse, server_stream};
use crate::connection::alarm::{Alarm, until};
use crate::connection::shutdown::Shutdown;
use crate::connection::{Connection, now};
use crate::error::{ConnectionEnd, EndCause};

/// The maximum number of messages that are posted at the same time.
const MAX_CONCURRENT_POSTS: usize = 8;
/// The timeout of one posted message.
const POST_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum time for sending queued messages before the connection closes.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);
/// The timeout of the request that deletes the session.
const DELETE_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum time for the end of a refresh in flight.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(4);

/// The driver of one connection.
pub(crate) struct Driver {
    pub(crate) connection: Arc<Connection>,
    pub(crate) transport: Arc<HttpTransport>,
    pub(crate) report: watch::Sender<Option<Shutdown>>,
    /// Notified when the server has responded to the first request for a notification stream.
    pub(crate) probed: oneshot::Sender<()>,
}

/// Ends the connection when dropped, unless it has ended already.
struct EndOnDrop(Arc<Connection>, Arc<HttpTransport>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end_unfinished();
        self.1.renewals.abort();
        self.1.inbound().abort_handlers();
    }
}

impl Driver {
    /// Runs until the connection is closed, then ends the session.
    pub(crate) async fn run(self) {
        let Self { connection, transport, report, probed } = self;
        let end = EndOnDrop(Arc::clone(&connection), Arc::clone(&transport));
        let mut streams = JoinSet::new();
        if transport.endpoint.is_modern || transport.endpoint.is_http_sse {
            drop(probed);
        } else {
            streams.spawn(server_stream::run(Arc::clone(&transport), Arc::clone(&connection), probed));
        }
        if transport.endpoint.is_http_sse {
            streams.spawn(http_sse::run(Arc::clone(&transport), Arc::clone(&connection)));
        }
        serve(&connection, &transport).await;
        streams.shutdown().await;
        // An HTTP+SSE session ends with its event stream. A renewal in progress need not finish, because no session has
        // to be deleted.
        let timeout = if transport.endpoint.is_http_sse { Duration::ZERO } else { DELETE_TIMEOUT };
        let http = &transport.endpoint.target.http;
        let end_session = async {
            transport.renewals.end(timeout).await;
            drop(end);
            let session = transport.sessions.current();
            if session.id.is_some() {
                // If the server refuses the request, it keeps the session until its own idle timeout.
                let delete_session = http.send(|| transport.endpoint.delete_session(&session));
                let _ = tokio::time::timeout(DELETE_TIMEOUT, delete_session).await;
            }
        };
        tokio::join!(end_session, http.authorizer_idle(TOKEN_TIMEOUT));
        http.close().await;
        let _ = report.send(Some(Shutdown::default()));
    }
}

async fn serve(connection: &Arc<Connection>, transport: &Arc<HttpTransport>) {
    let mut alarm = Alarm::new();
    let mut queue: VecDeque<Post> = VecDeque::new();
    let mut posts: JoinSet<usize> = JoinSet::new();
    let mut closes: Option<tokio::time::Instant> = None;
    loop {
        let is_flooded;
        {
            let mut state = connection.lock();
            state.clear_changed();
            let session = transport.sessions.current();
            let mut dropped = 0;
            state.queue_transmits(connection.dialect());
            state.take_messages(|call, message| {
                if transport.endpoint.is_modern {
                    // A modern server receives only requests, and each request is a separate exchange.
                    dropped += message.len();
                } else {
                    let message = Bytes::copy_from_slice(message);
                    queue.push_back(Post { session: session.clone(), call, message });
                }
            });
            if dropped > 0 {
                state.wrote(dropped);
            }
            if state.is_closing() && closes.is_none() {
                closes = Some(tokio::time::Instant::now() + FLUSH_TIMEOUT);
            }
            if state.is_over() {
                return;
            }
            is_flooded = state.is_flooded();
            alarm.set(state.peer.poll_timeout().map(|(instant, _)| instant));
            state.set_driver_due(alarm.at);
        }
        if is_flooded || transport.inbound().is_flood() {
            return connection.end(ConnectionEnd { cause: EndCause::Flood, ..ConnectionEnd::default() });
        }
        while posts.len() < MAX_CONCURRENT_POSTS
            && let Some(post) = queue.pop_front()
        {
            posts.spawn(post.send(Arc::clone(connection), Arc::clone(transport)));
        }
        let is_flushed = posts.is_empty() && queue.is_empty();
        if closes.is_some_and(|until| is_flushed || tokio::time::Instant::now() >= until) {
            return;
        }
        let is_asked = transport.inbound().has_running_handlers();
        // Every branch is cancel-safe.
        tokio::select! {
            biased;
            () = alarm.elapsed() => {
                let mut state = connection.lock();
                state.peer.handle_timeout(now());
                state.settle_failures();
            }
            () = poll_fn(|cx| transport.inbound().poll_respond_next(connection, cx)), if is_asked => {}
            Some(sent) = posts.join_next() => connection.lock().wrote(sent.unwrap_or(0)),
            () = poll_fn(|cx| if connection.lock().poll_changed(cx) { Poll::Ready(()) } else { Poll::Pending }) => {}
            () = until(closes), if closes.is_some() => {}
        }
    }
}

/// A message that no caller waits for: a response, a notification, or a request whose response does not matter.
struct Post {
    /// The session that the message belongs to.
    session: Session,
    /// The call, if the message is a request.
    call: Option<CallHandle>,
    message: Bytes,
}

impl Post {
    /// Sends the message. Returns the length of the message, even if sending failed.
    async fn send(self, connection: Arc<Connection>, transport: Arc<HttpTransport>) -> usize {
        let Self { session, call, message } = self;
        let sending = send(&connection, &transport, &session, &message);
        let is_sent = tokio::time::timeout(POST_TIMEOUT, sending).await.unwrap_or(false);
        // The response can still arrive only with the HTTP+SSE transport, on the event stream. Otherwise the call ends
        // here.
        if let Some(call) = call
            && !(is_sent && transport.endpoint.is_http_sse)
        {
            let mut state = connection.lock();
            state.peer.forget_call(call);
            state.subscribers.end_resubscription(call, !is_sent);
        }
        message.len()
    }
}

/// Posts a message. Returns true if the server accepted it.
async fn send(
    connection: &Connection,
    transport: &HttpTransport,
    session: &Session,
    message: &Bytes,
) -> bool {
    if transport.sessions.current().generation != session.generation
        || transport.endpoint.is_http_sse && session.sse_post_target.is_none()
    {
        tracing::debug!("dropped a message for a session that has ended");
        return false;
    }
    let mut answer =
        match transport.endpoint.target.http.send(|| transport.endpoint.message(&[], message, session)).await
        {
            Ok(answer) if answer.status.is_success() => answer,
            Ok(answer) => {
                tracing::debug!(status = answer.status.as_u16(), "the server refused a message");
                return false;
            }
            Err(error) => {
                tracing::debug!(%error, "sending a message failed");
                return false;
            }
        };
    if transport.endpoint.is_http_sse {
        transport.endpoint.target.http.drain(answer.body);
    } else if is_events(&answer) {
        let mut stream = EventStream::new(answer.body, transport.endpoint.limits());
        let handle = |message: SseMessage<'_>| {
            transport.receive(connection, message);
            false
        };
        stream.messages(handle).await;
    } else if answer.media_type().as_deref() == Some("application/json")
        && let Ok(BodyRead::Complete(body)) =
            read_body(&mut answer.body, transport.endpoint.limits().message).await
        && !body.is_empty()
    {
        transport.receive(connection, SseMessage::Message(&body));
    }
    true
}
