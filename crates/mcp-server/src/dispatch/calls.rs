//! Requests that are served by a handler: tools, prompts, resources and completion.

use std::borrow::Cow;
use std::sync::Arc;

use mcp_protocol::Json;
use mcp_protocol::completion::{CompleteParams, CompletionReference};
use mcp_protocol::errors::{ErrorCode, ErrorObject};
#[cfg(feature = "http")]
use mcp_protocol::messages::{Incoming, Message, Method};
use mcp_protocol::messages::{Request, TimeToLive};
#[cfg(feature = "http")]
use mcp_protocol::oauth::scopes::Scopes;
use mcp_protocol::prompts::{GetPromptParams, PromptArgument};

use super::call_builder::CallBuilder;
use super::core::Core;
use super::observed::CallObservation;
use super::params::{check_uri, invalid, member, missing, raise};
use super::router::{RequestAction, RouteResult};
use super::run::{CallFuture, FunctionFuture, catch_panic};
use crate::call::BoxFuture;
use crate::call::approval;
use crate::call::context::Requester;
use crate::call::hook::{Next, Outcome, before};
#[cfg(feature = "http")]
use crate::call::identity::Identity;
use crate::call::reply::Reply;
use crate::offer::completion::CompletionRequest;
use crate::offer::prompt_args::PromptArguments;
use crate::offer::registry::{ResourceMatch, Snapshot};
use crate::offer::resource::ReadRequest;
use crate::offer::tool::ToolEntry;

impl Core {
    pub(super) fn call_tool(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        request: &Request<'_>,
        requester: &Requester,
    ) -> RouteResult {
        let name = member::<Cow<'_, str>>(request, "name")?.ok_or_else(|| missing("name"))?;
        let arguments = match request.params.member("arguments").map_err(invalid)? {
            None | Some("null") => "{}",
            Some(text) if text.starts_with('{') => text,
            Some(_) => {
                return Err(ErrorObject::new(ErrorCode::InvalidParams, "`arguments` must be an object"));
            }
        };
        let Some(tool) = snapshot.tools.get(&name) else {
            return Err(ErrorObject::new(ErrorCode::InvalidParams, format!("unknown tool `{name}`")));
        };
        #[cfg(feature = "http")]
        if let Err(needed) = requester.identity.check_scopes(&tool.scopes) {
            return Ok(RequestAction::Reply(Reply::InsufficientScope(needed)));
        }
        let mut call = CallBuilder::new(self, request, Arc::clone(&tool.name), arguments, requester)?;
        if !self.hooks.is_empty() || tool.needs_approval {
            return self.start_hooked(call, self.tool_after_hooks(tool, arguments));
        }
        Ok(match self.start_watched(&tool.name, || tool.start(arguments, &mut || call.context())) {
            Ok(future) => self.run_action(FunctionFuture::Tool(future), call),
            Err(reply) => RequestAction::Reply(reply),
        })
    }

    /// Returns all scopes that a message needs, or a message of a batch, if the caller lacks some of them.
    #[cfg(feature = "http")]
    pub(crate) fn lacking_scopes(&self, incoming: &Incoming<'_>, identity: &Identity) -> Option<Scopes> {
        let lacking = |message: &Message<'_>| {
            let Message::Request(request) = message else { return None };
            if request.method != Method::ToolsCall {
                return None;
            }
            // A request without a name is refused when it is routed.
            let name = member::<Cow<'_, str>>(request, "name").ok()??;
            identity.check_scopes(&self.registry.snapshot().tools.get(&name)?.scopes).err()
        };
        match incoming {
            Incoming::Message(message) => lacking(message),
            Incoming::Batch(batch) => {
                let lacking = batch.messages().flatten().filter_map(|message| lacking(&message));
                lacking.reduce(|one, other| one.union(&other))
            }
        }
    }

    /// Returns the innermost `Next` of a tool: approval if needed, then the handler.
    fn tool_after_hooks(self: &Arc<Self>, tool: &Arc<ToolEntry>, arguments: &str) -> Next {
        let (core, tool, arguments) = (Arc::clone(self), Arc::clone(tool), Box::<str>::from(arguments));
        Box::new(move |context| {
            Box::pin(async move {
                if !tool.needs_approval {
                    return Ok(Outcome::Tool(tool.start(&arguments, &mut || context.clone()).await?));
                }
                tool.check(&arguments)?;
                // The person sees the same canonical form that the handler gets: without whitespace and duplicate
                // members.
                let arguments = arguments.parse::<Json>()?.canonical()?;
                approval::wait_for(&context, &arguments, core.approver.as_deref()).await?;
                Ok(Outcome::Tool(tool.start(arguments.get(), &mut || context.clone()).await?))
            })
        })
    }

    /// Starts a call under the watchdog. If the handler panics before it returns its future, only this call fails.
    fn start_watched<T>(
        &self,
        name: &Arc<str>,
        start: impl FnOnce() -> BoxFuture<T>,
    ) -> Result<BoxFuture<T>, Reply> {
        catch_panic(name, || self.watchdog.watch(name, start))
    }

    /// Starts a call: the hooks of the server run first, then `next`.
    fn start_hooked(self: &Arc<Self>, mut call: CallBuilder<'_>, next: Next) -> RouteResult {
        let arguments: Json = call.arguments.parse().map_err(invalid)?;
        let next = self.hooks.iter().rev().fold(next, |next, hook| before(hook, &arguments, next));
        let (context, method) = (call.context(), call.request.method.clone());
        let name = Arc::clone(&call.name);
        Ok(match self.start_watched(&name, || next(context)) {
            Ok(future) => self.run_action(FunctionFuture::Hooked(future, method), call),
            Err(reply) => RequestAction::Reply(reply),
        })
    }

    pub(super) fn get_prompt(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        request: &Request<'_>,
        requester: &Requester,
    ) -> RouteResult {
        let params: GetPromptParams = raise(request, requester)?;
        let Some(prompt) = snapshot.prompts.get(&params.name) else {
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
        let call = CallBuilder::new(self, request, params.name.into(), text, requester)?;
        let prompt = Arc::clone(prompt);
        let next: Next = Box::new(move |context| {
            let future = (prompt.get)(PromptArguments(arguments), context);
            Box::pin(async move {
                let mut result = future.await?;
                result.description = result.description.or_else(|| prompt.definition.description.clone());
                Ok(Outcome::Prompt(result))
            })
        });
        self.start_hooked(call, next)
    }

    pub(super) fn read_resource(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        request: &Request<'_>,
        requester: &Requester,
    ) -> RouteResult {
        let uri: String = member(request, "uri")?.ok_or_else(|| missing("uri"))?;
        check_uri(&uri)?;
        let found = snapshot.find_resource(&uri).ok_or_else(|| ErrorObject::resource_not_found(&uri))?;
        let call = CallBuilder::new(self, request, uri.as_str().into(), "{}", requester)?;
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
        self.start_hooked(call, next)
    }

    pub(super) fn complete(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        request: &Request<'_>,
        requester: &Requester,
    ) -> RouteResult {
        let params: CompleteParams = raise(request, requester)?;
        let unknown = |what: String| Err(ErrorObject::new(ErrorCode::InvalidParams, what));
        let completers = match &params.reference {
            CompletionReference::Prompt(prompt) => match snapshot.prompts.get(&prompt.name) {
                Some(entry) => entry.completers.get(&params.argument.name),
                None => return unknown(format!("unknown prompt `{}`", prompt.name)),
            },
            CompletionReference::Resource(template) => match snapshot.templates.get(&template.uri) {
                Some(entry) => entry.completers.get(&params.argument.name),
                None => return unknown(format!("unknown resource template `{}`", template.uri)),
            },
            _ => return unknown("unknown `ref` type; use `ref/prompt` or `ref/resource`".to_owned()),
        };
        let mut call = CallBuilder::new(self, request, params.argument.name.into(), "{}", requester)?;
        let arguments = params.context.and_then(|context| context.arguments).unwrap_or_default();
        let completion = CompletionRequest { value: params.argument.value, arguments };
        let Some(complete) = completers else {
            let none = Box::pin(std::future::ready(Vec::new()));
            return Ok(self.run_action(FunctionFuture::Complete(none), call));
        };
        let context = call.context();
        let name = Arc::clone(&call.name);
        Ok(match self.start_watched(&name, || complete(completion, context)) {
            Ok(future) => self.run_action(FunctionFuture::Complete(future), call),
            Err(reply) => RequestAction::Reply(reply),
        })
    }

    fn run_action(self: &Arc<Self>, handler: FunctionFuture, call: CallBuilder<'_>) -> RequestAction {
        let span = call.span();
        let observation = CallObservation::begin(self, call.request, Some(&call.name));
        RequestAction::Run(Box::new(CallFuture::new(
            handler,
            call.context,
            call.dialect,
            Arc::clone(self),
            call.name,
            span,
            observation,
        )))
    }
}
