//! JSON edge cases that serde_json does not handle by default.

use mcp_protocol::codec::line::{Line, Lines};
use mcp_protocol::content::ContentBlock;
use mcp_protocol::errors::DecodeErrorKind;
use mcp_protocol::messages::{Incoming, Message, parse};
use mcp_protocol::sampling::{CreateMessageResult, SamplingBlock};
use mcp_protocol::tools::{CallToolParams, CallToolResult, ListToolsResult, Tool};
use mcp_protocol::{Dialect, Limits};

#[test]
fn array_is_rejected_where_an_object_is_required() {
    assert!(serde_json::from_str::<CallToolParams>(r#"["echo"]"#).is_err());
    assert!(serde_json::from_str::<Tool>(r#"["t",{"type":"object"}]"#).is_err());
}

#[test]
fn lone_surrogates_are_refused_in_types_and_kept_in_raw_json() {
    assert!(serde_json::from_str::<CallToolParams>(r#"{"name":"\ud800"}"#).is_err());
    let params: CallToolParams = serde_json::from_str(r#"{"name":"t","arguments":{"a":"\ud800"}}"#).unwrap();
    assert_eq!(params.arguments.as_ref().unwrap().get(), r#"{"a":"\ud800"}"#);
    assert!(params.arguments.unwrap().to::<serde_json::Value>().is_err());
}

#[test]
fn numbers_out_of_range_fail_in_types_and_stay_in_raw_json() {
    let params: CallToolParams = serde_json::from_str(r#"{"name":"t","arguments":{"a":1e999}}"#).unwrap();
    assert_eq!(params.arguments.as_ref().unwrap().get(), r#"{"a":1e999}"#);
    assert!(params.arguments.unwrap().to::<serde_json::Value>().is_err());
    assert!(
        serde_json::from_str::<ListToolsResult>(
            r#"{"resultType":"complete","cacheScope":"public","ttlMs":1e999,"tools":[]}"#
        )
        .is_err()
    );
}

#[test]
fn null_and_absent_differ_where_null_is_a_value() {
    let read = |text: &str| Dialect::V2026_07_28.raise_str::<CallToolResult>(text).unwrap();
    assert_eq!(read(r#"{"content":[]}"#).structured_content, None);
    let null = read(r#"{"content":[],"structuredContent":null}"#);
    assert!(null.structured_content.as_ref().unwrap().is_null());
    let back = serde_json::to_string(&Dialect::V2026_07_28.lower(&null)).unwrap();
    assert!(back.contains(r#""structuredContent":null"#), "{back}");
    // Elsewhere `null` means absent, and is never written.
    let page: ListToolsResult = Dialect::V2025_06_18.raise_str(r#"{"tools":[],"nextCursor":null}"#).unwrap();
    assert_eq!(page.next_cursor, None);
    assert_eq!(serde_json::to_string(&Dialect::V2025_06_18.lower(&page)).unwrap(), r#"{"tools":[]}"#);
    // An empty cursor is a valid cursor.
    let page: ListToolsResult = Dialect::V2025_06_18.raise_str(r#"{"tools":[],"nextCursor":""}"#).unwrap();
    assert_eq!(page.next_cursor.as_deref(), Some(""));
}

#[test]
fn raw_members_are_preserved_in_unions() {
    let text = r#"{"text":"hi","x-raw":{"a": [1e999]},"type":"text"}"#;
    let block: ContentBlock = serde_json::from_str(text).unwrap();
    let ContentBlock::Text(text) = &block else { panic!() };
    assert_eq!(text.other.get("x-raw").unwrap().get(), r#"{"a": [1e999]}"#);
    let unknown = r#"{"type":"hologram","size":1e999}"#;
    let block: ContentBlock = serde_json::from_str(unknown).unwrap();
    assert!(matches!(&block, ContentBlock::Unknown(json) if json.get() == unknown));
    assert!(serde_json::from_str::<ContentBlock>(r#"{"text":"hi"}"#).is_err());
    assert!(serde_json::from_str::<ContentBlock>(r#"{"type":"text","type":"text","text":""}"#).is_err());
}

#[test]
fn duplicate_member_of_a_type_is_rejected() {
    for text in [
        r#"{"name":"a","name":"b"}"#,
        r#"{"name":"a","arguments":null,"arguments":{}}"#,
        r#"{"name":"a","_meta":{"progressToken":1,"progressToken":2}}"#,
    ] {
        let error = serde_json::from_str::<CallToolParams>(text).unwrap_err().to_string();
        assert!(error.contains("duplicate"), "{error}");
    }
}

#[test]
fn malformed_tools_in_a_list_are_skipped_and_reported() {
    let good = r#"{"name":"good","inputSchema":{"type":"object"}}"#;
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"x":1,"tools":[{good},{{"name":"bad","inputSchema":7}},3,{good}],"nextCursor":"n"}}}}"#
    );
    let Ok(Incoming::Message(Message::Response(response))) = parse(&text, &Limits::default()) else {
        panic!()
    };
    let (page, skipped) =
        ListToolsResult::raise_each(Dialect::V2025_06_18, &response.outcome.unwrap(), 100).unwrap();
    assert_eq!((page.tools.len(), page.next_cursor.as_deref()), (2, Some("n")));
    assert_eq!(page.other.get("x").unwrap().get(), "1");
    let skipped: Vec<_> = skipped.iter().map(|tool| (tool.position, tool.name.as_deref())).collect();
    assert_eq!(skipped, [(1, Some("bad")), (2, None)]);
}

#[test]
fn depth_of_100_000_is_an_error() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        for text in [
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{{"x":{deep}}}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":1,"x":{deep},"method":"a"}}"#),
        ] {
            let error = parse(&text, &Limits::default()).unwrap_err();
            assert!(matches!(error.kind, DecodeErrorKind::TooDeep { .. }), "{error}");
            assert_eq!(error.id, Some(1.into()));
        }
    }
}

#[test]
fn nested_blocks_use_no_memory_per_level() {
    // With the type last, each known level is first stored as text.
    let mut block = format!(r#"{{"text":"{}","type":"text"}}"#, "x".repeat(4 << 20));
    for _ in 0..55 {
        block = format!(r#"{{"toolUseId":"a","content":[{block}],"type":"tool_result"}}"#);
    }
    let text = format!(r#"{{"role":"user","model":"m","content":[{block}]}}"#);
    let before = peak_memory();
    let result: CreateMessageResult = serde_json::from_str(&text).unwrap();
    let SamplingBlock::ToolResult(outer) = &result.content.blocks()[0] else { panic!() };
    assert!(matches!(outer.content[0], ContentBlock::Unknown(_)));
    if let (Some(before), Some(after)) = (before, peak_memory()) {
        assert!(after - before < 10 * text.len(), "{} MiB", (after - before) >> 20);
    }
}

/// Returns the peak memory of this process, in bytes.
fn peak_memory() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<usize>().ok().map(|kilobytes| kilobytes << 10)
}

#[test]
fn line_of_100_mb_is_an_error_in_bounded_memory() {
    let Some(before) = peak_memory() else {
        crate::support::not_run("peak memory (no /proc)");
        return;
    };
    let limits = Limits::default();
    let mut lines = Lines::new(&limits);
    let piece = vec![b'x'; 64 << 10];
    lines.push(br#"{"jsonrpc":"2.0","id":9,"result":{"a":""#);
    let mut found = Vec::new();
    for _ in 0..(100 << 20) / piece.len() {
        lines.push(&piece);
        while let Some(line) = lines.poll_line() {
            found.push(match line {
                Line::TooLong(error) => format!("too long {:?}", error.id),
                Line::Endless => "endless".into(),
                Line::Whole(_) => "whole".into(),
            });
        }
    }
    assert_eq!(found, ["too long Some(Number(9))", "endless"]);
    let grown = peak_memory().unwrap().saturating_sub(before);
    assert!(grown <= 2 * limits.message + (16 << 20), "{} MiB", grown >> 20);
}

#[test]
fn duplicate_elicitation_mode_is_rejected() {
    let text =
        r#"{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{}},"mode":"url"}"#;
    assert!(serde_json::from_str::<mcp_protocol::elicitation::ElicitParams>(text).is_err());
}

/// `null` is an absent optional member at any position.
#[test]
fn null_elicitation_mode_is_absent() {
    use mcp_protocol::elicitation::{ElicitParams, FormSchema};

    let parse = |text: &str| serde_json::from_str::<ElicitParams>(text);
    let form = mcp_protocol::elicitation::ElicitFormParams::new("m", FormSchema::new());
    let schema = serde_json::to_string(&form.requested_schema).unwrap();
    for text in [
        format!(r#"{{"mode":null,"message":"m","requestedSchema":{schema}}}"#),
        format!(r#"{{"message":"m","mode":null,"requestedSchema":{schema}}}"#),
    ] {
        assert_eq!(parse(&text).unwrap(), form.clone().into());
    }
    let twice = format!(r#"{{"mode":null,"message":"m","requestedSchema":{schema},"mode":"form"}}"#);
    assert!(parse(&twice).is_err());
}

/// Only the envelope of a modern request restricts the values of its keys; elsewhere an invalid value is not an error.
#[test]
fn invalid_known_key_in_meta_of_a_part_is_preserved() {
    use mcp_protocol::Dialect;
    use mcp_protocol::tools::{CallToolResult, ListToolsResult};

    let block = r#"{"content":[{"type":"text","text":"x","_meta":{"baggage":["a"]}}]}"#;
    let tool = r#"{"tools":[{"name":"t","inputSchema":{"type":"object"},"_meta":{"progressToken":[]}}]}"#;
    for dialect in [Dialect::V2025_06_18, Dialect::V2026_07_28] {
        let result = dialect.raise_str::<CallToolResult>(block).unwrap();
        let page = dialect.raise_str::<ListToolsResult>(tool).unwrap();
        assert!(serde_json::to_string(&dialect.lower(&result)).unwrap().contains(r#""baggage":["a"]"#));
        assert!(serde_json::to_string(&dialect.lower(&page)).unwrap().contains(r#""progressToken":[]"#));
    }
    let params = r#"{"name":"t","_meta":{"progressToken":[]}}"#;
    assert!(Dialect::V2026_07_28.raise_str::<mcp_protocol::tools::CallToolParams>(params).is_err());
}
