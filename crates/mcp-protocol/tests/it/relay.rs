//! A message relayed between all versions: raised from each, lowered to each, and passed on raw.

use mcp_protocol::dialect::{Lower, Raise};
use mcp_protocol::messages::{Incoming, Message, Method, parse, write};
use mcp_protocol::{Dialect, Limits};
use serde_json::Value;

use crate::samples;

/// Checks that a relayed message equals the direct one, except for members that the first version cannot express.
fn carry<T: Raise + Lower + PartialEq + std::fmt::Debug>(value: &T) {
    for from in Dialect::ALL {
        let received: T = from.raise_str(&serde_json::to_string(&from.lower(value)).unwrap()).unwrap();
        for to in Dialect::ALL {
            let relayed: Value = serde_json::to_value(to.lower(&received)).unwrap();
            let direct: Value = serde_json::to_value(to.lower(value)).unwrap();
            // Nothing is added or changed in transit.
            let mut invented = Vec::new();
            only_less(&relayed, &direct, String::new(), &mut invented);
            assert!(invented.is_empty(), "{from:?} to {to:?}: {invented:?}");
            // A second relay loses nothing more.
            let again: T = to.raise_str(&relayed.to_string()).unwrap();
            assert_eq!(serde_json::to_value(to.lower(&again)).unwrap(), relayed, "{from:?} to {to:?}");
        }
        // Within one version the relay is the identity on the wire.
        assert_eq!(
            serde_json::to_value(from.lower(&received)).unwrap(),
            serde_json::to_value(from.lower(value)).unwrap()
        );
    }
}

fn only_less(relayed: &Value, direct: &Value, path: String, invented: &mut Vec<String>) {
    match (relayed, direct) {
        (Value::Object(relayed), Value::Object(direct)) => {
            for (name, value) in relayed {
                match direct.get(name) {
                    Some(expected) => only_less(value, expected, format!("{path}/{name}"), invented),
                    None => invented.push(format!("{path}/{name}")),
                }
            }
        }
        (Value::Array(relayed), Value::Array(direct)) if relayed.len() >= direct.len() => {
            // Values that the first version cannot express were written as text.
            for extra in &relayed[direct.len()..] {
                if extra["type"] != "text" {
                    invented.push(path.clone());
                }
            }
            for (at, (value, expected)) in relayed.iter().zip(direct).enumerate() {
                // A block that the first version lacks stays the text that replaced it.
                if value["type"] == expected["type"] {
                    only_less(value, expected, format!("{path}/{at}"), invented);
                } else if value["type"] != "text" {
                    invented.push(format!("{path}/{at}"));
                }
            }
        }
        (relayed, direct) if relayed == direct => {}
        _ => invented.push(path),
    }
}

#[test]
fn messages_are_relayed_between_all_five_revisions() {
    carry(&samples::list_tools_result());
    carry(&samples::call_tool_params());
    carry(&samples::call_tool_result());
    carry(&samples::list_prompts_result());
    carry(&samples::read_result());
}

#[test]
fn elicitation_round_trips_in_each_revision_that_has_it() {
    for dialect in [Dialect::V2025_06_18, Dialect::V2025_11_25, Dialect::V2026_07_28] {
        let form = samples::form(dialect);
        let sent = serde_json::to_value(dialect.lower(&form)).unwrap();
        let received: mcp_protocol::elicitation::ElicitFormParams =
            dialect.raise_str(&sent.to_string()).unwrap();
        assert_eq!(serde_json::to_value(dialect.lower(&received)).unwrap(), sent);
    }
}

#[test]
fn unparsed_body_is_relayed_byte_for_byte() {
    let params = r#"{ "a" : 1e999, "b":"\ud800" , "a":2 }"#;
    let text = format!(r#"{{"jsonrpc":"2.0","id":5,"method":"acme/x","params":{params}}}"#);
    let Ok(Incoming::Message(Message::Request(request))) = parse(&text, &Limits::default()) else { panic!() };
    let mut out = Vec::new();
    write::relay_request(&mut out, &request.id, &Method::from("acme/x"), &request.params).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), text);
}

#[test]
fn lowering_does_not_change_the_value() {
    let value = samples::call_tool_result();
    let before = value.clone();
    for dialect in Dialect::ALL {
        let _ = serde_json::to_string(&dialect.lower(&value)).unwrap();
    }
    assert_eq!(value, before);
}
