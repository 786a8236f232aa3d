use super::*;
use crate::limits::Limits;
use crate::messages::{Incoming, parse};
use crate::version::SUPPORTED;

const DUAL: &[ProtocolVersion] = SUPPORTED;
const MODERN_ONLY: &[ProtocolVersion] = &[ProtocolVersion::V2026_07_28];

fn request(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)
}

fn envelope(version: &str) -> String {
    format!(
        r#"{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"{version}","io.modelcontextprotocol/clientCapabilities":{{}}}}}}"#
    )
}

fn initialize_request(version: &str) -> String {
    request(
        "initialize",
        &format!(
            r#"{{"protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"c","version":"1"}}}}"#
        ),
    )
}

fn classify(server: &mut StdioServerNegotiation, text: &str) -> StdioClassification {
    match parse(text, &Limits::default()) {
        Ok(Incoming::Message(message)) => server.classify(&message),
        Ok(Incoming::Batch(batch)) => server.classify_batch(&batch),
        Err(error) => server.classify_unreadable(&error),
    }
}

fn dual() -> StdioServerNegotiation {
    StdioServerNegotiation::new(DUAL)
}

/// A server after the handshake.
fn initialized(version: &str) -> StdioServerNegotiation {
    let mut server = dual();
    assert!(matches!(
        classify(&mut server, &initialize_request(version)),
        StdioClassification::Initialize(..)
    ));
    server
}

#[track_caller]
fn rejection(negotiation: StdioClassification) -> ErrorObject {
    match negotiation {
        StdioClassification::Reject(error) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn modern_request_does_not_lock_the_era() {
    let mut server = dual();
    for method in ["server/discover", "tools/list", "acme/custom"] {
        let negotiation = classify(&mut server, &request(method, &envelope("2026-07-28")));
        assert!(matches!(negotiation, StdioClassification::Modern(Dialect::V2026_07_28, _)), "{method}");
    }
    assert!(matches!(
        classify(&mut server, &initialize_request("2025-06-18")),
        StdioClassification::Initialize(..)
    ));
    let negotiation = classify(&mut server, &request("tools/list", &envelope("2026-07-28")));
    assert!(matches!(negotiation, StdioClassification::Modern(..)));
}

#[test]
fn other_version_in_meta_is_rejected_with_supported_versions() {
    for version in ["2025-11-25", "2099-01-01", ""] {
        let error = rejection(classify(&mut dual(), &request("tools/list", &envelope(version))));
        let data = error.unsupported_version_data().unwrap();
        assert_eq!((data.supported.as_slice(), data.requested.as_str()), (DUAL, version));
    }
}

#[test]
fn malformed_meta_is_invalid_params_and_never_legacy() {
    let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
    for meta in [
        format!("{{{version}}}"),
        format!(r#"{{{version},"io.modelcontextprotocol/clientCapabilities":7}}"#),
        format!(r#"{{{version},{version},"io.modelcontextprotocol/clientCapabilities":{{}}}}"#),
        r#"{"io.modelcontextprotocol/protocolVersion":7}"#.into(),
    ] {
        let mut server = initialized("2025-06-18");
        let error =
            rejection(classify(&mut server, &request("tools/list", &format!(r#"{{"_meta":{meta}}}"#))));
        assert_eq!(error.code, ErrorCode::InvalidParams, "{meta}");
    }
    let error =
        rejection(classify(&mut dual(), &request("tools/list", &format!(r#"{{"_meta":{{{version}}}}}"#))));
    assert_eq!(error.data.unwrap().get(), r#"{"missing":["io.modelcontextprotocol/clientCapabilities"]}"#);
}

#[test]
fn first_failing_check_decides_the_error() {
    // Unsupported version and a missing key: the version is reported first.
    let meta = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01"}}"#;
    assert_eq!(rejection(classify(&mut dual(), &request("x", meta))).code, ErrorCode::UnsupportedVersion);
    // A missing key and a removed method: the key is reported first.
    let meta = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;
    assert_eq!(rejection(classify(&mut dual(), &request("ping", meta))).code, ErrorCode::InvalidParams);
    let error = rejection(classify(&mut dual(), &request("ping", &envelope("2026-07-28"))));
    assert_eq!(error.code, ErrorCode::MethodNotFound);
}

#[test]
fn initialize_without_version_in_meta_starts_the_handshake() {
    for (asked, answered) in [
        ("2024-11-05", Dialect::V2024_11_05),
        ("2025-06-18", Dialect::V2025_06_18),
        ("2026-07-28", Dialect::V2025_11_25),
        ("2024-10-07", Dialect::V2025_11_25),
    ] {
        let negotiation = classify(&mut dual(), &initialize_request(asked));
        assert!(
            matches!(negotiation, StdioClassification::Initialize(dialect, _) if dialect == answered),
            "{asked}"
        );
    }
    let error =
        rejection(classify(&mut StdioServerNegotiation::new(MODERN_ONLY), &initialize_request("2025-06-18")));
    let data = error.unsupported_version_data().unwrap();
    assert_eq!((data.supported.as_slice(), data.requested.as_str()), (MODERN_ONLY, "2025-06-18"));
    let again = rejection(classify(&mut initialized("2025-06-18"), &initialize_request("2025-06-18")));
    assert_eq!((again.code, again.message.as_str()), (ErrorCode::InvalidRequest, "already initialized"));
}

#[test]
fn request_without_meta_after_handshake_is_legacy() {
    let mut server = initialized("2025-03-26");
    assert_eq!(
        classify(&mut server, &request("tools/list", "{}")),
        StdioClassification::Legacy(Dialect::V2025_03_26)
    );
    let error = rejection(classify(&mut server, &request("server/discover", "{}")));
    assert_eq!(error.code, ErrorCode::MethodNotFound);
}

#[test]
fn ping_is_answered_before_the_handshake() {
    assert_eq!(classify(&mut dual(), &request("ping", "{}")), StdioClassification::Ping);
}

#[test]
fn request_before_handshake_is_rejected() {
    let error = rejection(classify(&mut dual(), &request("tools/list", "{}")));
    assert_eq!(error.code, ErrorCode::InvalidParams);
    assert!(error.message.contains("io.modelcontextprotocol/protocolVersion"), "{}", error.message);
    assert!(error.message.contains("send `initialize` first"), "{}", error.message);
}

#[test]
fn cancellation_is_accepted_before_and_after_handshake() {
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    assert_eq!(classify(&mut dual(), cancel), StdioClassification::Cancelled);
    assert_eq!(classify(&mut initialized("2025-06-18"), cancel), StdioClassification::Cancelled);
}

#[test]
fn notifications_and_responses_are_ignored_before_handshake() {
    for text in [
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
    ] {
        assert_eq!(classify(&mut dual(), text), StdioClassification::Ignore);
        assert_eq!(
            classify(&mut initialized("2025-06-18"), text),
            StdioClassification::Legacy(Dialect::V2025_06_18)
        );
    }
}

#[test]
fn batch_requires_2025_03_26() {
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#;
    assert_eq!(
        classify(&mut initialized("2025-03-26"), batch),
        StdioClassification::Legacy(Dialect::V2025_03_26)
    );
    for mut server in [dual(), initialized("2025-06-18"), initialized("2024-11-05")] {
        let StdioClassification::RejectWithoutId(error) = classify(&mut server, batch) else { panic!() };
        assert_eq!(error.code, ErrorCode::InvalidRequest);
    }
}

#[test]
fn connection_closes_after_ten_answered_parse_errors() {
    let mut server = dual();
    for _ in 0..10 {
        let StdioClassification::RejectWithoutId(error) = classify(&mut server, "hello") else { panic!() };
        assert_eq!(error.code, ErrorCode::ParseError);
    }
    assert_eq!(classify(&mut server, "hello"), StdioClassification::Close);
}

#[test]
fn identical_meta_is_parsed_once_and_changed_meta_again() {
    let mut server = dual();
    let first = classify(&mut server, &request("tools/list", &envelope("2026-07-28")));
    let again = classify(&mut server, &request("tools/call", &envelope("2026-07-28")));
    let (StdioClassification::Modern(_, first), StdioClassification::Modern(_, again)) = (first, again)
    else {
        panic!()
    };
    assert!(Arc::ptr_eq(&first, &again));
    let other = envelope("2026-07-28").replace("{}", r#"{"roots":{}}"#);
    let StdioClassification::Modern(_, other) = classify(&mut server, &request("tools/list", &other)) else {
        panic!()
    };
    assert!(other.client_capabilities.as_ref().unwrap().roots.is_some());
    // A malformed envelope is rejected, whatever was cached before.
    let broken = envelope("2026-07-28").replace("{}", "7");
    assert_eq!(
        rejection(classify(&mut server, &request("tools/list", &broken))).code,
        ErrorCode::InvalidParams
    );
}

#[test]
fn null_version_or_unknown_log_level_in_meta_is_rejected() {
    let mut server = initialized("2025-06-18");
    let null = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":null}}"#;
    assert_eq!(rejection(classify(&mut server, &request("tools/list", null))).code, ErrorCode::InvalidParams);
    let level = envelope("2026-07-28").replace("{}}", r#"{},"io.modelcontextprotocol/logLevel":"banana"}"#);
    assert_eq!(
        rejection(classify(&mut server, &request("tools/list", &level))).code,
        ErrorCode::InvalidParams
    );
}

#[test]
fn only_parse_errors_count_towards_closing() {
    let mut server = dual();
    for _ in 0..20 {
        let negotiation = classify(&mut server, r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#);
        assert!(matches!(negotiation, StdioClassification::RejectWithoutId(_)));
    }
}

#[test]
fn legacy_only_server_rejects_discover() {
    let mut server = StdioServerNegotiation::new(&[ProtocolVersion::V2025_06_18]);
    let error = rejection(classify(&mut server, &request("server/discover", &envelope("2026-07-28"))));
    assert_eq!(error.code, ErrorCode::MethodNotFound);
}
