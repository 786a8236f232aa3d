//! Tokens of OAuth for servers that are programs, and logins while connecting.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_client::credentials::MemoryStore;
use mcp_client::oauth::{CredentialEvent, Credentials, LogInReason, LoginPrompt, OAuthOptions};
use mcp_client::{
    CommandTarget, Error, McpClient, McpClientConfig, OAuthConfig, OAuthProvider, ServerConfig, TokenStorage,
    WireTrace,
};
use serde_json::json;

use crate::oauth::{Issuer, service};
use crate::support::peer;
use crate::web::{Piece, Say, Seen, Web, against, modern};

fn issuer_of(issuer: &Arc<Issuer>) -> impl Fn(&Seen) -> Say + Send + Sync + 'static {
    let issuer = Arc::clone(issuer);
    move |seen| issuer.answer(seen, modern)
}

/// A program whose token comes from the scripted issuer.
fn program(web: &Web, era: &str) -> ServerConfig<CommandTarget> {
    peer(&["--era", era]).oauth(service(web).name("notes").token_env("EXTRA"))
}

async fn variable(client: &McpClient, name: &str) -> String {
    client.call("variable", json!({"name": name})).await.unwrap().text()
}

#[tokio::test]
async fn program_receives_the_token_in_its_variables_only() {
    for era in ["legacy", "modern"] {
        let issuer = Arc::new(Issuer::default());
        against(issuer_of(&issuer), |web| async move {
            let file = tempfile::NamedTempFile::new().unwrap();
            let trace = WireTrace::new(file.reopen().unwrap());
            let connect = McpClient::builder(program(&web, era)).credentials(&Credentials::in_memory());
            let client = connect.wire_trace(&trace).connect().await.unwrap();
            let mut stderr = client.stderr().unwrap();
            assert_eq!(variable(&client, "MCP_OAUTH_TOKEN_NOTES").await, "issued-token-1");
            let line = stderr.next().await.unwrap();
            assert!(!format!("{line:?}").contains("issued-token-1"), "{line:?}");
            assert_eq!(variable(&client, "EXTRA").await, "issued-token-1");
            assert!(!format!("{client:?}").contains("issued-token-1"));
            assert_eq!(variable(&client, "GITHUB_PERSONAL_ACCESS_TOKEN").await, "(none)");
            client.close().await;
            let bystander = McpClient::connect(peer(&["--era", era])).await.unwrap();
            assert_eq!(variable(&bystander, "MCP_OAUTH_TOKEN_NOTES").await, "(none)");
            bystander.close().await;
            let traced = std::fs::read_to_string(file.path()).unwrap();
            assert!(traced.contains("variable"), "{traced}");
        })
        .await;
    }
}

#[tokio::test]
async fn program_is_not_started_without_a_login() {
    let marker = tempfile::NamedTempFile::new().unwrap();
    let options = OAuthOptions::issuer("https://as.invalid", "cli").scopes(["read"]);
    let config = peer(&["--lives", marker.path().to_str().unwrap()]).oauth(options);
    let error =
        McpClient::builder(config).credentials(&Credentials::in_memory()).connect().await.unwrap_err();
    let Error::LoginNeeded(needed) = &error else { panic!("{error:?}") };
    assert_eq!(
        (needed.reason, needed.issuer.as_deref()),
        (LogInReason::NoCredential, Some("https://as.invalid"))
    );
    assert!(needed.scopes == ["read"] && needed.server.contains("--lives"), "{needed:?}");
    assert_eq!(std::fs::read_to_string(marker.path()).unwrap(), "", "the program ran");
}

#[tokio::test]
async fn config_of_the_rfc_needs_a_login_before_anything_is_started() {
    let config = McpClientConfig {
        command: env!("CARGO_BIN_EXE_mcp-test-peer").to_owned(),
        args: vec!["server".to_owned()],
        oauth: Some(OAuthConfig {
            provider: OAuthProvider::Github,
            client_id: "Iv1".to_owned(),
            scopes: vec!["repo".to_owned()],
            token_storage: TokenStorage::Memory,
        }),
        ..McpClientConfig::default()
    };
    let error = McpClient::connect(config.clone()).await.unwrap_err();
    let Error::LoginNeeded(needed) = &error else { panic!("{error:?}") };
    assert_eq!(needed.issuer.as_deref(), Some("https://github.com/login/oauth"));
    // With an environment variable as its storage, the token comes from there.
    let mut from_variable = config;
    from_variable.oauth.as_mut().unwrap().token_storage = TokenStorage::Env;
    assert!(matches!(McpClient::connect(from_variable).await, Err(Error::LoginNeeded(_))));
}

#[tokio::test]
async fn program_is_restarted_with_a_new_token_between_two_calls() {
    let issuer = Arc::new(Issuer::short_lived());
    against(issuer_of(&issuer), |web| async move {
        let config = program(&web, "modern").restarts_with_new_token();
        let connect = McpClient::builder(config).credentials(&Credentials::in_memory());
        let client = connect.connect().await.unwrap();
        let first = client.process_group().unwrap();
        // A call that is in flight is not disturbed.
        let running = client.call("wait", json!({})).timeout(Duration::from_secs(5));
        assert!(running.await.unwrap_err().is_timeout());
        assert_eq!(client.process_group().unwrap(), first);
        let restarted = async {
            while client.ended().is_none() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), restarted).await.unwrap();
        let ended = client.ended().unwrap().to_string();
        assert!(ended.contains("restarts the program with a new token"), "{ended}");
        let token = variable(&client, "MCP_OAUTH_TOKEN_NOTES").await;
        assert!(token != "issued-token-1" && token.starts_with("issued-token-"), "{token}");
        assert_ne!(client.process_group().unwrap(), first);
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn program_that_is_not_restarted_is_reported_as_outdated() {
    let issuer = Arc::new(Issuer::short_lived());
    against(issuer_of(&issuer), |web| async move {
        let events = Arc::<Mutex<Vec<CredentialEvent>>>::default();
        let seen = Arc::clone(&events);
        let credentials = Credentials::in_memory().on_event(move |event| seen.lock().unwrap().push(event));
        let connect = McpClient::builder(program(&web, "legacy")).credentials(&credentials);
        let client = connect.connect().await.unwrap();
        for _ in 0..100 {
            if !events.lock().unwrap().is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let events = events.lock().unwrap().clone();
        let [CredentialEvent::Outdated { server, .. }] = &events[..] else { panic!("{events:?}") };
        assert!(server.contains("mcp-test-peer"), "{server}");
        assert_eq!(variable(&client, "MCP_OAUTH_TOKEN_NOTES").await, "issued-token-1");
        client.close().await;
    })
    .await;
}

/// An issuer at which the user accepts after a second, and an MCP server that wants its tokens.
fn issuer_with_device_login(issuer: &Arc<Issuer>) -> impl Fn(&Seen) -> Say + Send + Sync + 'static {
    let issuer = Arc::clone(issuer);
    move |seen| {
        let origin = format!("http://{}", seen.header("host").unwrap());
        match seen.path.as_str() {
            "/.well-known/oauth-authorization-server" => Say::json(
                200,
                &json!({
                    "issuer": origin,
                    "token_endpoint": format!("{origin}/token"),
                    "device_authorization_endpoint": format!("{origin}/device"),
                }),
            ),
            "/device" => Say::json(
                200,
                &json!({
                    "device_code": "d",
                    "user_code": "WDJB",
                    "verification_uri": format!("{origin}/page"),
                    "expires_in": 60,
                    "interval": 1,
                }),
            ),
            _ => issuer.answer(seen, modern),
        }
    }
}

#[tokio::test]
async fn time_of_a_login_while_connecting_does_not_count() {
    let issuer = Arc::new(Issuer::default());
    against(issuer_with_device_login(&issuer), |web| async move {
        let prompts = Arc::<Mutex<Vec<LoginPrompt>>>::default();
        let seen = Arc::clone(&prompts);
        let origin = web.url.strip_suffix("/mcp").unwrap();
        let config = ServerConfig::url(&web.url)
            .oauth(OAuthOptions::issuer(origin, "cli"))
            .start_timeout(Duration::from_millis(900));
        let connect = McpClient::builder(config.clone()).credentials(&Credentials::in_memory());
        let client = connect
            .on_login(move |prompt| {
                let seen = Arc::clone(&seen);
                async move { seen.lock().unwrap().push(prompt) }
            })
            .connect()
            .await
            .unwrap();
        assert_eq!(crate::web::echo(&client, "in").await.unwrap(), "in");
        assert_eq!((prompts.lock().unwrap().len(), issuer.issued()), (1, 1));
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn error_starts_the_login_that_it_asks_for() {
    let issuer = Arc::new(Issuer::default());
    against(issuer_with_device_login(&issuer), |web| async move {
        let origin = web.url.strip_suffix("/mcp").unwrap();
        let config = ServerConfig::url(&web.url).oauth(OAuthOptions::issuer(origin, "cli"));
        let credentials = Credentials::in_memory();
        let connect = || McpClient::builder(config.clone()).credentials(&credentials).connect();
        let error = connect().await.unwrap_err();
        let Error::LoginNeeded(needed) = error else { panic!("{error:?}") };
        let status = needed.login(|_| async {}).await.unwrap();
        assert_eq!((status.issuer.as_str(), status.client_id.as_str()), (origin, "cli"));
        let client = connect().await.unwrap();
        assert_eq!(crate::web::echo(&client, "in").await.unwrap(), "in");
        client.close().await;
        let report = credentials.logout(&config).await.unwrap();
        assert!(report.was_logged_in && report.store_error.is_none(), "{report:?}");
        assert!(matches!(connect().await, Err(Error::LoginNeeded(_))));
    })
    .await;
}

#[tokio::test]
async fn refused_login_ends_the_connecting_with_its_reason() {
    let issuer = Arc::new(Issuer::default());
    let device = issuer_with_device_login(&issuer);
    let refuse = move |seen: &Seen| match seen.path.as_str() {
        "/token" => Say::json(400, &json!({"error": "access_denied"})),
        _ => device(seen),
    };
    against(refuse, |web| async move {
        let origin = web.url.strip_suffix("/mcp").unwrap();
        let config = ServerConfig::url(&web.url).oauth(OAuthOptions::issuer(origin, "cli"));
        let connect = McpClient::builder(config).credentials(&Credentials::in_memory());
        let error = connect.on_login(|_| async {}).connect().await.unwrap_err();
        assert_eq!(error.to_string(), format!("no token for `{}`: the user refused the login", web.url));
        assert_eq!(web.count("server/discover"), 0);
    })
    .await;
}

#[tokio::test]
async fn close_waits_until_a_refreshed_token_is_saved() {
    let issuer = Arc::new(Issuer::default());
    let (device, requests) = (issuer_with_device_login(&issuer), AtomicUsize::new(0));
    let script = move |seen: &Seen| match seen.path.as_str() {
        "/token" => {
            let is_refresh = requests.fetch_add(1, Ordering::SeqCst) > 0;
            let token = if is_refresh {
                r#"{"access_token":"second","refresh_token":"r-2"}"#
            } else {
                r#"{"access_token":"first","refresh_token":"r-1","expires_in":4}"#
            };
            let head = "HTTP/1.1 200 X\r\ncontent-type: application/json\r\nconnection: close";
            let response = format!("{head}\r\ncontent-length: {}\r\n\r\n{token}", token.len());
            let wait = Duration::from_millis(if is_refresh { 500 } else { 0 });
            Say::Pieces(vec![Piece::Wait(wait), response.into()])
        }
        "/mcp" => modern(seen),
        _ => device(seen),
    };
    against(script, |web| async move {
        let origin = web.url.strip_suffix("/mcp").unwrap();
        let config = ServerConfig::url(&web.url).oauth(OAuthOptions::issuer(origin, "cli"));
        let store = MemoryStore::default();
        let credentials = Credentials::of(store.clone());
        let connect = McpClient::builder(config.clone()).credentials(&credentials);
        let client = connect.on_login(|_| async {}).connect().await.unwrap();
        // The token is due, and still valid.
        tokio::time::sleep(Duration::from_millis(3100)).await;
        assert_eq!(crate::web::echo(&client, "one").await.unwrap(), "one");
        let shutdown = client.close().await;
        assert!(!shutdown.is_token_unsaved);
        let stored = Credentials::of(store).token_source(&config).unwrap().token().await.unwrap();
        assert_eq!(stored.access_token().expose(), "second");
    })
    .await;
}
