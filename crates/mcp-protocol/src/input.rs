//! Input requests: what a server wants from the person or host before it can finish.
//!
//! In the modern era they travel inside an [`InputRequiredResult`], and the client sends the request again
//! with the answers. In the legacy era each one is a request of its own; the types are the same.
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

/// Input requests by key; the answers carry the same keys.
pub type InputRequests = Map<String, InputRequest>;

/// Answers by the key of their input request.
pub type InputResponses = Map<String, InputResponse>;

object! {
    /// A result that says: answer these, then ask again.
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
    pub struct InputRequiredResult {
        expected {
            /// Always `input_required`.
            result_type: ResultType = "resultType" or ResultType::InputRequired,
        }
        optional {
            /// What is wanted.
            input_requests: InputRequests = "inputRequests",
            /// What the server wants back, byte for byte.
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
        return Err("an input_required result has `inputRequests`, `requestState` or both");
    }
    Ok(())
}

/// One input request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InputRequest {
    /// What is wanted.
    pub ask: Ask,
    /// Members this crate does not know, kept as they came.
    pub other: Members,
}

/// What a server can want.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Ask {
    /// Something from the person: `elicitation/create`.
    Elicit(ElicitParams),
    /// Something from the host's language model: `sampling/createMessage`.
    CreateMessage(Box<CreateMessageParams>),
    /// The host's roots: `roots/list`.
    ListRoots(Option<EmptyParams>),
    /// Something this crate does not know, kept as it came.
    Unknown {
        /// The method.
        method: Box<str>,
        /// Its params.
        params: Option<Json>,
    },
}

impl InputRequest {
    /// Asks the person.
    #[must_use]
    pub fn elicit(params: impl Into<ElicitParams>) -> Self {
        Self::from(Ask::Elicit(params.into()))
    }

    /// Asks the language model.
    #[must_use]
    pub fn create_message(params: CreateMessageParams) -> Self {
        Self::from(Ask::CreateMessage(Box::new(params)))
    }

    /// Asks for the roots.
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
    /// The method that asks for this.
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
    /// An input request before its method is looked at.
    #[doc(hidden)]
    pub struct RawInputRequest {
        required {
            /// The method.
            method: Method = "method",
        }
        optional {
            /// Its params.
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

/// An answer to an input request: the bare result of what was asked.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum InputResponse {
    /// What the person did.
    Elicit(ElicitResult),
    /// What the language model said.
    CreateMessage(Box<CreateMessageResult>),
    /// The roots.
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

/// Nothing in an answer names its kind; each kind has a required member that the others lack.
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
            return Err(Error::custom("an answer has an `action`, a `model` or `roots`"));
        };
        Ok(())
    }
}

/// How one round of `prompts/get` or `resources/read` ended. `tools/call` has a type of its own,
/// [`CallToolResponse`](crate::tools::CallToolResponse).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Round<T> {
    /// The request is done.
    Complete(T),
    /// The server needs input and a second try.
    InputRequired(InputRequiredResult),
}

impl<T: Raise> Round<T> {
    /// Reads the result of a round, whichever kind it is.
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
    /// When it has another shape, or a type that these methods cannot end with.
    pub fn raise(dialect: Dialect, result: &Body<'_>) -> Result<Self, BodyError> {
        match result_type(dialect, result)? {
            ResultType::Complete => Ok(Self::Complete(dialect.raise(result)?)),
            ResultType::InputRequired => Ok(Self::InputRequired(dialect.raise(result)?)),
            other => Err(BodyError::ResultType(other.to_string())),
        }
    }
}

/// What kind of result a body is. Absent means complete, and so does anything in the legacy era.
pub(crate) fn result_type(dialect: Dialect, result: &Body<'_>) -> Result<ResultType, BodyError> {
    if !dialect.has_result_types() {
        return Ok(ResultType::Complete);
    }
    Ok(result.raise_member("resultType")?.unwrap_or(ResultType::Complete))
}
