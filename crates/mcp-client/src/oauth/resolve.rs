//! The endpoints of an authorization server, and the identity with which this client sends requests to them.

use super::client_auth::{ClientAuth, SigningKey};
use super::credential::Credential;
use super::discover::Discovery;
use super::dpop::Prover;
use super::endpoint::OAuthHttp;
use super::error::OAuthError;
use super::grants::Grants;
use super::login_server::LoginServer;
use super::options::{ClientSecret, OAuthOptions};
use super::register::ClientIdentity;
use crate::credentials::Secret;

/// The endpoints of an authorization server, ready for requests.
pub(super) struct Resolved {
    pub(super) grants: Grants,
    /// The secret of a registration, which is kept with the credential.
    pub(super) registered_secret: Option<Secret>,
    pub(super) device_endpoint: Option<String>,
    pub(super) revocation_endpoint: Option<String>,
}

impl OAuthOptions {
    pub(super) fn auth(&self) -> Result<ClientAuth, OAuthError> {
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
    /// Returns what requests to the endpoints need.
    pub(super) fn resolved(
        &self,
        http: &OAuthHttp,
        found: &Discovery,
        client: ClientIdentity,
    ) -> Result<Resolved, OAuthError> {
        let ClientIdentity { id, auth, is_secret_in_form, registered_secret } = client;
        let grants = Grants {
            http: http.clone(),
            client_id: id,
            auth,
            is_secret_in_form,
            token_endpoint: found.endpoints.token.clone(),
            issuer: found.issuer.clone(),
            trusted_host: self.trusted_host.clone(),
            resource: found.resource.clone(),
            prover: self.options.has_bound_tokens.then(Prover::generate).transpose()?,
        };
        Ok(Resolved {
            grants,
            registered_secret,
            device_endpoint: found.endpoints.device.clone(),
            revocation_endpoint: found.endpoints.revocation.clone(),
        })
    }

    /// Returns what requests to the recorded endpoints of a credential need. Nothing is fetched.
    pub(super) fn recorded(&self, credential: &Credential, http: &OAuthHttp) -> Result<Grants, OAuthError> {
        let details = &credential.details;
        Ok(Grants {
            http: http.clone(),
            client_id: details.client_id.clone(),
            auth: match &credential.registered_secret {
                Some(secret) => ClientAuth::Secret(secret.clone()),
                None => self.options.auth()?,
            },
            is_secret_in_form: details.is_secret_in_form,
            token_endpoint: details.token_endpoint.clone(),
            issuer: details.issuer.clone(),
            trusted_host: self.trusted_host.clone(),
            resource: details.resource.clone(),
            prover: credential.bound_key.as_ref().map(Prover::from_stored).transpose()?,
        })
    }
}
