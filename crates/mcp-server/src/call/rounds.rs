//! The rounds of a modern call: answers, step results and confirmations that survive from one request to the next.

use std::error::Error as StdError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_protocol::Json;
use mcp_protocol::dialect::Lowering;
use mcp_protocol::elicitation::ElicitAction;
use mcp_protocol::input::{InputRequest, InputRequests, InputRequiredResult, InputResponse, InputResponses};
use mcp_protocol::messages::Method;
use mcp_protocol::safe_text::SafeText;

use crate::call::confirmation_store::{ConfirmationStore, ConfirmationUse};
use crate::call::question::{check_known_values, mismatched_answer};
use crate::call::seal::{RequestState, Sealer, fresh_id};
use crate::error::AskError;

/// The maximum number of rounds of one call.
pub(crate) const MAX_ROUNDS: u32 = 10;

/// The rounds of a modern call: the state of earlier rounds, and the input requests of this one.
pub(crate) struct Rounds {
    state: Mutex<State>,
    binding: Binding,
    /// The store of used confirmations.
    confirmation_store: Arc<dyn ConfirmationStore>,
}

/// The request to which the sealed state is bound. It is converted into its canonical form only when needed.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) principal: Option<Arc<str>>,
    pub(crate) method: Method,
    pub(crate) name: Arc<str>,
    pub(crate) arguments: Box<str>,
}

impl Binding {
    /// Returns the canonical form, with members sorted by name; `None` if the arguments have no canonical form.
    fn canonical(&self) -> Option<Vec<u8>> {
        let arguments = self.arguments.parse::<Json>().ok()?.canonical().ok()?;
        let bound = (self.principal.as_deref(), self.method.as_str(), &*self.name, arguments.get());
        serde_json::to_vec(&bound).ok()
    }
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) request_state: RequestState,
    /// The answers that came with this request.
    responses: InputResponses,
    /// The input requests to send at the end of this run.
    requests: InputRequests,
    /// True after this run has used a confirmation of an earlier round and the use was recorded.
    is_recorded: bool,
}

impl State {
    /// Returns the id of the call, which is the same in all its rounds.
    pub(super) fn call_id(&mut self) -> &str {
        if self.request_state.call.is_empty() {
            self.request_state.call = fresh_id();
        }
        &self.request_state.call
    }
}

impl Rounds {
    /// Creates the rounds of a request; `None` if its state was not sealed for this request with the key of this
    /// server, or has expired.
    pub(crate) fn new(
        responses: Option<InputResponses>,
        state: Option<&str>,
        sealer: &Sealer,
        binding: Binding,
        confirmation_store: Arc<dyn ConfirmationStore>,
    ) -> Option<Self> {
        let request_state = match state {
            Some(text) => sealer.open(text, || binding.canonical())?,
            None => RequestState::default(),
        };
        let responses = responses.unwrap_or_default();
        let state = State { request_state, responses, requests: InputRequests::new(), is_recorded: false };
        Some(Self { state: Mutex::new(state), binding, confirmation_store })
    }

    /// Returns the answer to a confirmation of this call; `None` if the client has to be asked.
    ///
    /// Each use of an accepted confirmation is recorded. A use that is already recorded is refused. The id of a use
    /// consists of call and question if the answer came with this request, and of call and round if it came with an
    /// earlier request. A replayed request state therefore leads to a use that is already recorded.
    pub(super) async fn confirmation(&self, key: &str, id: &str) -> Result<Option<bool>, AskError> {
        enum ConfirmationAnswer {
            Earlier(bool),
            ThisRequest(bool),
            Missing,
        }
        let (found, is_recorded, call, round) = {
            let mut state = self.lock();
            let given = state
                .request_state
                .open_confirmations
                .get(id)
                .cloned()
                .and_then(|name| state.responses.remove(&name));
            let found = match (state.request_state.confirmations.get(id), given) {
                (Some(kept), _) => ConfirmationAnswer::Earlier(*kept),
                (None, Some(answer)) => {
                    check_known_values(&answer).map_err(|problem| {
                        AskError::Malformed(format!("invalid answer to `{key}`: {problem}"))
                    })?;
                    let InputResponse::Elicit(answer) = answer else {
                        return Err(mismatched_answer(key));
                    };
                    ConfirmationAnswer::ThisRequest(answer.action == ElicitAction::Accept)
                }
                (None, None) => ConfirmationAnswer::Missing,
            };
            let round = state.request_state.rounds;
            (found, state.is_recorded, state.call_id().to_owned(), round)
        };
        let of_question = format!("{call}/{id}");
        match found {
            ConfirmationAnswer::Earlier(true) if !is_recorded => {
                self.spend(format!("{call}#{round}")).await?;
                self.lock().is_recorded = true;
                Ok(Some(true))
            }
            ConfirmationAnswer::Earlier(yes) => Ok(Some(yes)),
            ConfirmationAnswer::ThisRequest(yes) => {
                if yes {
                    self.spend(of_question).await?;
                }
                let mut state = self.lock();
                state.request_state.open_confirmations.remove(id);
                state.request_state.confirmations.insert(id.to_owned(), yes);
                Ok(Some(yes))
            }
            // A call that has not asked yet cannot have been confirmed.
            ConfirmationAnswer::Missing if round == 0 => Ok(None),
            ConfirmationAnswer::Missing => match self.confirmation_store.is_spent(&of_question).await {
                Ok(false) => Ok(None),
                Ok(true) => Err(AskError::Spent),
                Err(error) => Err(store_failed(&*error)),
            },
        }
    }

    async fn spend(&self, id: String) -> Result<(), AskError> {
        let spent = ConfirmationUse::new(id, self.binding.principal.clone());
        match self.confirmation_store.spend(&spent).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(AskError::Spent),
            Err(error) => Err(store_failed(&*error)),
        }
    }

    /// Adds the input request of a confirmation, under a key that is unique to this round of this call.
    pub(super) fn ask_confirmation(&self, key: &str, id: String, request: InputRequest) {
        let mut state = self.lock();
        let round = state.request_state.rounds;
        let name = format!("{key}.{}.{round}", state.call_id());
        state.request_state.open_confirmations.insert(id, name.clone());
        state.requests.insert(name, request);
    }

    /// Returns the answer to a question if it came with this request or an earlier one.
    pub(super) fn answer(&self, key: &str) -> Result<Option<InputResponse>, AskError> {
        let mut state = self.lock();
        // An earlier answer takes precedence, because later steps may depend on it.
        if let Some(kept) = state.request_state.answers.get(key) {
            return kept.raise().map(Some).map_err(|error| AskError::Malformed(error.to_string()));
        }
        let Some(given) = state.responses.remove(key) else { return Ok(None) };
        let kept = Lowering::CANONICAL
            .root(&given)
            .to_json()
            .map_err(|error| AskError::Malformed(error.to_string()))?;
        state.request_state.answers.insert(key.to_owned(), kept);
        Ok(Some(given))
    }

    /// Returns true if this run has asked a question that is not answered yet.
    pub(crate) fn has_unanswered(&self) -> bool {
        !self.lock().requests.is_empty()
    }

    pub(super) fn ask(&self, key: &str, request: InputRequest) {
        self.lock().requests.insert(key.to_owned(), request);
    }

    /// Returns the result that asks the client for input. It contains the sealed state.
    pub(crate) fn input_required(&self, sealer: &Sealer) -> Result<InputRequiredResult, AskError> {
        let mut state = self.lock();
        state.call_id();
        state.request_state.rounds += 1;
        if state.request_state.rounds > MAX_ROUNDS {
            return Err(AskError::TooManyRounds(MAX_ROUNDS));
        }
        let binding = self.binding.canonical().ok_or_else(|| {
            AskError::Malformed("the arguments contain a number that is out of range".to_owned())
        })?;
        let sealed = sealer.seal(&state.request_state, &binding)?;
        let requests = std::mem::take(&mut state.requests);
        Ok(InputRequiredResult::new().input_requests(requests).request_state(sealed))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn store_failed(error: &(dyn StdError + Send + Sync)) -> AskError {
    tracing::error!(error = %SafeText::new(&error.to_string()), "the confirmation store failed");
    AskError::SpentUnknown
}
