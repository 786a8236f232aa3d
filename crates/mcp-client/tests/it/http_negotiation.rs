//! How the client detects the era and transport of a server behind a URL, over real sockets.

use std::time::Duration;

use mcp_client::protocol::Era;
use mcp_client::protocol::elicitation::{ElicitFormParams, ElicitResult};
use mcp_client::protocol::negotiation::{HttpFailure, NegotiationError};
use mcp_client::{Blame, EndCause, Error, Handlers, McpClient, Result, ServerConfig, ServerRequest};
use serde_json::json;

use crate::support::harmless;
use crate::web::{Piece, Say, Seen, Web, event, legacy, modern};

async fn connect(web: &Web) -> Result<McpClient> {
    let config = ServerConfig::url(&web.url).start_timeout(Duration::from_secs(5));
    tokio::time::timeout(Duration::from_secs(8), McpClient::connect(config)).await.expect("it hangs")
}

/// Connects to a server whose answer to the probe is scripted, and which is otherwise a legacy one.
async fn after_probe(answer: impl Fn(&Seen) -> Say + Send + Sync + 'static) -> (Result<Era>, Vec<String>) {
    after(move |seen| match seen.method() {
        "server/discover" => answer(seen),
        _ => legacy(seen, "s"),
    })
    .await
}

async fn after(script: impl Fn(&Seen) -> Say + Send + Sync + 'static) -> (Result<Era>, Vec<String>) {
    let web = Web::serve(script).await;
    let era = match connect(&web).await {
        Ok(client) => {
            let era = client.era();
            client.close().await;
            Ok(era)
        }
        Err(error) => Err(error),
    };
    web.is_left().await;
    let methods = web.methods();
    web.end().await;
    (era, methods)
}

#[tokio::test]
async fn discover_result_is_modern_and_a_plain_error_is_legacy() {
    harmless(async {
        assert_eq!(after_probe(modern).await.0.unwrap(), Era::Modern);
        let as_event = |seen: &Seen| match modern(seen) {
            Say::Whole(whole) => {
                let text = String::from_utf8(whole).unwrap();
                let (_, body) = text.split_once("\r\n\r\n").unwrap();
                Say::stream([format!(": hello\n\ndata: {body}\n\n").into()])
            }
            say => say,
        };
        assert_eq!(after_probe(as_event).await.0.unwrap(), Era::Modern);
        for code in [-32601, -32602, -32000] {
            let (era, methods) = after_probe(move |seen| seen.error(200, code, "what?")).await;
            assert_eq!(era.unwrap(), Era::Legacy, "{code}");
            assert_eq!(methods[..3], ["server/discover", "initialize", "notifications/initialized"]);
        }
    })
    .await;
}

#[tokio::test]
async fn response_that_no_modern_server_sends_means_legacy() {
    harmless(async {
        for status in [200, 202, 204] {
            let say = move |_: &Seen| Say::status(status, &[("content-type", "text/html")], "");
            assert_eq!(after_probe(say).await.0.unwrap(), Era::Legacy, "{status}");
        }
        for (status, body) in [
            (400, ""),
            (400, "<html>"),
            (400, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}"#),
            (404, r#"{"jsonrpc":"2.0","id":"negotiation","error":{"code":-32601,"message":"no method"}}"#),
            (404, "Not Found"),
            (405, ""),
            (406, "x"),
            (410, ""),
            (415, ""),
            (422, r#"{"detail":[]}"#),
        ] {
            let say = move |_: &Seen| Say::status(status, &[("content-type", "application/json")], body);
            assert_eq!(after_probe(say).await.0.unwrap(), Era::Legacy, "{status} {body}");
        }
    })
    .await;
}

#[tokio::test]
async fn modern_errors_do_not_lead_to_initialize() {
    harmless(async {
        for code in [-32020, -32021, -32022] {
            let say = move |seen: &Seen| {
                let data = match code {
                    -32021 => json!({"requiredCapabilities": {"sampling": {}}}),
                    _ => json!({"supported": ["2099-01-01"], "requested": "2026-07-28"}),
                };
                let error = json!({"code": code, "message": "no", "data": data});
                Say::json(400, &json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": error}))
            };
            let (era, methods) = after_probe(say).await;
            assert!(matches!(era, Err(Error::Connect { .. })), "{code} {era:?}");
            assert_eq!(methods, ["server/discover"], "{code}");
        }
        // Only legacy versions in common.
        let say = |seen: &Seen| {
            let data = json!({"supported": ["2025-06-18"], "requested": "2026-07-28"});
            let error = json!({"code": -32022, "message": "no", "data": data});
            Say::json(400, &json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": error}))
        };
        assert_eq!(after_probe(say).await.0.unwrap(), Era::Legacy);
    })
    .await;
}

#[tokio::test]
async fn missing_capability_error_leads_to_one_more_probe() {
    harmless(async {
        for refusals in [1, 2] {
            let probes = std::sync::atomic::AtomicUsize::new(0);
            let web = Web::serve(move |seen| {
                let is_probe = seen.method() == "server/discover";
                if !is_probe || probes.fetch_add(1, std::sync::atomic::Ordering::SeqCst) >= refusals {
                    return modern(seen);
                }
                let data = json!({"requiredCapabilities": {"elicitation": {}}});
                let error = json!({"code": -32021, "message": "no", "data": data});
                Say::json(400, &json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": error}))
            })
            .await;
            let handlers =
                Handlers::new().on_form(async |_: ServerRequest<ElicitFormParams>| ElicitResult::decline());
            let connecting =
                McpClient::builder(ServerConfig::url(&web.url)).handlers(handlers).connect().await;
            assert_eq!(connecting.is_ok(), refusals == 1, "{connecting:?}");
            if let Ok(client) = connecting {
                assert_eq!(client.era(), Era::Modern);
                client.close().await;
            }
            assert_eq!(web.methods(), ["server/discover"; 2]);
            for probe in web.seen() {
                let meta = &probe.body["params"]["_meta"];
                assert!(
                    meta["io.modelcontextprotocol/clientCapabilities"]["elicitation"].is_object(),
                    "{meta}"
                );
            }
            web.is_left().await;
            web.end().await;
        }
    })
    .await;
}

#[tokio::test]
async fn status_401_or_403_stops_negotiation_and_keeps_challenges() {
    harmless(async {
        for (status, header) in [
            (401, r#"Bearer resource_metadata="https://x/y", scope="a b""#),
            (403, r#"Bearer error="insufficient_scope", scope="a b""#),
        ] {
            for method in ["server/discover", "initialize"] {
                let say = move |seen: &Seen| {
                    if seen.method() == method {
                        return Say::status(status, &[("WWW-Authenticate", header)], "");
                    }
                    legacy(seen, "s")
                };
                let (era, methods) = after(say).await;
                let error = era.unwrap_err();
                assert!(error.needs_login() && error.to_string().contains("a b"), "{error}");
                let Error::Unauthorized { status: told, challenges, .. } = error else { panic!() };
                assert_eq!((told, challenges[0].scope()), (status, Some("a b")));
                assert_eq!(methods.last().unwrap(), method, "nothing after it");
            }
        }
        let (era, methods) = after_probe(|_| Say::status(403, &[], "")).await;
        let error = era.unwrap_err();
        let forbidden =
            matches!(&error, Error::Unauthorized { status: 403, challenges, .. } if challenges.is_empty());
        assert!(forbidden && !error.needs_login(), "{error:?}");
        assert_eq!(methods, ["server/discover"]);
    })
    .await;
}

#[tokio::test]
async fn busy_server_is_probed_twice_and_a_failing_one_only_once() {
    harmless(async {
        for status in [408, 425, 429, 502, 503, 504] {
            let say = move |_: &Seen| Say::status(status, &[("Retry-After", "0")], "");
            let (era, methods) = after_probe(say).await;
            let busy = matches!(&era, Err(Error::Connect { error: source, .. })
                if matches!(**source, NegotiationError::Http(HttpFailure::Busy { status: told, .. }) if told == status));
            assert!(busy, "{status} {era:?}");
            assert_eq!(methods, ["server/discover", "server/discover"], "{status}");
        }
        let (era, methods) = after_probe(|_| Say::status(500, &[], "")).await;
        assert!(era.is_err());
        assert_eq!(methods, ["server/discover"]);
        // More than there is time for is told at once.
        let began = std::time::Instant::now();
        let (era, methods) = after_probe(|_| Say::status(503, &[("Retry-After", "3600")], "")).await;
        let error = era.unwrap_err().to_string();
        assert!(error.contains("after 3600 s") && began.elapsed() < Duration::from_secs(2), "{error}");
        assert_eq!(methods, ["server/discover"]);
        // The second time it is there.
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let (era, _) = after_probe(move |seen| match asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 => Say::status(503, &[("Retry-After", "0")], ""),
            _ => modern(seen),
        })
        .await;
        assert_eq!(era.unwrap(), Era::Modern);
    })
    .await;
}

#[tokio::test]
async fn same_origin_redirects_keep_method_and_body() {
    harmless(async {
        for status in [307, 308] {
            let say = move |seen: &Seen| match seen.path.as_str() {
                "/mcp" => Say::status(status, &[("Location", "/moved")], ""),
                _ => modern(seen),
            };
            let (era, methods) = after(say).await;
            assert_eq!(era.unwrap(), Era::Modern);
            assert_eq!(methods, ["server/discover", "server/discover"], "body and verb went along");
        }
    })
    .await;
}

#[tokio::test]
async fn cross_origin_redirects_are_reported_and_not_followed() {
    harmless(async {
        let other = Web::serve(modern).await;
        let away = other.url.clone();
        for status in [301, 302, 303, 307, 308] {
            let away = away.clone();
            let web = Web::serve(move |_| Say::status(status, &[("Location", &away)], "")).await;
            let error = connect(&web).await.unwrap_err();
            assert!(error.to_string().contains(&other.url), "{error}");
            assert_eq!(web.methods(), ["server/discover"], "{status}");
            web.end().await;
        }
        assert_eq!(other.connections(), 0, "nobody came");
        other.end().await;
        // A loop ends.
        let web = Web::serve(|_| Say::status(307, &[("Location", "/mcp")], "")).await;
        assert!(connect(&web).await.is_err());
        assert_eq!(web.methods().len(), 4);
        web.end().await;
    })
    .await;
}

#[tokio::test]
async fn network_failure_does_not_lead_to_initialize() {
    harmless(async {
        let before =
            "HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"half\":";
        let cut = "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ncontent-length: 500\r\n\r\n:\n\n";
        let nonsense = Say::raw("nonsense\r\n\r\n");
        for say in [Say::nothing(), Say::raw("HTTP/1.1 20"), nonsense, Say::raw(before), Say::raw(cut)] {
            let (era, methods) = after_probe(move |_| say.clone()).await;
            let Err(Error::Connect { error: source, ended, .. }) = era else { panic!("{era:?}") };
            assert_eq!(*source, NegotiationError::Http(HttpFailure::Network));
            assert!(matches!(&ended.cause, EndCause::Network(problem) if !problem.is_empty()));
            assert_eq!(methods, ["server/discover"]);
        }
        // Nobody listens.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = McpClient::connect(ServerConfig::url(format!("http://{port}/"))).await.unwrap_err();
        assert!(error.is_retry_safe() && error.to_string().contains("refused"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn silent_http_server_fails_at_the_start_timeout() {
    harmless(async {
        let web = Web::serve(|_| Say::Pieces(vec![Piece::UntilGone])).await;
        let config = ServerConfig::url(&web.url).start_timeout(Duration::from_millis(600));
        let began = std::time::Instant::now();
        let error = McpClient::connect(config).await.unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(2), "{error}");
        assert_eq!(web.methods(), ["server/discover"]);
        web.is_left().await;
        web.end().await;
    })
    .await;
}

#[tokio::test]
async fn legacy_requests_carry_session_and_version_headers() {
    harmless(async {
        let web = Web::serve(|seen| legacy(seen, "abc")).await;
        let client = connect(&web).await.unwrap();
        client.list_tools().await.unwrap();
        client.close().await;
        for seen in
            web.seen().iter().filter(|seen| !matches!(seen.method(), "server/discover" | "initialize"))
        {
            assert_eq!(seen.header("mcp-session-id"), Some("abc"), "{seen:?}");
            assert_eq!(seen.header("mcp-protocol-version"), Some("2025-11-25"), "{seen:?}");
        }
        assert_eq!(
            web.methods(),
            ["server/discover", "initialize", "notifications/initialized", "GET", "tools/list", "DELETE"]
        );
        web.is_left().await;
        web.end().await;
    })
    .await;
}

#[tokio::test]
async fn refused_initialize_is_reported_and_a_modern_error_reprobed() {
    harmless(async {
        let (era, _) = after(|seen| match seen.method() {
            "initialize" => seen.error(200, -32603, "broken"),
            _ => legacy(seen, "s"),
        })
        .await;
        assert!(matches!(era, Err(Error::Connect { .. })), "{era:?}");
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let (era, methods) = after(move |seen| match seen.method() {
            "server/discover" if asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0 => {
                Say::status(404, &[], "not yet")
            }
            "initialize" => {
                let data = json!({"supported": ["2026-07-28"], "requested": "2025-11-25"});
                let error = json!({"code": -32022, "message": "no", "data": data});
                Say::json(400, &json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": error}))
            }
            _ => modern(seen),
        })
        .await;
        assert_eq!(era.unwrap(), Era::Modern);
        assert_eq!(methods, ["server/discover", "initialize", "server/discover"]);
    })
    .await;
}

#[tokio::test]
async fn sse_endpoint_on_another_origin_is_refused_without_a_request() {
    harmless(async {
        let other = Web::serve(modern).await;
        let away = other.url.clone();
        let web = Web::serve(move |seen| match seen.verb.as_str() {
            "GET" => Say::stream([format!("event: endpoint\ndata: {away}\n\n").into(), Piece::UntilGone]),
            _ => Say::status(405, &[], ""),
        })
        .await;
        for config in [ServerConfig::url(&web.url), ServerConfig::sse(&web.url)] {
            let error = McpClient::connect(config.bearer_token("hush-hush")).await.unwrap_err();
            assert!(error.to_string().contains("only a URL on the same web origin"), "{error}");
            assert_eq!(error.blame(), Blame::Server, "{error:?}");
            let origin = other.url.trim_end_matches("/mcp");
            assert!(
                matches!(&error, Error::ForeignEndpoint { origin: named, .. } if origin.starts_with(named)),
                "{error:?}"
            );
        }
        assert_eq!(other.connections(), 0);
        web.is_left().await;
        web.end().await;
        other.end().await;
    })
    .await;
}

#[tokio::test]
async fn sse_endpoint_that_is_not_a_plain_http_url_is_described() {
    for (endpoint, described) in [
        ("javascript:alert(1)", "names a `javascript:` URL: only"),
        ("http://u:secret@HOST/mcp", "HOST with a user name or password: only"),
    ] {
        harmless(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let host = listener.local_addr().unwrap().to_string();
            let endpoint = endpoint.replace("HOST", &host);
            let web = Web::serve_at(listener, move |_| {
                Say::stream([format!("event: endpoint\ndata: {endpoint}\n\n").into(), Piece::UntilGone])
            });
            let error = McpClient::connect(ServerConfig::sse(&web.url)).await.unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, Error::ForeignEndpoint { .. }), "{error:?}");
            assert!(text.contains(&described.replace("HOST", &host)) && !text.contains("secret"), "{text}");
            web.is_left().await;
            web.end().await;
        })
        .await;
    }
}

#[tokio::test]
async fn failed_http_sse_fallback_is_reported_with_all_statuses() {
    harmless(async {
        let statuses = |get: Say| {
            move |seen: &Seen| match seen.method() {
                "server/discover" => Say::status(404, &[], ""),
                "initialize" => Say::status(405, &[], ""),
                _ => get.clone(),
            }
        };
        for get in [
            Say::stream([event(&json!({})).into()]),
            Say::stream([]),
            Say::status(404, &[], ""),
            Say::status(200, &[("content-type", "text/html")], "hello"),
        ] {
            let (era, methods) = after(statuses(get)).await;
            let error = era.unwrap_err().to_string();
            assert!(error.contains("404") && error.contains("405"), "{error}");
            assert_eq!(methods, ["server/discover", "initialize", "GET"]);
        }
        let challenge = Say::status(401, &[("WWW-Authenticate", "Bearer")], "");
        assert!(after(statuses(challenge)).await.0.unwrap_err().needs_login());
        // A stream that says nothing.
        let web = Web::serve(statuses(Say::stream([Piece::UntilGone]))).await;
        let config = ServerConfig::url(&web.url).start_timeout(Duration::from_millis(600));
        assert!(McpClient::connect(config).await.is_err());
        web.is_left().await;
        web.end().await;
    })
    .await;
}

#[tokio::test]
async fn html_page_is_reported_with_status_type_and_first_bytes() {
    harmless(async {
        let page = format!("<!doctype html>\u{1b}[2J<h1>It works!</h1> secret-token{}", "x".repeat(200_000));
        for (status, get) in [(200, 200), (404, 404), (404, 405), (500, 500)] {
            let page = page.clone();
            let web = Web::serve(move |seen| match seen.verb.as_str() {
                "GET" if get == 405 => Say::status(405, &[], ""),
                "GET" => Say::status(get, &[("content-type", "text/html; charset=utf-8")], &page),
                _ => Say::status(status, &[("content-type", "text/html; charset=utf-8")], &page),
            })
            .await;
            for config in [ServerConfig::url(&web.url), ServerConfig::sse(&web.url)] {
                if get == 405 && config == ServerConfig::sse(&web.url) {
                    continue;
                }
                let error = McpClient::connect(config.bearer_token("secret-token")).await.unwrap_err();
                let text = error.to_string();
                assert!(text.contains(&format!("status {status} with text/html")), "{text}");
                assert!(text.contains(r"<!doctype html>\u{1b}[2J<h1>It works!</h1> ***"), "{text}");
                assert!(text.len() < 1000 && !text.contains("secret-token"), "{text}");
                assert_eq!(error.blame(), Blame::Server);
                let Error::Connect { ended, .. } = &error else { panic!("{error:?}") };
                assert!(matches!(&ended.cause, EndCause::Response(answer) if answer.status == status));
            }
            web.end().await;
        }
    })
    .await;
}
