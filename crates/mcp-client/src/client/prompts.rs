//! Prompts, and completion of their arguments.

use mcp_protocol::completion::{CompleteParams, CompleteResult, Completion};
use mcp_protocol::messages::Method;
use mcp_protocol::peer::Timeouts;
use mcp_protocol::prompts::{GetPromptParams, GetPromptResult};
use mcp_protocol::safe_text::SafeText;
use mcp_protocol::{Json, Map};

use serde::Serialize;

use crate::client::McpClient;
use crate::client::call::object_of;
use crate::client::observed::run_observed;
use crate::error::{Error, Result};

impl McpClient {
    /// Requests a prompt with its arguments filled in.
    ///
    /// The arguments are a value that serializes to a JSON object of strings, or `()` for none.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::McpClient) -> mcp_client::Result<()> {
    /// let prompt = client.get_prompt("greet", serde_json::json!({"language": "Greek"})).await?;
    /// # drop(prompt); Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Unsendable`] if an argument is not a string. Also fails if the server responds with an error, the
    /// request times out, or the connection is lost.
    pub async fn get_prompt(
        &self,
        name: impl Into<String>,
        arguments: impl Serialize,
    ) -> Result<GetPromptResult> {
        let mut params = GetPromptParams::new(name);
        let strings = |json: Json| json.to().map_err(|_| not_strings(&json));
        params.arguments = object_of(&arguments)
            .and_then(|arguments| arguments.map(strings).transpose())
            .map_err(|problem| Error::Unsendable { method: Method::PromptsGet, problem })?;
        let body = run_observed(self, &Method::PromptsGet, &mut params, Timeouts::default(), None).await?;
        self.complete_round(&Method::PromptsGet, &body)
    }

    /// Requests completions for an argument of a prompt or resource template.
    ///
    /// # Errors
    /// [`Error::NotOffered`] if the server does not declare completion. In revision 2024-11-05, which has no capability
    /// for it, the request is always sent, and a server without completion causes [`Error::Refused`]. Also fails if the
    /// server responds with an error, the request times out, or the connection is lost.
    pub async fn complete(&self, params: &CompleteParams) -> Result<Completion> {
        // Revision 2024-11-05 has the method, but no capability for it.
        let is_declared = self.dialect().declares(&Method::Complete);
        if is_declared && !self.may_offer(self.capabilities().completions.is_some()) {
            return Err(Error::NotOffered { method: Method::Complete });
        }
        let result: CompleteResult = self.request(&Method::Complete, params).await?;
        Ok(result.completion)
    }
}

/// Returns the problem of arguments that are not all strings. It names one of them.
fn not_strings(arguments: &Json) -> String {
    let arguments: Map<String, Json> = arguments.to().unwrap_or_default();
    let is_string = |value: &Json| value.get().starts_with('"');
    match arguments.iter().find(|(_, value)| !is_string(value)) {
        Some((name, _)) => format!("prompt arguments must be strings, but `{}` is not", SafeText::name(name)),
        None => "prompt arguments must be strings".to_owned(),
    }
}
