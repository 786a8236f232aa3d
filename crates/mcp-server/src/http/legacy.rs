//! The legacy era over HTTP: sessions, the streams of their calls, and the stand-alone stream.

use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;
use http::StatusCode;
use http::header::{ACCEPT, ALLOW, HeaderMap, HeaderValue};
use mcp_protocol::Dialect;
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::messages::{Batch, Id, Incoming, InitializeParams, Message, Request, parse_bytes};
use mcp_protocol::negotiation::{HttpMethod, HttpVerdict, Refusal};
use mcp_protocol::peer::{Arrival, Transmit};
use mcp_protocol::subscriptions::SubscriptionFilter;

use super::body::Work;
use super::headers::{Headers, Ours};
use super::session::{Flight, Found, Session, Using};
use super::{
    Answer, First, HttpBody, RESPONSE, SESSION, Shared, Step, bare, begin, first, json, refuse, refused,
    stream_headers,
};
use crate::context::{Exchange, Legacy, Principal};
use crate::driver::changes;
use crate::outlet::Outlet;
use crate::reply::Reply;
use crate::router::Route;
use crate::run::Run;

impl Shared {
    /// The session that a request names, if there is one.
    pub(super) fn session(&self, headers: &Ours<'_>) -> Option<Arc<Session>> {
        self.sessions.get(headers.session.text()?)
    }

    /// `initialize`: the answer, and a session for what follows.
    pub(super) fn initialize(&self, id: &Id, dialect: Dialect, params: InitializeParams) -> Answer {
        let (reply, client) = self.core.initialize(dialect, params);
        let Some(session) = self.sessions.open(dialect, client, &self.limits) else {
            return bare(StatusCode::SERVICE_UNAVAILABLE);
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
        session: Arc<Session>,
        dialect: Dialect,
        incoming: &Incoming<'_>,
        body: &Bytes,
    ) -> Step {
        let message = match incoming {
            Incoming::Message(message) => message,
            // Seldom, and read again rather than kept: what it borrows would make every exchange larger.
            Incoming::Batch(_) => {
                let (shared, body) = (Arc::clone(self), body.clone());
                return Step::Later(Box::pin(async move {
                    match parse_bytes(&body, &shared.limits) {
                        Ok(Incoming::Batch(batch)) => shared.legacy_batch(&session, dialect, &batch).await,
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
                let error = ErrorObject::new(ErrorCode::InvalidRequest, "nothing waits for this response");
                return Step::Done(refuse(StatusCode::BAD_REQUEST, &error, None));
            }
            _ => {}
        }
        Step::Done(bare(StatusCode::ACCEPTED))
    }

    pub(super) fn legacy_request(self: &Arc<Self>, session: &Arc<Session>, request: &Request<'_>) -> Step {
        let departed = match Departed::begin(session, request) {
            Ok(departed) => departed,
            Err(error) => return Step::Done(refuse(StatusCode::BAD_REQUEST, &error, Some(&request.id))),
        };
        let (stream, outlet) = session.outlet();
        let mut run = match self.core.route(request, exchange(session, request, &outlet)) {
            Route::Run(run) => run,
            Route::Reply(reply) => return Step::Done(self.reply_legacy(departed, &reply)),
            // No legacy version has such streams.
            Route::Listen(_) => return Step::Done(bare(StatusCode::BAD_REQUEST)),
        };
        match begin(&mut run, &outlet) {
            Poll::Ready(first) => Step::Done(self.legacy_answer(first, run, (stream, outlet), departed)),
            Poll::Pending => {
                let (shared, departed) = (Arc::clone(self), departed.watched());
                Step::Later(Box::pin(async move {
                    let first = tokio::select! {
                        biased;
                        () = departed.unwanted() => return bare(StatusCode::ACCEPTED),
                        first = first(&mut run, &outlet) => first,
                    };
                    shared.legacy_answer(first, run, (stream, outlet), departed)
                }))
            }
        }
    }

    /// The answer to a call that is done, or has something to say before it is: then it is spawned into its session.
    fn legacy_answer(
        &self,
        first: First,
        run: Box<Run>,
        (stream, outlet): (u64, Arc<Outlet>),
        departed: Departed,
    ) -> Answer {
        if let First::Done(reply) = &first
            && outlet.len() == 0
        {
            return self.reply_legacy(departed, reply);
        }
        let departed = departed.watched();
        let session = Arc::clone(&departed.using.0);
        let dialect = session.dialect;
        session.keep(stream, &outlet);
        let (closing, core) = (Closing(Arc::clone(&outlet)), Arc::clone(&self.core));
        session.spawn(async move {
            let reply = match first {
                First::Done(reply) => reply,
                First::Emits => tokio::select! {
                    reply = run => reply,
                    () = departed.unwanted() => return,
                },
            };
            let id = departed.id.clone();
            if departed.land() {
                let _ = closing.0.send(|out| reply.write(out, &id, dialect, &core.meta));
            }
        });
        stream_headers(self.held(&session, outlet, None))
    }

    /// A stream that holds its session: while it is read, the session is in use.
    fn held(&self, session: &Arc<Session>, outlet: Arc<Outlet>, after: Option<u64>) -> HttpBody {
        let using = Using(Arc::clone(session));
        let work: Work = Box::pin(async move {
            // Never done: the stream ends when its outlet is closed.
            std::future::pending::<()>().await;
            drop(using);
        });
        HttpBody::stream(outlet, after, work, self.options.keep_alive)
    }

    /// A legacy error is an ordinary response.
    fn reply_legacy(&self, departed: Departed, reply: &Reply) -> Answer {
        let (id, dialect) = (departed.id.clone(), departed.using.0.dialect);
        if !departed.land() {
            // Cancelled: nothing may be said any more.
            return bare(StatusCode::ACCEPTED);
        }
        let mut out = Vec::with_capacity(RESPONSE);
        let _ = reply.write(&mut out, &id, dialect, &self.core.meta);
        json(StatusCode::OK, out)
    }

    /// An array of messages, answered by one array.
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
        let Some(session) = session else { return no_session(&headers.ours, None) };
        let wants_events = all.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        if !wants_events.flat_map(|value| value.split(',')).any(|range| {
            let kind = range.split(';').next().unwrap_or("").trim();
            matches!(kind, "text/event-stream" | "text/*" | "*/*")
        }) {
            return bare(StatusCode::NOT_ACCEPTABLE);
        }
        let last = headers.last_event.text();
        match last.and_then(|last| session.find_stream(last)) {
            Some(Found { outlet, number, is_standing: false }) => {
                stream_headers(self.held(&session, outlet, Some(number)))
            }
            Some(Found { outlet, number, is_standing: true }) => {
                // Nobody listened meanwhile.
                let followed: Vec<_> = session.connection.lock().followed.keys().cloned().collect();
                for change in changes::everything(followed.into_iter()) {
                    outlet.offer(|out| changes::write_change(out, session.dialect, &change, None));
                }
                stream_headers(self.standing(session, outlet, Some(number)))
            }
            None => {
                let (stream, outlet) = session.outlet();
                session.stand(stream, &outlet);
                stream_headers(self.standing(session, outlet, None))
            }
        }
    }

    /// The stand-alone stream: what changes.
    fn standing(
        self: &Arc<Self>,
        session: Arc<Session>,
        outlet: Arc<Outlet>,
        after: Option<u64>,
    ) -> HttpBody {
        let sink = Arc::clone(&outlet);
        let (mut receiver, shared) = (self.core.registry.changes(), Arc::clone(self));
        let work: Work = Box::pin(async move {
            let Using(session) = &Using(session);
            loop {
                // What is followed may change while the stream is open.
                let followed = session.connection.lock().followed.keys().cloned().collect::<Vec<_>>();
                let filter = SubscriptionFilter::new()
                    .tools_list_changed(true)
                    .prompts_list_changed(true)
                    .resources_list_changed(true)
                    .resource_subscriptions(followed);
                let changed = tokio::select! {
                    changed = changes::next(&mut receiver, &filter) => changed,
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
        let Some(session) = session else { return no_session(headers, None) };
        self.sessions.end(&session.id);
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

/// Closes an outlet however the call that fills it ends.
struct Closing(Arc<Outlet>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A request in flight. However it ends, its id is free again, and its session was in use.
struct Departed {
    using: Using,
    id: Id,
    /// Noted once the call has to wait: what is done at once cannot be stopped.
    flight: Option<Arc<Flight>>,
    landed: bool,
}

impl Departed {
    fn begin(session: &Arc<Session>, request: &Request<'_>) -> Result<Self, ErrorObject> {
        let mut state = session.connection.lock();
        if state.peer.handle_request(request) == Arrival::Request {
            let using = Using(Arc::clone(session));
            return Ok(Self { using, id: request.id.clone(), flight: None, landed: false });
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
        let session = &self.using.0;
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
        self.using.0.connection.lock().peer.respond(&self.id)
    }
}

impl Drop for Departed {
    fn drop(&mut self) {
        if let Some(flight) = &self.flight {
            self.using.0.arrive(flight);
        }
        // Once landed, the id may be another request's.
        if !self.landed {
            self.using.0.connection.lock().peer.respond(&self.id);
        }
    }
}

pub(super) fn no_session(headers: &Ours<'_>, id: Option<&Id>) -> Answer {
    let (status, message) = if headers.session.first().is_some() {
        (StatusCode::NOT_FOUND, "there is no such session; initialize again")
    } else {
        (StatusCode::BAD_REQUEST, "the Mcp-Session-Id header is missing; initialize first")
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
