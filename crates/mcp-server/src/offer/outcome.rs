//! Return types of tools.

use std::borrow::Cow;

use mcp_protocol::Json;
use mcp_protocol::content::ContentBlock;
use mcp_protocol::tools::CallToolResult;
use serde::Serialize;

use crate::error::{BoxError, ToolError};

/// A return type of a tool function: text, `()`, content blocks, [`Image`](crate::Image), [`Audio`](crate::Audio),
/// [`Structured`] data, a whole [`CallToolResult`], or a `Result` of these.
///
/// The error of the `Result` is a [`ToolError`], any [`std::error::Error`], `Box<dyn Error + Send + Sync>`,
/// `anyhow::Error`, or text: every type that converts into `Box<dyn Error + Send + Sync>`.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    label = "return text, `Structured(value)`, content blocks, a `CallToolResult`, or a `Result` of these"
)]
pub trait IntoOutcome {
    /// Converts the value into the result on the wire.
    ///
    /// # Errors
    /// Fails if the value is an error, or cannot be serialized as JSON.
    fn into_outcome(self) -> Result<CallToolResult, ToolError>;

    /// Returns the JSON Schema of the structured content, if there is one.
    #[must_use]
    fn output_schema() -> Option<Json> {
        None
    }
}

/// Structured content as the result of a tool. The value is also sent as JSON text. The output schema of the tool is
/// derived from `T`.
#[doc(alias = "structuredContent")]
#[doc(alias = "outputSchema")]
///
/// ```
/// use mcp_server::{Structured, tool};
///
/// #[derive(serde::Serialize, schemars::JsonSchema)]
/// struct Sum { sum: i64 }
///
/// async fn add() -> Structured<Sum> {
///     Structured(Sum { sum: 2 })
/// }
/// let tool = tool("add", add);
/// assert!(tool.definition().output_schema.is_some());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Structured<T>(pub T);

impl<T> Structured<T> {
    fn into_result(self) -> Result<CallToolResult, ToolError>
    where
        T: Serialize,
    {
        let data = Json::of(&self.0)?;
        Ok(CallToolResult::text(data.get()).structured_content(data))
    }
}

#[cfg(feature = "schemars")]
impl<T: Serialize + schemars::JsonSchema> IntoOutcome for Structured<T> {
    fn into_outcome(self) -> Result<CallToolResult, ToolError> {
        self.into_result()
    }

    fn output_schema() -> Option<Json> {
        Some(crate::offer::schema::of::<T>())
    }
}

/// Without the feature `schemars`, no output schema is derived.
#[cfg(not(feature = "schemars"))]
impl<T: Serialize> IntoOutcome for Structured<T> {
    fn into_outcome(self) -> Result<CallToolResult, ToolError> {
        self.into_result()
    }
}

impl IntoOutcome for CallToolResult {
    fn into_outcome(self) -> Result<CallToolResult, ToolError> {
        Ok(self)
    }
}

impl IntoOutcome for () {
    fn into_outcome(self) -> Result<CallToolResult, ToolError> {
        Ok(CallToolResult::new())
    }
}

impl IntoOutcome for ContentBlock {
    fn into_outcome(self) -> Result<CallToolResult, ToolError> {
        Ok(CallToolResult::new().content([self]))
    }
}

impl IntoOutcome for Vec<ContentBlock> {
    fn into_outcome(self) -> Result<CallToolResult, ToolError> {
        Ok(CallToolResult::new().content(self))
    }
}

impl<T: IntoOutcome, E: Into<BoxError>> IntoOutcome for Result<T, E> {
    fn into_outcome(self) -> Result<CallToolResult, ToolError> {
        self.map_err(ToolError::from_boxed)?.into_outcome()
    }

    fn output_schema() -> Option<Json> {
        T::output_schema()
    }
}

macro_rules! text {
    ($($type:ty)*) => { $(
        impl IntoOutcome for $type {
            fn into_outcome(self) -> Result<CallToolResult, ToolError> {
                Ok(CallToolResult::text(self))
            }
        }
    )* };
}

text! { String &'static str Cow<'static, str> Box<str> }
