//! Hostile sequences of responses: a tool that may have run is never called again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::web::{Say, Seen, against, connect, echo, legacy, modern};

/// A response to `tools/call`, and whether the tool may have run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reply {
    TooManyRequests,
    SessionUnknown,
    UnauthorizedWithoutChallenge,
    HeaderMismatch,
    SessionRefused,
    HangUp,
    Unavailable,
    NotAMessage,
    ResponseToAnotherRequest,
    Result,
}

impl Reply {
    const REFUSALS: [Self; 4] = [
        Self::TooManyRequests,
        Self::SessionUnknown,
        Self::UnauthorizedWithoutChallenge,
        Self::HeaderMismatch,
    ];
    const LAST: [Self; 10] = [
        Self::TooManyRequests,
        Self::SessionUnknown,
        Self::UnauthorizedWithoutChallenge,
        Self::HeaderMismatch,
        Self::SessionRefused,
        Self::HangUp,
        Self::Unavailable,
        Self::NotAMessage,
        Self::ResponseToAnotherRequest,
        Self::Result,
    ];

    fn is_refusal(self) -> bool {
        Self::REFUSALS.contains(&self)
    }

    fn say(self, seen: &Seen, otherwise: impl FnOnce() -> Say) -> Say {
        match self {
            Self::TooManyRequests => Say::status(429, &[("Retry-After", "0")], ""),
            Self::SessionUnknown => Say::status(404, &[], ""),
            Self::UnauthorizedWithoutChallenge => Say::status(401, &[], ""),
            Self::HeaderMismatch => seen.error(400, -32020, "header mismatch"),
            Self::SessionRefused => {
                let error = serde_json::json!({"code": -32000, "message": "Bad Request: no valid session"});
                Say::json(400, &serde_json::json!({"jsonrpc": "2.0", "id": null, "error": error}))
            }
            Self::HangUp => Say::nothing(),
            Self::Unavailable => Say::status(503, &[("Retry-After", "0")], ""),
            Self::NotAMessage => Say::status(200, &[("Content-Type", "application/json")], "{"),
            Self::ResponseToAnotherRequest => {
                let body = serde_json::json!({"jsonrpc": "2.0", "id": 999_999, "result": {"content": []}});
                Say::json(200, &body)
            }
            Self::Result => otherwise(),
        }
    }
}

/// Calls a tool once on a server that responds in this order, and then with the last response for ever.
async fn call_once(is_modern: bool, replies: [Reply; 3]) {
    let sessions = AtomicUsize::new(0);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let script = move |seen: &Seen| {
        if seen.method() == "initialize" {
            sessions.fetch_add(1, Ordering::SeqCst);
        }
        let session = format!("s{}", sessions.load(Ordering::SeqCst));
        let otherwise = || if is_modern { modern(seen) } else { legacy(seen, &session) };
        if seen.method() != "tools/call" {
            return otherwise();
        }
        let count = counted.fetch_add(1, Ordering::SeqCst);
        replies[count.min(2)].say(seen, otherwise)
    };
    against(script, |web| async move {
        let client = connect(&web).await;
        let outcome = echo(&client, "x").await;
        client.close().await;
        let sent = calls.load(Ordering::SeqCst);
        let may_have_run = replies.iter().position(|reply| !reply.is_refusal());
        assert!(sent <= 4, "{replies:?}: sent {sent} times");
        if let Some(at) = may_have_run {
            assert!(sent <= at + 1, "{replies:?}: sent {sent} times");
            if sent == at + 1 && replies[at] != Reply::Result {
                let error = outcome.unwrap_err();
                assert!(!error.is_retry_safe(), "{replies:?}: {error}");
            } else if sent == at + 1 {
                assert_eq!(outcome.unwrap(), "x", "{replies:?}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn tool_that_may_have_run_is_never_called_again() {
    for is_modern in [true, false] {
        for first in Reply::REFUSALS {
            for second in Reply::REFUSALS {
                for last in Reply::LAST {
                    call_once(is_modern, [first, second, last]).await;
                }
            }
        }
        for only in Reply::LAST {
            call_once(is_modern, [only, Reply::Result, Reply::Result]).await;
        }
    }
}
