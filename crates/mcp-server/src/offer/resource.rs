//! Resources and resource templates: a definition, and the function that reads the contents.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mcp_protocol::messages::CacheScope;
use mcp_protocol::resources::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource, ResourceContents,
    ResourceTemplate,
};

use crate::call::BoxFuture;
use crate::call::context::Context;
use crate::error::{BoxError, ToolError};
use crate::offer::completion::{Completers, CompletionRequest};
use crate::offer::handler::{Handler, NoArgs};
use crate::offer::registry::{CacheHint, list_entry};
use crate::offer::template::UriTemplate;

/// A function that reads a resource.
type ResourceFn =
    dyn Fn(ReadRequest, Context) -> BoxFuture<Result<ReadResourceResult, ToolError>> + Send + Sync;

/// A resource and the function that reads it. Created by [`resource`].
pub struct ServedResource(pub(crate) ResourceEntry);

/// A resource template and the function that reads the resources it matches. Created by [`resource_template`].
pub struct ServedTemplate(pub(crate) Result<TemplateEntry, String>);

/// A resource in the registry.
pub(crate) struct ResourceEntry {
    pub(crate) definition: Resource,
    pub(crate) read: Arc<ResourceFn>,
    pub(crate) cache: CacheHint,
}

/// A resource template in the registry.
pub(crate) struct TemplateEntry {
    pub(crate) definition: ResourceTemplate,
    pub(crate) template: UriTemplate,
    pub(crate) read: Arc<ResourceFn>,
    pub(crate) completers: Completers,
    pub(crate) cache: CacheHint,
}

/// Creates a resource from a definition and an async function that reads its contents.
///
/// ```
/// use mcp_protocol::resources::Resource;
/// use mcp_server::resource;
///
/// let motd = Resource::new("motd://today", "motd").mime_type("text/plain");
/// let motd = resource(motd, || async { "Be kind." });
/// ```
pub fn resource<S, F>(definition: Resource, function: F) -> ServedResource
where
    F: Handler<S>,
    F::Args: ReadArgs,
    F::Output: IntoContents,
    F::Future: Send + 'static,
{
    let read = reader(definition.mime_type.clone(), function);
    ServedResource(ResourceEntry { definition, read, cache: CacheHint::default() })
}

/// Creates a resource template from a definition and an async function that reads the contents. The URI template (RFC
/// 6570) may contain `{name}`, `{+name}`, `{/name}`, `{?name,…}` and `{&name,…}`.
///
/// A server does not start with a template that has other expressions, and a [`Registry`](crate::Registry) refuses it.
///
/// ```
/// use mcp_protocol::resources::ResourceTemplate;
/// use mcp_server::{ReadRequest, resource_template};
///
/// let row = ResourceTemplate::new("db://{table}/{id}", "row");
/// let row = resource_template(row, |request: ReadRequest| async move {
///     format!("row {} of {}", request.variable("id"), request.variable("table"))
/// });
/// ```
pub fn resource_template<S, F>(definition: ResourceTemplate, function: F) -> ServedTemplate
where
    F: Handler<S>,
    F::Args: ReadArgs,
    F::Output: IntoContents,
    F::Future: Send + 'static,
{
    let read = reader(definition.mime_type.clone(), function);
    let template = UriTemplate::parse(&definition.uri_template);
    ServedTemplate(template.map(|template| TemplateEntry {
        definition,
        template,
        read,
        completers: Completers::default(),
        cache: CacheHint::default(),
    }))
}

/// Returns an error for text that is not an absolute URI: a scheme, `:`, and more text without whitespace or control
/// characters.
pub(crate) fn check_resource_uri(uri: &str) -> Result<(), String> {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    };
    match uri.split_once(':') {
        Some((scheme, rest))
            if is_scheme(scheme)
                && !rest.is_empty()
                && !rest.contains(|c: char| c.is_whitespace() || c.is_control()) =>
        {
            Ok(())
        }
        _ => Err(format!(
            "invalid resource URI `{uri}`: use a scheme, as in `notes://today`, and no whitespace"
        )),
    }
}

fn reader<S, F>(mime_type: Option<String>, function: F) -> Arc<ResourceFn>
where
    F: Handler<S>,
    F::Args: ReadArgs,
    F::Output: IntoContents,
    F::Future: Send + 'static,
{
    Arc::new(move |request: ReadRequest, cx: Context| {
        let defaults = ContentDefaults { uri: request.uri.clone(), mime_type: mime_type.clone() };
        let future = function.call(F::Args::from_call(request, &cx), || cx.clone());
        Box::pin(async move {
            Ok(ReadResourceResult::new(cx.restore_question(future.await.into_contents(&defaults))?))
        })
    })
}

impl ServedResource {
    /// Sets how long clients may cache the contents, and whether caches may share them between clients. Default: no
    /// caching.
    #[must_use]
    pub fn cache(mut self, ttl: Duration, scope: CacheScope) -> Self {
        self.0.cache = hint(ttl, scope);
        self
    }
}

impl ServedTemplate {
    /// Sets how long clients may cache the contents, and whether caches may share them between clients. Default: no
    /// caching.
    #[must_use]
    pub fn cache(mut self, ttl: Duration, scope: CacheScope) -> Self {
        if let Ok(entry) = &mut self.0 {
            entry.cache = hint(ttl, scope);
        }
        self
    }

    /// Adds a function that completes the values of one variable. Clients get at most the first 100 values that it
    /// returns.
    #[doc(alias = "completion")]
    #[doc(alias = "completion/complete")]
    #[must_use]
    pub fn complete<S, F>(mut self, variable: impl Into<String>, function: F) -> Self
    where
        F: Handler<S, Args = CompletionRequest>,
        F::Output: IntoIterator<Item: Into<String>>,
        F::Future: Send + 'static,
    {
        if let Ok(entry) = &mut self.0 {
            entry.completers.add(variable.into(), function);
        }
        self
    }
}

pub(crate) fn hint(ttl: Duration, scope: CacheScope) -> CacheHint {
    CacheHint { ttl_ms: u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX), scope }
}

impl fmt::Debug for ServedResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServedResource").field(&self.0.definition).finish()
    }
}

impl fmt::Debug for ServedTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServedTemplate").field(&self.0.as_ref().map(|entry| &entry.definition)).finish()
    }
}

list_entry! { ResourceEntry by uri in ListResourcesResult }

list_entry! { TemplateEntry by uri_template in ListResourceTemplatesResult }

/// A `resources/read` request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadRequest {
    /// The URI as the client sent it.
    pub uri: String,
    /// The variables of the template with their percent-decoded values; empty for a resource without a template.
    pub variables: Vec<(String, String)>,
}

impl ReadRequest {
    /// Returns the value of a variable, or empty text if the URI does not contain it.
    #[must_use]
    pub fn variable(&self, name: &str) -> &str {
        self.variables.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

/// An argument type of a resource function: [`ReadRequest`], [`NoArgs`], or [`Context`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the argument of a resource",
    label = "use `ReadRequest`, which has the URI and the variables of the template"
)]
pub trait ReadArgs: Sized + Send + 'static {
    /// Returns the argument of the function.
    #[doc(hidden)]
    fn from_call(request: ReadRequest, context: &Context) -> Self;
}

impl ReadArgs for ReadRequest {
    fn from_call(request: ReadRequest, _: &Context) -> Self {
        request
    }
}

impl ReadArgs for NoArgs {
    fn from_call(_: ReadRequest, _: &Context) -> Self {
        Self
    }
}

impl ReadArgs for Context {
    fn from_call(_: ReadRequest, context: &Context) -> Self {
        context.clone()
    }
}

/// The URI and media type that text and bytes get when they are converted into [`ResourceContents`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ContentDefaults {
    /// The URI that was read.
    pub uri: String,
    /// The media type in the definition of the resource or template.
    pub mime_type: Option<String>,
}

/// A return type of a resource function: text, bytes, contents, or a `Result` of these.
#[diagnostic::on_unimplemented(
    message = "a resource cannot return `{Self}`",
    label = "return text, bytes, `Vec<ResourceContents>`, or a `Result` of these"
)]
pub trait IntoContents {
    /// Converts the value into contents on the wire.
    ///
    /// # Errors
    /// Fails if the value is an error.
    fn into_contents(self, defaults: &ContentDefaults) -> Result<Vec<ResourceContents>, ToolError>;
}

impl IntoContents for Vec<ResourceContents> {
    fn into_contents(self, _: &ContentDefaults) -> Result<Vec<ResourceContents>, ToolError> {
        Ok(self)
    }
}

impl IntoContents for ResourceContents {
    fn into_contents(self, _: &ContentDefaults) -> Result<Vec<ResourceContents>, ToolError> {
        Ok(vec![self])
    }
}

impl IntoContents for String {
    fn into_contents(self, defaults: &ContentDefaults) -> Result<Vec<ResourceContents>, ToolError> {
        let mut contents = ResourceContents::new(defaults.uri.clone()).text(self);
        contents.mime_type.clone_from(&defaults.mime_type);
        Ok(vec![contents])
    }
}

impl IntoContents for &'static str {
    fn into_contents(self, defaults: &ContentDefaults) -> Result<Vec<ResourceContents>, ToolError> {
        self.to_owned().into_contents(defaults)
    }
}

impl IntoContents for Vec<u8> {
    fn into_contents(self, defaults: &ContentDefaults) -> Result<Vec<ResourceContents>, ToolError> {
        let mut contents = ResourceContents::new(defaults.uri.clone()).blob(STANDARD.encode(self));
        contents.mime_type.clone_from(&defaults.mime_type);
        Ok(vec![contents])
    }
}

impl<T: IntoContents, E: Into<BoxError>> IntoContents for Result<T, E> {
    fn into_contents(self, defaults: &ContentDefaults) -> Result<Vec<ResourceContents>, ToolError> {
        self.map_err(ToolError::from_boxed)?.into_contents(defaults)
    }
}
