//! The legacy era over HTTP: sessions, the streams of their calls, and the stand-alone stream.

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
use super::headers::{Headers, Ours};
use super::intake::{SMALL_BODY, kept_of};
use super::session::{Flight, Found, Session, Using};
use super::{
    Answer, First, HttpBody, RESPONSE, SESSION, Shared, Step, accepts_events, bare, begin, json, overloaded,
    refuse, refused, stream_headers,
};
use crate::budget::Share;
use crate::connection::{Client, FOLLOWED_OVERHEAD};
use crate::context::{Exchange, Legacy, Principal};
use crate::driver::changes::{self, Follower};
use crate::outlet::Outlet;
use crate::reply::Reply;
use crate::router::Route;
use crate::run::Run;

impl Shared {
    /// The session that a request names, if there is one; in use for as long as this is held.
    pub(super) fn session(&self, headers: &Ours<'_>) -> Option<Using> {
        self.sessions.get(headers.session.text()?)
    }

    /// `initialize`: the answer, and a session for what follows.
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
            answer.headers_mut().insert(SESSION, value);
        }
        answer
    }

    /// Legacy messages that are no request.
    pub(super) fn legacy(
        self: &Arc<Self>,
        using: Using,
        dialect: Dialect,
        incoming: &Incoming<'_>,
        body: &Bytes,
        memory: Share,
    ) -> Step {
        let session = &using.0;
        let message = match incoming {
            Incoming::Message(message) => message,
            // Seldom, and read again rather than kept: what it borrows would make every exchange larger.
            Incoming::Batch(_) => {
                let (shared, body) = (Arc::clone(self), body.clone());
                return Step::Later(Box::pin(async move {
                    let _memory = memory;
                    match parse_bytes(&body, &shared.limits) {
                        Ok(Incoming::Batch(batch)) => shared.legacy_batch(&using.0, dialect, &batch).await,
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
        using: Using,
        request: &Request<'_>,
        memory: Share,
    ) -> Step {
        let session = &using.0;
        let departed = match Departed::begin(session, request) {
            Ok(departed) => departed,
            Err(error) => return Step::Done(refuse(StatusCode::BAD_REQUEST, &error, Some(&request.id))),
        };
        if request.method == Method::ResourcesSubscribe && session.has_memory(MAX_URI) {
            self.sessions.reclaim(MAX_URI + FOLLOWED_OVERHEAD);
        }
        let (stream, outlet) = session.outlet();
        let mut run = match self.core.route(request, exchange(session, request, &outlet)) {
            Route::Run(run) => run,
            Route::Reply(reply) => return Step::Done(self.reply_legacy(departed, &reply)),
            // No legacy version has such streams.
            Route::Listen(_) => return Step::Done(bare(StatusCode::BAD_REQUEST)),
        };
        // What a large request keeps was counted before.
        let kept = if request.params.text().len() <= SMALL_BODY { kept_of(request) } else { 0 };
        run.hold(memory);
        match begin(&mut run, &outlet) {
            Poll::Ready(First::Done(reply)) if outlet.is_untouched() => {
                Step::Done(self.reply_legacy(departed, &reply))
            }
            Poll::Ready(First::Done(reply)) => {
                let (id, dialect) = (departed.id.clone(), session.dialect);
                if departed.land() {
                    let _ = outlet.send(|out| reply.write(out, &id, dialect, &self.core.meta));
                }
                outlet.close();
                Step::Done(self.stream(using, stream, outlet))
            }
            Poll::Ready(First::Emits) => {
                run.hold_more(kept);
                let answering = Answering { sender: None, outlet: Arc::clone(&outlet) };
                self.run_in_session(departed, run, answering);
                Step::Done(self.stream(using, stream, outlet))
            }
            Poll::Pending => {
                run.hold_more(kept);
                let (sender, reply) = oneshot::channel();
                let answering = Answering { sender: Some(sender), outlet: Arc::clone(&outlet) };
                self.run_in_session(departed, run, answering);
                let (shared, id) = (Arc::clone(self), request.id.clone());
                Step::Later(Box::pin(
                    async move { shared.legacy_answer(using, id, reply, stream, outlet).await },
                ))
            }
        }
    }

    /// Runs a call to its end, whoever reads: in the legacy era a client that disconnects has not cancelled.
    fn run_in_session(&self, departed: Departed, run: Box<Run>, mut answering: Answering) {
        let departed = departed.watched();
        let (session, core) = (Arc::clone(&departed.session), Arc::clone(&self.core));
        session.spawn(async move {
            let reply = tokio::select! {
                reply = run => reply,
                () = departed.unwanted() => return,
            };
            let (id, dialect) = (departed.id.clone(), departed.session.dialect);
            if departed.land()
                && let Some(reply) = answering.by_json(reply)
            {
                let _ = answering.outlet.send(|out| reply.write(out, &id, dialect, &core.meta));
            }
        });
    }

    /// The answer to a call that waits: JSON if it says nothing before its end, else a stream.
    async fn legacy_answer(
        &self,
        using: Using,
        id: Id,
        mut reply: oneshot::Receiver<Reply>,
        stream: u64,
        outlet: Arc<Outlet>,
    ) -> Answer {
        let dialect = using.0.dialect;
        tokio::select! {
            biased;
            reply = &mut reply => {
                match reply {
                    Ok(reply) => return self.json_reply(&id, dialect, &reply),
                    // Cancelled: nothing may be said any more.
                    Err(_) if outlet.is_untouched() => return bare(StatusCode::ACCEPTED),
                    // It said something and ended before this was polled: all of it is in the stream.
                    Err(_) => return self.stream(using, stream, outlet),
                }
            }
            () = outlet.filled() => {}
        }
        reply.close();
        // It may have ended at this very moment.
        if let Ok(reply) = reply.try_recv() {
            let _ = outlet.send(|out| reply.write(out, &id, dialect, &self.core.meta));
            outlet.close();
        }
        self.stream(using, stream, outlet)
    }

    /// The stream of a call, which can be taken up again.
    fn stream(&self, using: Using, stream: u64, outlet: Arc<Outlet>) -> Answer {
        using.0.keep(stream, &outlet);
        stream_headers(self.held(using, outlet, None))
    }

    /// A stream that holds its session: while it is read, the session is in use.
    fn held(&self, using: Using, outlet: Arc<Outlet>, after: Option<u64>) -> HttpBody {
        let work: Work = Box::pin(async move {
            // Never done: the stream ends when its outlet is closed.
            std::future::pending::<()>().await;
            drop(using);
        });
        HttpBody::stream(outlet, after, work, self.options.keep_alive)
    }

    /// A legacy error is an ordinary response.
    fn reply_legacy(&self, departed: Departed, reply: &Reply) -> Answer {
        let (id, dialect) = (departed.id.clone(), departed.session.dialect);
        if !departed.land() {
            // Cancelled: nothing may be said any more.
            return bare(StatusCode::ACCEPTED);
        }
        self.json_reply(&id, dialect, reply)
    }

    fn json_reply(&self, id: &Id, dialect: Dialect, reply: &Reply) -> Answer {
        if let Reply::Overloaded(why) = reply {
            return overloaded(why, Some(id));
        }
        let mut out = Vec::with_capacity(RESPONSE);
        let _ = reply.write(&mut out, id, dialect, &self.core.meta);
        json(StatusCode::OK, out)
    }

    /// An array of messages, answered by one array. Its calls end with the exchange: there is no stream to take up again.
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
                    let reply = match Departed::begin(session, &request) {
                        Err(error) => Some(Reply::Error(error)),
                        Ok(departed) => {
                            let departed = departed.watched();
                            let (_, outlet) = session.outlet();
                            // Asks and progress need a stream, which an array does not have.
                            outlet.close();
                            let reply = match self.core.route(&request, exchange(session, &request, &outlet))
                            {
                                Route::Reply(reply) => Some(reply),
                                Route::Run(run) => tokio::select! {
                                    reply = run => Some(reply),
                                    () = departed.unwanted() => None,
                                },
                                Route::Listen(_) => None,
                            };
                            reply.filter(|_| departed.land())
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

    /// The stand-alone stream of a session, or one of its others taken up again.
    pub(super) fn get(self: &Arc<Self>, all: &HeaderMap, headers: &Headers<'_>) -> Answer {
        let session = self.session(&headers.ours);
        match self.classify(HttpMethod::Get, &headers.ours, session.as_ref(), None) {
            HttpVerdict::Legacy(_) => {}
            HttpVerdict::Refuse(refusal) => return not_allowed(refusal),
            _ => return bare(StatusCode::BAD_REQUEST),
        }
        let Some(using) = session else { return no_session(&headers.ours, None) };
        let session = &using.0;
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
            Some(Found { outlet, number, is_standing: false }) => {
                stream_headers(self.held(using, outlet, Some(number)))
            }
            Some(Found { outlet, number, is_standing: true }) => {
                // Nobody listened meanwhile.
                for change in changes::everything(session.connection.uris().into_iter()) {
                    outlet.offer(|out| changes::write_change(out, session.dialect, &change, None));
                }
                stream_headers(self.standing(using, outlet, Some(number)))
            }
            None => {
                let (stream, outlet) = session.outlet();
                session.stand(stream, &outlet);
                stream_headers(self.standing(using, outlet, None))
            }
        }
    }

    /// The stand-alone stream: what changes.
    fn standing(self: &Arc<Self>, using: Using, outlet: Arc<Outlet>, after: Option<u64>) -> HttpBody {
        let sink = Arc::clone(&outlet);
        let (mut receiver, shared) = (self.core.registry.changes(), Arc::clone(self));
        let work: Work = Box::pin(async move {
            let Using(session) = &using;
            loop {
                let changed = tokio::select! {
                    changed = changes::next(&mut receiver, &*session.connection) => changed,
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

    /// The client is done with its session.
    pub(super) fn delete(&self, headers: &Ours<'_>) -> Answer {
        let session = self.session(headers);
        match self.classify(HttpMethod::Delete, headers, session.as_ref(), None) {
            HttpVerdict::Legacy(_) => {}
            HttpVerdict::Refuse(refusal) => return not_allowed(refusal),
            _ => return bare(StatusCode::BAD_REQUEST),
        }
        let Some(using) = session else { return no_session(headers, None) };
        self.sessions.end(&using.0.id);
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

/// Where the answer of a call goes: to the exchange that waits for it, or into the stream that has begun. However the
/// call ends, the exchange is told first, and then the stream is closed.
struct Answering {
    sender: Option<oneshot::Sender<Reply>>,
    outlet: Arc<Outlet>,
}

impl Answering {
    /// Sends the reply to the exchange. Returns it if it has to go into the stream.
    fn by_json(&mut self, reply: Reply) -> Option<Reply> {
        match self.sender.take() {
            Some(sender) if self.outlet.is_untouched() => sender.send(reply).err(),
            _ => Some(reply),
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.sender = None;
        self.outlet.close();
    }
}

/// A request in flight. However it ends, its id is free again.
struct Departed {
    session: Arc<Session>,
    id: Id,
    /// Noted once the call has to wait: what is done at once cannot be stopped.
    flight: Option<Arc<Flight>>,
    landed: bool,
}

impl Departed {
    fn begin(session: &Arc<Session>, request: &Request<'_>) -> Result<Self, ErrorObject> {
        let mut state = session.connection.lock();
        if state.peer.handle_request(request) == Arrival::Request {
            let session = Arc::clone(session);
            return Ok(Self { session, id: request.id.clone(), flight: None, landed: false });
        }
        match state.peer.poll_transmit() {
            Some(Transmit::Error { error, .. }) => Err(error),
            _ => Err(ErrorObject::new(ErrorCode::InvalidRequest, "the session has ended")),
        }
    }

    /// From now on the client can stop it.
    fn watched(mut self) -> Self {
        if self.flight.is_some() {
            return self;
        }
        let session = &self.session;
        let flight = session.depart(&self.id);
        // It may have done so before anyone could be told.
        if session.connection.lock().peer.is_cancelled(&self.id) {
            flight.cancel();
        }
        self.flight = Some(flight);
        self
    }

    /// Waits for the word that it is no longer wanted.
    async fn unwanted(&self) {
        match &self.flight {
            Some(flight) => flight.unwanted().await,
            None => std::future::pending().await,
        }
    }

    /// True if the response is still wanted.
    fn land(mut self) -> bool {
        self.landed = true;
        self.session.connection.lock().peer.respond(&self.id)
    }
}

impl Drop for Departed {
    fn drop(&mut self) {
        if let Some(flight) = &self.flight {
            self.session.arrive(flight);
        }
        // Once landed, the id may be another request's.
        if !self.landed {
            self.session.connection.lock().peer.respond(&self.id);
        }
    }
}

pub(super) fn no_session(headers: &Ours<'_>, id: Option<&Id>) -> Answer {
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
