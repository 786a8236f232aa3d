//! What a tool promised about its results, and what it gave.

use mcp_protocol::tools::Tool;
use mcp_protocol::visible::Visible;
use serde_json::Value;

use crate::client::call::ToolResult;

/// The most schemas, names and elements that are compared, and the greatest depth. A server may send a schema that never comes to an end.
const STEPS: usize = 40_000;
/// The bytes of a text that are compared in one step.
const STEP_BYTES: usize = 256;
const DEPTH: usize = 64;

/// Where a result is not what its tool had promised, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the result is not what its tool promised: {problem} at `{path}`")]
#[non_exhaustive]
pub struct SchemaMismatch {
    /// Where, as a JSON Pointer into the structured content; empty for the whole of it.
    pub path: String,
    /// What is wrong there.
    pub problem: String,
}

impl ToolResult {
    /// Compares the structured content with the schema that the tool has in the list of tools.
    ///
    /// Only what is certain is told: of a schema, the types, fixed values, required and forbidden members, items, local
    /// references and combinations are looked at, and whatever else it says is taken for kept. A tool without a schema
    /// has promised nothing, and one that says that it failed need not keep its promise.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::McpClient) -> mcp_client::Result<()> {
    /// let tools = client.list_tools().await?;
    /// let outcome = client.call("forecast", serde_json::json!({"city": "Oslo"})).await?;
    /// if let Some(Err(warning)) = tools.iter().find(|tool| tool.name == "forecast").map(|tool| outcome.check(tool)) {
    ///     eprintln!("{warning}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self, tool: &Tool) -> Result<(), SchemaMismatch> {
        let Some(schema) = tool.output_schema.as_ref().filter(|_| !self.is_error()) else { return Ok(()) };
        let Some(content) = &self.result().structured_content else {
            let problem = "the result has no structured content".to_owned();
            return Err(SchemaMismatch { path: String::new(), problem });
        };
        // Both were read as JSON when they arrived.
        let (Ok(schema), Ok(content)) = (schema.to::<Value>(), content.to::<Value>()) else { return Ok(()) };
        Check::new(&schema).value(&schema, &content, &mut Vec::new())
    }
}

struct Check<'a> {
    root: &'a Value,
    steps: usize,
    depth: usize,
    /// Of a draft in which nothing beside a reference counts.
    is_old: bool,
}

impl<'a> Check<'a> {
    fn new(root: &'a Value) -> Self {
        let draft = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
        Self { root, steps: 0, depth: 0, is_old: draft.contains("/draft-0") }
    }
}

/// What a server calls something, fit to be shown.
fn shown(name: &str) -> String {
    Visible::new(name).at_most(64).to_string()
}

impl<'a> Check<'a> {
    fn value(
        &mut self,
        schema: &'a Value,
        value: &Value,
        path: &mut Vec<String>,
    ) -> Result<(), SchemaMismatch> {
        // Beyond the bounds nothing is certain.
        if self.steps == STEPS || self.depth == DEPTH {
            return Ok(());
        }
        // What has a name of its own resolves references by its own rules.
        if self.depth > 0 && schema.get("$id").is_some() {
            return Ok(());
        }
        self.steps += 1;
        self.depth += 1;
        let checked = if self.is_old && schema.get("$ref").is_some() {
            self.combined(schema, value, path)
        } else {
            self.alone(schema, value, path).and_then(|()| self.combined(schema, value, path))
        };
        self.depth -= 1;
        checked
    }

    /// What the schema itself says.
    fn alone(
        &mut self,
        schema: &'a Value,
        value: &Value,
        path: &mut Vec<String>,
    ) -> Result<(), SchemaMismatch> {
        // Beyond the bound, each of these comparisons is taken for kept.
        let wrong = |problem: String| Err(SchemaMismatch { path: path.concat(), problem });
        if *schema == Value::Bool(false) {
            return wrong("nothing is allowed".to_owned());
        }
        if let Some(types) = schema.get("type")
            && !self.is_of(types, value)
        {
            return wrong(format!("{} instead of {}", kind(value), shown(&types.to_string())));
        }
        if let Some(fixed) = schema.get("const")
            && !self.is_same(fixed, value)
        {
            return wrong("another value than the only one allowed".to_owned());
        }
        if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
            && !allowed.iter().any(|allowed| self.is_same(allowed, value))
        {
            return wrong("a value that is none of those allowed".to_owned());
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
        // Cut once: a long name would be cut again for each contradiction below it.
        path.push(format!("/{}", shown(&part.replace('~', "~0").replace('/', "~1"))));
        let checked = self.value(schema, value, path);
        path.pop();
        checked
    }

    /// Counts the comparison of a text of so many bytes. False if the bound is reached.
    fn charge(&mut self, bytes: usize) -> bool {
        self.steps = (self.steps + 1 + bytes / STEP_BYTES).min(STEPS);
        self.steps < STEPS
    }

    /// What it says by naming others.
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

    /// True if a value is of a type, or of one of several.
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

    /// True for equal values; 1 and 1.0 are.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problem(schema: &Value, content: &Value) -> Option<(String, String)> {
        let checked = Check::new(schema).value(schema, content, &mut Vec::new());
        checked.err().map(|contradiction| (contradiction.path, contradiction.problem))
    }

    #[test]
    fn contradiction_is_reported_with_its_path_in_the_result() {
        let schema = json!({
            "type": "object",
            "required": ["city", "days"],
            "additionalProperties": false,
            "properties": {
                "city": {"type": "string", "minLength": 100},
                "days": {"type": "array", "items": {"$ref": "#/$defs/day"}},
                "unit": {"enum": ["C", "F"]},
                "n": {"anyOf": [{"type": "null"}, {"type": "integer"}]},
                "a/b": {"const": 1},
            },
            "$defs": {"day": {"type": ["number", "null"]}},
        });
        let kept = json!({"city": "Oslo", "days": [1, 2.5, null], "unit": "C", "n": 3.0, "a/b": 1.0});
        assert_eq!(problem(&schema, &kept), None);
        for (broken, path, words) in [
            (json!([]), "", "an array instead of \"object\""),
            (json!({"city": "Oslo"}), "", "no member `days`"),
            (json!({"city": 7, "days": []}), "/city", "a number instead of"),
            (json!({"city": "", "days": [1, "2"]}), "/days/1", "a string instead of"),
            (json!({"city": "", "days": [], "unit": "K"}), "/unit", "none of those allowed"),
            (json!({"city": "", "days": [], "n": 0.5}), "/n", "a number instead of"),
            (json!({"city": "", "days": [], "a/b": 2}), "/a~1b", "the only one allowed"),
            (json!({"city": "", "days": [], "more": 2}), "", "`more` that is not allowed"),
        ] {
            let (at, problem) = problem(&schema, &broken).unwrap();
            assert!(at == path && problem.contains(words), "{at}: {problem}");
        }
    }

    #[test]
    fn only_certain_contradictions_are_reported() {
        for (schema, content) in [
            (json!({"const": [1, {"a": 2}]}), json!([1.0, {"a": 2.0}])),
            (
                json!({"properties": {"x": {"$id": "urn:x", "$ref": "#/$defs/k", "$defs": {"k": {"type": "string"}}}},
                    "$defs": {"k": {"type": "number"}}}),
                json!({"x": "text"}),
            ),
            (
                json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
                    "properties": {"x": {"$ref": "#/definitions/any", "type": "string"}}, "definitions": {"any": {}}}),
                json!({"x": 1}),
            ),
        ] {
            assert_eq!(problem(&schema, &content), None, "{schema}");
        }
        let (_, shown) = problem(&json!({"required": ["\u{1b}[31mred"]}), &json!({})).unwrap();
        assert!(!shown.contains('\u{1b}'), "{shown}");
    }

    #[test]
    fn check_of_a_self_referencing_schema_stops_without_a_report() {
        let again = json!({"$ref": "#"});
        let schema = json!({"allOf": [again, again], "anyOf": [again, {"type": "string"}]});
        assert_eq!(problem(&schema, &json!(1)), None);
    }

    #[test]
    fn work_inside_one_schema_is_counted() {
        let names: Vec<String> = (0..2 * STEPS).map(|number| format!("m{number}")).collect();
        let members: Value = names.iter().map(|name| (name.clone(), json!(1))).collect();
        let numbers: Vec<usize> = (0..2 * STEPS).collect();
        // Each is contradicted only by what comes after more names or elements than are compared.
        let mut all_and_one = names.clone();
        all_and_one.push("missing".to_owned());
        let properties: Value =
            names[..2 * STEPS - 1].iter().map(|name| (name.clone(), json!(true))).collect();
        let mut other = numbers.clone();
        other[2 * STEPS - 1] = 7;
        for (schema, content) in [
            (json!({"required": all_and_one}), members.clone()),
            (json!({"enum": numbers}), json!(-1)),
            (json!({"const": numbers}), json!(other)),
            (json!({"enum": [numbers]}), json!(other)),
            (json!({"additionalProperties": false, "properties": properties}), members.clone()),
            (json!({"type": vec!["null"; 2 * STEPS]}), json!(1)),
            (json!({"type": vec![json!([]); 2 * STEPS]}), json!(1)),
        ] {
            let shown = schema.to_string();
            assert_eq!(problem(&schema, &content), None, "{}", &shown[..60]);
        }
        // The same within the bound is a contradiction.
        assert!(problem(&json!({"required": all_and_one[2 * STEPS - 5..]}), &members).is_some());
        assert!(problem(&json!({"enum": numbers[..100]}), &json!(-1)).is_some());
    }

    #[test]
    fn many_references_to_a_large_schema_end_soon() {
        let names: Vec<String> = (0..5000).map(|number| format!("m{number}")).collect();
        let members: Value = names.iter().map(|name| (name.clone(), json!(1))).collect();
        let schema =
            json!({"allOf": vec![json!({"$ref": "#/$defs/a"}); 5000], "$defs": {"a": {"required": names}}});
        let mut check = Check::new(&schema);
        check.value(&schema, &members, &mut Vec::new()).unwrap();
        assert!(check.steps <= STEPS);
        let start = std::time::Instant::now();
        assert_eq!(problem(&schema, &members), None);
        // Without the bound: 25 million lookups.
        assert!(start.elapsed() < std::time::Duration::from_secs(2), "{:?}", start.elapsed());
    }

    #[test]
    fn long_name_above_many_contradictions_is_cut_once() {
        let name = "n".repeat(4 << 20);
        let alternatives = vec![json!({"type": "string"}); 10_000];
        let schema = json!({"properties": {&name: {"anyOf": alternatives}}});
        let start = std::time::Instant::now();
        let (path, _) = problem(&schema, &json!({&name: 1})).unwrap();
        assert!(path.len() < 100, "{path}");
        assert!(start.elapsed() < std::time::Duration::from_secs(2), "{:?}", start.elapsed());
    }
}
