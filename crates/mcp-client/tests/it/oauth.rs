//! Tokens of OAuth on requests over HTTP: the scripted server is both the MCP server and the authorization server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mcp_client::oauth::{Credentials, LogInReason, OAuthOptions};
use mcp_client::{Blame, Error, McpClient, ServerConfig, WireTrace};
use serde_json::json;

use crate::web::{Piece, Say, Seen, Web, against, echo, legacy, modern};

/// The state of the scripted servers.
#[derive(Default)]
pub(crate) struct Issuer {
    /// The number of issued tokens. The MCP server accepts only the newest one that is not revoked.
    issued: AtomicUsize,
    revoked: AtomicUsize,
    /// The lifetime of tokens in seconds; 0 stands for an hour.
    lifetime: u64,
}

impl Issuer {
    /// An issuer whose tokens live for four seconds.
    pub(crate) fn short_lived() -> Self {
        Self { lifetime: 4, ..Self::default() }
    }

    /// Answers requests to the authorization server, and refuses others without the newest token.
    pub(crate) fn answer(&self, seen: &Seen, otherwise: impl Fn(&Seen) -> Say) -> Say {
        let host = seen.header("host").unwrap();
        match seen.path.as_str() {
            "/.well-known/oauth-authorization-server" => Say::json(
                200,
                &json!({"issuer": format!("http://{host}"), "token_endpoint": format!("http://{host}/token")}),
            ),
            "/token" => {
                let lifetime = if self.lifetime == 0 { 3600 } else { self.lifetime };
                let number = self.issued.fetch_add(1, Ordering::SeqCst) + 1;
                let token = json!({"access_token": format!("issued-token-{number}"), "token_type": "Bearer", "expires_in": lifetime});
                Say::json(200, &token)
            }
            _ => {
                let newest = self.issued.load(Ordering::SeqCst);
                let is_good = seen.header("authorization") == Some(&format!("Bearer issued-token-{newest}"));
                if is_good && self.revoked.load(Ordering::SeqCst) < newest {
                    otherwise(seen)
                } else {
                    Say::status(401, &[("WWW-Authenticate", "Bearer error=\"invalid_token\"")], "")
                }
            }
        }
    }

    fn revoke_all(&self) {
        self.revoked.store(self.issued.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    pub(crate) fn issued(&self) -> usize {
        self.issued.load(Ordering::SeqCst)
    }
}

/// A service at the scripted authorization server.
pub(crate) fn service(web: &Web) -> OAuthOptions {
    let origin = web.url.strip_suffix("/mcp").unwrap();
    OAuthOptions::client_credentials(origin, "service").secret("s-123")
}

fn config(web: &Web) -> ServerConfig {
    ServerConfig::url(&web.url).oauth(service(web)).into()
}

fn calls(web: &Web) -> usize {
    web.count("tools/call")
}

#[tokio::test]
async fn without_a_login_nothing_is_sent() {
    against(modern, |web| async move {
        let origin = web.url.strip_suffix("/mcp").unwrap();
        let user = OAuthOptions::issuer(origin, "cli");
        let config = ServerConfig::url(&web.url).oauth(user);
        let connect = McpClient::builder(config).credentials(&Credentials::in_memory());
        let error = connect.connect().await.unwrap_err();
        let Error::LoginNeeded(needed) = &error else { panic!("{error:?}") };
        assert_eq!((needed.reason, needed.issuer.as_deref()), (LogInReason::NoCredential, Some(origin)));
        assert!(error.needs_login() && error.blame() == Blame::Caller, "{error}");
        assert_eq!(error.to_string(), format!("login needed for `{}`: nobody has logged in", web.url));
        assert!(web.seen().is_empty());
        // A query may be secret.
        let user = OAuthOptions::issuer(origin, "cli");
        let config = ServerConfig::url(format!("{}?key=hush", web.url)).oauth(user);
        let connect = McpClient::builder(config).credentials(&Credentials::in_memory());
        let error = connect.connect().await.unwrap_err();
        assert!(error.needs_login() && !format!("{error} {error:?}").contains("hush"), "{error:?}");
    })
    .await;
}

#[tokio::test]
async fn refused_token_is_replaced_and_the_call_sent_once_more() {
    for is_modern in [true, false] {
        let issuer = Arc::new(Issuer::default());
        let shared = Arc::clone(&issuer);
        let script = move |seen: &Seen| {
            shared.answer(seen, |seen| if is_modern { modern(seen) } else { legacy(seen, "s1") })
        };
        against(script, |web| async move {
            let issuer = &*issuer;
            let connect = McpClient::builder(config(&web)).credentials(&Credentials::in_memory());
            let client = connect.connect().await.unwrap();
            assert_eq!(echo(&client, "one").await.unwrap(), "one");
            assert_eq!((issuer.issued(), calls(&web)), (1, 1));
            issuer.revoke_all();
            assert_eq!(echo(&client, "two").await.unwrap(), "two");
            assert_eq!(issuer.issued(), 2);
            // Many calls at once lead to one refresh.
            issuer.revoke_all();
            let mut running = tokio::task::JoinSet::new();
            for number in 0..20 {
                let client = client.clone();
                running.spawn(async move { echo(&client, &number.to_string()).await.unwrap() });
            }
            assert_eq!(running.join_all().await.len(), 20);
            assert_eq!(issuer.issued(), 3);
            client.close().await;
        })
        .await;
    }
}

#[tokio::test]
async fn token_that_is_refused_again_is_an_error() {
    let issuer = Arc::new(Issuer::default());
    let shared = Arc::clone(&issuer);
    let refuse_calls = move |seen: &Seen| {
        shared.answer(seen, |seen| match seen.method() {
            "tools/call" => Say::status(401, &[("WWW-Authenticate", "Bearer")], ""),
            _ => modern(seen),
        })
    };
    against(refuse_calls, |web| async move {
        let connect = McpClient::builder(config(&web)).credentials(&Credentials::in_memory());
        let client = connect.connect().await.unwrap();
        let error = echo(&client, "one").await.unwrap_err();
        assert!(
            matches!(&error, Error::LoginNeeded(needed) if needed.reason == LogInReason::TokenRefused),
            "{error}"
        );
        assert_eq!((issuer.issued(), calls(&web)), (2, 2), "one more token, one more try");
        let again = echo(&client, "one").await.unwrap_err();
        assert!(again.needs_login() && again.is_retry_safe(), "{again}");
        assert_eq!((issuer.issued(), calls(&web)), (2, 2), "no token is requested for a while");
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn configured_header_takes_precedence_over_oauth() {
    let issuer = Arc::new(Issuer::default());
    let shared = Arc::clone(&issuer);
    let script = move |seen: &Seen| match seen.header("authorization") {
        Some("Bearer configured") => modern(seen),
        _ => shared.answer(seen, modern),
    };
    against(script, |web| async move {
        let config = ServerConfig::url(&web.url).bearer_token("configured").oauth(service(&web));
        let client =
            McpClient::builder(config).credentials(&Credentials::in_memory()).connect().await.unwrap();
        assert_eq!(echo(&client, "one").await.unwrap(), "one");
        assert_eq!(issuer.issued(), 0);
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn unreachable_authorization_server_is_a_retry_safe_error() {
    let script = |seen: &Seen| match seen.path.as_str() {
        "/.well-known/oauth-authorization-server" => Say::status(503, &[], ""),
        "/.well-known/openid-configuration" => Say::status(503, &[], ""),
        _ => modern(seen),
    };
    against(script, |web| async move {
        let connect = McpClient::builder(config(&web)).credentials(&Credentials::in_memory());
        let error = connect.connect().await.unwrap_err();
        assert!(matches!(error, Error::NoToken { .. }) && error.is_retry_safe(), "{error:?}");
        assert!(error.to_string().contains("HTTP status 503"), "{error}");
        assert_eq!(web.count("server/discover"), 0);
    })
    .await;
}

#[tokio::test]
async fn wire_trace_and_debug_show_no_token() {
    let issuer = Arc::new(Issuer::default());
    let shared = Arc::clone(&issuer);
    against(
        move |seen| shared.answer(seen, modern),
        |web| async move {
            let file = tempfile::NamedTempFile::new().unwrap();
            let trace = WireTrace::new(file.reopen().unwrap());
            let config = config(&web);
            let credentials = Credentials::in_memory();
            let connect = McpClient::builder(config.clone()).credentials(&credentials).wire_trace(&trace);
            let debug = format!("{connect:?} {config:?} {credentials:?}");
            let client = connect.connect().await.unwrap();
            echo(&client, "one").await.unwrap();
            let debug =
                format!("{debug} {client:?} {:?}", credentials.token_source(&config).unwrap().token().await);
            client.close().await;
            let traced = std::fs::read_to_string(file.path()).unwrap();
            assert!(traced.contains("tools/call"), "{traced}");
            for text in [traced, debug] {
                assert!(!text.contains("issued-token-1") && !text.contains("s-123"), "{text}");
            }
        },
    )
    .await;
}

#[tokio::test]
async fn token_is_not_sent_over_http_to_another_machine() {
    let user = OAuthOptions::issuer("https://as.example", "cli");
    let config = ServerConfig::url("http://mcp.example/mcp").oauth(user);
    let error = McpClient::connect(config).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid server config `http://mcp.example/mcp`: a token is not sent there: `http://mcp.example/mcp` needs \
         HTTPS; plain HTTP is allowed only for this machine"
    );
}

#[tokio::test]
async fn unknown_session_is_renewed_although_its_status_is_401() {
    let issuer = Arc::new(Issuer::default());
    let (shared, sessions) = (Arc::clone(&issuer), AtomicUsize::new(0));
    let script = move |seen: &Seen| {
        shared.answer(seen, |seen| {
            if seen.method() == "initialize" {
                sessions.fetch_add(1, Ordering::SeqCst);
            }
            let current = format!("s{}", sessions.load(Ordering::SeqCst));
            let is_first_call = seen.method() == "tools/call" && current == "s1";
            match seen.header("mcp-session-id") {
                Some(_) if is_first_call => Say::status(401, &[], ""),
                _ => legacy(seen, &current),
            }
        })
    };
    against(script, |web| async move {
        let connect = McpClient::builder(config(&web)).credentials(&Credentials::in_memory());
        let client = connect.connect().await.unwrap();
        assert_eq!(echo(&client, "one").await.unwrap(), "one");
        assert_eq!((issuer.issued(), web.count("initialize")), (1, 2), "the token is not the problem");
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn hostile_token_responses_are_bounded_errors() {
    let head = |length: usize| {
        format!("HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n")
    };
    let token = r#"{"access_token":"t-1"}"#;
    let flood = || (0..1600).map(|_| Piece::from("x".repeat(64 << 10))).collect::<Vec<_>>();
    let with_head = |length, rest: Vec<Piece>| {
        Say::Pieces(std::iter::once(Piece::from(head(length))).chain(rest).collect())
    };
    let attacks: Vec<(Say, &str)> = vec![
        (with_head(100 << 20, flood()), "larger than 262144 bytes"),
        (with_head(token.len() + 10, vec![token.to_owned().into()]), "/token: "),
        (with_head(token.len() / 2, vec![token.to_owned().into()]), "not JSON"),
        (Say::raw("HTTP/1.1 200 X\r\ncontent-ty"), "/token: "),
        (Say::raw("\0\0\0"), "does not speak HTTP"),
        (Say::json(200, &json!({"access_token": "a\r\nX-Evil: 1"})), "not allowed in a header"),
        (Say::json(200, &json!({"access_token": {"a": 1}})), "wrong type"),
        (
            Say::json(200, &json!({"access_token": "t", "expires_in": -1e300, "token_type": "mac"})),
            "type `mac`",
        ),
    ];
    for (attack, part) in attacks {
        let issuer = Issuer::default();
        let script = move |seen: &Seen| match seen.path.as_str() {
            "/token" => attack.clone(),
            _ => issuer.answer(seen, modern),
        };
        against(script, |web| async move {
            let connect = McpClient::builder(config(&web)).credentials(&Credentials::in_memory());
            let started = std::time::Instant::now();
            let error = connect.connect().await.unwrap_err();
            assert!(matches!(error, Error::NoToken { .. }), "{part}: {error:?}");
            assert!(error.to_string().contains(part), "{part}: {error}");
            assert!(started.elapsed().as_secs() < 5 && web.count("server/discover") == 0, "{part}");
        })
        .await;
    }
}
