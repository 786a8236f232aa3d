//! Elicitation: a server requests input from the user, by form or by URL.
//!
//! Spec: MCP 2026-07-28, client/elicitation.

mod fields;
mod form;
mod schema;
mod typed_text;

use crate::dialect::{Fill, Lower, Lowering, Raise, Raising, Written, serde_by_dialect};
use crate::json::read::{Read, Reader, not_one_of};
use crate::macros::{object, string_enum};
use crate::map::Map;
use crate::tasks::legacy::TaskParams;

pub use fields::FormFields;
pub use form::FormError;
pub use schema::{
    BooleanSchema, EnumItems, EnumOption, FieldSchema, FormSchema, NumberKind, NumberSchema, StringFormat,
    StringSchema, TitledItems, TitledMultiSelectSchema, TitledSingleSelectSchema, UntitledMultiSelectSchema,
    UntitledSingleSelectSchema,
};
pub use typed_text::FieldError;

/// Params of `elicitation/create`.
#[doc(alias = "elicitation")]
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ElicitParams {
    /// A form.
    Form(ElicitFormParams),
    /// A URL.
    Url(ElicitUrlParams),
}

object! {
    /// A request to fill in a form.
    #[doc(alias = "elicitation")]
    pub struct ElicitFormParams {
        required {
            /// Message shown to the user.
            message: String = "message",
            /// Schema of the fields.
            requested_schema: FormSchema = "requestedSchema",
        }
        optional {
            /// Always `form`. An absent mode means the same.
            mode: ElicitMode = "mode",
            /// Requests execution as a task; 2025-11-25 only.
            task: TaskParams = "task",
        }
        meta = meta;
    }
}

object! {
    /// A request to open a URL, where the user can enter data that the client and the model must not see; since
    /// 2025-11-25.
    #[doc(alias = "elicitation")]
    pub struct ElicitUrlParams {
        tag "mode" = "url";
        required {
            /// Message shown to the user.
            message: String = "message",
            /// URL. Show it in full and open it only with the user's consent.
            url: String = "url",
        }
        optional {
            /// Id of the elicitation; required in 2025-11-25.
            elicitation_id: String = "elicitationId",
            /// Requests execution as a task; 2025-11-25 only.
            task: TaskParams = "task",
        }
        meta = meta;
        lower by crate::dialect::elicitation::lower_url;
    }
}

string_enum! {
    /// Mode of an elicitation.
    pub enum ElicitMode {
        /// Form mode.
        Form = "form",
        /// URL mode.
        Url = "url",
    }
}

object! {
    /// Result of `elicitation/create`.
    ///
    /// ```
    /// use mcp_protocol::elicitation::ElicitResult;
    ///
    /// let answer = ElicitResult::accept([]).field("name", "Ada");
    /// assert_eq!(serde_json::to_string(&answer)?, r#"{"action":"accept","content":{"name":"Ada"}}"#);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub struct ElicitResult {
        required {
            /// The user's action.
            action: ElicitAction = "action",
        }
        optional {
            /// Field values of an accepted form.
            content: Map<String, FieldValue> = "content",
        }
        meta = meta;
        open = other;
        lower by crate::dialect::elicitation::lower_result;
    }
}

impl ElicitResult {
    /// Creates the result of an accepted form, or, with the content `[]`, of a URL that the person agreed to open.
    ///
    /// Add the values with [`field`](Self::field), which converts them:
    /// `ElicitResult::accept([]).field("delete", true)`.
    #[must_use]
    pub fn accept(content: impl Into<Map<String, FieldValue>>) -> Self {
        Self::new(ElicitAction::Accept).content(content)
    }

    /// Adds the value of a field.
    ///
    /// ```
    /// use mcp_protocol::elicitation::ElicitResult;
    ///
    /// let languages = vec!["Rust".to_owned(), "C".to_owned()];
    /// let answer = ElicitResult::accept([])
    ///     .field("name", "Ada")
    ///     .field("age", 36)
    ///     .field("visits", 3_u32)
    ///     .field("subscribed", true)
    ///     .field("languages", languages);
    /// assert_eq!(answer.content.unwrap().len(), 5);
    /// ```
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, value: impl Into<FieldValue>) -> Self {
        self.content.get_or_insert_default().insert(name.into(), value.into());
        self
    }

    /// Creates the result of a declined request.
    #[must_use]
    pub fn decline() -> Self {
        Self::new(ElicitAction::Decline)
    }

    /// Creates the result of a request that was dismissed without a choice.
    #[must_use]
    pub fn cancel() -> Self {
        Self::new(ElicitAction::Cancel)
    }
}

string_enum! {
    /// The user's action.
    pub enum ElicitAction {
        /// The user submitted the form, or agreed to open the URL.
        Accept = "accept",
        /// The user declined.
        Decline = "decline",
        /// The user dismissed the request without a choice.
        Cancel = "cancel",
    }
}

object! {
    /// Params of `notifications/elicitation/complete`; 2025-11-25 only.
    pub struct ElicitationCompleteParams {
        required {
            /// Id of the completed elicitation.
            elicitation_id: String = "elicitationId",
        }
        meta = meta;
    }
}

/// The value of a form field.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldValue {
    /// Text, or a selected option.
    String(String),
    /// A number. Integers convert into it. An `f64` may not be a number in JSON: use
    /// [`serde_json::Number::from_f64`]. To read text that a person typed, use [`FieldSchema::parse`].
    Number(serde_json::Number),
    /// A boolean.
    Boolean(bool),
    /// Several selected options; since 2025-11-25.
    Strings(Vec<String>),
}

serde_by_dialect!(FieldValue, ElicitParams);

impl Lower for FieldValue {
    fn lower(&self, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        match self {
            Self::String(text) => text.lower(cx, out),
            Self::Number(number) => serde_json::to_writer(out, number),
            Self::Boolean(value) => value.lower(cx, out),
            Self::Strings(texts) => texts.lower(cx, out),
        }
    }
}

impl Raise for FieldValue {
    fn blank() -> Self {
        Self::Boolean(false)
    }
}

impl Fill for FieldValue {
    fn fill(&mut self, from: &mut Reader<'_>, how: Raising) -> Read<()> {
        *self = match from.peek() {
            Some(b'"') => Self::String(Raise::raise(from, how)?),
            Some(b't' | b'f') => Self::Boolean(Raise::raise(from, how)?),
            Some(b'[') => Self::Strings(Raise::raise(from, how)?),
            _ => Self::Number(
                from.number("a string, a number, true or false, or an array of strings", |text| {
                    text.parse().ok()
                })?,
            ),
        };
        Ok(())
    }
}

impl From<&str> for FieldValue {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for FieldValue {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<bool> for FieldValue {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

macro_rules! integers {
    ($($type:ty)*) => { $(
        impl From<$type> for FieldValue {
            fn from(number: $type) -> Self {
                Self::Number(number.into())
            }
        }
    )* };
}

integers! { i8 i16 i32 i64 u8 u16 u32 u64 }

impl From<Vec<String>> for FieldValue {
    fn from(options: Vec<String>) -> Self {
        Self::Strings(options)
    }
}

impl From<ElicitFormParams> for ElicitParams {
    fn from(form: ElicitFormParams) -> Self {
        Self::Form(form)
    }
}

impl From<ElicitUrlParams> for ElicitParams {
    fn from(url: ElicitUrlParams) -> Self {
        Self::Url(url)
    }
}

impl Lower for ElicitParams {
    fn lower(&self, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        match self {
            Self::Form(form) => form.lower(cx, out),
            Self::Url(url) => url.lower(cx, out),
        }
    }
}

impl Raise for ElicitParams {
    fn blank() -> Self {
        Self::Form(Raise::blank())
    }
}

impl Fill for ElicitParams {
    fn fill(&mut self, from: &mut Reader<'_>, how: Raising) -> Read<()> {
        *self = match from.tag("mode")?.as_deref() {
            Some("url") => Self::Url(Raise::raise(from, how)?),
            None | Some("form") => Self::Form(Raise::raise(from, how)?),
            Some(_) => return Err(not_one_of(&["form", "url"])),
        };
        Ok(())
    }
}
