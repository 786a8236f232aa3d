//! The interface of credential stores.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{CredentialKey, Secret};

/// Tells whether a store may show a dialog to the user, such as the one that unlocks a keychain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialog {
    /// The user is present and waits for this operation, for example during a login. The store may wait without limit.
    Allowed,
    /// The user may be absent, for example when a token is refreshed. The store responds or fails within 5 s. It asks
    /// nobody, except that a keychain that is locked may show a dialog of its own.
    Forbidden,
}

/// A store for credentials: one secret text per key, at most 64 KiB.
///
/// The stores of this crate are [`EncryptedFile`](super::EncryptedFile), `Keychain` (feature `keyring`),
/// [`EnvStore`](super::EnvStore), [`MemoryStore`](super::MemoryStore) and [`AutoStore`](super::AutoStore), which chooses
/// among them. Implement this trait to keep credentials elsewhere.
///
/// A store must be safe for several processes if several processes use it. In particular, [`save`](Self::save) replaces
/// the text as a whole: a reader sees the old or the new text, even if the process is killed in the middle.
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::Mutex;
/// use std::time::Duration;
///
/// use mcp_client::async_trait;
/// use mcp_client::credentials::{CredentialKey, Dialog, Secret, StoreError, StoreLock, TokenStore};
///
/// /// A real store would be a table in a database.
/// #[derive(Default)]
/// struct Table(Mutex<HashMap<CredentialKey, Secret>>);
///
/// #[async_trait]
/// impl TokenStore for Table {
///     fn describe(&self) -> String {
///         "table `credentials`".to_owned()
///     }
///
///     async fn load(&self, key: &CredentialKey, _: Dialog) -> Result<Option<Secret>, StoreError> {
///         Ok(self.0.lock().unwrap().get(key).cloned())
///     }
///
///     async fn save(&self, key: &CredentialKey, secret: &Secret, _: Dialog) -> Result<(), StoreError> {
///         self.0.lock().unwrap().insert(key.clone(), secret.clone());
///         Ok(())
///     }
///
///     async fn delete(&self, key: &CredentialKey, _: Dialog) -> Result<bool, StoreError> {
///         Ok(self.0.lock().unwrap().remove(key).is_some())
///     }
///
///     async fn lock(&self, _: &CredentialKey, _: Duration) -> Result<StoreLock, StoreError> {
///         // A real store would take an advisory lock of the database and release it on drop.
///         Ok(StoreLock::new(()))
///     }
/// }
/// ```
#[async_trait]
pub trait TokenStore: Send + Sync + 'static {
    /// Returns a description for people, such as `keychain` or `encrypted files in /home/ada/.local/state/mcp`.
    fn describe(&self) -> String;

    /// Returns a description of the place of one credential, for stores that have several.
    fn describe_location(&self, key: &CredentialKey) -> String {
        let _ = key;
        self.describe()
    }

    /// Returns the text that is stored under `key`, or `None` if there is none.
    ///
    /// # Errors
    /// Fails if the store cannot be read: see [`StoreError`].
    async fn load(&self, key: &CredentialKey, dialog: Dialog) -> Result<Option<Secret>, StoreError>;

    /// Stores a text under `key` and replaces an earlier one.
    ///
    /// # Errors
    /// Fails if the text is not stored. An earlier text is then unchanged.
    async fn save(&self, key: &CredentialKey, secret: &Secret, dialog: Dialog) -> Result<(), StoreError>;

    /// Deletes the text under `key`. Returns false if there was none.
    ///
    /// # Errors
    /// Fails if the text may still be stored.
    async fn delete(&self, key: &CredentialKey, dialog: Dialog) -> Result<bool, StoreError>;

    /// Waits until no other task of this or another process holds the lock for `key`, and takes it.
    /// Hold this lock while replacing a credential with a newer one, so that a token is refreshed once and not by each
    /// process. The lock is released when it is dropped, and when the process ends.
    ///
    /// # Errors
    /// [`StoreError::Busy`] if the lock is still held after `timeout`, and other errors if the lock cannot be created.
    async fn lock(&self, key: &CredentialKey, timeout: Duration) -> Result<StoreLock, StoreError>;
}

/// A store that several owners share, or whose type is chosen at run time.
#[async_trait]
impl<S: TokenStore + ?Sized> TokenStore for Arc<S> {
    fn describe(&self) -> String {
        (**self).describe()
    }

    fn describe_location(&self, key: &CredentialKey) -> String {
        (**self).describe_location(key)
    }

    async fn load(&self, key: &CredentialKey, dialog: Dialog) -> Result<Option<Secret>, StoreError> {
        (**self).load(key, dialog).await
    }

    async fn save(&self, key: &CredentialKey, secret: &Secret, dialog: Dialog) -> Result<(), StoreError> {
        (**self).save(key, secret, dialog).await
    }

    async fn delete(&self, key: &CredentialKey, dialog: Dialog) -> Result<bool, StoreError> {
        (**self).delete(key, dialog).await
    }

    async fn lock(&self, key: &CredentialKey, timeout: Duration) -> Result<StoreLock, StoreError> {
        (**self).lock(key, timeout).await
    }
}

/// A lock that [`TokenStore::lock`] returned. Dropping it releases the lock.
pub struct StoreLock {
    _guard: Box<dyn Any + Send + Sync>,
}

impl StoreLock {
    /// Wraps the value whose drop releases the lock.
    #[must_use]
    pub fn new(guard: impl Any + Send + Sync) -> Self {
        Self { _guard: Box::new(guard) }
    }
}

impl fmt::Debug for StoreLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreLock")
    }
}

/// The reason why a store failed. A credential that does not exist is not an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store is locked, for example a keychain that asks for a password.
    #[error("{store} is locked: {cause}; unlock it, then retry")]
    Locked {
        /// The description of the store.
        store: String,
        /// The cause.
        cause: String,
    },
    /// The store does not exist here, or does not respond.
    #[error("{store} is not available: {cause}")]
    Unavailable {
        /// The description of the store.
        store: String,
        /// The cause.
        cause: String,
    },
    /// Another operation or another process uses the store for longer than the caller can wait.
    #[error("{store} is busy: {cause}; retry later")]
    Busy {
        /// The description of the store.
        store: String,
        /// The cause.
        cause: String,
    },
    /// The stored data is damaged, or was written with another key. The store keeps it until a new login is
    /// saved.
    #[error("{store} has a damaged credential: {cause}; log in again to replace it")]
    Corrupt {
        /// The description of the store.
        store: String,
        /// The cause.
        cause: String,
    },
    /// The store cannot be written.
    #[error("{store} cannot be written: {cause}")]
    ReadOnly {
        /// The description of the store.
        store: String,
        /// The cause.
        cause: String,
    },
    /// Other users can access the data, or this user cannot.
    #[error("cannot use {store}: {cause}")]
    Permissions {
        /// The description of the store.
        store: String,
        /// The cause and the remedy.
        cause: String,
    },
}

impl StoreError {
    /// Returns the description of the store that failed.
    #[must_use]
    pub fn store(&self) -> &str {
        match self {
            Self::Locked { store, .. }
            | Self::Unavailable { store, .. }
            | Self::Busy { store, .. }
            | Self::Corrupt { store, .. }
            | Self::ReadOnly { store, .. }
            | Self::Permissions { store, .. } => store,
        }
    }
}
