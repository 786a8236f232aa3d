use super::*;
use crate::limits::Limits;
use crate::messages::{Incoming, parse};
use crate::version::{Era, LATEST, LATEST_LEGACY};

const DISCOVERED: &str = r#""result":{"supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{}}"#;
const INITIALIZED: &str =
    r#""result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}"#;
const MISSING: &str = r#""error":{"code":-32021,"message":"","data":{"requiredCapabilities":{"roots":{}}}}"#;

fn error(code: i64) -> String {
    format!(r#""error":{{"code":{code},"message":"no"}}"#)
}

fn unsupported(versions: &str) -> String {
    format!(r#""error":{{"code":-32022,"message":"","data":{{"supported":[{versions}],"requested":"x"}}}}"#)
}

fn probe() -> HttpAction {
    HttpAction::Probe { version: LATEST }
}

fn initialize() -> HttpAction {
    HttpAction::Initialize { version: LATEST_LEGACY }
}

struct Script(HttpClientNegotiation, Instant);

fn script() -> Script {
    let now = Instant::now();
    let mut script = Script(HttpClientNegotiation::new(NegotiationOptions::default(), now), now);
    script.expect(probe());
    script
}

/// A negotiation in the state after `initialize` was sent.
fn handshaking() -> Script {
    let mut script = script();
    script.status(405).expect(initialize());
    script
}

/// A negotiation in the state after GET was sent.
fn streaming() -> Script {
    let mut script = handshaking();
    script.status(404).expect(HttpAction::OpenStream);
    script
}

impl Script {
    fn status(&mut self, status: u16) -> &mut Self {
        self.0.handle_response(&NegotiationResponse::new(status), self.1);
        self
    }

    fn body(&mut self, status: u16, outcome: &str) -> &mut Self {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,{outcome}}}"#);
        let Ok(Incoming::Message(message)) = parse(&text, &Limits::default()) else { panic!("{text}") };
        self.0.handle_response(&NegotiationResponse::new(status).message(message), self.1);
        self
    }

    #[track_caller]
    fn expect(&mut self, action: HttpAction) -> &mut Self {
        assert_eq!(self.0.poll_action(), Some(action));
        assert_eq!(self.0.poll_action(), None);
        self
    }

    #[track_caller]
    fn expect_success(&mut self, era: Era) -> NegotiationResult {
        let Some(HttpAction::Succeeded(negotiation)) = self.0.poll_action() else { panic!("not successful") };
        assert_eq!(negotiation.era(), era);
        *negotiation
    }

    #[track_caller]
    fn expect_failure(&mut self) -> NegotiationError {
        match self.0.poll_action() {
            Some(HttpAction::Failed(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn expect_http_failure(&mut self, http_failure: HttpFailure) {
        assert_eq!(self.expect_failure(), NegotiationError::Http(http_failure));
    }
}

#[test]
fn discover_result_selects_modern_era() {
    assert_eq!(script().body(200, DISCOVERED).expect_success(Era::Modern).version, LATEST);
}

#[test]
fn error_with_status_200_is_modern_only_for_modern_codes() {
    script()
        .body(200, &unsupported(r#""2025-03-26""#))
        .expect(HttpAction::Initialize { version: ProtocolVersion::V2025_03_26 });
    assert!(matches!(script().body(200, &error(-32020)).expect_failure(), NegotiationError::Rejected(_)));
    for code in [-32601, -32602, -32600, -32000] {
        script().body(200, &error(code)).expect(initialize());
    }
}

#[test]
fn success_without_discover_result_leads_to_initialize() {
    for status in [200, 202, 204] {
        script().status(status).expect(initialize());
    }
    script().body(200, r#""result":{}"#).expect(initialize());
}

#[test]
fn version_rejection_is_modern_unless_only_legacy_is_shared() {
    // Probes the same version once more, because another server may respond.
    let mut again = script();
    again.body(400, &unsupported(r#""2026-07-28""#)).expect(probe());
    assert!(matches!(
        again.body(400, &unsupported(r#""2026-07-28""#)).expect_failure(),
        NegotiationError::Rejected(_)
    ));
    script().body(400, &unsupported(r#""2025-11-25""#)).expect(initialize());
    assert!(matches!(
        script().body(400, &unsupported(r#""2099-01-01""#)).expect_failure(),
        NegotiationError::NoCommonVersion { .. }
    ));
}

#[test]
fn missing_capability_is_declared_once_or_negotiation_fails() {
    let mut with = script();
    with.body(400, MISSING);
    assert!(matches!(with.0.poll_action(), Some(HttpAction::Declare(_))));
    with.0.handle_declared(true, with.1);
    with.expect(probe());
    assert!(matches!(with.body(400, MISSING).expect_failure(), NegotiationError::Rejected(_)));
    let mut without = script();
    without.body(400, MISSING);
    let _ = without.0.poll_action();
    without.0.handle_declared(false, without.1);
    assert!(matches!(without.expect_failure(), NegotiationError::Rejected(_)));
}

#[test]
fn header_mismatch_error_fails_negotiation() {
    assert!(matches!(script().body(400, &error(-32020)).expect_failure(), NegotiationError::Rejected(_)));
}

#[test]
fn any_other_400_leads_to_initialize() {
    for code in [-32600, -32602, -32700, -32000] {
        script().body(400, &error(code)).expect(initialize());
    }
    script().status(400).expect(initialize());
}

#[test]
fn status_404_with_method_not_found_leads_to_initialize() {
    script().body(404, &error(-32601)).expect(initialize());
}

#[test]
fn other_404_and_405_lead_to_initialize() {
    script().body(404, &error(-32001)).expect(initialize());
    script().status(404).expect(initialize());
    script().status(405).expect(initialize());
}

#[test]
fn status_401_asks_for_login_and_never_sends_initialize() {
    let mut script = script();
    for _ in 0..2 {
        script.status(401).expect(HttpAction::LogIn { status: 401 });
        script.0.handle_login(true, script.1);
        script.expect(probe());
    }
    script.status(401).expect_http_failure(HttpFailure::Unauthorized);
    let mut rejection = self::script();
    rejection.status(401).expect(HttpAction::LogIn { status: 401 });
    rejection.0.handle_login(false, rejection.1);
    rejection.expect_http_failure(HttpFailure::Unauthorized);
}

#[test]
fn status_403_asks_for_login_if_a_scope_is_missing_or_fails() {
    let mut script = script();
    script.0.handle_response(&NegotiationResponse::new(403).scope_challenge(), script.1);
    script.expect(HttpAction::LogIn { status: 403 });
    self::script().status(403).expect_http_failure(HttpFailure::Forbidden);
}

#[test]
fn other_4xx_lead_to_initialize() {
    for status in [406, 415, 410, 422, 418] {
        script().status(status).expect(initialize());
    }
}

#[test]
fn status_408_425_and_429_are_retried_once_after_a_wait() {
    for status in [408, 425, 429] {
        let mut script = script();
        let after = Duration::from_secs(3);
        script.0.handle_response(&NegotiationResponse::new(status).retry_after(after), script.1);
        script.expect(HttpAction::Wait { retry_after: Some(after) });
        script.0.handle_waited(script.1);
        script
            .expect(probe())
            .status(status)
            .expect_http_failure(HttpFailure::Busy { status, retry_after: None });
    }
}

#[test]
fn status_502_503_and_504_are_retried_once_and_500_is_not() {
    for status in [502, 503, 504] {
        let mut script = script();
        script.status(status).expect(HttpAction::Wait { retry_after: None });
        script.0.handle_waited(script.1);
        script.expect(probe()).body(200, DISCOVERED).expect_success(Era::Modern);
    }
    script().status(500).expect_http_failure(HttpFailure::ServerError { status: 500 });
}

#[test]
fn redirect_not_followed_is_reported_with_its_location() {
    for status in [301, 302, 303, 307, 308] {
        script().status(status).expect_http_failure(HttpFailure::Redirect { status, location: None });
    }
    let mut script = script();
    script.0.handle_response(&NegotiationResponse::new(307).location("https://b.example/mcp"), script.1);
    let location = Some("https://b.example/mcp".to_owned());
    script.expect_http_failure(HttpFailure::Redirect { status: 307, location });
}

#[test]
fn network_failure_is_reported_and_does_not_mean_legacy() {
    let mut script = script();
    script.0.handle_network_failure();
    script.expect_http_failure(HttpFailure::Network);
}

#[test]
fn initialize_result_selects_legacy_era() {
    let negotiation = handshaking().body(200, INITIALIZED).expect_success(Era::Legacy);
    assert_eq!(negotiation.version, ProtocolVersion::V2025_06_18);
}

#[test]
fn initialize_error_fails_unless_it_lists_a_modern_version() {
    for status in [200, 400] {
        let mut script = handshaking();
        script.body(status, &unsupported(r#""2026-07-28""#)).expect(probe());
        // The server is probed again only once.
        script.status(405);
        assert_eq!(script.expect_failure(), NegotiationError::NotModern);
    }
    assert!(matches!(
        handshaking().body(200, &error(-32603)).expect_failure(),
        NegotiationError::Handshake { .. }
    ));
}

#[test]
fn initialize_rejected_with_4xx_leads_to_http_sse_transport() {
    for status in [400, 404, 405, 406, 410, 415, 422] {
        handshaking().status(status).expect(HttpAction::OpenStream);
        handshaking().body(status, &error(-32000)).expect(HttpAction::OpenStream);
    }
}

#[test]
fn http_errors_for_initialize_are_handled_as_for_the_probe() {
    handshaking().status(401).expect(HttpAction::LogIn { status: 401 });
    handshaking().status(403).expect_http_failure(HttpFailure::Forbidden);
    handshaking().status(429).expect(HttpAction::Wait { retry_after: None });
    handshaking().status(500).expect_http_failure(HttpFailure::ServerError { status: 500 });
    let mut script = handshaking();
    script.0.handle_network_failure();
    script.expect_http_failure(HttpFailure::Network);
}

#[test]
fn endpoint_event_selects_http_sse_transport() {
    let mut script = streaming();
    script.0.handle_response(&NegotiationResponse::new(200).first_event("endpoint"), script.1);
    script.expect(initialize());
    script.body(200, INITIALIZED).expect_success(Era::Legacy);
}

#[test]
fn other_or_missing_first_event_fails_negotiation() {
    for answer in [NegotiationResponse::new(200).first_event("message"), NegotiationResponse::new(200)] {
        let mut script = streaming();
        script.0.handle_response(&answer, script.1);
        assert!(matches!(script.expect_failure(), NegotiationError::NoEndpoint { get: 0, .. }));
    }
    let mut silent = streaming();
    silent.0.handle_timeout(silent.1 + Duration::from_secs(10));
    assert!(matches!(silent.expect_failure(), NegotiationError::NoEndpoint { get: 0, .. }));
}

#[test]
fn status_401_for_the_sse_stream_asks_for_login() {
    let mut script = streaming();
    script.status(401).expect(HttpAction::LogIn { status: 401 });
    script.0.handle_login(true, script.1);
    script.expect(HttpAction::OpenStream);
}

#[test]
fn other_stream_status_fails_with_all_three_statuses() {
    let failure = streaming().status(418).expect_failure();
    assert_eq!(failure, NegotiationError::NoEndpoint { probe: 405, initialize: 404, get: 418 });
}

#[test]
fn modern_error_with_any_4xx_selects_modern_era() {
    script().body(422, MISSING);
    let mut script = script();
    script.body(422, MISSING);
    assert!(matches!(script.0.poll_action(), Some(HttpAction::Declare(_))));
    // A rejected `initialize` is reported, and GET is not tried.
    assert!(matches!(
        handshaking().body(400, &error(-32020)).expect_failure(),
        NegotiationError::Handshake { .. }
    ));
}

#[test]
fn modern_version_in_error_after_http_sse_selects_modern_era() {
    let mut script = streaming();
    script.0.handle_response(&NegotiationResponse::new(200).first_event("endpoint"), script.1);
    script.expect(initialize());
    script.body(200, &unsupported(r#""2026-07-28""#)).expect(probe());
    script.body(200, DISCOVERED).expect_success(Era::Modern);
}

#[test]
fn each_negotiation_request_has_its_own_timeout() {
    let left = |script: &Script| script.0.poll_timeout().unwrap() - script.1;
    assert_eq!(left(&script()), Duration::from_secs(10));
    assert_eq!(left(&handshaking()), Duration::from_secs(30));
    assert_eq!(left(&streaming()), Duration::from_secs(10));
    let mut late = script();
    late.1 += Duration::from_secs(10);
    late.0.handle_timeout(late.1 - Duration::from_millis(1));
    assert_eq!(late.0.poll_action(), None);
    late.0.handle_timeout(late.1);
    late.expect_http_failure(HttpFailure::Timeout);
    assert_eq!(late.0.poll_timeout(), None);
}

#[test]
fn all_requests_share_the_negotiation_budget() {
    let mut script = script();
    script.1 += Duration::from_secs(9);
    script.status(405).expect(initialize());
    script.1 += Duration::from_secs(15);
    script.status(404).expect(HttpAction::OpenStream);
    // Six of thirty seconds are left, less than the timeout of a first event.
    assert_eq!(script.0.poll_timeout().unwrap() - script.1, Duration::from_secs(6));
    // A wait beyond the timeout is not started.
    let wait = Duration::from_secs(86_400);
    let answer = NegotiationResponse::new(503).retry_after(wait);
    script.0.handle_response(&answer, script.1);
    script.expect_http_failure(HttpFailure::Busy { status: 503, retry_after: Some(wait) });
}

#[test]
fn login_time_does_not_count_toward_the_timeout() {
    let mut script = script();
    script.status(401).expect(HttpAction::LogIn { status: 401 });
    assert_eq!(script.0.poll_timeout(), None);
    script.1 += Duration::from_secs(300);
    script.0.handle_login(true, script.1);
    script.expect(probe()).status(405).expect(initialize());
    assert_eq!(script.0.poll_timeout().unwrap() - script.1, Duration::from_secs(30));
    // Reports that were not requested have no effect.
    script.0.handle_login(false, script.1);
    assert_eq!(script.0.poll_action(), None);
}

#[test]
fn rejected_initialize_lists_the_versions_of_both_sides() {
    let rejection = r#""error":{"code":-32602,"message":"Unsupported protocol version","data":{"supported":["2099-01-01"]}}"#;
    for status in [200, 400] {
        let text = handshaking().body(status, rejection).expect_failure().to_string();
        assert!(text.contains("the server supports 2099-01-01; this client supports 2026-07-28,"), "{text}");
    }
}
