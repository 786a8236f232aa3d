//! Routing: from a request to its handler.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use mcp_protocol::capabilities::Implementation;
use mcp_protocol::completion::{CompleteParams, CompletionReference};
use mcp_protocol::dialect::Raise;
use mcp_protocol::errors::{BodyError, ErrorCode, ErrorObject};
use mcp_protocol::input::InputResponses;
use mcp_protocol::limits::MAX_URI;
use mcp_protocol::logging::{LogLevel, SetLevelParams};
use mcp_protocol::messages::{
    DiscoverResult, InitializeParams, InitializeResult, Method, PageParams, Request, TimeToLive,
};
use mcp_protocol::meta::Meta;
use mcp_protocol::prompts::{GetPromptParams, PromptArgument};
use mcp_protocol::resources::SubscribeParams;
use mcp_protocol::subscriptions::{ListenParams, SubscriptionFilter};
use mcp_protocol::version::SUPPORTED;
use mcp_protocol::visible::Visible;
use mcp_protocol::{Dialect, Json, Limits};

use crate::budget::Budget;
use crate::call::approval::{self, Approver};
use crate::call::confirmation_store::ConfirmationStore;
use crate::call::context::{Context, Exchange, Parts};
use crate::call::hook::{Hook, Next, Outcome, before};
use crate::call::reply::Reply;
use crate::call::rounds::{Binding, Rounds};
use crate::call::seal::Sealer;
use crate::connection::{Client, MAX_SUBSCRIBED_URIS};
use crate::dispatch::run::{Run, Work, begin};
use crate::dispatch::watchdog::Watchdog;
use crate::offer::completion::CompletionRequest;
use crate::offer::prompt::PromptArguments;
use crate::offer::registry::{Cursor, List, Listed, Registry, ResourceMatch, Snapshot};
use crate::offer::resource::ReadRequest;
use crate::offer::tool::{BoxFuture, ToolEntry};

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
    pub(crate) watchdog: Watchdog,
    /// Calls in flight, on all connections together.
    pub(crate) calls: Arc<Budget>,
}

/// The result of routing a request.
pub(crate) enum Route {
    /// The reply is already known.
    Reply(Reply),
    /// A handler has to run.
    Run(Box<Run>),
    /// A subscription stream has to be opened.
    Listen(SubscriptionFilter),
}

type RouteResult = Result<Route, ErrorObject>;

impl Core {
    /// Routes a request. The handler is not polled yet when this returns.
    pub(crate) fn route(self: &Arc<Self>, request: &Request<'_>, exchange: Exchange) -> Route {
        let is_call = matches!(
            request.method,
            Method::ToolsCall | Method::ResourcesRead | Method::PromptsGet | Method::Complete
        );
        if is_call && self.calls.is_spent() {
            return Route::Reply(Reply::Overloaded("too many calls are running; retry later"));
        }
        let state = self.registry.snapshot();
        let routed = match &request.method {
            Method::ToolsCall => self.call_tool(&state, request, exchange),
            Method::ToolsList => self.page(&state, &state.tools, request, &exchange),
            Method::ResourcesList => self.page(&state, &state.resources, request, &exchange),
            Method::ResourceTemplatesList => self.page(&state, &state.templates, request, &exchange),
            Method::PromptsList => self.page(&state, &state.prompts, request, &exchange),
            Method::ResourcesRead => self.read_resource(&state, request, exchange),
            Method::PromptsGet => self.get_prompt(&state, request, exchange),
            Method::Complete => self.complete(&state, request, exchange),
            Method::Discover => Ok(Route::Reply(Reply::result(self.discover(&state)))),
            Method::Ping => Ok(Route::Reply(Reply::Empty)),
            Method::Listen => listen(request, &exchange),
            Method::SetLevel => set_level(request, &exchange),
            Method::ResourcesSubscribe => subscribe(request, &exchange, true),
            Method::ResourcesUnsubscribe => subscribe(request, &exchange, false),
            other => Err(ErrorObject::new(
                ErrorCode::MethodNotFound,
                format!("method not found: `{}`", other.as_str()),
            )),
        };
        routed.unwrap_or_else(|error| Route::Reply(Reply::Error(error)))
    }

    /// Returns the reply to `initialize`, and the client.
    pub(crate) fn initialize(&self, dialect: Dialect, params: InitializeParams) -> (Reply, Client) {
        let state = self.registry.snapshot();
        let identity = &state.identity;
        let mut result = InitializeResult::new(
            dialect.version().clone(),
            state.capabilities(),
            identity.implementation.clone(),
        );
        result.instructions.clone_from(&identity.instructions);
        let client = Client { capabilities: params.capabilities, info: params.client_info };
        (Reply::result(result), client)
    }

    fn discover(&self, state: &Snapshot) -> DiscoverResult {
        let identity = &state.identity;
        let mut result = DiscoverResult::new(identity.versions.clone(), state.capabilities())
            .ttl_ms(identity.lists.ttl_ms)
            .cache_scope(identity.lists.scope.clone());
        result.instructions.clone_from(&identity.instructions);
        result
    }

    fn call_tool(
        self: &Arc<Self>,
        state: &Snapshot,
        request: &Request<'_>,
        exchange: Exchange,
    ) -> RouteResult {
        let name = member::<Cow<'_, str>>(request, "name")?.ok_or_else(|| missing("name"))?;
        let arguments = match request.params.member("arguments").map_err(invalid)? {
            None | Some("null") => "{}",
            Some(text) if text.starts_with('{') => text,
            Some(_) => {
                return Err(ErrorObject::new(ErrorCode::InvalidParams, "`arguments` must be an object"));
            }
        };
        let Some(tool) = state.tools.get(&name) else {
            return Err(ErrorObject::new(ErrorCode::InvalidParams, format!("unknown tool `{name}`")));
        };
        let mut call = CallBuilder::new(self, request, Arc::clone(&tool.name), arguments, exchange)?;
        if !self.hooks.is_empty() || tool.needs_approval {
            return self.hooked(call, self.tool_after_hooks(tool, arguments));
        }
        Ok(match self.begin(&tool.name, || tool.begin(arguments, &mut || call.context())) {
            Ok(future) => self.run(Work::Tool(future), call),
            Err(reply) => Route::Reply(reply),
        })
    }

    /// Returns the innermost `Next` of a tool: approval if needed, then the handler.
    fn tool_after_hooks(self: &Arc<Self>, tool: &Arc<ToolEntry>, arguments: &str) -> Next {
        let (core, tool, arguments) = (Arc::clone(self), Arc::clone(tool), Box::<str>::from(arguments));
        Box::new(move |context| {
            Box::pin(async move {
                if !tool.needs_approval {
                    return Ok(Outcome::Tool(tool.begin(&arguments, &mut || context.clone()).await?));
                }
                tool.check(&arguments)?;
                // The canonical form is both shown and run: no escapes, no whitespace, no duplicate members.
                let arguments = arguments.parse::<Json>()?.canonical()?;
                approval::wait_for(&context, &arguments, &core).await?;
                Ok(Outcome::Tool(tool.begin(arguments.get(), &mut || context.clone()).await?))
            })
        })
    }

    /// Starts a call under the watchdog. A panic before the handler returns its future fails this call only.
    fn begin<T>(&self, name: &Arc<str>, start: impl FnOnce() -> BoxFuture<T>) -> Result<BoxFuture<T>, Reply> {
        begin(|| self.watchdog.watch(name, start))
    }

    /// Runs the hooks and then `next`.
    fn hooked(self: &Arc<Self>, mut call: CallBuilder<'_>, next: Next) -> RouteResult {
        let arguments: Json = call.arguments.parse().map_err(invalid)?;
        let next = self.hooks.iter().rev().fold(next, |next, hook| before(hook, &arguments, next));
        let (context, method) = (call.context(), call.request.method.clone());
        let name = Arc::clone(&call.name);
        Ok(match self.begin(&name, || next(context)) {
            Ok(future) => self.run(Work::Hooked(future, method), call),
            Err(reply) => Route::Reply(reply),
        })
    }

    fn get_prompt(
        self: &Arc<Self>,
        state: &Snapshot,
        request: &Request<'_>,
        exchange: Exchange,
    ) -> RouteResult {
        let params: GetPromptParams = raise(request, &exchange)?;
        let Some(prompt) = state.prompts.get(&params.name) else {
            let message = format!("unknown prompt `{}`", params.name);
            return Err(ErrorObject::new(ErrorCode::InvalidParams, message));
        };
        let arguments = params.arguments.unwrap_or_default();
        let is_missing = |argument: &&PromptArgument| {
            argument.required == Some(true) && !arguments.contains_key(&argument.name)
        };
        if let Some(argument) = prompt.definition.arguments.iter().flatten().find(is_missing) {
            let message =
                format!("missing required argument `{}` of prompt `{}`", argument.name, params.name);
            return Err(ErrorObject::new(ErrorCode::InvalidParams, message));
        }
        let text = request.params.member("arguments").map_err(invalid)?.unwrap_or("{}");
        let call = CallBuilder::new(self, request, params.name.into(), text, exchange)?;
        let prompt = Arc::clone(prompt);
        let next: Next = Box::new(move |context| {
            let future = (prompt.get)(PromptArguments(arguments), context);
            Box::pin(async move {
                let mut result = future.await?;
                result.description = result.description.or_else(|| prompt.definition.description.clone());
                Ok(Outcome::Prompt(result))
            })
        });
        self.hooked(call, next)
    }

    fn read_resource(
        self: &Arc<Self>,
        state: &Snapshot,
        request: &Request<'_>,
        exchange: Exchange,
    ) -> RouteResult {
        let uri: String = member(request, "uri")?.ok_or_else(|| missing("uri"))?;
        check_uri(&uri)?;
        let found = state.find_resource(&uri).ok_or_else(|| ErrorObject::resource_not_found(&uri))?;
        let call = CallBuilder::new(self, request, uri.as_str().into(), "{}", exchange)?;
        let (read, cache, variables) = match found {
            ResourceMatch::Resource(entry) => (Arc::clone(&entry.read), entry.cache.clone(), Vec::new()),
            ResourceMatch::Template(entry, variables) => {
                (Arc::clone(&entry.read), entry.cache.clone(), variables)
            }
        };
        let next: Next = Box::new(move |context| {
            let future = read(ReadRequest { uri, variables }, context);
            Box::pin(async move {
                let result = future.await?.ttl_ms(TimeToLive(cache.ttl_ms)).cache_scope(cache.scope);
                Ok(Outcome::Read(result))
            })
        });
        self.hooked(call, next)
    }

    fn complete(
        self: &Arc<Self>,
        state: &Snapshot,
        request: &Request<'_>,
        exchange: Exchange,
    ) -> RouteResult {
        let params: CompleteParams = raise(request, &exchange)?;
        let unknown = |what: String| Err(ErrorObject::new(ErrorCode::InvalidParams, what));
        let completers = match &params.reference {
            CompletionReference::Prompt(prompt) => match state.prompts.get(&prompt.name) {
                Some(entry) => entry.completers.get(&params.argument.name),
                None => return unknown(format!("unknown prompt `{}`", prompt.name)),
            },
            CompletionReference::Resource(template) => match state.templates.get(&template.uri) {
                Some(entry) => entry.completers.get(&params.argument.name),
                None => return unknown(format!("unknown resource template `{}`", template.uri)),
            },
            _ => return unknown("unknown `ref` type; use `ref/prompt` or `ref/resource`".to_owned()),
        };
        let mut call = CallBuilder::new(self, request, params.argument.name.into(), "{}", exchange)?;
        let arguments = params.context.and_then(|context| context.arguments).unwrap_or_default();
        let completion = CompletionRequest { value: params.argument.value, arguments };
        let Some(complete) = completers else {
            let none = Box::pin(std::future::ready(Vec::new()));
            return Ok(self.run(Work::Complete(none), call));
        };
        let context = call.context();
        let name = Arc::clone(&call.name);
        Ok(match self.begin(&name, || complete(completion, context)) {
            Ok(future) => self.run(Work::Complete(future), call),
            Err(reply) => Route::Reply(reply),
        })
    }

    fn page<T: Listed>(
        &self,
        state: &Snapshot,
        list: &List<T>,
        request: &Request<'_>,
        exchange: &Exchange,
    ) -> RouteResult {
        let params: PageParams = raise(request, exchange)?;
        let cursor = params.cursor.as_deref().map_or(Cursor::Start, Cursor::After);
        match list.page(exchange.dialect, &cursor, &state.identity, &self.meta) {
            Some(page) => Ok(Route::Reply(Reply::Page(page))),
            None => Err(ErrorObject::new(
                ErrorCode::InvalidParams,
                "unknown or expired cursor; restart the listing",
            )),
        }
    }

    fn run(self: &Arc<Self>, work: Work, call: CallBuilder<'_>) -> Route {
        let span = call.span();
        Route::Run(Box::new(Run::new(work, call.context, call.dialect, Arc::clone(self), call.name, span)))
    }
}

/// A call before its handler runs. The context is created only if the handler takes one.
struct CallBuilder<'a> {
    core: &'a Core,
    request: &'a Request<'a>,
    name: Arc<str>,
    arguments: &'a str,
    dialect: Dialect,
    exchange: Exchange,
    /// The state of earlier rounds.
    rounds: Option<Rounds>,
    context: Option<Context>,
}

impl<'a> CallBuilder<'a> {
    fn new(
        core: &'a Core,
        request: &'a Request<'a>,
        name: Arc<str>,
        arguments: &'a str,
        exchange: Exchange,
    ) -> Result<Self, ErrorObject> {
        let dialect = exchange.dialect;
        let mut call =
            Self { core, request, name, arguments, dialect, exchange, rounds: None, context: None };
        if call.has_rounds() {
            let responses: Option<InputResponses> = member(request, "inputResponses")?;
            let sealed: Option<Cow<'_, str>> = member(request, "requestState")?;
            if responses.is_some() || sealed.is_some() {
                let store = Arc::clone(&core.confirmation_store);
                let rounds = Rounds::new(responses, sealed.as_deref(), &core.sealer, call.binding(), store);
                call.rounds = Some(rounds.ok_or_else(|| {
                    ErrorObject::new(ErrorCode::InvalidParams, "invalid or expired requestState")
                })?);
            }
        }
        Ok(call)
    }

    /// Returns the tracing span of the call. It does not contain the arguments.
    fn span(&self) -> tracing::Span {
        let trace = self.exchange.meta.as_ref().and_then(|meta| meta.traceparent.as_deref());
        tracing::debug_span!(
            "call",
            method = %self.request.method,
            name = %Visible::name(&self.name),
            id = %Visible::name(&self.request.id.to_string()),
            traceparent = trace.map(|trace| tracing::field::display(Visible::name(trace))),
        )
    }

    fn has_rounds(&self) -> bool {
        self.dialect.is_modern() && self.request.method != Method::Complete
    }

    fn binding(&self) -> Binding {
        Binding {
            principal: self.exchange.principal.subject.clone(),
            method: self.request.method.clone(),
            name: Arc::clone(&self.name),
            arguments: self.arguments.into(),
        }
    }

    fn context(&mut self) -> Context {
        if let Some(context) = &self.context {
            return context.clone();
        }
        let mut rounds = self.rounds.take();
        if rounds.is_none() && self.has_rounds() {
            let store = Arc::clone(&self.core.confirmation_store);
            rounds = Rounds::new(None, None, &self.core.sealer, self.binding(), store);
        }
        let context = Context::new(Parts {
            id: self.request.id.clone(),
            method: self.request.method.clone(),
            name: Arc::clone(&self.name),
            exchange: self.exchange.clone(),
            registry: self.core.registry.clone(),
            rounds,
            ask_timeout: self.core.ask_timeout,
        });
        self.context.insert(context).clone()
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

fn member<'a, T: serde::Deserialize<'a>>(
    request: &Request<'a>,
    name: &'static str,
) -> Result<Option<T>, ErrorObject> {
    request.params.parse_member(name).map_err(invalid)
}

fn raise<T: Raise>(request: &Request<'_>, exchange: &Exchange) -> Result<T, ErrorObject> {
    exchange.dialect.raise(&request.params).map_err(invalid)
}

fn invalid(error: BodyError) -> ErrorObject {
    ErrorObject::new(ErrorCode::InvalidParams, error.to_string())
}

fn missing(name: &str) -> ErrorObject {
    ErrorObject::new(ErrorCode::InvalidParams, format!("missing `{name}`"))
}

fn listen(request: &Request<'_>, exchange: &Exchange) -> RouteResult {
    let params: ListenParams = raise(request, exchange)?;
    let mut uris = params.notifications.resource_subscriptions.iter().flatten();
    if uris.clone().count() > MAX_SUBSCRIBED_URIS {
        let message = format!("too many resource subscriptions: at most {MAX_SUBSCRIBED_URIS} per stream");
        return Err(ErrorObject::new(ErrorCode::InvalidParams, message));
    }
    uris.try_for_each(|uri| check_uri(uri))?;
    Ok(Route::Listen(params.notifications))
}

fn set_level(request: &Request<'_>, exchange: &Exchange) -> RouteResult {
    let params: SetLevelParams = raise(request, exchange)?;
    if let LogLevel::Other(level) = &params.level {
        return Err(ErrorObject::new(ErrorCode::InvalidParams, format!("unknown log level `{level}`")));
    }
    if let Some(legacy) = &exchange.legacy {
        legacy.connection.lock().log_level = Some(params.level);
    }
    Ok(Route::Reply(Reply::Empty))
}

fn subscribe(request: &Request<'_>, exchange: &Exchange, is_subscribe: bool) -> RouteResult {
    let params: SubscribeParams = raise(request, exchange)?;
    check_uri(&params.uri)?;
    if let Some(legacy) = &exchange.legacy {
        let subscribed = &mut legacy.connection.lock().subscribed;
        if is_subscribe {
            subscribed.insert(params.uri).map_err(|why| ErrorObject::new(ErrorCode::InternalError, why))?;
        } else {
            subscribed.remove(&params.uri);
        }
    }
    Ok(Route::Reply(Reply::Empty))
}

/// Returns an error for a URI that is too long.
fn check_uri(uri: &str) -> Result<(), ErrorObject> {
    if uri.len() <= MAX_URI {
        return Ok(());
    }
    let message = format!("URI too long: {} bytes, limit {MAX_URI}", uri.len());
    Err(ErrorObject::new(ErrorCode::InvalidParams, message))
}
