//! Handlers that are methods of shared state.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use mcp_protocol::prompts::Prompt;
use mcp_protocol::resources::{Resource, ResourceTemplate};

use crate::call::BoxFuture;
use crate::call::context::Context;
use crate::offer::handler::{Handler, NoArgs, ToolArgs};
use crate::offer::outcome::IntoOutcome;
use crate::offer::prompt::{IntoPrompt, ServedPrompt, prompt};
use crate::offer::prompt_args::PromptArgs;
use crate::offer::resource::{
    IntoContents, ReadArgs, ServedResource, ServedTemplate, resource, resource_template,
};
use crate::offer::tool::{Tool, tool};

/// Shares a value between handlers. Its async methods with `&self` can become tools, resources and prompts.
///
/// ```
/// use std::sync::Mutex;
/// use mcp_server::{McpServer, state};
///
/// #[derive(Default)]
/// struct Tasks(Mutex<Vec<String>>);
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct NewTask { title: String }
///
/// impl Tasks {
///     async fn add(&self, NewTask { title }: NewTask) -> Result<String, String> {
///         if title.is_empty() {
///             return Err("the title is empty".to_owned());
///         }
///         let mut tasks = self.0.lock().unwrap();
///         tasks.push(title);
///         Ok(format!("{} tasks", tasks.len()))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let tasks = state(Tasks::default());
/// let server = McpServer::named("tasks", "1")
///     .tool(tasks.tool("add_task", Tasks::add).description("Adds a task."));
/// let mut client = mcp_server::testing::RawClient::new(server)?;
/// let call = serde_json::json!({"name": "add_task", "arguments": {"title": "Shop"}});
/// let response = client.request("tools/call", call).await?;
/// assert_eq!(response["result"]["content"][0]["text"], "1 tasks");
/// # Ok(()) }
/// ```
pub fn state<T: Send + Sync + 'static>(value: T) -> SharedState<T> {
    SharedState(Arc::new(value))
}

/// A value that handlers share. Created by [`state`], cheap to clone, and dereferences to the value.
pub struct SharedState<T>(Arc<T>);

impl<T: Send + Sync + 'static> SharedState<T> {
    /// Creates a tool from a method: like [`tool`], with the shared value as `&self`.
    pub fn tool<S, F>(&self, name: impl Into<String>, method: F) -> Tool
    where
        BoundMethod<T, F>: Handler<MethodShape<S>>,
        <BoundMethod<T, F> as Handler<MethodShape<S>>>::Args: ToolArgs,
        <BoundMethod<T, F> as Handler<MethodShape<S>>>::Output: IntoOutcome,
        <BoundMethod<T, F> as Handler<MethodShape<S>>>::Future: Send + 'static,
    {
        tool(name, self.bind(method))
    }

    /// Creates a resource from a method: like [`resource`], with the shared value as `&self`.
    pub fn resource<S, F>(&self, definition: Resource, method: F) -> ServedResource
    where
        BoundMethod<T, F>: Handler<MethodShape<S>>,
        <BoundMethod<T, F> as Handler<MethodShape<S>>>::Args: ReadArgs,
        <BoundMethod<T, F> as Handler<MethodShape<S>>>::Output: IntoContents,
        <BoundMethod<T, F> as Handler<MethodShape<S>>>::Future: Send + 'static,
    {
        resource(definition, self.bind(method))
    }

    /// Creates a resource template from a method: like [`resource_template`], with the shared value as `&self`.
    pub fn resource_template<S, F>(&self, definition: ResourceTemplate, method: F) -> ServedTemplate
    where
        BoundMethod<T, F>: Handler<MethodShape<S>>,
        <BoundMethod<T, F> as Handler<MethodShape<S>>>::Args: ReadArgs,
        <BoundMethod<T, F> as Handler<MethodShape<S>>>::Output: IntoContents,
        <BoundMethod<T, F> as Handler<MethodShape<S>>>::Future: Send + 'static,
    {
        resource_template(definition, self.bind(method))
    }

    /// Creates a prompt from a method: like [`prompt`], with the shared value as `&self`.
    pub fn prompt<S, F>(&self, definition: impl Into<Prompt>, method: F) -> ServedPrompt
    where
        BoundMethod<T, F>: Handler<MethodShape<S>>,
        <BoundMethod<T, F> as Handler<MethodShape<S>>>::Args: PromptArgs,
        <BoundMethod<T, F> as Handler<MethodShape<S>>>::Output: IntoPrompt,
        <BoundMethod<T, F> as Handler<MethodShape<S>>>::Future: Send + 'static,
    {
        prompt(definition, self.bind(method))
    }

    /// Binds a method to the value. The result is a [`Handler`], for functions that take one, such as
    /// [`ServedPrompt::complete`].
    pub fn bind<F>(&self, method: F) -> BoundMethod<T, F> {
        BoundMethod { state: Arc::clone(&self.0), method: Arc::new(method) }
    }
}

/// Shares a value that other parts of the program also use.
impl<T> From<Arc<T>> for SharedState<T> {
    fn from(value: Arc<T>) -> Self {
        Self(value)
    }
}

impl<T> Clone for SharedState<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for SharedState<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for SharedState<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedState").field(&self.0).finish()
    }
}

/// A method bound to the value of a [`SharedState`]. Created by [`SharedState::bind`].
pub struct BoundMethod<T, F> {
    state: Arc<T>,
    method: Arc<F>,
}

impl<T, F> fmt::Debug for BoundMethod<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundMethod").finish_non_exhaustive()
    }
}

/// The `Shape` of [`Handler`] for methods of shared state. It only distinguishes the implementations for the compiler;
/// programs never name it.
#[derive(Debug)]
pub struct MethodShape<Shape>(PhantomData<Shape>);

/// An async method of `T`. This trait is needed because an `Fn` bound cannot name a future type that depends on the
/// lifetime of the borrow. It does not require `Send`: the compiler checks that separately, and then names the value
/// that is not `Send`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an async method of `{T}` that can serve calls",
    label = "expected `async fn(&self) -> R`, `async fn(&self, Args) -> R` or `async fn(&self, Args, Context) -> R`",
    note = "the method must be async and take `&self`, not `&mut self`"
)]
pub trait AsyncMethod<'a, T, Args>: Send + Sync + 'static {
    /// The return type of the method.
    type Output;
    /// The future returned by the method.
    type Future: Future<Output = Self::Output> + 'a;

    /// Calls the method.
    fn call(&self, state: &'a T, args: Args) -> Self::Future;
}

impl<'a, T: 'a, F, Fut> AsyncMethod<'a, T, ()> for F
where
    F: Fn(&'a T) -> Fut + Send + Sync + 'static,
    Fut: Future + 'a,
{
    type Output = Fut::Output;
    type Future = Fut;

    fn call(&self, state: &'a T, (): ()) -> Fut {
        self(state)
    }
}

impl<'a, T: 'a, A, F, Fut> AsyncMethod<'a, T, (A,)> for F
where
    F: Fn(&'a T, A) -> Fut + Send + Sync + 'static,
    Fut: Future + 'a,
{
    type Output = Fut::Output;
    type Future = Fut;

    fn call(&self, state: &'a T, (args,): (A,)) -> Fut {
        self(state, args)
    }
}

impl<'a, T: 'a, A, F, Fut> AsyncMethod<'a, T, (A, Context)> for F
where
    F: Fn(&'a T, A, Context) -> Fut + Send + Sync + 'static,
    Fut: Future + 'a,
{
    type Output = Fut::Output;
    type Future = Fut;

    fn call(&self, state: &'a T, (args, cx): (A, Context)) -> Fut {
        self(state, args, cx)
    }
}

/// The parameters of an [`AsyncMethod`] after `&self`.
#[doc(hidden)]
pub trait MethodParams: Send + 'static {
    /// The type of the arguments.
    type Args;

    /// Returns the parameters. The context is created only for a method that takes one.
    fn new(args: Self::Args, context: impl FnOnce() -> Context) -> Self;
}

impl MethodParams for () {
    type Args = NoArgs;

    fn new(_: NoArgs, _: impl FnOnce() -> Context) {}
}

impl<A: Send + 'static> MethodParams for (A,) {
    type Args = A;

    fn new(args: A, _: impl FnOnce() -> Context) -> Self {
        (args,)
    }
}

impl<A: Send + 'static> MethodParams for (A, Context) {
    type Args = A;

    fn new(args: A, context: impl FnOnce() -> Context) -> Self {
        (args, context())
    }
}

/// The only implementation for methods: with several, the compiler would report that none of them applies, instead of
/// the bound that is not met.
impl<T, F, P, R> Handler<MethodShape<(P, R)>> for BoundMethod<T, F>
where
    T: Send + Sync + 'static,
    F: for<'a> AsyncMethod<'a, T, P, Output = R, Future: Send>,
    P: MethodParams,
    R: 'static,
{
    type Args = P::Args;
    type Output = R;
    type Future = BoxFuture<R>;

    fn call(&self, args: P::Args, context: impl FnOnce() -> Context) -> BoxFuture<R> {
        let (state, method, params) =
            (Arc::clone(&self.state), Arc::clone(&self.method), P::new(args, context));
        Box::pin(async move { method.call(&state, params).await })
    }
}
