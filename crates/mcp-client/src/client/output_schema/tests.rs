use serde_json::json;

use super::check::MAX_STEPS;
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
        (json!({"city": "", "days": [], "unit": "K"}), "/unit", "not in `enum`"),
        (json!({"city": "", "days": [], "n": 0.5}), "/n", "a number instead of"),
        (json!({"city": "", "days": [], "a/b": 2}), "/a~1b", "differs from `const`"),
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
    let names: Vec<String> = (0..2 * MAX_STEPS).map(|number| format!("m{number}")).collect();
    let members: Value = names.iter().map(|name| (name.clone(), json!(1))).collect();
    let numbers: Vec<usize> = (0..2 * MAX_STEPS).collect();
    // Each mismatch comes only after more names or elements than are compared.
    let mut all_and_one = names.clone();
    all_and_one.push("missing".to_owned());
    let properties: Value =
        names[..2 * MAX_STEPS - 1].iter().map(|name| (name.clone(), json!(true))).collect();
    let mut other = numbers.clone();
    other[2 * MAX_STEPS - 1] = 7;
    for (schema, content) in [
        (json!({"required": all_and_one}), members.clone()),
        (json!({"enum": numbers}), json!(-1)),
        (json!({"const": numbers}), json!(other)),
        (json!({"enum": [numbers]}), json!(other)),
        (json!({"additionalProperties": false, "properties": properties}), members.clone()),
        (json!({"type": vec!["null"; 2 * MAX_STEPS]}), json!(1)),
        (json!({"type": vec![json!([]); 2 * MAX_STEPS]}), json!(1)),
    ] {
        let shown = schema.to_string();
        assert_eq!(problem(&schema, &content), None, "{}", &shown[..60]);
    }
    // Within the limit, the same mismatch is reported.
    assert!(problem(&json!({"required": all_and_one[2 * MAX_STEPS - 5..]}), &members).is_some());
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
    assert!(check.steps <= MAX_STEPS);
    let start = std::time::Instant::now();
    assert_eq!(problem(&schema, &members), None);
    // Without the limit there would be 25 million lookups.
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
