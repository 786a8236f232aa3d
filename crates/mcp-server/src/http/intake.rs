//! The bodies of requests: read within a time, a length, and a budget that all clients share.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use bytes::{Buf, Bytes};
use http::StatusCode;
use http_body::Body;
use http_body_util::BodyExt;
use mcp_protocol::messages::Request;

use super::{Answer, Shared, bare, overloaded};
use crate::budget::{Share, TYPE_OVERHEAD};

/// Why a body is refused that does not fit beside the others.
pub(super) const NO_BODIES: &str = "too many request bodies at once; retry later";
/// The most bytes of a body that may use the part of the budget which larger ones leave.
pub(super) const SMALL_BODY: usize = 16 << 10;

impl Shared {
    /// Reads a body, and takes its bytes from the budget as they come.
    pub(super) async fn read_body<B>(&self, body: B) -> Result<(Bytes, Share), Box<Answer>>
    where
        B: Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let limit = u64::try_from(self.options.body).unwrap_or(u64::MAX);
        if body.size_hint().lower() > limit {
            return Err(Box::new(bare(StatusCode::PAYLOAD_TOO_LARGE)));
        }
        let mut reading = pin!(self.collect(body));
        // Most bodies are there already, and need no timer.
        match poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx))).await {
            Poll::Ready(read) => read,
            Poll::Pending => Box::pin(tokio::time::timeout(self.options.body_time, reading))
                .await
                .unwrap_or_else(|_| Err(Box::new(bare(StatusCode::REQUEST_TIMEOUT)))),
        }
    }

    async fn collect<B>(&self, body: B) -> Result<(Bytes, Share), Box<Answer>>
    where
        B: Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let mut body = pin!(body);
        let mut whole = Whole::Nothing;
        let mut memory = self.bodies.overdraw(0);
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return Err(Box::new(bare(StatusCode::BAD_REQUEST))) };
            let Ok(mut data) = frame.into_data() else { continue };
            let data = data.copy_to_bytes(data.remaining());
            let length = whole.len() + data.len();
            if length > self.options.body {
                return Err(Box::new(bare(StatusCode::PAYLOAD_TOO_LARGE)));
            }
            let before = whole.held();
            let rest = body.size_hint().upper().and_then(|rest| usize::try_from(rest).ok());
            whole.push(data, rest);
            if !self.charge(&mut memory, before, whole.held()) {
                return Err(Box::new(overloaded(NO_BODIES, None)));
            }
        }
        Ok((whole.into_bytes(), memory))
    }

    /// Takes memory for a body that has grown. Once it is large, it leaves a part of the budget to small ones.
    fn charge(&self, memory: &mut Share, before: usize, held: usize) -> bool {
        if before <= SMALL_BODY && held > SMALL_BODY {
            let Some(large) = self.large_bodies.take(held) else { return false };
            *memory = large;
            return true;
        }
        memory.resize(held)
    }
}

/// What a call keeps of its request while it waits, besides the body: `_meta` and answers as types, and the arguments
/// that sealed state is bound to.
pub(super) fn kept_of(request: &Request<'_>) -> usize {
    let length = |name| request.params.member(name).ok().flatten().map_or(0, str::len);
    TYPE_OVERHEAD * (length("_meta") + length("inputResponses")) + length("arguments")
}

/// A body as far as it has come. Most come in one piece, which is not copied.
enum Whole {
    Nothing,
    Piece(Bytes),
    Pieces(Vec<u8>),
}

impl Whole {
    fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Piece(piece) => piece.len(),
            Self::Pieces(bytes) => bytes.len(),
        }
    }

    /// Bytes of memory that it holds.
    fn held(&self) -> usize {
        match self {
            Self::Pieces(bytes) => bytes.capacity(),
            _ => self.len(),
        }
    }

    /// Adds what came. It doubles its room as it grows, but has no more than `rest` says will be needed.
    fn push(&mut self, data: Bytes, rest: Option<usize>) {
        let (mut bytes, first) = match std::mem::replace(self, Self::Nothing) {
            Self::Nothing => {
                *self = Self::Piece(data);
                return;
            }
            Self::Piece(first) => (Vec::new(), first),
            Self::Pieces(bytes) => (bytes, Bytes::new()),
        };
        let length = bytes.len() + first.len() + data.len();
        if length > bytes.capacity() {
            let most = rest.map_or(usize::MAX, |rest| length.saturating_add(rest));
            let room = bytes.capacity().saturating_mul(2).clamp(length, most);
            bytes.reserve_exact(room - bytes.len());
        }
        bytes.extend_from_slice(&first);
        bytes.extend_from_slice(&data);
        *self = Self::Pieces(bytes);
    }

    fn into_bytes(self) -> Bytes {
        match self {
            Self::Nothing => Bytes::new(),
            Self::Piece(piece) => piece,
            Self::Pieces(bytes) => bytes.into(),
        }
    }
}
