//! Logins of a user with a real browser, at a server that names its authorization server.

use std::process::Stdio;

use mcp_client::credentials::MemoryStore;
use mcp_client::oauth::{Credentials, LogInReason, LoginMethod, LoginPrompt, OAuthError, OAuthOptions};
use mcp_client::protocol::negotiation::Mode;
use mcp_client::{Error, McpClient, ServerConfig};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::canary::Canary;
use crate::protected::Protected;
use crate::server::{Browser, Server};

/// Runs the flows. Returns the tokens that were issued.
pub(crate) async fn run(server: &Server, canary: &Canary) -> Vec<String> {
    let mut tokens = Vec::new();
    let protected = Protected::start(&server.issuer, &["notes:read"]).await;
    let (store, browser) = (MemoryStore::default(), server.browser());
    let credentials = Credentials::of(store.clone());
    for era in [Mode::Auto, Mode::Legacy] {
        let trace = canary.wire_trace();
        let shown = browser.clone();
        let client = McpClient::builder(config(&protected.url))
            .era(era)
            .credentials(&credentials)
            .wire_trace(&trace)
            .on_login(move |prompt| {
                let browser = shown.clone();
                async move { approve(&browser, prompt).await }
            })
            .connect()
            .await
            .unwrap();
        let greeting = client.call("hello", json!({"name": "Ada"})).await.unwrap().text();
        assert_eq!(greeting, "Hello, Ada!");
        let caller = client.call("whoami", json!({})).await.unwrap().text();
        assert!(caller.contains("ada") && caller.contains(&server.issuer), "{caller}");
        canary.note_debug(&(&client, &credentials, &caller));

        // The first time, the login does not include the scope of this tool.
        match client.call("delete", json!({})).await {
            Err(Error::LoginNeeded(needed)) => {
                assert_eq!(needed.reason, LogInReason::ScopeMissing);
                assert!(needed.scopes.contains(&"notes:write".to_owned()), "{needed:?}");
                canary.note_debug(&needed);
                needed.login(|prompt| approve(&browser, prompt)).await.unwrap();
                assert_eq!(client.call("delete", json!({})).await.unwrap().text(), "deleted");
                step("more scopes when a tool needs them");
            }
            deleted => assert_eq!(deleted.unwrap().text(), "deleted"),
        }
        client.close().await;
    }
    assert_eq!(server.counts().await.get("registration"), Some(&1), "one registration for all logins");
    step("login with a browser at a server that names its authorization server, in both eras");

    let source = credentials.token_source(&config(&protected.url)).unwrap();
    let token = source.token().await.unwrap();
    let next = source.token_after_refusal(&token).await.unwrap();
    assert_ne!(token.access_token().expose(), next.access_token().expose());
    tokens.extend([&token, &next].map(|token| token.access_token().expose().to_owned()));
    let client =
        McpClient::builder(config(&protected.url)).credentials(&credentials).connect().await.unwrap();
    assert_eq!(client.call("delete", json!({})).await.unwrap().text(), "deleted");
    client.close().await;
    step("refresh of a registered client");

    // A token for another server is not accepted, and asks for a login that does not help the thief.
    let other = Protected::start(&server.issuer, &["notes:read"]).await;
    let stolen = ServerConfig::url(&other.url).bearer_token(next.access_token().expose());
    let error = McpClient::connect(stolen).await.unwrap_err();
    assert!(matches!(error, Error::Unauthorized { status: 401, .. }), "{error}");
    canary.note_debug(&error);
    step("token for another server is refused");

    let (refused, unknown) = (config(&protected.url), Credentials::in_memory());
    let login = unknown.login(&refused, |prompt| async {
        let LoginPrompt::Browser { url, .. } = prompt else { panic!("{prompt:?}") };
        assert!(browser.visit(&url, "refuse").await.contains("The login failed."));
    });
    let error = login.await.unwrap_err();
    assert!(matches!(error, OAuthError::RefusedByUser), "{error}");
    step("login with a browser, refused");

    let report = credentials.logout(&config(&protected.url)).await.unwrap();
    assert!(report.was_logged_in && report.is_revoked, "{report:?}");
    step("logout of a registered client");
    examples(server, canary).await;
    tokens
}

/// Runs both examples as a user would, with a home folder of their own. The program opens the browser itself.
async fn examples(server: &Server, canary: &Canary) {
    let program = |name: &str| std::env::current_exe().unwrap().with_file_name(name);
    let mut serving = tokio::process::Command::new(program("example-protected-server"))
        .args([&server.issuer, "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let url = BufReader::new(serving.stdout.take().unwrap()).lines().next_line().await.unwrap().unwrap();
    let home = tempfile::tempdir().unwrap();
    let run = async |words: &[&str]| {
        let mut process = tokio::process::Command::new(program("example-login-in-cli"));
        process.arg(&url).args(words).env("MCP_HOME", home.path()).stdin(Stdio::null());
        // The variable tells how a browser is opened; it may also be somebody's text browser.
        process.env("BROWSER", server.browser().command("approve"));
        let output = process.output().await.unwrap();
        let [out, error] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        canary.note(format!("{out}{error}"));
        assert!(output.status.success(), "{error}");
        (out.trim().to_owned(), error)
    };
    let (caller, shown) = run(&["call", "whoami"]).await;
    assert!(caller.starts_with("ada calls through "), "{caller}");
    assert!(shown.contains("use the page that was opened in your browser"), "{shown}");
    let (deleted, shown) = run(&["call", "delete"]).await;
    assert_eq!(deleted, "deleted");
    assert!(shown.contains("The tool needs more permissions:") && shown.contains("notes:write"), "{shown}");
    let (deleted, shown) = run(&["call", "delete"]).await;
    assert_eq!((deleted.as_str(), shown.as_str()), ("deleted", ""), "the login is kept");
    assert_eq!(run(&["logout"]).await.0, "logged out");
    canary.note_files(home.path());
    step("examples/login_in_cli logs in with a browser at examples/protected_server");
}

fn config(url: &str) -> ServerConfig {
    let oauth = OAuthOptions::discover().client_name("tests of mcp-client");
    // Chromium is opened by the tests, not by the client.
    let oauth = oauth.method(LoginMethod::Browser).opens_browser(false);
    ServerConfig::url(url).oauth(oauth).into()
}

async fn approve(browser: &Browser, prompt: LoginPrompt) {
    let LoginPrompt::Browser { url, .. } = prompt else { panic!("{prompt:?}") };
    let page = browser.visit(&url, "approve").await;
    assert!(page.contains("You are logged in."), "{page}");
}

fn step(name: &str) {
    println!("ok  {name}");
}
