//! Finds the endpoints of an authorization server, and the secret of the client.

use super::client_auth::{ClientAuth, SigningKey};
use super::endpoint::{OAuthHttp, endpoint_url};
use super::error::OAuthError;
use super::grants::Grants;
use super::login_server::LoginServer;
use super::metadata;
use super::options::{ClientSecret, OAuthOptions};
use super::providers::{Endpoints, Provider};
use crate::credentials::Secret;

/// The endpoints of an authorization server, ready for requests.
pub(super) struct Resolved {
    pub(super) grants: Grants,
    pub(super) device_endpoint: Option<String>,
    pub(super) revocation_endpoint: Option<String>,
}

impl OAuthOptions {
    fn auth(&self) -> Result<ClientAuth, OAuthError> {
        Ok(match &self.secret {
            None => ClientAuth::None,
            Some(ClientSecret::Text(secret)) => ClientAuth::Secret(secret.clone()),
            Some(ClientSecret::Variable { name, is_required }) => match std::env::var(name) {
                Ok(secret) if !secret.is_empty() => ClientAuth::Secret(Secret::new(secret)),
                _ if !is_required => ClientAuth::None,
                _ => {
                    let problem = format!(
                        "the client secret is missing: the environment variable {name} is not set or is empty"
                    );
                    return Err(OAuthError::Settings(problem));
                }
            },
            Some(ClientSecret::PrivateKey { pem, id }) => {
                ClientAuth::PrivateKey(SigningKey::from_pem(pem.expose(), id.clone())?)
            }
        })
    }
}

impl LoginServer {
    /// Finds the endpoints, and returns what requests to them need.
    pub(super) async fn resolve(&self, http: &OAuthHttp) -> Result<Resolved, OAuthError> {
        let options = &self.options;
        options.check()?;
        // A missing secret is reported before anything is sent.
        options.auth()?;
        let Endpoints { token, device, revocation, auth_methods } = match &options.provider {
            Provider::Issuer(issuer) => metadata::fetch(http, issuer).await?.endpoints(issuer)?,
            Provider::Custom { token_url, .. } => metadata::fetch_beside(http, token_url).await?,
            provider => provider.endpoints(),
        };
        // Without a list, the default of RFC 8414 is `client_secret_basic`.
        let has = |method: &str| auth_methods.iter().any(|known| known == method);
        let is_secret_in_form =
            options.is_secret_in_form || has("client_secret_post") && !has("client_secret_basic");
        let grants = self.recorded(&token, is_secret_in_form, http)?;
        Ok(Resolved { grants, device_endpoint: device, revocation_endpoint: revocation })
    }

    /// Returns what a refresh at the recorded endpoint needs. Nothing is fetched.
    pub(super) fn recorded(
        &self,
        token_endpoint: &str,
        is_secret_in_form: bool,
        http: &OAuthHttp,
    ) -> Result<Grants, OAuthError> {
        let options = &self.options;
        let issuer = options.configured_issuer();
        Ok(Grants {
            http: http.clone(),
            client_id: options.client_id.clone(),
            auth: options.auth()?,
            is_secret_in_form,
            token_endpoint: token_endpoint.to_owned(),
            issuer: issuer.to_owned(),
            configured_host: endpoint_url(options.provider.host_url())
                .map_err(OAuthError::Settings)?
                .host_str()
                .unwrap_or_default()
                .to_owned(),
            resource: self.resource.clone(),
        })
    }
}
