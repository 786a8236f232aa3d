//! What a tool promised about its results, and what it gave.

mod check;
#[cfg(test)]
mod tests;

use mcp_protocol::tools::Tool;
use serde_json::Value;

use crate::client::call::ToolResult;
use check::Check;

/// Where a result is not what its tool had promised, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the result is not what its tool promised: {problem} at `{path}`")]
#[non_exhaustive]
pub struct SchemaMismatch {
    /// Where, as a JSON Pointer into the structured content; empty for the whole of it.
    pub path: String,
    /// What is wrong there.
    pub problem: String,
}

impl ToolResult {
    /// Compares the structured content with the schema that the tool has in the list of tools.
    ///
    /// Only what is certain is told: of a schema, the types, fixed values, required and forbidden members, items, local
    /// references and combinations are looked at, and whatever else it says is taken for kept. A tool without a schema
    /// has promised nothing, and one that says that it failed need not keep its promise.
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
    pub fn check(&self, tool: &Tool) -> Result<(), SchemaMismatch> {
        let Some(schema) = tool.output_schema.as_ref().filter(|_| !self.is_error()) else { return Ok(()) };
        let Some(content) = &self.result().structured_content else {
            let problem = "the result has no structured content".to_owned();
            return Err(SchemaMismatch { path: String::new(), problem });
        };
        // Both were read as JSON when they arrived.
        let (Ok(schema), Ok(content)) = (schema.to::<Value>(), content.to::<Value>()) else { return Ok(()) };
        Check::new(&schema).value(&schema, &content, &mut Vec::new())
    }
}
