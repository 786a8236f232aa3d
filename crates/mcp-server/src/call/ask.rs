//! Requests to the client during a call: elicitation, sampling and roots.
//!
//! In the modern era a call that needs input ends with an `InputRequiredResult`; the client sends the call again with
//! the answers, and the function runs again from the top. In the legacy era the call waits for the response. The
//! function is written once for both.

use std::error::Error as StdError;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_protocol::capabilities::{
    ClientCapabilities, ElicitationCapability, RootsCapability, SamplingCapability,
};
use mcp_protocol::content::Role;
use mcp_protocol::dialect::{Direction, Lowering};
use mcp_protocol::elicitation::{
    ElicitAction, ElicitFormParams, ElicitParams, ElicitResult, ElicitUrlParams, FormSchema,
};
use mcp_protocol::fingerprint::fingerprint;
use mcp_protocol::input::{
    Ask, InputRequest, InputRequests, InputRequiredResult, InputResponse, InputResponses,
};
use mcp_protocol::messages::{EmptyParams, Method};
use mcp_protocol::roots::ListRootsResult;
use mcp_protocol::sampling::{CreateMessageParams, CreateMessageResult};
use mcp_protocol::visible::Visible;
use mcp_protocol::{Json, Map};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::context::Context;
use crate::call::seal::{Memory, Sealer, fresh_name};
use crate::call::spent::{ConfirmationStore, ConfirmationUse};
use crate::call::validate::Form;
use crate::error::{AskError, ToolError};

/// The maximum number of rounds of one call.
pub(crate) const MAX_ROUNDS: u32 = 10;

/// A request to the client, and the type of its answer.
///
/// [`ElicitFormParams`] and [`ElicitUrlParams`] ask the person (elicitation), [`CreateMessageParams`] asks the language
/// model (sampling), and [`Roots`] asks the host for its roots.
#[doc(alias = "elicitation")]
#[doc(alias = "sampling")]
pub trait Question {
    /// The type of the answer.
    type Answer: Send;

    /// Converts the question into the request on the wire.
    fn into_request(self) -> InputRequest;

    /// Returns the answer, or `None` if the response is for another kind of question.
    fn read(response: InputResponse) -> Option<Self::Answer>;
}

/// A request for the roots of the host (`roots/list`).
#[doc(alias = "roots/list")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Roots;

impl Question for ElicitFormParams {
    type Answer = ElicitResult;

    fn into_request(self) -> InputRequest {
        InputRequest::elicit(self)
    }

    fn read(response: InputResponse) -> Option<ElicitResult> {
        match response {
            InputResponse::Elicit(result) => Some(result),
            _ => None,
        }
    }
}

impl Question for ElicitUrlParams {
    type Answer = ElicitResult;

    fn into_request(self) -> InputRequest {
        InputRequest::elicit(self)
    }

    fn read(response: InputResponse) -> Option<ElicitResult> {
        ElicitFormParams::read(response)
    }
}

impl Question for CreateMessageParams {
    type Answer = CreateMessageResult;

    fn into_request(self) -> InputRequest {
        InputRequest::create_message(self)
    }

    fn read(response: InputResponse) -> Option<CreateMessageResult> {
        match response {
            InputResponse::CreateMessage(result) => Some(*result),
            _ => None,
        }
    }
}

impl Question for Roots {
    type Answer = ListRootsResult;

    fn into_request(self) -> InputRequest {
        InputRequest::list_roots()
    }

    fn read(response: InputResponse) -> Option<ListRootsResult> {
        match response {
            InputResponse::ListRoots(result) => Some(result),
            _ => None,
        }
    }
}

/// The rounds of a modern call: the state of earlier rounds, and the input requests of this one.
pub(crate) struct Rounds {
    state: Mutex<State>,
    binding: Binding,
    /// The store of used confirmations.
    spent: Arc<dyn ConfirmationStore>,
}

/// The request that the sealed state is bound to. Converted into its canonical form only when needed.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) principal: Option<Arc<str>>,
    pub(crate) method: Method,
    pub(crate) name: Arc<str>,
    pub(crate) arguments: Box<str>,
}

impl Binding {
    /// Returns the canonical form, with members sorted by name; `None` if the arguments have none.
    fn canonical(&self) -> Option<Vec<u8>> {
        let arguments = self.arguments.parse::<Json>().ok()?.canonical().ok()?;
        let bound = (self.principal.as_deref(), self.method.as_str(), &*self.name, arguments.get());
        serde_json::to_vec(&bound).ok()
    }
}

#[derive(Debug)]
struct State {
    memory: Memory,
    /// The answers of this request.
    given: InputResponses,
    /// The input requests to send.
    asked: InputRequests,
    /// This run uses a confirmation of an earlier round, and that use was recorded.
    is_recorded: bool,
}

impl State {
    /// Returns the name of the call, which is the same in all its rounds.
    fn name_call(&mut self) -> &str {
        if self.memory.call.is_empty() {
            self.memory.call = fresh_name();
        }
        &self.memory.call
    }
}

impl Rounds {
    /// Creates the rounds of a request; `None` if this server did not seal its state for this request.
    pub(crate) fn new(
        given: Option<InputResponses>,
        state: Option<&str>,
        sealer: &Sealer,
        binding: Binding,
        spent: Arc<dyn ConfirmationStore>,
    ) -> Option<Self> {
        let memory = match state {
            Some(text) => sealer.open(text, || binding.canonical())?,
            None => Memory::default(),
        };
        let given = given.unwrap_or_default();
        let state = State { memory, given, asked: InputRequests::new(), is_recorded: false };
        Some(Self { state: Mutex::new(state), binding, spent })
    }

    /// Returns the answer to a confirmation of this call; `None` if the client has to be asked.
    ///
    /// An accepted confirmation is used once. A use is identified by call and question if the answer came with this
    /// request, and by call and round if it came with an earlier one, so that no request state can be replayed.
    async fn confirmation(&self, key: &str, id: &str) -> Result<Option<bool>, AskError> {
        enum Answer {
            Earlier(bool),
            ThisRequest(bool),
            Missing,
        }
        let (found, is_recorded, call, round) = {
            let mut state = self.lock();
            let given = state.memory.asked.get(id).cloned().and_then(|name| state.given.remove(&name));
            let found = match (state.memory.confirmed.get(id), given) {
                (Some(kept), _) => Answer::Earlier(*kept),
                (None, Some(answer)) => {
                    check_known_values(&answer).map_err(|problem| {
                        AskError::Malformed(format!("invalid answer to `{key}`: {problem}"))
                    })?;
                    let InputResponse::Elicit(answer) = answer else {
                        return Err(mismatched_answer(key));
                    };
                    Answer::ThisRequest(answer.action == ElicitAction::Accept)
                }
                (None, None) => Answer::Missing,
            };
            let round = state.memory.rounds;
            (found, state.is_recorded, state.name_call().to_owned(), round)
        };
        let of_question = format!("{call}/{id}");
        match found {
            Answer::Earlier(true) if !is_recorded => {
                self.spend(format!("{call}#{round}")).await?;
                self.lock().is_recorded = true;
                Ok(Some(true))
            }
            Answer::Earlier(yes) => Ok(Some(yes)),
            Answer::ThisRequest(yes) => {
                if yes {
                    self.spend(of_question).await?;
                }
                let mut state = self.lock();
                state.memory.asked.remove(id);
                state.memory.confirmed.insert(id.to_owned(), yes);
                Ok(Some(yes))
            }
            // A call that has not asked yet cannot have been confirmed.
            Answer::Missing if round == 0 => Ok(None),
            Answer::Missing => match self.spent.is_spent(&of_question).await {
                Ok(false) => Ok(None),
                Ok(true) => Err(AskError::Spent),
                Err(error) => Err(spent_unknown(&*error)),
            },
        }
    }

    async fn spend(&self, id: String) -> Result<(), AskError> {
        let spent = ConfirmationUse::new(id, self.binding.principal.clone());
        match self.spent.spend(&spent).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(AskError::Spent),
            Err(error) => Err(spent_unknown(&*error)),
        }
    }

    /// Adds the input request of a confirmation, under a key that is unique to this round of this call.
    fn ask_confirmation(&self, key: &str, id: String, request: InputRequest) {
        let mut state = self.lock();
        let round = state.memory.rounds;
        let name = format!("{key}.{}.{round}", state.name_call());
        state.memory.asked.insert(id, name.clone());
        state.asked.insert(name, request);
    }

    /// Returns the answer of this round or of an earlier one, if there is one.
    fn answer(&self, key: &str) -> Result<Option<InputResponse>, AskError> {
        let mut state = self.lock();
        // An earlier answer wins, because later steps may depend on it.
        if let Some(kept) = state.memory.answers.get(key) {
            return kept.raise().map(Some).map_err(|error| AskError::Malformed(error.to_string()));
        }
        let Some(given) = state.given.remove(key) else { return Ok(None) };
        let kept = Lowering::CANONICAL
            .root(&given)
            .to_json()
            .map_err(|error| AskError::Malformed(error.to_string()))?;
        state.memory.answers.insert(key.to_owned(), kept);
        Ok(Some(given))
    }

    fn ask(&self, key: &str, request: InputRequest) {
        self.lock().asked.insert(key.to_owned(), request);
    }

    /// Returns the result that asks the client for input, with the sealed state.
    pub(crate) fn input_required(&self, sealer: &Sealer) -> Result<InputRequiredResult, AskError> {
        let mut state = self.lock();
        state.name_call();
        state.memory.rounds += 1;
        if state.memory.rounds > MAX_ROUNDS {
            return Err(AskError::TooManyRounds(MAX_ROUNDS));
        }
        let binding = self.binding.canonical().ok_or_else(|| {
            AskError::Malformed("the arguments contain a number that is out of range".to_owned())
        })?;
        let sealed = sealer.seal(&state.memory, &binding)?;
        let asked = std::mem::take(&mut state.asked);
        Ok(InputRequiredResult::new().input_requests(asked).request_state(sealed))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Context {
    /// Sends a request to the client and returns its answer: elicitation, sampling or roots, by the type of `question`.
    ///
    /// In the modern era **the function runs again from the top** when the client sends the answer: return the error
    /// with `?`, and put work that must not be repeated into a [`step`](Self::step). The key identifies the question
    /// within the call and must be the same in every run.
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
    /// [`AskError::Unanswered`] in the modern era until the client sends the answer; see [`AskError`] for the others.
    ///
    /// # Cancellation
    /// Safe; a legacy client receives `notifications/cancelled`.
    #[doc(alias = "elicit")]
    #[doc(alias = "elicitation")]
    #[doc(alias = "elicitation/create")]
    #[doc(alias = "sampling")]
    #[doc(alias = "sampling/createMessage")]
    #[doc(alias = "roots")]
    #[doc(alias = "roots/list")]
    pub async fn ask<Q: Question>(&self, key: &str, question: Q) -> Result<Q::Answer, AskError> {
        self.begin_round()?;
        let response = self.input(key, question.into_request()).await?;
        Q::read(response).ok_or_else(|| mismatched_answer(key))
    }

    /// Sends several requests to the client in one round.
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
    /// As [`ask`](Self::ask), if any of the requests has no answer.
    #[doc(alias = "inputRequests")]
    pub async fn ask_all<'k>(
        &self,
        questions: impl IntoIterator<Item = (&'k str, InputRequest)>,
    ) -> Result<Map<String, InputResponse>, AskError> {
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
    }

    /// Runs a function once per call and keeps its result: later rounds of a modern call return the kept result instead
    /// of running it again.
    ///
    /// The guarantee is **at least once**: a client that loses a response sends the call again. The function receives
    /// an idempotency key that is the same in every run of the call, for the system that it calls. Before the first
    /// question of a call a retry cannot be told from a new call, and the key is new.
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
    /// # Errors
    /// The error of the function, or an error if its result cannot be serialized as JSON.
    pub async fn step<T, E, Fut>(
        &self,
        key: &str,
        function: impl FnOnce(String) -> Fut,
    ) -> Result<T, ToolError>
    where
        T: Serialize + DeserializeOwned,
        E: Into<ToolError>,
        Fut: Future<Output = Result<T, E>>,
    {
        let Some(rounds) = self.rounds() else {
            return function(format!("{}.{key}", fresh_name())).await.map_err(Into::into);
        };
        let (kept, idempotency) = {
            let mut state = rounds.lock();
            (state.memory.steps.get(key).cloned(), format!("{}.{key}", state.name_call()))
        };
        if let Some(kept) = kept {
            return Ok(kept.to()?);
        }
        let result = function(idempotency).await.map_err(Into::into)?;
        rounds.lock().memory.steps.insert(key.to_owned(), Json::of(&result)?);
        Ok(result)
    }

    /// Asks the person to confirm an action. Returns true if the person accepted.
    ///
    /// Use it instead of [`ask`](Self::ask) for every action that needs consent. The client can send the answer to an
    /// ordinary question before it was asked, and again with every retry of the request. A confirmation is valid only
    /// if this call asked for it with the same message, which the sealed state proves, and for one run: see
    /// [`ConfirmationStore`]. If the message differs between runs, the person is asked again.
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
    /// As [`ask`](Self::ask); [`AskError::Spent`] if the confirmation was already used; [`AskError::SpentUnknown`] if
    /// the store failed; [`AskError::FeatureDisabled`] in the modern era without the feature `sealing`.
    ///
    /// # Cancellation
    /// Safe; a legacy client receives `notifications/cancelled`.
    #[doc(alias = "consent")]
    #[doc(alias = "approval")]
    pub async fn confirm(&self, key: &str, message: impl Into<String>) -> Result<bool, AskError> {
        self.confirm_in("tool", key, message.into()).await
    }

    /// Asks for a confirmation. A confirmation in one namespace is never valid in another, whatever its key.
    pub(crate) async fn confirm_in(&self, space: &str, key: &str, message: String) -> Result<bool, AskError> {
        // The id includes the message: a confirmation is valid only for the text that the person saw.
        let id = fingerprint([space, key, &message]);
        let form = ElicitFormParams::new(message, FormSchema::new());
        let Some(rounds) = self.rounds() else {
            return Ok(self.ask(key, form).await?.action == ElicitAction::Accept);
        };
        // Without sealing a client could forge the state.
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

    /// Counts the rounds of a legacy call; the sealed state counts those of a modern call.
    fn begin_round(&self) -> Result<(), AskError> {
        if self.rounds().is_none() && self.next_ask() > MAX_ROUNDS {
            return Err(AskError::TooManyRounds(MAX_ROUNDS));
        }
        Ok(())
    }

    /// Returns the answer to one question, validated against its form.
    async fn input(&self, key: &str, request: InputRequest) -> Result<InputResponse, AskError> {
        let form = Form::of(&request);
        let answer = match self.rounds().map(|rounds| rounds.answer(key)).transpose()?.flatten() {
            Some(answer) => answer,
            None => self.answer_to(key, request).await?,
        };
        check_known_values(&answer)
            .and_then(|()| form.check(&answer))
            .map_err(|problem| AskError::Malformed(format!("invalid answer to `{key}`: {problem}")))?;
        Ok(answer)
    }

    /// Returns an error if the client did not declare the capability, or its protocol version does not have the method.
    fn check_can_ask(&self, request: &InputRequest) -> Result<(), AskError> {
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
        let unreadable = |error: mcp_protocol::errors::BodyError| AskError::Malformed(error.to_string());
        match request.ask {
            Ask::Elicit(params) => {
                let params = match params {
                    ElicitParams::Url(url) if url.elicitation_id.is_none() => {
                        ElicitParams::Url(url.elicitation_id(fresh_name()))
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

/// Returns an error for an unknown `action` or `role`, which the protocol types accept for forward compatibility.
fn check_known_values(answer: &InputResponse) -> Result<(), String> {
    match answer {
        InputResponse::Elicit(result) if matches!(result.action, ElicitAction::Other(_)) => {
            Err("`action` must be `accept`, `decline` or `cancel`".to_owned())
        }
        InputResponse::CreateMessage(result) if matches!(result.role, Role::Other(_)) => {
            Err("`role` must be `user` or `assistant`".to_owned())
        }
        _ => Ok(()),
    }
}

fn mismatched_answer(key: &str) -> AskError {
    AskError::Malformed(format!("the answer to `{key}` does not match the type of the question"))
}

fn spent_unknown(error: &(dyn StdError + Send + Sync)) -> AskError {
    tracing::error!(error = %Visible::new(&error.to_string()), "the confirmation store failed");
    AskError::SpentUnknown
}

/// Returns the capabilities that this request needs and the client did not declare.
fn undeclared(ask: &Ask, client: Option<&ClientCapabilities>) -> Option<ClientCapabilities> {
    let needed = ClientCapabilities::new();
    let elicitation = client.and_then(|client| client.elicitation.as_ref());
    let sampling = client.and_then(|client| client.sampling.as_ref());
    match ask {
        Ask::Elicit(ElicitParams::Form(_)) if !elicitation.is_some_and(ElicitationCapability::has_form) => {
            Some(needed.elicitation(ElicitationCapability::new()))
        }
        Ask::Elicit(ElicitParams::Url(_)) if !elicitation.is_some_and(ElicitationCapability::has_url) => {
            Some(needed.elicitation(ElicitationCapability::new().url(Json::object())))
        }
        Ask::CreateMessage(_) if sampling.is_none() => Some(needed.sampling(SamplingCapability::new())),
        Ask::CreateMessage(params)
            if params.tools.is_some() && sampling.is_none_or(|known| known.tools.is_none()) =>
        {
            Some(needed.sampling(SamplingCapability::new().tools(Json::object())))
        }
        Ask::ListRoots(_) if client.is_none_or(|client| client.roots.is_none()) => {
            Some(needed.roots(RootsCapability::new()))
        }
        _ => None,
    }
}
