//! The handle for logins.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::credential::Credential;
use super::endpoint::OAuthHttp;
use super::error::OAuthError;
use super::login;
use super::options::{Grant, OAuthOptions};
use super::prompt::LoginPrompt;
use super::source::TokenSource;
use super::status::{LoginStatus, LogoutReport};
use crate::credentials::{AutoStore, CredentialKey, Dialog, MemoryStore, StoreError, TokenStore};
use crate::http::Network;

/// The time for which a logout or login waits for a refresh by another process.
const LOCK_TIMEOUT: Duration = Duration::from_secs(15);

/// The logins of a program: a store for credentials, and one source of tokens per server. Clones share both.
///
/// Servers are named by their URL, exactly as in the [`ServerConfig`](crate::ServerConfig).
#[derive(Clone)]
pub struct Credentials {
    store: Arc<dyn TokenStore>,
    http: OAuthHttp,
    sources: Arc<Mutex<HashMap<CredentialKey, TokenSource>>>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("store", &self.store.describe()).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Keeps credentials in the keychain (feature `keyring`), or else in encrypted files: see [`AutoStore::standard`].
    /// `service` is the name of the program.
    ///
    /// # Errors
    /// Fails if the user has no home folder.
    pub fn auto(service: &str) -> Result<Self, StoreError> {
        Ok(Self::of(AutoStore::standard(service, None)?))
    }

    /// Keeps credentials in memory: they are lost when the process exits. Enough for a service that has its own secret.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::of(MemoryStore::default())
    }

    /// Keeps credentials in this store.
    #[must_use]
    pub fn of(store: impl TokenStore) -> Self {
        Self { store: Arc::new(store), http: OAuthHttp::new(Network::new()), sources: Arc::default() }
    }

    /// Sets proxies, certificates and allowed addresses for requests to authorization servers. Without it, endpoints must
    /// be public or on the host of the configured issuer; a [`NetworkPolicy`](crate::http::NetworkPolicy) set here
    /// replaces that rule.
    #[must_use]
    pub fn network(self, network: &Network) -> Self {
        Self { http: OAuthHttp::new(network.clone()), sources: Arc::default(), ..self }
    }

    /// Returns the source of tokens for a server. There is one per server, so that a token is refreshed once. Other
    /// options, such as a new client secret, begin a new one.
    #[must_use]
    pub fn token_source(&self, server: &str, options: &OAuthOptions) -> TokenSource {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || TokenSource::new(server, options.clone(), Arc::clone(&self.store), self.http.clone());
        let source = sources.entry(options.credential_key(server)).or_insert_with(new);
        if !source.has_options(options) {
            *source = new();
        }
        source.clone()
    }

    /// Logs in, and stores the credential. For a user, `prompt` is called with what the user must do; its future runs
    /// beside the login, and may for example open a page. For client credentials, a token is requested and `prompt` is
    /// not called.
    ///
    /// # Errors
    /// [`OAuthError::RefusedByUser`] and [`OAuthError::Expired`] if the user refused or did not act in time, and others
    /// if the settings, the authorization server or the store do not allow a login.
    ///
    /// # Cancellation
    /// Dropping the future ends the login. Nothing is stored, unless the token was just being stored.
    pub async fn login<F, Fut>(
        &self,
        server: &str,
        options: &OAuthOptions,
        prompt: F,
    ) -> Result<LoginStatus, OAuthError>
    where
        F: FnOnce(LoginPrompt) -> Fut,
        Fut: Future<Output = ()>,
    {
        let resolved = options.resolve(server, &self.http).await?;
        let credential = match options.grant {
            Grant::ClientCredentials => login::service(server, options, &resolved).await?,
            Grant::Login => login::device(server, options, &resolved, prompt).await?,
        };
        let key = options.credential_key(server);
        let _lock = self.store.lock(&key, LOCK_TIMEOUT).await?;
        self.store.save(&key, &credential.to_stored(), Dialog::Allowed).await?;
        let status = LoginStatus::new(&credential, self.store.describe_location(&key));
        self.token_source(server, options).replace(Some(credential));
        Ok(status)
    }

    /// Returns the stored login for this server, or `None` if there is none. Uses no network.
    ///
    /// # Errors
    /// [`OAuthError::Store`] if the store fails.
    pub async fn status(
        &self,
        server: &str,
        options: &OAuthOptions,
    ) -> Result<Option<LoginStatus>, OAuthError> {
        let key = options.credential_key(server);
        let Some(text) = self.store.load(&key, Dialog::Allowed).await? else { return Ok(None) };
        let credential = Credential::from_stored(&text);
        Ok(credential.map(|credential| LoginStatus::new(&credential, self.store.describe_location(&key))))
    }

    /// Logs out: revokes the token at the authorization server if that supports it, and deletes the stored credential.
    /// The report tells which part failed; the second is done even if the first fails.
    ///
    /// # Errors
    /// [`OAuthError::Store`] if the store cannot be read or locked.
    pub async fn logout(&self, server: &str, options: &OAuthOptions) -> Result<LogoutReport, OAuthError> {
        let key = options.credential_key(server);
        let _lock = self.store.lock(&key, LOCK_TIMEOUT).await?;
        let stored = self.store.load(&key, Dialog::Allowed).await?;
        let (mut is_revoked, mut revocation_error) = (false, None);
        if let Some(credential) = stored.as_ref().and_then(Credential::from_stored) {
            match login::revoke(server, options, &self.http, &credential).await {
                Ok(revoked) => is_revoked = revoked,
                Err(error) => revocation_error = Some(error),
            }
        }
        let deleted = self.store.delete(&key, Dialog::Allowed).await;
        self.token_source(server, options).replace(None);
        Ok(LogoutReport {
            was_logged_in: *deleted.as_ref().unwrap_or(&false),
            is_revoked,
            revocation_error,
            store_error: deleted.err(),
        })
    }
}
