use std::time::Duration;

use super::*;
use crate::messages::{Incoming, parse};
use crate::negotiation::Mode;
use crate::version::{Era, LATEST, LATEST_LEGACY};

const DISCOVERED: &str = r#""result":{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{},"ttlMs":0,"cacheScope":"private"}"#;

/// A negotiation under test, with the actions it returned.
struct Script {
    negotiation: StdioClientNegotiation,
    now: Instant,
}

fn script(options: NegotiationOptions) -> Script {
    let now = Instant::now();
    Script { negotiation: StdioClientNegotiation::new(options, Limits::default(), now), now }
}

/// A negotiation whose probe was sent.
fn probed() -> Script {
    let mut script = script(NegotiationOptions::default());
    script.expect_probe("probe-1", LATEST);
    script
}

fn discovered(versions: &str) -> String {
    DISCOVERED.replace(r#""2026-07-28","2025-11-25""#, versions)
}

fn unsupported(versions: &str) -> String {
    format!(
        r#""error":{{"code":-32022,"message":"","data":{{"supported":[{versions}],"requested":"2026-07-28"}}}}"#
    )
}

fn error(code: i64) -> String {
    format!(r#""error":{{"code":{code},"message":"no"}}"#)
}

fn initialized(version: &str) -> String {
    format!(
        r#""result":{{"protocolVersion":"{version}","capabilities":{{}},"serverInfo":{{"name":"s","version":"1"}}}}"#
    )
}

impl Script {
    fn line(&mut self, text: &str) -> MessageHandling {
        match parse(text, &Limits::default()).unwrap() {
            Incoming::Message(message) => self.negotiation.handle_message(&message, self.now),
            Incoming::Batch(batch) => self.negotiation.handle_batch(&batch, self.now),
        }
    }

    /// A response to the request with this id.
    #[track_caller]
    fn answer(&mut self, id: &str, outcome: &str) -> &mut Self {
        let handling = self.line(&format!(r#"{{"jsonrpc":"2.0","id":"{id}",{outcome}}}"#));
        assert_eq!(handling, MessageHandling::Used);
        self
    }

    fn wait(&mut self, seconds: u64) -> &mut Self {
        self.now += Duration::from_secs(seconds);
        self.negotiation.handle_timeout(self.now);
        self
    }

    #[track_caller]
    fn expect(&mut self, action: Option<StdioAction>) -> &mut Self {
        assert_eq!(self.negotiation.poll_action(), action);
        self
    }

    #[track_caller]
    fn expect_probe(&mut self, id: &str, version: ProtocolVersion) -> &mut Self {
        self.expect(Some(StdioAction::Probe { id: id.into(), version })).expect(None)
    }

    #[track_caller]
    fn expect_initialize(&mut self, version: ProtocolVersion) -> &mut Self {
        self.expect(Some(StdioAction::Initialize { id: "initialize-1".into(), version })).expect(None)
    }

    #[track_caller]
    fn expect_modern(&mut self) -> NegotiationResult {
        let Some(StdioAction::Succeeded(negotiation)) = self.negotiation.poll_action() else {
            panic!("not successful")
        };
        assert_eq!(negotiation.era(), Era::Modern);
        assert!(negotiation.is_cacheable);
        self.expect_quiet();
        *negotiation
    }

    #[track_caller]
    fn expect_legacy(&mut self) -> NegotiationResult {
        self.expect(Some(StdioAction::Initialized));
        let Some(StdioAction::Succeeded(negotiation)) = self.negotiation.poll_action() else {
            panic!("not successful")
        };
        assert_eq!(negotiation.era(), Era::Legacy);
        self.expect_quiet();
        *negotiation
    }

    #[track_caller]
    fn expect_failure(&mut self) -> NegotiationError {
        let Some(StdioAction::Failed(error)) = self.negotiation.poll_action() else { panic!("no failure") };
        self.expect_quiet();
        error
    }

    #[track_caller]
    fn expect_quiet(&mut self) {
        self.expect(None);
        assert_eq!(self.negotiation.poll_timeout(), None);
    }
}

#[test]
fn shared_modern_version_selects_modern_era() {
    assert_eq!(probed().answer("probe-1", DISCOVERED).expect_modern().version, LATEST);
    // A client must tolerate a missing result type and missing caching members.
    let short = r#""result":{"supportedVersions":["2026-07-28"],"capabilities":{}}"#;
    probed().answer("probe-1", short).expect_modern();
}

#[test]
fn initialize_offers_newest_shared_legacy_version() {
    let versions = discovered(r#""2099-01-01","2024-11-05","2025-06-18""#);
    probed().answer("probe-1", &versions).expect_initialize(ProtocolVersion::V2025_06_18);
}

#[test]
fn no_shared_version_fails_and_lists_both_sides() {
    let failure = probed().answer("probe-1", &discovered(r#""2099-01-01""#)).expect_failure();
    let message = failure.to_string();
    assert!(message.contains("2099-01-01") && message.contains("2026-07-28"), "{message}");
}

#[test]
fn result_other_than_discover_result_leads_to_initialize() {
    for result in
        [r#""result":{}"#, r#""result":{"supportedVersions":"all"}"#, r#""result":{"supportedVersions":[1]}"#]
    {
        probed().answer("probe-1", result).expect_initialize(LATEST_LEGACY);
    }
}

/// NegotiationOptions with two modern versions; this crate knows one, and the other represents a newer one.
fn terms_with_two_modern_versions() -> NegotiationOptions {
    NegotiationOptions::default()
}

#[test]
fn other_shared_modern_version_is_probed_once_more() {
    let mut script = script(terms_with_two_modern_versions());
    script.expect_probe("probe-1", LATEST);
    // Pretend that the probe used another modern version than the one the server lists.
    script.negotiation.detection.probed = Some("2027-01-01".into());
    script.answer("probe-1", &unsupported(r#""2026-07-28""#)).expect_probe("probe-2", LATEST);
    script.answer("probe-2", DISCOVERED).expect_modern();
}

#[test]
fn second_or_contradictory_version_rejection_fails() {
    let failure = probed().answer("probe-1", &unsupported(r#""2026-07-28""#)).expect_failure();
    assert!(matches!(failure, NegotiationError::Rejected(_)));
    let mut script = probed();
    script.negotiation.detection.probed = Some("2027-01-01".into());
    script.answer("probe-1", &unsupported(r#""2026-07-28""#)).expect_probe("probe-2", LATEST);
    let failure = script.answer("probe-2", &unsupported(r#""2025-11-25""#)).expect_failure();
    assert!(matches!(failure, NegotiationError::Rejected(_)));
}

#[test]
fn version_rejection_sharing_only_legacy_leads_to_initialize() {
    let rejection = unsupported(r#""2025-03-26","2024-11-05""#);
    probed().answer("probe-1", &rejection).expect_initialize(ProtocolVersion::V2025_03_26);
}

#[test]
fn version_rejection_without_shared_version_fails() {
    let failure = probed().answer("probe-1", &unsupported(r#""2099-01-01""#)).expect_failure();
    assert!(matches!(failure, NegotiationError::NoCommonVersion { .. }));
}

#[test]
fn version_rejection_without_usable_data_leads_to_initialize() {
    for rejection in
        [error(-32022), r#""error":{"code":-32022,"message":"","data":{"supported":"x"}}"#.into()]
    {
        probed().answer("probe-1", &rejection).expect_initialize(LATEST_LEGACY);
    }
}

#[test]
fn missing_capability_is_declared_once_or_negotiation_fails() {
    let missing = r#""error":{"code":-32021,"message":"","data":{"requiredCapabilities":{"sampling":{}}}}"#;
    let mut script = probed();
    script.answer("probe-1", missing);
    assert!(
        matches!(script.negotiation.poll_action(), Some(StdioAction::Declare(required)) if required.sampling.is_some())
    );
    script.negotiation.handle_declared(true, script.now);
    script.expect_probe("probe-2", LATEST);
    assert!(matches!(script.answer("probe-2", missing).expect_failure(), NegotiationError::Rejected(_)));

    let mut script = probed();
    script.answer("probe-1", missing);
    assert!(script.negotiation.poll_action().is_some());
    script.negotiation.handle_declared(false, script.now);
    assert!(matches!(script.expect_failure(), NegotiationError::Rejected(_)));
}

#[test]
fn header_mismatch_error_fails_negotiation() {
    let failure = probed().answer("probe-1", &error(-32020)).expect_failure();
    assert!(matches!(failure, NegotiationError::Rejected(_)));
}

#[test]
fn method_not_found_and_invalid_params_lead_to_initialize() {
    for code in [-32601, -32602] {
        probed().answer("probe-1", &error(code)).expect_initialize(LATEST_LEGACY);
    }
}

#[test]
fn any_other_error_leads_to_initialize() {
    for code in [-32600, -32603, -32700, -32000, -32001, -32019, -32042, -1, 0, 1, 404] {
        probed().answer("probe-1", &error(code)).expect_initialize(LATEST_LEGACY);
    }
}

#[test]
fn error_without_id_answers_the_probe_if_alone_in_flight() {
    for id in ["", r#""id":null,"#] {
        let mut script = probed();
        let text = format!(r#"{{"jsonrpc":"2.0",{id}{}}}"#, error(-32600));
        assert_eq!(script.line(&text), MessageHandling::Used);
        script.expect_initialize(LATEST_LEGACY);
        // While `initialize` is in flight, the message is ignored.
        assert_eq!(script.line(&text), MessageHandling::Ignored);
        script.expect(None);
    }
}

#[test]
fn probe_response_inside_a_batch_is_accepted() {
    let mut script = probed();
    let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#;
    script.line(&format!(r#"[{note},{{"jsonrpc":"2.0","id":"probe-1",{}}}]"#, error(-32601)));
    script.expect_initialize(LATEST_LEGACY);
}

#[test]
fn notifications_and_unknown_responses_are_ignored() {
    let mut script = probed();
    for text in [
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":"probe-9","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":""}}"#,
    ] {
        assert_eq!(script.line(text), MessageHandling::Ignored);
        script.expect(None);
    }
    script.answer("probe-1", DISCOVERED).expect_modern();
}

#[test]
fn server_requests_are_held_up_to_a_limit() {
    let mut script = probed();
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#;
    for _ in 0..Limits::default().held {
        assert_eq!(script.line(request), MessageHandling::Queue);
    }
    assert_eq!(script.line(request), MessageHandling::Ignored);
    script.expect(None);
}

#[test]
fn non_message_output_is_skipped_up_to_a_limit() {
    let mut script = probed();
    for _ in 0..1000 {
        script.negotiation.handle_noise(b"\x1b[1mstarting up");
    }
    script.expect(None);
    assert!(script.negotiation.noise_sample().unwrap().contains("starting up"));
    script.negotiation.handle_noise(b"again");
    let failure = script.expect_failure().to_string();
    assert!(failure.contains("starting up") && !failure.contains('\u{1b}'), "{failure}");

    let mut script = probed();
    script.negotiation.handle_noise(&vec![b'x'; 1 << 20]);
    script.expect(None);
    script.negotiation.handle_noise(b"x");
    script.expect_failure();
}

#[test]
fn probe_timeout_leads_to_initialize_and_is_not_cached() {
    let mut script = probed();
    script.wait(9).expect(None);
    script.wait(1).expect_initialize(LATEST_LEGACY);
    let negotiation = script.answer("initialize-1", &initialized("2025-06-18")).expect_legacy();
    assert!(!negotiation.is_cacheable);
    assert_eq!(negotiation.version, ProtocolVersion::V2025_06_18);
}

#[test]
fn late_discover_result_wins_until_initialize_is_answered() {
    let mut script = probed();
    script.wait(10).expect_initialize(LATEST_LEGACY);
    script.answer("probe-1", DISCOVERED).expect_modern();

    let mut script = probed();
    script.wait(10).expect_initialize(LATEST_LEGACY);
    script.answer("initialize-1", &initialized("2025-11-25")).expect_legacy();
    let late = format!(r#"{{"jsonrpc":"2.0","id":"probe-1",{DISCOVERED}}}"#);
    assert_eq!(script.line(&late), MessageHandling::Ignored);

    // A late error only makes the result independent of the timeout.
    let mut script = probed();
    script.wait(10).expect_initialize(LATEST_LEGACY);
    script.answer("probe-1", &error(-32601)).expect(None);
    assert!(script.answer("initialize-1", &initialized("2025-11-25")).expect_legacy().is_cacheable);
}

#[test]
fn probe_timeout_is_a_third_of_a_small_budget() {
    let mut script = script(NegotiationOptions::default().timeout(Duration::from_secs(6)));
    script.expect_probe("probe-1", LATEST);
    script.wait(2).expect_initialize(LATEST_LEGACY);
    let failure = script.wait(4).expect_failure();
    let timeout = HandshakeFailure::Timeout;
    assert_eq!(failure, NegotiationError::Handshake { probe: None, handshake: timeout });
}

#[test]
fn server_exit_on_probe_respawns_once_and_sends_initialize() {
    let mut script = probed();
    script.negotiation.handle_closed();
    script.expect(Some(StdioAction::Restart)).expect(None);
    script.negotiation.handle_started(script.now);
    script.expect_initialize(LATEST_LEGACY);
    let mut again = script;
    again.negotiation.handle_closed();
    assert_eq!(again.expect_failure(), NegotiationError::Exited);

    let mut script = probed();
    script.negotiation.handle_closed();
    script.expect(Some(StdioAction::Restart));
    script.negotiation.handle_started(script.now);
    script.expect_initialize(LATEST_LEGACY);
    assert!(script.answer("initialize-1", &initialized("2024-11-05")).expect_legacy().is_cacheable);
}

#[test]
fn failed_process_start_is_reported_as_not_started() {
    let mut script = probed();
    script.negotiation.handle_not_started();
    assert_eq!(script.expect_failure(), NegotiationError::NotStarted);
}

#[test]
fn unsupported_version_from_initialize_is_an_error() {
    for version in ["2026-07-28", "2099-01-01"] {
        let mut script = probed();
        script.answer("probe-1", &error(-32601)).expect_initialize(LATEST_LEGACY);
        let failure = script.answer("initialize-1", &initialized(version)).expect_failure();
        assert!(
            matches!(&failure, NegotiationError::UnsupportedVersion { answered, .. } if answered.as_str() == version)
        );
    }
}

#[test]
fn modern_error_to_initialize_is_probed_once_more() {
    let mut script = probed();
    script.answer("probe-1", &error(-32603)).expect_initialize(LATEST_LEGACY);
    script.answer("initialize-1", &unsupported(r#""2026-07-28""#)).expect_probe("probe-2", LATEST);
    script.answer("probe-2", &error(-32603));
    assert_eq!(script.expect_failure(), NegotiationError::NotModern);
}

#[test]
fn handshake_failure_reports_both_attempts() {
    let mut script = probed();
    script.answer("probe-1", &error(-32601)).expect_initialize(LATEST_LEGACY);
    let failure = script.answer("initialize-1", &error(-32603)).expect_failure().to_string();
    assert!(failure.contains("-32603") && failure.contains("-32601"), "{failure}");
}

#[test]
fn modern_only_never_shakes_hands_and_legacy_only_never_probes() {
    let mut modern = script(NegotiationOptions::default().mode(Mode::Modern));
    modern.expect_probe("probe-1", LATEST);
    assert_eq!(modern.answer("probe-1", &error(-32601)).expect_failure(), NegotiationError::NotModern);

    let mut legacy = script(NegotiationOptions::default().mode(Mode::Legacy));
    legacy.expect_initialize(LATEST_LEGACY);
    legacy.answer("initialize-1", &unsupported(r#""2026-07-28""#)).expect_failure();

    let mut nothing = script(NegotiationOptions::default().versions([LATEST]).mode(Mode::Legacy));
    assert_eq!(nothing.expect_failure(), NegotiationError::NoVersionToOffer);
}

#[test]
fn unreadable_response_counts_as_a_response() {
    let unreadable = |script: &mut Script, line: &str| {
        let error = parse(line, &Limits::default()).unwrap_err();
        script.negotiation.handle_unreadable(&error, line.as_bytes(), script.now)
    };
    let mut script = probed();
    assert_eq!(unreadable(&mut script, "hello"), MessageHandling::Ignored);
    script.expect(None);
    assert_eq!(
        unreadable(&mut script, r#"{"jsonrpc":"2.0","id":"probe-1","result":[]}"#),
        MessageHandling::Used
    );
    script.expect_initialize(LATEST_LEGACY);
    unreadable(&mut script, r#"{"jsonrpc":"2.0","id":"initialize-1","result":7}"#);
    assert!(matches!(script.expect_failure(), NegotiationError::Handshake { .. }));
}

#[test]
fn malformed_discover_result_is_not_treated_as_legacy() {
    let broken = r#""result":{"supportedVersions":["2026-07-28"],"capabilities":7}"#;
    assert_eq!(probed().answer("probe-1", broken).expect_failure(), NegotiationError::InvalidResponse);
    let negative = r#""result":{"supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":-1}"#;
    probed().answer("probe-1", negative).expect_modern();
}

#[test]
fn overflowing_budget_does_not_panic() {
    let mut script =
        script(NegotiationOptions::default().timeout(Duration::MAX).probe_timeout(Duration::MAX));
    script.expect_probe("probe-1", LATEST);
    script.wait(1_000_000).expect(None);
}

/// The error with which legacy servers reject a version: MCP 2024-11-05 to 2025-11-25, basic/lifecycle.
fn legacy_rejection(versions: &str) -> String {
    format!(
        r#""error":{{"code":-32602,"message":"Unsupported protocol version","data":{{"supported":[{versions}],"requested":"2025-11-25"}}}}"#
    )
}

#[test]
fn rejected_initialize_lists_the_versions_of_both_sides() {
    let newer = r#""2099-01-01","2099-02-02""#;
    for rejection in [legacy_rejection(newer), unsupported(newer)] {
        let mut script = probed();
        script.answer("probe-1", &error(-32601)).expect_initialize(LATEST_LEGACY);
        let failure = script.answer("initialize-1", &rejection).expect_failure();
        assert!(matches!(&failure, NegotiationError::NoCommonVersion { .. }), "{failure}");
        let text = failure.to_string();
        assert!(text.contains("the server supports 2099-01-01, 2099-02-02;"), "{text}");
        assert!(text.contains("this client supports 2026-07-28, 2025-11-25,"), "{text}");
    }
    // A shared version was rejected for another reason.
    let mut script = probed();
    script.answer("probe-1", &error(-32601)).expect_initialize(LATEST_LEGACY);
    let failure = script.answer("initialize-1", &legacy_rejection(r#""2025-11-25""#)).expect_failure();
    assert!(matches!(&failure, NegotiationError::Handshake { .. }), "{failure}");
}

#[test]
fn one_era_only_lists_the_versions_and_names_the_other_era() {
    let mut modern = script(NegotiationOptions::default().mode(Mode::Modern));
    modern.expect_probe("probe-1", LATEST);
    let text = modern.answer("probe-1", &unsupported(r#""2025-11-25""#)).expect_failure().to_string();
    assert!(text.contains("the server supports 2025-11-25; this client supports 2026-07-28;"), "{text}");
    assert!(text.ends_with("allow the legacy era to connect"), "{text}");

    let mut legacy = script(NegotiationOptions::default().mode(Mode::Legacy));
    legacy.expect_initialize(LATEST_LEGACY);
    let text = legacy.answer("initialize-1", &unsupported(r#""2026-07-28""#)).expect_failure().to_string();
    assert!(text.contains("the server supports 2026-07-28; this client supports 2025-11-25,"), "{text}");
    assert!(text.ends_with("allow the modern era to connect"), "{text}");
}

#[test]
fn unsupported_initialize_response_lists_both_versions() {
    let mut script = probed();
    script.answer("probe-1", &error(-32601)).expect_initialize(LATEST_LEGACY);
    let text = script.answer("initialize-1", &initialized("2099-01-01")).expect_failure().to_string();
    assert!(text.contains("supports 2099-01-01; this client supports 2025-11-25, 2025-06-18,"), "{text}");
}

#[test]
fn listed_versions_are_escaped_and_cut() {
    let long = "x".repeat(1000);
    let many: Vec<String> = (0..1000).map(|number| format!(r#""\u001b[2J{number}{long}""#)).collect();
    let text = probed().answer("probe-1", &unsupported(&many.join(","))).expect_failure().to_string();
    assert!(text.len() < 2000 && !text.contains('\u{1b}') && text.contains("and 984 more"), "{text}");
    let mut script = probed();
    script.answer("probe-1", &error(-32601)).expect_initialize(LATEST_LEGACY);
    let chosen = initialized(&format!("\\u001b{long}"));
    let text = script.answer("initialize-1", &chosen).expect_failure().to_string();
    assert!(text.len() < 500 && !text.contains('\u{1b}'), "{text}");
}
