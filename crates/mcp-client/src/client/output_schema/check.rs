//! Compares a value with a JSON schema, and reports a mismatch only if it is certain.

use mcp_protocol::safe_text::SafeText;
use serde_json::Value;

use super::SchemaMismatch;

/// The maximum number of schemas, names and elements that are compared. Without it, a schema that refers to itself
/// could be checked forever.
pub(super) const MAX_STEPS: usize = 40_000;
/// The number of bytes of a string that count as one step.
const STEP_BYTES: usize = 256;
/// The maximum depth of nested schemas.
const MAX_DEPTH: usize = 64;

pub(super) struct Check<'a> {
    root: &'a Value,
    pub(super) steps: usize,
    depth: usize,
    /// True for drafts before 2019-09, in which keywords beside `$ref` are ignored.
    ignores_siblings_of_ref: bool,
}

impl<'a> Check<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        let draft = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
        Self { root, steps: 0, depth: 0, ignores_siblings_of_ref: draft.contains("/draft-0") }
    }
}

/// Escapes and cuts a name that a server chose.
fn shown(name: &str) -> String {
    SafeText::new(name).at_most(64).to_string()
}

impl<'a> Check<'a> {
    pub(super) fn value(
        &mut self,
        schema: &'a Value,
        value: &Value,
        path: &mut Vec<String>,
    ) -> Result<(), SchemaMismatch> {
        // Beyond the limits nothing is checked, so no mismatch is certain.
        if self.steps == MAX_STEPS || self.depth == MAX_DEPTH {
            return Ok(());
        }
        // Below an `$id`, references are relative to that `$id`, which is not supported.
        if self.depth > 0 && schema.get("$id").is_some() {
            return Ok(());
        }
        self.steps += 1;
        self.depth += 1;
        let checked = if self.ignores_siblings_of_ref && schema.get("$ref").is_some() {
            self.combined(schema, value, path)
        } else {
            self.alone(schema, value, path).and_then(|()| self.combined(schema, value, path))
        };
        self.depth -= 1;
        checked
    }

    /// Checks all keywords except those that apply other schemas to the same value.
    fn alone(
        &mut self,
        schema: &'a Value,
        value: &Value,
        path: &mut Vec<String>,
    ) -> Result<(), SchemaMismatch> {
        // Once the limit is reached, every comparison counts as satisfied.
        let wrong = |problem: String| Err(SchemaMismatch { path: path.concat(), problem });
        if *schema == Value::Bool(false) {
            return wrong("a value where the schema allows none".to_owned());
        }
        if let Some(types) = schema.get("type")
            && !self.is_of(types, value)
        {
            return wrong(format!("{} instead of {}", kind(value), shown(&types.to_string())));
        }
        if let Some(fixed) = schema.get("const")
            && !self.is_same(fixed, value)
        {
            return wrong("a value that differs from `const`".to_owned());
        }
        if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
            && !allowed.iter().any(|allowed| self.is_same(allowed, value))
        {
            return wrong("a value that is not in `enum`".to_owned());
        }
        if let Value::Object(members) = value {
            let mut required = schema
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .take_while(|name| self.charge(name.as_str().map_or(0, str::len)))
                .filter_map(Value::as_str);
            if let Some(missing) = required.find(|name| !members.contains_key(*name)) {
                return wrong(format!("no member `{}`", shown(missing)));
            }
            let properties = schema.get("properties").and_then(Value::as_object);
            let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false))
                && schema.get("patternProperties").is_none();
            let is_known = |name: &String| properties.is_some_and(|properties| properties.contains_key(name));
            let mut names = members.keys().take_while(|name| self.charge(name.len()));
            if is_closed && let Some(unknown) = names.find(|name| !is_known(name)) {
                return wrong(format!("a member `{}` that is not allowed", shown(unknown)));
            }
            for (name, schema) in properties.into_iter().flatten() {
                if !self.charge(name.len()) {
                    return Ok(());
                }
                if let Some(member) = members.get(name) {
                    self.below(schema, member, path, name)?;
                }
            }
        }
        if let Value::Array(items) = value
            && let Some(schema) = schema.get("items")
            && schema.get("prefixItems").is_none()
        {
            for (index, item) in items.iter().enumerate() {
                self.below(schema, item, path, &index.to_string())?;
            }
        }
        Ok(())
    }

    fn below(
        &mut self,
        schema: &'a Value,
        value: &Value,
        path: &mut Vec<String>,
        part: &str,
    ) -> Result<(), SchemaMismatch> {
        // The name is cut once, here: otherwise a long name would be cut again for each mismatch below it.
        path.push(format!("/{}", shown(&part.replace('~', "~0").replace('/', "~1"))));
        let checked = self.value(schema, value, path);
        path.pop();
        checked
    }

    /// Counts the comparison of a string of this length. Returns false if the limit is reached.
    fn charge(&mut self, bytes: usize) -> bool {
        self.steps = (self.steps + 1 + bytes / STEP_BYTES).min(MAX_STEPS);
        self.steps < MAX_STEPS
    }

    /// Checks `$ref`, `allOf`, `anyOf` and `oneOf`.
    fn combined(
        &mut self,
        schema: &'a Value,
        value: &Value,
        path: &mut Vec<String>,
    ) -> Result<(), SchemaMismatch> {
        let local =
            schema.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#'));
        if let Some(pointer) = local
            && self.charge(pointer.len())
            && let Some(schema) = self.root.pointer(pointer)
        {
            self.value(schema, value, path)?;
        }
        for schema in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.value(schema, value, path)?;
        }
        for several in ["anyOf", "oneOf"] {
            let Some(schemas) = schema.get(several).and_then(Value::as_array) else { continue };
            let mut first = None;
            for schema in schemas {
                match self.value(schema, value, path) {
                    Ok(()) => {
                        first = None;
                        break;
                    }
                    Err(problem) => first = first.or(Some(problem)),
                }
            }
            if let Some(problem) = first {
                return Err(problem);
            }
        }
        Ok(())
    }

    /// Returns true if a value has the type, or one of several types.
    fn is_of(&mut self, types: &Value, value: &Value) -> bool {
        if !self.charge(0) {
            return true;
        }
        match types {
            Value::String(name) => is_of_type(name, value),
            Value::Array(names) => names.iter().any(|name| self.is_of(name, value)),
            _ => true,
        }
    }

    /// Returns true for equal values; 1 and 1.0 are equal.
    fn is_same(&mut self, one: &Value, other: &Value) -> bool {
        if !self.charge(one.as_str().map_or(0, str::len)) {
            return true;
        }
        match (one, other) {
            (Value::Number(_), Value::Number(_)) => one == other || one.as_f64() == other.as_f64(),
            (Value::Array(one), Value::Array(other)) => {
                one.len() == other.len() && one.iter().zip(other).all(|(one, other)| self.is_same(one, other))
            }
            (Value::Object(one), Value::Object(other)) => {
                one.len() == other.len()
                    && one.iter().all(|(name, one)| {
                        !self.charge(name.len())
                            || other.get(name).is_some_and(|other| self.is_same(one, other))
                    })
            }
            _ => one == other,
        }
    }
}

fn is_of_type(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0),
        _ => true,
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
