//! The HTTP+SSE transport (MCP 2024-11-05, basic/transports): one SSE stream from the server, and an endpoint to which
//! the client sends messages with POST.
//!
//! A session is converted into a pair of byte streams with one message per line, which the driver of stdio serves. The
//! session ends when its SSE stream ends.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, StatusCode};
use http_body::Body;
use mcp_protocol::codec::sse::KEEP_ALIVE;
use mcp_protocol::messages::{Incoming, Message, parse_bytes};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep};

use super::headers::RequestHeaders;
use super::response::{HttpResponse, empty_response, overload_response, refusal_response, stream_response};
use super::response_body::EventProducer;
use super::{HttpBody, ServiceState};
use crate::budget::{Budget, Share};
use crate::call::identity::{Identity, Principal};
use crate::connection::outlet::EVENT_START;
use crate::link::chunks::{Chunk, ChunkReader};
use crate::link::driver;
use crate::link::pipe::{PipeReader, pipe};
use crate::random;

/// The path of the SSE stream.
pub(super) const SSE_PATH: &str = "/sse";
/// The path for POST messages.
pub(super) const MESSAGES_PATH: &str = "/messages";

/// The capacity of the pipe from the driver, in bytes.
const PIPE_BYTES: usize = 64 << 10;
/// The maximum number of messages queued for the driver.
const MAX_QUEUED_MESSAGES: usize = 4;

/// The open sessions by id.
#[derive(Default)]
pub(super) struct HttpSseSessions(Mutex<HashMap<String, MessageQueue>>);

/// The message queue of one session.
#[derive(Clone)]
struct MessageQueue {
    /// The messages from the client. Each chunk is one complete line.
    messages: mpsc::Sender<io::Result<Chunk>>,
    /// The memory budget of the session.
    memory: Arc<Budget>,
    /// The principal that opened the session. Other principals cannot use it.
    principal: Principal,
}

impl HttpSseSessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, MessageQueue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes the session when its stream is dropped.
struct SessionGuard {
    service: Arc<ServiceState>,
    id: String,
    _slot: Share,
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        self.service.http_sse.lock().remove(&self.id);
    }
}

impl ServiceState {
    /// Handles a request to one of the two paths.
    pub(super) async fn http_sse<B>(self: &Arc<Self>, mut parts: Parts, body: B) -> HttpResponse
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let headers = RequestHeaders::of(&parts.headers);
        if let Err(status) = self.options.access.check(&parts.uri, &parts.headers, &headers) {
            return empty_response(status);
        }
        let mut identity = Identity::take(&mut parts.extensions, &self.scope_rules);
        if let Some(protection) = &self.protection {
            identity.principal = match protection.admit(&parts.headers).await {
                Ok(principal) => principal,
                Err(response) => return *response,
            };
        }
        match (parts.uri.path(), parts.method) {
            (SSE_PATH, Method::GET) => self.open_sse(identity.principal),
            (MESSAGES_PATH, Method::POST) => {
                let mut query = parts.uri.query().unwrap_or("").split('&');
                let Some(id) = query.find_map(|pair| pair.strip_prefix("sessionId=")) else {
                    return empty_response(StatusCode::BAD_REQUEST);
                };
                let queue = self.http_sse.lock().get(id).cloned();
                let queue = queue.filter(|queue| queue.principal.is_same(&identity.principal));
                let Some(queue) = queue else { return empty_response(StatusCode::NOT_FOUND) };
                if !headers.is_json() {
                    return empty_response(StatusCode::UNSUPPORTED_MEDIA_TYPE);
                }
                if !headers.accepts_response(&parts.headers) {
                    return empty_response(StatusCode::NOT_ACCEPTABLE);
                }
                match self.read_body(body).await {
                    Ok((bytes, memory)) => self.queue_message(&queue, &identity, &bytes, memory).await,
                    Err(answer) => *answer,
                }
            }
            _ => empty_response(StatusCode::METHOD_NOT_ALLOWED),
        }
    }

    fn open_sse(self: &Arc<Self>, principal: Principal) -> HttpResponse {
        let Some(slot) = self.streams.take(1) else {
            return overload_response("too many open streams; retry later", None);
        };
        let memory = Budget::within(&self.memory, self.options.session_memory);
        let (messages, reader) = mpsc::channel(MAX_QUEUED_MESSAGES);
        let mut reader = ChunkReader::new(reader);
        let (mut writer, output) = pipe(PIPE_BYTES);
        let guard = SessionGuard { service: Arc::clone(self), id: random::id(), _slot: slot };
        let endpoint = format!("event: endpoint\ndata: {MESSAGES_PATH}?sessionId={}\n\n", guard.id);
        self.http_sse.lock().insert(
            guard.id.clone(),
            MessageQueue { messages, memory: Arc::clone(&memory), principal: principal.clone() },
        );
        let expiring = principal.clone();
        let producer: EventProducer = Box::pin(async move {
            let mut driving =
                driver::drive(&guard.service.core, &mut reader, &mut writer, Some(memory), principal);
            tokio::select! {
                // The driver reports errors to the client itself.
                _ = &mut driving => {}
                () = expiring.expired() => {}
                () = guard.service.closed() => {
                    // Refuses further messages; calls in flight get their grace period.
                    guard.service.http_sse.lock().remove(&guard.id);
                    let _ = driving.await;
                }
            }
        });
        stream_response(HttpBody::lines(SseLines::new(
            endpoint.into(),
            output,
            producer,
            self.options.keep_alive,
        )))
    }

    /// Queues a message for the driver as one line. Line breaks are replaced by spaces; in JSON they can occur only
    /// between tokens, so the message stays the same. An invalid message is refused before it is queued.
    async fn queue_message(
        &self,
        queue: &MessageQueue,
        identity: &Identity,
        message: &[u8],
        memory: Share,
    ) -> HttpResponse {
        let incoming = parse_bytes(message, &self.limits);
        if let Ok(incoming) = &incoming
            && let Some(needed) = self.core.lacking_scopes(incoming, identity)
        {
            return self.insufficient_scope(&needed);
        }
        match incoming {
            Err(error) => {
                return refusal_response(self.negotiation.classify_unreadable(&error), error.id.as_ref());
            }
            // Responses and cancellations free memory, so they are always accepted.
            Ok(Incoming::Message(Message::Response(_) | Message::Notification(_))) => {}
            Ok(_) if queue.memory.is_spent() => {
                let why = "memory limit of this session reached; read the pending events or retry later";
                return overload_response(why, None);
            }
            Ok(_) => {}
        }
        let blank = |byte: &u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte };
        let bytes: Vec<u8> = message.iter().map(blank).chain([b'\n']).collect();
        let line = Chunk { bytes, _memory: Some(memory) };
        match tokio::time::timeout(self.options.body_time, queue.messages.send(Ok(line))).await {
            Ok(Ok(())) => empty_response(StatusCode::ACCEPTED),
            Ok(Err(_)) => empty_response(StatusCode::NOT_FOUND),
            // The queue stays full because the client does not read.
            Err(_) => empty_response(StatusCode::SERVICE_UNAVAILABLE),
        }
    }
}

/// Converts the lines that the driver writes into SSE events. A long line is passed on in parts, before it is complete.
pub(super) struct SseLines {
    /// The `endpoint` event, sent first.
    endpoint: Option<Bytes>,
    output: PipeReader,
    /// The driver, dropped with the stream.
    producer: Option<EventProducer>,
    /// True while an event was sent only in part.
    is_inside: bool,
    keep_alive_timer: Pin<Box<Sleep>>,
    keep_alive: Duration,
}

impl SseLines {
    fn new(endpoint: Bytes, output: PipeReader, producer: EventProducer, keep_alive: Duration) -> Self {
        let keep_alive_timer = Box::pin(tokio::time::sleep(keep_alive));
        Self {
            endpoint: Some(endpoint),
            output,
            producer: Some(producer),
            is_inside: false,
            keep_alive_timer,
            keep_alive,
        }
    }

    pub(super) fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(endpoint) = self.endpoint.take() {
            return Poll::Ready(Some(endpoint));
        }
        if let Some(producer) = &mut self.producer
            && producer.as_mut().poll(cx).is_ready()
        {
            self.producer = None;
        }
        let mut space = [0; 8 << 10];
        let mut read = ReadBuf::new(&mut space);
        if let Poll::Ready(done) = Pin::new(&mut self.output).poll_read(cx, &mut read) {
            self.keep_alive_timer.as_mut().reset(Instant::now() + self.keep_alive);
            let is_end = done.is_err() || read.filled().is_empty();
            return Poll::Ready((!is_end).then(|| self.events(read.filled())));
        }
        // A keep-alive comment must not split an event.
        if self.is_inside {
            return Poll::Pending;
        }
        ready!(self.keep_alive_timer.as_mut().poll(cx));
        self.keep_alive_timer.as_mut().reset(Instant::now() + self.keep_alive);
        Poll::Ready(Some(Bytes::from_static(KEEP_ALIVE)))
    }

    fn events(&mut self, read: &[u8]) -> Bytes {
        let mut events = Vec::with_capacity(read.len() + 64);
        for chunk in read.split_inclusive(|byte| *byte == b'\n') {
            if !self.is_inside {
                events.extend_from_slice(EVENT_START);
            }
            events.extend_from_slice(chunk);
            self.is_inside = !chunk.ends_with(b"\n");
            if !self.is_inside {
                events.push(b'\n');
            }
        }
        events.into()
    }
}
