//! Input requests, with which a server asks the user or the client for input that it needs to complete a request (multi
//! round-trip requests).
//!
//! In the modern era, input requests are part of an [`InputRequiredResult`], and the client retries the request with
//! the responses. In the legacy era, each input request is a separate request with the same types.
//!
//! Spec: MCP 2026-07-28, basic/patterns/mrtr.

use serde::de::Error;

use crate::dialect::{
    Dialect, Fill, Lower, Lowering, Raise, Raising, Written, member, object, serde_by_dialect,
};
use crate::elicitation::{ElicitParams, ElicitResult};
use crate::errors::BodyError;
use crate::json::Json;
use crate::json::read::{Read, Reader};
use crate::json::scan;
use crate::macros::object;
use crate::map::Map;
use crate::members::Members;
use crate::messages::{Body, EmptyParams, Method, ResultType};
use crate::roots::ListRootsResult;
use crate::sampling::{CreateMessageParams, CreateMessageResult};

/// Input requests by key; the responses use the same keys.
pub type InputRequests = Map<String, InputRequest>;

/// Input responses by the key of their request.
pub type InputResponses = Map<String, InputResponse>;

object! {
    /// A result that requires input: the client retries the request with the responses.
    ///
    /// ```
    /// use mcp_protocol::elicitation::{ElicitFormParams, FormSchema, StringSchema};
    /// use mcp_protocol::input::{InputRequest, InputRequiredResult};
    ///
    /// let form = ElicitFormParams::new("Your name?", FormSchema::new().field("name", StringSchema::new()));
    /// let result = InputRequiredResult::new().input_requests([("name".into(), InputRequest::elicit(form))]);
    /// assert!(serde_json::to_string(&result)?.starts_with(r#"{"resultType":"input_required""#));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[doc(alias = "MRTR")]
    #[doc(alias = "multi round-trip request")]
    pub struct InputRequiredResult {
        expected {
            /// Result type; always `input_required`.
            result_type: ResultType = "resultType" or ResultType::InputRequired,
        }
        optional {
            /// Requested input.
            input_requests: InputRequests = "inputRequests",
            /// Opaque state that the client must return unchanged.
            request_state: String = "requestState",
        }
        meta = meta;
        open = other;
        check by has_a_reason;
        lower by crate::dialect::input::lower_input_required;
    }
}

fn has_a_reason(result: &InputRequiredResult) -> Result<(), &'static str> {
    if result.result_type != Some(ResultType::InputRequired) {
        return Err("`resultType` must be \"input_required\"");
    }
    if result.input_requests.is_none() && result.request_state.is_none() {
        return Err("an `input_required` result must have `inputRequests`, `requestState` or both");
    }
    Ok(())
}

/// One input request.
#[doc(alias = "MRTR")]
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InputRequest {
    /// Requested input.
    pub ask: Ask,
    /// Members unknown to this crate, preserved as received.
    pub other: Members,
}

/// The kinds of input a server can request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Ask {
    /// User input: `elicitation/create`.
    Elicit(ElicitParams),
    /// A completion from the client's language model: `sampling/createMessage`.
    CreateMessage(Box<CreateMessageParams>),
    /// The client's roots: `roots/list`.
    ListRoots(Option<EmptyParams>),
    /// A kind unknown to this crate, preserved as received.
    Unknown {
        /// Method.
        method: Box<str>,
        /// Params.
        params: Option<Json>,
    },
}

impl InputRequest {
    /// Creates a request for user input.
    #[doc(alias = "elicitation")]
    #[must_use]
    pub fn elicit(params: impl Into<ElicitParams>) -> Self {
        Self::from(Ask::Elicit(params.into()))
    }

    /// Creates a request for a completion from the language model.
    #[doc(alias = "sampling")]
    #[must_use]
    pub fn create_message(params: CreateMessageParams) -> Self {
        Self::from(Ask::CreateMessage(Box::new(params)))
    }

    /// Creates a request for the roots.
    #[must_use]
    pub fn list_roots() -> Self {
        Self::from(Ask::ListRoots(None))
    }
}

impl From<Ask> for InputRequest {
    fn from(ask: Ask) -> Self {
        Self { ask, other: Members::default() }
    }
}

impl Ask {
    /// Returns the method of the request.
    #[must_use]
    pub fn method(&self) -> Method {
        match self {
            Self::Elicit(_) => Method::Elicit,
            Self::CreateMessage(_) => Method::CreateMessage,
            Self::ListRoots(_) => Method::RootsList,
            Self::Unknown { method, .. } => Method::from(&**method),
        }
    }
}

serde_by_dialect!(InputRequest, InputResponse);

impl Lower for InputRequest {
    fn lower(&self, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        object(out, |out| {
            member(out, "method", &self.ask.method(), cx)?;
            match &self.ask {
                Ask::Elicit(params) => member(out, "params", params, cx)?,
                Ask::CreateMessage(params) => member(out, "params", params, cx)?,
                Ask::ListRoots(Some(params)) => member(out, "params", params, cx)?,
                Ask::Unknown { params: Some(params), .. } => member(out, "params", params, cx)?,
                Ask::ListRoots(None) | Ask::Unknown { params: None, .. } => {}
            }
            self.other.lower_members(out)
        })
    }
}

object! {
    /// An input request whose params are not yet parsed.
    #[doc(hidden)]
    pub struct RawInputRequest {
        required {
            /// Method.
            method: Method = "method",
        }
        optional {
            /// Params.
            params: Json = "params",
        }
        open = other;
    }
}

impl Raise for InputRequest {
    fn blank() -> Self {
        Self::list_roots()
    }
}

impl Fill for InputRequest {
    fn fill(&mut self, from: &mut Reader<'_>, how: Raising) -> Read<()> {
        let raw = RawInputRequest::raise(from, how)?;
        let ask = match (raw.method, raw.params) {
            (Method::Elicit, Some(params)) => Ask::Elicit(params.raise()?),
            (Method::CreateMessage, Some(params)) => Ask::CreateMessage(params.raise()?),
            (Method::Elicit | Method::CreateMessage, None) => return Err(Error::missing_field("params")),
            (Method::RootsList, params) => Ask::ListRoots(params.map(|params| params.raise()).transpose()?),
            (method, params) => Ask::Unknown { method: method.as_str().into(), params },
        };
        *self = Self { ask, other: raw.other };
        Ok(())
    }
}

/// The response to an input request: the result of its method, without a JSON-RPC envelope.
#[doc(alias = "MRTR")]
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum InputResponse {
    /// The result of an elicitation.
    Elicit(ElicitResult),
    /// The result of a sampling request.
    CreateMessage(Box<CreateMessageResult>),
    /// The client's roots.
    ListRoots(ListRootsResult),
}

impl Lower for InputResponse {
    fn lower(&self, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        match self {
            Self::Elicit(result) => result.lower(cx, out),
            Self::CreateMessage(result) => result.lower(cx, out),
            Self::ListRoots(result) => result.lower(cx, out),
        }
    }
}

/// A response does not state its kind. The kind is recognized by a required member that the other kinds lack.
impl Raise for InputResponse {
    fn blank() -> Self {
        Self::ListRoots(Raise::blank())
    }
}

impl Fill for InputResponse {
    fn fill(&mut self, from: &mut Reader<'_>, how: Raising) -> Read<()> {
        let ahead = from.clone().any()?;
        let has = |name: &str| scan::members(ahead).any(|(key, _)| key == name);
        *self = if has("action") {
            Self::Elicit(Raise::raise(from, how)?)
        } else if has("roots") {
            Self::ListRoots(Raise::raise(from, how)?)
        } else if has("model") || has("role") {
            Self::CreateMessage(Raise::raise(from, how)?)
        } else {
            return Err(Error::custom("an input response must have `action`, `model` or `roots`"));
        };
        Ok(())
    }
}

/// The result of one round of `prompts/get` or `resources/read`. For `tools/call` see
/// [`CallToolResponse`](crate::tools::CallToolResponse).
#[doc(alias = "MRTR")]
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Round<T> {
    /// The request is complete.
    Complete(T),
    /// The server needs input; the client retries with the responses.
    InputRequired(InputRequiredResult),
}

impl<T: Raise> Round<T> {
    /// Parses the result of a round.
    ///
    /// ```
    /// use mcp_protocol::input::Round;
    /// use mcp_protocol::messages::{Incoming, Message, parse};
    /// use mcp_protocol::prompts::GetPromptResult;
    /// use mcp_protocol::{Dialect, Limits};
    ///
    /// let text = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"s"}}"#;
    /// let Incoming::Message(Message::Response(response)) = parse(text, &Limits::default())? else { panic!() };
    /// let round = Round::<GetPromptResult>::raise(Dialect::V2026_07_28, &response.outcome?)?;
    /// assert!(matches!(round, Round::InputRequired(_)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the result does not match its result type, or if that type is not valid for these methods.
    pub fn raise(dialect: Dialect, result: &Body<'_>) -> Result<Self, BodyError> {
        match result_type(dialect, result)? {
            ResultType::Complete => Ok(Self::Complete(dialect.raise(result)?)),
            ResultType::InputRequired => Ok(Self::InputRequired(dialect.raise(result)?)),
            other => Err(BodyError::ResultType(other.to_string())),
        }
    }
}

/// Returns the result type of a body. An absent type means `complete`. In the legacy era, every result is complete.
pub(crate) fn result_type(dialect: Dialect, result: &Body<'_>) -> Result<ResultType, BodyError> {
    if !dialect.has_result_types() {
        return Ok(ResultType::Complete);
    }
    Ok(result.raise_member("resultType")?.unwrap_or(ResultType::Complete))
}
