//! A credential as it is stored: the tokens, and what is needed to refresh and revoke them.

use std::time::Duration;

use mcp_protocol::fingerprint::fingerprint;
use mcp_protocol::oauth::freshness::{Freshness, freshness};
use mcp_protocol::oauth::refresh::Version;
use mcp_protocol::oauth::resource::covers;
use mcp_protocol::oauth::scopes::Scopes;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::dpop::Prover;
use super::grants::IssuedToken;
use super::login_server::LoginServer;
use super::providers::Provider;
use super::resolve::Resolved;
use crate::credentials::Secret;

/// The tokens of one login.
#[derive(Clone, Debug)]
pub(super) struct Credential {
    pub(super) access_token: Secret,
    pub(super) refresh_token: Option<Secret>,
    /// The secret of this client, if it registered itself.
    pub(super) registered_secret: Option<Secret>,
    /// The key to which the tokens are bound.
    pub(super) bound_key: Option<Secret>,
    pub(super) details: Details,
}

/// The part of a credential that is not secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Details {
    /// Random for each login, and kept when its token is refreshed.
    pub(super) login_id: String,
    pub(super) issuer: String,
    pub(super) resource: Option<String>,
    pub(super) client_id: String,
    pub(super) token_endpoint: String,
    pub(super) revocation_endpoint: Option<String>,
    pub(super) is_secret_in_form: bool,
    pub(super) scopes: Vec<String>,
    /// The scopes that were asked for, which may be more than were granted.
    #[serde(default)]
    pub(super) requested: Vec<String>,
    /// Seconds since 1970.
    pub(super) obtained_at: u64,
    /// Seconds, if the server named a lifetime.
    pub(super) lifetime: Option<u64>,
}

impl Details {
    /// Describes a new login. The time and lifetime are those of its first token.
    pub(super) fn new(resolved: &Resolved, requested: &Scopes, login_id: &str) -> Self {
        let grants = &resolved.grants;
        let requested: Vec<String> = requested.iter().map(str::to_owned).collect();
        Self {
            login_id: login_id.to_owned(),
            issuer: grants.issuer.clone(),
            resource: grants.resource.clone(),
            client_id: grants.client_id.clone(),
            token_endpoint: grants.token_endpoint.clone(),
            revocation_endpoint: resolved.revocation_endpoint.clone(),
            is_secret_in_form: grants.is_secret_in_form,
            scopes: requested.clone(),
            requested,
            obtained_at: 0,
            lifetime: None,
        }
    }

    /// Describes a token of which nothing else is known.
    fn of_bare_token(server: &LoginServer, login_id: &str) -> Self {
        let options = &server.options;
        Self {
            login_id: login_id.to_owned(),
            issuer: options.configured_issuer().to_owned(),
            resource: server.resource.clone(),
            client_id: options.client_id.clone(),
            token_endpoint: String::new(),
            revocation_endpoint: None,
            is_secret_in_form: false,
            scopes: options.scopes.clone(),
            requested: Vec::new(),
            obtained_at: 0,
            lifetime: None,
        }
    }

    /// Returns true if the credential is for this server, at its issuer.
    fn is_for(&self, server: &LoginServer) -> bool {
        let options = &server.options;
        if let (Provider::Discovered, Some(url)) = (&options.provider, &server.url) {
            let is_client = options.client_id.is_empty() || self.client_id == options.client_id;
            return is_client && self.resource.as_deref().is_some_and(|resource| covers(resource, url));
        }
        self.issuer == options.configured_issuer()
            && self.client_id == options.client_id
            && self.resource == server.resource
    }
}

/// The stored text. Its fields are wiped by whoever creates it.
#[derive(Serialize, Deserialize)]
struct Stored {
    access_token: Zeroizing<String>,
    refresh_token: Option<Zeroizing<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_secret: Option<Zeroizing<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bound_key: Option<Zeroizing<String>>,
    #[serde(flatten)]
    details: Details,
}

impl Credential {
    /// Reads a stored credential of this server. Returns `None` for text that is not one, and for a credential of
    /// another issuer, client or resource. Text that is not JSON is a token that somebody else obtained, such as that
    /// of an environment variable.
    pub(super) fn from_stored(text: &Secret, server: &LoginServer) -> Option<Self> {
        let text = text.expose().trim();
        if !text.is_empty() && !text.starts_with('{') && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let (access_token, details) = (Secret::new(text), Details::of_bare_token(server, ""));
            return Some(Self {
                access_token,
                refresh_token: None,
                registered_secret: None,
                bound_key: None,
                details,
            });
        }
        let Stored { access_token, refresh_token, client_secret, bound_key, details } =
            serde_json::from_str(text).ok()?;
        details.is_for(server).then(|| Self {
            access_token: Secret::new(access_token.as_str()),
            refresh_token: refresh_token.map(|token| Secret::new(token.as_str())),
            registered_secret: client_secret.map(|secret| Secret::new(secret.as_str())),
            bound_key: bound_key.map(|key| Secret::new(key.as_str())),
            details,
        })
    }

    /// Returns the text to store.
    pub(super) fn to_stored(&self) -> Secret {
        let copy = |secret: &Secret| Zeroizing::new(secret.expose().to_owned());
        let stored = Stored {
            access_token: copy(&self.access_token),
            refresh_token: self.refresh_token.as_ref().map(copy),
            client_secret: self.registered_secret.as_ref().map(copy),
            bound_key: self.bound_key.as_ref().map(copy),
            details: self.details.clone(),
        };
        // Strings and numbers always serialize.
        Secret::new(serde_json::to_string(&stored).unwrap_or_default())
    }

    /// Creates the credential of a new login at the time `now`.
    pub(super) fn issued(issued: IssuedToken, resolved: &Resolved, details: Details, now: Duration) -> Self {
        let registered_secret = resolved.registered_secret.clone();
        let bound_key = resolved.grants.prover.as_ref().map(Prover::to_stored);
        let empty = Self {
            access_token: Secret::new(""),
            refresh_token: None,
            registered_secret,
            bound_key,
            details,
        };
        empty.refreshed(issued, now)
    }

    /// Returns the credential after a refresh at the time `now`, in seconds since 1970. The old refresh token and
    /// scopes stay if the server did not send new ones.
    pub(super) fn refreshed(&self, issued: IssuedToken, now: Duration) -> Self {
        let IssuedToken { access_token, refresh_token, lifetime, scopes } = issued;
        Self {
            access_token,
            refresh_token: refresh_token.or_else(|| self.refresh_token.clone()),
            registered_secret: self.registered_secret.clone(),
            bound_key: self.bound_key.clone(),
            details: Details {
                obtained_at: now.as_secs(),
                lifetime: lifetime.map(|lifetime| lifetime.as_secs()),
                scopes: scopes.unwrap_or_else(|| self.details.scopes.clone()),
                ..self.details.clone()
            },
        }
    }

    pub(super) fn version(&self) -> Version {
        let refresh = self.refresh_token.as_ref().map_or("", Secret::expose);
        let digest = fingerprint([self.access_token.expose(), refresh]);
        Version(digest.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_default())
    }

    pub(super) fn freshness(&self, now: Duration) -> Freshness {
        let Details { obtained_at, lifetime, .. } = self.details;
        freshness(Duration::from_secs(obtained_at), lifetime.map(Duration::from_secs), now)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::oauth::OAuthOptions;
    use crate::oauth::login_server::tests::server;

    pub(in super::super) fn credential() -> Credential {
        Credential {
            access_token: Secret::new("access-hush"),
            refresh_token: Some(Secret::new("refresh-hush")),
            registered_secret: Some(Secret::new("client-hush")),
            bound_key: None,
            details: Details {
                login_id: "login".to_owned(),
                issuer: "https://as.example".to_owned(),
                resource: Some("https://mcp.example/mcp".to_owned()),
                client_id: "client".to_owned(),
                token_endpoint: "https://as.example/token".to_owned(),
                revocation_endpoint: None,
                is_secret_in_form: false,
                scopes: vec!["read".to_owned()],
                requested: vec!["read".to_owned(), "write".to_owned()],
                obtained_at: 1000,
                lifetime: Some(3600),
            },
        }
    }

    #[test]
    fn stored_credential_is_read_back_and_debug_shows_no_token() {
        let credential = Credential { bound_key: Some(Secret::new("key-hush")), ..credential() };
        let stored = credential.to_stored();
        let server = server(OAuthOptions::issuer("https://as.example", "client"));
        let read = Credential::from_stored(&stored, &server).unwrap();
        assert_eq!(read.details, credential.details);
        assert_eq!(read.access_token.expose(), "access-hush");
        assert_eq!(read.version(), credential.version());
        assert_eq!(read.registered_secret, credential.registered_secret);
        assert_eq!(read.bound_key, credential.bound_key);
        assert!(!format!("{read:?}").contains("hush"));
        for damaged in ["{}", "", " ", "two words", "\u{1b}[2J"] {
            assert!(Credential::from_stored(&Secret::new(damaged), &server).is_none(), "{damaged:?}");
        }
        let bare = Credential::from_stored(&Secret::new("gho_hush"), &server).unwrap();
        assert_eq!(bare.access_token.expose(), "gho_hush");
        assert!(bare.details.is_for(&server) && bare.refresh_token.is_none());
    }

    #[test]
    fn refresh_keeps_what_the_server_did_not_send() {
        let old = credential();
        let issued = |refresh: Option<&str>| IssuedToken {
            access_token: Secret::new("new"),
            refresh_token: refresh.map(Secret::new),
            lifetime: None,
            scopes: None,
        };
        let kept = old.refreshed(issued(None), Duration::from_secs(2000));
        assert_eq!(kept.refresh_token.as_ref().unwrap().expose(), "refresh-hush");
        assert_eq!((kept.details.obtained_at, kept.details.lifetime), (2000, None));
        assert_eq!(kept.details.scopes, ["read"]);
        assert_eq!(kept.details.login_id, "login");
        assert_ne!(kept.version(), old.version());
        let rotated = old.refreshed(issued(Some("rotated")), Duration::from_secs(2000));
        assert_eq!(rotated.refresh_token.as_ref().unwrap().expose(), "rotated");
        assert_ne!(rotated.version(), kept.version());
    }
}
