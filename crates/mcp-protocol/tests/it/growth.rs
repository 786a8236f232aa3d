//! Reading and checking hostile input takes time linear in its length, whatever its shape.

use std::time::{Duration, Instant};

use mcp_protocol::codec::param_header::ParamHeaders;
use mcp_protocol::elicitation::{FieldValue, FormSchema};
use mcp_protocol::{Json, Map};

/// Levels of a schema; two per step.
const STEPS: usize = 58;
const BYTES: usize = 300_000;
const RUNS: usize = 5;
/// Maximum cost of a deep schema relative to a flat one of the same length; reading each level again would be 58 times.
const MAX_RATIO: u32 = 8;

/// Returns a schema with most of its text below `steps` of `open`.
fn schema(open: &str, close: &str, steps: usize) -> Json {
    let bulk: Vec<String> =
        (0..BYTES / 30).map(|number| format!(r#""p{number:08}":{{"title":"x"}}"#)).collect();
    let annotated = r#""a":{"type":"string","x-mcp-header":"A"}"#;
    let inner = format!(r#"{{"properties":{{{}}}}}"#, bulk.join(","));
    let nested = format!("{}{inner}{}", open.repeat(steps), close.repeat(steps));
    format!(r#"{{"type":"object","properties":{{{annotated},"b":{nested}}}}}"#).parse().unwrap()
}

fn fastest(schema: &Json) -> Duration {
    let run = || {
        let start = Instant::now();
        assert!(!ParamHeaders::of(schema).unwrap().is_empty());
        start.elapsed()
    };
    (0..RUNS).map(|_| run()).min().unwrap()
}

#[test]
fn annotations_cost_the_same_at_any_depth() {
    for (open, close) in [(r#"{"properties":{"p":"#, "}}"), (r#"{"items":["#, "]}"), (r#"{"type":["#, "]}")] {
        let (flat, deep) = (fastest(&schema(open, close, 1)), fastest(&schema(open, close, STEPS)));
        assert!(deep <= flat * MAX_RATIO, "{open}: {flat:?} flat, {deep:?} deep");
    }
}

/// Checks form content with `count` values for a field with as many options.
fn check_choices(items: &str, count: usize) -> Duration {
    let values: Vec<String> = (0..count).map(|number| format!("v{number:06}")).collect();
    let (keyword, choices): (_, Vec<String>) = match items {
        "titled" => ("anyOf", values.iter().map(|v| format!(r#"{{"const":"{v}","title":"t"}}"#)).collect()),
        _ => ("enum", values.iter().map(|v| format!("{v:?}")).collect()),
    };
    let kind = if keyword == "enum" { r#""type":"string","# } else { "" };
    let form = format!(
        r#"{{"type":"object","properties":{{"f":{{"type":"array","items":{{{kind}"{keyword}":[{}]}}}}}}}}"#,
        choices.join(",")
    );
    let form: FormSchema = serde_json::from_str(&form).unwrap();
    let mut answer = Map::new();
    answer.insert("f".to_owned(), FieldValue::Strings(values));
    let run = || {
        let start = Instant::now();
        form.check(&answer).unwrap();
        start.elapsed()
    };
    (0..RUNS).map(|_| run()).min().unwrap()
}

#[test]
fn checking_chosen_values_takes_linear_time() {
    for items in ["plain", "titled"] {
        // 16 times as many values; comparing each with every option would take 256 times as long.
        let (few, many) = (check_choices(items, 500), check_choices(items, 8000));
        assert!(many <= few * 16 * 4, "{items}: {few:?} for 500 values, {many:?} for 8000");
    }
}
