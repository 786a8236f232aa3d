//! One refresh: does what `RefreshTransaction` decides.

use std::sync::Arc;
use std::time::Duration;

use mcp_protocol::oauth::freshness::Freshness;
use mcp_protocol::oauth::refresh::{
    Loaded, LogInReason, Obstacle, Redeemed, RefreshEnd, RefreshStep, RefreshTransaction, Version,
};
use tokio::sync::watch;
use tokio::time::Instant;

use super::saving::{Unsaved, save_later};
use super::{FlightResult, RETRY, SharedToken};
use crate::credentials::{Dialog, StoreError, StoreLock};
use crate::oauth::clock::unix_time;
use crate::oauth::credential::Credential;
use crate::oauth::error::OAuthError;
use crate::oauth::event::CredentialEvent;
use crate::oauth::options::Grant;
use crate::oauth::token::CurrentCredential;

/// Refreshes the credential with the version `old`, and reports the result.
pub(super) async fn run(shared: Arc<SharedToken>, old: Version, result: watch::Sender<FlightResult>) {
    let replaced = shared.state().replaced;
    let mut transaction = RefreshTransaction::new(old, now());
    let mut work = Work { shared: &shared, lock: None, credential: None, unsaved: None, error: None };
    let end = loop {
        match transaction.poll() {
            RefreshStep::End(end) => break end,
            step => work.step(step, &mut transaction).await,
        }
    };
    let Work { mut lock, credential, unsaved, error, .. } = work;
    let is_locked = lock.is_some();
    let unsaved = match end {
        RefreshEnd::Refreshed { is_saved: true }
        | RefreshEnd::LogIn(LogInReason::NoCredential | LogInReason::Refused) => None,
        RefreshEnd::Refreshed { is_saved: false } => credential.clone(),
        RefreshEnd::Found | RefreshEnd::LogIn(_) | RefreshEnd::Unavailable(_) => unsaved,
    };
    let unsaved_version = unsaved.as_ref().map(Credential::version);
    if let Some(credential) = unsaved {
        *shared.unsaved.lock().await = Some(Unsaved { credential, lock: lock.take() });
    }
    let outcome = {
        let mut state = shared.state();
        state.flight = None;
        let outcome = match end {
            RefreshEnd::Found | RefreshEnd::Refreshed { .. } => Ok(()),
            RefreshEnd::LogIn(reason) => Err(OAuthError::LoginNeeded(reason)),
            RefreshEnd::Unavailable(obstacle) => {
                Err(error.unwrap_or_else(|| obstacle_error(&shared, obstacle)))
            }
        };
        match &outcome {
            // This one was read without the lock, before a login or logout.
            Ok(()) if !is_locked && state.replaced != replaced => {}
            Ok(()) => {
                state.current = credential.map(CurrentCredential::new);
                (state.refused, state.pause, state.failures) = (None, None, 0);
            }
            Err(OAuthError::LoginNeeded(reason))
                if !matches!(reason, LogInReason::ClientRefused | LogInReason::IssuerChanged) =>
            {
                (state.current, state.look_error) = (None, None);
            }
            Err(error) => {
                let mut pause = RETRY;
                pause.fail(state.failures);
                state.failures = state.failures.saturating_add(1);
                state.pause = Some((Instant::now() + pause.pause(), error.clone()));
                tracing::warn!(server = shared.server.name, %error, "cannot refresh a token");
            }
        }
        outcome
    };
    // The callers may have stopped waiting.
    drop(result.send(Some(outcome)));
    drop(lock);
    if let Some(version) = unsaved_version {
        save_later(&shared, version).await;
    }
}

struct Work<'a> {
    shared: &'a SharedToken,
    lock: Option<StoreLock>,
    /// The credential that was read last, or the new one.
    credential: Option<Credential>,
    /// The credential of an earlier refresh that could not be saved, instead of the stored one.
    unsaved: Option<Credential>,
    /// The last failure of the store or of the server.
    error: Option<OAuthError>,
}

impl Work<'_> {
    async fn step(&mut self, step: RefreshStep, transaction: &mut RefreshTransaction) {
        let store = &self.shared.store;
        match step {
            RefreshStep::Lock { timeout } => match self.lock(timeout).await {
                Ok(lock) => {
                    self.lock = lock;
                    transaction.handle_lock(true, now());
                }
                Err(StoreError::Busy { .. }) => transaction.handle_lock(false, now()),
                Err(error) => {
                    self.error = Some(error.into());
                    transaction.handle_lock_failure();
                }
            },
            RefreshStep::Load => {
                let unsaved = match &self.lock {
                    Some(_) => self.unsaved.clone().filter(|_| self.credential.is_none()),
                    None => {
                        self.shared.unsaved.lock().await.as_ref().map(|unsaved| unsaved.credential.clone())
                    }
                };
                let found = match unsaved {
                    Some(unsaved) => Ok(Some(unsaved)),
                    None => self.shared.load(Dialog::Forbidden).await,
                };
                let loaded = match found {
                    Ok(found) => {
                        self.credential = found;
                        self.describe()
                    }
                    Err(error) => {
                        self.error = Some(error);
                        Loaded::Failed
                    }
                };
                transaction.handle_loaded(loaded);
            }
            RefreshStep::Redeem => {
                let redeemed = self.redeem().await;
                transaction.handle_redeemed(redeemed);
            }
            RefreshStep::Save => {
                let saved = match &self.credential {
                    Some(credential) => {
                        store.save(&self.shared.key, &credential.to_stored(), Dialog::Forbidden).await
                    }
                    None => Ok(()),
                };
                let server = self.shared.server.name.clone();
                match &saved {
                    Err(error) => {
                        tracing::error!(server, %error, "cannot save a refreshed token; it is kept in memory and saved later");
                        self.shared.events.handle(CredentialEvent::NotSaved { server, error: error.clone() });
                    }
                    Ok(()) if self.unsaved.is_some() => {
                        self.shared.events.handle(CredentialEvent::Saved { server });
                    }
                    Ok(()) => {}
                }
                transaction.handle_saved(saved.is_ok());
            }
            RefreshStep::Delete => {
                if let Err(error) = store.delete(&self.shared.key, Dialog::Forbidden).await {
                    tracing::warn!(server = self.shared.server.name, %error, "cannot delete a token that was refused");
                }
                transaction.handle_deleted();
            }
            RefreshStep::End(_) => {}
        }
    }

    /// Takes the lock, or takes it over from an earlier refresh of this process whose credential is not saved yet.
    async fn lock(&mut self, timeout: Duration) -> Result<Option<StoreLock>, StoreError> {
        let store = &self.shared.store;
        let is_ours = |unsaved: &mut Unsaved| unsaved.lock.is_some();
        let taken = self.shared.unsaved.lock().await.take_if(is_ours);
        if let Some(Unsaved { credential, lock }) = taken {
            (self.unsaved, self.credential) = (Some(credential), None);
            return Ok(lock);
        }
        let lock = store.lock(&self.shared.key, timeout).await?;
        // A login that could not be saved because another process held the lock.
        if let Some(Unsaved { credential, .. }) = self.shared.unsaved.lock().await.take() {
            (self.unsaved, self.credential) = (Some(credential), None);
        }
        Ok(Some(lock))
    }

    fn describe(&self) -> Loaded {
        let is_service = self.shared.server.options.grant == Grant::ClientCredentials;
        let Some(credential) = &self.credential else {
            // A service can request a token without an old one.
            return if is_service {
                Loaded::Credential { version: Version(0), is_usable: false, can_refresh: true }
            } else {
                Loaded::Nothing
            };
        };
        let version = credential.version();
        let is_refused = self.shared.state().refused == Some(version);
        Loaded::Credential {
            version,
            is_usable: !is_refused && credential.freshness(unix_time()) == Freshness::Fresh,
            can_refresh: credential.refresh_token.is_some() || is_service,
        }
    }

    async fn redeem(&mut self) -> Redeemed {
        match self.issue().await {
            Ok(credential) => {
                self.credential = Some(credential);
                Redeemed::Token
            }
            Err(error) if error.is_code("invalid_grant") => Redeemed::InvalidGrant,
            Err(error) if error.is_code("invalid_client") || error.is_code("unauthorized_client") => {
                if let Some(old) = &self.credential {
                    let SharedToken { server, store, .. } = self.shared;
                    server.forget_registration(&old.details.issuer, &**store).await;
                }
                Redeemed::InvalidClient
            }
            Err(error) => {
                self.error = Some(error);
                Redeemed::Unreachable
            }
        }
    }

    /// Requests a new token.
    async fn issue(&self) -> Result<Credential, OAuthError> {
        let SharedToken { server, http, .. } = self.shared;
        if server.options.grant == Grant::ClientCredentials {
            return server.service_token(http, None, self.credential.as_ref()).await;
        }
        let Some(old) = &self.credential else {
            return Err(OAuthError::LoginNeeded(LogInReason::NoCredential));
        };
        let grants = server.recorded(old, http)?;
        let Some(refresh_token) = &old.refresh_token else {
            return Err(OAuthError::LoginNeeded(LogInReason::NoRefreshToken));
        };
        let issued = grants.refresh(refresh_token).await?;
        Ok(old.refreshed(issued, unix_time()))
    }
}

fn obstacle_error(shared: &SharedToken, obstacle: Obstacle) -> OAuthError {
    match obstacle {
        Obstacle::Locked => OAuthError::Store(StoreError::Busy {
            store: shared.store.describe(),
            cause: "another process has been refreshing the token for more than 15 s".to_owned(),
        }),
        Obstacle::Store | Obstacle::Server => OAuthError::Unreachable {
            endpoint: shared.server.options.configured_issuer().to_owned(),
            problem: "it did not respond".to_owned(),
        },
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}
