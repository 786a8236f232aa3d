//! Text of a peer is escaped and truncated wherever it is displayed.

use mcp_protocol::codec::param_header::{AnnotationError, ParamHeaders};
use mcp_protocol::elicitation::{FormSchema, StringSchema};
use mcp_protocol::errors::{BodyError, ErrorCode, ErrorObject};
use mcp_protocol::logging::LogLevel;
use mcp_protocol::messages::{Id, Method};
use mcp_protocol::names::NameTaken;
use mcp_protocol::negotiation::{HandshakeFailure, HttpFailure, NegotiationError};
use mcp_protocol::tools::Tool;
use mcp_protocol::{Dialect, Json, Map, ProtocolVersion};
use serde_json::json;

/// Clears the screen, sets the title, forges a line and changes the text direction.
const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\r\nINFO forged\u{9b}31m\u{202e}\u{2028}\u{200b}";
/// Maximum length of a displayed text, in bytes.
const MAX_SHOWN: usize = 10_000;

fn hostile() -> String {
    HOSTILE.repeat(100_000)
}

#[track_caller]
fn assert_harmless(shown: &dyn std::fmt::Display) {
    let shown = shown.to_string();
    let bad = shown.chars().find(|c| c.is_control() || matches!(c, '\u{200b}' | '\u{202e}' | '\u{2028}'));
    let beginning: String = shown.chars().take(200).collect();
    assert_eq!(bad, None, "{beginning:?}");
    assert!(shown.len() <= MAX_SHOWN, "{} bytes: {beginning}", shown.len());
    assert!(!shown.is_empty());
}

fn error() -> ErrorObject {
    ErrorObject::new(ErrorCode::InvalidParams, hostile())
}

#[test]
fn error_object_is_displayed_escaped_and_cut() {
    let error = error();
    assert_harmless(&error);
    assert!(error.to_string().ends_with("characters) (-32602)"), "{error}");
    assert_eq!(error.message, hostile(), "the field keeps the text");
    let short = ErrorObject::new(ErrorCode::InternalError, "it\nfailed");
    assert_eq!(short.to_string(), r"it\nfailed (-32603)");
}

#[test]
fn error_object_shows_what_its_data_adds_to_the_message() {
    let with = |code: i64, message: &str, data: serde_json::Value| {
        ErrorObject::new(ErrorCode::from(code), message).data(data).to_string()
    };
    let uri = json!({"uri": "file:///x"});
    assert_eq!(with(-32002, "Resource not found", uri.clone()), "Resource not found: file:///x (-32002)");
    assert_eq!(with(-32602, "no resource", uri.clone()), "no resource: file:///x (-32602)");
    assert_eq!(with(-32002, "no file:///x", uri), "no file:///x (-32002)");
    let versions = json!({"supported": ["2025-06-18", "2025-03-26"], "requested": "1"});
    assert_eq!(
        with(-32022, "unsupported", versions),
        "unsupported: use one of 2025-06-18, 2025-03-26 (-32022)"
    );
    let needed = json!({"requiredCapabilities": {"elicitation": {}}});
    assert_eq!(with(-32021, "missing", needed), "missing: {\"elicitation\":{}} (-32021)");
    assert_eq!(with(-32603, "it failed", json!("disk full")), "it failed: disk full (-32603)");
    assert_eq!(with(-32603, "it failed", json!({"code": 7})), "it failed (-32603)");
    assert_harmless(&with(-32002, "gone", json!({"uri": hostile()})));
    assert_harmless(&with(-32022, "gone", json!({"supported": [hostile()], "requested": "1"})));
    assert_harmless(&with(-32603, "gone", json!(hostile())));
}

#[test]
fn displayed_body_error_is_complete_and_has_no_source() {
    use std::error::Error as _;

    let error = Dialect::V2025_11_25.raise_str::<Tool>(r#"{"name": []}"#).unwrap_err();
    assert!(error.source().is_none() && error.to_string().contains("name"), "{error}");
    let shape = BodyError::from(serde_json::from_str::<bool>("1").unwrap_err());
    assert!(shape.source().is_none() && shape.to_string().contains("boolean"), "{shape}");
}

#[test]
fn names_from_the_wire_are_displayed_escaped_and_cut() {
    assert_harmless(&Method::from(&*hostile()));
    assert_harmless(&LogLevel::from(&*hostile()));
    assert_harmless(&ProtocolVersion::from(hostile()));
    assert_harmless(&Id::from(HOSTILE.to_owned()));
    assert_eq!(Method::from(HOSTILE).as_str(), HOSTILE);
    assert_eq!(serde_json::to_value(Method::from(HOSTILE)).unwrap(), HOSTILE);
    assert_eq!(Method::from("acme/undo").to_string(), "acme/undo");
}

#[test]
fn body_errors_are_displayed_escaped_and_cut() {
    assert_harmless(&BodyError::ResultType(hostile()));
    let name =
        serde_json::to_string(&json!({ "name": [], "inputSchema": {}, hostile(): hostile() })).unwrap();
    assert_harmless(&Dialect::V2025_11_25.raise_str::<Tool>(&name).unwrap_err());
    let wrong = serde_json::from_value::<bool>(hostile().into()).unwrap_err();
    assert_harmless(&BodyError::from(wrong));
}

#[test]
fn annotation_errors_are_displayed_escaped_and_cut() {
    let of = |properties: serde_json::Value| {
        ParamHeaders::of(&json!({ "type": "object", "properties": properties }).into()).unwrap_err()
    };
    let token = "x".repeat(100_000);
    for error in [
        of(json!({ "a": { "type": "string", "x-mcp-header": hostile() } })),
        of(json!({ "a": { "type": "string", "x-mcp-header": { hostile(): 1 } } })),
        of(json!({ hostile(): { "items": { "x-mcp-header": "a" } } })),
        of(json!({ "a": { hostile(): { "x-mcp-header": "a" } } })),
        of(json!({ "a": { "type": "number", "x-mcp-header": token } })),
        of(
            json!({ "a": { "type": "string", "x-mcp-header": token }, "b": { "type": "string", "x-mcp-header": token } }),
        ),
        AnnotationError::Range(hostile()),
    ] {
        assert_harmless(&error);
    }
}

#[test]
fn negotiation_errors_are_displayed_escaped_and_cut() {
    let version = ProtocolVersion::from(hostile());
    let many = vec![version.clone(); 1000];
    for error in [
        NegotiationError::NoCommonVersion { ours: vec![ProtocolVersion::V2026_07_28], theirs: many.clone() },
        NegotiationError::UnsupportedVersion { ours: Vec::new(), answered: version },
        NegotiationError::Rejected(error()),
        NegotiationError::Handshake { probe: Some(error()), handshake: HandshakeFailure::Rejected(error()) },
        NegotiationError::Noise { sample: hostile() },
        NegotiationError::Http(HttpFailure::Redirect { status: 302, location: Some(hostile()) }),
    ] {
        assert_harmless(&error);
    }
}

#[test]
fn form_errors_and_taken_names_are_displayed_escaped_and_cut() {
    let mut answer = Map::new();
    answer.insert(hostile(), hostile().into());
    assert_harmless(&FormSchema::new().check(&answer).unwrap_err());
    let choice = FormSchema::new().field(hostile(), StringSchema::new());
    let mut answer = Map::new();
    answer.insert(hostile(), true.into());
    assert_harmless(&choice.check(&answer).unwrap_err());
    assert_harmless(&NameTaken {
        name: hostile(),
        server: hostile(),
        tool: hostile(),
        holder_server: hostile(),
        holder_tool: hostile(),
    });
}

#[test]
fn debug_of_json_is_escaped_and_cut() {
    let json = Json::of(&hostile()).unwrap();
    assert_harmless(&format!("{json:?}"));
    let mut error = error();
    error.message = "short".to_owned();
    error.data = Some(json);
    let shown = format!("{error:?}");
    assert_harmless(&shown);
    assert!(shown.contains("characters)"), "{shown}");
    let short: Json = r#"{"a": [1, "x"]}"#.parse().unwrap();
    assert_eq!(format!("{short:?}"), r#"{"a": [1, "x"]}"#);
}
