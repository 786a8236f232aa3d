//! Elicitation: a server asks the person in front of the host, by form or by URL.
//!
//! Spec: §7.1.

mod schema;

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::dialect::{Lower, Lowering, lower_as_it_is};
use crate::macros::{object, string_enum};
use crate::tasks::legacy::TaskParams;
use crate::union::Tagged;

pub use schema::{
    BooleanSchema, EnumItems, EnumOption, FieldSchema, FormSchema, NumberKind, NumberSchema, StringFormat,
    StringSchema, TitledItems, TitledMultiSelectSchema, TitledSingleSelectSchema, UntitledMultiSelectSchema,
    UntitledSingleSelectSchema,
};

/// Params of `elicitation/create`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ElicitParams {
    /// A form to fill in.
    Form(ElicitFormParams),
    /// A page to open.
    Url(ElicitUrlParams),
}

object! {
    /// A form to fill in.
    pub struct ElicitFormParams {
        required {
            /// What the person is told.
            message: String = "message",
            /// The fields.
            requested_schema: FormSchema = "requestedSchema",
        }
        optional {
            /// Form, if it is said at all.
            mode: ElicitMode = "mode",
            /// Asks for a task; 2025-11-25.
            task: TaskParams = "task",
        }
        meta = meta;
    }
}

object! {
    /// A page to open, outside of the host's and the model's reach; since 2025-11-25.
    pub struct ElicitUrlParams {
        tag "mode" = "url";
        required {
            /// What the person is told.
            message: String = "message",
            /// The page. Shown in full, opened only with consent.
            url: String = "url",
        }
        optional {
            /// Names the request; 2025-11-25, where it is required.
            elicitation_id: String = "elicitationId",
            /// Asks for a task; 2025-11-25.
            task: TaskParams = "task",
        }
        meta = meta;
        lower by crate::dialect::elicitation::lower_url;
    }
}

string_enum! {
    /// How the person is asked.
    pub enum ElicitMode {
        /// By a form.
        Form = "form",
        /// By a page.
        Url = "url",
    }
}

object! {
    /// Result of `elicitation/create`.
    ///
    /// ```
    /// use mcp_protocol::elicitation::ElicitResult;
    ///
    /// let answer = ElicitResult::accept([("name".to_owned(), "Ada".into())]);
    /// assert_eq!(serde_json::to_string(&answer)?, r#"{"action":"accept","content":{"name":"Ada"}}"#);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub struct ElicitResult {
        required {
            /// What the person did.
            action: ElicitAction = "action",
        }
        optional {
            /// The fields of an accepted form.
            content: BTreeMap<String, FieldValue> = "content",
        }
        meta = meta;
        open = other;
        lower by crate::dialect::elicitation::lower_result;
    }
}

impl ElicitResult {
    /// The person filled in the form.
    #[must_use]
    pub fn accept(content: impl Into<BTreeMap<String, FieldValue>>) -> Self {
        Self::new(ElicitAction::Accept).content(content)
    }

    /// The person said no.
    #[must_use]
    pub fn decline() -> Self {
        Self::new(ElicitAction::Decline)
    }

    /// The person said nothing.
    #[must_use]
    pub fn cancel() -> Self {
        Self::new(ElicitAction::Cancel)
    }
}

string_enum! {
    /// What the person did.
    pub enum ElicitAction {
        /// Filled in the form, or agreed to open the page.
        Accept = "accept",
        /// Said no.
        Decline = "decline",
        /// Said nothing.
        Cancel = "cancel",
    }
}

object! {
    /// Params of `notifications/elicitation/complete`; 2025-11-25.
    pub struct ElicitationCompleteParams {
        required {
            /// The request whose page is done.
            elicitation_id: String = "elicitationId",
        }
        meta = meta;
    }
}

/// What a person put into a field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FieldValue {
    /// Text, or the choice from a list.
    String(String),
    /// A number.
    Number(serde_json::Number),
    /// Yes or no.
    Boolean(bool),
    /// Several choices from a list; since 2025-11-25.
    Strings(Vec<String>),
}

lower_as_it_is!(FieldValue);

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

impl From<i64> for FieldValue {
    fn from(number: i64) -> Self {
        Self::Number(number.into())
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

impl Serialize for ElicitParams {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.lower(Lowering::CANONICAL, serializer)
    }
}

impl Lower for ElicitParams {
    fn lower<S: Serializer>(&self, cx: Lowering<'_>, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Form(form) => form.lower(cx, serializer),
            Self::Url(url) => url.lower(cx, serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ElicitParams {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ParamsVisitor;

        impl<'de> Visitor<'de> for ParamsVisitor {
            type Value = ElicitParams;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a form or a URL to show")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ElicitParams, A::Error> {
                use serde::de::Error;

                let object = Tagged::read("mode", map)?;
                match object.tag() {
                    Some("url") => object.into_object().map(ElicitParams::Url),
                    tag @ (None | Some("form")) => {
                        let mode = tag.map(ElicitMode::from);
                        let is_first = matches!(object, Tagged::First { .. });
                        let mut form: ElicitFormParams = object.into_object()?;
                        if is_first && form.mode.is_some() {
                            return Err(A::Error::duplicate_field("mode"));
                        }
                        form.mode = mode;
                        Ok(ElicitParams::Form(form))
                    }
                    Some(other) => Err(A::Error::unknown_variant(other, &["form", "url"])),
                }
            }
        }

        deserializer.deserialize_map(ParamsVisitor)
    }
}
