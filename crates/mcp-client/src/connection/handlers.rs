//! The host's handlers for requests from a server: elicitation, sampling and roots, in both eras.
//!
//! A legacy server sends a request; a modern server returns a result that lists the input it needs.
//! [`Handlers::answer`] handles both.

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

type HandlerFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Handler<P, T> = Arc<dyn Fn(ServerRequest<P>) -> HandlerFuture<T> + Send + Sync>;

/// A request from a server to the host, with the name of the server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerRequest<P> {
    /// The name of the server, as the server reports it. It is unverified: show it together with the command or URL of
    /// the server.
    pub server: String,
    /// The params of the request. Untrusted: escape them before they are displayed, for example with
    /// [`SafeText`](mcp_protocol::safe_text::SafeText).
    pub params: P,
}

/// The host's handlers for elicitation, sampling and roots.
///
/// Only capabilities with a handler are declared to servers. A request without a handler is answered with an error.
///
/// ```
/// use mcp_client::{ServerRequest, Handlers};
/// use mcp_client::protocol::elicitation::{ElicitFormParams, ElicitResult};
/// use mcp_client::protocol::safe_text::SafeText;
///
/// let handlers = Handlers::new().on_form(async |request: ServerRequest<ElicitFormParams>| {
///     println!("{} asks: {}", SafeText::new(&request.server), SafeText::new(&request.params.message));
///     ElicitResult::decline()
/// });
/// assert!(handlers.capabilities().elicitation.unwrap().has_form());
/// ```
#[doc(alias = "elicitation")]
#[doc(alias = "sampling")]
#[doc(alias = "roots")]
#[derive(Clone)]
pub struct Handlers {
    form: Option<Handler<ElicitFormParams, ElicitResult>>,
    url: Option<Handler<ElicitUrlParams, ElicitResult>>,
    sample: Option<Handler<CreateMessageParams, Result<CreateMessageResult, ErrorObject>>>,
    sampling: SamplingCapability,
    roots: Option<Handler<(), Vec<Root>>>,
    timeout: Duration,
}

impl Default for Handlers {
    fn default() -> Self {
        Self {
            form: None,
            url: None,
            sample: None,
            sampling: SamplingCapability::new(),
            roots: None,
            timeout: Duration::from_secs(600),
        }
    }
}

impl Handlers {
    /// Creates a set that has no handlers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the handler for elicitation in form mode. Fields that the answer leaves out are filled with the defaults of
    /// the form. An answer that does not match the form is not sent; a legacy server receives an error instead, and the
    /// call to a modern server fails with [`Error::Input`](crate::Error::Input).
    ///
    /// Name of the server, message and texts of the form are untrusted: display them through
    /// [`SafeText`](mcp_protocol::safe_text::SafeText).
    #[doc(alias = "elicitation")]
    #[doc(alias = "elicitation/create")]
    #[must_use]
    pub fn on_form<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(ServerRequest<ElicitFormParams>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ElicitResult> + Send + 'static,
    {
        self.form = Some(Arc::new(move |request| Box::pin(handler(request))));
        self
    }

    /// Sets the handler for elicitation in URL mode: a request to open a web page. Show the whole URL, open it only
    /// with the person's consent, and never fetch it. `ElicitResult::accept([])` says that the person agreed.
    #[doc(alias = "elicitation")]
    #[doc(alias = "elicitation/create")]
    #[must_use]
    pub fn on_url<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(ServerRequest<ElicitUrlParams>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ElicitResult> + Send + 'static,
    {
        self.url = Some(Arc::new(move |request| Box::pin(handler(request))));
        self
    }

    /// Sets the handler for sampling: requests to the language model of the host.
    #[doc(alias = "sampling")]
    #[doc(alias = "sampling/createMessage")]
    #[must_use]
    pub fn on_sample<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(ServerRequest<CreateMessageParams>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<CreateMessageResult, ErrorObject>> + Send + 'static,
    {
        self.sample = Some(Arc::new(move |request| Box::pin(handler(request))));
        self
    }

    /// Declares that sampling requests may contain tools. Without this, such requests are refused.
    #[doc(alias = "sampling")]
    #[must_use]
    pub fn sample_with_tools(mut self) -> Self {
        self.sampling = self.sampling.tools(Json::object());
        self
    }

    /// Sets the handler for roots: the folders in which the host works.
    #[doc(alias = "roots")]
    #[doc(alias = "roots/list")]
    #[must_use]
    pub fn on_roots<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Vec<Root>> + Send + 'static,
    {
        self.roots = Some(Arc::new(move |_| Box::pin(handler())));
        self
    }

    /// Sets the timeout of each run of a handler. Default: 600 s. While a handler for elicitation or sampling runs, the
    /// timeouts of calls are paused.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Returns the capabilities that the client declares to servers: those that have a handler.
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

    /// Returns true if there is a handler for this request from a legacy server.
    pub(crate) fn offers(&self, method: &Method) -> bool {
        match method {
            Method::Elicit => self.form.is_some() || self.url.is_some(),
            Method::CreateMessage => self.sample.is_some(),
            Method::RootsList => self.roots.is_some(),
            _ => false,
        }
    }

    pub(crate) fn handler_timeout(&self) -> Duration {
        self.timeout
    }

    /// Runs the handler for a request from a server. If it fails, the `Err` variant is the JSON-RPC error with which to
    /// respond.
    pub(crate) async fn answer(&self, server: String, ask: Ask) -> Result<InputResponse, ErrorObject> {
        match ask {
            Ask::Elicit(ElicitParams::Form(params)) => {
                let Some(handler) = &self.form else { return Err(undeclared("elicitation in form mode")) };
                let form = params.requested_schema.clone();
                let mut answer = handler(ServerRequest { server, params }).await;
                if answer.action == ElicitAction::Accept {
                    let content = answer.content.get_or_insert_default();
                    form.fill_defaults(content);
                    form.check(content).map_err(|problem| {
                        ErrorObject::new(
                            ErrorCode::InternalError,
                            format!("the answer does not match the form's schema: {problem}"),
                        )
                    })?;
                }
                Ok(InputResponse::Elicit(answer))
            }
            Ask::Elicit(ElicitParams::Url(params)) => {
                let Some(handler) = &self.url else { return Err(undeclared("elicitation in URL mode")) };
                let mut answer = handler(ServerRequest { server, params }).await;
                // Only the answer to a form has content (MCP 2026-07-28, schema, `ElicitResult`).
                answer.content = None;
                Ok(InputResponse::Elicit(answer))
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
            _ => Err(unknown("this request")),
        }
    }

    /// Runs [`answer`](Self::answer) with the [`timeout`](Self::timeout) of handlers.
    pub(crate) async fn answer_in_time(
        &self,
        server: String,
        ask: Ask,
    ) -> Result<InputResponse, ErrorObject> {
        match tokio::time::timeout(self.timeout, self.answer(server, ask)).await {
            Ok(answer) => answer,
            Err(_) => {
                Err(ErrorObject::new(ErrorCode::InternalError, "timed out waiting for the handler to answer"))
            }
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
