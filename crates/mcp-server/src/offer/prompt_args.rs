//! Argument types of prompts.

use mcp_protocol::Map;
use mcp_protocol::prompts::PromptArgument;

use crate::call::context::Context;
use crate::offer::handler::NoArgs;

/// An argument type of a prompt. Its values are read from the arguments of the request, which are text.
///
/// With the feature `schemars`, implemented for every struct with `serde::Deserialize` and `schemars::JsonSchema`; its
/// fields become the arguments of the prompt. The fields can be strings, numbers, booleans, enums without data, and
/// `Option`s of these. A function that takes [`PromptArguments`] gets all arguments as text.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the arguments of a prompt",
    label = "derive `serde::Deserialize` and `schemars::JsonSchema` for it, or use `PromptArguments`"
)]
pub trait PromptArgs: Sized + Send + 'static {
    /// Returns the arguments that clients see; `None` if the type does not list them.
    #[must_use]
    fn arguments() -> Option<Vec<PromptArgument>> {
        None
    }

    /// Returns what makes the type unusable as arguments of a prompt, as the end of a sentence about these; `None` if
    /// nothing does.
    #[doc(hidden)]
    #[must_use]
    fn problem() -> Option<String> {
        None
    }

    /// Reads the arguments of a request.
    ///
    /// # Errors
    /// Returns a description of the problem, which is sent to the client.
    fn read(arguments: PromptArguments) -> Result<Self, String>;

    /// Returns the parameter of the function. Types that are not read from the arguments of the request override this.
    #[doc(hidden)]
    fn from_call(arguments: PromptArguments, _: &Context) -> Result<Self, String> {
        Self::read(arguments)
    }
}

/// The arguments of a prompt as text, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptArguments(pub Map<String, String>);

impl PromptArguments {
    /// Returns the value of an argument, or empty text if the client did not send it. Required arguments are always
    /// present, because a request without one of them is refused.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }
}

impl PromptArgs for PromptArguments {
    fn read(arguments: PromptArguments) -> Result<Self, String> {
        Ok(arguments)
    }
}

impl PromptArgs for NoArgs {
    fn read(_: PromptArguments) -> Result<Self, String> {
        Ok(Self)
    }
}

/// For `async fn(Context)`.
impl PromptArgs for Context {
    fn read(_: PromptArguments) -> Result<Self, String> {
        Err("a context is not part of the arguments".to_owned())
    }

    fn from_call(_: PromptArguments, context: &Context) -> Result<Self, String> {
        Ok(context.clone())
    }
}

#[cfg(feature = "schemars")]
impl<T: serde::de::DeserializeOwned + schemars::JsonSchema + Send + 'static> PromptArgs for T {
    fn arguments() -> Option<Vec<PromptArgument>> {
        Some(typed::arguments(&crate::offer::schema::of::<T>()))
    }

    fn problem() -> Option<String> {
        typed::problem(&crate::offer::schema::of::<T>())
    }

    fn read(arguments: PromptArguments) -> Result<Self, String> {
        typed::read(&crate::offer::schema::of::<T>(), arguments)
    }
}

#[cfg(feature = "schemars")]
mod typed {
    use mcp_protocol::Json;
    use mcp_protocol::prompts::PromptArgument;
    use serde::de::DeserializeOwned;
    use serde_json::{Map, Value};

    use super::PromptArguments;

    /// Returns one argument per property of the schema, in the order of the schema.
    pub(super) fn arguments(schema: &Json) -> Vec<PromptArgument> {
        let schema: Value = serde_json::from_str(schema.get()).unwrap_or_default();
        let required =
            |name: &str| schema["required"].as_array().is_some_and(|all| all.contains(&name.into()));
        let properties = schema["properties"].as_object();
        let argument = |(name, property): (&String, &Value)| {
            let mut argument = PromptArgument::new(name).required(required(name));
            argument.description = property["description"].as_str().map(str::to_owned);
            argument
        };
        properties.into_iter().flatten().map(argument).collect()
    }

    /// Returns what makes the type unusable as arguments of a prompt.
    pub(super) fn problem(schema: &Json) -> Option<String> {
        let schema: Value = serde_json::from_str(schema.get()).unwrap_or_default();
        if schema["type"] != "object" {
            return Some(
                "are not an object: the function must take a struct with named fields, or `PromptArguments`"
                    .to_owned(),
            );
        }
        let properties = schema["properties"].as_object();
        let (field, _) = properties.into_iter().flatten().find(|(_, property)| !can_be_text(property))?;
        Some(format!(
            "are text, which cannot become the field `{field}`: use text, a number, a boolean, an enum without data, \
             or an `Option` of one of these, or take `PromptArguments`"
        ))
    }

    /// Returns false if a property is an array or object, or may be one. A `$ref` is left only in a recursive type.
    fn can_be_text(property: &Value) -> bool {
        let is_nested = |kind: &Value| kind == "array" || kind == "object";
        let kinds = &property["type"];
        let has_nested_type =
            is_nested(kinds) || kinds.as_array().is_some_and(|all| all.iter().any(is_nested));
        let choices = ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| property[*key].as_array());
        !has_nested_type && property.get("$ref").is_none() && choices.flatten().all(can_be_text)
    }

    /// Reads a struct from arguments that are text. The text of a field that is not a string is parsed as JSON.
    pub(super) fn read<T: DeserializeOwned>(schema: &Json, arguments: PromptArguments) -> Result<T, String> {
        let schema: Value = serde_json::from_str(schema.get()).unwrap_or_default();
        let value = |name: &str, text: String| {
            let property = &schema["properties"][name];
            if accepts_text(property) {
                return Value::String(text);
            }
            serde_json::from_str(&text).unwrap_or(Value::String(text))
        };
        let object: Map<String, Value> =
            arguments.0.iter().map(|(name, text)| (name.clone(), value(name, text.clone()))).collect();
        crate::offer::handler::read(&Value::Object(object).to_string())
    }

    /// Returns true if a property may be a string.
    fn accepts_text(property: &Value) -> bool {
        let is_text = |kind: &Value| kind == "string";
        match property {
            Value::Object(known) => {
                let kinds = &property["type"];
                let has_text_type =
                    is_text(kinds) || kinds.as_array().is_some_and(|all| all.iter().any(is_text));
                let choices =
                    ["anyOf", "oneOf"].iter().filter_map(|key| known.get(*key)?.as_array()).flatten();
                has_text_type || known.contains_key("const") || choices.into_iter().any(accepts_text)
            }
            _ => true,
        }
    }
}
