//! The legacy era over HTTP: sessions, the streams of their calls, and the stand-alone stream.

use std::sync::Arc;
use std::time::Instant;

use http::StatusCode;
use http::header::{ACCEPT, ALLOW, HeaderMap, HeaderValue};
use mcp_protocol::Dialect;
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::messages::{Batch, Id, Incoming, InitializeParams, Message, Request};
use mcp_protocol::negotiation::{HttpMethod, HttpVerdict, Refusal};
use mcp_protocol::peer::{Arrival, Transmit};
use mcp_protocol::subscriptions::SubscriptionFilter;

use super::body::Work;
use super::session::{Flight, Found, Session, Using};
use super::{
    Answer, First, HttpBody, LAST_EVENT, RESPONSE, SESSION, Shared, bare, first, json, refuse, refused,
    stream_headers,
};
use crate::context::{Exchange, Legacy, Principal};
use crate::driver::changes;
use crate::outlet::Outlet;
use crate::reply::Reply;
use crate::router::Route;

impl Shared {
    /// The session that a request names, if there is one.
    pub(super) fn session(&self, headers: &HeaderMap) -> Option<Arc<Session>> {
        self.sessions.get(headers.get(SESSION)?.to_str().ok()?)
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

    pub(super) async fn legacy(
        self: &Arc<Self>,
        headers: &HeaderMap,
        session: Option<Arc<Session>>,
        dialect: Dialect,
        incoming: Incoming<'_>,
    ) -> Answer {
        let id = match &incoming {
            Incoming::Message(Message::Request(request)) => Some(request.id.clone()),
            _ => None,
        };
        let Some(session) = session else { return no_session(headers, id.as_ref()) };
        match incoming {
            Incoming::Message(Message::Request(request)) => self.legacy_request(&session, &request).await,
            Incoming::Message(message) => {
                let arrival = session.connection.lock().peer.handle_message(&message, Instant::now());
                match (arrival, message) {
                    (Arrival::Cancelled(id), _) => session.cancel(&id),
                    (Arrival::Response(call), Message::Response(response)) => {
                        session.connection.settle(call, &response);
                    }
                    (_, Message::Response(_)) => {
                        let error =
                            ErrorObject::new(ErrorCode::InvalidRequest, "nothing waits for this response");
                        return refuse(StatusCode::BAD_REQUEST, &error, None);
                    }
                    _ => {}
                }
                bare(StatusCode::ACCEPTED)
            }
            // Seldom, and large: it must not make every exchange larger.
            Incoming::Batch(batch) => Box::pin(self.legacy_batch(&session, dialect, &batch)).await,
        }
    }

    async fn legacy_request(self: &Arc<Self>, session: &Arc<Session>, request: &Request<'_>) -> Answer {
        let flight = match Departed::begin(session, request) {
            Ok(flight) => flight,
            Err(error) => return refuse(StatusCode::BAD_REQUEST, &error, Some(&request.id)),
        };
        let (stream, outlet) = session.outlet();
        let dialect = session.dialect;
        let mut run = match self.core.route(request, exchange(session, request, &outlet)) {
            Route::Run(run) => run,
            Route::Reply(reply) => return self.reply_legacy(flight, dialect, &reply),
            // No legacy version has such streams.
            Route::Listen(_) => return bare(StatusCode::BAD_REQUEST),
        };
        let done = tokio::select! {
            done = first(&mut run, &outlet) => done,
            () = flight.unwanted() => return bare(StatusCode::ACCEPTED),
        };
        if let First::Done(reply) = &done
            && outlet.len() == 0
        {
            return self.reply_legacy(flight, dialect, reply);
        }
        session.keep(stream, &outlet);
        let (closing, core) = (Closing(Arc::clone(&outlet)), Arc::clone(&self.core));
        session.spawn(async move {
            let reply = match done {
                First::Done(reply) => reply,
                First::Emits => tokio::select! {
                    reply = run => reply,
                    () = flight.unwanted() => return,
                },
            };
            let id = flight.id().clone();
            if flight.land() {
                let _ = closing.0.send(|out| reply.write(out, &id, dialect, &core.meta));
            }
        });
        stream_headers(self.held(session, outlet, None))
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
    fn reply_legacy(&self, flight: Departed, dialect: Dialect, reply: &Reply) -> Answer {
        let id = flight.id().clone();
        if !flight.land() {
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
                        Ok(flight) => {
                            let (_, outlet) = session.outlet();
                            // Asks and progress need a stream, which an array does not have.
                            outlet.close();
                            let reply = match self.core.route(&request, exchange(session, &request, &outlet))
                            {
                                Route::Reply(reply) => Some(reply),
                                Route::Run(run) => tokio::select! {
                                    reply = run => Some(reply),
                                    () = flight.unwanted() => None,
                                },
                                Route::Listen(_) => None,
                            };
                            reply.filter(|_| flight.land())
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
    pub(super) fn get(self: &Arc<Self>, headers: &HeaderMap) -> Answer {
        let session = self.session(headers);
        match self.classify(HttpMethod::Get, headers, session.as_ref(), None) {
            HttpVerdict::Legacy(_) => {}
            HttpVerdict::Refuse(refusal) => return not_allowed(refusal),
            _ => return bare(StatusCode::BAD_REQUEST),
        }
        let Some(session) = session else { return no_session(headers, None) };
        let wants_events = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        if !wants_events.flat_map(|value| value.split(',')).any(|range| {
            let kind = range.split(';').next().unwrap_or("").trim();
            matches!(kind, "text/event-stream" | "text/*" | "*/*")
        }) {
            return bare(StatusCode::NOT_ACCEPTABLE);
        }
        let last = headers.get(LAST_EVENT).and_then(|value| value.to_str().ok());
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
    pub(super) fn delete(&self, headers: &HeaderMap) -> Answer {
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
    flight: Arc<Flight>,
    landed: bool,
}

impl Departed {
    fn begin(session: &Arc<Session>, request: &Request<'_>) -> Result<Self, ErrorObject> {
        let message = Message::Request(request.clone());
        let mut state = session.connection.lock();
        if state.peer.handle_message(&message, Instant::now()) == Arrival::Request {
            drop(state);
            let flight = session.depart(&request.id);
            return Ok(Self { using: Using(Arc::clone(session)), flight, landed: false });
        }
        match state.peer.poll_transmit() {
            Some(Transmit::Error { error, .. }) => Err(error),
            _ => Err(ErrorObject::new(ErrorCode::InvalidRequest, "the session has ended")),
        }
    }

    fn id(&self) -> &Id {
        &self.flight.id
    }

    /// Waits for the word that it is no longer wanted.
    async fn unwanted(&self) {
        self.flight.unwanted().await;
    }

    /// True if the response is still wanted.
    fn land(mut self) -> bool {
        self.landed = true;
        self.using.0.connection.lock().peer.respond(&self.flight.id)
    }
}

impl Drop for Departed {
    fn drop(&mut self) {
        self.using.0.arrive(&self.flight);
        // Once landed, the id may be another request's.
        if !self.landed {
            self.using.0.connection.lock().peer.respond(&self.flight.id);
        }
    }
}

fn no_session(headers: &HeaderMap, id: Option<&Id>) -> Answer {
    let (status, message) = if headers.contains_key(SESSION) {
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
