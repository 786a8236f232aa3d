//! Text that a person typed into a form field, as the value of the field.

use serde_json::Number;

use super::form::{no_choice, number};
use super::{FieldSchema, FieldValue, NumberKind};
use crate::safe_text::SafeText;

/// An error for text that is not a value of a form field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this field {}", SafeText::message(problem))]
#[non_exhaustive]
pub struct FieldError {
    /// Description of the problem, such as `must be a number`.
    pub problem: String,
}

impl FieldSchema {
    /// Converts text that a person typed into a value of this field, and validates the value like
    /// [`FormSchema::check`](super::FormSchema::check).
    ///
    /// A boolean is `yes`, `no`, `true` or `false`. An option is chosen by its value or title, and several options are
    /// separated by commas. Upper and lower case are equal, unless two options differ only by it.
    ///
    /// ```
    /// use mcp_protocol::elicitation::{FieldSchema, FieldValue, NumberSchema, UntitledMultiSelectSchema, EnumItems};
    ///
    /// let age = FieldSchema::from(NumberSchema::integer().minimum(0));
    /// assert_eq!(age.parse("36"), Ok(FieldValue::from(36)));
    /// assert_eq!(age.parse("-1").unwrap_err().to_string(), "this field must be at least 0");
    ///
    /// let sides = UntitledMultiSelectSchema::new(EnumItems::new(["rice".to_owned(), "salad".to_owned()]));
    /// let both = vec!["rice".to_owned(), "salad".to_owned()];
    /// assert_eq!(FieldSchema::from(sides).parse("rice, salad"), Ok(FieldValue::from(both)));
    /// ```
    ///
    /// # Errors
    /// Fails if the text is not a value of this field, or if the field has a kind that this crate does not know.
    pub fn parse(&self, text: &str) -> Result<FieldValue, FieldError> {
        self.read(text)
            .and_then(|value| self.check(&value).map(|()| value))
            .map_err(|problem| FieldError { problem })
    }

    fn read(&self, text: &str) -> Result<FieldValue, String> {
        match self {
            Self::String(_) => Ok(text.into()),
            Self::Number(schema) => read_number(text.trim(), schema.kind == NumberKind::Integer),
            Self::Boolean(_) => match text.trim().to_lowercase().as_str() {
                "yes" | "y" | "true" => Ok(true.into()),
                "no" | "n" | "false" => Ok(false.into()),
                _ => Err("must be yes or no".to_owned()),
            },
            Self::SingleSelect(_) | Self::TitledSingleSelect(_) => {
                self.choice(text).map(FieldValue::String).ok_or_else(|| no_choice(text.trim()))
            }
            Self::MultiSelect(_) | Self::TitledMultiSelect(_) => self.read_choices(text),
            Self::Unknown(_) => Err("has an unknown kind".to_owned()),
        }
    }

    /// Reads options that are separated by commas. An option that contains a comma can be chosen only alone.
    fn read_choices(&self, text: &str) -> Result<FieldValue, String> {
        if let Some(only) = self.choice(text) {
            return Ok(vec![only].into());
        }
        let mut chosen = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let value = self.choice(part).ok_or_else(|| no_choice(part))?;
            if !chosen.contains(&value) {
                chosen.push(value);
            }
        }
        Ok(chosen.into())
    }

    /// Returns the value of the option that has this value or title; `None` if there is none, or more than one.
    fn choice(&self, text: &str) -> Option<String> {
        let text = text.trim();
        let choices = self.choices();
        if let Some((value, _)) = choices.iter().find(|(value, _)| *value == text) {
            return Some((*value).to_owned());
        }
        let lower = text.to_lowercase();
        let is_equal = |shown: &str| shown.to_lowercase() == lower;
        let titled: Vec<_> = choices.iter().filter(|(_, title)| *title == text).collect();
        let similar: Vec<_> =
            choices.iter().filter(|(value, title)| is_equal(value) || is_equal(title)).collect();
        match (&titled[..], &similar[..]) {
            ([(value, _)], _) | ([], [(value, _)]) => Some((*value).to_owned()),
            _ => None,
        }
    }
}

/// Reads a number. Other than in JSON, it can begin with `+`, `.` or zeros.
fn read_number(text: &str, is_integer: bool) -> Result<FieldValue, String> {
    let read = || {
        let exact = text.parse::<Number>().ok();
        if exact.as_ref().is_some_and(|exact| !exact.is_f64()) {
            return exact.map(FieldValue::Number);
        }
        number(is_integer, text.parse().ok().filter(|value: &f64| value.is_finite())?)
    };
    let kind = if is_integer { "must be an integer" } else { "must be a number" };
    read().ok_or_else(|| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(field: serde_json::Value, text: &str) -> Result<String, String> {
        let field: FieldSchema = serde_json::from_value(field).unwrap();
        let value = field.parse(text).map(|value| serde_json::to_string(&value).unwrap());
        value.map_err(|error| error.problem)
    }

    #[test]
    fn typed_numbers_are_read() {
        for (text, read) in
            [("3", "3"), (" +3 ", "3"), ("007", "7"), ("3.0", "3"), ("1e2", "100"), ("-4", "-4")]
        {
            assert_eq!(parse(json!({"type": "integer"}), text), Ok(read.to_owned()), "{text}");
        }
        for (text, read) in [(".5", "0.5"), ("2", "2"), ("9007199254740993", "9007199254740993")] {
            assert_eq!(parse(json!({"type": "number"}), text), Ok(read.to_owned()), "{text}");
        }
        for text in ["", "many", "inf", "nan", "1e999", "1,5", "0x10"] {
            assert_eq!(parse(json!({"type": "number"}), text), Err("must be a number".to_owned()), "{text}");
        }
        for text in ["", "1.5", "1e999"] {
            assert_eq!(
                parse(json!({"type": "integer"}), text),
                Err("must be an integer".to_owned()),
                "{text}"
            );
        }
        let bounded = json!({"type": "integer", "minimum": 1, "maximum": 5});
        assert_eq!(parse(bounded, "6"), Err("must be at most 5".to_owned()));
    }

    #[test]
    fn typed_booleans_and_text_are_read() {
        for (text, read) in
            [("yes", "true"), ("Y", "true"), (" TRUE", "true"), ("no", "false"), ("False", "false")]
        {
            assert_eq!(parse(json!({"type": "boolean"}), text), Ok(read.to_owned()), "{text}");
        }
        for text in ["", "maybe", "1"] {
            assert_eq!(
                parse(json!({"type": "boolean"}), text),
                Err("must be yes or no".to_owned()),
                "{text}"
            );
        }
        let text = json!({"type": "string", "minLength": 2});
        assert_eq!(parse(text.clone(), " a "), Ok("\" a \"".to_owned()));
        assert_eq!(parse(text, "a"), Err("needs at least 2 characters".to_owned()));
        assert_eq!(parse(json!({"type": "object"}), "a"), Err("has an unknown kind".to_owned()));
    }

    #[test]
    fn typed_options_are_found_by_value_or_title() {
        let one = json!({"type": "string", "oneOf": [
            {"const": "r", "title": "Red"}, {"const": "Red", "title": "Dark red"}, {"const": "g", "title": "Green"},
            {"const": "G", "title": "Grey"},
        ]});
        for (text, read) in [("Red", "Red"), ("dark RED", "Red"), ("r", "r"), ("g", "g"), (" grey ", "G")] {
            assert_eq!(parse(one.clone(), text), Ok(format!("\"{read}\"")), "{text}");
        }
        // `red` is the title of one option and the value of another.
        for text in ["red", "blue", ""] {
            assert_eq!(parse(one.clone(), text), Err(format!("has no option {text:?}")), "{text}");
        }
        let titles = json!({"type": "string", "oneOf": [
            {"const": "1", "title": "Same"}, {"const": "2", "title": "Same"}, {"const": "3", "title": "same"},
        ]});
        assert_eq!(parse(titles.clone(), "Same"), Err("has no option \"Same\"".to_owned()));
        assert_eq!(parse(titles, "same"), Ok("\"3\"".to_owned()));
    }

    #[test]
    fn typed_options_are_separated_by_commas() {
        let many = json!({"type": "array", "maxItems": 2, "items": {"anyOf": [
            {"const": "r", "title": "Rice"}, {"const": "s", "title": "Salad, green"}, {"const": "b", "title": "Bread"},
        ]}});
        for (text, read) in
            [("rice,b", r#"["r","b"]"#), (" r , R,", r#"["r"]"#), ("Salad, green", r#"["s"]"#), ("", "[]")]
        {
            assert_eq!(parse(many.clone(), text), Ok(read.to_owned()), "{text}");
        }
        assert_eq!(parse(many.clone(), "r,s,b"), Err("accepts at most 2 selected options".to_owned()));
        assert_eq!(parse(many, "r,soup"), Err("has no option \"soup\"".to_owned()));
    }
}
