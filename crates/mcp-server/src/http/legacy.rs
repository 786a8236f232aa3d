//! The legacy era over Streamable HTTP: sessions, response streams, and the stand-alone stream.

use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;
use http::StatusCode;
use http::header::{ACCEPT, ALLOW, HeaderMap, HeaderValue};
use mcp_protocol::Dialect;
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::limits::MAX_URI;
use mcp_protocol::messages::{Batch, Id, Incoming, InitializeParams, Message, Method, Request, parse_bytes};
use mcp_protocol::negotiation::{HttpMethod, HttpVerdict, Refusal};
use mcp_protocol::peer::{Arrival, Transmit};
use tokio::sync::oneshot;

use super::body::Work;
use super::headers::{Headers, McpHeaders};
use super::intake::{SMALL_BODY, retained_bytes};
use super::session::{CancelSignal, ResumedStream, Session, SessionUse};
use super::{
    Answer, First, HttpBody, RESPONSE_CAPACITY, SESSION_ID, Shared, Step, accepts_events, bare, begin, json,
    overloaded, refuse, refused, stream_headers,
};
use crate::budget::Share;
use crate::call::context::{Exchange, Legacy, Principal};
use crate::call::reply::Reply;
use crate::connection::outlet::Outlet;
use crate::connection::{Client, URI_OVERHEAD};
use crate::dispatch::router::Route;
use crate::dispatch::run::Run;
use crate::offer::changes::{self, Subscriber};

impl Shared {
    /// Returns the session of a request and marks it as in use.
    pub(super) fn session(&self, headers: &McpHeaders<'_>) -> Option<SessionUse> {
        self.sessions.get(headers.session.text()?)
    }

    /// Handles `initialize`: opens a session.
    pub(super) fn initialize(
        &self,
        request: &Request<'_>,
        dialect: Dialect,
        params: InitializeParams,
    ) -> Answer {
        let id = &request.id;
        let bytes = match Client::memory_of(request) {
            Ok(bytes) => bytes,
            Err(error) => return refuse(StatusCode::OK, &error, Some(id)),
        };
        let (reply, client) = self.core.initialize(dialect, params);
        let Some(session) = self.sessions.open(dialect, client, bytes, &self.limits) else {
            return overloaded("too many sessions; retry later", Some(id));
        };
        let mut answer = self.reply(id, dialect, &reply);
        if let Ok(value) = HeaderValue::from_str(&session.id) {
            answer.headers_mut().insert(SESSION_ID, value);
        }
        answer
    }

    /// Handles legacy messages that are not requests: notifications, responses and batches.
    pub(super) fn legacy(
        self: &Arc<Self>,
        session_use: SessionUse,
        dialect: Dialect,
        incoming: &Incoming<'_>,
        body: &Bytes,
        memory: Share,
    ) -> Step {
        let session = &session_use.0;
        let message = match incoming {
            Incoming::Message(message) => message,
            // Parsed again, because keeping the borrowed batch would make the common future larger.
            Incoming::Batch(_) => {
                let (shared, body) = (Arc::clone(self), body.clone());
                return Step::Later(Box::pin(async move {
                    let _memory = memory;
                    match parse_bytes(&body, &shared.limits) {
                        Ok(Incoming::Batch(batch)) => {
                            shared.legacy_batch(&session_use.0, dialect, &batch).await
                        }
                        _ => bare(StatusCode::BAD_REQUEST),
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
                return Step::Done(refuse(StatusCode::BAD_REQUEST, &error, None));
            }
            _ => {}
        }
        Step::Done(bare(StatusCode::ACCEPTED))
    }

    pub(super) fn legacy_request(
        self: &Arc<Self>,
        session_use: SessionUse,
        request: &Request<'_>,
        memory: Share,
    ) -> Step {
        let session = &session_use.0;
        let call = match InFlightCall::begin(session, request) {
            Ok(call) => call,
            Err(error) => return Step::Done(refuse(StatusCode::BAD_REQUEST, &error, Some(&request.id))),
        };
        if request.method == Method::ResourcesSubscribe && session.has_memory(MAX_URI) {
            self.sessions.reclaim(MAX_URI + URI_OVERHEAD);
        }
        let (stream, outlet) = session.outlet();
        let mut run = match self.core.route(request, exchange(session, request, &outlet)) {
            Route::Run(run) => run,
            Route::Reply(reply) => return Step::Done(self.reply_legacy(call, &reply)),
            // No legacy version has `subscriptions/listen`.
            Route::Listen(_) => return Step::Done(bare(StatusCode::BAD_REQUEST)),
        };
        // For a large request this memory was charged in `post`.
        let kept = if request.params.text().len() <= SMALL_BODY { retained_bytes(request) } else { 0 };
        run.hold(memory);
        match begin(&mut run, &outlet) {
            Poll::Ready(First::Done(reply)) if outlet.is_untouched() => {
                Step::Done(self.reply_legacy(call, &reply))
            }
            Poll::Ready(First::Done(reply)) => {
                let (id, dialect) = (call.id.clone(), session.dialect);
                if call.finish() {
                    let _ = outlet.send(|out| reply.write(out, &id, dialect, &self.core.meta));
                }
                outlet.close();
                Step::Done(self.stream(session_use, stream, outlet))
            }
            Poll::Ready(First::Emits) => {
                run.hold_more(kept);
                let sink = ResponseSink { sender: None, outlet: Arc::clone(&outlet) };
                self.run_in_session(call, run, sink);
                Step::Done(self.stream(session_use, stream, outlet))
            }
            Poll::Pending => {
                run.hold_more(kept);
                let (sender, reply) = oneshot::channel();
                let sink = ResponseSink { sender: Some(sender), outlet: Arc::clone(&outlet) };
                self.run_in_session(call, run, sink);
                let (shared, id) = (Arc::clone(self), request.id.clone());
                Step::Later(Box::pin(async move {
                    shared.legacy_answer(session_use, id, reply, stream, outlet).await
                }))
            }
        }
    }

    /// Runs a call in its session: in the legacy era a disconnect is not a cancellation.
    fn run_in_session(&self, call: InFlightCall, run: Box<Run>, mut sink: ResponseSink) {
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

    /// Waits for a pending call. Returns JSON if it ends without other messages, otherwise an SSE stream.
    async fn legacy_answer(
        &self,
        session_use: SessionUse,
        id: Id,
        mut reply: oneshot::Receiver<Reply>,
        stream: u64,
        outlet: Arc<Outlet>,
    ) -> Answer {
        let dialect = session_use.0.dialect;
        tokio::select! {
            biased;
            reply = &mut reply => {
                match reply {
                    Ok(reply) => return self.json_reply(&id, dialect, &reply),
                    // Cancelled: there is no response.
                    Err(_) if outlet.is_untouched() => return bare(StatusCode::ACCEPTED),
                    // The call sent messages and ended before this was polled; all of them are in the stream.
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

    /// Returns the SSE stream of a call and keeps it for resumption.
    fn stream(&self, session_use: SessionUse, stream: u64, outlet: Arc<Outlet>) -> Answer {
        session_use.0.keep(stream, &outlet);
        stream_headers(self.session_stream(session_use, outlet, None))
    }

    /// Returns a stream body that marks its session as in use.
    fn session_stream(&self, session_use: SessionUse, outlet: Arc<Outlet>, after: Option<u64>) -> HttpBody {
        let work: Work = Box::pin(async move {
            // Never completes: the stream ends when its outlet is closed.
            std::future::pending::<()>().await;
            drop(session_use);
        });
        HttpBody::stream(outlet, after, work, self.options.keep_alive)
    }

    /// Returns the response as JSON; a legacy error also has status 200.
    fn reply_legacy(&self, call: InFlightCall, reply: &Reply) -> Answer {
        let (id, dialect) = (call.id.clone(), call.session.dialect);
        if !call.finish() {
            // Cancelled: there is no response.
            return bare(StatusCode::ACCEPTED);
        }
        self.json_reply(&id, dialect, reply)
    }

    fn json_reply(&self, id: &Id, dialect: Dialect, reply: &Reply) -> Answer {
        if let Reply::Overloaded(why) = reply {
            return overloaded(why, Some(id));
        }
        let mut out = Vec::with_capacity(RESPONSE_CAPACITY);
        let _ = reply.write(&mut out, id, dialect, &self.core.meta);
        json(StatusCode::OK, out)
    }

    /// Handles a batch, answered by one array. Its calls end with the exchange, because there is no stream to resume.
    async fn legacy_batch(
        self: &Arc<Self>,
        session: &Arc<Session>,
        dialect: Dialect,
        batch: &Batch<'_>,
    ) -> Answer {
        let mut out = Vec::from(*b"[");
        for message in batch.messages() {
            match message {
                Ok(Message::Request(request)) => {
                    let reply = match InFlightCall::begin(session, &request) {
                        Err(error) => Some(Reply::Error(error)),
                        Ok(call) => {
                            let call = call.cancellable();
                            let (_, outlet) = session.outlet();
                            // Requests to the client and progress need a stream, which a batch does not have.
                            outlet.close();
                            let reply = match self.core.route(&request, exchange(session, &request, &outlet))
                            {
                                Route::Reply(reply) => Some(reply),
                                Route::Run(run) => tokio::select! {
                                    reply = run => Some(reply),
                                    () = call.cancelled() => None,
                                },
                                Route::Listen(_) => None,
                            };
                            reply.filter(|_| call.finish())
                        }
                    };
                    if let Some(reply) = reply {
                        let _ = reply.write(&mut out, &request.id, dialect, &self.core.meta);
                        out.push(b',');
                    }
                }
                Ok(message) => {
                    let arrival = session.connection.lock().peer.handle_message(&message, Instant::now());
                    match (arrival, message) {
                        (Arrival::Cancelled(id), _) => session.cancel(&id),
                        (Arrival::Response(call), Message::Response(response)) => {
                            session.connection.settle(call, &response);
                        }
                        _ => {}
                    }
                }
                Err(error) => {
                    let _ =
                        crate::connection::error_response(&mut out, None, dialect, &error.to_error_object());
                    out.push(b',');
                }
            }
        }
        if out.len() == 1 {
            return bare(StatusCode::ACCEPTED);
        }
        out.pop();
        out.push(b']');
        json(StatusCode::OK, out)
    }

    /// Handles GET: opens the stand-alone stream of a session, or resumes a stream after `Last-Event-ID`.
    pub(super) fn get(self: &Arc<Self>, all: &HeaderMap, headers: &Headers<'_>) -> Answer {
        let session = self.session(&headers.mcp);
        match self.classify(HttpMethod::Get, &headers.mcp, session.as_ref(), None) {
            HttpVerdict::Legacy(_) => {}
            HttpVerdict::Refuse(refusal) => return not_allowed(refusal),
            _ => return bare(StatusCode::BAD_REQUEST),
        }
        let Some(session_use) = session else { return no_session(&headers.mcp, None) };
        let session = &session_use.0;
        if !all.contains_key(ACCEPT) || !accepts_events(all) {
            return bare(StatusCode::NOT_ACCEPTABLE);
        }
        if !session.has_memory(1) {
            return overloaded(
                "the session has too many unread events; read its open streams or retry later",
                None,
            );
        }
        let last = headers.last_event.text();
        match last.and_then(|last| session.find_stream(last)) {
            Some(ResumedStream { outlet, number, is_standalone: false }) => {
                stream_headers(self.session_stream(session_use, outlet, Some(number)))
            }
            Some(ResumedStream { outlet, number, is_standalone: true }) => {
                // Changes since the disconnect were not recorded, so everything may have changed.
                for change in changes::all_changes(session.connection.uris().into_iter()) {
                    outlet.offer(|out| changes::write_change(out, session.dialect, &change, None));
                }
                stream_headers(self.standalone_stream(session_use, outlet, Some(number)))
            }
            None => {
                let (stream, outlet) = session.outlet();
                session.set_standalone(stream, &outlet);
                stream_headers(self.standalone_stream(session_use, outlet, None))
            }
        }
    }

    /// Returns the body of the stand-alone stream, with change notifications.
    fn standalone_stream(
        self: &Arc<Self>,
        session_use: SessionUse,
        outlet: Arc<Outlet>,
        after: Option<u64>,
    ) -> HttpBody {
        let sink = Arc::clone(&outlet);
        let (mut receiver, shared) = (self.core.registry.changes(), Arc::clone(self));
        let work: Work = Box::pin(async move {
            let SessionUse(session) = &session_use;
            loop {
                let changed = tokio::select! {
                    changed = changes::next_wanted(&mut receiver, &*session.connection) => changed,
                    () = shared.closed() => None,
                };
                let Some(changed) = changed else { return };
                for change in changed {
                    sink.offer(|out| changes::write_change(out, session.dialect, &change, None));
                }
            }
        });
        HttpBody::stream(outlet, after, work, self.options.keep_alive)
    }

    /// Handles DELETE: ends the session.
    pub(super) fn delete(&self, headers: &McpHeaders<'_>) -> Answer {
        let session = self.session(headers);
        match self.classify(HttpMethod::Delete, headers, session.as_ref(), None) {
            HttpVerdict::Legacy(_) => {}
            HttpVerdict::Refuse(refusal) => return not_allowed(refusal),
            _ => return bare(StatusCode::BAD_REQUEST),
        }
        let Some(session_use) = session else { return no_session(headers, None) };
        self.sessions.end(&session_use.0.id);
        bare(StatusCode::NO_CONTENT)
    }
}

fn exchange(session: &Session, request: &Request<'_>, outlet: &Arc<Outlet>) -> Exchange {
    Exchange {
        dialect: session.dialect,
        meta: request.params.meta().ok().flatten().map(Arc::new),
        legacy: Some(Legacy {
            connection: Arc::clone(&session.connection),
            client: Some(Arc::clone(&session.client)),
            log_level: session.connection.lock().log_level.clone(),
        }),
        outlet: Arc::clone(outlet),
        principal: Principal::default(),
    }
}

/// The destination of the response of a call: the pending exchange, or its open stream. When dropped, it first notifies
/// the exchange and then closes the stream.
struct ResponseSink {
    sender: Option<oneshot::Sender<Reply>>,
    outlet: Arc<Outlet>,
}

impl ResponseSink {
    /// Sends the reply to the pending exchange. Returns it if it belongs to the stream.
    fn send_json(&mut self, reply: Reply) -> Option<Reply> {
        match self.sender.take() {
            Some(sender) if self.outlet.is_untouched() => sender.send(reply).err(),
            _ => Some(reply),
        }
    }
}

impl Drop for ResponseSink {
    fn drop(&mut self) {
        self.sender = None;
        self.outlet.close();
    }
}

/// A guard of a request in flight, which frees its id when dropped.
struct InFlightCall {
    session: Arc<Session>,
    id: Id,
    /// Set only for a call that is pending; others are done before they could be cancelled.
    signal: Option<Arc<CancelSignal>>,
    is_finished: bool,
}

impl InFlightCall {
    fn begin(session: &Arc<Session>, request: &Request<'_>) -> Result<Self, ErrorObject> {
        let mut state = session.connection.lock();
        if state.peer.handle_request(request) == Arrival::Request {
            let session = Arc::clone(session);
            return Ok(Self { session, id: request.id.clone(), signal: None, is_finished: false });
        }
        match state.peer.poll_transmit() {
            Some(Transmit::Error { error, .. }) => Err(error),
            _ => Err(ErrorObject::new(ErrorCode::InvalidRequest, "the session has ended")),
        }
    }

    /// Adds a cancel signal, so that the client can cancel the call.
    fn cancellable(mut self) -> Self {
        if self.signal.is_some() {
            return self;
        }
        let session = &self.session;
        let signal = session.add_cancel_signal(&self.id);
        // The cancellation may have arrived before the signal was added.
        if session.connection.lock().peer.is_cancelled(&self.id) {
            signal.cancel();
        }
        self.signal = Some(signal);
        self
    }

    /// Waits until the call is cancelled.
    async fn cancelled(&self) {
        match &self.signal {
            Some(signal) => signal.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Ends the request. Returns false if it was cancelled and must not be answered.
    fn finish(mut self) -> bool {
        self.is_finished = true;
        self.session.connection.lock().peer.respond(&self.id)
    }
}

impl Drop for InFlightCall {
    fn drop(&mut self) {
        if let Some(signal) = &self.signal {
            self.session.remove_cancel_signal(signal);
        }
        // After `finish` another request may already use the id.
        if !self.is_finished {
            self.session.connection.lock().peer.respond(&self.id);
        }
    }
}

pub(super) fn no_session(headers: &McpHeaders<'_>, id: Option<&Id>) -> Answer {
    let (status, message) = if headers.session.first().is_some() {
        (StatusCode::NOT_FOUND, "unknown or expired session; initialize again")
    } else {
        (StatusCode::BAD_REQUEST, "missing Mcp-Session-Id header; initialize first")
    };
    refuse(status, &ErrorObject::new(ErrorCode::InvalidRequest, message), id)
}

fn not_allowed(refusal: Refusal) -> Answer {
    let is_not_allowed = refusal.status == 405;
    let mut answer = refused(refusal, None);
    if is_not_allowed {
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    }
    answer
}
