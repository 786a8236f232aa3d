//! HTTP exchanges in the wire trace: the request, the head of the response, and each message of its body.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame};
use mcp_protocol::wire_trace::{WireDirection, WireMessages, shown_headers};

use super::http_error::HttpError;
use super::request::{RawRequest, RawResponse, ResponseBody};
use crate::config::server_config::shown_url;
use crate::wire_trace::ConnectionTrace;

/// An exchange whose response has not arrived. If it is dropped in this state, the trace shows that it was closed.
pub(super) struct PendingExchange {
    trace: Option<ConnectionTrace>,
}

impl PendingExchange {
    /// Writes a request that is about to be sent.
    pub(super) fn begin(trace: &ConnectionTrace, request: &RawRequest) -> Self {
        let trace = trace.exchange();
        let RawRequest { method, uri, headers, body, .. } = request;
        trace.write(
            WireDirection::Sent,
            &format!("{method} {} {}", shown_url(&uri.to_string()), shown_values(headers)),
        );
        if !body.is_empty() {
            trace.write(WireDirection::Sent, &String::from_utf8_lossy(body));
        }
        Self { trace: Some(trace) }
    }

    /// Writes the head of the response, or the error. Returns the response with a body that is written while it is
    /// read.
    pub(super) fn end(mut self, answer: Result<RawResponse, HttpError>) -> Result<RawResponse, HttpError> {
        let Some(trace) = self.trace.take() else { return answer };
        let mut answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                trace.write(WireDirection::Received, &format!("(failed: {error})"));
                return Err(error);
            }
        };
        trace.write(
            WireDirection::Received,
            &format!("HTTP {} {}", answer.status, shown_values(&answer.headers)),
        );
        let is_stream = answer.media_type().as_deref() == Some("text/event-stream");
        let messages = if is_stream { WireMessages::events() } else { WireMessages::whole() };
        let body = std::mem::replace(&mut answer.body, ResponseBody::empty());
        answer.body = ResponseBody::Custom(Box::pin(TracedBody { body, messages, trace, is_ended: false }));
        Ok(answer)
    }
}

impl Drop for PendingExchange {
    fn drop(&mut self) {
        if let Some(trace) = &self.trace {
            trace.write(WireDirection::Sent, "(closed before the response)");
        }
    }
}

fn shown_values(headers: &HeaderMap) -> String {
    shown_headers(headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())))
}

/// The body of a response whose messages are written to the trace.
struct TracedBody {
    body: ResponseBody,
    messages: WireMessages,
    trace: ConnectionTrace,
    is_ended: bool,
}

impl Body for TracedBody {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Self { body, messages, trace, is_ended } = &mut *self;
        let chunk = ready!(body.poll_chunk(cx));
        match &chunk {
            Some(Ok(bytes)) => messages.push(bytes, |text| trace.write(WireDirection::Received, text)),
            Some(Err(error)) => {
                *is_ended = true;
                trace.write(WireDirection::Received, &format!("(cut: {error})"));
            }
            None => {
                *is_ended = true;
                messages.end(|text| trace.write(WireDirection::Received, text));
            }
        }
        Poll::Ready(chunk.map(|chunk| chunk.map(Frame::data).map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.is_ended
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.length().map_or_else(http_body::SizeHint::default, http_body::SizeHint::with_exact)
    }
}

impl Drop for TracedBody {
    fn drop(&mut self) {
        if !self.is_ended {
            self.messages.end(|text| self.trace.write(WireDirection::Received, text));
            self.trace.write(WireDirection::Sent, "(closed)");
        }
    }
}
