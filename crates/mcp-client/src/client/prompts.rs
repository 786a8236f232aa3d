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
    /// Fails if the server responds with an error, the request times out, or the connection is lost.
    pub async fn get_prompt(
        &self,
        name: impl Into<String>,
        arguments: impl Into<Map<String, String>>,
    ) -> Result<GetPromptResult> {
        let mut params = GetPromptParams::new(name).arguments(arguments);
        let body =
            input_rounds::run(self, &Method::PromptsGet, &mut params, Timeouts::default(), None).await?;
        self.complete_round(&Method::PromptsGet, &body)
    }

    /// Completes an argument of a prompt or resource template.
    ///
    /// # Errors
    /// [`Error::NotOffered`] if the server does not support completion; in 2024-11-05 a server cannot declare that, so it is
    /// asked, and [`Error::Refused`] is returned. Otherwise if the server refuses, the request times
    /// out, or the connection is lost.
    pub async fn complete(&self, params: &CompleteParams) -> Result<Completion> {
        // 2024-11-05 has the method, but no capability for it.
        let is_declared = self.dialect().declares(&Method::Complete);
        if is_declared && !self.may_offer(self.capabilities().completions.is_some()) {
            return Err(Error::NotOffered { method: Method::Complete });
        }
        let result: CompleteResult = self.request(&Method::Complete, params).await?;
        Ok(result.completion)
    }
}
