//! The transport of 2024-11-05: one stream of events, and an address to post messages to.
//!
//! Such a pair is a pair of byte streams that carry lines, so that the driver of lines serves it. It lives and dies
//! with its stream.

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
use mcp_protocol::messages::{Incoming, Message, parse_bytes};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep};

use super::body::Work;
use super::headers::Headers;
use super::{Answer, HttpBody, Shared, accepts, bare, is_json, overloaded, refused, stream_headers};
use crate::budget::{Budget, Share};
use crate::driver;
use crate::pieces::{Piece, Pieces};
use crate::pipe::{PipeReader, pipe};
use crate::random;

/// Where the stream is.
pub(super) const EVENTS: &str = "/sse";
/// Where messages are posted to.
pub(super) const MESSAGES: &str = "/messages";

/// What may be on its way from the driver of a pair.
const BUFFER: usize = 64 << 10;
/// How many messages may be on their way to it.
const POSTED: usize = 4;

/// The pairs that are open, by the name of each.
#[derive(Default)]
pub(super) struct Pairs(Mutex<HashMap<String, Input>>);

/// Where the messages of one pair go.
#[derive(Clone)]
struct Input {
    /// Each message whole or not at all.
    messages: mpsc::Sender<io::Result<Piece>>,
    /// What the pair may hold.
    memory: Arc<Budget>,
}

impl Pairs {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Input>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pair that is open for as long as its stream is.
struct Open {
    shared: Arc<Shared>,
    id: String,
    _slot: Share,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.shared.pairs.lock().remove(&self.id);
    }
}

impl Shared {
    /// One of the two addresses of the pair.
    pub(super) async fn pair<B>(self: &Arc<Self>, parts: Parts, body: B) -> Answer
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let headers = Headers::of(&parts.headers);
        if let Err(status) = self.options.access.check(&parts.uri, &parts.headers, &headers) {
            return bare(status);
        }
        match (parts.uri.path(), parts.method) {
            (EVENTS, Method::GET) => self.open_pair(),
            (MESSAGES, Method::POST) => {
                let mut query = parts.uri.query().unwrap_or("").split('&');
                let Some(id) = query.find_map(|pair| pair.strip_prefix("sessionId=")) else {
                    return bare(StatusCode::BAD_REQUEST);
                };
                let input = self.pairs.lock().get(id).cloned();
                let Some(input) = input else { return bare(StatusCode::NOT_FOUND) };
                if !is_json(&headers) {
                    return bare(StatusCode::UNSUPPORTED_MEDIA_TYPE);
                }
                if !accepts(&parts.headers, &headers) {
                    return bare(StatusCode::NOT_ACCEPTABLE);
                }
                match self.read_body(body).await {
                    Ok((bytes, memory)) => self.hand_over(&input, &bytes, memory).await,
                    Err(answer) => *answer,
                }
            }
            _ => bare(StatusCode::METHOD_NOT_ALLOWED),
        }
    }

    fn open_pair(self: &Arc<Self>) -> Answer {
        let Some(slot) = self.streams.take(1) else {
            return overloaded("too many open streams; retry later", None);
        };
        let memory = Budget::within(&self.memory, self.options.session_memory);
        let (messages, reader) = mpsc::channel(POSTED);
        let mut reader = Pieces::new(reader);
        let (mut writer, output) = pipe(BUFFER);
        let open = Open { shared: Arc::clone(self), id: random::name(), _slot: slot };
        let hello = format!("event: endpoint\ndata: {MESSAGES}?sessionId={}\n\n", open.id);
        self.pairs.lock().insert(open.id.clone(), Input { messages, memory: Arc::clone(&memory) });
        let work: Work = Box::pin(async move {
            let mut driving = driver::drive(&open.shared.core, &mut reader, &mut writer, Some(memory));
            tokio::select! {
                // Its faults are told to the client, as far as it listens.
                _ = &mut driving => {}
                () = open.shared.closed() => {
                    // Nothing more is taken in, and what runs gets its grace.
                    open.shared.pairs.lock().remove(&open.id);
                    let _ = driving.await;
                }
            }
        });
        stream_headers(HttpBody::lines(Lines::new(hello.into(), output, work, self.options.keep_alive)))
    }

    /// Gives a message to the driver: as one line, for line breaks mean nothing between the parts of a message. In what
    /// is none they might, so that it is refused here.
    async fn hand_over(&self, input: &Input, message: &[u8], memory: Share) -> Answer {
        match parse_bytes(message, &self.limits) {
            Err(error) => return refused(self.negotiation.classify_unreadable(&error), error.id.as_ref()),
            // Answers and cancellations free memory.
            Ok(Incoming::Message(Message::Response(_) | Message::Notification(_))) => {}
            Ok(_) if input.memory.is_spent() => {
                let why = "memory limit of this session reached; read the pending events or retry later";
                return overloaded(why, None);
            }
            Ok(_) => {}
        }
        let blank = |byte: &u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte };
        let bytes: Vec<u8> = message.iter().map(blank).chain([b'\n']).collect();
        let line = Piece { bytes, _memory: Some(memory) };
        match tokio::time::timeout(self.options.body_time, input.messages.send(Ok(line))).await {
            Ok(Ok(())) => bare(StatusCode::ACCEPTED),
            Ok(Err(_)) => bare(StatusCode::NOT_FOUND),
            // The client does not read what it is told.
            Err(_) => bare(StatusCode::SERVICE_UNAVAILABLE),
        }
    }
}

/// What a driver writes, each line as an event. No line is held as a whole.
pub(super) struct Lines {
    hello: Option<Bytes>,
    output: PipeReader,
    /// Lives and dies with the stream.
    work: Option<Work>,
    is_inside: bool,
    silence: Pin<Box<Sleep>>,
    keep_alive: Duration,
}

impl Lines {
    fn new(hello: Bytes, output: PipeReader, work: Work, keep_alive: Duration) -> Self {
        let silence = Box::pin(tokio::time::sleep(keep_alive));
        Self { hello: Some(hello), output, work: Some(work), is_inside: false, silence, keep_alive }
    }

    pub(super) fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(hello) = self.hello.take() {
            return Poll::Ready(Some(hello));
        }
        if let Some(work) = &mut self.work
            && work.as_mut().poll(cx).is_ready()
        {
            self.work = None;
        }
        let mut space = [0; 8 << 10];
        let mut read = ReadBuf::new(&mut space);
        if let Poll::Ready(done) = Pin::new(&mut self.output).poll_read(cx, &mut read) {
            self.silence.as_mut().reset(Instant::now() + self.keep_alive);
            let is_end = done.is_err() || read.filled().is_empty();
            return Poll::Ready((!is_end).then(|| self.events(read.filled())));
        }
        // Between events only.
        if self.is_inside {
            return Poll::Pending;
        }
        ready!(self.silence.as_mut().poll(cx));
        self.silence.as_mut().reset(Instant::now() + self.keep_alive);
        Poll::Ready(Some(Bytes::from_static(b":\n\n")))
    }

    fn events(&mut self, read: &[u8]) -> Bytes {
        let mut events = Vec::with_capacity(read.len() + 64);
        for piece in read.split_inclusive(|byte| *byte == b'\n') {
            if !self.is_inside {
                events.extend_from_slice(b"event: message\ndata: ");
            }
            events.extend_from_slice(piece);
            self.is_inside = !piece.ends_with(b"\n");
            if !self.is_inside {
                events.push(b'\n');
            }
        }
        events.into()
    }
}
