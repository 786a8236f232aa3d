//! Routing: from a request to its handler.

use std::sync::Arc;
use std::time::Duration;

use mcp_protocol::capabilities::Implementation;
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::messages::{DiscoverResult, InitializeParams, InitializeResult, Method, Request};
use mcp_protocol::meta::Meta;
use mcp_protocol::metrics::Metrics;
use mcp_protocol::subscriptions::SubscriptionFilter;
use mcp_protocol::version::SUPPORTED;
use mcp_protocol::{Dialect, Limits};

use super::observed::CallObservation;
use super::run::CallFuture;
use super::watchdog::Watchdog;
use super::without_handler::{listen, page, set_level, subscribe};
use crate::budget::Budget;
use crate::call::approval::Approver;
use crate::call::confirmation_store::ConfirmationStore;
use crate::call::context::Requester;
use crate::call::hook::Hook;
use crate::call::reply::Reply;
use crate::call::seal::Sealer;
use crate::connection::Client;
use crate::offer::registry::{Registry, Snapshot};
use crate::wire_trace::WireTrace;

/// The server state that all connections share.
pub(crate) struct Core {
    pub(crate) registry: Registry,
    pub(crate) sealer: Sealer,
    pub(crate) limits: Limits,
    /// The timeout for requests to a legacy client.
    pub(crate) ask_timeout: Duration,
    /// The grace period of calls in flight after the end of input.
    pub(crate) grace: Duration,
    /// The `_meta` of every modern result: the server info.
    pub(crate) meta: Meta,
    /// Hooks around every call, the outermost first.
    pub(crate) hooks: Vec<Arc<Hook>>,
    /// The function that asks for approval if the client does not support elicitation.
    pub(crate) approver: Option<Arc<Approver>>,
    /// The store of used confirmations.
    pub(crate) confirmation_store: Arc<dyn ConfirmationStore>,
    pub(crate) wire_trace: Option<WireTrace>,
    pub(crate) metrics: Option<Arc<dyn Metrics>>,
    pub(crate) watchdog: Watchdog,
    /// Calls in flight, on all connections together.
    pub(crate) calls: Arc<Budget>,
}

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
    /// Routes a request. The handler is not polled yet when this returns.
    pub(crate) fn route(self: &Arc<Self>, request: &Request<'_>, requester: Requester) -> RequestAction {
        let action = self.action(request, requester);
        if let RequestAction::Reply(reply) = &action
            && let Some(observation) = CallObservation::begin(self, request, None)
        {
            observation.end_with(reply);
        }
        action
    }

    fn action(self: &Arc<Self>, request: &Request<'_>, requester: Requester) -> RequestAction {
        let is_call = matches!(
            request.method,
            Method::ToolsCall | Method::ResourcesRead | Method::PromptsGet | Method::Complete
        );
        if is_call && self.calls.is_spent() {
            return RequestAction::Reply(Reply::Overloaded("too many calls are running; retry later"));
        }
        let state = self.registry.snapshot();
        let routed = match &request.method {
            Method::ToolsCall => self.call_tool(&state, request, requester),
            Method::ToolsList => page(self, &state, &state.tools, request, &requester),
            Method::ResourcesList => page(self, &state, &state.resources, request, &requester),
            Method::ResourceTemplatesList => page(self, &state, &state.templates, request, &requester),
            Method::PromptsList => page(self, &state, &state.prompts, request, &requester),
            Method::ResourcesRead => self.read_resource(&state, request, requester),
            Method::PromptsGet => self.get_prompt(&state, request, requester),
            Method::Complete => self.complete(&state, request, requester),
            Method::Discover => Ok(RequestAction::Reply(Reply::result(self.discover(&state)))),
            Method::Ping => Ok(RequestAction::Reply(Reply::Empty)),
            Method::Listen => listen(request, &requester),
            Method::SetLevel => set_level(request, &requester),
            Method::ResourcesSubscribe => subscribe(request, &requester, true),
            Method::ResourcesUnsubscribe => subscribe(request, &requester, false),
            other => Err(ErrorObject::new(
                ErrorCode::MethodNotFound,
                format!("method not found: `{}`", other.as_str()),
            )),
        };
        routed.unwrap_or_else(|error| RequestAction::Reply(Reply::Error(error)))
    }

    /// Returns the reply to `initialize`, and the client.
    pub(crate) fn initialize(&self, dialect: Dialect, params: InitializeParams) -> (Reply, Client) {
        let state = self.registry.snapshot();
        let settings = &state.settings;
        let mut result = InitializeResult::new(
            dialect.version().clone(),
            state.capabilities(),
            settings.implementation.clone(),
        );
        result.instructions.clone_from(&settings.instructions);
        let client = Client { capabilities: params.capabilities, info: params.client_info };
        (Reply::result(result), client)
    }

    fn discover(&self, state: &Snapshot) -> DiscoverResult {
        let settings = &state.settings;
        let mut result = DiscoverResult::new(settings.versions.clone(), state.capabilities())
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
