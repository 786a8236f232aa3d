//! Schemas of form fields. A field is a text, a number, a boolean, or a single or multiple selection; fields are not
//! nested. All notations for selections are supported.

use super::FormFields;
use crate::dialect::{Fill, Lower, Lowering, Raise, Raising, Written, serde_by_dialect};
use crate::json::Json;
use crate::json::read::{Read, Reader};
use crate::json::scan;
use crate::macros::{object, string_enum};

object! {
    /// The schema of a form.
    ///
    /// ```
    /// use mcp_protocol::elicitation::{FormSchema, NumberSchema, StringSchema};
    ///
    /// let schema = FormSchema::new()
    ///     .field("name", StringSchema::new().title("Name").min_length(1_u64))
    ///     .field("age", NumberSchema::integer().minimum(0))
    ///     .require("name");
    /// assert_eq!(schema.fields.len(), 2);
    /// ```
    #[doc(alias = "requestedSchema")]
    pub struct FormSchema {
        tag "type" = "object";
        empty {
            /// Fields, in the order in which a person sees them.
            fields: FormFields = "properties",
        }
        optional {
            /// Names of required fields.
            required: Vec<String> = "required",
            /// URI of the JSON Schema dialect.
            schema: String = "$schema",
        }
        open = other;
    }
}

/// The schema of one form field.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FieldSchema {
    /// Text.
    String(StringSchema),
    /// A number.
    Number(NumberSchema),
    /// A boolean.
    Boolean(BooleanSchema),
    /// A single selection without titles, or with the deprecated `enumNames`.
    SingleSelect(UntitledSingleSelectSchema),
    /// A single selection with titles; since 2025-11-25.
    TitledSingleSelect(TitledSingleSelectSchema),
    /// A multiple selection without titles; since 2025-11-25.
    MultiSelect(UntitledMultiSelectSchema),
    /// A multiple selection with titles; since 2025-11-25.
    TitledMultiSelect(TitledMultiSelectSchema),
    /// A kind unknown to this crate, preserved as received.
    Unknown(Json),
}

object! {
    /// A text field.
    pub struct StringSchema {
        tag "type" = "string";
        optional {
            /// Label.
            title: String = "title",
            /// Help text for the user.
            description: String = "description",
            /// Minimum number of characters.
            min_length: u64 = "minLength",
            /// Maximum number of characters.
            max_length: u64 = "maxLength",
            /// Format that the text must have.
            format: StringFormat = "format",
            /// Default value; since 2025-11-25.
            default: String = "default",
        }
        open = other;
    }
}

string_enum! {
    /// Format of a text field.
    pub enum StringFormat {
        /// An email address.
        Email = "email",
        /// A URI.
        Uri = "uri",
        /// A date.
        Date = "date",
        /// A date and time.
        DateTime = "date-time",
    }
}

object! {
    /// A number field.
    pub struct NumberSchema {
        required {
            /// Number or integer.
            kind: NumberKind = "type",
        }
        optional {
            /// Label.
            title: String = "title",
            /// Help text for the user.
            description: String = "description",
            /// Minimum value.
            minimum: f64 = "minimum",
            /// Maximum value.
            maximum: f64 = "maximum",
            /// Default value; since 2025-11-25.
            default: f64 = "default",
        }
        open = other;
    }
}

impl NumberSchema {
    /// Creates a field for any number.
    #[must_use]
    pub fn number() -> Self {
        Self::new(NumberKind::Number)
    }

    /// Creates a field for an integer.
    #[must_use]
    pub fn integer() -> Self {
        Self::new(NumberKind::Integer)
    }
}

string_enum! {
    /// Number or integer.
    pub enum NumberKind {
        /// Any number.
        Number = "number",
        /// Integers only.
        Integer = "integer",
    }
}

object! {
    /// A boolean field.
    pub struct BooleanSchema {
        tag "type" = "boolean";
        optional {
            /// Label.
            title: String = "title",
            /// Help text for the user.
            description: String = "description",
            /// Default value.
            default: bool = "default",
        }
        open = other;
    }
}

object! {
    /// A single selection without titles.
    pub struct UntitledSingleSelectSchema {
        tag "type" = "string";
        required {
            /// Values to choose from.
            values: Vec<String> = "enum",
        }
        optional {
            /// Label.
            title: String = "title",
            /// Help text for the user.
            description: String = "description",
            /// Titles, in the order of the values. Deprecated, but the only notation for titles in 2025-06-18.
            enum_names: Vec<String> = "enumNames",
            /// Default value; since 2025-11-25.
            default: String = "default",
        }
        open = other;
    }
}

object! {
    /// A single selection with titles.
    pub struct TitledSingleSelectSchema {
        tag "type" = "string";
        required {
            /// Values with titles.
            options: Vec<EnumOption> = "oneOf",
        }
        optional {
            /// Label.
            title: String = "title",
            /// Help text for the user.
            description: String = "description",
            /// Default value.
            default: String = "default",
        }
        open = other;
        lower by crate::dialect::elicitation::lower_titled;
    }
}

object! {
    /// An option with its title.
    pub struct EnumOption {
        required {
            /// Value.
            value: String = "const",
            /// Title to display.
            title: String = "title",
        }
        open = other;
    }
}

object! {
    /// A multiple selection without titles.
    pub struct UntitledMultiSelectSchema {
        tag "type" = "array";
        required {
            /// Values to choose from.
            items: EnumItems = "items",
        }
        optional {
            /// Label.
            title: String = "title",
            /// Help text for the user.
            description: String = "description",
            /// Minimum number of selected options.
            min_items: u64 = "minItems",
            /// Maximum number of selected options.
            max_items: u64 = "maxItems",
            /// Default value.
            default: Vec<String> = "default",
        }
        open = other;
        lower by crate::dialect::elicitation::lower_untitled_multi;
    }
}

object! {
    /// A multiple selection with titles.
    pub struct TitledMultiSelectSchema {
        tag "type" = "array";
        required {
            /// Values with titles.
            items: TitledItems = "items",
        }
        optional {
            /// Label.
            title: String = "title",
            /// Help text for the user.
            description: String = "description",
            /// Minimum number of selected options.
            min_items: u64 = "minItems",
            /// Maximum number of selected options.
            max_items: u64 = "maxItems",
            /// Default value.
            default: Vec<String> = "default",
        }
        open = other;
        lower by crate::dialect::elicitation::lower_titled_multi;
    }
}

object! {
    /// The options of a multiple selection.
    pub struct EnumItems {
        tag "type" = "string";
        required {
            /// Values to choose from.
            values: Vec<String> = "enum",
        }
        open = other;
    }
}

object! {
    /// The options of a multiple selection, with titles.
    pub struct TitledItems {
        required {
            /// Values with titles.
            options: Vec<EnumOption> = "anyOf",
        }
        open = other;
    }
}

impl FormSchema {
    /// Adds a field after the others, or replaces the field with this name.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, schema: impl Into<FieldSchema>) -> Self {
        self.fields.insert(name, schema);
        self
    }

    /// Makes a field required.
    #[must_use]
    pub fn require(mut self, name: impl Into<String>) -> Self {
        self.required.get_or_insert_default().push(name.into());
        self
    }
}

macro_rules! kinds {
    ($($variant:ident($type:ty))*) => {
        $(
            impl From<$type> for FieldSchema {
                fn from(schema: $type) -> Self {
                    Self::$variant(schema)
                }
            }
        )*

        impl Lower for FieldSchema {
            fn lower(&self, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
                match self {
                    $(Self::$variant(schema) => schema.lower(cx, out),)*
                    Self::Unknown(json) => json.lower(cx, out),
                }
            }
        }
    };
}

kinds! {
    String(StringSchema)
    Number(NumberSchema)
    Boolean(BooleanSchema)
    SingleSelect(UntitledSingleSelectSchema)
    TitledSingleSelect(TitledSingleSelectSchema)
    MultiSelect(UntitledMultiSelectSchema)
    TitledMultiSelect(TitledMultiSelectSchema)
}

serde_by_dialect!(FieldSchema);

/// The kind is determined by `type` and by members that only one kind has.
impl Raise for FieldSchema {
    fn blank() -> Self {
        Self::Unknown(Raise::blank())
    }
}

impl Fill for FieldSchema {
    fn fill(&mut self, from: &mut Reader<'_>, how: Raising) -> Read<()> {
        let ahead = from.clone().any()?;
        let member = |text, name: &str| {
            scan::members(text).filter(|(key, _)| key == name).map(|(_, value)| value).last()
        };
        let has = |name| member(ahead, name).is_some();
        *self = match member(ahead, "type").map(|kind| kind.trim_matches('"')) {
            Some("string") if has("enum") => Self::SingleSelect(Raise::raise(from, how)?),
            Some("string") if has("oneOf") => Self::TitledSingleSelect(Raise::raise(from, how)?),
            Some("string") => Self::String(Raise::raise(from, how)?),
            Some("number" | "integer") => Self::Number(Raise::raise(from, how)?),
            Some("boolean") => Self::Boolean(Raise::raise(from, how)?),
            Some("array") => match member(ahead, "items").and_then(|items| member(items, "anyOf")) {
                Some(_) => Self::TitledMultiSelect(Raise::raise(from, how)?),
                None => Self::MultiSelect(Raise::raise(from, how)?),
            },
            Some(_) => Self::Unknown(Raise::raise(from, how)?),
            None => return Err(serde::de::Error::missing_field("type")),
        };
        Ok(())
    }
}
