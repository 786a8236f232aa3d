//! Requests to the client during a call: elicitation, sampling and roots.
//!
//! In the modern era a call that needs input ends with an `InputRequiredResult`; the client sends the call again with
//! the answers, and the function runs again from the beginning. In the legacy era the call waits for the response. The
//! same function serves both eras.

use mcp_protocol::Map;
use mcp_protocol::dialect::Direction;
use mcp_protocol::elicitation::ElicitParams;
use mcp_protocol::errors::BodyError;
use mcp_protocol::input::{Ask, InputRequest, InputResponse};
use mcp_protocol::messages::EmptyParams;

use crate::call::context::Context;
use crate::call::question::{Question, check_known_values, mismatched_answer, undeclared};
use crate::call::rounds::MAX_ROUNDS;
use crate::call::seal::fresh_id;
use crate::call::validate::FormValidator;
use crate::error::AskError;

impl Context {
    /// Sends a request to the client and returns the answer. The type of `question` decides whether it is elicitation,
    /// sampling or a request for roots.
    ///
    /// With a modern client, the first run of the function gets [`AskError::Unanswered`]: return it with `?`. When the
    /// client sends the answer, **the function runs again from the beginning**, and `ask` returns the answer. Put work
    /// that must not be repeated into a [`step`](Self::step). The key identifies the question within the call and must
    /// be the same in every run. With a legacy client, the function runs once and waits here for the answer.
    ///
    /// A client can send the answer before it is asked, and can send it again: an action that needs the consent of the
    /// person needs [`confirm`](Self::confirm).
    ///
    /// ```
    /// use mcp_protocol::elicitation::{ElicitFormParams, FormSchema, StringSchema};
    /// use mcp_server::{Context, NoArgs, ToolError};
    ///
    /// async fn greet(_: NoArgs, cx: Context) -> Result<String, ToolError> {
    ///     let form = FormSchema::new().field("name", StringSchema::new()).required(["name".to_owned()]);
    ///     let answer = cx.ask("name", ElicitFormParams::new("Who are you?", form)).await?;
    ///     let name = answer.content.as_ref().and_then(|content| content.get("name"));
    ///     Ok(format!("{:?}: {name:?}", answer.action))
    /// }
    /// ```
    ///
    /// # Errors
    /// Returns [`AskError::Unanswered`] until a modern client has sent the answer; see [`AskError`] for the other
    /// errors.
    ///
    /// # Cancellation
    /// The future can be dropped at any time. A legacy client that has not answered then receives
    /// `notifications/cancelled`.
    #[doc(alias = "elicit")]
    #[doc(alias = "elicitation")]
    #[doc(alias = "elicitation/create")]
    #[doc(alias = "sampling")]
    #[doc(alias = "sampling/createMessage")]
    #[doc(alias = "roots")]
    #[doc(alias = "roots/list")]
    pub async fn ask<Q: Question>(&self, key: &str, question: Q) -> Result<Q::Answer, AskError> {
        let answer = async {
            self.begin_round()?;
            let response = self.input(key, question.into_request()).await?;
            Q::read(response).ok_or_else(|| mismatched_answer(key))
        };
        answer.await.inspect_err(|error| self.note_failed_ask(error))
    }

    /// Sends several requests to the client in one round, and returns the answers by the keys of their questions.
    ///
    /// ```
    /// # use mcp_server::{Context, Roots, Question, ToolError};
    /// # async fn both(cx: Context) -> Result<(), ToolError> {
    /// let answers = cx.ask_all([("roots", Roots.into_request()), ("again", Roots.into_request())]).await?;
    /// let roots = answers.get("roots");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Fails like [`ask`](Self::ask) if any of the requests fails or is not answered yet.
    #[doc(alias = "inputRequests")]
    pub async fn ask_all<'k>(
        &self,
        questions: impl IntoIterator<Item = (&'k str, InputRequest)>,
    ) -> Result<Map<String, InputResponse>, AskError> {
        let answers = async {
            self.begin_round()?;
            let mut answers = Map::new();
            let mut unanswered = false;
            for (key, request) in questions {
                match self.input(key, request).await {
                    Ok(answer) => {
                        answers.insert(key.to_owned(), answer);
                    }
                    Err(AskError::Unanswered) => unanswered = true,
                    Err(other) => return Err(other),
                }
            }
            if unanswered { Err(AskError::Unanswered) } else { Ok(answers) }
        };
        answers.await.inspect_err(|error| self.note_failed_ask(error))
    }

    /// Counts one round of a legacy call, or returns an error above the limit. The rounds of a modern call are counted
    /// in its sealed state.
    fn begin_round(&self) -> Result<(), AskError> {
        if self.rounds().is_none() && self.next_ask() > MAX_ROUNDS {
            return Err(AskError::TooManyRounds(MAX_ROUNDS));
        }
        Ok(())
    }

    /// Returns the answer to one question. The answer to a form is validated against the form.
    async fn input(&self, key: &str, request: InputRequest) -> Result<InputResponse, AskError> {
        let form = FormValidator::of(&request);
        let answer = match self.rounds().map(|rounds| rounds.answer(key)).transpose()?.flatten() {
            Some(answer) => answer,
            None => self.answer_to(key, request).await?,
        };
        check_known_values(&answer)
            .and_then(|()| form.check(&answer))
            .map_err(|problem| AskError::Malformed(format!("invalid answer to `{key}`: {problem}")))?;
        Ok(answer)
    }

    /// Returns an error if the client did not declare the capability, or if its protocol version does not have the
    /// method.
    pub(super) fn check_can_ask(&self, request: &InputRequest) -> Result<(), AskError> {
        let (dialect, method) = (self.dialect(), request.ask.method());
        let has_method = dialect.has(&method, Direction::ToClient) || dialect.has_inside(&method);
        let declared = self.client_capabilities().filter(|_| has_method);
        match undeclared(&request.ask, declared) {
            Some(needed) => Err(AskError::Undeclared(Box::new(needed))),
            None => Ok(()),
        }
    }

    async fn answer_to(&self, key: &str, request: InputRequest) -> Result<InputResponse, AskError> {
        self.check_can_ask(&request)?;
        match self.rounds() {
            Some(rounds) => {
                rounds.ask(key, request);
                Err(AskError::Unanswered)
            }
            None => self.ask_now(request).await,
        }
    }

    /// Sends the request over a legacy connection and waits for the response.
    async fn ask_now(&self, request: InputRequest) -> Result<InputResponse, AskError> {
        let method = request.ask.method();
        let unreadable = |error: BodyError| AskError::Malformed(error.to_string());
        match request.ask {
            Ask::Elicit(params) => {
                let params = match params {
                    ElicitParams::Url(url) if url.elicitation_id.is_none() => {
                        ElicitParams::Url(url.elicitation_id(fresh_id()))
                    }
                    other => other,
                };
                let (dialect, answer) = self.request(&method, &params).await?;
                Ok(InputResponse::Elicit(dialect.raise_str(answer.get()).map_err(unreadable)?))
            }
            Ask::CreateMessage(params) => {
                let (dialect, answer) = self.request(&method, &*params).await?;
                Ok(InputResponse::CreateMessage(dialect.raise_str(answer.get()).map_err(unreadable)?))
            }
            Ask::ListRoots(params) => {
                let (dialect, answer) =
                    self.request(&method, &params.unwrap_or_else(EmptyParams::new)).await?;
                Ok(InputResponse::ListRoots(dialect.raise_str(answer.get()).map_err(unreadable)?))
            }
            _ => Err(AskError::Malformed(format!("`{method}` cannot be sent to a legacy client"))),
        }
    }
}
