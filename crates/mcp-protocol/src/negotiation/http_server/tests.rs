use super::*;
use crate::limits::Limits;
use crate::messages::parse;
use crate::version::SUPPORTED;

const MODERN_ONLY: &[ProtocolVersion] = &[ProtocolVersion::V2026_07_28];
const MODERN: &[&[u8]] = &[b"2026-07-28"];
const CALL: &[&[u8]] = &[b"tools/call"];
const LIST: &[&[u8]] = &[b"tools/list"];

fn meta(version: &str) -> String {
    format!(
        r#""_meta":{{"io.modelcontextprotocol/protocolVersion":"{version}","io.modelcontextprotocol/clientCapabilities":{{}}}}"#
    )
}

fn request(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}}}}}"#)
}

fn initialize_request() -> String {
    request(
        "initialize",
        r#""protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}"#,
    )
}

fn post<'a>() -> HttpRequest<'a> {
    HttpRequest::new(HttpMethod::Post)
}

fn classify_by(versions: &[ProtocolVersion], http: &HttpRequest<'_>, text: &str) -> HttpClassification {
    let server = HttpServerNegotiation::new(versions);
    match parse(text, &Limits::default()) {
        Ok(incoming) => server.classify(http, Some(&incoming)),
        Err(error) => HttpClassification::Reject(server.classify_unreadable(&error)),
    }
}

fn classify(http: &HttpRequest<'_>, text: &str) -> HttpClassification {
    classify_by(SUPPORTED, http, text)
}

/// Returns status and code of a rejection.
#[track_caller]
fn rejection(negotiation: HttpClassification) -> (u16, i64) {
    match negotiation {
        HttpClassification::Reject(rejection) => {
            (rejection.status, rejection.error.map_or(0, |error| error.code.into()))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn get_and_delete_are_legacy_or_405_if_modern_only() {
    for method in [HttpMethod::Get, HttpMethod::Delete] {
        let http = HttpRequest::new(method).session(Dialect::V2025_06_18);
        let negotiation = HttpServerNegotiation::new(SUPPORTED).classify(&http, None);
        assert_eq!(negotiation, HttpClassification::Legacy(Dialect::V2025_06_18));
        assert_eq!(rejection(HttpServerNegotiation::new(MODERN_ONLY).classify(&http, None)), (405, 0));
    }
}

#[test]
fn modern_version_in_meta_selects_modern_era() {
    let http = post().versions(MODERN).methods(LIST);
    let negotiation = classify(&http, &request("tools/list", &meta("2026-07-28")));
    assert!(matches!(negotiation, HttpClassification::Modern(Dialect::V2026_07_28, _)));
}

#[test]
fn other_version_in_meta_is_rejected_with_400() {
    for version in ["2025-11-25", "2099-01-01"] {
        let header: &[&[u8]] = &[version.as_bytes()];
        let http = post().versions(header).methods(LIST);
        assert_eq!(rejection(classify(&http, &request("tools/list", &meta(version)))), (400, -32022));
    }
}

#[test]
fn initialize_without_version_in_meta_starts_the_handshake() {
    let negotiation = classify(&post(), &initialize_request());
    assert!(matches!(negotiation, HttpClassification::Initialize(Dialect::V2025_06_18, _)));
    let HttpClassification::Reject(rejection) = classify_by(MODERN_ONLY, &post(), &initialize_request())
    else {
        panic!()
    };
    let data = rejection.error.unwrap().unsupported_version_data().unwrap();
    assert_eq!((rejection.status, data.requested.as_str()), (400, "2025-06-18"));
}

#[test]
fn initialize_with_modern_version_in_meta_returns_404() {
    let http = post().versions(MODERN).methods(&[b"initialize"]);
    assert_eq!(rejection(classify(&http, &request("initialize", &meta("2026-07-28")))), (404, -32601));
}

#[test]
fn modern_version_header_without_meta_is_invalid_params() {
    let http = post().versions(MODERN).methods(LIST);
    let HttpClassification::Reject(rejection) = classify(&http, &request("tools/list", "")) else { panic!() };
    let error = rejection.error.unwrap();
    assert_eq!((rejection.status, i64::from(error.code)), (400, -32602));
    assert!(error.message.contains("io.modelcontextprotocol/protocolVersion"));
}

#[test]
fn legacy_version_header_without_meta_is_legacy() {
    let http = post().versions(&[b"2025-06-18"]);
    assert_eq!(classify(&http, &request("tools/list", "")), HttpClassification::Legacy(Dialect::V2025_06_18));
    // The version of the session takes precedence.
    let http = http.session(Dialect::V2025_11_25);
    assert_eq!(classify(&http, &request("tools/list", "")), HttpClassification::Legacy(Dialect::V2025_11_25));
}

#[test]
fn missing_version_defaults_to_session_or_2025_03_26() {
    assert_eq!(
        classify(&post(), &request("tools/list", "")),
        HttpClassification::Legacy(Dialect::V2025_03_26)
    );
    let http = post().session(Dialect::V2025_06_18);
    assert_eq!(classify(&http, &request("tools/list", "")), HttpClassification::Legacy(Dialect::V2025_06_18));
    assert_eq!(rejection(classify_by(MODERN_ONLY, &post(), &request("tools/list", ""))), (400, -32020));
}

#[test]
fn unknown_version_header_is_rejected_with_400() {
    let http = post().versions(&[b"2099-01-01"]);
    assert_eq!(rejection(classify(&http, &request("tools/list", ""))), (400, -32022));
}

#[test]
fn modern_notification_needs_no_further_headers() {
    let text = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    assert_eq!(classify(&post().versions(MODERN), text), HttpClassification::ModernNotification);
    let modern =
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{{{}}}}}"#, meta("2026-07-28"));
    assert_eq!(classify(&post(), &modern), HttpClassification::ModernNotification);
}

#[test]
fn notification_with_legacy_version_header_is_legacy() {
    let text = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let http = post().versions(&[b"2025-06-18"]).session(Dialect::V2025_06_18);
    assert_eq!(classify(&http, text), HttpClassification::Legacy(Dialect::V2025_06_18));
}

#[test]
fn response_is_legacy_or_rejected_if_modern_only() {
    let text = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let http = post().session(Dialect::V2025_06_18);
    assert_eq!(classify(&http, text), HttpClassification::Legacy(Dialect::V2025_06_18));
    assert_eq!(rejection(classify_by(MODERN_ONLY, &post(), text)), (400, -32600));
}

#[test]
fn batch_requires_2025_03_26_and_no_version_in_meta() {
    let plain = format!("[{}]", request("tools/list", ""));
    assert_eq!(classify(&post(), &plain), HttpClassification::Legacy(Dialect::V2025_03_26));
    assert_eq!(rejection(classify(&post().versions(&[b"2025-06-18"]), &plain)), (400, -32600));
    let modern = format!("[{}]", request("tools/list", &meta("2026-07-28")));
    assert_eq!(rejection(classify(&post(), &modern)), (400, -32600));
}

#[test]
fn unreadable_body_is_rejected_with_400() {
    assert_eq!(rejection(classify(&post(), "{")), (400, -32700));
}

#[test]
fn session_on_a_modern_request_is_ignored() {
    let http = post().versions(MODERN).methods(LIST).session(Dialect::V2025_06_18);
    let negotiation = classify(&http, &request("tools/list", &meta("2026-07-28")));
    assert!(matches!(negotiation, HttpClassification::Modern(Dialect::V2026_07_28, _)));
}

#[test]
fn modern_request_checks_run_in_order() {
    let params = format!(r#""name":"t",{}"#, meta("2026-07-28"));
    let call = request("tools/call", &params);
    // The header is checked against the stated version before the version is looked up.
    assert_eq!(rejection(classify(&post().versions(&[b"2099-01-01"]), &call)), (400, -32020));
    assert_eq!(rejection(classify(&post(), &call)), (400, -32020));
    assert_eq!(rejection(classify(&post().versions(&[b"2026-07-28", b"2026-07-28"]), &call)), (400, -32020));
    // The rest of the envelope is checked before the other headers.
    let bare = r#""name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
    assert_eq!(rejection(classify(&post().versions(MODERN), &request("tools/call", bare))), (400, -32602));
    // `Mcp-Method`, then `Mcp-Name`, are checked before the method is looked up.
    assert_eq!(rejection(classify(&post().versions(MODERN), &call)), (400, -32020));
    assert_eq!(rejection(classify(&post().versions(MODERN).methods(LIST), &call)), (400, -32020));
    assert_eq!(rejection(classify(&post().versions(MODERN).methods(CALL), &call)), (400, -32020));
    let named = |names| classify(&post().versions(MODERN).methods(CALL).names(names), &call);
    assert_eq!(rejection(named(&[b"other"])), (400, -32020));
    assert_eq!(rejection(named(&[b"T"])), (400, -32020));
    assert!(matches!(named(&[b" t "]), HttpClassification::Modern(..)));
    assert!(matches!(named(&[b"=?base64?dA==?="]), HttpClassification::Modern(..)));
    // The method is checked last.
    let http = post().versions(MODERN).methods(&[b"ping"]);
    assert_eq!(rejection(classify(&http, &request("ping", &meta("2026-07-28")))), (404, -32601));
}

#[test]
fn initialize_ignores_a_modern_version_header() {
    let negotiation = classify(&post().versions(MODERN), &initialize_request());
    assert!(matches!(negotiation, HttpClassification::Initialize(Dialect::V2025_06_18, _)));
}

#[test]
fn default_version_is_one_that_the_server_supports() {
    let versions = [ProtocolVersion::V2026_07_28, ProtocolVersion::V2025_11_25];
    let negotiation = classify_by(&versions, &post(), &request("tools/list", ""));
    assert_eq!(negotiation, HttpClassification::Legacy(Dialect::V2025_11_25));
}

#[test]
fn get_and_delete_with_modern_version_header_return_405() {
    for method in [HttpMethod::Get, HttpMethod::Delete] {
        let http = HttpRequest::new(method).versions(MODERN);
        assert_eq!(rejection(HttpServerNegotiation::new(SUPPORTED).classify(&http, None)), (405, 0));
    }
}

#[test]
fn response_with_modern_version_header_is_rejected() {
    let http = post().versions(MODERN);
    assert_eq!(rejection(classify(&http, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)), (400, -32600));
}

#[test]
fn legacy_only_server_rejects_modern_notification() {
    let notification = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let legacy_only = &[ProtocolVersion::V2025_11_25];
    let negotiation = classify_by(legacy_only, &post().versions(MODERN), notification);
    assert_eq!(rejection(negotiation), (400, -32022));
}

#[test]
fn batch_with_initialize_or_modern_message_is_rejected() {
    let notification = format!(r#"{{"jsonrpc":"2.0","method":"n","params":{{{}}}}}"#, meta("2026-07-28"));
    for text in [notification, initialize_request()] {
        assert_eq!(rejection(classify(&post(), &format!("[{text}]"))), (400, -32600));
    }
}

#[test]
fn request_with_a_notification_method_is_rejected() {
    let methods: &[&[u8]] = &[b"notifications/cancelled"];
    let http = post().versions(MODERN).methods(methods);
    let text = request("notifications/cancelled", &meta("2026-07-28"));
    assert_eq!(rejection(classify(&http, &text)), (404, -32601));
}

#[test]
fn cached_envelope_is_checked_like_a_new_one() {
    let text = request("tools/list", &meta("2026-07-28"));
    let http = post().versions(MODERN).methods(LIST);
    let HttpClassification::Modern(dialect, first) = classify(&http, &text) else { panic!("not modern") };
    let Ok(Incoming::Message(Message::Request(message))) = parse(&text, &Limits::default()) else { panic!() };
    let known = Envelope::of(&message, dialect, &first).expect("a short envelope");
    let http = http.known(&known);
    let HttpClassification::Modern(_, second) = classify(&http, &text) else { panic!("not modern") };
    assert!(Arc::ptr_eq(&first, &second), "read twice");
    // With the same envelope, all other checks still apply.
    assert_eq!(rejection(classify(&http.clone().versions(&[]), &text)), (400, -32020));
    assert_eq!(rejection(classify(&http.clone().versions(&[b"2025-11-25"]), &text)), (400, -32020));
    assert_eq!(rejection(classify(&http.clone().methods(CALL), &text)), (400, -32020));
    // A different envelope is parsed again.
    let other = text.replace(r#""_meta":{"#, r#""_meta":{"progressToken":7,"#);
    let HttpClassification::Modern(_, third) = classify(&http, &other) else { panic!("not modern") };
    assert_ne!(first, third);
}
