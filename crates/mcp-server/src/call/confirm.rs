//! Confirmations: questions whose answer is valid only once, and only for one call.

use mcp_protocol::elicitation::{ElicitAction, ElicitFormParams, FormSchema};
use mcp_protocol::fingerprint::fingerprint;

use crate::call::context::Context;
use crate::call::question::Question;
use crate::error::AskError;

impl Context {
    /// Asks the person to confirm an action. Returns true if the person accepted.
    ///
    /// Use `confirm` instead of [`ask`](Self::ask) for every action that needs consent. A client can send the answer to
    /// an ordinary question before it is asked, and can send it again whenever it repeats the request. A confirmation
    /// of a modern client is valid only once (see [`ConfirmationStore`](crate::ConfirmationStore)), and only if this
    /// call asked for it with the same message; the encrypted request state proves that. If the message differs between
    /// runs, the person is asked again.
    ///
    /// ```
    /// use mcp_server::{Context, NoArgs, ToolError};
    ///
    /// async fn empty_trash(_: NoArgs, cx: Context) -> Result<&'static str, ToolError> {
    ///     if !cx.confirm("empty", "Delete 3 files for ever?").await? {
    ///         return Ok("Nothing was deleted.");
    ///     }
    ///     // …
    ///     Ok("The files are gone.")
    /// }
    /// ```
    ///
    /// # Errors
    /// Fails like [`ask`](Self::ask). Returns [`AskError::Spent`] if the confirmation was already used,
    /// [`AskError::SpentUnknown`] if the store failed, and [`AskError::FeatureDisabled`] for a modern client if the
    /// crate was built without the feature `sealing`.
    ///
    /// # Cancellation
    /// The future can be dropped at any time. A legacy client that has not answered then receives
    /// `notifications/cancelled`.
    #[doc(alias = "consent")]
    #[doc(alias = "approval")]
    pub async fn confirm(&self, key: &str, message: impl Into<String>) -> Result<bool, AskError> {
        let confirmed = self.confirm_in("tool", key, message.into()).await;
        confirmed.inspect_err(|error| self.note_failed_ask(error))
    }

    /// Asks for a confirmation. A confirmation in one namespace (`space`) is never valid in another, even if the keys
    /// are equal.
    pub(crate) async fn confirm_in(&self, space: &str, key: &str, message: String) -> Result<bool, AskError> {
        // The id includes the message: a confirmation is valid only for the text that the person saw.
        let id = fingerprint([space, key, &message]);
        let form = ElicitFormParams::new(message, FormSchema::new());
        let Some(rounds) = self.rounds() else {
            return Ok(self.ask(key, form).await?.action == ElicitAction::Accept);
        };
        // Without sealing, a client could forge the request state.
        if !cfg!(feature = "sealing") {
            return Err(AskError::FeatureDisabled("sealing"));
        }
        if let Some(answer) = rounds.confirmation(key, &id).await? {
            return Ok(answer);
        }
        let request = form.into_request();
        self.check_can_ask(&request)?;
        rounds.ask_confirmation(key, id, request);
        Err(AskError::Unanswered)
    }
}
