//! Handlers: the supported function signatures and argument types.

use std::future::Future;

use mcp_protocol::Json;
use serde::de::DeserializeOwned;

use crate::call::context::Context;

/// An async function or closure that handles calls.
///
/// Implemented for `async fn()`, `async fn(Args)`, `async fn(Context)` and `async fn(Args, Context)`, for
/// [`blocking`](crate::blocking()) functions, and for methods of shared [`state`](crate::state). Programs do not
/// implement this trait themselves.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot serve calls",
    label = "expected `async fn() -> R`, `async fn(Args) -> R`, `async fn(Context) -> R` or `async fn(Args, Context) -> R`",
    note = "a function that is not async becomes a handler by `mcp_server::blocking`",
    note = "a method with `&self`, not `&mut self`, becomes a handler by `mcp_server::state`"
)]
pub trait Handler<Shape>: Send + Sync + 'static {
    /// The type of the arguments.
    type Args;
    /// The return type of the function.
    type Output;
    /// The future returned by the function.
    type Future: Future<Output = Self::Output>;

    /// Starts one call. The context is created only for a function that takes one.
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

/// An argument type of a tool, which can be deserialized from JSON and has a JSON Schema.
///
/// With the feature `schemars`, implemented for every type with `serde::Deserialize` and `schemars::JsonSchema`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the arguments of a tool",
    label = "derive `serde::Deserialize` and `schemars::JsonSchema` for it",
    note = "a method with `&self` becomes a tool by `state(value).tool(\"name\", Type::method)`"
)]
pub trait ToolArgs: Sized + Send + 'static {
    /// Returns the JSON Schema, with `"type":"object"`.
    fn schema() -> Json;

    /// Deserializes the arguments.
    ///
    /// # Errors
    /// Returns a description of the problem, by which the language model can correct the arguments.
    fn read(text: &str) -> Result<Self, String>;

    /// Returns the parameter of the function. Types that are not read from the arguments of the call override this.
    #[doc(hidden)]
    fn from_call(text: &str, _: &mut dyn FnMut() -> Context) -> Result<Self, String> {
        Self::read(text)
    }
}

/// The argument type of a function without arguments.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoArgs;

/// For `async fn(Context)`.
impl ToolArgs for Context {
    fn schema() -> Json {
        NoArgs::schema()
    }

    fn read(_: &str) -> Result<Self, String> {
        Err("a context is not part of the arguments".to_owned())
    }

    fn from_call(_: &str, context: &mut dyn FnMut() -> Context) -> Result<Self, String> {
        Ok(context())
    }
}

impl ToolArgs for NoArgs {
    fn schema() -> Json {
        r#"{"type":"object","additionalProperties":false}"#.parse().unwrap_or_default()
    }

    fn read(_: &str) -> Result<Self, String> {
        Ok(Self)
    }
}

/// Without the feature `schemars`, a function can take any JSON object.
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
        crate::offer::schema::of::<T>()
    }

    fn read(text: &str) -> Result<Self, String> {
        read(text)
    }
}

/// Deserializes a value. The error names the path of the invalid field.
#[cfg(feature = "schemars")]
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| {
        // Tracking the path is slow, so it is done only after an error.
        let mut again = serde_json::Deserializer::from_str(text);
        match serde_path_to_error::deserialize::<_, T>(&mut again) {
            Err(error) if error.path().iter().next().is_some() => {
                format!("`{}`: {}", error.path(), without_position(error.inner()))
            }
            _ => without_position(&error),
        }
    })
}

/// Deserializes a value. Without the feature `schemars`, errors do not name the path of the invalid field.
#[cfg(not(feature = "schemars"))]
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| without_position(&error))
}

/// Removes line and column. They refer to the extracted arguments and not to the message that the client sent.
fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(message, _)| message.to_owned())
}
