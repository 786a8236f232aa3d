//! The message parser agrees with serde_json.

use mcp_protocol::errors::DecodeErrorKind;
use mcp_protocol::messages::{Body, Id, Incoming, Message, parse_bytes, write};
use mcp_protocol::{Dialect, Limits};
use serde_json::Value;

/// Accepts any bytes.
pub(crate) fn agrees_with_serde_json(bytes: &[u8]) {
    let limits = Limits::default();
    let parsed = parse_bytes(bytes, &limits);
    let Ok(text) = std::str::from_utf8(bytes) else {
        assert!(matches!(parsed.unwrap_err().kind, DecodeErrorKind::NotUtf8 { .. }));
        return;
    };
    let is_json = serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok();
    match &parsed {
        Ok(_) => assert!(is_json, "accepted what is no JSON"),
        Err(error) => match error.kind {
            DecodeErrorKind::NotJson { .. } => {
                assert!(!is_json, "refused what is JSON");
            }
            DecodeErrorKind::TooDeep { .. } => assert!(depth(text) > mcp_protocol::limits::MAX_DEPTH),
            _ => {}
        },
    }
    let Ok(Incoming::Message(message)) = parsed else { return };
    // Unpaired surrogates and numbers out of range are preserved in raw JSON; only a `Value` rejects them.
    let Ok(value) = serde_json::from_str::<Value>(text) else { return };
    match &message {
        Message::Request(request) => {
            assert_eq!(value["method"], request.method.as_str());
            assert_eq!(value["id"], id(&request.id));
            members(&request.params, &value["params"]);
        }
        Message::Notification(notification) => {
            assert_eq!(value["method"], notification.method.as_str());
            assert!(value.get("id").is_none());
            members(&notification.params, &value["params"]);
        }
        Message::Response(response) => match &response.outcome {
            Ok(result) => {
                assert_eq!(value["id"], response.id.as_ref().map(id).unwrap());
                members(result, &value["result"]);
                relay(response.id.as_ref().unwrap(), result, &value["result"]);
            }
            Err(error) => {
                assert_eq!(value["error"]["code"], i64::from(error.code));
                let lowered = serde_json::to_value(Dialect::V2026_07_28.lower(error)).unwrap();
                assert_eq!(lowered["message"], value["error"]["message"]);
            }
        },
    }
}

fn id(id: &Id) -> Value {
    serde_json::to_value(id).unwrap()
}

/// Checks that the index of members returns the same values as a search, unless a key occurs twice.
fn members(body: &Body<'_>, value: &Value) {
    for name in ["name", "arguments", "_meta", "uri", "resultType", "a"] {
        if let Ok(found) = body.member(name) {
            let found: Option<Value> = found.map(|text| serde_json::from_str(text).unwrap());
            assert_eq!(found.as_ref(), value.get(name), "{name}");
        }
    }
    let _ = body.meta();
}

/// Checks that a relayed message is one line with the same value.
fn relay(id: &Id, result: &Body<'_>, value: &Value) {
    let mut out = Vec::new();
    write::relay_response(&mut out, id, result).unwrap();
    assert!(!out.contains(&b'\n') && !out.contains(&b'\r'));
    let back: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(&back["result"], value);
}

fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for c in text.chars() {
        match c {
            '{' | '[' if !in_string => depth += 1,
            '}' | ']' if !in_string => depth = depth.saturating_sub(1),
            '"' if !escaped => in_string = !in_string,
            _ => {}
        }
        deepest = deepest.max(depth);
        escaped = in_string && c == '\\' && !escaped;
    }
    deepest
}
