//! Requests to the client (elicitation, sampling, roots): the request on the wire, the client capability that the
//! request needs, and the answer.

use mcp_protocol::Json;
use mcp_protocol::capabilities::{
    ClientCapabilities, ElicitationCapability, RootsCapability, SamplingCapability,
};
use mcp_protocol::content::Role;
use mcp_protocol::elicitation::{
    ElicitAction, ElicitFormParams, ElicitParams, ElicitResult, ElicitUrlParams,
};
use mcp_protocol::input::{Ask, InputRequest, InputResponse};
use mcp_protocol::roots::ListRootsResult;
use mcp_protocol::sampling::{CreateMessageParams, CreateMessageResult};

use crate::error::AskError;

/// A request to the client with the type of its answer; the argument of [`Context::ask`](crate::Context::ask).
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

/// Returns an error if `action` or `role` has an unknown value. The protocol types accept unknown values for forward
/// compatibility.
pub(super) fn check_known_values(answer: &InputResponse) -> Result<(), String> {
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

pub(super) fn mismatched_answer(key: &str) -> AskError {
    AskError::Malformed(format!("the answer to `{key}` does not match the type of the request"))
}

/// Returns the capability that the request needs, if the client did not declare it.
pub(super) fn undeclared(ask: &Ask, client: Option<&ClientCapabilities>) -> Option<ClientCapabilities> {
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
