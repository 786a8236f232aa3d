//! The published schemas and examples, which are not part of this repository.

use std::io::Write;
use std::path::PathBuf;

use serde_json::Value;

/// Returns the directory with `schema/` and `examples-2026-07-28/`: from `MCP_SPEC_DATA`, or next to the repository.
///
/// Without it the suite reports on stderr that it was skipped; with `CI=true` that is a failure.
pub(crate) fn spec_data(suite: &str) -> Option<PathBuf> {
    let given = std::env::var_os("MCP_SPEC_DATA").map(PathBuf::from);
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = given.unwrap_or(beside);
    if folder.join("schema").is_dir() {
        return Some(folder);
    }
    not_run(&format!("{suite} (no schemas at {}; set MCP_SPEC_DATA)", folder.display()));
    assert!(may_be_missing(std::env::var("CI").ok().as_deref()), "{suite} did not run, and this is CI");
    None
}

/// Reports on stderr that a suite was skipped. The test harness would hide the output of `eprintln!` in a passing test.
pub(crate) fn not_run(suite: &str) {
    let _ = writeln!(std::io::stderr(), "NOT RUN: {suite}");
}

/// Returns true if a suite may be skipped: everywhere but in CI.
fn may_be_missing(ci: Option<&str>) -> bool {
    ci != Some("true")
}

#[test]
fn missing_test_data_fails_only_in_ci() {
    assert!(may_be_missing(None));
    assert!(may_be_missing(Some("")));
    assert!(!may_be_missing(Some("true")));
}

/// Returns the JSON Schema of one revision, and the path of its definitions.
pub(crate) fn schema(data: &std::path::Path, version: &str) -> (Value, &'static str) {
    let text = std::fs::read_to_string(data.join(format!("schema/{version}.json"))).unwrap();
    let schema: Value = serde_json::from_str(&text).unwrap();
    let definitions = if schema.get("$defs").is_some() { "$defs" } else { "definitions" };
    (schema, definitions)
}

/// Creates a validator for one definition of a schema.
pub(crate) fn validator(schema: &Value, definitions: &str, name: &str) -> jsonschema::Validator {
    let mut root = schema.clone();
    root["$ref"] = Value::String(format!("#/{definitions}/{name}"));
    jsonschema::validator_for(&root).unwrap()
}

/// Returns true if a part of a schema accepts the value.
pub(crate) fn fits(root: &Value, schema: &Value, value: &Value) -> bool {
    let mut whole = root.clone();
    for (key, part) in schema.as_object().unwrap() {
        whole[key] = part.clone();
    }
    jsonschema::validator_for(&whole).unwrap().is_valid(value)
}
