use super::*;

const RESTARTS: Route = Route::Stream { restarts: true };
const STAYS_ENDED: Route = Route::Stream { restarts: false };
const ROUTES: [Route; 3] = [Route::Http, RESTARTS, STAYS_ENDED];
const PAUSE: Decision = Decision::Again { after: NETWORK_PAUSE };

/// One row: a failure, a method, and the decision for each of [`ROUTES`].
type Row = (Failure, Method, [Decision; 3]);

fn table() -> Vec<Row> {
    use Decision::{GiveUp, GiveUpAndRenewSession, LogIn, RefreshTools, RenewSession, RestartServer};
    use Failure::{
        HeaderMismatch, MaybeSent, NotSent, Other, SessionRefused, SessionUnknown, TooManyRequests,
        Unauthorized,
    };
    let (call, list) = (|| Method::ToolsCall, || Method::ToolsList);
    let second = Decision::Again { after: Duration::from_secs(1) };
    vec![
        (NotSent, call(), [PAUSE, RestartServer, GiveUp]),
        (NotSent, list(), [PAUSE, RestartServer, GiveUp]),
        (MaybeSent, call(), [GiveUp, GiveUp, GiveUp]),
        (MaybeSent, Method::ResourcesSubscribe, [GiveUp, GiveUp, GiveUp]),
        (MaybeSent, list(), [PAUSE, RestartServer, GiveUp]),
        (SessionUnknown, call(), [RenewSession, GiveUp, GiveUp]),
        (SessionUnknown, list(), [RenewSession, GiveUp, GiveUp]),
        (SessionRefused, call(), [GiveUpAndRenewSession, GiveUp, GiveUp]),
        (SessionRefused, list(), [RenewSession, GiveUp, GiveUp]),
        (TooManyRequests { retry_after: None }, call(), [second, GiveUp, GiveUp]),
        (TooManyRequests { retry_after: None }, list(), [second, GiveUp, GiveUp]),
        (HeaderMismatch, call(), [RefreshTools, GiveUp, GiveUp]),
        (HeaderMismatch, list(), [GiveUp, GiveUp, GiveUp]),
        (Unauthorized, call(), [LogIn, LogIn, LogIn]),
        (Other, call(), [GiveUp, GiveUp, GiveUp]),
        (Other, list(), [GiveUp, GiveUp, GiveUp]),
    ]
}

#[test]
fn each_failure_has_its_decision_and_each_reason_counts_once() {
    let now = Instant::now();
    for (failure, method, decisions) in table() {
        for (route, decision) in ROUTES.into_iter().zip(decisions) {
            let mut retry = Retry::new(&method, route);
            assert_eq!(retry.handle_failure(&failure, None, now), decision, "{failure:?} {method} {route:?}");
            let second = if failure == Failure::Unauthorized { Decision::LogIn } else { Decision::GiveUp };
            assert_eq!(
                retry.handle_failure(&failure, None, now),
                second,
                "{failure:?} {method} {route:?}, again"
            );
        }
    }
}

#[test]
fn every_method_that_only_reads_is_repeated_and_no_other() {
    use Method::{
        Complete, Discover, Ping, PromptsGet, PromptsList, ResourceTemplatesList, ResourcesList,
        ResourcesRead, ToolsList,
    };
    let reading = [
        Ping,
        Discover,
        ToolsList,
        ResourcesList,
        ResourceTemplatesList,
        ResourcesRead,
        PromptsList,
        PromptsGet,
        Complete,
    ];
    for method in reading {
        let decision =
            Retry::new(&method, Route::Http).handle_failure(&Failure::MaybeSent, None, Instant::now());
        assert_eq!(decision, PAUSE, "{method}");
    }
    for method in
        [Method::ToolsCall, Method::SetLevel, Method::ResourcesSubscribe, Method::Listen, Method::Initialize]
    {
        let decision =
            Retry::new(&method, Route::Http).handle_failure(&Failure::MaybeSent, None, Instant::now());
        assert_eq!(decision, Decision::GiveUp, "{method}");
    }
}

#[test]
fn different_reasons_are_counted_apart() {
    let now = Instant::now();
    let mut retry = Retry::new(&Method::ToolsCall, Route::Http);
    assert_eq!(retry.handle_failure(&Failure::SessionUnknown, None, now), Decision::RenewSession);
    let busy = Failure::TooManyRequests { retry_after: None };
    assert!(matches!(retry.handle_failure(&busy, None, now), Decision::Again { .. }));
    assert_eq!(retry.handle_failure(&Failure::NotSent, None, now), PAUSE);
    // The request was already sent again once, whatever the reason was.
    assert_eq!(retry.handle_failure(&Failure::HeaderMismatch, None, now), Decision::GiveUp);
    // Both session failures share their one attempt.
    assert_eq!(retry.handle_failure(&Failure::SessionRefused, None, now), Decision::GiveUp);
}

#[test]
fn retry_after_is_waited_for_only_before_the_deadline() {
    let now = Instant::now();
    let after = |seconds, deadline: Option<u64>| {
        let failure = Failure::TooManyRequests { retry_after: Some(Duration::from_secs(seconds)) };
        let deadline = deadline.map(|seconds| now + Duration::from_secs(seconds));
        Retry::new(&Method::ToolsCall, Route::Http).handle_failure(&failure, deadline, now)
    };
    let again = |seconds| Decision::Again { after: Duration::from_secs(seconds) };
    assert_eq!(after(4, Some(5)), again(4));
    assert_eq!(after(5, Some(5)), Decision::GiveUp);
    assert_eq!(after(60, None), again(60));
    assert_eq!(after(61, None), Decision::GiveUp);
    assert_eq!(after(u64::MAX, Some(5)), Decision::GiveUp);
}

#[test]
fn retry_after_that_is_too_late_is_not_counted() {
    let now = Instant::now();
    let mut retry = Retry::new(&Method::ToolsCall, Route::Http);
    let late = Failure::TooManyRequests { retry_after: Some(Duration::from_secs(61)) };
    assert_eq!(retry.handle_failure(&late, None, now), Decision::GiveUp);
    let soon = Failure::TooManyRequests { retry_after: Some(Duration::from_secs(1)) };
    assert!(matches!(retry.handle_failure(&soon, None, now), Decision::Again { .. }));
}

#[test]
fn later_round_is_not_repeated_after_a_lost_connection() {
    let now = Instant::now();
    for failure in [Failure::NotSent, Failure::MaybeSent, Failure::HeaderMismatch] {
        for route in ROUTES {
            let mut retry = Retry::new(&Method::ResourcesRead, route);
            retry.handle_input_round();
            assert_eq!(retry.handle_failure(&failure, None, now), Decision::GiveUp, "{failure:?} {route:?}");
        }
    }
    let mut call = Retry::new(&Method::ToolsCall, Route::Http);
    call.handle_input_round();
    assert_eq!(call.handle_failure(&Failure::HeaderMismatch, None, now), Decision::GiveUp);
    // The server has not executed it.
    assert_eq!(call.handle_failure(&Failure::SessionUnknown, None, now), Decision::RenewSession);
}
