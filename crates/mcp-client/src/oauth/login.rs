//! The flows of logins, and the revocation.

use std::pin::pin;

use mcp_protocol::oauth::choice::{LoginChoice, LoginMethod};
use mcp_protocol::oauth::device::{DeviceEnd, DevicePolling, DeviceResponse, DeviceStep};
use mcp_protocol::oauth::refresh::LogInReason;
use mcp_protocol::oauth::scopes::Scopes;
use tokio::time::Instant;

use super::browser;
use super::clock::unix_time;
use super::code;
use super::credential::{Credential, Details};
use super::discover::{Demand, Discovery};
use super::endpoint::{OAuthHttp, page_url};
use super::error::OAuthError;
use super::grants::{DeviceCodes, Grants, IssuedToken};
use super::listener::RedirectListener;
use super::login_server::LoginServer;
use super::options::OAuthOptions;
use super::prompt::LoginPrompt;
use super::register::Registration;
use super::resolve::Resolved;
use crate::credentials::{Secret, TokenStore, random_id};

impl LoginServer {
    /// Requests a token for this program itself.
    pub(super) async fn service_token(
        &self,
        http: &OAuthHttp,
        demand: Option<&Demand>,
        old: Option<&Credential>,
    ) -> Result<Credential, OAuthError> {
        let found = self.discover(http, demand).await?;
        // The secret is shown only to the authorization server of the last token.
        if old.is_some_and(|old| old.details.issuer != found.issuer) {
            return Err(OAuthError::LoginNeeded(LogInReason::IssuerChanged));
        }
        let login_id = old.map_or_else(random_id, |old| old.details.login_id.clone());
        let client = self
            .known_client(&found)?
            .ok_or_else(|| OAuthError::Settings("the client id is missing".to_owned()))?;
        service(&self.options, &self.resolved(http, &found, client)?, &found.scopes, &login_id).await
    }

    /// Lets a user log in, with the method that this program wants or that fits best.
    pub(super) async fn user_token<F, Fut>(
        &self,
        http: &OAuthHttp,
        demand: Option<&Demand>,
        store: &dyn TokenStore,
        old_issuer: Option<&str>,
        prompt: F,
    ) -> Result<Credential, OAuthError>
    where
        F: FnOnce(LoginPrompt) -> Fut,
        Fut: Future<Output = ()>,
    {
        let found = self.discover(http, demand).await?;
        let choice = LoginChoice {
            wanted: self.options.method,
            has_browser_flow: found.endpoints.authorization.is_some() && found.endpoints.has_s256,
            has_code_flow: found.endpoints.device.is_some(),
            can_open_browser: self.options.opens_browser && browser::can_open(),
        };
        let method = choice.method().map_err(|problem| OAuthError::Metadata {
            issuer: found.issuer.clone(),
            problem: problem.to_owned(),
        })?;
        // A configured client id is shown only to the authorization server of the last login.
        if let Some(old) = old_issuer
            && old != found.issuer
            && !self.options.client_id.is_empty()
        {
            return Err(OAuthError::Settings(format!(
                "the server now uses another authorization server than {old}, to which the client id may belong; log out \
                 first if it belongs to the new one"
            )));
        }
        let stored = self.stored_registration(&found.issuer, store).await;
        let was_stored = stored.is_some();
        let credential = match method {
            LoginMethod::Code => {
                let client = self.client(http, &found, stored, store, None).await?;
                device(self, &self.resolved(http, &found, client)?, &found.scopes, prompt).await
            }
            _ => self.log_in_with_browser(http, &found, stored, store, prompt).await,
        };
        // An authorization server that does not know the registration any more says so, or shows a page with an error
        // from which nobody returns. The next login registers again.
        let is_dead = |error: &OAuthError| {
            error.is_code("invalid_client")
                || error.is_code("unauthorized_client")
                || was_stored && matches!(error, OAuthError::Expired)
        };
        if credential.as_ref().is_err_and(is_dead) {
            self.forget_registration(&found.issuer, store).await;
        }
        credential
    }

    async fn log_in_with_browser<F, Fut>(
        &self,
        http: &OAuthHttp,
        found: &Discovery,
        stored: Option<Registration>,
        store: &dyn TokenStore,
        prompt: F,
    ) -> Result<Credential, OAuthError>
    where
        F: FnOnce(LoginPrompt) -> Fut,
        Fut: Future<Output = ()>,
    {
        // The port of the registration if it is free: some authorization servers compare it.
        let registered = stored.as_ref().and_then(|stored| stored.port);
        let ports = match self.options.callback_port {
            Some(port) => vec![port],
            None => registered.into_iter().chain([0]).collect(),
        };
        let listener = RedirectListener::bind(ports).await?;
        let redirect = (&*listener.address(), listener.port);
        let client = self.client(http, found, stored, store, Some(redirect)).await?;
        code::log_in(self, found, &self.resolved(http, found, client)?, listener, prompt).await
    }
}

/// Requests a token for the client itself.
pub(super) async fn service(
    options: &OAuthOptions,
    resolved: &Resolved,
    scopes: &Scopes,
    login_id: &str,
) -> Result<Credential, OAuthError> {
    let issued = match &options.assertion {
        Some(assertion) => assertion.token(&resolved.grants, scopes).await?,
        None => resolved.grants.client_credentials(scopes).await?,
    };
    let details = Details::new(resolved, scopes, login_id);
    Ok(Credential::issued(issued, resolved, details, unix_time()))
}

/// Lets a user log in with a code (RFC 8628).
pub(super) async fn device<F, Fut>(
    server: &LoginServer,
    resolved: &Resolved,
    scopes: &Scopes,
    prompt: F,
) -> Result<Credential, OAuthError>
where
    F: FnOnce(LoginPrompt) -> Fut,
    Fut: Future<Output = ()>,
{
    let issuer = resolved.grants.issuer.as_str();
    let Some(endpoint) = &resolved.device_endpoint else {
        return Err(OAuthError::Metadata {
            issuer: issuer.to_owned(),
            problem: "it has no `device_authorization_endpoint`, so it does not support logins with a code"
                .to_owned(),
        });
    };
    let codes = resolved.grants.device_codes(endpoint, scopes).await?;
    let DeviceCodes { device_code, user_code, url, url_with_code, lifetime, interval } = codes;
    // The user is sent to these pages, so their schemes are checked.
    page_url(&url, &server.trusted_host).map_err(|problem| OAuthError::Metadata {
        issuer: issuer.to_owned(),
        problem: format!("the page for the user is not safe to open: {problem}"),
    })?;
    let url_with_code = url_with_code.filter(|url| page_url(url, &server.trusted_host).is_ok());
    let now = Instant::now().into_std();
    let polling = DevicePolling::new(interval, lifetime, now);
    // The server may name a longer time than this client polls.
    let expires_in = polling.deadline().saturating_duration_since(now);
    let mut prompt = pin!(prompt(LoginPrompt::DeviceCode {
        server: server.name.clone(),
        issuer: issuer.to_owned(),
        url,
        url_with_code,
        code: user_code,
        expires_in,
    }));
    let mut polling = pin!(poll(&resolved.grants, &device_code, polling));
    let mut is_shown = false;
    let issued = loop {
        tokio::select! {
            issued = &mut polling => break issued?,
            () = &mut prompt, if !is_shown => is_shown = true,
        }
    };
    let details = Details::new(resolved, scopes, &random_id());
    Ok(Credential::issued(issued, resolved, details, unix_time()))
}

/// Polls the token endpoint until the user has accepted or refused.
async fn poll(
    grants: &Grants,
    device_code: &Secret,
    mut polling: DevicePolling,
) -> Result<IssuedToken, OAuthError> {
    loop {
        match polling.poll(Instant::now().into_std()) {
            DeviceStep::Wait(until) => tokio::time::sleep_until(until.into()).await,
            DeviceStep::Request => {
                let response = match grants.device_token(device_code).await {
                    Ok(issued) => return Ok(issued),
                    Err(OAuthError::Refused { code, interval, .. }) => match code.as_str() {
                        "authorization_pending" => DeviceResponse::Pending,
                        "slow_down" => DeviceResponse::SlowDown { interval },
                        "access_denied" => DeviceResponse::Denied,
                        "expired_token" => DeviceResponse::Expired,
                        _ => DeviceResponse::Failed(code),
                    },
                    Err(error) if error.is_retry_safe() => {
                        tracing::debug!(%error, "cannot ask for the result of a device login");
                        DeviceResponse::Unreachable
                    }
                    Err(error) => return Err(error),
                };
                polling.handle_response(response, Instant::now().into_std());
            }
            DeviceStep::End(DeviceEnd::Denied) => return Err(OAuthError::RefusedByUser),
            DeviceStep::End(DeviceEnd::Expired) => return Err(OAuthError::Expired),
            DeviceStep::End(DeviceEnd::Failed(code)) => {
                return Err(OAuthError::Refused { code, description: None, interval: None });
            }
        }
    }
}

/// Revokes the tokens of a login. Returns false if the authorization server does not support that.
pub(super) async fn revoke(
    server: &LoginServer,
    http: &OAuthHttp,
    credential: &Credential,
) -> Result<bool, OAuthError> {
    let details = &credential.details;
    let Some(endpoint) = &details.revocation_endpoint else { return Ok(false) };
    let grants = server.recorded(credential, http)?;
    // Revoking the refresh token ends the whole login.
    let (token, hint) = match &credential.refresh_token {
        Some(token) => (token, "refresh_token"),
        None => (&credential.access_token, "access_token"),
    };
    match grants.revoke(endpoint, token, hint).await {
        Ok(()) => Ok(true),
        Err(error) if error.is_code("unsupported_token_type") => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
