//! Compares the result of a tool with its output schema.

mod check;
#[cfg(test)]
mod tests;

use mcp_protocol::tools::Tool;
use serde_json::Value;

use crate::client::call::ToolResult;
use check::Check;

/// A contradiction between the result of a tool and its output schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the result does not match the tool's output schema: {problem} at `{path}`")]
#[non_exhaustive]
pub struct SchemaMismatch {
    /// The position, as a JSON Pointer into the structured content; empty for the whole of it.
    pub path: String,
    /// The problem.
    pub problem: String,
}

impl ToolResult {
    /// Compares the structured content with the output schema of the tool.
    ///
    /// Only certain contradictions are reported: types, `const`, `enum`, required and additional members, items, local
    /// references and `allOf`, `anyOf` and `oneOf` are checked; every other keyword counts as satisfied. A tool without
    /// an output schema, or a result that reports a failure, always passes.
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
    /// The first contradiction.
    #[doc(alias = "outputSchema")]
    #[doc(alias = "structuredContent")]
    pub fn check(&self, tool: &Tool) -> Result<(), SchemaMismatch> {
        let Some(schema) = tool.output_schema.as_ref().filter(|_| !self.is_error()) else { return Ok(()) };
        let Some(content) = &self.result().structured_content else {
            let problem = "the result has no structured content".to_owned();
            return Err(SchemaMismatch { path: String::new(), problem });
        };
        // Both were parsed as JSON when they were received.
        let (Ok(schema), Ok(content)) = (schema.to::<Value>(), content.to::<Value>()) else { return Ok(()) };
        Check::new(&schema).value(&schema, &content, &mut Vec::new())
    }
}
