//! Errors of calls over HTTP: what is reported, what is retried, and what is never shown.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_client::{Blame, Error, McpClient, Sent, ServerConfig};
use serde_json::{Value, json};

use crate::support::{WebPeer, harmless};
use crate::web::{Say, Seen, against, calling, connect, echo, first, legacy, modern};

#[tokio::test]
async fn non_mcp_response_is_reported_with_status_type_and_excerpt() {
    for (say, expected) in [
        (
            Say::status(200, &[("content-type", "text/html")], "<h1>\u{1b}[2J"),
            "status 200 with text/html: <h1>\\u{1b}[2J",
        ),
        (Say::status(200, &[], "{}"), "status 200: {}"),
        (Say::status(204, &[], ""), "status 204"),
        (Say::status(202, &[], ""), "status 202"),
        (
            Say::status(502, &[("content-type", "text/plain")], "bad gateway"),
            "status 502 with text/plain: bad gateway",
        ),
        (Say::status(418, &[("content-type", "text/plain")], "t-123 is not welcome"), "*** is not welcome"),
        (Say::status(200, &[("content-type", "text/html")], &"oops ".repeat(50_000)), "oops oops"),
        (
            Say::status(200, &[("content-type", "text/plain")], r#"{"jsonrpc":"2.0","id":2,"result":{}}"#),
            "status 200 with text/plain",
        ),
    ] {
        against(calling(move |_| say.clone()), |web| async move {
            let client = McpClient::connect(ServerConfig::url(&web.url).bearer_token("t-123")).await.unwrap();
            let error = echo(&client, "x").await.unwrap_err();
            assert!(matches!(error, Error::Status { .. }) && error.blame() == Blame::Server, "{error:?}");
            assert!(error.to_string().contains(expected), "{error}");
            assert_eq!(web.count("tools/call"), 1, "a call is made once");
            client.close().await;
        })
        .await;
    }
    for body in ["", "[", "{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}"] {
        let say = Say::status(200, &[("content-type", "application/json; charset=utf-8")], body);
        against(calling(move |_| say.clone()), |web| async move {
            let client = connect(&web).await;
            let error = echo(&client, "x").await.unwrap_err();
            assert!(matches!(error, Error::Unreadable { .. }) && error.may_have_happened(), "{error:?}");
            client.close().await;
        })
        .await;
    }
}

#[tokio::test]
async fn cut_stream_fails_a_tool_call_and_retries_a_read() {
    let halves = |seen: &Seen| {
        let whole = seen.event(json!({"resultType": "complete", "content": []}));
        Say::stream([whole[..whole.len() - 3].to_owned().into()])
    };
    against(calling(halves), |web| async move {
        let client = connect(&web).await;
        let error = echo(&client, "x").await.unwrap_err();
        assert!(matches!(error, Error::Lost { sent: Sent::Maybe, .. }), "{error:?}");
        assert_eq!(web.count("tools/call"), 1);
        client.close().await;
    })
    .await;
    let reads = AtomicUsize::new(0);
    let script = move |seen: &Seen| match seen.method() {
        "resources/read" if reads.fetch_add(1, Ordering::SeqCst) == 0 => Say::stream([]),
        _ => modern(seen),
    };
    against(script, |web| async move {
        let client = connect(&web).await;
        client.read_resource("a:b").await.unwrap();
        let ids: Vec<Value> = web
            .seen()
            .iter()
            .filter(|seen| seen.method() == "resources/read")
            .map(|seen| seen.body["id"].clone())
            .collect();
        assert_eq!(ids.len(), 2);
        assert_ne!(ids[0], ids[1], "as a new request");
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn short_retry_after_on_429_is_honoured_and_others_are_reported() {
    against(first(|_| Say::status(429, &[("Retry-After", "1")], "")), |web| async move {
        let client = connect(&web).await;
        let began = std::time::Instant::now();
        assert_eq!(echo(&client, "later").await.unwrap(), "later");
        assert!(began.elapsed() >= Duration::from_millis(950));
        client.close().await;
    })
    .await;
    // A long delay is reported at once, and a 503 is never retried.
    for (status, value, told) in
        [(429, "99999999", 99_999_999), (503, "7", 7), (429, "Thu, 31 Dec 2099 23:59:59 GMT", 0)]
    {
        against(calling(move |_| Say::status(status, &[("Retry-After", value)], "")), |web| async move {
            let client = connect(&web).await;
            let began = std::time::Instant::now();
            let error = echo(&client, "x").await.unwrap_err();
            assert!(began.elapsed() < Duration::from_secs(1));
            let Error::Status { answer, .. } = &error else { panic!("{error:?}") };
            let wait = answer.retry_after.unwrap().as_secs();
            assert!(wait == told || (told == 0 && wait > 1_000_000), "{wait}");
            assert_eq!((error.is_retry_safe(), web.count("tools/call")), (status == 429, 1));
            client.close().await;
        })
        .await;
    }
}

#[tokio::test]
async fn status_401_is_reported_with_its_challenges() {
    let say = Say::status(
        401,
        &[("WWW-Authenticate", "Basic realm=x"), ("WWW-Authenticate", "Bearer scope=\"a\"")],
        "",
    );
    against(calling(move |_| say.clone()), |web| async move {
        let client = connect(&web).await;
        let error = echo(&client, "x").await.unwrap_err();
        let Error::Unauthorized { status: 401, challenges, .. } = &error else { panic!("{error:?}") };
        assert_eq!(challenges.iter().map(|it| it.scheme.as_str()).collect::<Vec<_>>(), ["basic", "bearer"]);
        assert!(error.needs_login() && error.is_retry_safe() && !error.may_have_happened());
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn modern_error_code_from_a_legacy_server_is_not_retried() {
    let script = |seen: &Seen| match seen.method() {
        "tools/call" => seen.error(200, -32020, "out of stock"),
        _ => legacy(seen, "s"),
    };
    against(script, |web| async move {
        let client = connect(&web).await;
        assert!(matches!(echo(&client, "x").await, Err(Error::Refused { .. })));
        assert_eq!(web.count("tools/call"), 1);
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn secrets_in_a_url_are_never_shown() {
    let script = |seen: &Seen| match seen.method() {
        "server/discover" if seen.path.contains("moved") => {
            Say::status(302, &[("Location", "https://u:hush-hush@b.example/x?key=hush-hush")], "")
        }
        "tools/call" => Say::status(500, &[], "the key hush-hush is not known"),
        _ => modern(seen),
    };
    against(script, |web| async move {
        let config = ServerConfig::url(format!("{}?key=hush-hush", web.url));
        let client = McpClient::connect(config).await.unwrap();
        let error = echo(&client, "x").await.unwrap_err();
        assert!(
            error.to_string().contains("the key *** is") && !format!("{error:?}").contains("hush"),
            "{error:?}"
        );
        client.close().await;
        let moved = web.url.replace("/mcp", "/moved?key=hush-hush");
        let error = McpClient::connect(ServerConfig::url(moved)).await.unwrap_err();
        assert!(error.to_string().contains("https://b.example/x?…"), "{error}");
        assert!(!format!("{error:?}").contains("hush"), "{error:?}");
    })
    .await;
}

#[tokio::test]
async fn long_token_is_masked_completely() {
    let token = format!("eyJ{}", "abcdefghij".repeat(120));
    let reflected = token.clone();
    against(
        calling(move |_| Say::status(500, &[], &format!("no such token: {reflected}"))),
        |web| async move {
            let client = McpClient::connect(ServerConfig::url(&web.url).bearer_token(&token)).await.unwrap();
            let error = echo(&client, "x").await.unwrap_err();
            assert!(error.to_string().contains("no such token: ***"), "{error}");
            assert!(!format!("{client:?} {error:?}").contains("abcdefghij"));
            client.close().await;
        },
    )
    .await;
}

/// Commits every fault on one connection, which must work after each.
async fn faults(era: &str) {
    let peer = WebPeer::start(&["--era", era]).await;
    let client = McpClient::connect(ServerConfig::url(&peer.url)).await.unwrap();
    let location = json!({"to": "http://127.0.0.1:1/", "status": 307});
    for (tool, arguments, expected) in [
        ("html", json!({}), "status 200 with text/html: <h1>Welcome</h1>"),
        ("empty", json!({}), "the body is empty"),
        ("no-type", json!({}), "status 200"),
        ("no-content", json!({}), "status 204"),
        ("hang-up", json!({}), "network error"),
        ("half-head", json!({}), "network error"),
        ("cut", json!({}), "the stream ended before the response"),
        ("no-blank-line", json!({}), "the stream ended before the response"),
        ("redirect", location, "redirect to http://127.0.0.1:1/"),
        ("gzip", json!({}), "gzip"),
        ("short", json!({}), "network error"),
        ("status", json!({"code": 500, "body": "oops"}), "status 500: oops"),
        ("status", json!({"code": 503, "header": "Retry-After", "value": "9"}), "retry after 9 s"),
        ("status", json!({"code": 429, "header": "Retry-After", "value": "999999"}), "retry after 999999 s"),
        (
            "status",
            json!({"code": 401, "header": "WWW-Authenticate", "value": "Bearer scope=\"a\""}),
            "`bearer` with scope `a`",
        ),
        ("status", json!({"code": 403}), "status 403"),
        ("status", json!({"code": 409}), "status 409"),
    ] {
        let error = client.call(tool, arguments.clone()).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{era} {tool} {arguments}: {error}");
        assert_eq!(echo(&client, "still here").await.unwrap(), "still here", "{era} {tool}");
    }
    for (tool, expected) in [("pieces", "世界"), ("comments", "after the flood")] {
        assert_eq!(client.call(tool, json!({})).await.unwrap().text(), expected);
    }
    for (tool, arguments) in [("silent", json!({})), ("trickle", json!({"ms": 20}))] {
        let error = client.call(tool, arguments).timeout(Duration::from_millis(200)).await.unwrap_err();
        assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    }
    if era == "legacy" {
        client.call("forget", json!({})).await.unwrap();
        assert_eq!(echo(&client, "a new session").await.unwrap(), "a new session");
    }
    client.close().await;
}

#[tokio::test]
async fn client_stays_usable_after_every_http_fault() {
    harmless(async {
        faults("modern").await;
        faults("legacy").await;
    })
    .await;
}
