//! The modern era: one exchange per request, and subscription streams.

use std::sync::Arc;
use std::task::Poll;

use http::header::{HeaderMap, HeaderValue};
use mcp_protocol::Dialect;
use mcp_protocol::codec::header as mirrored;
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::messages::{Id, Method, Request};
use mcp_protocol::meta::Meta;
use mcp_protocol::subscriptions::{ListenResult, SubscriptionFilter};

use super::first_event::{FirstEvent, Step, begin, first_event};
use super::headers::accepts_events;
use super::request_body::{SMALL_BODY_BYTES, retained_bytes};
use super::response::{HttpResponse, not_acceptable, overload_response, stream_response};
use super::response_body::{HttpBody, Work};
use super::{MAX_UNREAD_BYTES, Shared};
use crate::budget::Share;
use crate::call::context::{Exchange, Principal};
use crate::call::reply::Reply;
use crate::connection::outlet::{Framing, Outlet};
use crate::dispatch::router::Route;
use crate::dispatch::run::Run;
use crate::offer::changes;

impl Shared {
    /// Handles a modern request.
    pub(super) fn modern(
        self: &Arc<Self>,
        request: &Request<'_>,
        dialect: Dialect,
        meta: Arc<Meta>,
        headers: &HeaderMap,
        memory: Share,
    ) -> Step {
        if let Err(error) = self.check_param_headers(request, headers) {
            return Step::Done(self.error(&request.id, dialect, &error));
        }
        let outlet = Arc::new(Outlet::new(Framing::Events, MAX_UNREAD_BYTES, Some(Arc::clone(&self.memory))));
        let exchange = Exchange {
            dialect,
            meta: Some(meta),
            legacy: None,
            outlet: Arc::clone(&outlet),
            principal: Principal::default(),
        };
        let mut run = match self.core.route(request, exchange) {
            Route::Reply(reply) => return Step::Done(self.reply(&request.id, dialect, &reply)),
            Route::Listen(filter) if accepts_events(headers) => {
                return Step::Done(self.listen(&request.id, dialect, &filter, outlet));
            }
            Route::Listen(_) => return Step::Done(not_acceptable(&request.id)),
            Route::Run(run) => run,
        };
        // For a large request this memory was charged in `post`.
        let is_small = request.params.text().len() <= SMALL_BODY_BYTES;
        run.hold(memory);
        match begin(&mut run, &outlet) {
            Poll::Ready(first) => Step::Done(self.modern_answer(first, run, outlet, &request.id, dialect)),
            Poll::Pending => {
                if is_small {
                    run.hold_more(retained_bytes(request));
                }
                let (shared, id) = (Arc::clone(self), request.id.clone());
                Step::Pending(Box::pin(async move {
                    let first = first_event(&mut run, &outlet).await;
                    shared.modern_answer(first, run, outlet, &id, dialect)
                }))
            }
        }
    }

    /// Returns the response of a call: JSON if it is done without notifications, otherwise an SSE stream.
    fn modern_answer(
        &self,
        first: FirstEvent,
        run: Box<Run>,
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
                let work: Work = Box::pin(async move {
                    let reply = run.await;
                    let _ = sink.send(|out| reply.write(out, &id, dialect, &core.meta));
                    sink.close();
                });
                stream_response(HttpBody::stream(outlet, None, work, self.options.keep_alive))
            }
        }
    }

    /// Checks that the headers of annotated arguments match the arguments.
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

    /// Opens a subscription stream. It ends when the client disconnects or the service closes.
    fn listen(
        self: &Arc<Self>,
        id: &Id,
        dialect: Dialect,
        filter: &SubscriptionFilter,
        outlet: Arc<Outlet>,
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
        let (id, sink, shared) = (id.clone(), Arc::clone(&outlet), Arc::clone(self));
        let work: Work = Box::pin(async move {
            let _held = (slot, memory);
            loop {
                let changed = tokio::select! {
                    changed = changes::next_wanted(&mut receiver, &filter) => changed,
                    () = shared.closed() => None,
                };
                let Some(changed) = changed else { break };
                for change in changed {
                    sink.offer(|out| changes::write_change(out, dialect, &change, Some(&id)));
                }
            }
            let reply = Reply::result(ListenResult::new().meta(Meta::new().subscription_id(id.clone())));
            let _ = sink.send(|out| reply.write(out, &id, dialect, &shared.core.meta));
        });
        stream_response(HttpBody::stream(outlet, None, work, self.options.keep_alive))
    }
}
