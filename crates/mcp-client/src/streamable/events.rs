//! The events of an answer, one after the other.

use mcp_protocol::Limits;
use mcp_protocol::codec::sse::{Events, Item};

use crate::http::request::Body;

/// A stream of events.
pub(super) struct EventStream {
    body: Body,
    events: Events,
}

/// Why a stream is not read on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Whoever reads has what it wants.
    Enough,
    /// It ended, or its connection did.
    Cut(Option<String>),
    /// It cannot be read on: an event without end.
    Endless,
}

impl EventStream {
    pub(super) fn new(body: Body, limits: &Limits) -> Self {
        Self { body, events: Events::new(limits) }
    }

    /// Reads on until the reader has enough. Only messages are handed on; other kinds of events mean nothing.
    ///
    /// # Cancellation
    /// Safe: what was not handed on is still there.
    pub(super) async fn messages(&mut self, mut read: impl FnMut(SseMessage<'_>) -> bool) -> End {
        self.each(|item| match item {
            Item::Event(event) if event.kind != "message" => false,
            Item::Event(event) => read(SseMessage::Message(event.data)),
            Item::TooLong(error) => read(SseMessage::TooLong(error)),
            Item::Endless => false,
        })
        .await
    }

    /// The same with every event.
    pub(super) async fn each(&mut self, mut read: impl FnMut(Item<'_>) -> bool) -> End {
        loop {
            while let Some(item) = self.events.poll_event() {
                if item == Item::Endless {
                    return End::Endless;
                }
                if read(item) {
                    return End::Enough;
                }
            }
            match self.body.piece().await {
                Some(Ok(piece)) => self.events.push(&piece),
                Some(Err(error)) => return End::Cut(Some(error.to_string())),
                None => return End::Cut(None),
            }
        }
    }

    /// What was not read.
    pub(super) fn into_body(self) -> Body {
        self.body
    }

    /// Where to go on, if the server marks its events.
    pub(super) fn last_id(&self) -> Option<&str> {
        Some(self.events.last_event_id()).filter(|id| !id.is_empty())
    }

    /// How long the server wants to be left alone, in milliseconds.
    pub(super) fn retry(&self) -> Option<u64> {
        self.events.retry()
    }
}

/// What came.
pub(super) enum SseMessage<'a> {
    Message(&'a [u8]),
    TooLong(mcp_protocol::errors::DecodeError),
}
