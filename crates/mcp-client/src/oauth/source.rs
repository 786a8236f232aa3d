//! The token of one server: read from the store, refreshed, and shared by all requests.
//!
//! # Invariants
//! - At most one refresh of a credential is in flight in this process; all requests that need its result wait for it. It
//!   is a task of its own, so that a caller that stops waiting loses no token.
//! - A new token is saved before it is used, unless saving fails.

mod refreshing;
mod saving;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_protocol::oauth::freshness::Freshness;
use mcp_protocol::oauth::refresh::{LogInReason, Version};
use mcp_protocol::oauth::scopes::Scopes;
use mcp_protocol::retry::Backoff;
use tokio::sync::watch;
use tokio::time::Instant;

use super::clock::unix_time;
use super::credential::Credential;
use super::endpoint::OAuthHttp;
use super::error::OAuthError;
use super::event::EventHandler;
use super::login_server::LoginServer;
use super::options::{Grant, OAuthOptions};
use super::token::{CurrentCredential, Token};
use crate::credentials::{CredentialKey, Dialog, TokenStore};

/// The minimum interval between two reads of the store for a login by another process.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// The pauses after failed refreshes.
const RETRY: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_secs(60));
/// The maximum number of refreshes for one request of a token.
const MAX_ATTEMPTS: usize = 3;
/// The pause before another refresh after the server refused a token that was just refreshed.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);
/// The pause between looks at the store while a user logs in.
const LOGIN_LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// The longest pause between two checks whether a token is still current.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// The shortest one.
const MIN_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The token of one server: read from its store, and refreshed when it is due. Clones share it.
#[derive(Clone)]
pub struct TokenSource {
    shared: Arc<SharedToken>,
}

struct SharedToken {
    server: LoginServer,
    key: CredentialKey,
    store: Arc<dyn TokenStore>,
    http: OAuthHttp,
    events: EventHandler,
    state: Mutex<State>,
    /// Locked while it is being saved.
    unsaved: tokio::sync::Mutex<Option<saving::Unsaved>>,
}

#[derive(Default)]
struct State {
    current: Option<CurrentCredential>,
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

/// The next step of a request for a token.
enum TokenStep {
    Use(Token),
    Wait(watch::Receiver<FlightResult>),
    Look,
    Fail(OAuthError),
}

impl std::fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenSource").field("server", &self.shared.server.name).finish_non_exhaustive()
    }
}

impl TokenSource {
    pub(super) fn new(
        server: LoginServer,
        store: Arc<dyn TokenStore>,
        http: OAuthHttp,
        events: EventHandler,
    ) -> Self {
        let key = server.credential_key();
        let (state, unsaved) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { shared: Arc::new(SharedToken { server, key, store, http, events, state, unsaved }) }
    }

    pub(super) fn has_options(&self, options: &OAuthOptions) -> bool {
        self.shared.server.options.for_tokens() == options.for_tokens()
    }

    /// Returns the store of the credential.
    pub(super) fn store(&self) -> Arc<dyn TokenStore> {
        Arc::clone(&self.shared.store)
    }

    /// Returns a token that can be used now. Refreshes it if it has expired, and starts a refresh in the background
    /// if it expires soon.
    ///
    /// # Errors
    /// [`OAuthError::LoginNeeded`] if there is no login, or if it has ended;
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

    /// Returns the token if it is fresh, without waiting. Most requests need no more.
    pub(super) fn fresh_token(&self) -> Option<Token> {
        let state = self.shared.state();
        let CurrentCredential { credential, token } = state.current.as_ref()?;
        let is_fresh =
            state.refused != Some(token.version()) && credential.freshness(unix_time()) == Freshness::Fresh;
        is_fresh.then(|| token.clone())
    }

    /// Returns another token after the server refused this one: one that was obtained meanwhile, or a refreshed one.
    ///
    /// # Errors
    /// Those of [`token`](Self::token).
    pub async fn token_after_refusal(&self, refused: &Token) -> Result<Token, OAuthError> {
        self.token_after(refused.version()).await
    }

    pub(super) async fn token_after(&self, refused: Version) -> Result<Token, OAuthError> {
        {
            let mut state = self.shared.state();
            if state.current.as_ref().is_some_and(|current| current.token.version() == refused) {
                state.refused = Some(refused);
            }
        }
        self.token().await
    }

    /// Records that the server also refused the token that replaced a refused one. Another one is not requested for a
    /// while, unless somebody logs in.
    pub(super) fn handle_second_refusal(&self, refused: Version) {
        let mut state = self.shared.state();
        if state.current.as_ref().is_some_and(|current| current.token.version() == refused) {
            state.refused = Some(refused);
            let error = OAuthError::LoginNeeded(LogInReason::TokenRefused);
            state.pause = Some((Instant::now() + REFUSED_PAUSE, error));
        }
    }

    /// Returns the pause between two requests for the token by somebody who holds on to it.
    pub(super) fn check_interval(&self) -> Duration {
        let state = self.shared.state();
        let lifetime = state.current.as_ref().and_then(|current| current.credential.details.lifetime);
        lifetime.map_or(CHECK_INTERVAL, |lifetime| {
            Duration::from_secs(lifetime / 4).clamp(MIN_CHECK_INTERVAL, CHECK_INTERVAL)
        })
    }

    /// Returns a future that waits until another process stores a new login.
    pub(super) async fn login_elsewhere(&self) -> impl Future<Output = Credential> {
        let shared = Arc::clone(&self.shared);
        let login_id = |found: Option<Credential>| found.map(|found| found.details.login_id);
        let before = shared.load(Dialog::Forbidden).await.map(login_id);
        async move {
            // If the store could not be read, a login in it may be an old one.
            let Ok(before) = before else { return std::future::pending().await };
            loop {
                tokio::time::sleep(LOGIN_LOOK_INTERVAL).await;
                // A refresh keeps the id.
                if let Ok(Some(found)) = shared.load(Dialog::Forbidden).await
                    && before.as_ref() != Some(&found.details.login_id)
                {
                    return found;
                }
            }
        }
    }

    /// Waits until no refresh is in flight and its result is saved, but at most for this time. Returns true if a
    /// refreshed token is still not saved.
    pub(super) async fn settle(&self, time: Duration) -> bool {
        let flight = self.shared.state().last_flight.clone();
        let Some(mut flight) = flight else { return false };
        let ended = async { while flight.changed().await.is_ok() {} };
        tokio::time::timeout(time, ended).await.is_err()
            && self.shared.unsaved.try_lock().map_or(true, |unsaved| unsaved.is_some())
    }

    /// Returns the stored credential, if there is one that can be read.
    pub(super) async fn stored(&self) -> Option<Credential> {
        self.shared.load(Dialog::Forbidden).await.ok().flatten()
    }

    /// Returns true if there is a token, whatever its state is.
    pub(super) fn has_token(&self) -> bool {
        self.shared.state().current.is_some()
    }

    /// Returns true if this is the current token.
    pub(super) fn is_current(&self, version: Version) -> bool {
        self.shared.state().current.as_ref().is_some_and(|current| current.token.version() == version)
    }

    /// Returns the issuer of the current token.
    pub(super) fn current_issuer(&self) -> Option<String> {
        Some(self.shared.state().current.as_ref()?.credential.details.issuer.clone())
    }

    /// Returns the scopes that were asked for, and those that were granted.
    pub(super) fn requested_scopes(&self) -> Scopes {
        let state = self.shared.state();
        let Some(current) = &state.current else { return Scopes::new() };
        let details = &current.credential.details;
        details.requested.iter().chain(&details.scopes).collect()
    }

    pub(super) fn events(&self) -> &EventHandler {
        &self.shared.events
    }

    fn next(&self, has_looked: bool, has_refreshed: bool) -> TokenStep {
        let mut state = self.shared.state();
        let is_service = self.shared.server.options.grant == Grant::ClientCredentials;
        let may_look = !has_looked && state.looked.is_none_or(|looked| looked.elapsed() >= LOOK_INTERVAL);
        let Some(current) = &state.current else {
            if may_look {
                return TokenStep::Look;
            }
            if is_service {
                return self.refresh(&mut state, Version(0));
            }
            // A store that could not be read may have a login.
            let error = state.look_error.clone();
            return TokenStep::Fail(error.unwrap_or(OAuthError::LoginNeeded(LogInReason::NoCredential)));
        };
        let (version, credential, token) =
            (current.token.version(), &current.credential, current.token.clone());
        let is_refused = state.refused == Some(version);
        let can_refresh = credential.refresh_token.is_some() || is_service;
        match credential.freshness(unix_time()) {
            Freshness::Fresh if !is_refused => TokenStep::Use(token),
            // A token that has just been issued is used, however short its lifetime is.
            Freshness::Expired if has_refreshed && !is_refused => TokenStep::Use(token),
            Freshness::Due if !is_refused => {
                if can_refresh {
                    // The old token can still be used, so the request does not wait.
                    drop(self.refresh(&mut state, version));
                }
                TokenStep::Use(token)
            }
            _ if can_refresh => match self.refresh(&mut state, version) {
                // Somebody may have logged in meanwhile.
                TokenStep::Fail(OAuthError::LoginNeeded(_)) if may_look => TokenStep::Look,
                step => step,
            },
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
            state.current = Some(CurrentCredential::new(found));
        }
        Ok(())
    }

    /// Makes a credential current that was just saved by a login, or forgets it after a logout.
    pub(super) fn replace(&self, credential: Option<Credential>) {
        let mut state = self.shared.state();
        let (flight, last_flight) = (state.flight.take(), state.last_flight.take());
        let replaced = state.replaced.wrapping_add(1);
        let current = credential.map(CurrentCredential::new);
        *state = State { current, replaced, flight, last_flight, ..State::default() };
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

    /// Reads the stored credential. One of another issuer, client or resource counts as absent.
    async fn load(&self, dialog: Dialog) -> Result<Option<Credential>, OAuthError> {
        let text = self.store.load(&self.key, dialog).await?;
        Ok(text.and_then(|text| Credential::from_stored(&text, &self.server)))
    }
}

#[cfg(test)]
mod tests;
