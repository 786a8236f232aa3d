//! Compares the result of a tool call with the output schema of the tool.

mod check;
#[cfg(test)]
mod tests;

use mcp_protocol::tools::Tool;
use serde_json::Value;

use crate::client::call::ToolResult;
use check::Check;

/// A mismatch between the result of a tool call and the output schema of the tool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the result does not match the tool's output schema: {problem}{}", place(path))]
#[non_exhaustive]
pub struct SchemaMismatch {
    /// The position in the structured content, as a JSON Pointer. Empty if the whole content does not match.
    pub path: String,
    /// The problem.
    pub problem: String,
}

/// Returns the end of the error text: the path, unless the problem is with the whole content.
fn place(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!(" at `{path}`") }
}

impl ToolResult {
    /// Compares the structured content with the output schema of the tool.
    ///
    /// Checks types, `const`, `enum`, required and additional members, items, local references, `allOf`, `anyOf` and
    /// `oneOf`. Every other keyword counts as satisfied, and a very large schema or result is checked only in part. A
    /// reported mismatch is therefore real, but a result that passes may still violate the schema. A tool without an
    /// output schema, or a result that reports a failure, always passes.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::McpClient) -> mcp_client::Result<()> {
    /// let tools = client.list_tools().await?;
    /// let outcome = client.call("forecast", serde_json::json!({"city": "Oslo"})).await?;
    /// if let Some(Err(warning)) = tools.iter().find(|tool| tool.name == "forecast").map(|tool| outcome.check(tool)) {
    ///     eprintln!("{warning}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the first mismatch.
    #[doc(alias = "outputSchema")]
    #[doc(alias = "structuredContent")]
    pub fn check(&self, tool: &Tool) -> Result<(), SchemaMismatch> {
        let Some(schema) = tool.output_schema.as_ref().filter(|_| !self.is_error()) else { return Ok(()) };
        let Some(content) = &self.result().structured_content else {
            let problem = "the result has no structured content".to_owned();
            return Err(SchemaMismatch { path: String::new(), problem });
        };
        // Cannot fail: both were parsed as JSON when they were received.
        let (Ok(schema), Ok(content)) = (schema.to::<Value>(), content.to::<Value>()) else { return Ok(()) };
        Check::new(&schema).value(&schema, &content, &mut Vec::new())
    }
}
