//! Validation of submitted form content against the form's schema.

use std::collections::BTreeSet;

use super::{EnumOption, FieldSchema, FieldValue, FormSchema, NumberKind, StringSchema};
use crate::map::Map;
use crate::safe_text::SafeText;

/// An error for form content that does not match the schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("field `{}` {}", SafeText::name(field), SafeText::message(problem))]
#[non_exhaustive]
pub struct FormError {
    /// Name of the field.
    pub field: String,
    /// Description of the problem, such as `is required`.
    pub problem: String,
}

impl FormSchema {
    /// Adds the default value of each field that is absent from `answer`. Fields without a default value stay absent.
    ///
    /// ```
    /// use mcp_protocol::Map;
    /// use mcp_protocol::elicitation::{BooleanSchema, FormSchema};
    ///
    /// let form = FormSchema::new().field("again", BooleanSchema::new().default(true));
    /// let mut answer = Map::new();
    /// form.fill_defaults(&mut answer);
    /// assert_eq!(answer.get("again"), Some(&true.into()));
    /// ```
    pub fn fill_defaults(&self, answer: &mut Map<String, FieldValue>) {
        for (name, field) in self.fields.iter() {
            if !answer.contains_key(name)
                && let Some(value) = field.default_value()
            {
                answer.insert(name.clone(), value);
            }
        }
    }

    /// Validates form content: required fields are present, unknown fields are absent, and each value matches its
    /// field. String formats are not checked.
    ///
    /// # Errors
    /// Fails with the first invalid field.
    pub fn check(&self, answer: &Map<String, FieldValue>) -> Result<(), FormError> {
        let wrong = |field: &str, problem: String| FormError { field: field.to_owned(), problem };
        for name in self.required.iter().flatten() {
            if !answer.contains_key(name) {
                return Err(wrong(name, "is required".to_owned()));
            }
        }
        for (name, value) in answer.iter() {
            let Some(field) = self.fields.get(name) else {
                return Err(wrong(name, "is not a field of the form".to_owned()));
            };
            field.check(value).map_err(|problem| wrong(name, problem))?;
        }
        Ok(())
    }
}

impl FieldSchema {
    /// Returns the label of the field. If there is none, show the name of the field.
    ///
    /// ```
    /// use mcp_protocol::elicitation::{FieldSchema, StringSchema};
    ///
    /// let field = FieldSchema::from(StringSchema::new().title("Name").description("As in your passport."));
    /// assert_eq!((field.title(), field.description()), (Some("Name"), Some("As in your passport.")));
    /// ```
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        match self {
            Self::String(schema) => schema.title.as_deref(),
            Self::Number(schema) => schema.title.as_deref(),
            Self::Boolean(schema) => schema.title.as_deref(),
            Self::SingleSelect(schema) => schema.title.as_deref(),
            Self::TitledSingleSelect(schema) => schema.title.as_deref(),
            Self::MultiSelect(schema) => schema.title.as_deref(),
            Self::TitledMultiSelect(schema) => schema.title.as_deref(),
            Self::Unknown(_) => None,
        }
    }

    /// Returns the help text of the field.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        match self {
            Self::String(schema) => schema.description.as_deref(),
            Self::Number(schema) => schema.description.as_deref(),
            Self::Boolean(schema) => schema.description.as_deref(),
            Self::SingleSelect(schema) => schema.description.as_deref(),
            Self::TitledSingleSelect(schema) => schema.description.as_deref(),
            Self::MultiSelect(schema) => schema.description.as_deref(),
            Self::TitledMultiSelect(schema) => schema.description.as_deref(),
            Self::Unknown(_) => None,
        }
    }

    /// Returns the default value of the field.
    #[must_use]
    pub fn default_value(&self) -> Option<FieldValue> {
        match self {
            Self::String(schema) => schema.default.clone().map(FieldValue::String),
            Self::Number(schema) => {
                schema.default.and_then(|value| number(schema.kind == NumberKind::Integer, value))
            }
            Self::Boolean(schema) => schema.default.map(FieldValue::Boolean),
            Self::SingleSelect(schema) => schema.default.clone().map(FieldValue::String),
            Self::TitledSingleSelect(schema) => schema.default.clone().map(FieldValue::String),
            Self::MultiSelect(schema) => schema.default.clone().map(FieldValue::Strings),
            Self::TitledMultiSelect(schema) => schema.default.clone().map(FieldValue::Strings),
            Self::Unknown(_) => None,
        }
    }

    /// Returns the options as pairs of value and title; empty if the field is not a selection. An option without a
    /// title has its value as title.
    #[must_use]
    pub fn choices(&self) -> Vec<(&str, &str)> {
        match self {
            Self::SingleSelect(schema) => {
                let names = schema.enum_names.as_deref().unwrap_or_default();
                let named = |(at, value)| (value, names.get(at).map_or(value, String::as_str));
                schema.values.iter().map(String::as_str).enumerate().map(named).collect()
            }
            Self::TitledSingleSelect(schema) => options(&schema.options),
            Self::MultiSelect(schema) => {
                schema.items.values.iter().map(|value| (value.as_str(), value.as_str())).collect()
            }
            Self::TitledMultiSelect(schema) => options(&schema.items.options),
            _ => Vec::new(),
        }
    }

    pub(super) fn check(&self, value: &FieldValue) -> Result<(), String> {
        match (self, value) {
            (Self::Unknown(_), _) | (Self::Boolean(_), FieldValue::Boolean(_)) => Ok(()),
            (Self::String(schema), FieldValue::String(text)) => check_text(schema, text),
            (Self::Number(schema), FieldValue::Number(number)) => {
                let value = number.as_f64().unwrap_or(f64::NAN);
                if schema.kind == NumberKind::Integer && value.fract() != 0.0 {
                    return Err("must be an integer".to_owned());
                }
                match (schema.minimum, schema.maximum) {
                    (Some(least), _) if value < least => Err(format!("must be at least {least}")),
                    (_, Some(most)) if value > most => Err(format!("must be at most {most}")),
                    _ => Ok(()),
                }
            }
            (Self::SingleSelect(_) | Self::TitledSingleSelect(_), FieldValue::String(choice)) => {
                self.has(choice)
            }
            (Self::MultiSelect(schema), FieldValue::Strings(choices)) => {
                self.has_all(choices, schema.min_items, schema.max_items)
            }
            (Self::TitledMultiSelect(schema), FieldValue::Strings(choices)) => {
                self.has_all(choices, schema.min_items, schema.max_items)
            }
            _ => Err("has the wrong type".to_owned()),
        }
    }

    fn has(&self, choice: &str) -> Result<(), String> {
        let is_known = self.choices().iter().any(|(value, _)| *value == choice);
        if is_known { Ok(()) } else { Err(no_choice(choice)) }
    }

    fn has_all(&self, choices: &[String], least: Option<u64>, most: Option<u64>) -> Result<(), String> {
        let count = choices.len() as u64;
        match (least, most) {
            (Some(least), _) if count < least => {
                return Err(format!("needs at least {least} selected options"));
            }
            (_, Some(most)) if count > most => {
                return Err(format!("accepts at most {most} selected options"));
            }
            _ => {}
        }
        // A set is used because both sides may have thousands of entries: comparing each pair would block the thread
        // for seconds.
        let known: BTreeSet<&str> = self.choices().into_iter().map(|(value, _)| value).collect();
        match choices.iter().find(|choice| !known.contains(choice.as_str())) {
            Some(unknown) => Err(no_choice(unknown)),
            None => Ok(()),
        }
    }
}

pub(super) fn no_choice(choice: &str) -> String {
    format!("has no option {choice:?}")
}

/// Converts the value of a number field. In an integer field, it is written without a fraction.
pub(super) fn number(is_integer: bool, value: f64) -> Option<FieldValue> {
    if is_integer && value.fract() == 0.0 && value.abs() < 1e15 {
        return Some(FieldValue::Number((value as i64).into()));
    }
    serde_json::Number::from_f64(value).map(FieldValue::Number)
}

fn options(options: &[EnumOption]) -> Vec<(&str, &str)> {
    options.iter().map(|option| (option.value.as_str(), option.title.as_str())).collect()
}

fn check_text(schema: &StringSchema, text: &str) -> Result<(), String> {
    let length = text.chars().count() as u64;
    match (schema.min_length, schema.max_length) {
        (Some(least), _) if length < least => Err(format!("needs at least {least} characters")),
        (_, Some(most)) if length > most => Err(format!("accepts at most {most} characters")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(properties: &str) -> FormSchema {
        let text = format!(r#"{{"type":"object","properties":{{{properties}}}}}"#);
        serde_json::from_str(&text).unwrap()
    }

    fn answer(json: &str) -> Map<String, FieldValue> {
        let text = format!(r#"{{"action":"accept","content":{json}}}"#);
        serde_json::from_str::<crate::elicitation::ElicitResult>(&text).unwrap().content.unwrap()
    }

    const ALL: &str = r#"
        "text":{"type":"string","minLength":2,"maxLength":3,"default":"ab"},
        "number":{"type":"number","minimum":0,"maximum":1,"default":0.5},
        "integer":{"type":"integer","default":4},
        "boolean":{"type":"boolean","default":false},
        "single":{"type":"string","enum":["a","b"],"enumNames":["A","B"],"default":"b"},
        "titled":{"type":"string","oneOf":[{"const":"a","title":"A"}],"default":"a"},
        "many":{"type":"array","items":{"type":"string","enum":["a","b"]},"maxItems":1,"default":["a"]},
        "titled_many":{"type":"array","items":{"anyOf":[{"const":"a","title":"A"}]},"minItems":1,"default":["a"]}"#;

    #[test]
    fn defaults_of_every_field_kind_are_valid() {
        let mut filled = Map::new();
        form(ALL).fill_defaults(&mut filled);
        let expected = r#"{"text":"ab","number":0.5,"integer":4,"boolean":false,"single":"b","titled":"a","many":["a"],"titled_many":["a"]}"#;
        assert_eq!(filled, answer(expected));
        form(ALL).check(&filled).unwrap();
        let mut own = answer(r#"{"text":"xyz"}"#);
        form(ALL).fill_defaults(&mut own);
        assert_eq!(own.get("text"), Some(&"xyz".into()));
    }

    #[test]
    fn invalid_form_content_names_its_field() {
        let required = form(ALL).require("text");
        assert_eq!(required.check(&Map::new()).unwrap_err().field, "text");
        for wrong in [
            r#"{"text":"a"}"#,
            r#"{"text":"abcd"}"#,
            r#"{"text":1}"#,
            r#"{"number":2}"#,
            r#"{"number":-1}"#,
            r#"{"integer":1.5}"#,
            r#"{"boolean":"yes"}"#,
            r#"{"single":"A"}"#,
            r#"{"titled":"b"}"#,
            r#"{"many":["a","b"]}"#,
            r#"{"many":["c"]}"#,
            r#"{"titled_many":[]}"#,
            r#"{"titled_many":"a"}"#,
            r#"{"stranger":1}"#,
        ] {
            let wrong = answer(wrong);
            let field = wrong.keys().next().unwrap();
            assert_eq!(form(ALL).check(&wrong).unwrap_err().field, *field);
        }
    }

    #[test]
    fn label_and_help_text_are_known_for_every_field_kind() {
        let with_texts = ALL.replace(":{\"type\"", r#":{"title":"T","description":"D","type""#);
        let form = form(&with_texts);
        assert_eq!(form.fields.len(), 8);
        for (name, field) in &form.fields {
            assert_eq!((field.title(), field.description()), (Some("T"), Some("D")), "{name}");
        }
    }

    #[test]
    fn options_have_titles_in_every_notation() {
        let form = form(ALL);
        let choices = |name: &str| form.fields.get(name).unwrap().choices();
        assert_eq!(choices("single"), [("a", "A"), ("b", "B")]);
        assert_eq!(choices("titled"), [("a", "A")]);
        assert_eq!(choices("many"), [("a", "a"), ("b", "b")]);
        assert_eq!(choices("titled_many"), [("a", "A")]);
        assert!(choices("text").is_empty());
    }
}
