//! Each flow once: logins that are approved, refused, late and cancelled; services; refresh; revocation.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use mcp_client::oauth::{Credentials, LogInReason, OAuthError, OAuthOptions};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::server::{RESOURCE, Server, config};

pub(crate) async fn run(folder: &Path) {
    let server = Server::start(folder);
    device(&server).await;
    services(&server).await;
    refresh_and_reuse(&server).await;
    logout(&server).await;
    examples(&server).await;
}

fn step(name: &str) {
    println!("ok  {name}");
}

async fn device(server: &Server) {
    let credentials = Credentials::in_memory();
    let cli = server.user("cli");
    assert!(credentials.status(&cli).await.unwrap().is_none());
    let status = server.log_in(&credentials, &cli, "approve").await.unwrap();
    assert_eq!((status.issuer.as_str(), status.client_id.as_str()), (server.issuer.as_str(), "cli"));
    assert!(status.can_refresh && status.expires_at.is_some());
    assert_eq!(credentials.status(&cli).await.unwrap().unwrap(), status);
    let token = credentials.token_source(&cli).unwrap().token().await.unwrap();
    assert!(server.accepts(token.access_token().expose()).await);
    step("device login, approved");

    let other = Credentials::in_memory();
    let error = server.log_in(&other, &cli, "refuse").await.unwrap_err();
    assert!(matches!(error, OAuthError::RefusedByUser), "{error}");
    step("device login, refused");

    let error = other.login(&server.user("cli-late"), |_| async {}).await.unwrap_err();
    assert!(matches!(error, OAuthError::Expired), "{error}");
    step("device login, expired");

    let cancelled = other.login(&cli, |_| async {});
    assert!(tokio::time::timeout(Duration::from_secs(1), cancelled).await.is_err());
    assert!(other.status(&cli).await.unwrap().is_none());
    step("device login, cancelled");

    let unknown = other.login(&server.user("nobody"), |_| async {}).await.unwrap_err();
    assert!(unknown.to_string().contains("invalid_client"), "{unknown}");
    step("device login of an unknown client");
}

async fn services(server: &Server) {
    let service = |name: &str| OAuthOptions::client_credentials(&server.issuer, name).scopes(["notes:read"]);
    let good = [
        ("client_secret_basic", service("service-basic").secret("s-basic%+ &:=")),
        ("client_secret_post", service("service-post").secret("s-post").secret_in_form()),
        ("private_key_jwt", service("service-key").private_key(&server.key, Some("k1".to_owned()))),
    ];
    for (name, options) in good {
        let source = Credentials::in_memory().token_source(&config(options)).unwrap();
        let token = source.token().await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(server.accepts(token.access_token().expose()).await, "{name}");
        // The next one is requested only when this one is refused or has expired.
        let again = source.token().await.unwrap();
        assert_eq!(again.access_token().expose(), token.access_token().expose());
        let next = source.token_after_refusal(&token).await.unwrap();
        assert_ne!(next.access_token().expose(), token.access_token().expose());
        step(&format!("client credentials, {name}"));
    }
    let wrong = service("service-basic").secret("wrong");
    let error = Credentials::in_memory().token_source(&config(wrong)).unwrap().token().await.unwrap_err();
    assert!(matches!(error, OAuthError::LoginNeeded(LogInReason::ClientRefused)), "{error}");
    step("client credentials, wrong secret");
}

async fn refresh_and_reuse(server: &Server) {
    let (credentials, cli) = (Credentials::in_memory(), server.user("cli"));
    server.log_in(&credentials, &cli, "approve").await.unwrap();
    let source = credentials.token_source(&cli).unwrap();
    let mut token = source.token().await.unwrap();
    for _ in 0..3 {
        let next = source.token_after_refusal(&token).await.unwrap();
        assert_ne!(next.access_token().expose(), token.access_token().expose());
        assert!(server.accepts(next.access_token().expose()).await);
        token = next;
    }
    assert_eq!(server.counts().await.get("refresh_token ok"), Some(&3));
    assert_eq!(server.counts().await.get("refresh_token invalid_grant"), None);
    step("refresh with rotation");
}

async fn logout(server: &Server) {
    let (credentials, cli) = (Credentials::in_memory(), server.user("cli"));
    server.log_in(&credentials, &cli, "approve").await.unwrap();
    let source = credentials.token_source(&cli).unwrap();
    let token = source.token().await.unwrap();
    let report = credentials.logout(&cli).await.unwrap();
    assert!(report.was_logged_in && report.is_revoked, "{report:?}");
    assert!(report.revocation_error.is_none() && report.store_error.is_none(), "{report:?}");
    assert!(!server.accepts(token.access_token().expose()).await, "the login is over at the server");
    assert!(matches!(source.token().await, Err(OAuthError::LoginNeeded(_))));
    let again = credentials.logout(&cli).await.unwrap();
    assert!(!again.was_logged_in && !again.is_revoked);
    step("logout with revocation");
}

/// Runs `examples/device_login` as a user would, with a home folder of its own.
async fn examples(server: &Server) {
    let home = tempfile::tempdir().unwrap();
    let program = std::env::current_exe().unwrap().with_file_name("example-device-login");
    let run = |command: &str| {
        let mut process = tokio::process::Command::new(&program);
        process.args([server.issuer.as_str(), "cli", RESOURCE, command]).env("MCP_HOME", home.path());
        process
    };
    let output = async |command: &str| {
        let output = run(command).output().await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(output("status").await, "not logged in");
    let mut login = run("login").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut shown = BufReader::new(login.stderr.take().unwrap()).lines();
    let page = loop {
        let line = shown.next_line().await.unwrap().expect("a page");
        if line.contains("user_code=") {
            break line.trim().to_owned();
        }
    };
    server.open_page(&page, "approve").await;
    let output_of_login = login.wait_with_output().await.unwrap();
    let text = String::from_utf8(output_of_login.stdout).unwrap();
    assert!(text.starts_with("logged in; the token is in: keychain"), "{text}");
    assert!(output("status").await.starts_with("logged in at http://127.0.0.1:"));
    assert_eq!(output("logout").await, "logged out");
    assert_eq!(output("logout").await, "you were not logged in");
    step("examples/device_login");
}
