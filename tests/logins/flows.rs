//! Each flow once: logins that are approved, refused, late and cancelled; services; refresh; revocation.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_client::async_trait;
use mcp_client::credentials::{
    CredentialKey, Dialog, MemoryStore, Secret, StoreError, StoreLock, TokenStore,
};
use mcp_client::oauth::{Credentials, LogInReason, OAuthError, OAuthOptions};
use mcp_client::{McpClient, ServerConfig};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::browser;
use crate::canary::{Canary, MAY_HAVE_TOKEN};
use crate::protected::Protected;
use crate::server::{Server, config};

/// The secrets of two clients, as in `server.mjs`.
const BASIC_SECRET: &str = "secret of basic%+&:=0123";
const POST_SECRET: &str = "secret-of-post-0123456789";

/// Runs the flows. Returns the secrets that were issued.
pub(crate) async fn run(folder: &Path, canary: &Canary) -> Vec<String> {
    let server = Server::start(folder);
    device(&server, canary).await;
    services(&server, canary).await;
    refresh_and_reuse(&server, canary).await;
    logout(&server, canary).await;
    examples(&server, canary).await;
    program(&server, canary).await;
    let tokens = browser::run(&server, canary).await;
    let own = [BASIC_SECRET, POST_SECRET].map(str::to_owned);
    server.secrets().await.into_iter().chain(own).chain(tokens).chain(server.key_lines()).collect()
}

fn step(name: &str) {
    println!("ok  {name}");
}

async fn device(server: &Server, canary: &Canary) {
    let credentials = Credentials::in_memory();
    let cli = server.user("cli");
    assert!(credentials.status(&cli).await.unwrap().is_none());
    let status = server.log_in(&credentials, &cli, "approve").await.unwrap();
    assert_eq!((status.issuer.as_str(), status.client_id.as_str()), (server.issuer.as_str(), "cli"));
    assert!(status.can_refresh && status.expires_at.is_some());
    assert_eq!(credentials.status(&cli).await.unwrap().unwrap(), status);
    let token = credentials.token_source(&cli).unwrap().token().await.unwrap();
    assert!(server.accepts(token.access_token().expose()).await);
    canary.note_debug(&(&credentials, &cli, &status, &token));
    step("device login, approved");

    let other = Credentials::in_memory();
    let error = server.log_in(&other, &cli, "refuse").await.unwrap_err();
    assert!(matches!(error, OAuthError::RefusedByUser), "{error}");
    canary.note_debug(&error);
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

async fn services(server: &Server, canary: &Canary) {
    let service = |name: &str| OAuthOptions::client_credentials(&server.issuer, name).scopes(["notes:read"]);
    let good = [
        ("client_secret_basic", service("service-basic").secret(BASIC_SECRET)),
        ("client_secret_post", service("service-post").secret(POST_SECRET).secret_in_form()),
        ("private_key_jwt", service("service-key").private_key(&server.key, Some("k1".to_owned()))),
    ];
    for (name, options) in good {
        let options_shown = format!("{options:?}");
        let source = Credentials::in_memory().token_source(&config(options)).unwrap();
        let token = source.token().await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(server.accepts(token.access_token().expose()).await, "{name}");
        // The next one is requested only when this one is refused or has expired.
        let again = source.token().await.unwrap();
        assert_eq!(again.access_token().expose(), token.access_token().expose());
        let next = source.token_after_refusal(&token).await.unwrap();
        assert_ne!(next.access_token().expose(), token.access_token().expose());
        canary.note_debug(&(&options_shown, &source, &next));
        step(&format!("client credentials, {name}"));
    }
    let wrong = service("service-basic").secret("wrong");
    let error = Credentials::in_memory().token_source(&config(wrong)).unwrap().token().await.unwrap_err();
    assert!(matches!(error, OAuthError::LoginNeeded(LogInReason::ClientRefused)), "{error}");
    canary.note_debug(&error);
    step("client credentials, wrong secret");
}

async fn refresh_and_reuse(server: &Server, canary: &Canary) {
    let (store, cli) = (Remembering::default(), server.user("cli"));
    let credentials = Credentials::of(store.clone());
    server.log_in(&credentials, &cli, "approve").await.unwrap();
    let source = credentials.token_source(&cli).unwrap();
    let mut token = source.token().await.unwrap();
    for _ in 0..3 {
        let next = source.token_after_refusal(&token).await.unwrap();
        assert_ne!(next.access_token().expose(), token.access_token().expose());
        assert!(server.accepts(next.access_token().expose()).await);
        token = next;
    }
    canary.note_debug(&(&source, &token));
    assert_eq!(server.counts().await.get("refresh_token ok"), Some(&3));
    assert_eq!(server.counts().await.get("refresh_token invalid_grant"), None);
    step("refresh with rotation");

    // Somebody else has a copy of the first refresh token, and redeems it again.
    let thief = Credentials::of(store.first_saved().await);
    let stolen = thief.token_source(&cli).unwrap();
    let old = stolen.token().await.unwrap();
    let error = stolen.token_after_refusal(&old).await.map(drop).unwrap_err();
    assert!(matches!(error, OAuthError::LoginNeeded(LogInReason::Refused)), "{error}");
    assert!(thief.status(&cli).await.unwrap().is_none(), "the spent token is not kept");
    assert!(!server.accepts(token.access_token().expose()).await, "the server ended the whole login");
    assert_eq!(server.counts().await.get("refresh_token invalid_grant"), Some(&1));
    let error = source.token_after_refusal(&token).await.map(drop).unwrap_err();
    assert!(matches!(error, OAuthError::LoginNeeded(LogInReason::Refused)), "{error}");
    step("refresh token that is used again ends the login");
}

/// A store in memory that remembers the first text.
#[derive(Clone, Default)]
struct Remembering {
    store: MemoryStore,
    first: Arc<Mutex<Option<(CredentialKey, Secret)>>>,
}

impl Remembering {
    /// Returns a store with the text that was saved first under the key of the login.
    async fn first_saved(&self) -> MemoryStore {
        let (key, text) = self.first.lock().unwrap().clone().expect("a saved login");
        let store = MemoryStore::default();
        store.save(&key, &text, Dialog::Allowed).await.unwrap();
        store
    }
}

#[async_trait]
impl TokenStore for Remembering {
    fn describe(&self) -> String {
        self.store.describe()
    }

    async fn load(&self, key: &CredentialKey, dialog: Dialog) -> Result<Option<Secret>, StoreError> {
        self.store.load(key, dialog).await
    }

    async fn save(&self, key: &CredentialKey, secret: &Secret, dialog: Dialog) -> Result<(), StoreError> {
        // A login first saves a text of its own, to test the store.
        if secret.expose().starts_with('{') {
            self.first.lock().unwrap().get_or_insert_with(|| (key.clone(), secret.clone()));
        }
        self.store.save(key, secret, dialog).await
    }

    async fn delete(&self, key: &CredentialKey, dialog: Dialog) -> Result<bool, StoreError> {
        self.store.delete(key, dialog).await
    }

    async fn lock(&self, key: &CredentialKey, timeout: Duration) -> Result<StoreLock, StoreError> {
        self.store.lock(key, timeout).await
    }
}

async fn logout(server: &Server, canary: &Canary) {
    let (credentials, cli) = (Credentials::in_memory(), server.user("cli"));
    server.log_in(&credentials, &cli, "approve").await.unwrap();
    let source = credentials.token_source(&cli).unwrap();
    let token = source.token().await.unwrap();
    let report = credentials.logout(&cli).await.unwrap();
    assert!(report.was_logged_in && report.is_revoked, "{report:?}");
    canary.note_debug(&report);
    assert!(report.revocation_error.is_none() && report.store_error.is_none(), "{report:?}");
    assert!(!server.accepts(token.access_token().expose()).await, "the login is over at the server");
    assert!(matches!(source.token().await, Err(OAuthError::LoginNeeded(_))));
    let again = credentials.logout(&cli).await.unwrap();
    assert!(!again.was_logged_in && !again.is_revoked);
    step("logout with revocation");
}

/// Runs the examples as a user would, with a home folder of their own.
async fn examples(server: &Server, canary: &Canary) {
    let protected = Protected::start(&server.issuer, &[]).await;
    let home = tempfile::tempdir().unwrap();
    let program = |name: &str| {
        let program = std::env::current_exe().unwrap().with_file_name(name);
        let mut process = tokio::process::Command::new(program);
        process.env("MCP_HOME", home.path()).stdin(Stdio::null());
        process
    };
    let run = |words: &[&str]| {
        let mut process = program("example-device-login");
        process.args([server.issuer.as_str(), "cli", protected.url.as_str()]).args(words);
        process
    };
    let output = async |words: &[&str]| {
        let output = run(words).output().await.unwrap();
        let [out, error] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        canary.note(format!("{out}{error}"));
        assert!(output.status.success(), "{error}");
        out.trim().to_owned()
    };
    assert_eq!(output(&["status"]).await, "not logged in");
    let too_early = run(&["call", "hello", r#"{"name": "Ada"}"#]).output().await.unwrap();
    let error = String::from_utf8(too_early.stderr).unwrap();
    assert!(error.contains("login needed") && !too_early.status.success(), "{error}");
    let mut login = run(&["login"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut shown = BufReader::new(login.stderr.take().unwrap()).lines();
    let page = loop {
        let line = shown.next_line().await.unwrap().expect("a page");
        canary.note(line.clone());
        if line.contains("user_code=") {
            break line.trim().to_owned();
        }
    };
    server.browser().open_page(&page, "approve").await;
    let output_of_login = login.wait_with_output().await.unwrap();
    let text = String::from_utf8(output_of_login.stdout).unwrap();
    canary.note(text.clone());
    assert!(text.starts_with("logged in; the token is in: keychain"), "{text}");
    assert!(output(&["status"]).await.starts_with("logged in at http://127.0.0.1:"));
    assert_eq!(output(&["call", "hello", r#"{"name": "Ada"}"#]).await, "Hello, Ada!");
    assert_eq!(output(&["logout"]).await, "logged out");
    assert_eq!(output(&["logout"]).await, "you were not logged in");
    step("examples/device_login logs in, calls and logs out");

    let service = |secret: &str| {
        let mut process = program("example-service");
        process.args([&server.issuer, "service-basic", &protected.url]).env("BILLING_SECRET", secret);
        // The user set the secret in the environment of this process.
        process.env(MAY_HAVE_TOKEN, "1");
        process
    };
    let listed = service(BASIC_SECRET).output().await.unwrap();
    let [out, error] = [listed.stdout, listed.stderr].map(|text| String::from_utf8(text).unwrap());
    assert_eq!(out.trim(), "delete\nhello\nwhoami", "{error}");
    let refused = service("wrong").output().await.unwrap();
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(error.contains("login needed") && !refused.status.success(), "{error}");
    canary.note(format!("{out}{error}"));
    canary.note_files(home.path());
    step("examples/service calls with its own credentials");
}

/// A server that is a program receives the token, and another one does not.
async fn program(server: &Server, canary: &Canary) {
    let peer = std::env::current_exe().unwrap().with_file_name("mcp-test-peer");
    let options = OAuthOptions::issuer(&server.issuer, "cli").name("peer").scopes(["offline_access"]);
    let config = ServerConfig::command(&peer).arg("server").env(MAY_HAVE_TOKEN, "1").oauth(options);
    let credentials = Credentials::in_memory().on_event(canary.event_noter());
    let (trace, browser) = (canary.wire_trace(), server.browser());
    let client = McpClient::builder(config)
        .credentials(&credentials)
        .wire_trace(&trace)
        .on_login(move |prompt| {
            let browser = browser.clone();
            async move { browser.decide(prompt, "approve").await }
        })
        .connect()
        .await
        .unwrap();
    let variable = async |client: &McpClient| {
        let name = serde_json::json!({"name": "MCP_OAUTH_TOKEN_PEER"});
        client.call("variable", name).await.unwrap().text()
    };
    let mut stderr = client.stderr().unwrap();
    assert!(server.accepts(&variable(&client).await).await, "the program has a valid token");
    canary.note_debug(&(&client, stderr.next().await));
    let bystander =
        McpClient::connect(ServerConfig::command(&peer).arg("server").inherit_environment()).await;
    let bystander = bystander.unwrap();
    assert_eq!(variable(&bystander).await, "(none)");
    bystander.close().await;
    client.close().await;
    step("program with a token in its environment");
}
