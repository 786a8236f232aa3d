//! Logins with a browser: the authorization code flow with PKCE (RFC 6749, RFC 7636).

use std::pin::pin;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_protocol::oauth::redirect::ExpectedRedirect;
use mcp_protocol::oauth::scopes::Scopes;
use tokio::sync::mpsc;

use super::browser::{self, OpenedPage};
use super::clock::unix_time;
use super::credential::{Credential, Details};
use super::discover::Discovery;
use super::endpoint::page_url;
use super::error::OAuthError;
use super::grants::Grants;
use super::listener::RedirectListener;
use super::login_server::LoginServer;
use super::prompt::{LoginPrompt, PastedAddress};
use super::resolve::Resolved;
use crate::credentials::{Secret, random_bytes, random_id};

/// The time in which the user has to log in.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// The maximum number of pasted texts that wait to be read.
const MAX_PASTED: usize = 4;

/// Lets a user log in with a browser.
pub(super) async fn log_in<F, Fut>(
    server: &LoginServer,
    found: &Discovery,
    resolved: &Resolved,
    listener: RedirectListener,
    prompt: F,
) -> Result<Credential, OAuthError>
where
    F: FnOnce(LoginPrompt) -> Fut,
    Fut: Future<Output = ()>,
{
    let verifier = Secret::new(URL_SAFE_NO_PAD.encode(random_bytes::<32>()));
    let state = random_id();
    let redirect = listener.address();
    let page = page(&resolved.grants, found, &redirect, &state, &verifier)?;
    let opens = server.options.opens_browser && browser::can_open();
    let opened = if opens { opened(&page) } else { None };
    let (sender, mut pasted) = mpsc::channel(MAX_PASTED);
    let mut prompt = pin!(prompt(LoginPrompt::Browser {
        server: server.name.clone(),
        issuer: found.issuer.clone(),
        url: page,
        is_opened: opened.is_some(),
        pasted: PastedAddress::new(sender),
    }));
    let names_issuer = found.endpoints.names_issuer;
    let expected = ExpectedRedirect { state: &state, issuer: &found.issuer, names_issuer };
    let mut code = pin!(tokio::time::timeout(LOGIN_TIMEOUT, listener.code(&expected, &mut pasted)));
    let mut is_shown = false;
    let code = loop {
        tokio::select! {
            code = &mut code => break code.unwrap_or(Err(OAuthError::Expired))?,
            () = &mut prompt, if !is_shown => is_shown = true,
        }
    };
    let issued = resolved.grants.redeem_code(&Secret::new(code), &verifier, &redirect).await?;
    let details = Details::new(resolved, &found.scopes, &random_id());
    Ok(Credential::issued(issued, resolved, details, unix_time()))
}

fn opened(page: &str) -> Option<OpenedPage> {
    browser::open(page).map_err(|problem| tracing::warn!(%problem, "cannot open a browser")).ok()
}

/// Returns the page at which the user logs in.
fn page(
    grants: &Grants,
    found: &Discovery,
    redirect: &str,
    state: &str,
    verifier: &Secret,
) -> Result<String, OAuthError> {
    let unsafe_page = |problem: String| OAuthError::Metadata {
        issuer: found.issuer.clone(),
        problem: format!("the page for the user is not safe to open: {problem}"),
    };
    let endpoint = found.endpoints.authorization.as_deref().unwrap_or_default();
    let mut page = page_url(endpoint, &grants.trusted_host).map_err(unsafe_page)?;
    let challenge = ring::digest::digest(&ring::digest::SHA256, verifier.expose().as_bytes());
    let mut query = page.query_pairs_mut();
    query
        .append_pair("response_type", "code")
        .append_pair("client_id", &grants.client_id)
        .append_pair("redirect_uri", redirect)
        .append_pair("state", state)
        .append_pair("code_challenge", &URL_SAFE_NO_PAD.encode(challenge))
        .append_pair("code_challenge_method", "S256");
    if let Some(resource) = &grants.resource {
        query.append_pair("resource", resource);
    }
    if !found.scopes.is_empty() {
        query.append_pair("scope", &Scopes::to_string(&found.scopes));
    }
    drop(query);
    Ok(page.into())
}
