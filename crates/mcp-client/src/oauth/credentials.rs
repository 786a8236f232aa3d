//! The handle for logins.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::credential::Credential;
use super::discover::Demand;
use super::endpoint::OAuthHttp;
use super::error::OAuthError;
use super::event::{CredentialEvent, EventHandler};
use super::login;
use super::login_server::LoginServer;
use super::options::Grant;
use super::prompt::LoginPrompt;
use super::source::TokenSource;
use super::status::{LoginStatus, LogoutReport};
use super::stores::Stores;
use crate::config::rfc_config::TokenStorage;
use crate::config::server_config::ServerConfig;
use crate::credentials::{CredentialKey, Dialog, MemoryStore, StoreError, TokenStore, probe};
use crate::error::Error;
use crate::http::Network;

/// The logins of a program: a store for credentials, and one source of tokens per server. Clones share both.
///
/// The methods take the [`ServerConfig`] of the server, which has the [OAuth options](ServerConfig::oauth).
#[derive(Clone)]
pub struct Credentials {
    stores: Stores,
    http: OAuthHttp,
    events: EventHandler,
    sources: Arc<Mutex<HashMap<CredentialKey, TokenSource>>>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("stores", &self.stores).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Keeps credentials in the keychain (feature `keyring`), or else in encrypted files. If neither has a token, it is
    /// read from the environment variable [`token_variable`](super::OAuthOptions::token_variable). `service` is the
    /// name of the program. See [`AutoStore::standard`](crate::credentials::AutoStore::standard).
    ///
    /// # Errors
    /// Fails if the user has no home folder.
    pub fn auto(service: &str) -> Result<Self, StoreError> {
        Stores::auto(service).map(Self::new)
    }

    /// Keeps credentials in memory: they are lost when the process exits. Enough for a service that has its own secret.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::of(MemoryStore::default())
    }

    /// Keeps credentials in this store.
    #[must_use]
    pub fn of(store: impl TokenStore) -> Self {
        Self::new(Stores::One(Arc::new(store)))
    }

    /// Returns the credentials that connections use which have none of their own. All connections of the process share
    /// them.
    ///
    /// | storage | where credentials are |
    /// |---|---|
    /// | `Auto` | [`auto`](Self::auto) with the service `mcp` |
    /// | `Keychain` | the keychain, under the service `mcp`. Needs the feature `keyring` |
    /// | `EncryptedFile` | encrypted files in the folder that `auto` would use |
    /// | `Env` | the environment variable of each server. Nothing can be stored |
    /// | `Memory` | the memory of the process |
    ///
    /// # Errors
    /// [`Error::FeatureDisabled`] for the keychain without the feature `keyring`, and [`Error::NoToken`] if the user
    /// has no home folder.
    pub fn standard(storage: TokenStorage) -> Result<Self, Error> {
        static STANDARD: Mutex<Vec<(TokenStorage, Credentials)>> = Mutex::new(Vec::new());
        let mut standard = STANDARD.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, credentials)) = standard.iter().find(|(known, _)| *known == storage) {
            return Ok(credentials.clone());
        }
        let credentials = Self::new(Stores::standard(storage)?);
        standard.push((storage, credentials.clone()));
        Ok(credentials)
    }

    fn new(stores: Stores) -> Self {
        let http = OAuthHttp::new(Network::new());
        Self { stores, http, events: EventHandler::default(), sources: Arc::default() }
    }

    /// Sets proxies, certificates and allowed addresses for requests to authorization servers. Without this setting,
    /// endpoints must be public or on the host of the configured issuer; a
    /// [`NetworkPolicy`](crate::http::NetworkPolicy) set here replaces that rule.
    #[must_use]
    pub fn network(self, network: &Network) -> Self {
        Self { http: OAuthHttp::new(network.clone()), sources: Arc::default(), ..self }
    }

    /// Calls this function when something happens to a credential that the user should know, such as a refreshed token
    /// that cannot be saved. It must not block.
    #[must_use]
    pub fn on_event(self, handler: impl Fn(CredentialEvent) + Send + Sync + 'static) -> Self {
        Self { events: EventHandler::new(handler), sources: Arc::default(), ..self }
    }

    /// Returns the source of tokens for a server. There is one per server, so that a token is refreshed once. Other
    /// options, such as a new client secret, begin a new one.
    ///
    /// # Errors
    /// [`OAuthError::Settings`] if the config has no OAuth options.
    pub fn token_source<T>(&self, server: &ServerConfig<T>) -> Result<TokenSource, OAuthError>
    where
        ServerConfig<T>: Clone + Into<ServerConfig>,
    {
        LoginServer::of(server).map(|server| self.source(&server))
    }

    pub(crate) fn source(&self, server: &LoginServer) -> TokenSource {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            let store = self.stores.of(&server.options);
            TokenSource::new(server.clone(), store, self.http.clone(), self.events.clone())
        };
        let source = sources.entry(server.credential_key()).or_insert_with(new);
        if !source.has_options(&server.options) {
            *source = new();
        }
        source.clone()
    }

    pub(super) fn http(&self) -> &OAuthHttp {
        &self.http
    }

    /// Waits until no token is being refreshed or saved, for at most this time. Returns false if one is still not saved.
    /// [`McpClient::close`](crate::McpClient::close) does this for its connection; call this before the process exits if
    /// tokens are used without a client.
    pub async fn flush(&self, timeout: Duration) -> bool {
        let sources: Vec<TokenSource> = {
            let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
            sources.values().cloned().collect()
        };
        let until = Instant::now() + timeout;
        let mut is_saved = true;
        for source in sources {
            is_saved &= !source.settle(until.saturating_duration_since(Instant::now())).await;
        }
        is_saved
    }

    /// Logs in, and stores the credential. For a user, `prompt` is called with what the user must do; its future runs
    /// concurrently with the login, and may for example open a page. If another process logs in meanwhile, its login is
    /// used. For client credentials, a token is requested and `prompt` is not called.
    ///
    /// # Errors
    /// [`OAuthError::RefusedByUser`] and [`OAuthError::Expired`] if the user refused or did not act in time. Other
    /// errors if the settings, the authorization server or the store do not allow a login. If the store fails only after
    /// the user has logged in, the login is kept in memory: [`LoginStatus::is_saved`] is false.
    ///
    /// # Cancellation
    /// Dropping the future ends the login. Nothing is stored, unless the token was just being stored.
    pub async fn login<T, F, Fut>(
        &self,
        server: &ServerConfig<T>,
        prompt: F,
    ) -> Result<LoginStatus, OAuthError>
    where
        ServerConfig<T>: Clone + Into<ServerConfig>,
        F: FnOnce(LoginPrompt) -> Fut,
        Fut: Future<Output = ()>,
    {
        self.log_in(&LoginServer::of(server)?, None, prompt).await
    }

    pub(crate) async fn log_in<F, Fut>(
        &self,
        server: &LoginServer,
        demand: Option<&Demand>,
        prompt: F,
    ) -> Result<LoginStatus, OAuthError>
    where
        F: FnOnce(LoginPrompt) -> Fut,
        Fut: Future<Output = ()>,
    {
        let source = self.source(server);
        let (key, store) = (server.credential_key(), source.store());
        let credential = match server.options.grant {
            Grant::ClientCredentials => {
                server.service_token(&self.http, demand, source.stored().await.as_ref()).await?
            }
            Grant::Login => {
                // A store that does not work is found before the user is asked.
                probe(&*store, Dialog::Allowed).await?;
                let old = source.stored().await.map(|old| old.details.issuer);
                let elsewhere = source.login_elsewhere().await;
                tokio::select! {
                    credential = server.user_token(&self.http, demand, &*store, old.as_deref(), prompt) => credential?,
                    credential = elsewhere => {
                        let status = LoginStatus::new(&credential, store.describe_location(&key), true);
                        source.replace(Some(credential));
                        return Ok(status);
                    }
                }
            }
        };
        let is_saved = source.store_login(credential.clone()).await.is_ok();
        Ok(LoginStatus::new(&credential, store.describe_location(&key), is_saved))
    }

    /// Returns the stored login for this server, or `None` if there is none. Uses no network.
    ///
    /// # Errors
    /// [`OAuthError::Store`] if the store fails.
    pub async fn status<T>(&self, server: &ServerConfig<T>) -> Result<Option<LoginStatus>, OAuthError>
    where
        ServerConfig<T>: Clone + Into<ServerConfig>,
    {
        let server = LoginServer::of(server)?;
        let source = self.source(&server);
        let (key, store) = (server.credential_key(), source.store());
        if let Some(credential) = source.unsaved_credential().await {
            return Ok(Some(LoginStatus::new(&credential, store.describe_location(&key), false)));
        }
        let Some(text) = store.load(&key, Dialog::Allowed).await? else { return Ok(None) };
        let credential = Credential::from_stored(&text, &server);
        Ok(credential.map(|credential| LoginStatus::new(&credential, store.describe_location(&key), true)))
    }

    /// Logs out: revokes the token at the authorization server if that supports it, and deletes the stored credential.
    /// The credential is deleted even if revoking the token fails; the report says which of the two failed.
    ///
    /// # Errors
    /// [`OAuthError::Store`] if the store cannot be read or locked.
    pub async fn logout<T>(&self, server: &ServerConfig<T>) -> Result<LogoutReport, OAuthError>
    where
        ServerConfig<T>: Clone + Into<ServerConfig>,
    {
        let server = LoginServer::of(server)?;
        let source = self.source(&server);
        let (key, store) = (server.credential_key(), source.store());
        let (_lock, unsaved) = source.take_lock().await?;
        let is_unsaved = unsaved.is_some();
        let (mut is_revoked, mut revocation_error) = (false, None);
        let stored = match store.load(&key, Dialog::Allowed).await {
            // A damaged credential cannot be revoked, but it can be deleted.
            Err(error @ StoreError::Corrupt { .. }) => {
                revocation_error = Some(error.into());
                None
            }
            stored => stored?,
        };
        // The stored refresh token was redeemed if there is a newer one in memory.
        let stored = stored.as_ref().and_then(|text| Credential::from_stored(text, &server));
        if let Some(credential) = unsaved.or(stored) {
            match login::revoke(&server, &self.http, &credential).await {
                Ok(revoked) => is_revoked = revoked,
                Err(error) => revocation_error = Some(error),
            }
        }
        let deleted = store.delete(&key, Dialog::Allowed).await;
        source.replace(None);
        Ok(LogoutReport {
            was_logged_in: is_unsaved || *deleted.as_ref().unwrap_or(&false),
            is_revoked,
            revocation_error,
            store_error: deleted.err(),
        })
    }
}
