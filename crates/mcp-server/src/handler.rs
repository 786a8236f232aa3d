//! Functions that can serve: the shapes they may have, and the arguments they take.

use std::future::Future;

use mcp_protocol::Json;
use serde::de::DeserializeOwned;

use crate::context::Context;

/// An async function or closure that serves calls.
///
/// Its shape is one of `async fn()`, `async fn(Args)` and `async fn(Args, Context)`. State comes by capture or
/// through a bound method. There is no reason to implement this by hand.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot serve calls",
    label = "expected `async fn() -> R`, `async fn(Args) -> R` or `async fn(Args, Context) -> R`",
    note = "a function that is not async becomes a handler by `mcp_server::blocking`"
)]
pub trait Handler<Shape>: Send + Sync + 'static {
    /// What it takes.
    type Args;
    /// What it gives.
    type Output;
    /// How it gives it.
    type Future: Future<Output = Self::Output>;

    /// Begins one call. The context is made only for a function that takes one.
    fn call(&self, args: Self::Args, context: impl FnOnce() -> Context) -> Self::Future;
}

impl<F, Fut> Handler<()> for F
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future,
{
    type Args = NoArgs;
    type Output = Fut::Output;
    type Future = Fut;

    fn call(&self, _: NoArgs, _: impl FnOnce() -> Context) -> Fut {
        self()
    }
}

impl<F, A, Fut> Handler<(A,)> for F
where
    F: Fn(A) -> Fut + Send + Sync + 'static,
    Fut: Future,
{
    type Args = A;
    type Output = Fut::Output;
    type Future = Fut;

    fn call(&self, args: A, _: impl FnOnce() -> Context) -> Fut {
        self(args)
    }
}

impl<F, A, Fut> Handler<(A, Context)> for F
where
    F: Fn(A, Context) -> Fut + Send + Sync + 'static,
    Fut: Future,
{
    type Args = A;
    type Output = Fut::Output;
    type Future = Fut;

    fn call(&self, args: A, context: impl FnOnce() -> Context) -> Fut {
        self(args, context())
    }
}

/// What a tool takes: a type that can be read from JSON and tells its schema.
///
/// With the feature `schemars`, every type that derives `serde::Deserialize` and `schemars::JsonSchema` is one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the arguments of a tool",
    label = "derive `serde::Deserialize` and `schemars::JsonSchema` for it"
)]
pub trait ToolArgs: Sized + Send + 'static {
    /// A JSON Schema with `"type":"object"`.
    fn schema() -> Json;

    /// Reads the arguments.
    ///
    /// # Errors
    /// What is wrong with them, for the model to mend.
    fn read(text: &str) -> Result<Self, String>;
}

/// No arguments: for a function that wants a [`Context`] and nothing else.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoArgs;

impl ToolArgs for NoArgs {
    fn schema() -> Json {
        r#"{"type":"object","additionalProperties":false}"#.parse().unwrap_or_default()
    }

    fn read(_: &str) -> Result<Self, String> {
        Ok(Self)
    }
}

/// Any object, its schema given beside it: [`Tool::dynamic`](crate::Tool::dynamic).
#[cfg(not(feature = "schemars"))]
impl ToolArgs for serde_json::Value {
    fn schema() -> Json {
        r#"{"type":"object"}"#.parse().unwrap_or_default()
    }

    fn read(text: &str) -> Result<Self, String> {
        read(text)
    }
}

#[cfg(feature = "schemars")]
impl<T: DeserializeOwned + schemars::JsonSchema + Send + 'static> ToolArgs for T {
    fn schema() -> Json {
        crate::schema::of::<T>()
    }

    fn read(text: &str) -> Result<Self, String> {
        read(text)
    }
}

/// Reads a value; an error names the path of the offending field.
#[cfg(feature = "schemars")]
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| {
        // Only now, because it costs time: where was that?
        let mut again = serde_json::Deserializer::from_str(text);
        match serde_path_to_error::deserialize::<_, T>(&mut again) {
            Err(error) if error.path().iter().next().is_some() => {
                format!("`{}`: {}", error.path(), without_position(error.inner()))
            }
            _ => without_position(&error),
        }
    })
}

/// Reads a value. Without types there are no fields to name.
#[cfg(not(feature = "schemars"))]
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| without_position(&error))
}

/// The position counts from the start of the arguments, which nobody sees.
fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(message, _)| message.to_owned())
}
