//! Validation of arguments and elicitation answers against their JSON Schema (feature `validate`).

#[cfg(not(feature = "validate"))]
pub(crate) use disabled::{FormValidator, Validator};
#[cfg(feature = "validate")]
pub(crate) use enabled::{FormValidator, Validator};

#[cfg(feature = "validate")]
mod enabled {
    use jsonschema::{Draft, PatternOptions};
    use mcp_protocol::Json;
    use mcp_protocol::elicitation::{ElicitAction, ElicitParams};
    use mcp_protocol::input::{Ask, InputRequest, InputResponse};
    use serde_json::Value;

    /// The maximum number of errors in one message.
    const MAX_ERRORS: usize = 5;
    /// The maximum length of one error in characters. Errors quote text that the client sent.
    const MAX_ERROR_CHARS: usize = 200;
    /// The maximum size of a compiled pattern in bytes.
    const MAX_PATTERN_BYTES: usize = 1 << 20;

    /// A compiled schema. Nothing is fetched: an external `$ref` is an error. Patterns match in linear time.
    ///
    /// No value is checked against a recursive schema (the field is then `None`): combined with `anyOf` and similar
    /// keywords, the cost of a check can grow exponentially with the depth of the value, which the client chooses.
    pub(crate) struct Validator(Option<jsonschema::Validator>);

    impl Validator {
        /// Compiles a schema, or returns its problem.
        pub(crate) fn new(schema: &Json) -> Result<Self, String> {
            let schema: Value = schema.to().map_err(|error| error.to_string())?;
            jsonschema::options()
                .with_draft(Draft::Draft202012)
                .offline()
                .with_pattern_options(
                    PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES),
                )
                .build(&schema)
                .map(|validator| Self((!is_recursive(&schema)).then_some(validator)))
                .map_err(|error| format!("at `{}`: {}", error.instance_path(), shortened(&error.to_string())))
        }

        /// Checks a value. The error lists the first problems with their paths.
        pub(crate) fn check(&self, text: &str) -> Result<(), String> {
            let Some(validator) = &self.0 else { return Ok(()) };
            let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
            if validator.is_valid(&value) {
                return Ok(());
            }
            let faults = validator.iter_errors(&value).take(MAX_ERRORS).map(|error| {
                let text = shortened(&error.to_string());
                match path(error.instance_path().as_str()) {
                    path if path.is_empty() => text,
                    path => format!("`{path}`: {text}"),
                }
            });
            Err(faults.collect::<Vec<_>>().join("; "))
        }
    }

    /// Returns true if the schema is recursive or may be recursive.
    fn is_recursive(schema: &Value) -> bool {
        /// Collects the `$ref`s inside a part of the schema; `None` if one of them is not a plain JSON pointer.
        fn references<'a>(part: &'a Value, found: &mut Vec<&'a str>) -> Option<()> {
            match part {
                Value::Object(members) => {
                    for (name, member) in members {
                        match (name.as_str(), member) {
                            ("$ref", Value::String(pointer)) => found.push(pointer.strip_prefix('#')?),
                            ("$dynamicRef" | "$recursiveRef" | "$id", Value::String(_)) => return None,
                            _ => references(member, found)?,
                        }
                    }
                }
                Value::Array(parts) => parts.iter().try_for_each(|part| references(part, found))?,
                _ => {}
            }
            Some(())
        }
        /// Returns true if a pointer refers to a part or to something inside it.
        fn is_within(pointer: &str, part: &str) -> bool {
            pointer.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
        /// Returns true if a part refers to one of its ancestors, directly or through other parts.
        fn refers_to_ancestor<'a>(
            schema: &'a Value,
            pointer: &'a str,
            ancestors: &mut Vec<&'a str>,
            done: &mut Vec<&'a str>,
        ) -> bool {
            if done.contains(&pointer) {
                return false;
            }
            // A pointer to a part that contains an ancestor, or is contained in one, is a cycle too.
            if ancestors.iter().any(|ancestor| is_within(pointer, ancestor) || is_within(ancestor, pointer)) {
                return true;
            }
            let mut found = Vec::new();
            let Some(()) = schema.pointer(pointer).and_then(|part| references(part, &mut found)) else {
                return true;
            };
            ancestors.push(pointer);
            let is_cycle = found.into_iter().any(|next| refers_to_ancestor(schema, next, ancestors, done));
            ancestors.pop();
            done.push(pointer);
            is_cycle
        }
        let mut found = Vec::new();
        let (mut ancestors, mut done) = (Vec::new(), Vec::new());
        references(schema, &mut found).is_none()
            || found.into_iter().any(|pointer| {
                pointer.is_empty() || refers_to_ancestor(schema, pointer, &mut ancestors, &mut done)
            })
    }

    /// The schema of an elicitation form; `None` for other requests.
    pub(crate) struct FormValidator(Option<Json>);

    impl FormValidator {
        /// Returns the validator of a request. It accepts every answer if the request is not a form.
        pub(crate) fn of(request: &InputRequest) -> Self {
            match &request.ask {
                Ask::Elicit(ElicitParams::Form(form)) => Self(Json::of(&form.requested_schema).ok()),
                _ => Self(None),
            }
        }

        /// Checks an answer. A declined or cancelled form has no content to check.
        pub(crate) fn check(&self, answer: &InputResponse) -> Result<(), String> {
            let (Some(schema), InputResponse::Elicit(result)) = (&self.0, answer) else { return Ok(()) };
            if result.action != ElicitAction::Accept {
                return Ok(());
            }
            let content =
                Json::of(&result.content.clone().unwrap_or_default()).map_err(|error| error.to_string())?;
            Validator::new(schema)?.check(content.get())
        }
    }

    /// Formats a JSON pointer like the paths of typed arguments: `inner[0].b`.
    fn path(pointer: &str) -> String {
        let mut path = String::new();
        for segment in pointer.split('/').skip(1) {
            let is_index = !path.is_empty() && segment.bytes().all(|byte| byte.is_ascii_digit());
            match segment.replace("~1", "/").replace("~0", "~") {
                index if is_index => path += &format!("[{index}]"),
                name if path.is_empty() => path = name,
                name => path += &format!(".{name}"),
            }
        }
        path
    }

    fn shortened(text: &str) -> String {
        match text.char_indices().nth(MAX_ERROR_CHARS) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.to_owned(),
        }
    }

    #[cfg(test)]
    mod tests {
        use serde_json::json;

        use super::is_recursive;

        #[test]
        fn only_recursive_schemas_are_recursive() {
            let reference = |to: &str| json!({"$ref": to});
            for (defs, expected) in [
                (json!({"Tag": {"type": "string"}, "TagList": {"items": reference("#/$defs/Tag")}}), false),
                (json!({"A": {"anyOf": [reference("#/$defs/B"), reference("#/$defs/B")]}, "B": {}}), false),
                (json!({"A": {"items": reference("#/$defs/A")}}), true),
                (json!({"A": {"items": reference("#/$defs/B")}, "B": {"not": reference("#/$defs/A")}}), true),
                (json!({"A": {"items": reference("#")}}), true),
                (json!({"A": {"items": reference("#/$defs")}}), true),
                (json!({"A": {"items": {"properties": {"x": reference("#/$defs/A/items")}}}}), true),
                (json!({"A": {"$dynamicRef": "#a"}}), true),
                (json!({"A": reference("#anchor")}), true),
            ] {
                let schema = json!({"properties": {"x": reference("#/$defs/A"), "y": reference("#/$defs/TagList")}, "$defs": defs});
                let schema = if expected { schema } else { prune(schema) };
                assert_eq!(is_recursive(&schema), expected, "{schema}");
            }
        }

        /// Removes references to missing definitions.
        fn prune(mut schema: serde_json::Value) -> serde_json::Value {
            for (name, definition) in [("x", "A"), ("y", "TagList")] {
                if schema["$defs"].get(definition).is_none()
                    && let Some(properties) = schema["properties"].as_object_mut()
                {
                    properties.remove(name);
                }
            }
            schema
        }
    }
}

#[cfg(not(feature = "validate"))]
mod disabled {
    use mcp_protocol::Json;
    use mcp_protocol::input::{InputRequest, InputResponse};

    /// A stub for builds without the feature `validate`; typed arguments are checked when they are deserialized.
    pub(crate) struct Validator;

    impl Validator {
        pub(crate) fn new(_: &Json) -> Result<Self, String> {
            Ok(Self)
        }

        pub(crate) fn check(&self, _: &str) -> Result<(), String> {
            Ok(())
        }
    }

    /// A stub for builds without the feature `validate`.
    pub(crate) struct FormValidator;

    impl FormValidator {
        pub(crate) fn of(_: &InputRequest) -> Self {
            Self
        }

        pub(crate) fn check(&self, _: &InputResponse) -> Result<(), String> {
            Ok(())
        }
    }
}
