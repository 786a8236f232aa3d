//! The one way to the token of a server.
//!
//! # Invariants
//! - At most one refresh of a credential is in flight in this process; everybody who needs its result waits for it. It
//!   is a task of its own, so that a caller that stops waiting loses no token.
//! - A new token is saved before it is used, unless saving fails.

mod refreshing;

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use mcp_protocol::oauth::freshness::Freshness;
use mcp_protocol::oauth::refresh::{LogInReason, Version};
use mcp_protocol::retry::Backoff;
use tokio::sync::watch;
use tokio::time::Instant;

use super::clock::unix_time;
use super::credential::Credential;
use super::endpoint::OAuthHttp;
use super::error::OAuthError;
use super::options::{Grant, OAuthOptions};
use crate::config::server_config::shown_url;
use crate::credentials::{CredentialKey, Dialog, Secret, TokenStore};
use crate::error::Error;
use crate::http::authorizer::{Authorization, AuthorizationFuture, Authorizer};

/// The shortest time between two looks at the store for a login by another process.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// The pauses after failed refreshes.
const RETRY: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_secs(60));
/// The maximum number of refreshes for one request of a token.
const MAX_ATTEMPTS: usize = 3;

/// The token of one server: read from its store, and refreshed when it is due. Clones share it.
#[derive(Clone)]
pub struct TokenSource {
    shared: Arc<SharedToken>,
}

/// An access token.
#[derive(Clone, Debug)]
pub struct Token {
    access_token: Secret,
    version: Version,
}

impl Token {
    /// Returns the access token, for the header `Authorization: Bearer …`.
    #[must_use]
    pub fn access_token(&self) -> &Secret {
        &self.access_token
    }
}

struct SharedToken {
    server: String,
    options: OAuthOptions,
    key: CredentialKey,
    store: Arc<dyn TokenStore>,
    http: OAuthHttp,
    state: Mutex<State>,
    /// Locked while it is being saved.
    unsaved: tokio::sync::Mutex<Option<refreshing::Unsaved>>,
}

#[derive(Default)]
struct State {
    current: Option<Credential>,
    /// The number of logins and logouts of this process. What was read before the last one is outdated.
    replaced: u64,
    /// The time at which the store was read last.
    looked: Option<Instant>,
    /// The error of the last look at the store.
    look_error: Option<OAuthError>,
    /// The token that the server refused.
    refused: Option<Version>,
    /// The result of the refresh in flight.
    flight: Option<watch::Receiver<FlightResult>>,
    /// Closed when the last refresh has ended and its token is saved.
    last_flight: Option<watch::Receiver<FlightResult>>,
    /// No refresh is started before this time, because the last one failed with this error.
    pause: Option<(Instant, OAuthError)>,
    failures: u32,
}

/// The result of a refresh, once it is known.
type FlightResult = Option<Result<(), OAuthError>>;

/// What a request for a token leads to.
enum TokenStep {
    Use(Token),
    Wait(watch::Receiver<FlightResult>),
    Look,
    Fail(OAuthError),
}

impl std::fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenSource").field("server", &self.shared.shown_server()).finish_non_exhaustive()
    }
}

impl TokenSource {
    pub(super) fn new(
        server: &str,
        options: OAuthOptions,
        store: Arc<dyn TokenStore>,
        http: OAuthHttp,
    ) -> Self {
        let key = options.credential_key(server);
        let (state, unsaved, server) = (Mutex::default(), tokio::sync::Mutex::default(), server.to_owned());
        Self { shared: Arc::new(SharedToken { server, options, key, store, http, state, unsaved }) }
    }

    pub(super) fn has_options(&self, options: &OAuthOptions) -> bool {
        self.shared.options == *options
    }

    /// Returns a token that can be used now. Refreshes it if it has expired, and begins to refresh it if it is about to.
    ///
    /// # Errors
    /// [`OAuthError::LoginNeeded`] if nobody has logged in, or if the login is not valid any more;
    /// [`OAuthError::Unreachable`] if the token has expired and the authorization server does not respond;
    /// [`OAuthError::Store`] if the store fails.
    ///
    /// # Cancellation
    /// A refresh that has begun continues.
    pub async fn token(&self) -> Result<Token, OAuthError> {
        let (mut has_looked, mut has_refreshed, mut ended) = (false, false, None);
        for _ in 0..MAX_ATTEMPTS {
            match self.next(has_looked, has_refreshed) {
                TokenStep::Use(token) => return Ok(token),
                TokenStep::Look => {
                    has_looked = true;
                    self.look().await?;
                }
                TokenStep::Wait(mut flight) => {
                    let finished = flight.wait_for(Option::is_some).await;
                    let result = finished.ok().and_then(|result| result.clone());
                    match result.unwrap_or_else(|| Err(aborted())) {
                        Ok(()) => has_refreshed = true,
                        // Another process may have logged in meanwhile.
                        Err(OAuthError::LoginNeeded(reason)) if !has_looked => {
                            (has_looked, ended) = (true, Some(reason));
                            self.look().await?;
                        }
                        Err(error) => return Err(error),
                    }
                }
                TokenStep::Fail(OAuthError::LoginNeeded(reason)) => {
                    return Err(OAuthError::LoginNeeded(ended.unwrap_or(reason)));
                }
                TokenStep::Fail(error) => return Err(error),
            }
        }
        Err(OAuthError::LoginNeeded(LogInReason::Refused))
    }

    /// Returns another token after the server refused this one: one that was obtained meanwhile, or a refreshed one.
    ///
    /// # Errors
    /// Those of [`token`](Self::token).
    pub async fn token_after_refusal(&self, refused: &Token) -> Result<Token, OAuthError> {
        self.token_after(refused.version).await
    }

    async fn token_after(&self, refused: Version) -> Result<Token, OAuthError> {
        {
            let mut state = self.shared.state();
            if state.current.as_ref().is_some_and(|current| current.version() == refused) {
                state.refused = Some(refused);
            }
        }
        self.token().await
    }

    /// Converts an error into that of a request to the server.
    fn request_error(&self, error: OAuthError) -> Error {
        let server = self.shared.shown_server();
        match error {
            OAuthError::LoginNeeded(reason) => Error::LoginNeeded { server, reason },
            error => {
                Error::NoToken { server, problem: error.to_string(), is_retry_safe: error.is_retry_safe() }
            }
        }
    }

    fn authorization_of(&self, token: Result<Token, OAuthError>) -> Result<Authorization, Error> {
        let token = token.map_err(|error| self.request_error(error))?;
        let header = HeaderValue::from_str(&format!("Bearer {}", token.access_token.expose()));
        let mut header = header.map_err(|_| Error::NoToken {
            server: self.shared.shown_server(),
            problem: "the token has characters that are not allowed in a header".to_owned(),
            is_retry_safe: false,
        })?;
        header.set_sensitive(true);
        Ok(Authorization { header, token_id: token.version.0 })
    }

    fn next(&self, has_looked: bool, has_refreshed: bool) -> TokenStep {
        let mut state = self.shared.state();
        let may_look = !has_looked && state.looked.is_none_or(|looked| looked.elapsed() >= LOOK_INTERVAL);
        let Some(current) = &state.current else {
            if may_look {
                return TokenStep::Look;
            }
            if self.shared.options.grant == Grant::ClientCredentials {
                return self.refresh(&mut state, Version(0));
            }
            // A store that could not be read may have a login.
            let error = state.look_error.clone();
            return TokenStep::Fail(error.unwrap_or(OAuthError::LoginNeeded(LogInReason::NoCredential)));
        };
        let version = current.version();
        let is_refused = state.refused == Some(version);
        let can_refresh =
            current.refresh_token.is_some() || self.shared.options.grant == Grant::ClientCredentials;
        let token = Token { access_token: current.access_token.clone(), version };
        match current.freshness(unix_time()) {
            Freshness::Fresh if !is_refused => TokenStep::Use(token),
            // A token that has just been issued is used, however short its lifetime is.
            Freshness::Expired if has_refreshed && !is_refused => TokenStep::Use(token),
            Freshness::Due if !is_refused => {
                if can_refresh {
                    // The old token can be used, so nobody waits.
                    drop(self.refresh(&mut state, version));
                }
                TokenStep::Use(token)
            }
            _ if can_refresh => self.refresh(&mut state, version),
            _ if !is_refused => TokenStep::Use(token),
            _ if may_look => TokenStep::Look,
            _ => TokenStep::Fail(OAuthError::LoginNeeded(LogInReason::NoRefreshToken)),
        }
    }

    /// Begins a refresh, or joins the one in flight.
    fn refresh(&self, state: &mut State, old: Version) -> TokenStep {
        // A flight that ended without a result was aborted with its runtime, or panicked in a store or HTTP client.
        if let Some(flight) = &state.flight
            && flight.has_changed().is_ok()
        {
            return TokenStep::Wait(flight.clone());
        }
        if let Some((until, error)) = &state.pause
            && Instant::now() < *until
        {
            return TokenStep::Fail(error.clone());
        }
        let (sender, receiver) = watch::channel(None);
        state.flight = Some(receiver.clone());
        state.last_flight = Some(receiver.clone());
        tokio::spawn(refreshing::run(Arc::clone(&self.shared), old, sender));
        TokenStep::Wait(receiver)
    }

    /// Reads the store.
    async fn look(&self) -> Result<(), OAuthError> {
        let replaced = self.shared.state().replaced;
        let found = self.shared.load(Dialog::Forbidden).await;
        let mut state = self.shared.state();
        if state.replaced != replaced {
            return Ok(());
        }
        state.looked = Some(Instant::now());
        state.look_error = found.as_ref().err().cloned();
        if let Some(found) = found? {
            state.current = Some(found);
        }
        Ok(())
    }

    /// Makes a credential current that was just saved by a login, or forgets it after a logout.
    pub(super) fn replace(&self, credential: Option<Credential>) {
        let mut state = self.shared.state();
        let (flight, last_flight) = (state.flight.take(), state.last_flight.take());
        let replaced = state.replaced.wrapping_add(1);
        *state = State { current: credential, replaced, flight, last_flight, ..State::default() };
    }
}

impl Authorizer for TokenSource {
    fn authorization(&self) -> AuthorizationFuture<'_> {
        Box::pin(async { self.authorization_of(self.token().await) })
    }

    fn authorization_after<'a>(&'a self, refused: &'a Authorization) -> AuthorizationFuture<'a> {
        Box::pin(async { self.authorization_of(self.token_after(Version(refused.token_id)).await) })
    }

    fn idle(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let flight = self.shared.state().last_flight.clone();
        Box::pin(async move {
            if let Some(mut flight) = flight {
                while flight.changed().await.is_ok() {}
            }
        })
    }
}

fn aborted() -> OAuthError {
    OAuthError::Unreachable {
        endpoint: "the token endpoint".to_owned(),
        problem: "the refresh was aborted, because the runtime is shutting down".to_owned(),
    }
}

impl SharedToken {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the URL of the server without its query, which may be secret.
    fn shown_server(&self) -> String {
        shown_url(&self.server)
    }

    /// Reads the stored credential. One of another issuer, client or resource counts as absent.
    async fn load(&self, dialog: Dialog) -> Result<Option<Credential>, OAuthError> {
        let Some(text) = self.store.load(&self.key, dialog).await? else { return Ok(None) };
        let Some(credential) = Credential::from_stored(&text) else { return Ok(None) };
        let details = &credential.details;
        let is_ours = details.issuer == self.options.configured_issuer()
            && details.client_id == self.options.client_id
            && details.resource == self.options.resource(&self.server);
        Ok(is_ours.then_some(credential))
    }
}

#[cfg(test)]
mod tests;
