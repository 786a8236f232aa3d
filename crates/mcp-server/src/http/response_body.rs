//! Response bodies: empty, one buffer, or an SSE stream.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use mcp_protocol::codec::sse::KEEP_ALIVE;
use tokio::time::{Instant, Sleep};

use super::trace::TracedResponse;
use crate::connection::outlet::Outlet;

/// A future that produces the events of a stream. It is polled while the stream is read.
pub(crate) type EventProducer = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The body of a response of [`HttpService`](super::HttpService): a JSON message, an SSE stream, or empty.
pub struct HttpBody(BodyKind);

enum BodyKind {
    Whole(Option<Bytes>),
    Stream(Box<SseStream>),
    #[cfg(feature = "serve")]
    Lines(Box<super::http_sse::SseLines>),
    Traced(Box<TracedResponse>),
}

struct SseStream {
    outlet: Arc<Outlet>,
    /// The number of this reader of the outlet.
    reader: u64,
    /// The future that produces the events. The stream ends when the future completes; dropping the stream drops it.
    producer: Option<EventProducer>,
    keep_alive_timer: Pin<Box<Sleep>>,
    keep_alive: Duration,
}

impl HttpBody {
    pub(crate) fn empty() -> Self {
        Self(BodyKind::Whole(None))
    }

    pub(crate) fn full(bytes: impl Into<Bytes>) -> Self {
        Self(BodyKind::Whole(Some(bytes.into())))
    }

    /// Creates a body from the lines of a driver.
    #[cfg(feature = "serve")]
    pub(super) fn lines(lines: super::http_sse::SseLines) -> Self {
        Self(BodyKind::Lines(Box::new(lines)))
    }

    /// Creates a body that is written to the wire trace.
    pub(super) fn traced(body: TracedResponse) -> Self {
        Self(BodyKind::Traced(Box::new(body)))
    }

    /// Returns the next bytes, or `None` at the end.
    pub(super) fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match &mut self.0 {
            BodyKind::Whole(bytes) => Poll::Ready(bytes.take()),
            BodyKind::Stream(stream) => stream.poll_bytes(cx),
            #[cfg(feature = "serve")]
            BodyKind::Lines(lines) => lines.poll_bytes(cx),
            BodyKind::Traced(traced) => traced.poll_bytes(cx),
        }
    }

    /// Creates an SSE stream of the events of an outlet, which `producer` adds. If `after` is given, the stream starts
    /// with the kept events after the one with this number.
    pub(crate) fn stream(
        outlet: Arc<Outlet>,
        after: Option<u64>,
        producer: EventProducer,
        keep_alive: Duration,
    ) -> Self {
        let keep_alive_timer = Box::pin(tokio::time::sleep(keep_alive));
        let reader = outlet.attach(after);
        Self(BodyKind::Stream(Box::new(SseStream {
            outlet,
            reader,
            producer: Some(producer),
            keep_alive_timer,
            keep_alive,
        })))
    }
}

impl Body for HttpBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.poll_bytes(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            BodyKind::Whole(bytes) => bytes.is_none(),
            BodyKind::Stream(stream) => stream.outlet.is_over(stream.reader),
            #[cfg(feature = "serve")]
            BodyKind::Lines(_) => false,
            BodyKind::Traced(traced) => traced.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            BodyKind::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            BodyKind::Traced(traced) => traced.body.size_hint(),
            _ => SizeHint::default(),
        }
    }
}

impl Drop for SseStream {
    fn drop(&mut self) {
        self.outlet.detach(self.reader);
    }
}

impl SseStream {
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(producer) = &mut self.producer
            && producer.as_mut().poll(cx).is_ready()
        {
            self.producer = None;
            self.outlet.close();
        }
        if let Poll::Ready(bytes) = self.outlet.poll_events(self.reader, cx) {
            self.keep_alive_timer.as_mut().reset(Instant::now() + self.keep_alive);
            return Poll::Ready(bytes.map(Bytes::from_owner));
        }
        ready!(self.keep_alive_timer.as_mut().poll(cx));
        self.keep_alive_timer.as_mut().reset(Instant::now() + self.keep_alive);
        Poll::Ready(Some(Bytes::from_static(KEEP_ALIVE)))
    }
}

impl fmt::Debug for HttpBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            BodyKind::Whole(bytes) => f.debug_tuple("Whole").field(&bytes.as_ref().map(Bytes::len)).finish(),
            _ => f.write_str("Stream"),
        }
    }
}
