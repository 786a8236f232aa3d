//! Logins for the scenarios about authorization.

use mcp_client::oauth::{Credentials, IdentityProvider, LoginPrompt, OAuthOptions};
use mcp_client::protocol::Json;
use mcp_client::{Connect, Error, McpClient, Result, ServerConfig};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The document that the suite expects as the client id. It is never fetched.
const CLIENT_DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";
/// The maximum number of logins in the middle of a connection.
const MAX_LOGINS: usize = 5;

/// Returns the connection of a scenario about authorization, without a token so far.
pub(super) fn connect(scenario: &str, url: &str, context: &Value) -> Connect {
    let text = |name: &str| context[name].as_str().map(str::to_owned);
    let mut oauth = match (text("issuer"), text("client_id")) {
        (Some(issuer), Some(id)) => OAuthOptions::issuer(issuer, id),
        (None, Some(id)) => OAuthOptions::discover().client_id(id),
        _ => OAuthOptions::discover(),
    };
    oauth = oauth.client_name("conformance-client").opens_browser(false);
    if let Some(secret) = text("client_secret") {
        oauth = oauth.secret(secret);
    }
    if let Some(key) = text("private_key_pem") {
        oauth = oauth.private_key(key, None);
    }
    if scenario.starts_with("auth/client-credentials") {
        oauth = oauth.for_service();
    }
    if let (Some(endpoint), Some(id), Some(token)) =
        (text("idp_token_endpoint"), text("idp_client_id"), text("idp_id_token"))
    {
        oauth = oauth.enterprise(IdentityProvider::new(endpoint, id, token));
    }
    if let Some(jwt) = text("valid_jwt") {
        oauth = oauth.workload_identity(jwt);
    }
    if scenario.starts_with("auth/dpop") {
        oauth = oauth.bound_tokens();
    }
    let oauth = oauth.client_document(CLIENT_DOCUMENT);
    McpClient::builder(ServerConfig::url(url).oauth(oauth))
        .credentials(&Credentials::in_memory())
        .on_login(log_in)
}

/// Lists the tools and calls each. Logs in again if the server wants more.
pub(super) async fn use_tools(client: &McpClient) -> Result<()> {
    for tool in again(|| client.list_tools()).await? {
        again(|| async { client.call(tool.name.clone(), Json::object()).await }).await?;
    }
    Ok(())
}

async fn again<T, F: Future<Output = Result<T>>>(attempt: impl Fn() -> F) -> Result<T> {
    for _ in 0..MAX_LOGINS {
        match attempt().await {
            Err(Error::LoginNeeded(needed)) => {
                if let Err(error) = needed.login(log_in).await {
                    eprintln!("login failed: {error}");
                    return Err(Error::LoginNeeded(needed));
                }
            }
            done => return done,
        }
    }
    attempt().await
}

/// Does what the user would do in the browser: the suite's page has no form and redirects at once.
async fn log_in(prompt: LoginPrompt) {
    let LoginPrompt::Browser { url, pasted, .. } = prompt else { return };
    match redirect_of(&url).await {
        Some(address) => pasted.send(address).await,
        None => eprintln!("the page of the login does not redirect"),
    }
}

/// Returns where a page redirects to.
async fn redirect_of(url: &str) -> Option<String> {
    let (host, path) = url.strip_prefix("http://")?.split_once('/')?;
    let mut stream = TcpStream::connect(host).await.ok()?;
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await.ok()?;
    let response = String::from_utf8_lossy(&response).into_owned();
    response.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("location").then(|| value.trim().to_owned())
    })
}
