//! Values that differ between revisions by more than omitted members.

use mcp_protocol::capabilities::{ClientCapabilities, ElicitationCapability};
use mcp_protocol::content::{AudioContent, ContentBlock, ToolResultContent, ToolUseContent};
use mcp_protocol::dialect::{Lower, Lowering};
use mcp_protocol::elicitation::{
    ElicitFormParams, ElicitUrlParams, EnumItems, FormSchema, UntitledMultiSelectSchema,
};
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::messages::{CancelledParams, EmptyParams, EmptyResult, Id, write};
use mcp_protocol::meta::Meta;
use mcp_protocol::sampling::{CreateMessageParams, SamplingBlock, SamplingMessage};
use mcp_protocol::tools::{CallToolResponse, CallToolResult, ListToolsResult, Tool};
use mcp_protocol::{Dialect, Era, Json, ProtocolVersion};
use serde_json::{Value, json};

use crate::samples;

fn lower<T: Lower>(dialect: Dialect, value: &T) -> Value {
    serde_json::to_value(dialect.lower(value)).unwrap()
}

fn fails<T: Lower>(dialect: Dialect, value: &T) -> String {
    serde_json::to_value(dialect.lower(value)).unwrap_err().to_string()
}

#[test]
fn content_type_missing_from_a_revision_becomes_text() {
    let audio = ContentBlock::from(AudioContent::new("aGk=", "audio/wav"));
    let link = ContentBlock::from(samples::link());
    let unknown: ContentBlock = serde_json::from_value(json!({"type": "hologram"})).unwrap();
    for dialect in Dialect::ALL {
        let kind = |block: &ContentBlock| lower(dialect, block)["type"].as_str().unwrap().to_owned();
        let is_old = |first| *dialect.version() < first;
        let text_or = |is_text: bool, other: &str| if is_text { "text".to_owned() } else { other.to_owned() };
        assert_eq!(kind(&audio), text_or(is_old(ProtocolVersion::V2025_03_26), "audio"));
        assert_eq!(kind(&link), text_or(is_old(ProtocolVersion::V2025_06_18), "resource_link"));
        assert_eq!(kind(&unknown), text_or(is_old(ProtocolVersion::V2025_06_18), "hologram"));
    }
    assert_eq!(lower(Dialect::V2024_11_05, &link)["text"], "A: file:///a");
    assert_eq!(lower(Dialect::V2024_11_05, &audio)["text"], "[audio, audio/wav]");
}

#[test]
fn non_object_structured_content_is_wrapped_or_sent_as_text() {
    let result = CallToolResult::new().structured_content(json!([1, 2]));
    for dialect in Dialect::ALL {
        let lowered = lower(dialect, &result);
        match dialect {
            Dialect::V2026_07_28 => assert_eq!(lowered["structuredContent"], json!([1, 2])),
            Dialect::V2025_06_18 | Dialect::V2025_11_25 => {
                assert_eq!(lowered["structuredContent"], json!({"result": [1, 2]}));
            }
            _ => assert_eq!(lowered.get("structuredContent"), None),
        }
        if dialect.era() == Era::Legacy {
            assert_eq!(lowered["content"], json!([{"type": "text", "text": "[1,2]"}]));
        }
    }
    // A value that the revision cannot express is written as text, unless a block has it already.
    let told = |text: &str| {
        let result = CallToolResult::text(text).structured_content(json!({"a": 1}));
        lower(Dialect::V2024_11_05, &result)["content"].as_array().unwrap().len()
    };
    assert_eq!((told("done"), told(r#"{ "a": 1 }"#)), (2, 1));
    // An object that the revision can express is not repeated.
    let kept = lower(Dialect::V2025_06_18, &CallToolResult::text("done").structured_content(json!({"a": 1})));
    assert_eq!(kept["content"].as_array().unwrap().len(), 1);
    // The same rules apply to sampling messages.
    let block = SamplingBlock::from(ToolResultContent::new("1", []).structured_content(json!(5)));
    assert_eq!(lower(Dialect::V2025_11_25, &block)["structuredContent"], json!({"result": 5}));
    assert_eq!(lower(Dialect::V2026_07_28, &block)["structuredContent"], json!(5));
}

#[test]
fn null_structured_content_is_a_value_only_in_modern_era() {
    let text = r#"{"content":[],"structuredContent":null}"#;
    for dialect in Dialect::ALL {
        let result: CallToolResult = dialect.raise_str(text).unwrap();
        assert_eq!(result.structured_content.is_some(), dialect.era() == Era::Modern);
    }
}

#[test]
fn audio_in_sampling_becomes_text_before_2025_03_26() {
    let block = SamplingBlock::from(AudioContent::new("aGk=", "audio/wav"));
    assert_eq!(lower(Dialect::V2024_11_05, &block)["type"], "text");
    assert_eq!(lower(Dialect::V2025_03_26, &block)["type"], "audio");
}

#[test]
fn url_only_elicitation_is_omitted_where_only_forms_exist() {
    let capabilities: ClientCapabilities = serde_json::from_str(r#"{"elicitation":{"url":{}}}"#).unwrap();
    assert_eq!(lower(Dialect::V2025_06_18, &capabilities), json!({}));
    assert_eq!(lower(Dialect::V2025_11_25, &capabilities), json!({"elicitation": {"url": {}}}));
}

#[test]
fn member_is_never_written_twice() {
    let mut meta = Meta::new().with("k", json!(1)).with("k", json!(2));
    assert_eq!(serde_json::to_string(&meta).unwrap(), r#"{"k":2}"#);
    meta.other.insert("other", json!(3));
    let own = EmptyParams::new().meta(Meta::new().with("k", json!("own")));
    let lowered =
        serde_json::to_string(&Lowering::to(Dialect::V2026_07_28).with_meta(&meta).root(&own)).unwrap();
    assert_eq!(lowered, r#"{"_meta":{"k":"own","other":3}}"#);
}

#[test]
fn list_result_type_must_be_complete_in_modern_era() {
    for kind in ["banana", "input_required", "task"] {
        let text = format!(r#"{{"resultType":"{kind}","tools":[]}}"#);
        assert!(Dialect::V2026_07_28.raise_str::<ListToolsResult>(&text).is_err(), "{kind}");
        // In the legacy era the member is unknown and may have any meaning.
        let legacy: ListToolsResult = Dialect::V2025_06_18.raise_str(&text).unwrap();
        assert_eq!((legacy.result_type, legacy.other.get("resultType").is_some()), (None, true));
    }
    // `null` is not a result type where one is required.
    assert!(serde_json::from_str::<EmptyResult>(r#"{"resultType":null}"#).is_err());
}

#[test]
fn negative_time_to_live_is_zero() {
    let page: ListToolsResult = Dialect::V2026_07_28.raise_str(r#"{"tools":[],"ttlMs":-5}"#).unwrap();
    assert_eq!(page.ttl_ms, Some(0.into()));
    assert!(Dialect::V2026_07_28.raise_str::<ListToolsResult>(r#"{"tools":[],"ttlMs":1.5}"#).is_err());
}

#[test]
fn output_schema_is_wrapped_or_omitted_per_revision() {
    let tool = |schema: Value| Tool::new("t", json!({"type": "object"})).output_schema(schema);
    let output = |schema: Value| lower(Dialect::V2025_11_25, &tool(schema)).get("outputSchema").cloned();
    let array = json!({"type": "array"});
    let wrapped = json!({"type": "object", "properties": {"result": array}, "required": ["result"]});
    assert_eq!(output(array.clone()), Some(wrapped));
    assert_eq!(output(json!({"type": "object"})), Some(json!({"type": "object"})));
    // Values of these schemas may or may not be objects, or the schema cannot be moved.
    assert_eq!(output(json!({"anyOf": [{"type": "object"}, {"type": "string"}]})), None);
    assert_eq!(output(json!({"type": "array", "items": {"$ref": "#/$defs/x"}})), None);
    assert_eq!(lower(Dialect::V2025_03_26, &tool(array.clone())).get("outputSchema"), None);
    assert_eq!(lower(Dialect::V2026_07_28, &tool(array.clone()))["outputSchema"], array);
}

#[test]
fn error_codes_are_translated_per_revision() {
    let code = |dialect: Dialect, error: &ErrorObject| lower(dialect, error)["code"].as_i64().unwrap();
    let not_found = ErrorObject::resource_not_found("file:///x");
    let modern_not_found = ErrorObject::new(ErrorCode::InvalidParams, "?").data(json!({"uri": "file:///x"}));
    let missing = ErrorObject::missing_client_capability(ClientCapabilities::new());
    let url = ErrorObject::new(ErrorCode::UrlElicitationRequired, "?");
    for dialect in Dialect::ALL {
        let is_modern = dialect.era() == Era::Modern;
        assert_eq!(code(dialect, &not_found), if is_modern { -32602 } else { -32002 });
        assert_eq!(code(dialect, &modern_not_found), if is_modern { -32602 } else { -32002 });
        assert_eq!(code(dialect, &missing), if is_modern { -32021 } else { -32602 });
        assert_eq!(code(dialect, &url), if dialect == Dialect::V2025_11_25 { -32042 } else { -32602 });
        assert_eq!(code(dialect, &ErrorObject::new(ErrorCode::Other(7), "?")), 7);
        assert_eq!(lower(dialect, &not_found)["data"]["uri"], "file:///x");
    }
    assert!(not_found.is_resource_not_found() && modern_not_found.is_resource_not_found());
}

#[test]
fn unknown_error_codes_are_kept_and_known_have_typed_data() {
    for code in
        [-32700, -32600, -32601, -32602, -32603, -32002, -32042, -32020, -32021, -32022, -1, -32005, 42]
    {
        assert_eq!(i64::from(ErrorCode::from(code)), code);
    }
    assert_eq!(ErrorCode::from(-32005), ErrorCode::Other(-32005));
    let error = ErrorObject::unsupported_version(&"x".into(), &[ProtocolVersion::V2026_07_28]);
    assert_eq!(error.unsupported_version_data().unwrap().requested.as_str(), "x");
    assert!(error.message.contains("2026-07-28"));
    let data =
        json!({"elicitations": [{"mode": "url", "message": "m", "url": "https://e", "elicitationId": "1"}]});
    let url = ErrorObject::new(ErrorCode::UrlElicitationRequired, "?").data(data);
    assert_eq!(url.url_elicitation_data().unwrap().elicitations[0].url, "https://e");
}

#[test]
fn value_unsupported_in_a_revision_fails_and_writes_nothing() {
    let many = UntitledMultiSelectSchema::new(EnumItems::new(["a".to_owned()]));
    let form = ElicitFormParams::new("?", FormSchema::new().field("many", many));
    assert!(fails(Dialect::V2025_06_18, &form).contains("2025-11-25"));
    let url = ElicitUrlParams::new("?", "https://example.com");
    assert!(fails(Dialect::V2025_06_18, &url).contains("2025-11-25"));
    assert!(fails(Dialect::V2025_11_25, &url).contains("elicitationId"));
    assert!(fails(Dialect::V2025_11_25, &samples::input_required_result()).contains("2026-07-28"));
    let tools = SamplingMessage::assistant(ToolUseContent::new("1", "t", Json::object()));
    let sampling = CreateMessageParams::new([tools], 1_u64);
    assert!(fails(Dialect::V2025_06_18, &sampling).contains("2025-11-25"));

    let mut out = b"before".to_vec();
    let written = write::response(&mut out, &Id::from(1), &Dialect::V2025_06_18.lower(&url));
    assert!(written.is_err());
    assert_eq!(out, b"before");
}

#[test]
fn result_type_and_cache_fields_are_written_only_in_modern_era() {
    for dialect in Dialect::ALL {
        let list = lower(dialect, &ListToolsResult::new([]));
        let modern = json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": []});
        let legacy = json!({"tools": []});
        assert_eq!(list, if dialect.era() == Era::Modern { modern } else { legacy });
        let empty = lower(dialect, &EmptyResult::new());
        assert_eq!(empty.get("resultType").is_some(), dialect.era() == Era::Modern);
    }
}

#[test]
fn absent_result_type_and_cache_fields_are_accepted() {
    for dialect in Dialect::ALL {
        let list: ListToolsResult = dialect.raise_str(r#"{"tools":[]}"#).unwrap();
        assert_eq!((list.result_type, list.ttl_ms, list.cache_scope), (None, None, None));
    }
    // Some legacy servers omit `content`; modern servers must not.
    assert!(Dialect::V2025_11_25.raise_str::<CallToolResult>("{}").unwrap().content.is_empty());
    assert!(Dialect::V2026_07_28.raise_str::<CallToolResult>("{}").is_err());
    // Other members stay required.
    assert!(Dialect::V2024_11_05.raise_str::<ListToolsResult>("{}").is_err());
}

#[test]
fn protocol_meta_is_added_to_params_only_in_modern_era() {
    let envelope = Meta::envelope(ProtocolVersion::V2026_07_28, ClientCapabilities::new());
    let token = Id::from("7");
    let own = EmptyParams::new().meta(Meta::new().with("a", json!(1)));
    for dialect in Dialect::ALL {
        let lowering = Lowering::to(dialect).with_meta(&envelope).with_progress_token(&token);
        let lowered = serde_json::to_value(lowering.root(&own)).unwrap();
        let meta = lowered["_meta"].as_object().unwrap();
        assert_eq!((&meta["a"], &meta["progressToken"]), (&json!(1), &json!("7")));
        assert_eq!(meta.len() == 4, dialect.era() == Era::Modern, "{lowered}");
    }
    // Legacy params without members have no `_meta`.
    let lowering = Lowering::to(Dialect::V2025_06_18).with_meta(&envelope);
    assert_eq!(serde_json::to_value(lowering.root(&EmptyParams::new())).unwrap(), json!({}));
    // The body's own `_meta` takes precedence and is written once.
    let own = EmptyParams::new().meta(Meta::new().protocol_version("x").progress_token(1));
    let lowering = Lowering::to(Dialect::V2026_07_28).with_meta(&envelope).with_progress_token(&token);
    let text = serde_json::to_string(&lowering.root(&own)).unwrap();
    assert_eq!(text.matches("protocolVersion").count(), 1, "{text}");
    assert!(
        text.contains(r#""io.modelcontextprotocol/protocolVersion":"x""#)
            && text.contains(r#""progressToken":1"#)
    );
}

#[test]
fn cancelled_params_require_request_id() {
    assert!(serde_json::from_str::<CancelledParams>(r#"{"reason":"x"}"#).is_err());
}

#[test]
fn error_without_id_is_written_with_null_or_no_id() {
    let error = ErrorObject::new(ErrorCode::ParseError, "?");
    let written = |no_id| {
        let mut out = Vec::new();
        write::error(&mut out, None, no_id, &error).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_eq!(
        written(write::NoId::Null),
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}"#
    );
    assert_eq!(written(write::NoId::Omitted), r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"?"}}"#);
}

#[test]
fn unknown_capabilities_and_extensions_are_always_kept() {
    let text = r#"{"elicitation":{},"extensions":{"a/b":{}},"x":{"y":[1]}}"#;
    let capabilities: ClientCapabilities = serde_json::from_str(text).unwrap();
    for dialect in Dialect::ALL {
        let lowered = lower(dialect, &capabilities);
        assert_eq!(lowered["extensions"], json!({"a/b": {}}));
        assert_eq!(lowered["x"], json!({"y": [1]}));
    }
    // `{}` means forms.
    let elicitation = capabilities.elicitation.unwrap();
    assert!(elicitation.has_form() && !elicitation.has_url());
    assert!(ElicitationCapability::both().has_url());
    let url_only: ElicitationCapability = serde_json::from_str(r#"{"url":{}}"#).unwrap();
    assert!(!url_only.has_form());
}

#[test]
fn result_type_selects_the_response_variant() {
    use mcp_protocol::messages::{Incoming, Message, parse};
    let kind = |dialect: Dialect, result: &str| {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        let Ok(Incoming::Message(Message::Response(response))) = parse(&text, &Default::default()) else {
            panic!()
        };
        CallToolResponse::raise(dialect, &response.outcome.unwrap())
    };
    let newest = Dialect::V2026_07_28;
    assert!(matches!(kind(newest, r#"{"content":[]}"#), Ok(CallToolResponse::Complete(_))));
    let input = r#"{"requestState":"s","resultType":"input_required"}"#;
    assert!(matches!(kind(newest, input), Ok(CallToolResponse::InputRequired(_))));
    let task = r#"{"resultType":"task","taskId":"t","status":"working","createdAt":"a","lastUpdatedAt":"b","ttlMs":null}"#;
    assert!(matches!(kind(newest, task), Ok(CallToolResponse::Task(task)) if task.ttl_ms.is_none()));
    let unknown = kind(newest, r#"{"resultType":"odd","content":[]}"#).unwrap_err().to_string();
    assert!(unknown.contains("odd"), "{unknown}");
    let nested =
        r#"{"task":{"taskId":"t","status":"working","createdAt":"a","lastUpdatedAt":"b","ttl":null}}"#;
    assert!(matches!(kind(Dialect::V2025_11_25, nested), Ok(CallToolResponse::LegacyTask(_))));
    // A legacy server may use the member for another purpose.
    let legacy = r#"{"content":[],"resultType":"odd"}"#;
    assert!(matches!(kind(Dialect::V2025_06_18, legacy), Ok(CallToolResponse::Complete(_))));
    // An `input_required` result must have requests or a state.
    assert!(kind(newest, r#"{"resultType":"input_required"}"#).is_err());
}

#[test]
fn several_choices_in_one_field_need_2025_11_25() {
    use mcp_protocol::elicitation::{ElicitResult, FieldValue};

    let answer = ElicitResult::accept([("colours".to_owned(), FieldValue::Strings(vec!["red".into()]))]);
    let lower = |dialect: Dialect| serde_json::to_string(&dialect.lower(&answer));
    assert!(lower(Dialect::V2025_06_18).unwrap_err().to_string().contains("multi-select"));
    assert!(lower(Dialect::V2025_11_25).is_ok());
}
