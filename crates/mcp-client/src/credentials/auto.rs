//! The store that chooses among other stores.

mod state_folder;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;

use self::state_folder::state_folder;
#[cfg(feature = "keyring")]
use super::Keychain;
use super::{
    CredentialKey, Dialog, EncryptedFile, EnvStore, LockFolder, Secret, StoreError, StoreLock, TokenStore,
    random_id,
};

/// A store that combines several stores: it reads all of them, and saves a login in the first that works.
///
/// - **Reading.** All stores are read, and the newest credential is returned. A store that is not available is skipped
///   with a warning. If no store has the credential and one of them is locked, busy or damaged, the error of this store
///   is returned, because the credential may be in it. So is the error of the store in which this process found or saved
///   the credential last, unless another store has a newer one.
/// - **A new login** ([`Dialog::Allowed`]) is saved in the first store in which a test item can be written, read and
///   deleted. Older credentials in the other stores are deleted.
/// - **A refreshed credential** ([`Dialog::Forbidden`]) is saved where it was read.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_client::credentials::StoreError> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path().join("credentials");
/// use std::sync::Arc;
///
/// use mcp_client::credentials::{AutoStore, Dialog, EncryptedFile, EnvStore, LockFolder};
///
/// let variable = Arc::new(EnvStore::new("MCP_OAUTH_TOKEN_WEATHER"));
/// let files = Arc::new(EncryptedFile::new(&folder));
/// let store = AutoStore::of(vec![variable, files], LockFolder::new(&folder));
/// let report = store.choose(Dialog::Forbidden).await;
/// assert!(report.chosen.unwrap().starts_with("obfuscated files in "));
/// assert_eq!(report.refused.len(), 1, "the variable cannot be written");
/// # Ok(()) }
/// ```
pub struct AutoStore {
    stores: Vec<Arc<dyn TokenStore>>,
    locks: LockFolder,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The store in which each credential was read or saved last, and the time at which that one was obtained.
    locations: HashMap<CredentialKey, (usize, u64)>,
    /// The last problem of each store, so that a warning is logged once.
    warned: HashMap<usize, StoreError>,
}

/// The store to which [`AutoStore`] would write, and the errors of the stores that it tried first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreReport {
    /// The description of the chosen store. `None` if no store works.
    pub chosen: Option<String>,
    /// The errors of the stores before it.
    pub refused: Vec<StoreError>,
}

impl fmt::Debug for AutoStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stores: Vec<String> = self.stores.iter().map(|store| store.describe()).collect();
        f.debug_struct("AutoStore").field("stores", &stores).finish_non_exhaustive()
    }
}

/// The part of a credential that this store reads.
#[derive(Deserialize)]
struct Age {
    /// Seconds since 1970.
    obtained_at: u64,
}

/// Returns the time at which a credential was obtained, or 0 if it does not say.
fn obtained_at(secret: &Secret) -> u64 {
    serde_json::from_str(secret.expose()).map_or(0, |age: Age| age.obtained_at)
}

impl AutoStore {
    /// Uses the keychain (feature `keyring`), then encrypted files, then the environment variable. `service` is the name
    /// of the program, under which the keychain lists its items.
    ///
    /// The files and locks are in the folder `credentials/<service>` below the folder that the environment variable
    /// `MCP_HOME` names. If the variable is not set, they are below the folder `mcp` in `$XDG_STATE_HOME` or
    /// `~/.local/state`, on macOS in `~/Library/Application Support`, and on Windows in `%LOCALAPPDATA%`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the user has no home folder, or if `service` is not usable as a file name.
    pub fn standard(service: &str, variable: Option<EnvStore>) -> Result<Self, StoreError> {
        Ok(Self::in_folder(service, &credential_folder(service)?, variable))
    }

    /// Uses the keychain, then encrypted files in this folder, then the environment variable.
    pub(crate) fn in_folder(service: &str, folder: &Path, variable: Option<EnvStore>) -> Self {
        let mut stores: Vec<Arc<dyn TokenStore>> = Vec::new();
        #[cfg(feature = "keyring")]
        stores.push(Arc::new(Keychain::new(service, folder)));
        #[cfg(not(feature = "keyring"))]
        let _ = service;
        stores.push(Arc::new(EncryptedFile::new(folder)));
        stores.extend(variable.map(|variable| Arc::new(variable) as Arc<dyn TokenStore>));
        Self::of(stores, LockFolder::new(folder))
    }

    /// Uses these stores, in this order.
    #[must_use]
    pub fn of(stores: Vec<Arc<dyn TokenStore>>, locks: LockFolder) -> Self {
        Self { stores, locks, state: Mutex::default() }
    }

    /// Returns the store to which a new login would be written, and the errors of the stores that were tried first.
    /// Each store is tested by writing, reading and deleting a random item.
    pub async fn choose(&self, dialog: Dialog) -> StoreReport {
        let (chosen, refused) = self.first_working(dialog).await;
        StoreReport { chosen: chosen.map(|at| self.stores[at].describe()), refused }
    }

    /// Returns the description of the store in which this credential was last found or saved.
    #[must_use]
    pub fn location(&self, key: &CredentialKey) -> Option<String> {
        let location = self.state().locations.get(key).copied();
        location.map(|(at, _)| self.stores[at].describe())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn first_working(&self, dialog: Dialog) -> (Option<usize>, Vec<StoreError>) {
        let mut refused = Vec::new();
        for (at, store) in self.stores.iter().enumerate() {
            match probe(&**store, dialog).await {
                Ok(()) => return (Some(at), refused),
                Err(error) => refused.push(error),
            }
        }
        (None, refused)
    }

    fn warn_once(&self, at: usize, error: &StoreError) {
        if self.state().warned.insert(at, error.clone()).as_ref() != Some(error) {
            tracing::warn!(%error, "a credential store was skipped");
        }
    }

    /// Saves a new login.
    async fn save_login(
        &self,
        key: &CredentialKey,
        secret: &Secret,
        dialog: Dialog,
    ) -> Result<(), StoreError> {
        let (chosen, refused) = self.first_working(dialog).await;
        let Some(chosen) = chosen else {
            return Err(refused.into_iter().next().unwrap_or_else(|| no_store(&self.describe())));
        };
        self.stores[chosen].save(key, secret, dialog).await?;
        self.state().locations.insert(key.clone(), (chosen, obtained_at(secret)));
        tracing::debug!(store = self.stores[chosen].describe(), "credential saved");
        for error in &refused {
            tracing::info!(%error, "a credential was not saved in the preferred store");
        }
        for (at, store) in self.stores.iter().enumerate().filter(|(at, _)| *at != chosen) {
            match store.delete(key, dialog).await {
                Ok(_) | Err(StoreError::ReadOnly { .. }) => {}
                Err(error) => self.warn_once(at, &error),
            }
        }
        Ok(())
    }
}

fn no_store(store: &str) -> StoreError {
    StoreError::Unavailable { store: store.to_owned(), cause: "there is no store for credentials".to_owned() }
}

/// Returns the folder for the credentials of a program.
pub(crate) fn credential_folder(service: &str) -> Result<PathBuf, StoreError> {
    let failed = |cause: &str| {
        Err(StoreError::Unavailable { store: "credential folder".to_owned(), cause: cause.to_owned() })
    };
    let is_name = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.');
    if service.is_empty() || service.starts_with('.') || service.len() > 64 || !service.chars().all(is_name) {
        return failed(
            "the service name must be 1 to 64 characters of A-Z, a-z, 0-9, `-`, `_` and `.`, and not begin with `.`",
        );
    }
    match state_folder(|name| std::env::var_os(name)) {
        Some(folder) => Ok(folder.join("credentials").join(service)),
        None => failed("the user has no home folder; set MCP_HOME"),
    }
}

/// Writes, reads and deletes a random item.
pub(crate) async fn probe(store: &dyn TokenStore, dialog: Dialog) -> Result<(), StoreError> {
    let (key, secret) = (CredentialKey::new(["test", &random_id()]), Secret::new(random_id()));
    store.save(&key, &secret, dialog).await?;
    let loaded = store.load(&key, dialog).await;
    let deleted = store.delete(&key, dialog).await;
    let is_same = loaded?.is_some_and(|loaded| loaded.expose() == secret.expose());
    if !is_same || !deleted? {
        let cause = "it accepted a test item, but did not return it".to_owned();
        return Err(StoreError::Unavailable { store: store.describe(), cause });
    }
    Ok(())
}

#[async_trait]
impl TokenStore for AutoStore {
    fn describe(&self) -> String {
        let stores: Vec<String> = self.stores.iter().map(|store| store.describe()).collect();
        format!("first of: {}", stores.join("; "))
    }

    fn describe_location(&self, key: &CredentialKey) -> String {
        self.location(key).unwrap_or_else(|| self.describe())
    }

    async fn load(&self, key: &CredentialKey, dialog: Dialog) -> Result<Option<Secret>, StoreError> {
        let location = self.state().locations.get(key).copied();
        let mut newest: Option<(usize, u64, Secret)> = None;
        let (mut failed, mut newer_than) = (None, None);
        for (at, store) in self.stores.iter().enumerate() {
            match store.load(key, dialog).await {
                Ok(None) => {}
                Ok(Some(secret)) => {
                    let time = obtained_at(&secret);
                    if newest.as_ref().is_none_or(|(_, newest, _)| time > *newest) {
                        newest = Some((at, time, secret));
                    }
                }
                Err(error) => {
                    self.warn_once(at, &error);
                    let last = location.filter(|(location, _)| *location == at);
                    if last.is_some() || !matches!(error, StoreError::Unavailable { .. }) {
                        failed.get_or_insert(error);
                    }
                    newer_than = newer_than.or(last.map(|(_, time)| time));
                }
            }
        }
        let newest = newest.filter(|(_, time, _)| newer_than.is_none_or(|known| *time > known));
        match (newest, failed) {
            (Some((at, time, secret)), _) => {
                self.state().locations.insert(key.clone(), (at, time));
                Ok(Some(secret))
            }
            (None, Some(error)) => Err(error),
            (None, None) => {
                self.state().locations.remove(key);
                Ok(None)
            }
        }
    }

    async fn save(&self, key: &CredentialKey, secret: &Secret, dialog: Dialog) -> Result<(), StoreError> {
        let location = self.state().locations.get(key).copied();
        match location {
            Some((at, _)) if dialog == Dialog::Forbidden => {
                self.stores[at].save(key, secret, dialog).await?;
                self.state().locations.insert(key.clone(), (at, obtained_at(secret)));
                Ok(())
            }
            _ => self.save_login(key, secret, dialog).await,
        }
    }

    /// Deletes the credential from all stores, even if one of them fails.
    async fn delete(&self, key: &CredentialKey, dialog: Dialog) -> Result<bool, StoreError> {
        let location = self.state().locations.get(key).copied();
        let (mut existed, mut failed) = (false, None);
        for (at, store) in self.stores.iter().enumerate() {
            match store.delete(key, dialog).await {
                Ok(deleted) => existed |= deleted,
                // There is nothing to delete in a store that never worked here.
                Err(StoreError::Unavailable { .. }) if location.is_none_or(|(last, _)| last != at) => {}
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        self.state().locations.remove(key);
        Ok(existed)
    }

    async fn lock(&self, key: &CredentialKey, timeout: Duration) -> Result<StoreLock, StoreError> {
        self.locks.lock(key, &self.describe(), timeout).await
    }
}

#[cfg(test)]
mod tests;
