//! The legacy era over Streamable HTTP: sessions, response streams, and the stand-alone stream that a GET opens.

mod batch;
mod in_flight;
mod streams;

use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;
use http::StatusCode;
use http::header::{HeaderName, HeaderValue};
use mcp_protocol::Dialect;
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::limits::MAX_URI_BYTES;
use mcp_protocol::messages::{Id, Incoming, InitializeParams, Message, Method, Request, parse_bytes};
use mcp_protocol::peer::Arrival;
use tokio::sync::oneshot;

use super::ServiceState;
use super::first_event::{FirstEvent, FirstPoll, poll_once};
use super::headers::McpHeaders;
use super::request_body::{SMALL_BODY_BYTES, retained_bytes};
use super::response::{HttpResponse, empty_response, error_response, overload_response};
use super::session::{Session, SessionUse};
use crate::budget::Share;
use crate::call::context::{LegacyClient, Requester};
use crate::call::identity::{Identity, Principal};
use crate::call::reply::Reply;
use crate::connection::outlet::Outlet;
use crate::connection::{Client, URI_OVERHEAD_BYTES};
use crate::dispatch::router::RequestAction;
use crate::dispatch::run::CallFuture;
use in_flight::{InFlightCall, ResponseSink};

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

impl ServiceState {
    /// Returns the session of a request and marks it as in use. `None` if there is no such session, or if it belongs to
    /// another principal.
    pub(super) fn session(&self, headers: &McpHeaders<'_>, principal: &Principal) -> Option<SessionUse> {
        self.sessions.get(headers.session.text()?, principal)
    }

    /// Handles `initialize`: opens a session.
    pub(super) fn initialize(
        &self,
        request: &Request<'_>,
        dialect: Dialect,
        params: InitializeParams,
        principal: Principal,
    ) -> HttpResponse {
        let id = &request.id;
        let bytes = match Client::memory_of(request) {
            Ok(bytes) => bytes,
            Err(error) => return error_response(StatusCode::OK, &error, Some(id)),
        };
        let (reply, client) = self.core.initialize(dialect, params);
        let Some(session) = self.sessions.open(dialect, client, principal, bytes, &self.limits) else {
            return overload_response("too many sessions; retry later", Some(id));
        };
        self.sessions.start_reaper();
        let mut answer = self.reply(id, dialect, &reply);
        if let Ok(value) = HeaderValue::from_str(&session.id) {
            answer.headers_mut().insert(SESSION_ID, value);
        }
        answer
    }

    /// Handles legacy messages that are not requests: notifications, responses and batches.
    pub(super) fn legacy_non_request(
        self: &Arc<Self>,
        session_use: SessionUse,
        dialect: Dialect,
        incoming: &Incoming<'_>,
        body: &Bytes,
        identity: Identity,
        memory: Share,
    ) -> FirstPoll {
        let session = &session_use.0;
        let message = match incoming {
            Incoming::Message(message) => message,
            // The body is parsed again, because holding the borrowed batch would make the common future larger.
            Incoming::Batch(_) => {
                // Checked before any of the calls runs: the response is a status for the whole batch.
                if let Some(needed) = self.core.lacking_scopes(incoming, &identity) {
                    return FirstPoll::Done(self.insufficient_scope(&needed));
                }
                let (service, body) = (Arc::clone(self), body.clone());
                return FirstPoll::Pending(Box::pin(async move {
                    let _memory = memory;
                    match parse_bytes(&body, &service.limits) {
                        Ok(Incoming::Batch(batch)) => {
                            service.legacy_batch(&session_use.0, dialect, &batch, &identity).await
                        }
                        _ => empty_response(StatusCode::BAD_REQUEST),
                    }
                }));
            }
        };
        let arrival = session.connection.lock().peer.handle_message(message, Instant::now());
        match (arrival, message) {
            (Arrival::Cancelled(id), _) => session.cancel(&id),
            (Arrival::Response(call), Message::Response(response)) => {
                session.connection.settle(call, response);
            }
            (_, Message::Response(_)) => {
                let error = ErrorObject::new(
                    ErrorCode::InvalidRequest,
                    "no request in flight has the id of this response",
                );
                return FirstPoll::Done(error_response(StatusCode::BAD_REQUEST, &error, None));
            }
            _ => {}
        }
        FirstPoll::Done(empty_response(StatusCode::ACCEPTED))
    }

    pub(super) fn legacy_request(
        self: &Arc<Self>,
        session_use: SessionUse,
        request: &Request<'_>,
        identity: Identity,
        memory: Share,
    ) -> FirstPoll {
        let session = &session_use.0;
        let call = match InFlightCall::begin(session, request) {
            Ok(call) => call,
            Err(error) => {
                return FirstPoll::Done(error_response(StatusCode::BAD_REQUEST, &error, Some(&request.id)));
            }
        };
        if request.method == Method::ResourcesSubscribe && session.has_memory(MAX_URI_BYTES) {
            self.sessions.reclaim(MAX_URI_BYTES + URI_OVERHEAD_BYTES);
        }
        let (stream, outlet) = session.outlet();
        let mut run = match self.core.route(request, &requester(session, &outlet, identity)) {
            RequestAction::Run(run) => run,
            RequestAction::Reply(reply) => return FirstPoll::Done(self.reply_legacy(call, &reply)),
            // No legacy version has `subscriptions/listen`.
            RequestAction::Listen(_) => return FirstPoll::Done(empty_response(StatusCode::BAD_REQUEST)),
        };
        // For a large request, this memory was already charged in `post`.
        let kept = if request.params.text().len() <= SMALL_BODY_BYTES { retained_bytes(request) } else { 0 };
        run.hold(memory);
        match poll_once(&mut run, &outlet) {
            Poll::Ready(FirstEvent::Done(reply)) if outlet.is_untouched() => {
                FirstPoll::Done(self.reply_legacy(call, &reply))
            }
            Poll::Ready(FirstEvent::Done(reply)) => {
                let (id, dialect) = (call.id.clone(), session.dialect);
                if call.finish() {
                    let _ = outlet.send(|out| reply.write(out, &id, dialect, &self.core.meta));
                }
                outlet.close();
                FirstPoll::Done(self.stream(session_use, stream, outlet))
            }
            Poll::Ready(FirstEvent::Message) => {
                run.hold_more(kept);
                let sink = ResponseSink { sender: None, outlet: Arc::clone(&outlet) };
                self.run_in_session(call, run, sink);
                FirstPoll::Done(self.stream(session_use, stream, outlet))
            }
            Poll::Pending => {
                run.hold_more(kept);
                let (sender, reply) = oneshot::channel();
                let sink = ResponseSink { sender: Some(sender), outlet: Arc::clone(&outlet) };
                self.run_in_session(call, run, sink);
                let (service, id) = (Arc::clone(self), request.id.clone());
                FirstPoll::Pending(Box::pin(async move {
                    service.legacy_response(session_use, id, reply, stream, outlet).await
                }))
            }
        }
    }

    /// Runs a call in its session: in the legacy era a disconnect is not a cancellation.
    fn run_in_session(&self, call: InFlightCall, run: Box<CallFuture>, mut sink: ResponseSink) {
        let call = call.cancellable();
        let (session, core) = (Arc::clone(&call.session), Arc::clone(&self.core));
        session.spawn(async move {
            let reply = tokio::select! {
                reply = run => reply,
                () = call.cancelled() => return,
            };
            let (id, dialect) = (call.id.clone(), call.session.dialect);
            if call.finish()
                && let Some(reply) = sink.send_json(reply)
            {
                let _ = sink.outlet.send(|out| reply.write(out, &id, dialect, &core.meta));
            }
        });
    }

    /// Waits for the first message of a pending call. Returns JSON if this is the response, otherwise an SSE stream.
    async fn legacy_response(
        &self,
        session_use: SessionUse,
        id: Id,
        mut reply: oneshot::Receiver<Reply>,
        stream: u64,
        outlet: Arc<Outlet>,
    ) -> HttpResponse {
        let dialect = session_use.0.dialect;
        tokio::select! {
            biased;
            reply = &mut reply => {
                match reply {
                    Ok(reply) => return self.legacy_json_reply(&id, dialect, &reply),
                    // Cancelled: there is no response.
                    Err(_) if outlet.is_untouched() => return empty_response(StatusCode::ACCEPTED),
                    // The call sent messages and ended before this future was polled; the stream has all of them.
                    Err(_) => return self.stream(session_use, stream, outlet),
                }
            }
            () = outlet.filled() => {}
        }
        reply.close();
        // The reply may have been sent just before the channel was closed.
        if let Ok(reply) = reply.try_recv() {
            let _ = outlet.send(|out| reply.write(out, &id, dialect, &self.core.meta));
            outlet.close();
        }
        self.stream(session_use, stream, outlet)
    }

    /// Returns the response as JSON. In the legacy era, an error response also has the status 200.
    fn reply_legacy(&self, call: InFlightCall, reply: &Reply) -> HttpResponse {
        let (id, dialect) = (call.id.clone(), call.session.dialect);
        if !call.finish() {
            // Cancelled: there is no response.
            return empty_response(StatusCode::ACCEPTED);
        }
        self.legacy_json_reply(&id, dialect, reply)
    }

    fn legacy_json_reply(&self, id: &Id, dialect: Dialect, reply: &Reply) -> HttpResponse {
        match reply {
            Reply::Overloaded(why) => return overload_response(why, Some(id)),
            Reply::InsufficientScope(needed) => return self.insufficient_scope(needed),
            _ => {}
        }
        self.json_reply(StatusCode::OK, id, dialect, reply)
    }
}

fn requester(session: &Session, outlet: &Arc<Outlet>, identity: Identity) -> Requester {
    Requester {
        dialect: session.dialect,
        meta: None,
        legacy: Some(LegacyClient {
            connection: Arc::clone(&session.connection),
            client: Some(Arc::clone(&session.client)),
        }),
        outlet: Arc::clone(outlet),
        identity,
    }
}

pub(super) fn no_session(headers: &McpHeaders<'_>, id: Option<&Id>) -> HttpResponse {
    let (status, message) = if headers.session.first().is_some() {
        (StatusCode::NOT_FOUND, "unknown or expired session; initialize again")
    } else {
        (StatusCode::BAD_REQUEST, "missing Mcp-Session-Id header; initialize first")
    };
    error_response(status, &ErrorObject::new(ErrorCode::InvalidRequest, message), id)
}
