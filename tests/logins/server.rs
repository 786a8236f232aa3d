//! The authorization server, and the user who logs in at it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use mcp_client::ServerConfig;
use mcp_client::oauth::{Credentials, LoginPrompt, LoginStatus, OAuthError, OAuthOptions};

/// The MCP server for which the tokens are.
pub(crate) const RESOURCE: &str = "https://mcp.example.com/mcp";

/// The config of the MCP server with these options.
pub(crate) fn config(options: OAuthOptions) -> ServerConfig {
    ServerConfig::url(RESOURCE).oauth(options).into()
}

/// The config for a user who logs in with this client.
pub(crate) fn user(issuer: &str, client: &str) -> ServerConfig {
    config(OAuthOptions::issuer(issuer, client).scopes(["openid", "offline_access", "notes:read"]))
}

pub(crate) struct Server {
    process: Child,
    /// Kept open: a server whose output nobody reads may end.
    _output: BufReader<ChildStdout>,
    folder: PathBuf,
    pub(crate) issuer: String,
    /// The private key of the client `service-key`, in PEM.
    pub(crate) key: String,
}

impl Server {
    pub(crate) fn start(folder: &Path) -> Self {
        let key = std::fs::read_to_string(folder.join("key.pem")).unwrap();
        let mut process = Command::new("node")
            .arg(folder.join("server.mjs"))
            .arg(folder.join("key.jwk"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut issuer = String::new();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        output.read_line(&mut issuer).unwrap();
        assert!(issuer.starts_with("http://127.0.0.1:"), "the authorization server does not start: {issuer}");
        Self { process, _output: output, folder: folder.to_owned(), issuer: issuer.trim().to_owned(), key }
    }

    /// The config for a user who logs in with this client.
    pub(crate) fn user(&self, client: &str) -> ServerConfig {
        user(&self.issuer, client)
    }

    /// Returns the scripted user.
    pub(crate) fn browser(&self) -> Browser {
        Browser { script: self.folder.join("user.mjs") }
    }

    /// Returns the lines of the private key, which are secret.
    pub(crate) fn key_lines(&self) -> Vec<String> {
        self.key.lines().filter(|line| line.len() > 20 && !line.starts_with('-')).map(str::to_owned).collect()
    }

    pub(crate) async fn log_in(
        &self,
        credentials: &Credentials,
        config: &ServerConfig,
        decision: &str,
    ) -> Result<LoginStatus, OAuthError> {
        credentials.login(config, |prompt| async { self.browser().decide(prompt, decision).await }).await
    }

    /// Returns how often each grant succeeded or failed.
    pub(crate) async fn counts(&self) -> BTreeMap<String, u64> {
        serde_json::from_str(&get(&format!("{}/counts", self.issuer), None).await.1).unwrap()
    }

    /// Returns everything that the server issued and nobody else may see.
    pub(crate) async fn secrets(&self) -> Vec<String> {
        serde_json::from_str(&get(&format!("{}/secrets", self.issuer), None).await.1).unwrap()
    }

    pub(crate) async fn accepts(&self, token: &str) -> bool {
        accepts(&self.issuer, token).await
    }
}

/// A user with a browser.
#[derive(Clone)]
pub(crate) struct Browser {
    script: PathBuf,
}

impl Browser {
    /// Opens the page of a prompt, and decides.
    pub(crate) async fn decide(&self, prompt: LoginPrompt, decision: &str) {
        let LoginPrompt::DeviceCode { url_with_code: Some(url), .. } = prompt else { panic!("{prompt:?}") };
        self.open_page(&url, decision).await;
    }

    /// Returns the command that opens a page in Chromium, logs in and decides.
    pub(crate) fn command(&self, decision: &str) -> String {
        format!("node {} %s {decision}", self.script.with_file_name("browser.mjs").display())
    }

    /// Opens a page in Chromium, logs in and decides. Returns the text of the page at which the browser ends.
    pub(crate) async fn visit(&self, url: &str, decision: &str) -> String {
        let script = self.script.with_file_name("browser.mjs");
        let user =
            tokio::process::Command::new("node").arg(script).args([url, decision]).output().await.unwrap();
        let [page, problem] = [user.stdout, user.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(user.status.success(), "{problem}");
        page
    }

    /// Opens a page and decides.
    pub(crate) async fn open_page(&self, url: &str, decision: &str) {
        let user = tokio::process::Command::new("node").arg(&self.script).args([url, decision]).status();
        assert!(user.await.unwrap().success(), "the user cannot decide");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Tells whether a token is valid at the server, for the MCP server of the tests.
pub(crate) async fn accepts(issuer: &str, token: &str) -> bool {
    get(&format!("{issuer}/check"), Some(token)).await.0 == 200
}

/// A GET with a plain socket, so that nothing of ours is in between.
pub(crate) async fn get(url: &str, token: Option<&str>) -> (u16, String) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let authorization = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let mut stream = tokio::net::TcpStream::connect(host).await.unwrap();
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{authorization}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}
