//! A call before its handler runs: the parts of the request, and the context that is created on demand.

use std::borrow::Cow;
use std::sync::Arc;

use mcp_protocol::Dialect;
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::input::InputResponses;
use mcp_protocol::messages::{Method, Request};
use mcp_protocol::meta::Meta;
use mcp_protocol::safe_text::SafeText;

use super::core::Core;
use super::params::member;
use crate::call::context::{Context, ContextParts, Requester};
use crate::call::rounds::{Binding, Rounds};

/// A call before its handler runs. The context is created only if the handler takes one.
pub(super) struct CallBuilder<'a> {
    core: &'a Core,
    pub(super) request: &'a Request<'a>,
    pub(super) name: Arc<str>,
    pub(super) arguments: &'a str,
    pub(super) dialect: Dialect,
    requester: &'a Requester,
    /// The rounds of the call. Set if the request carries answers or state of earlier rounds; otherwise created with
    /// the context.
    rounds: Option<Rounds>,
    pub(super) context: Option<Context>,
}

impl<'a> CallBuilder<'a> {
    pub(super) fn new(
        core: &'a Core,
        request: &'a Request<'a>,
        name: Arc<str>,
        arguments: &'a str,
        requester: &'a Requester,
    ) -> Result<Self, ErrorObject> {
        let dialect = requester.dialect;
        let mut call =
            Self { core, request, name, arguments, dialect, requester, rounds: None, context: None };
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
    pub(super) fn span(&self) -> tracing::Span {
        tracing::debug_span!(
            "call",
            method = %self.request.method,
            name = %SafeText::name(&self.name),
            id = %SafeText::name(&self.request.id.to_string()),
            // Evaluated only if the span is enabled.
            traceparent = self.traceparent().map(tracing::field::display),
        )
    }

    /// Returns true if the call can ask the client in several rounds: any modern call except completion.
    fn has_rounds(&self) -> bool {
        self.dialect.is_modern() && self.request.method != Method::Complete
    }

    /// Returns the `_meta` of the request. A legacy request with an invalid `_meta` is accepted, and has none.
    fn meta(&self) -> Option<Arc<Meta>> {
        match &self.requester.legacy {
            Some(_) => self.request.params.meta().ok().flatten().map(Arc::new),
            None => self.requester.meta.clone(),
        }
    }

    fn traceparent(&self) -> Option<String> {
        self.meta()?.traceparent.as_deref().map(|trace| SafeText::name(trace).to_string())
    }

    fn binding(&self) -> Binding {
        Binding {
            principal: self.requester.identity.principal.binding().cloned(),
            method: self.request.method.clone(),
            name: Arc::clone(&self.name),
            arguments: self.arguments.into(),
        }
    }

    /// Returns the context, and creates it at the first call.
    pub(super) fn context(&mut self) -> Context {
        if let Some(context) = &self.context {
            return context.clone();
        }
        let mut rounds = self.rounds.take();
        if rounds.is_none() && self.has_rounds() {
            let store = Arc::clone(&self.core.confirmation_store);
            rounds = Rounds::new(None, None, &self.core.sealer, self.binding(), store);
        }
        let context = Context::new(ContextParts {
            id: self.request.id.clone(),
            method: self.request.method.clone(),
            name: Arc::clone(&self.name),
            requester: Requester { meta: self.meta(), ..Requester::clone(self.requester) },
            registry: self.core.registry.clone(),
            rounds,
            ask_timeout: self.core.ask_timeout,
        });
        self.context.insert(context).clone()
    }
}
