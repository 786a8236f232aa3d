//! Routing: from a request to its handler.

use std::sync::Arc;

use mcp_protocol::Dialect;
use mcp_protocol::capabilities::Implementation;
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::messages::{DiscoverResult, InitializeParams, InitializeResult, Method, Request};
use mcp_protocol::meta::Meta;
use mcp_protocol::subscriptions::SubscriptionFilter;
use mcp_protocol::version::SUPPORTED;

use super::core::Core;
use super::observed::CallObservation;
use super::run::CallFuture;
use super::without_handler::{listen, page, set_level, subscribe};
use crate::call::context::Requester;
use crate::call::reply::Reply;
use crate::connection::Client;
use crate::offer::registry::Snapshot;

/// The result of routing a request.
pub(crate) enum RequestAction {
    /// The reply is already known.
    Reply(Reply),
    /// A handler has to run.
    Run(Box<CallFuture>),
    /// A subscription stream has to be opened.
    Listen(SubscriptionFilter),
}

pub(super) type RouteResult = Result<RequestAction, ErrorObject>;

impl Core {
    /// Routes a request. If a handler has to run, its future is returned without having been polled.
    pub(crate) fn route(self: &Arc<Self>, request: &Request<'_>, requester: &Requester) -> RequestAction {
        let action = self.action(request, requester);
        if let RequestAction::Reply(reply) = &action
            && let Some(observation) = CallObservation::begin(self, request, None)
        {
            observation.end_with(reply);
        }
        action
    }

    fn action(self: &Arc<Self>, request: &Request<'_>, requester: &Requester) -> RequestAction {
        let is_call = matches!(
            request.method,
            Method::ToolsCall | Method::ResourcesRead | Method::PromptsGet | Method::Complete
        );
        if is_call && self.calls.is_spent() {
            return RequestAction::Reply(Reply::Overloaded("too many calls are running; retry later"));
        }
        let snapshot = self.registry.snapshot();
        let routed = match &request.method {
            Method::ToolsCall => self.call_tool(&snapshot, request, requester),
            Method::ToolsList => page(self, &snapshot, &snapshot.tools, request, requester),
            Method::ResourcesList => page(self, &snapshot, &snapshot.resources, request, requester),
            Method::ResourceTemplatesList => page(self, &snapshot, &snapshot.templates, request, requester),
            Method::PromptsList => page(self, &snapshot, &snapshot.prompts, request, requester),
            Method::ResourcesRead => self.read_resource(&snapshot, request, requester),
            Method::PromptsGet => self.get_prompt(&snapshot, request, requester),
            Method::Complete => self.complete(&snapshot, request, requester),
            Method::Discover => Ok(RequestAction::Reply(Reply::result(self.discover(&snapshot)))),
            Method::Ping => Ok(RequestAction::Reply(Reply::Empty)),
            Method::Listen => listen(request, requester),
            Method::SetLevel => set_level(request, requester),
            Method::ResourcesSubscribe => subscribe(request, requester, true),
            Method::ResourcesUnsubscribe => subscribe(request, requester, false),
            other => Err(ErrorObject::new(
                ErrorCode::MethodNotFound,
                format!("method not found: `{}`", other.as_str()),
            )),
        };
        routed.unwrap_or_else(|error| RequestAction::Reply(Reply::Error(error)))
    }

    /// Returns the reply to `initialize`, and the info and capabilities of the client.
    pub(crate) fn initialize(&self, dialect: Dialect, params: InitializeParams) -> (Reply, Client) {
        let snapshot = self.registry.snapshot();
        let settings = &snapshot.settings;
        let mut result = InitializeResult::new(
            dialect.version().clone(),
            snapshot.capabilities(),
            settings.implementation.clone(),
        );
        result.instructions.clone_from(&settings.instructions);
        let client = Client { capabilities: params.capabilities, info: params.client_info };
        (Reply::result(result), client)
    }

    fn discover(&self, snapshot: &Snapshot) -> DiscoverResult {
        let settings = &snapshot.settings;
        let mut result = DiscoverResult::new(settings.versions.clone(), snapshot.capabilities())
            .ttl_ms(settings.lists.ttl_ms)
            .cache_scope(settings.lists.scope.clone());
        result.instructions.clone_from(&settings.instructions);
        result
    }
}

/// Returns the `_meta` of modern results: the server info.
pub(crate) fn result_meta(implementation: &Implementation) -> Meta {
    Meta::new().server_info(implementation.clone())
}

/// Returns the protocol versions that this crate supports, newest first.
pub(crate) fn served_versions() -> Vec<mcp_protocol::ProtocolVersion> {
    SUPPORTED.to_vec()
}
