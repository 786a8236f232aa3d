//! The SSE streams of a session: response streams of calls, the stand-alone stream (GET), resumption, and the end of
//! the session (DELETE).

use std::sync::Arc;

use http::StatusCode;
use http::header::{ACCEPT, ALLOW, HeaderMap, HeaderValue};
use mcp_protocol::negotiation::{HttpClassification, HttpMethod, HttpRejection};

use super::no_session;
use crate::call::identity::Principal;
use crate::connection::outlet::Outlet;
use crate::http::ServiceState;
use crate::http::headers::{McpHeaders, RequestHeaders, accepts_events};
use crate::http::response::{
    HttpResponse, empty_response, overload_response, refusal_response, stream_response,
};
use crate::http::response_body::{EventProducer, HttpBody};
use crate::http::session::{ResumedStream, SessionUse};
use crate::offer::changes::{self, ChangeSubscriber};

impl ServiceState {
    /// Returns the SSE stream of a call and keeps it for resumption.
    pub(super) fn stream(&self, session_use: SessionUse, stream: u64, outlet: Arc<Outlet>) -> HttpResponse {
        session_use.0.keep(stream, &outlet);
        stream_response(self.session_stream(session_use, outlet, None))
    }

    /// Returns the body of a response stream. The session counts as in use while the body exists.
    fn session_stream(&self, session_use: SessionUse, outlet: Arc<Outlet>, after: Option<u64>) -> HttpBody {
        let producer: EventProducer = Box::pin(async move {
            // Never completes: the stream ends when its outlet is closed.
            std::future::pending::<()>().await;
            drop(session_use);
        });
        HttpBody::stream(outlet, after, producer, self.options.keep_alive)
    }

    /// Handles GET: opens the stand-alone stream of a session, or resumes a stream after `Last-Event-ID`.
    pub(in crate::http) fn get(
        self: &Arc<Self>,
        all: &HeaderMap,
        headers: &RequestHeaders<'_>,
        principal: &Principal,
    ) -> HttpResponse {
        let session = self.session(&headers.mcp, principal);
        match self.classify(HttpMethod::Get, &headers.mcp, session.as_ref(), None) {
            HttpClassification::Legacy(_) => {}
            HttpClassification::Reject(refusal) => return not_allowed(refusal),
            _ => return empty_response(StatusCode::BAD_REQUEST),
        }
        let Some(session_use) = session else { return no_session(&headers.mcp, None) };
        let session = &session_use.0;
        if !all.contains_key(ACCEPT) || !accepts_events(all) {
            return empty_response(StatusCode::NOT_ACCEPTABLE);
        }
        if !session.has_memory(1) {
            return overload_response(
                "the session has too many unread events; read its open streams or retry later",
                None,
            );
        }
        let last = headers.last_event.text();
        match last.and_then(|last| session.find_stream(last)) {
            Some(ResumedStream { outlet, number, is_standalone: false }) => {
                stream_response(self.session_stream(session_use, outlet, Some(number)))
            }
            Some(ResumedStream { outlet, number, is_standalone: true }) => {
                // Changes since the disconnect were not recorded, so everything may have changed.
                for change in changes::all_changes(session.connection.uris().into_iter()) {
                    outlet.offer(|out| changes::write_change(out, session.dialect, &change, None));
                }
                stream_response(self.standalone_stream(session_use, outlet, Some(number), principal))
            }
            None => {
                let (stream, outlet) = session.outlet();
                session.set_standalone(stream, &outlet);
                stream_response(self.standalone_stream(session_use, outlet, None, principal))
            }
        }
    }

    /// Returns the body of the stand-alone stream, with change notifications.
    fn standalone_stream(
        self: &Arc<Self>,
        session_use: SessionUse,
        outlet: Arc<Outlet>,
        after: Option<u64>,
        principal: &Principal,
    ) -> HttpBody {
        let principal = principal.clone();
        let sink = Arc::clone(&outlet);
        let (mut receiver, service) = (self.core.registry.changes(), Arc::clone(self));
        let producer: EventProducer = Box::pin(async move {
            let SessionUse(session) = &session_use;
            loop {
                let changed = tokio::select! {
                    changed = changes::next_changes(&mut receiver, &*session.connection) => changed,
                    () = service.closed() => None,
                    () = principal.expired() => None,
                };
                let Some(changed) = changed else { return };
                for change in changed {
                    sink.offer(|out| changes::write_change(out, session.dialect, &change, None));
                }
            }
        });
        HttpBody::stream(outlet, after, producer, self.options.keep_alive)
    }

    /// Handles DELETE: ends the session.
    pub(in crate::http) fn delete(&self, headers: &McpHeaders<'_>, principal: &Principal) -> HttpResponse {
        let session = self.session(headers, principal);
        match self.classify(HttpMethod::Delete, headers, session.as_ref(), None) {
            HttpClassification::Legacy(_) => {}
            HttpClassification::Reject(refusal) => return not_allowed(refusal),
            _ => return empty_response(StatusCode::BAD_REQUEST),
        }
        let Some(session_use) = session else { return no_session(headers, None) };
        self.sessions.end(&session_use.0.id);
        empty_response(StatusCode::NO_CONTENT)
    }
}

fn not_allowed(refusal: HttpRejection) -> HttpResponse {
    let is_not_allowed = refusal.status == 405;
    let mut response = refusal_response(refusal, None);
    if is_not_allowed {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    }
    response
}
