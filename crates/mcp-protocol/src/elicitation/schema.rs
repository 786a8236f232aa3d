//! The fields of a form: flat, primitive, five kinds and all spellings of choices.

use crate::dialect::{Fill, Lower, Lowering, Raise, Raising, Written, serde_by_dialect};
use crate::json::Json;
use crate::json::read::{Read, Reader};
use crate::json::scan;
use crate::macros::{object, string_enum};
use crate::map::Map;

object! {
    /// The fields of a form.
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
    pub struct FormSchema {
        tag "type" = "object";
        empty {
            /// The fields by name.
            fields: Map<String, FieldSchema> = "properties",
        }
        optional {
            /// Those that must be filled in.
            required: Vec<String> = "required",
            /// The JSON Schema dialect.
            schema: String = "$schema",
        }
        open = other;
    }
}

/// One field of a form.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FieldSchema {
    /// Text.
    String(StringSchema),
    /// A number.
    Number(NumberSchema),
    /// Yes or no.
    Boolean(BooleanSchema),
    /// One of several, shown as they are; with titles in the old spelling.
    SingleSelect(UntitledSingleSelectSchema),
    /// One of several, shown by title; since 2025-11-25.
    TitledSingleSelect(TitledSingleSelectSchema),
    /// Any of several, shown as they are; since 2025-11-25.
    MultiSelect(UntitledMultiSelectSchema),
    /// Any of several, shown by title; since 2025-11-25.
    TitledMultiSelect(TitledMultiSelectSchema),
    /// Something this crate does not know, kept as it came.
    Unknown(Json),
}

object! {
    /// Text.
    pub struct StringSchema {
        tag "type" = "string";
        optional {
            /// The label.
            title: String = "title",
            /// Help for the person.
            description: String = "description",
            /// Fewest characters.
            min_length: u64 = "minLength",
            /// Most characters.
            max_length: u64 = "maxLength",
            /// What the text must be.
            format: StringFormat = "format",
            /// What stands there at first; since 2025-11-25.
            default: String = "default",
        }
        open = other;
    }
}

string_enum! {
    /// What a text must be.
    pub enum StringFormat {
        /// A mail address.
        Email = "email",
        /// A URI.
        Uri = "uri",
        /// A date.
        Date = "date",
        /// A date with time.
        DateTime = "date-time",
    }
}

object! {
    /// A number.
    pub struct NumberSchema {
        required {
            /// Any number, or whole ones only.
            kind: NumberKind = "type",
        }
        optional {
            /// The label.
            title: String = "title",
            /// Help for the person.
            description: String = "description",
            /// The least.
            minimum: f64 = "minimum",
            /// The most.
            maximum: f64 = "maximum",
            /// What stands there at first; since 2025-11-25.
            default: f64 = "default",
        }
        open = other;
    }
}

impl NumberSchema {
    /// Any number.
    #[must_use]
    pub fn number() -> Self {
        Self::new(NumberKind::Number)
    }

    /// A whole number.
    #[must_use]
    pub fn integer() -> Self {
        Self::new(NumberKind::Integer)
    }
}

string_enum! {
    /// Any number, or whole ones only.
    pub enum NumberKind {
        /// Any number.
        Number = "number",
        /// Whole numbers.
        Integer = "integer",
    }
}

object! {
    /// Yes or no.
    pub struct BooleanSchema {
        tag "type" = "boolean";
        optional {
            /// The label.
            title: String = "title",
            /// Help for the person.
            description: String = "description",
            /// What is chosen at first.
            default: bool = "default",
        }
        open = other;
    }
}

object! {
    /// One of several, shown as they are.
    pub struct UntitledSingleSelectSchema {
        tag "type" = "string";
        required {
            /// The values.
            values: Vec<String> = "enum",
        }
        optional {
            /// The label.
            title: String = "title",
            /// Help for the person.
            description: String = "description",
            /// Titles in the order of the values: the old spelling, the only one of 2025-06-18.
            enum_names: Vec<String> = "enumNames",
            /// What is chosen at first; since 2025-11-25.
            default: String = "default",
        }
        open = other;
    }
}

object! {
    /// One of several, shown by title.
    pub struct TitledSingleSelectSchema {
        tag "type" = "string";
        required {
            /// The values with their titles.
            options: Vec<EnumOption> = "oneOf",
        }
        optional {
            /// The label.
            title: String = "title",
            /// Help for the person.
            description: String = "description",
            /// What is chosen at first.
            default: String = "default",
        }
        open = other;
        lower by crate::dialect::elicitation::lower_titled;
    }
}

object! {
    /// A value with its title.
    pub struct EnumOption {
        required {
            /// The value.
            value: String = "const",
            /// What is shown.
            title: String = "title",
        }
        open = other;
    }
}

object! {
    /// Any of several, shown as they are.
    pub struct UntitledMultiSelectSchema {
        tag "type" = "array";
        required {
            /// The values.
            items: EnumItems = "items",
        }
        optional {
            /// The label.
            title: String = "title",
            /// Help for the person.
            description: String = "description",
            /// Fewest choices.
            min_items: u64 = "minItems",
            /// Most choices.
            max_items: u64 = "maxItems",
            /// What is chosen at first.
            default: Vec<String> = "default",
        }
        open = other;
        lower by crate::dialect::elicitation::lower_untitled_multi;
    }
}

object! {
    /// Any of several, shown by title.
    pub struct TitledMultiSelectSchema {
        tag "type" = "array";
        required {
            /// The values with their titles.
            items: TitledItems = "items",
        }
        optional {
            /// The label.
            title: String = "title",
            /// Help for the person.
            description: String = "description",
            /// Fewest choices.
            min_items: u64 = "minItems",
            /// Most choices.
            max_items: u64 = "maxItems",
            /// What is chosen at first.
            default: Vec<String> = "default",
        }
        open = other;
        lower by crate::dialect::elicitation::lower_titled_multi;
    }
}

object! {
    /// The values of a choice of many.
    pub struct EnumItems {
        tag "type" = "string";
        required {
            /// The values.
            values: Vec<String> = "enum",
        }
        open = other;
    }
}

object! {
    /// The values of a choice of many, with their titles.
    pub struct TitledItems {
        required {
            /// The values with their titles.
            options: Vec<EnumOption> = "anyOf",
        }
        open = other;
    }
}

impl FormSchema {
    /// Adds a field.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, schema: impl Into<FieldSchema>) -> Self {
        self.fields.insert(name.into(), schema.into());
        self
    }

    /// Makes a field one that must be filled in.
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

/// Told apart by `type` and by the members that only one kind has.
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
