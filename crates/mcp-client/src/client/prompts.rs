//! Prompts, and completion of their arguments.

use mcp_protocol::Map;
use mcp_protocol::completion::{CompleteParams, CompleteResult, Completion};
use mcp_protocol::messages::Method;
use mcp_protocol::peer::Timeouts;
use mcp_protocol::prompts::{GetPromptParams, GetPromptResult};

use crate::client::{McpClient, input_rounds};
use crate::error::{Error, Result};

impl McpClient {
    /// Gets a prompt with its arguments filled in.
    ///
    /// # Errors
    /// If the server refuses, the request times out, or the connection is lost.
    pub async fn get_prompt(
        &self,
        name: impl Into<String>,
        arguments: impl Into<Map<String, String>>,
    ) -> Result<GetPromptResult> {
        let mut params = GetPromptParams::new(name).arguments(arguments);
        let body =
            input_rounds::run_observed(self, &Method::PromptsGet, &mut params, Timeouts::default(), None)
                .await?;
        self.complete_round(&Method::PromptsGet, &body)
    }

    /// Completes an argument of a prompt or resource template.
    ///
    /// # Errors
    /// [`Error::NotOffered`] if the server does not support completion; otherwise if the server refuses, the request times
    /// out, or the connection is lost.
    pub async fn complete(&self, params: &CompleteParams) -> Result<Completion> {
        if self.capabilities().completions.is_none() {
            return Err(Error::NotOffered { method: Method::Complete });
        }
        let result: CompleteResult = self.request(&Method::Complete, params).await?;
        Ok(result.completion)
    }
}
