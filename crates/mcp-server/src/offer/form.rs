//! Typed forms: a form is created from a type, and its answer is a value of that type.

use mcp_protocol::elicitation::{ElicitAction, ElicitFormParams, FieldSchema, FormFields, FormSchema};
use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Error as _, Visitor};
use serde::{Deserializer, forward_to_deserialize_any};
use serde_json::{Map, Value, json};

use crate::call::context::Context;
use crate::error::AskError;
use crate::offer::handler::read;
use crate::offer::schema;

/// The answer of a person to a form.
#[doc(alias = "elicitation")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormAnswer<T> {
    /// The person submitted the form with this value.
    Accepted(T),
    /// The person declined to answer.
    Declined,
    /// The person dismissed the form without a choice.
    Cancelled,
}

impl<T> FormAnswer<T> {
    /// Returns the submitted value; `None` if the person declined or dismissed the form.
    #[must_use]
    pub fn accepted(self) -> Option<T> {
        match self {
            Self::Accepted(value) => Some(value),
            Self::Declined | Self::Cancelled => None,
        }
    }
}

impl Context {
    /// Asks the person to fill in a form. The fields of the form are the fields of the struct `T`, in their order.
    ///
    /// The type of a field is text, a number, a boolean, an enum without data, a list of such enums, or an `Option` of
    /// one of these. The doc comment of a field becomes its description. In all other respects this method is like
    /// [`ask`](Self::ask): with a modern client, **the function runs again from the beginning** when the client sends
    /// the answer. A client can send the answer before it is asked: an action that needs the consent of the person
    /// needs [`confirm`](Self::confirm).
    ///
    /// ```
    /// use mcp_server::{Context, FormAnswer, ToolError};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Dish {
    ///     /// The name on the menu.
    ///     name: String,
    ///     spicy: Option<bool>,
    /// }
    ///
    /// async fn order(cx: Context) -> Result<String, ToolError> {
    ///     match cx.ask_form::<Dish>("dish", "What would you like?").await? {
    ///         FormAnswer::Accepted(dish) => Ok(format!("One {}.", dish.name)),
    ///         FormAnswer::Declined | FormAnswer::Cancelled => Ok("Nothing today.".to_owned()),
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// Fails like [`ask`](Self::ask). Returns [`AskError::InvalidForm`] if `T` is not a struct or has a field of
    /// another type.
    #[doc(alias = "elicit")]
    #[doc(alias = "elicitation")]
    pub async fn ask_form<T>(&self, key: &str, message: impl Into<String>) -> Result<FormAnswer<T>, AskError>
    where
        T: DeserializeOwned + JsonSchema,
    {
        let form = form_of::<T>().map_err(AskError::InvalidForm)?;
        let answer = self.ask(key, ElicitFormParams::new(message, form)).await?;
        match answer.action {
            ElicitAction::Accept => {
                let content = serde_json::to_string(&answer.content.unwrap_or_default());
                let value = content.map_err(|error| error.to_string()).and_then(|content| read(&content));
                value.map(FormAnswer::Accepted).map_err(|problem| {
                    let error = AskError::Malformed(format!("invalid answer to `{key}`: {problem}"));
                    self.note_failed_ask(&error);
                    error
                })
            }
            ElicitAction::Decline => Ok(FormAnswer::Declined),
            _ => Ok(FormAnswer::Cancelled),
        }
    }
}

/// Returns the form of a type, or the reason why it cannot be a form.
fn form_of<T: DeserializeOwned + JsonSchema>() -> Result<FormSchema, String> {
    let schema: Value = serde_json::from_str(schema::of::<T>().get()).unwrap_or_default();
    let name = T::schema_name();
    let Some(properties) = schema["properties"].as_object() else {
        return Err(format!("`{name}` is not a struct with named fields"));
    };
    // The schema is sorted by name; `Deserialize` knows the order of the struct.
    let declared = field_names::<T>();
    let place = |name: &str| declared.iter().position(|declared| *declared == name);
    let mut properties: Vec<_> = properties.iter().collect();
    properties.sort_by_key(|(name, _)| place(name).unwrap_or(usize::MAX));
    let mut fields = FormFields::new();
    for (field, property) in properties {
        let schema = field_schema(property).ok_or_else(|| {
            format!(
                "field `{field}` of `{name}` cannot be in a form: use text, a number, a boolean, an enum without data, \
                 or a list of such enums"
            )
        })?;
        let schema = serde_json::from_str::<FieldSchema>(&schema.to_string());
        fields.insert(field, schema.map_err(|error| format!("cannot build a form from `{name}`: {error}"))?);
    }
    let mut form = FormSchema::new();
    form.fields = fields;
    if let Some(required) = schema["required"].as_array() {
        form.required = Some(required.iter().filter_map(Value::as_str).map(str::to_owned).collect());
    }
    Ok(form)
}

/// Returns the names of the fields of a struct, in the order of its declaration; empty if `T` reads itself as a map,
/// as with `#[serde(flatten)]`.
fn field_names<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut names = FieldNames(&[]);
    // It always fails: only the names that `T` expects are wanted.
    drop(T::deserialize(&mut names));
    names.0
}

/// Notes the names of the fields that a struct expects, and then fails.
struct FieldNames(&'static [&'static str]);

impl<'de> Deserializer<'de> for &mut FieldNames {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(Self::Error::custom("there is no value"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.0 = names;
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Returns the schema of one field, reduced to what the protocol allows in a form; `None` if the field cannot be in a
/// form.
fn field_schema(property: &Value) -> Option<Value> {
    let property = without_null(property);
    let mut field = Map::new();
    let mut keep = |names: &[&str]| {
        for name in names {
            if let Some(value) = property.get(*name).filter(|value| !value.is_null()) {
                field.insert((*name).to_owned(), value.clone());
            }
        }
    };
    keep(&["title", "description", "default"]);
    if let Some(options) = titled_options(&property) {
        field.insert("type".to_owned(), "string".into());
        field.insert("oneOf".to_owned(), options);
        return Some(field.into());
    }
    match property["type"].as_str()? {
        "string" => {
            keep(&["type", "enum", "minLength", "maxLength"]);
            // Other formats, such as `uuid`, are not part of the protocol.
            if let Some("email" | "uri" | "date" | "date-time") = property["format"].as_str() {
                keep(&["format"]);
            }
        }
        "integer" | "number" => keep(&["type", "minimum", "maximum"]),
        "boolean" => keep(&["type"]),
        "array" => {
            let items = &property["items"];
            let options = titled_options(items).map(|options| json!({"anyOf": options}));
            let items = options
                .or_else(|| items.get("enum").map(|values| json!({"type": "string", "enum": values})))?;
            keep(&["type", "minItems", "maxItems"]);
            field.insert("items".to_owned(), items);
        }
        _ => return None,
    }
    Some(field.into())
}

/// Returns the options of an enum whose variants have descriptions, each with its value and title.
fn titled_options(schema: &Value) -> Option<Value> {
    let variants = schema["oneOf"].as_array()?;
    let mut options = Vec::new();
    for variant in variants {
        let title = variant["description"].as_str();
        if let Some(value) = variant["const"].as_str() {
            options.push(json!({"const": value, "title": title.unwrap_or(value)}));
            continue;
        }
        // Variants without a description are listed together.
        for value in variant["enum"].as_array()? {
            options.push(json!({"const": value, "title": title.map_or(value.clone(), Into::into)}));
        }
    }
    Some(options.into())
}

/// Returns a schema without `null`. A field with an `Option` may be absent from the answer, but it is never null.
fn without_null(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(kinds) = schema["type"].as_array_mut() {
        kinds.retain(|kind| kind != "null");
        if let [kind] = &kinds[..] {
            schema["type"] = kind.clone();
        }
    }
    if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(choices)) = schema.get("anyOf").cloned() {
        let choices: Vec<Value> = choices.into_iter().filter(|choice| choice["type"] != "null").collect();
        if let ([Value::Object(only)], Some(outer)) = (&choices[..], schema.as_object_mut()) {
            outer.remove("anyOf");
            for (name, value) in only {
                outer.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Size {
        Small,
        Large,
    }

    #[derive(serde::Deserialize, JsonSchema)]
    enum Sauce {
        /// Hot.
        Chili,
        /// Not hot.
        Mango,
        Plain,
    }

    #[derive(serde::Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Dish {
        /// On the menu.
        #[schemars(length(min = 1))]
        name: String,
        pieces: u8,
        price: Option<f64>,
        spicy: Option<bool>,
        size: Size,
        sauce: Option<Sauce>,
        sides: Vec<Size>,
        #[serde(default)]
        note: String,
    }

    #[test]
    fn form_has_the_fields_of_the_type() {
        let form = serde_json::to_value(form_of::<Dish>().unwrap()).unwrap();
        let expected = json!({"type": "object", "properties": {
            "name": {"type": "string", "description": "On the menu.", "minLength": 1},
            "pieces": {"type": "integer", "minimum": 0.0, "maximum": 255.0},
            "price": {"type": "number"},
            "spicy": {"type": "boolean"},
            "size": {"type": "string", "enum": ["small", "large"]},
            "sauce": {"type": "string", "oneOf": [{"const": "Plain", "title": "Plain"},
                {"const": "Chili", "title": "Hot."}, {"const": "Mango", "title": "Not hot."}]},
            "sides": {"type": "array", "items": {"type": "string", "enum": ["small", "large"]}},
            "note": {"type": "string", "default": ""},
        }, "required": ["name", "pieces", "size", "sides"]});
        assert_eq!(form["required"], expected["required"]);
        for (name, field) in expected["properties"].as_object().unwrap() {
            let found: Value = form["properties"][name].clone();
            assert_eq!(found.to_string(), without_float(field, &found).to_string(), "{name}");
        }
    }

    #[test]
    fn form_has_the_order_of_the_struct() {
        let names = |form: FormSchema| form.fields.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        let dish = ["name", "pieces", "price", "spicy", "size", "sauce", "sides", "note"];
        assert_eq!(names(form_of::<Dish>().unwrap()), dish);

        #[derive(serde::Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase")]
        #[expect(dead_code, reason = "only its schema is used")]
        struct Guest {
            last_name: String,
            first_name: String,
        }
        assert_eq!(names(form_of::<Guest>().unwrap()), ["lastName", "firstName"]);

        #[derive(serde::Deserialize, JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct Booking {
            table: u8,
            #[serde(flatten)]
            guest: Guest,
        }
        assert_eq!(names(form_of::<Booking>().unwrap()), ["firstName", "lastName", "table"]);
    }

    /// Returns `found` if it is equal to `expected` when numbers are compared by value.
    fn without_float(expected: &Value, found: &Value) -> Value {
        let is_equal = expected.as_object().unwrap().iter().all(|(name, value)| {
            found[name] == *value || (value.is_number() && found[name].as_f64() == value.as_f64())
        });
        let same_members = expected.as_object().unwrap().len() == found.as_object().map_or(0, Map::len);
        if is_equal && same_members { found.clone() } else { expected.clone() }
    }

    #[test]
    fn type_with_a_nested_field_has_no_form() {
        #[derive(serde::Deserialize, JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct Order {
            dish: Dish,
        }
        let problem = form_of::<Order>().unwrap_err();
        assert!(problem.starts_with("field `dish` of `Order` cannot be in a form"), "{problem}");
        let problem = form_of::<u32>().unwrap_err();
        assert_eq!(problem, "`uint32` is not a struct with named fields");
        assert!(form_of::<Sauce>().is_err());
    }
}
