//! The event stream (`text/event-stream`) of a response.

use http::StatusCode;
use mcp_protocol::Limits;
use mcp_protocol::codec::sse::{Events, Item};

use crate::http::request::{RawResponse, ResponseBody};

/// An event stream that is being read.
pub(super) struct EventStream {
    body: ResponseBody,
    events: Events,
}

/// The reason why reading a stream ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadEnd {
    /// The reader needs no more events.
    Enough,
    /// The stream ended, or its connection failed with this problem.
    Cut(Option<String>),
    /// An event is so long that the rest of the stream cannot be read.
    TooLong,
}

impl EventStream {
    pub(super) fn new(body: ResponseBody, limits: &Limits) -> Self {
        Self { body, events: Events::new(limits) }
    }

    /// Calls `read` for each message until `read` returns true. Other event types are ignored.
    ///
    /// # Cancellation
    /// Cancel safe: no event is lost.
    pub(super) async fn messages(&mut self, mut read: impl FnMut(SseMessage<'_>) -> bool) -> ReadEnd {
        self.each(|item| match item {
            Item::Event(event) if event.kind != "message" => false,
            Item::Event(event) => read(SseMessage::Message(event.data)),
            Item::TooLong(error) => read(SseMessage::TooLong(error)),
            Item::Endless => false,
        })
        .await
    }

    /// Calls `read` for each event until `read` returns true.
    pub(super) async fn each(&mut self, mut read: impl FnMut(Item<'_>) -> bool) -> ReadEnd {
        loop {
            while let Some(item) = self.events.poll_event() {
                if item == Item::Endless {
                    return ReadEnd::TooLong;
                }
                if read(item) {
                    return ReadEnd::Enough;
                }
            }
            match self.body.chunk().await {
                Some(Ok(chunk)) => self.events.push(&chunk),
                Some(Err(error)) => return ReadEnd::Cut(Some(error.to_string())),
                None => return ReadEnd::Cut(None),
            }
        }
    }

    /// Returns the body, of which the rest can be read.
    pub(super) fn into_body(self) -> ResponseBody {
        self.body
    }

    /// Returns the id of the last event that had one.
    pub(super) fn last_id(&self) -> Option<&str> {
        Some(self.events.last_event_id()).filter(|id| !id.is_empty())
    }

    /// Returns the last `retry` value that the server sent, in milliseconds.
    pub(super) fn retry(&self) -> Option<u64> {
        self.events.retry()
    }
}

/// Returns true if the response is an event stream.
pub(super) fn is_events(answer: &RawResponse) -> bool {
    answer.status == StatusCode::OK
        && answer.encoding().is_none()
        && answer.media_type().as_deref() == Some("text/event-stream")
}

/// A message of the stream.
pub(super) enum SseMessage<'a> {
    Message(&'a [u8]),
    TooLong(mcp_protocol::errors::DecodeError),
}
