//! Steps: work of a call that is not repeated in its later rounds.

use std::future::Future;

use mcp_protocol::Json;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::context::Context;
use crate::call::seal::fresh_id;
use crate::error::{BoxError, StepError};

impl Context {
    /// Runs a function and keeps its result: in later rounds of a modern call, `step` returns the kept result instead
    /// of running the function again. The key identifies the step within the call.
    ///
    /// The function runs **at least once**, not exactly once: a client that loses a response sends the call again. The
    /// function therefore receives an idempotency key, which is the same in every run of the call; pass it on to the
    /// system that performs the work. If a client repeats a call that has not asked a question yet, the server cannot
    /// distinguish it from a new call, and the function gets a new idempotency key.
    #[doc(alias = "idempotency")]
    ///
    /// ```
    /// # use mcp_server::{Context, ToolError};
    /// # async fn pay(cx: Context) -> Result<(), ToolError> {
    /// let receipt: String = cx.step("charge", |key| async move {
    ///     // charge(key, …).await
    ///     Ok::<_, ToolError>(format!("paid under {key}"))
    /// }).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// The function may return every type of error that a tool may return, such as [`ToolError`](crate::ToolError),
    /// `anyhow::Error` or text.
    ///
    /// # Errors
    /// Returns the error of the function, or an error if its result cannot be serialized as JSON or the kept result
    /// cannot be deserialized as `T`.
    pub async fn step<T, E, Fut>(
        &self,
        key: &str,
        function: impl FnOnce(String) -> Fut,
    ) -> Result<T, StepError>
    where
        T: Serialize + DeserializeOwned,
        E: Into<BoxError>,
        Fut: Future<Output = Result<T, E>>,
    {
        let Some(rounds) = self.rounds() else {
            return function(format!("{}.{key}", fresh_id())).await.map_err(StepError::new);
        };
        let (kept, idempotency_key) = {
            let mut state = rounds.lock();
            (state.request_state.steps.get(key).cloned(), format!("{}.{key}", state.call_id()))
        };
        if let Some(kept) = kept {
            return kept.to().map_err(StepError::new);
        }
        let result = function(idempotency_key).await.map_err(StepError::new)?;
        let kept = Json::of(&result).map_err(StepError::new)?;
        rounds.lock().request_state.steps.insert(key.to_owned(), kept);
        Ok(result)
    }
}
