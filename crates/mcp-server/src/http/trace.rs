//! HTTP exchanges in the wire trace: the request, the head of the response, and each message of its body.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http::request::Parts;
use http_body::{Body, Frame, SizeHint};
use mcp_protocol::wire_trace::{WireDirection, WireMessages, shown_headers};

use super::response::HttpResponse;
use super::{HttpBody, ServiceState};
use crate::wire_trace::WireTrace;

/// Handles an exchange, and writes it to the trace.
pub(super) async fn traced<B>(
    service: Arc<ServiceState>,
    parts: Parts,
    body: B,
    trace: WireTrace,
) -> Result<HttpResponse, Infallible>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let exchange = ExchangeTrace { label: trace.next_exchange().into(), trace };
    let head = format!("{} {} {}", parts.method, parts.uri.path(), shown_values(&parts.headers));
    exchange.write(WireDirection::Received, &head);
    let mut pending = UnansweredExchange(Some(exchange.clone()));
    let body =
        TracedRequest { body: Box::pin(body), messages: WireMessages::whole(), exchange: exchange.clone() };
    let response = service.handle(parts, body).await?;
    pending.0 = None;
    let (parts, body) = response.into_parts();
    let head = format!("HTTP {} {}", parts.status, shown_values(&parts.headers));
    exchange.write(WireDirection::Sent, &head);
    let media_type = parts.headers.get(http::header::CONTENT_TYPE).map(http::HeaderValue::as_bytes);
    let is_stream = media_type.is_some_and(|value| value.starts_with(b"text/event-stream"));
    let messages = if is_stream { WireMessages::events() } else { WireMessages::whole() };
    Ok(HttpResponse::from_parts(parts, HttpBody::traced(TracedResponse { body, messages, exchange })))
}

fn shown_values(headers: &HeaderMap) -> String {
    shown_headers(headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())))
}

/// The trace of one exchange.
#[derive(Clone)]
struct ExchangeTrace {
    trace: WireTrace,
    label: Arc<str>,
}

impl ExchangeTrace {
    fn write(&self, direction: WireDirection, text: &str) {
        self.trace.write(direction, &self.label, text);
    }
}

/// An exchange that has no response yet. If it is dropped in this state, the client has disconnected.
struct UnansweredExchange(Option<ExchangeTrace>);

impl Drop for UnansweredExchange {
    fn drop(&mut self) {
        if let Some(exchange) = &self.0 {
            exchange.write(WireDirection::Received, "(closed before the response)");
        }
    }
}

/// The body of a request.
struct TracedRequest<B> {
    body: Pin<Box<B>>,
    messages: WireMessages,
    exchange: ExchangeTrace,
}

impl<B: Body> Body for TracedRequest<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Self { body, messages, exchange } = &mut *self;
        let frame = ready!(body.as_mut().poll_frame(cx));
        let show = |text: &str| exchange.write(WireDirection::Received, text);
        Poll::Ready(match frame {
            None => {
                messages.end(show);
                None
            }
            Some(frame) => {
                let frame =
                    frame.map(|frame| frame.map_data(|mut data| data.copy_to_bytes(data.remaining())));
                if let Some(data) = frame.as_ref().ok().and_then(Frame::data_ref) {
                    messages.push(data, show);
                }
                Some(frame)
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Writes the rest of the body to the trace. The end of a body is not always polled, because its length may be known.
impl<B> Drop for TracedRequest<B> {
    fn drop(&mut self) {
        self.messages.end(|text| self.exchange.write(WireDirection::Received, text));
    }
}

/// The body of a response.
pub(super) struct TracedResponse {
    pub(super) body: HttpBody,
    messages: WireMessages,
    exchange: ExchangeTrace,
}

impl TracedResponse {
    pub(super) fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Self { body, messages, exchange } = self;
        let bytes = ready!(body.poll_bytes(cx));
        if let Some(bytes) = &bytes {
            messages.push(bytes, |text| exchange.write(WireDirection::Sent, text));
        }
        Poll::Ready(bytes)
    }
}

impl Drop for TracedResponse {
    fn drop(&mut self) {
        let Self { body, messages, exchange } = self;
        messages.end(|text| exchange.write(WireDirection::Sent, text));
        if !body.is_end_stream() {
            exchange.write(WireDirection::Received, "(closed)");
        }
    }
}
