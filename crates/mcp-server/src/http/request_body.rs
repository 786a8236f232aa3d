//! Request bodies: read with a timeout, a size limit, and a memory budget shared by all clients.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::{Buf, Bytes};
use http::StatusCode;
use http_body::Body;
use http_body_util::BodyExt;
use mcp_protocol::messages::Request;

use super::ServiceState;
use super::buffer_pool::BufferPool;
use super::response::{HttpResponse, empty_response, overload_response};
use crate::budget::{PARSED_SIZE_FACTOR, Share};

/// The error message for a body that exceeds the shared budget.
pub(super) const TOO_MANY_BODIES: &str = "too many request bodies at once; retry later";
/// The maximum size of a body that may use the reserved part of the budget, in bytes.
pub(super) const SMALL_BODY_BYTES: usize = 16 << 10;

impl ServiceState {
    /// Reads a body and charges its bytes to the budget as they arrive. The `Err` variant is the HTTP response.
    pub(super) async fn read_body<B>(&self, body: B) -> Result<(Bytes, Share), Box<HttpResponse>>
    where
        B: Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let limit = u64::try_from(self.options.body).unwrap_or(u64::MAX);
        if body.size_hint().lower() > limit {
            return Err(Box::new(empty_response(StatusCode::PAYLOAD_TOO_LARGE)));
        }
        let mut reading = pin!(self.collect(body));
        // Most bodies have already arrived completely; only the others need a timer.
        match poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx))).await {
            Poll::Ready(read) => read,
            Poll::Pending => Box::pin(tokio::time::timeout(self.options.body_time, reading))
                .await
                .unwrap_or_else(|_| Err(Box::new(empty_response(StatusCode::REQUEST_TIMEOUT)))),
        }
    }

    async fn collect<B>(&self, body: B) -> Result<(Bytes, Share), Box<HttpResponse>>
    where
        B: Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let mut body = pin!(body);
        let mut buffer = BodyBuffer::Empty;
        let mut memory = self.bodies.overdraw(0);
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return Err(Box::new(empty_response(StatusCode::BAD_REQUEST))) };
            let Ok(mut data) = frame.into_data() else { continue };
            let data = data.copy_to_bytes(data.remaining());
            let length = buffer.len() + data.len();
            if length > self.options.body {
                return Err(Box::new(empty_response(StatusCode::PAYLOAD_TOO_LARGE)));
            }
            let before = buffer.held();
            let rest = body.size_hint().upper().and_then(|rest| usize::try_from(rest).ok());
            buffer.push(data, rest, &self.buffers);
            if !self.charge(&mut memory, before, buffer.held()) {
                return Err(Box::new(overload_response(TOO_MANY_BODIES, None)));
            }
        }
        Ok((buffer.into_bytes(&self.buffers), memory))
    }

    /// Charges the growth of a body; returns false if not enough is left. A large body cannot use the part of the
    /// budget that is reserved for small bodies.
    fn charge(&self, memory: &mut Share, before: usize, held: usize) -> bool {
        if before <= SMALL_BODY_BYTES && held > SMALL_BODY_BYTES {
            let Some(large) = self.large_bodies.take(held) else { return false };
            *memory = large;
            return true;
        }
        memory.resize(held)
    }
}

/// Returns the memory of those parts of a request that a call in flight keeps in addition to the body: the parsed
/// `_meta` and `inputResponses`, and a copy of the arguments, to which the sealed state is bound.
pub(super) fn retained_bytes(request: &Request<'_>) -> usize {
    let length = |name| request.params.member(name).ok().flatten().map_or(0, str::len);
    PARSED_SIZE_FACTOR * (length("_meta") + length("inputResponses")) + length("arguments")
}

/// A partially received body. Most bodies arrive in one frame, which is not copied.
enum BodyBuffer {
    Empty,
    OneFrame(Bytes),
    Copied(Vec<u8>),
}

impl BodyBuffer {
    fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::OneFrame(frame) => frame.len(),
            Self::Copied(bytes) => bytes.len(),
        }
    }

    /// Returns the allocated bytes.
    fn held(&self) -> usize {
        match self {
            Self::Copied(bytes) => bytes.capacity(),
            _ => self.len(),
        }
    }

    /// Appends a frame. The capacity doubles as needed, but does not exceed the current length plus `rest`, the maximum
    /// number of bytes that can still arrive.
    fn push(&mut self, data: Bytes, rest: Option<usize>, pool: &BufferPool) {
        let (mut bytes, first) = match std::mem::replace(self, Self::Empty) {
            Self::Empty => {
                *self = Self::OneFrame(data);
                return;
            }
            Self::OneFrame(first) => (Vec::new(), first),
            Self::Copied(bytes) => (bytes, Bytes::new()),
        };
        let length = bytes.len() + first.len() + data.len();
        if length > bytes.capacity() {
            let max = rest.map_or(usize::MAX, |rest| length.saturating_add(rest));
            let capacity = bytes.capacity().saturating_mul(2).clamp(length, max);
            if bytes.is_empty() {
                bytes = pool.take(capacity);
            } else {
                bytes.reserve_exact(capacity - bytes.len());
            }
        }
        bytes.extend_from_slice(&first);
        bytes.extend_from_slice(&data);
        *self = Self::Copied(bytes);
    }

    fn into_bytes(self, pool: &Arc<BufferPool>) -> Bytes {
        match self {
            Self::Empty => Bytes::new(),
            Self::OneFrame(frame) => frame,
            Self::Copied(bytes) => pool.share(bytes),
        }
    }
}
