//! What a host answers when a server asks: one path for both eras.
//!
//! In the legacy era a server sends a request of its own, in the modern one a result that says what it needs. Both end
//! in [`Handlers::answer`].

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mcp_protocol::Json;
use mcp_protocol::capabilities::{
    ClientCapabilities, ElicitationCapability, RootsCapability, SamplingCapability,
};
use mcp_protocol::elicitation::{
    ElicitAction, ElicitFormParams, ElicitParams, ElicitResult, ElicitUrlParams,
};
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::input::{Ask, InputResponse};
use mcp_protocol::messages::Method;
use mcp_protocol::roots::{ListRootsResult, Root};
use mcp_protocol::sampling::{CreateMessageParams, CreateMessageResult};

type Answering<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Handler<P, T> = Arc<dyn Fn(ServerRequest<P>) -> Answering<T> + Send + Sync>;

/// Something a server asks, with the name of the one who asks.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerRequest<P> {
    /// What the server calls itself. Self-reported: show it, and beside it what was started.
    pub server: String,
    /// What it wants. Untrusted: neutralise it before it is shown, for example with
    /// [`Visible`](mcp_protocol::visible::Visible).
    pub params: P,
}

/// A host's answers to what servers ask. What has no handler is not declared, and refused politely.
///
/// ```
/// use mcp_client::{ServerRequest, Handlers};
/// use mcp_client::protocol::elicitation::{ElicitFormParams, ElicitResult};
///
/// let handlers = Handlers::new().on_form(async |asked: ServerRequest<ElicitFormParams>| {
///     println!("{} asks: {}", asked.server, asked.params.message);
///     ElicitResult::decline()
/// });
/// assert!(handlers.capabilities().elicitation.unwrap().has_form());
/// ```
#[derive(Clone)]
pub struct Handlers {
    form: Option<Handler<ElicitFormParams, ElicitResult>>,
    url: Option<Handler<ElicitUrlParams, ElicitResult>>,
    sample: Option<Handler<CreateMessageParams, Result<CreateMessageResult, ErrorObject>>>,
    sampling: SamplingCapability,
    roots: Option<Handler<(), Vec<Root>>>,
    patience: Duration,
}

impl Default for Handlers {
    fn default() -> Self {
        Self {
            form: None,
            url: None,
            sample: None,
            sampling: SamplingCapability::new(),
            roots: None,
            patience: Duration::from_secs(600),
        }
    }
}

impl Handlers {
    /// No answers yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers forms. What the person leaves out is filled with the form's defaults, and an answer that does not fit the
    /// form is not sent.
    #[must_use]
    pub fn on_form<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(ServerRequest<ElicitFormParams>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ElicitResult> + Send + 'static,
    {
        self.form = Some(Arc::new(move |asked| Box::pin(handler(asked))));
        self
    }

    /// Answers requests to open a page. Show the whole URL, open it only with consent, and never fetch it.
    #[must_use]
    pub fn on_url<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(ServerRequest<ElicitUrlParams>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ElicitResult> + Send + 'static,
    {
        self.url = Some(Arc::new(move |asked| Box::pin(handler(asked))));
        self
    }

    /// Answers requests to the host's language model.
    #[must_use]
    pub fn on_sample<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(ServerRequest<CreateMessageParams>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<CreateMessageResult, ErrorObject>> + Send + 'static,
    {
        self.sample = Some(Arc::new(move |asked| Box::pin(handler(asked))));
        self
    }

    /// Declares that the language model can be given tools.
    #[must_use]
    pub fn sample_with_tools(mut self) -> Self {
        self.sampling = self.sampling.tools(Json::object());
        self
    }

    /// Tells the folders the host works in.
    #[must_use]
    pub fn on_roots<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Vec<Root>> + Send + 'static,
    {
        self.roots = Some(Arc::new(move |_| Box::pin(handler())));
        self
    }

    /// Sets how long an answer may take. Default: ten minutes. The clocks of the call stand still meanwhile.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// What is declared: what there are handlers for, and nothing else.
    #[must_use]
    pub fn capabilities(&self) -> ClientCapabilities {
        let mut capabilities = ClientCapabilities::new();
        if self.form.is_some() || self.url.is_some() {
            let mut elicitation = ElicitationCapability::new();
            if self.form.is_some() {
                elicitation = elicitation.form(Json::object());
            }
            if self.url.is_some() {
                elicitation = elicitation.url(Json::object());
            }
            capabilities = capabilities.elicitation(elicitation);
        }
        if self.sample.is_some() {
            capabilities = capabilities.sampling(self.sampling.clone());
        }
        if self.roots.is_some() {
            capabilities = capabilities.roots(RootsCapability::new().list_changed(true));
        }
        capabilities
    }

    /// True if there is a handler for this request of a legacy server.
    pub(crate) fn offers(&self, method: &Method) -> bool {
        match method {
            Method::Elicit => self.form.is_some() || self.url.is_some(),
            Method::CreateMessage => self.sample.is_some(),
            Method::RootsList => self.roots.is_some(),
            _ => false,
        }
    }

    pub(crate) fn time(&self) -> Duration {
        self.patience
    }

    /// The answer to what a server asks, or why it gets none.
    pub(crate) async fn answer(&self, server: String, ask: Ask) -> Result<InputResponse, ErrorObject> {
        match ask {
            Ask::Elicit(ElicitParams::Form(params)) => {
                let Some(handler) = &self.form else { return Err(undeclared("forms")) };
                let form = params.requested_schema.clone();
                let mut answer = handler(ServerRequest { server, params }).await;
                if answer.action == ElicitAction::Accept {
                    let content = answer.content.get_or_insert_default();
                    form.fill_defaults(content);
                    form.check(content).map_err(|problem| {
                        ErrorObject::new(
                            ErrorCode::InternalError,
                            format!("the answer does not fit: {problem}"),
                        )
                    })?;
                }
                Ok(InputResponse::Elicit(answer))
            }
            Ask::Elicit(ElicitParams::Url(params)) => {
                let Some(handler) = &self.url else { return Err(undeclared("pages to open")) };
                Ok(InputResponse::Elicit(handler(ServerRequest { server, params }).await))
            }
            Ask::CreateMessage(params) => {
                let Some(handler) = &self.sample else { return Err(unknown("sampling/createMessage")) };
                if params.tools.is_some() && self.sampling.tools.is_none() {
                    return Err(undeclared("sampling with tools"));
                }
                let result = handler(ServerRequest { server, params: *params }).await?;
                Ok(InputResponse::CreateMessage(Box::new(result)))
            }
            Ask::ListRoots(_) => {
                let Some(handler) = &self.roots else { return Err(unknown("roots/list")) };
                let roots = handler(ServerRequest { server, params: () }).await;
                Ok(InputResponse::ListRoots(ListRootsResult::new(roots)))
            }
            Ask::Unknown { method, .. } => Err(unknown(&method)),
            _ => Err(unknown("this")),
        }
    }

    /// [`answer`](Self::answer), for as long as a person may take.
    pub(crate) async fn answer_in_time(
        &self,
        server: String,
        ask: Ask,
    ) -> Result<InputResponse, ErrorObject> {
        match tokio::time::timeout(self.patience, self.answer(server, ask)).await {
            Ok(answer) => answer,
            Err(_) => Err(ErrorObject::new(ErrorCode::InternalError, "nobody answered in time")),
        }
    }
}

fn undeclared(what: &str) -> ErrorObject {
    ErrorObject::new(ErrorCode::InvalidParams, format!("this client did not declare {what}"))
}

fn unknown(method: &str) -> ErrorObject {
    ErrorObject::new(ErrorCode::MethodNotFound, format!("this client does not support `{method}`"))
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers").field("capabilities", &self.capabilities()).finish_non_exhaustive()
    }
}
