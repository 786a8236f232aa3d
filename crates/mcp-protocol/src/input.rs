//! Input requests: what a server wants from the person or host before it can finish.
//!
//! In the modern era they travel inside an [`InputRequiredResult`], and the client sends the request again
//! with the answers. In the legacy era each one is a request of its own; the types are the same.
//!
//! Spec: §5.5, §5.6.

use std::collections::BTreeMap;

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::dialect::{Dialect, Lower, Lowering, Raise};
use crate::elicitation::{ElicitParams, ElicitResult};
use crate::errors::BodyError;
use crate::json::Json;
use crate::macros::object;
use crate::members::Members;
use crate::messages::{Body, EmptyParams, Method, ResultType};
use crate::roots::ListRootsResult;
use crate::sampling::{CreateMessageParams, CreateMessageResult};

/// Input requests by key; the answers carry the same keys.
pub type InputRequests = BTreeMap<String, InputRequest>;

/// Answers by the key of their input request.
pub type InputResponses = BTreeMap<String, InputResponse>;

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

impl Serialize for InputRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.lower(Lowering::CANONICAL, serializer)
    }
}

impl Lower for InputRequest {
    fn lower<S: Serializer>(&self, cx: Lowering<'_>, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_map(None)?;
        out.serialize_entry("method", &self.ask.method())?;
        match &self.ask {
            Ask::Elicit(params) => out.serialize_entry("params", &cx.view(params))?,
            Ask::CreateMessage(params) => out.serialize_entry("params", &cx.view(params))?,
            Ask::ListRoots(Some(params)) => out.serialize_entry("params", &cx.view(params))?,
            Ask::Unknown { params: Some(params), .. } => out.serialize_entry("params", params)?,
            Ask::ListRoots(None) | Ask::Unknown { params: None, .. } => {}
        }
        self.other.lower_members(&mut out)?;
        out.end()
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

impl<'de> Deserialize<'de> for InputRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;

        let raw = RawInputRequest::deserialize(deserializer)?;
        let ask = match (raw.method, raw.params) {
            (Method::Elicit, Some(params)) => Ask::Elicit(params.to().map_err(D::Error::custom)?),
            (Method::CreateMessage, Some(params)) => {
                Ask::CreateMessage(params.to().map_err(D::Error::custom)?)
            }
            (Method::Elicit | Method::CreateMessage, None) => return Err(D::Error::missing_field("params")),
            (Method::RootsList, params) => {
                Ask::ListRoots(params.map(|params| params.to()).transpose().map_err(D::Error::custom)?)
            }
            (method, params) => Ask::Unknown { method: method.as_str().into(), params },
        };
        Ok(Self { ask, other: raw.other })
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

impl Serialize for InputResponse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.lower(Lowering::CANONICAL, serializer)
    }
}

impl Lower for InputResponse {
    fn lower<S: Serializer>(&self, cx: Lowering<'_>, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Elicit(result) => result.lower(cx, serializer),
            Self::CreateMessage(result) => result.lower(cx, serializer),
            Self::ListRoots(result) => result.lower(cx, serializer),
        }
    }
}

/// Nothing in an answer names its kind; each kind has a required member that the others lack.
impl<'de> Deserialize<'de> for InputResponse {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;

        let json = Json::deserialize(deserializer)?;
        let has = |member| json.member(member).is_some();
        if has("action") {
            json.to().map(Self::Elicit).map_err(D::Error::custom)
        } else if has("roots") {
            json.to().map(Self::ListRoots).map_err(D::Error::custom)
        } else if has("model") || has("role") {
            json.to().map(Self::CreateMessage).map_err(D::Error::custom)
        } else {
            Err(D::Error::custom("an answer has an `action`, a `model` or `roots`"))
        }
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
    Ok(result.parse_member("resultType")?.unwrap_or(ResultType::Complete))
}
