//! The modern era over HTTP: one exchange per request, and subscription streams.

use std::sync::Arc;
use std::task::Poll;

use http::header::{HeaderMap, HeaderValue};
use mcp_protocol::Dialect;
use mcp_protocol::codec::header as mirrored;
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::messages::{Id, Method, Request};
use mcp_protocol::meta::Meta;
use mcp_protocol::subscriptions::{ListenResult, SubscriptionFilter};

use super::first_event::{FirstEvent, FirstPoll, first_event, poll_once};
use super::headers::accepts_events;
use super::request_body::{SMALL_BODY_BYTES, retained_bytes};
use super::response::{HttpResponse, not_acceptable, overload_response, stream_response};
use super::response_body::{EventProducer, HttpBody};
use super::{MAX_UNREAD_BYTES, ServiceState};
use crate::budget::Share;
use crate::call::context::Requester;
use crate::call::identity::{Identity, Principal};
use crate::call::reply::Reply;
use crate::connection::outlet::{Outlet, OutletFraming};
use crate::dispatch::router::RequestAction;
use crate::dispatch::run::CallFuture;
use crate::offer::changes;

impl ServiceState {
    /// Handles a modern request.
    pub(super) fn modern(
        self: &Arc<Self>,
        request: &Request<'_>,
        dialect: Dialect,
        meta: Arc<Meta>,
        headers: &HeaderMap,
        identity: Identity,
        memory: Share,
    ) -> FirstPoll {
        if let Err(error) = self.check_param_headers(request, headers) {
            return FirstPoll::Done(self.error(&request.id, dialect, &error));
        }
        let outlet =
            Arc::new(Outlet::new(OutletFraming::Events, MAX_UNREAD_BYTES, Some(Arc::clone(&self.memory))));
        let requester =
            Requester { dialect, meta: Some(meta), legacy: None, outlet: Arc::clone(&outlet), identity };
        let mut run = match self.core.route(request, &requester) {
            RequestAction::Reply(reply) => return FirstPoll::Done(self.reply(&request.id, dialect, &reply)),
            RequestAction::Listen(filter) if accepts_events(headers) => {
                let principal = requester.identity.principal;
                return FirstPoll::Done(self.listen(&request.id, dialect, &filter, outlet, principal));
            }
            RequestAction::Listen(_) => return FirstPoll::Done(not_acceptable(&request.id)),
            RequestAction::Run(run) => run,
        };
        // For a large request, this memory was already charged in `post`.
        let is_small = request.params.text().len() <= SMALL_BODY_BYTES;
        run.hold(memory);
        match poll_once(&mut run, &outlet) {
            Poll::Ready(first) => {
                FirstPoll::Done(self.modern_response(first, run, outlet, &request.id, dialect))
            }
            Poll::Pending => {
                if is_small {
                    run.hold_more(retained_bytes(request));
                }
                let (service, id) = (Arc::clone(self), request.id.clone());
                FirstPoll::Pending(Box::pin(async move {
                    let first = first_event(&mut run, &outlet).await;
                    service.modern_response(first, run, outlet, &id, dialect)
                }))
            }
        }
    }

    /// Returns the response of a call: JSON if the call is complete and has sent no other messages, otherwise an SSE
    /// stream.
    fn modern_response(
        &self,
        first: FirstEvent,
        run: Box<CallFuture>,
        outlet: Arc<Outlet>,
        id: &Id,
        dialect: Dialect,
    ) -> HttpResponse {
        match first {
            FirstEvent::Done(reply) if outlet.len() == 0 => self.reply(id, dialect, &reply),
            FirstEvent::Done(reply) => {
                let _ = outlet.send(|out| reply.write(out, id, dialect, &self.core.meta));
                let mut bytes = Vec::new();
                outlet.take(&mut bytes);
                stream_response(HttpBody::full(bytes))
            }
            FirstEvent::Message => {
                let (core, id, sink) = (Arc::clone(&self.core), id.clone(), Arc::clone(&outlet));
                let producer: EventProducer = Box::pin(async move {
                    let reply = run.await;
                    let _ = sink.send(|out| reply.write(out, &id, dialect, &core.meta));
                    sink.close();
                });
                stream_response(HttpBody::stream(outlet, None, producer, self.options.keep_alive))
            }
        }
    }

    /// Checks that the headers that repeat arguments (`x-mcp-header` in the schema) match the arguments.
    fn check_param_headers(&self, request: &Request<'_>, headers: &HeaderMap) -> Result<(), ErrorObject> {
        if request.method != Method::ToolsCall {
            return Ok(());
        }
        let Ok(Some(name)) = mirrored::name_of(&request.method, &request.params) else { return Ok(()) };
        let state = self.core.registry.snapshot();
        let Some(tool) = state.tools.get(&name).filter(|tool| !tool.headers.is_empty()) else {
            return Ok(());
        };
        // Missing or duplicate `arguments` are refused by the call itself.
        let arguments = request.params.member("arguments").ok().flatten().unwrap_or("{}");
        tool.headers
            .check(arguments, |name| headers.get_all(name).iter().map(HeaderValue::as_bytes).collect())
    }

    /// Opens a subscription stream. It ends when the client disconnects, the permission of the
    /// caller ends, or the service closes.
    fn listen(
        self: &Arc<Self>,
        id: &Id,
        dialect: Dialect,
        filter: &SubscriptionFilter,
        outlet: Arc<Outlet>,
        principal: Principal,
    ) -> HttpResponse {
        let Some(slot) = self.streams.take(1) else {
            return overload_response("too many open subscription streams; retry later", Some(id));
        };
        let filter = changes::supported_part(filter);
        let bytes = changes::memory_of(&filter);
        if bytes > self.options.session_memory {
            let message = format!(
                "the subscribed URIs are too large: {bytes} bytes, limit {}",
                self.options.session_memory
            );
            return self.error(id, dialect, &ErrorObject::new(ErrorCode::InvalidParams, message));
        }
        self.sessions.reclaim(bytes);
        let Some(memory) = self.memory.take(bytes) else {
            return overload_response(changes::NO_SUBSCRIPTION_MEMORY, Some(id));
        };
        let mut receiver = self.core.registry.changes();
        let _ = outlet.send(|out| changes::write_acknowledged(out, dialect, id, &filter));
        let (id, sink, service) = (id.clone(), Arc::clone(&outlet), Arc::clone(self));
        let producer: EventProducer = Box::pin(async move {
            let _held = (slot, memory);
            loop {
                let changed = tokio::select! {
                    changed = changes::next_changes(&mut receiver, &filter) => changed,
                    () = service.closed() => None,
                    () = principal.expired() => None,
                };
                let Some(changed) = changed else { break };
                for change in changed {
                    sink.offer(|out| changes::write_change(out, dialect, &change, Some(&id)));
                }
            }
            let reply = Reply::result(ListenResult::new().meta(Meta::new().subscription_id(id.clone())));
            let _ = sink.send(|out| reply.write(out, &id, dialect, &service.core.meta));
        });
        stream_response(HttpBody::stream(outlet, None, producer, self.options.keep_alive))
    }
}
