//! Saves credentials, now or later.

use std::sync::Arc;
use std::time::Duration;

use mcp_protocol::oauth::refresh::Version;
use mcp_protocol::retry::Backoff;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::{SharedToken, TokenSource};
use crate::credentials::{Dialog, StoreError, StoreLock};
use crate::oauth::credential::Credential;
use crate::oauth::event::CredentialEvent;

/// The time for which a login or logout waits for a refresh by another process.
const LOCK_TIMEOUT: Duration = Duration::from_secs(15);
/// The time of one attempt to take the lock while something else may change.
const LOCK_ATTEMPT: Duration = Duration::from_millis(500);
/// The pauses between attempts to save a new credential.
const SAVE_RETRY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
/// The time for which saving is retried after the last user of the credential was dropped.
const SAVE_AFTER_CLOSE: Duration = Duration::from_secs(20);

/// A new credential that could not be saved. The lock is held until it is saved: the store may have a refresh token
/// that was redeemed, and it must not be redeemed again.
pub(super) struct Unsaved {
    pub(super) credential: Credential,
    pub(super) lock: Option<StoreLock>,
}

impl TokenSource {
    /// Saves the credential of a new login and makes it current. It is also made current if it cannot be saved, and
    /// then the error is returned and saving is retried.
    ///
    /// # Cancellation
    /// Saving continues: it is a task of its own, so that the lock is not released in the middle.
    pub(in crate::oauth) async fn store_login(&self, credential: Credential) -> Result<(), StoreError> {
        let (report, saved) = oneshot::channel();
        // Closed when the credential is saved: see `settle`.
        let (flight, receiver) = watch::channel(None);
        self.shared.state().last_flight = Some(receiver);
        let source = self.clone();
        tokio::spawn(async move {
            let unsaved = source.save_login(credential, report).await;
            let shared = Arc::clone(&source.shared);
            drop(source);
            if let Some(version) = unsaved {
                save_later(&shared, version).await;
            }
            drop(flight);
        });
        saved.await.unwrap_or_else(|_| {
            let cause = "saving was aborted, because the runtime is shutting down".to_owned();
            Err(StoreError::Unavailable { store: self.shared.store.describe(), cause })
        })
    }

    /// Takes the lock for a login or logout. Also returns the credential that could not be saved, which the login or
    /// logout replaces.
    pub(in crate::oauth) async fn take_lock(&self) -> Result<(StoreLock, Option<Credential>), StoreError> {
        let SharedToken { key, store, .. } = &*self.shared;
        let deadline = Instant::now() + LOCK_TIMEOUT;
        loop {
            let mut unsaved = self.shared.unsaved.lock().await;
            if let Some(Unsaved { lock: Some(_), .. }) = &*unsaved
                && let Some(Unsaved { credential, lock: Some(lock) }) = unsaved.take()
            {
                return Ok((lock, Some(credential)));
            }
            drop(unsaved);
            // Short waits: a refresh of this process that holds the lock may leave it with its unsaved credential.
            let left = deadline.saturating_duration_since(Instant::now());
            match store.lock(key, left.min(LOCK_ATTEMPT)).await {
                Ok(lock) => {
                    let unsaved = self.shared.unsaved.lock().await.take();
                    return Ok((lock, unsaved.map(|unsaved| unsaved.credential)));
                }
                Err(StoreError::Busy { .. }) if left > LOCK_ATTEMPT => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the credential that could not be saved yet.
    pub(in crate::oauth) async fn unsaved_credential(&self) -> Option<Credential> {
        self.shared.unsaved.lock().await.as_ref().map(|unsaved| unsaved.credential.clone())
    }

    /// Returns the version of the credential if it could not be saved.
    async fn save_login(
        &self,
        credential: Credential,
        report: oneshot::Sender<Result<(), StoreError>>,
    ) -> Option<Version> {
        let SharedToken { server, key, store, .. } = &*self.shared;
        let (lock, saved) = match self.take_lock().await {
            Ok((lock, _)) => (Some(lock), store.save(key, &credential.to_stored(), Dialog::Allowed).await),
            Err(error) => (None, Err(error)),
        };
        self.replace(Some(credential.clone()));
        let unsaved = match &saved {
            Ok(()) => None,
            Err(error) => {
                tracing::error!(server = server.name, %error, "cannot save a login; it is kept in memory and saved later");
                let event = CredentialEvent::NotSaved { server: server.name.clone(), error: error.clone() };
                self.shared.events.handle(event);
                let version = credential.version();
                *self.shared.unsaved.lock().await = Some(Unsaved { credential, lock });
                Some(version)
            }
        };
        // The caller may have stopped waiting.
        drop(report.send(saved));
        unsaved
    }
}

/// Saves a credential that could not be saved at first, unless a later refresh takes it over.
pub(super) async fn save_later(shared: &Arc<SharedToken>, version: Version) {
    let mut pause = SAVE_RETRY;
    let mut gone_since = None;
    loop {
        tokio::time::sleep(pause.pause()).await;
        pause.fail(1);
        let mut unsaved = shared.unsaved.lock().await;
        let Some(Unsaved { credential, lock }) =
            unsaved.as_mut().filter(|it| it.credential.version() == version)
        else {
            return;
        };
        // A login whose lock another process held. That process may still save an older token.
        if lock.is_none() {
            *lock = shared.store.lock(&shared.key, LOCK_ATTEMPT).await.ok();
        }
        let saved = match lock {
            Some(_) => shared.store.save(&shared.key, &credential.to_stored(), Dialog::Forbidden).await,
            None => Err(StoreError::Busy {
                store: shared.store.describe(),
                cause: "another process holds its lock".to_owned(),
            }),
        };
        match saved {
            Ok(()) => {
                tracing::info!(server = shared.server.name, "the token is saved now");
                *unsaved = None;
                shared.events.handle(CredentialEvent::Saved { server: shared.server.name.clone() });
                return;
            }
            Err(error) => {
                tracing::debug!(server = shared.server.name, %error, "cannot save a token");
            }
        }
        if Arc::strong_count(shared) == 1 {
            // Short pauses: there is not much time left.
            pause.reset();
            let since: &mut Instant = gone_since.get_or_insert_with(Instant::now);
            if since.elapsed() > SAVE_AFTER_CLOSE {
                tracing::error!(
                    server = shared.server.name,
                    "a token could not be saved and is lost; log in again"
                );
                *unsaved = None;
                shared.events.handle(CredentialEvent::Lost { server: shared.server.name.clone() });
                return;
            }
        }
    }
}
