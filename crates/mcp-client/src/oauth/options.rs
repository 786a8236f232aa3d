//! What a program configures for OAuth.

use std::fmt;

use super::client_auth::{ClientAuth, SigningKey};
use super::endpoint::{OAuthHttp, endpoint_url};
use super::error::OAuthError;
use super::grants::Grants;
use super::metadata;
use crate::credentials::{CredentialKey, Secret};

/// The OAuth settings of a server: who issues its tokens, and as which client this program requests them.
///
/// ```
/// use mcp_client::oauth::OAuthOptions;
///
/// // A user logs in with a code.
/// let device = OAuthOptions::issuer("https://auth.example.com", "my-cli").scopes(["notes:read"]);
/// // A service that acts for itself.
/// let service = OAuthOptions::client_credentials("https://auth.example.com", "billing-bot").secret("s-123");
/// assert!(!format!("{service:?}").contains("s-123"));
/// # drop(device);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct OAuthOptions {
    pub(super) endpoints: Endpoints,
    pub(super) client_id: String,
    pub(super) grant: Grant,
    name: String,
    secret: Option<ClientSecret>,
    pub(super) scopes: Vec<String>,
    has_resource: bool,
    /// True if the secret is sent in the form, whatever the metadata says.
    is_secret_in_form: bool,
}

/// Where the endpoints of the authorization server are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Endpoints {
    /// The metadata of this issuer has them.
    Issuer(String),
    /// They are known, and there is no metadata.
    Known { issuer: &'static str, token: &'static str, device: &'static str },
}

/// How tokens are obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grant {
    /// A user logs in.
    Login,
    /// The client requests them for itself.
    ClientCredentials,
}

#[derive(Clone, PartialEq, Eq)]
enum ClientSecret {
    Text(String),
    Variable(String),
    PrivateKey { pem: String, id: Option<String> },
}

impl OAuthOptions {
    fn new(endpoints: Endpoints, client_id: String, grant: Grant) -> Self {
        Self {
            endpoints,
            client_id,
            grant,
            name: String::new(),
            secret: None,
            scopes: Vec::new(),
            has_resource: true,
            is_secret_in_form: false,
        }
    }

    /// A user logs in at this issuer. The endpoints are read from its metadata, so the URL must be exactly the `issuer`
    /// that the metadata names.
    #[must_use]
    pub fn issuer(issuer: impl Into<String>, client_id: impl Into<String>) -> Self {
        Self::new(Endpoints::Issuer(issuer.into()), client_id.into(), Grant::Login)
    }

    /// This program requests tokens for itself at this issuer (client credentials). Set its secret or private key.
    #[must_use]
    pub fn client_credentials(issuer: impl Into<String>, client_id: impl Into<String>) -> Self {
        Self::new(Endpoints::Issuer(issuer.into()), client_id.into(), Grant::ClientCredentials)
    }

    /// A user logs in at GitHub. Device logins must be enabled in the settings of the OAuth app.
    #[must_use]
    pub fn github(client_id: impl Into<String>) -> Self {
        let endpoints = Endpoints::Known {
            issuer: "https://github.com/login/oauth",
            token: "https://github.com/login/oauth/access_token",
            device: "https://github.com/login/device/code",
        };
        Self { has_resource: false, ..Self::new(endpoints, client_id.into(), Grant::Login) }
    }

    /// A user logs in at Google. Google requires a secret also for programs that cannot keep one.
    #[must_use]
    pub fn google(client_id: impl Into<String>, client_secret: impl Into<String>) -> Self {
        let endpoints = Endpoints::Known {
            issuer: "https://accounts.google.com",
            token: "https://oauth2.googleapis.com/token",
            device: "https://oauth2.googleapis.com/device/code",
        };
        let options = Self { has_resource: false, ..Self::new(endpoints, client_id.into(), Grant::Login) };
        options.secret(client_secret)
    }

    /// Sets a name that tells apart several logins to the same server, for example of two users.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the requested scopes.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the client secret.
    #[must_use]
    pub fn secret(mut self, secret: impl Into<String>) -> Self {
        self.secret = Some(ClientSecret::Text(secret.into()));
        self
    }

    /// Reads the client secret from this environment variable when it is needed.
    #[must_use]
    pub fn secret_env(mut self, variable: impl Into<String>) -> Self {
        self.secret = Some(ClientSecret::Variable(variable.into()));
        self
    }

    /// Sends the client secret in the form (`client_secret_post`). By default it is sent in a header if the metadata of
    /// the issuer allows that (`client_secret_basic`).
    #[must_use]
    pub fn secret_in_form(mut self) -> Self {
        self.is_secret_in_form = true;
        self
    }

    /// Authenticates the client with a private key instead of a secret (`private_key_jwt`): PKCS#8 in PEM, on the curve
    /// P-256 or RSA. `id` is the id of the key (`kid`), if the server knows several.
    #[must_use]
    pub fn private_key(mut self, pem: impl Into<String>, id: Option<String>) -> Self {
        self.secret = Some(ClientSecret::PrivateKey { pem: pem.into(), id });
        self
    }

    /// Returns the key under which the credential for this server is stored. It is known without a network.
    #[must_use]
    pub fn credential_key(&self, server: &str) -> CredentialKey {
        CredentialKey::new([&self.name, server, self.configured_issuer(), &self.client_id])
    }

    pub(super) fn configured_issuer(&self) -> &str {
        match &self.endpoints {
            Endpoints::Issuer(issuer) => issuer,
            Endpoints::Known { issuer, .. } => issuer,
        }
    }

    /// Returns the value of the parameter `resource` for this server.
    pub(super) fn resource(&self, server: &str) -> Option<String> {
        self.has_resource.then(|| server.to_owned())
    }

    /// Checks the settings without a network.
    pub(super) fn check(&self) -> Result<(), OAuthError> {
        let missing = |what: &str| Err(OAuthError::Settings(format!("{what} is missing")));
        if self.client_id.is_empty() {
            return missing("the client id");
        }
        if self.grant == Grant::ClientCredentials && self.secret.is_none() {
            return missing("the client secret or private key, which client credentials need,");
        }
        endpoint_url(self.configured_issuer()).map(drop)
    }

    fn auth(&self) -> Result<ClientAuth, OAuthError> {
        Ok(match &self.secret {
            None => ClientAuth::None,
            Some(ClientSecret::Text(secret)) => ClientAuth::Secret(Secret::new(secret.as_str())),
            Some(ClientSecret::Variable(variable)) => match std::env::var(variable) {
                Ok(secret) if !secret.is_empty() => ClientAuth::Secret(Secret::new(secret)),
                _ => {
                    let problem = format!(
                        "the environment variable {variable}, which has the client secret, is not set"
                    );
                    return Err(OAuthError::Settings(problem));
                }
            },
            Some(ClientSecret::PrivateKey { pem, id }) => {
                ClientAuth::PrivateKey(SigningKey::from_pem(pem, id.clone())?)
            }
        })
    }

    /// Finds the endpoints, and returns what requests to them need.
    pub(super) async fn resolve(&self, server: &str, http: &OAuthHttp) -> Result<Resolved, OAuthError> {
        self.check()?;
        let auth = self.auth()?;
        let configured_host =
            endpoint_url(self.configured_issuer())?.host_str().unwrap_or_default().to_owned();
        let (token_endpoint, device, revocation, methods) = match &self.endpoints {
            Endpoints::Known { token, device, .. } => {
                // GitHub and Google take the secret from the form.
                ((*token).to_owned(), Some((*device).to_owned()), None, vec!["client_secret_post".to_owned()])
            }
            Endpoints::Issuer(issuer) => {
                let metadata = metadata::fetch(http, issuer).await?;
                let token = metadata.token_endpoint.ok_or_else(|| OAuthError::Metadata {
                    issuer: issuer.clone(),
                    problem: "it has no `token_endpoint`".to_owned(),
                })?;
                let methods = metadata.token_endpoint_auth_methods_supported;
                (token, metadata.device_authorization_endpoint, metadata.revocation_endpoint, methods)
            }
        };
        // Without a list, the default of RFC 8414 is `client_secret_basic`.
        let has = |method: &str| methods.iter().any(|known| known == method);
        let is_secret_in_form =
            self.is_secret_in_form || has("client_secret_post") && !has("client_secret_basic");
        let grants = Grants {
            http: http.clone(),
            client_id: self.client_id.clone(),
            auth,
            is_secret_in_form,
            token_endpoint,
            issuer: self.configured_issuer().to_owned(),
            configured_host,
            resource: self.resource(server),
        };
        Ok(Resolved { grants, device_endpoint: device, revocation_endpoint: revocation })
    }

    /// Returns what a refresh at the recorded endpoint needs. Nothing is fetched.
    pub(super) fn recorded(
        &self,
        token_endpoint: &str,
        is_secret_in_form: bool,
        server: &str,
        http: &OAuthHttp,
    ) -> Result<Grants, OAuthError> {
        Ok(Grants {
            http: http.clone(),
            client_id: self.client_id.clone(),
            auth: self.auth()?,
            is_secret_in_form,
            token_endpoint: token_endpoint.to_owned(),
            issuer: self.configured_issuer().to_owned(),
            configured_host: endpoint_url(self.configured_issuer())?
                .host_str()
                .unwrap_or_default()
                .to_owned(),
            resource: self.resource(server),
        })
    }
}

/// The endpoints of an authorization server, ready for requests.
pub(super) struct Resolved {
    pub(super) grants: Grants,
    pub(super) device_endpoint: Option<String>,
    pub(super) revocation_endpoint: Option<String>,
}

/// Does not show secrets.
impl fmt::Debug for OAuthOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthOptions")
            .field("issuer", &self.configured_issuer())
            .field("client_id", &self.client_id)
            .field("grant", &self.grant)
            .field("name", &self.name)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}
