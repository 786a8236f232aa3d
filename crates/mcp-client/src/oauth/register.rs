//! The identity of this program at an authorization server: configured, a metadata document, or registered (RFC 7591).

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::answer::members;
use super::client_auth::ClientAuth;
use super::clock::unix_time;
use super::discover::Discovery;
use super::endpoint::OAuthHttp;
use super::error::OAuthError;
use super::login_server::LoginServer;
use crate::credentials::{CredentialKey, Dialog, Secret, TokenStore};

/// The identity of this program at one authorization server.
#[derive(Clone, Debug)]
pub(super) struct ClientIdentity {
    pub(super) id: String,
    pub(super) auth: ClientAuth,
    pub(super) is_secret_in_form: bool,
    /// The secret of a registration, which is kept with the credential.
    pub(super) registered_secret: Option<Secret>,
}

/// A registration as it is stored. Its secret is wiped by whoever creates it.
#[derive(Serialize, Deserialize)]
pub(super) struct Registration {
    issuer: String,
    client_id: String,
    client_secret: Option<zeroize::Zeroizing<String>>,
    is_secret_in_form: bool,
    /// The port of the address to which the browser returns.
    pub(super) port: Option<u16>,
    /// The time at which the secret expires, in seconds since 1970; 0 if it does not.
    #[serde(default)]
    secret_expires_at: u64,
}

impl Registration {
    fn identity(&self) -> ClientIdentity {
        let secret = self.client_secret.as_ref().map(|secret| Secret::new(secret.as_str()));
        ClientIdentity {
            id: self.client_id.clone(),
            auth: secret.clone().map_or(ClientAuth::None, ClientAuth::Secret),
            is_secret_in_form: self.is_secret_in_form,
            registered_secret: secret,
        }
    }
}

impl LoginServer {
    /// Returns the identity that needs no registration: the configured one, or a metadata document if the authorization
    /// server supports them.
    pub(super) fn known_client(&self, found: &Discovery) -> Result<Option<ClientIdentity>, OAuthError> {
        let options = &self.options;
        let methods = &found.endpoints.auth_methods;
        // Without a list, the default of RFC 8414 is `client_secret_basic`.
        let has = |method: &str| methods.iter().any(|known| known == method);
        let id = match &options.client_document {
            _ if !options.client_id.is_empty() => &options.client_id,
            Some(document) if found.endpoints.has_client_documents => document,
            _ => return Ok(None),
        };
        Ok(Some(ClientIdentity {
            id: id.clone(),
            auth: options.auth()?,
            is_secret_in_form: options.is_secret_in_form
                || has("client_secret_post") && !has("client_secret_basic"),
            registered_secret: None,
        }))
    }

    /// Returns the key under which the registration at an issuer is stored.
    fn registration_key(&self, issuer: &str) -> CredentialKey {
        CredentialKey::new([&self.options.name, "client registration", issuer])
    }

    /// Returns the stored registration at an issuer.
    pub(super) async fn stored_registration(
        &self,
        issuer: &str,
        store: &dyn TokenStore,
    ) -> Option<Registration> {
        let text = store.load(&self.registration_key(issuer), Dialog::Allowed).await.ok()??;
        let stored: Registration = serde_json::from_str(text.expose()).ok()?;
        let is_expired = (1..=unix_time().as_secs()).contains(&stored.secret_expires_at);
        let is_at = |port: u16| stored.port == Some(port);
        let fits = stored.issuer == issuer && !is_expired && self.options.callback_port.is_none_or(is_at);
        fits.then_some(stored)
    }

    /// Returns the identity of this program: a known one, the stored registration, or a new registration. `redirect` is
    /// the address to which the browser returns, and its port.
    pub(super) async fn client(
        &self,
        http: &OAuthHttp,
        found: &Discovery,
        stored: Option<Registration>,
        store: &dyn TokenStore,
        redirect: Option<(&str, u16)>,
    ) -> Result<ClientIdentity, OAuthError> {
        if let Some(known) = self.known_client(found)? {
            return Ok(known);
        }
        // One without a port was made for logins with a code, and has no address to return to.
        if let Some(stored) = stored.filter(|stored| redirect.is_none() || stored.port.is_some()) {
            return Ok(stored.identity());
        }
        let registration = self.register(http, found, redirect).await?;
        let text = serde_json::to_string(&registration).map(Secret::new);
        let saved = match &text {
            Ok(text) => store.save(&self.registration_key(&found.issuer), text, Dialog::Allowed).await,
            Err(_) => Ok(()),
        };
        if let Err(error) = saved {
            tracing::warn!(issuer = found.issuer, %error, "cannot save the registration of this client");
        }
        Ok(registration.identity())
    }

    /// Forgets the registration at an issuer, because the issuer does not know it any more.
    pub(super) async fn forget_registration(&self, issuer: &str, store: &dyn TokenStore) {
        if !self.options.client_id.is_empty() {
            return;
        }
        if let Err(error) = store.delete(&self.registration_key(issuer), Dialog::Allowed).await {
            tracing::warn!(issuer, %error, "cannot delete the registration of this client");
        }
    }

    async fn register(
        &self,
        http: &OAuthHttp,
        found: &Discovery,
        redirect: Option<(&str, u16)>,
    ) -> Result<Registration, OAuthError> {
        let Some(endpoint) = &found.endpoints.registration else {
            return Err(OAuthError::Metadata {
                issuer: found.issuer.clone(),
                problem: "it does not let clients register themselves (`registration_endpoint`); set the client id \
                          that this program has there"
                    .to_owned(),
            });
        };
        let methods = &found.endpoints.auth_methods;
        // A program on the machine of a user cannot keep a secret, so it asks for none unless it has to.
        let known = ["none", "client_secret_basic", "client_secret_post"];
        let method =
            known.into_iter().find(|known| methods.iter().any(|method| method == known)).unwrap_or("none");
        let mut grants = vec!["refresh_token"];
        if redirect.is_some() {
            grants.push("authorization_code");
        }
        if found.endpoints.device.is_some() {
            grants.push("urn:ietf:params:oauth:grant-type:device_code");
        }
        let redirects: Vec<&str> = redirect.iter().map(|(address, _)| *address).collect();
        let request = json!({
            "client_name": self.options.shown_client_name(),
            "application_type": "native",
            "redirect_uris": redirects,
            "grant_types": grants,
            "response_types": if redirect.is_some() { vec!["code"] } else { vec![] },
            "token_endpoint_auth_method": method,
        });
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let response = http.post(endpoint, self.trust(), headers, request.to_string().into_bytes()).await?;
        let response = members(endpoint, &response)?;
        let text = |name: &str| {
            response.get(name).and_then(serde_json::Value::as_str).filter(|text| !text.is_empty())
        };
        let client_id = text("client_id").ok_or_else(|| OAuthError::Unreachable {
            endpoint: crate::config::server_config::shown_url(endpoint),
            problem: "the response to the registration has no `client_id`".to_owned(),
        })?;
        let granted = text("token_endpoint_auth_method").unwrap_or(method);
        let client_secret =
            text("client_secret").filter(|_| granted != "none").map(|secret| secret.to_owned().into());
        Ok(Registration {
            issuer: found.issuer.clone(),
            client_id: client_id.to_owned(),
            client_secret,
            is_secret_in_form: granted == "client_secret_post",
            port: redirect.map(|(_, port)| port),
            secret_expires_at: response
                .get("client_secret_expires_at")
                .and_then(serde_json::Value::as_u64)
                .unwrap_or_default(),
        })
    }
}
