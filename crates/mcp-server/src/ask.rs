//! Asking the person or the host in the middle of a call.
//!
//! In the modern era a call that asks ends: the client answers and calls again, and the function runs from the
//! top with the answers at hand. In the legacy era it waits. The function is the same.

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

use crate::context::Context;
use crate::error::{AskError, ToolError};
use crate::seal::{Memory, Sealer, fresh_name};
use crate::spent::{ConfirmationStore, ConfirmationUse};
use crate::validate::Form;

/// How often a call may come back for more answers.
pub(crate) const ROUNDS: u32 = 10;

/// Something that can be asked, and what its answer is.
///
/// Forms and URLs for the person, messages for the language model, [`Roots`] for the host's roots.
pub trait Question {
    /// What answers it.
    type Answer: Send;

    /// The question on the wire.
    fn into_request(self) -> InputRequest;

    /// The answer, if it is one to this kind of question.
    fn read(response: InputResponse) -> Option<Self::Answer>;
}

/// Asks for the roots of the host.
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

/// The rounds of a modern call: what earlier ones brought, and what this one asks.
pub(crate) struct Rounds {
    state: Mutex<State>,
    binding: Binding,
    /// Confirmations that were used.
    spent: Arc<dyn ConfirmationStore>,
}

/// What sealed state is bound to. Brought into its canonical form only when it is needed.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) principal: Option<Arc<str>>,
    pub(crate) method: Method,
    pub(crate) name: Arc<str>,
    pub(crate) arguments: Box<str>,
}

impl Binding {
    /// Members in order of their names, whatever the client's order was.
    /// `None` for arguments that have no such form: nothing can be bound to them.
    fn canonical(&self) -> Option<Vec<u8>> {
        let arguments = self.arguments.parse::<Json>().ok()?.canonical().ok()?;
        let bound = (self.principal.as_deref(), self.method.as_str(), &*self.name, arguments.get());
        serde_json::to_vec(&bound).ok()
    }
}

#[derive(Debug)]
struct State {
    memory: Memory,
    /// Answers that came with this request.
    given: InputResponses,
    /// What has to be asked.
    asked: InputRequests,
    /// A confirmation of an earlier round was relied upon in this run, and this run was recorded.
    is_recorded: bool,
}

impl State {
    /// The name of the call: the same in all its rounds.
    fn name_call(&mut self) -> &str {
        if self.memory.call.is_empty() {
            self.memory.call = fresh_name();
        }
        &self.memory.call
    }
}

impl Rounds {
    /// The rounds of a request, or `None` if its state is not ours.
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

    /// The answer to a confirmation, if this call has asked for it; `None` if it has to be asked for.
    ///
    /// A yes counts once: the one that came with this request by the name of the call and the question, one of an earlier
    /// round by the name of the call and the round, so that no state can be sent twice.
    async fn confirmation(&self, key: &str, id: &str) -> Result<Option<bool>, AskError> {
        enum Found {
            Kept(bool),
            Given(bool),
            Nothing,
        }
        let (found, is_recorded, call, round) = {
            let mut state = self.lock();
            let given = state.memory.asked.get(id).cloned().and_then(|name| state.given.remove(&name));
            let found = match (state.memory.confirmed.get(id), given) {
                (Some(kept), _) => Found::Kept(*kept),
                (None, Some(answer)) => {
                    check_words(&answer).map_err(|problem| {
                        AskError::Malformed(format!("the answer to `{key}`: {problem}"))
                    })?;
                    let InputResponse::Elicit(answer) = answer else {
                        return Err(answered_by_something_else(key));
                    };
                    Found::Given(answer.action == ElicitAction::Accept)
                }
                (None, None) => Found::Nothing,
            };
            let round = state.memory.rounds;
            (found, state.is_recorded, state.name_call().to_owned(), round)
        };
        let of_question = format!("{call}/{id}");
        match found {
            Found::Kept(true) if !is_recorded => {
                self.spend(format!("{call}#{round}")).await?;
                self.lock().is_recorded = true;
                Ok(Some(true))
            }
            Found::Kept(yes) => Ok(Some(yes)),
            Found::Given(yes) => {
                if yes {
                    self.spend(of_question).await?;
                }
                let mut state = self.lock();
                state.memory.asked.remove(id);
                state.memory.confirmed.insert(id.to_owned(), yes);
                Ok(Some(yes))
            }
            // A call that has not asked yet cannot have been confirmed.
            Found::Nothing if round == 0 => Ok(None),
            Found::Nothing => match self.spent.is_spent(&of_question).await {
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

    /// Asks for a confirmation, under a name that only this round of this call has.
    fn ask_confirmation(&self, key: &str, id: String, request: InputRequest) {
        let mut state = self.lock();
        let round = state.memory.rounds;
        let name = format!("{key}.{}.{round}", state.name_call());
        state.memory.asked.insert(id, name.clone());
        state.asked.insert(name, request);
    }

    /// The answer that is at hand, this round's or an earlier one's.
    fn answer(&self, key: &str) -> Result<Option<InputResponse>, AskError> {
        let mut state = self.lock();
        // What was answered once stays answered: later steps may rest on it.
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

    /// What to tell the client, with all that is to come back.
    pub(crate) fn input_required(&self, sealer: &Sealer) -> Result<InputRequiredResult, AskError> {
        let mut state = self.lock();
        state.name_call();
        state.memory.rounds += 1;
        if state.memory.rounds > ROUNDS {
            return Err(AskError::TooManyRounds(ROUNDS));
        }
        let binding = self.binding.canonical().ok_or_else(|| {
            AskError::Malformed("the arguments hold something that is out of range".to_owned())
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
    /// Asks the person, the language model or the host.
    ///
    /// In the modern era **the function runs again from the top** once the client has the answer: return the
    /// error with `?`, and put work that should not be repeated into a [`step`](Self::step). The key tells this
    /// question from the others of the call; it must be the same in every run.
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
    /// [`AskError::Unanswered`] until the answer is there; others when it cannot come.
    ///
    /// # Cancellation
    /// Safe; a legacy client is told.
    pub async fn ask<Q: Question>(&self, key: &str, question: Q) -> Result<Q::Answer, AskError> {
        self.begin_round()?;
        let response = self.input(key, question.into_request()).await?;
        Q::read(response).ok_or_else(|| answered_by_something_else(key))
    }

    /// Asks several things in one round.
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
    /// As [`ask`](Self::ask), when any of them has no answer.
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

    /// Does something once per call, as far as that can be promised: its result is carried through the rounds
    /// of a modern call, and a later run takes it from there.
    ///
    /// It is done **at least once**: a response that is lost makes a client call again. The function gets a key
    /// that is the same each time, for the outside world to tell a repetition by; before the first question of
    /// a call nothing tells a repetition from a new call, and the key is a new one.
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
    /// Those of the function, and when its result is not JSON.
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

    /// Asks the person for a yes that has consequences. Returns true if the person accepted, false if not.
    ///
    /// Use it instead of [`ask`](Self::ask) for everything that must not happen without a yes. An answer to an ordinary
    /// question counts under its key, also if the client sends it before it was asked, and again with every repetition
    /// of the request. A confirmation counts only if this very call has asked for it with the same message, which the
    /// sealed state proves, and for one run: see [`ConfirmationStore`]. The message must be the same in every run, or the person
    /// is asked again: what was not shown is not confirmed.
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
    /// As [`ask`](Self::ask); [`AskError::Spent`] if the yes was used before; [`AskError::SpentUnknown`] if that cannot be
    /// told; [`AskError::FeatureDisabled`] in the
    /// modern era without the feature `sealing`.
    ///
    /// # Cancellation
    /// Safe; a legacy client is told.
    pub async fn confirm(&self, key: &str, message: impl Into<String>) -> Result<bool, AskError> {
        self.confirm_in("tool", key, message.into()).await
    }

    /// Asks for a confirmation. Those of one space never answer those of another, whatever their keys are.
    pub(crate) async fn confirm_in(&self, space: &str, key: &str, message: String) -> Result<bool, AskError> {
        // Another text is another question: what the person was not shown was not confirmed.
        let id = fingerprint([space, key, &message]);
        let form = ElicitFormParams::new(message, FormSchema::new());
        let Some(rounds) = self.rounds() else {
            return Ok(self.ask(key, form).await?.action == ElicitAction::Accept);
        };
        // What does not travel sealed could have been made up.
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

    /// Counts the rounds of a legacy call; those of a modern one are counted in what the client carries.
    fn begin_round(&self) -> Result<(), AskError> {
        if self.rounds().is_none() && self.next_ask() > ROUNDS {
            return Err(AskError::TooManyRounds(ROUNDS));
        }
        Ok(())
    }

    /// The answer to one question, checked against what was asked.
    async fn input(&self, key: &str, request: InputRequest) -> Result<InputResponse, AskError> {
        let form = Form::of(&request);
        let answer = match self.rounds().map(|rounds| rounds.answer(key)).transpose()?.flatten() {
            Some(answer) => answer,
            None => self.answer_to(key, request).await?,
        };
        check_words(&answer)
            .and_then(|()| form.check(&answer))
            .map_err(|problem| AskError::Malformed(format!("the answer to `{key}`: {problem}")))?;
        Ok(answer)
    }

    /// Refuses a question that the client did not declare, or that its version does not have.
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

    /// Asks over a legacy connection and waits.
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
            _ => Err(AskError::Malformed(format!("`{method}` cannot be asked"))),
        }
    }
}

/// Refuses an action or a role that no version has. The protocol types keep unknown words, for those who pass them on.
fn check_words(answer: &InputResponse) -> Result<(), String> {
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

fn answered_by_something_else(key: &str) -> AskError {
    AskError::Malformed(format!("`{key}` was answered by something else"))
}

fn spent_unknown(error: &(dyn StdError + Send + Sync)) -> AskError {
    tracing::error!(error = %Visible::new(&error.to_string()), "the store of used confirmations failed");
    AskError::SpentUnknown
}

/// What the client would have to declare to be asked this, if it did not.
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
