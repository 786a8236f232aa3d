//! The store of encrypted files: one file per credential.

mod format;
pub(super) mod keys;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use self::format::{FileError, MAX_FILE_BYTES, decrypt, encrypt};
use self::keys::{FileKey, KeyProtection, KeySource, KeySources};
use super::folder::{PrivateFolder, store_error};
use super::lock::{LockFolder, run_blocking};
use super::{CredentialKey, Dialog, MAX_SECRET_BYTES, Secret, StoreError, StoreLock, TokenStore, random_id};

/// A store that keeps each credential in an encrypted file of a private folder.
///
/// The files are encrypted with XChaCha20-Poly1305 and bound to their credential key, so that one file cannot be passed
/// off as another. A write replaces the file as a whole and waits until it is on disk: after a crash there is the old or
/// the new credential. Reading a damaged file fails. Saving a new credential renames the damaged file instead of
/// overwriting it.
///
/// # The key
///
/// All files of a folder are encrypted with one key. The first write decides where it is, and the file `key` in the
/// folder records that:
/// - in the keychain, with `key_in_keychain` (feature `keyring`);
/// - derived from a passphrase by Argon2id, with [`passphrase`](Self::passphrase);
/// - otherwise in the file `key` itself. This protects the credentials in backups that leave this file out, and from a
///   casual look, but not from a program that can read the folder. [`protection`](Self::protection) calls it
///   [`KeyProtection::Obfuscated`].
///
/// # Permissions
///
/// On Unix the folder has mode 700 and the files have mode 600. A folder or file that belongs to another user, that
/// other users can access, or that is a symbolic link is refused.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_client::credentials::StoreError> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path().join("credentials");
/// use mcp_client::credentials::{CredentialKey, Dialog, EncryptedFile, Secret, TokenStore};
///
/// let store = EncryptedFile::new(&folder).passphrase(|_| Some(Secret::new("correct horse battery staple")));
/// let key = CredentialKey::new(["weather"]);
/// store.save(&key, &Secret::new("a token"), Dialog::Allowed).await?;
///
/// let wrong = EncryptedFile::new(&folder).passphrase(|_| Some(Secret::new("a guess")));
/// let error = wrong.load(&key, Dialog::Allowed).await.unwrap_err();
/// assert!(error.to_string().contains("wrong passphrase"));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct EncryptedFile {
    shared: Arc<EncryptedFolder>,
}

#[derive(Clone)]
struct EncryptedFolder {
    folder: PathBuf,
    locks: LockFolder,
    keys: KeySources,
}

impl fmt::Debug for EncryptedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncryptedFile").field("folder", &self.shared.folder).finish_non_exhaustive()
    }
}

impl EncryptedFile {
    /// Uses this folder, which is created when the first credential is saved.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        let locks = LockFolder::new(&folder);
        Self { shared: Arc::new(EncryptedFolder { folder, locks, keys: KeySources::default() }) }
    }

    /// Derives the key of a new folder from a passphrase. The function returns the passphrase, or `None` if it has none,
    /// for example because it would have to ask the user and [`Dialog::Forbidden`] is passed. It is called on a thread
    /// where it may block, at most once per process unless it returns `None` or a wrong passphrase.
    #[must_use]
    pub fn passphrase(self, ask: impl Fn(Dialog) -> Option<Secret> + Send + Sync + 'static) -> Self {
        self.with_source(KeySource::Passphrase(Arc::new(ask)))
    }

    /// Keeps the key of a new folder in the keychain, so that each credential is a file and the keychain has one item.
    /// If the keychain cannot be used when the first credential is saved, saving fails.
    #[cfg(feature = "keyring")]
    #[cfg_attr(docsrs, doc(cfg(feature = "keyring")))]
    #[must_use]
    pub fn key_in_keychain(self, keychain: super::Keychain) -> Self {
        self.with_source(KeySource::Keychain(keychain))
    }

    fn with_source(self, source: KeySource) -> Self {
        let mut shared = Arc::unwrap_or_clone(self.shared);
        shared.keys = shared.keys.with(source);
        Self { shared: Arc::new(shared) }
    }

    /// Returns the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.shared.folder
    }

    /// Tells how the key of the folder is protected. Returns `None` if the folder has no key yet.
    ///
    /// # Errors
    /// Fails if the folder cannot be read: see [`StoreError`].
    pub async fn protection(&self) -> Result<Option<KeyProtection>, StoreError> {
        let folder = self.shared.folder.clone();
        run_blocking(move || match PrivateFolder::open(&folder)? {
            Some(folder) => keys::protection(&folder),
            None => Ok(None),
        })
        .await
        .map_err(|error| self.error(&error))
    }

    async fn key(&self, dialog: Dialog, is_new: bool) -> Result<FileKey, StoreError> {
        self.shared.keys.get(&self.shared.folder, &self.describe(), dialog, is_new).await
    }

    fn error(&self, error: &io::Error) -> StoreError {
        store_error(&self.describe(), &self.shared.folder, error)
    }

    fn damaged(&self, name: &str, error: FileError) -> StoreError {
        let cause = format!("{}: {error}", self.shared.folder.join(name).display());
        StoreError::Corrupt { store: self.describe(), cause }
    }
}

fn file_name(key: &CredentialKey) -> String {
    format!("{key}.cred")
}

#[async_trait]
impl TokenStore for EncryptedFile {
    fn describe(&self) -> String {
        let adjective = match self.shared.keys.expected_protection() {
            KeyProtection::Obfuscated => "obfuscated",
            KeyProtection::Keychain | KeyProtection::Passphrase => "encrypted",
        };
        format!("{adjective} files in {}", self.shared.folder.display())
    }

    async fn load(&self, key: &CredentialKey, dialog: Dialog) -> Result<Option<Secret>, StoreError> {
        let (folder, name) = (self.shared.folder.clone(), file_name(key));
        let read = run_blocking(move || match PrivateFolder::open(&folder)? {
            Some(folder) => folder.read(&name, MAX_FILE_BYTES),
            None => Ok(None),
        });
        let Some(bytes) = read.await.map_err(|error| self.error(&error))? else { return Ok(None) };
        let file_key = self.key(dialog, false).await?;
        decrypt(&bytes, key, &file_key).map(Some).map_err(|error| self.damaged(&file_name(key), error))
    }

    async fn save(&self, key: &CredentialKey, secret: &Secret, dialog: Dialog) -> Result<(), StoreError> {
        if secret.expose().len() > MAX_SECRET_BYTES {
            return Err(StoreError::Unavailable {
                store: self.describe(),
                cause: format!("the credential is longer than {MAX_SECRET_BYTES} bytes"),
            });
        }
        let file_key = self.key(dialog, true).await?;
        let bytes = encrypt(secret, key, &file_key);
        let (folder, name, key) = (self.shared.folder.clone(), file_name(key), key.clone());
        run_blocking(move || {
            let folder = PrivateFolder::create(&folder)?;
            let is_damaged = match folder.read(&name, MAX_FILE_BYTES) {
                Ok(None) => false,
                Ok(Some(bytes)) => decrypt(&bytes, &key, &file_key).is_err(),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => true,
                Err(error) => return Err(error),
            };
            if is_damaged {
                folder.rename(&name, &format!("{name}.damaged-{}", random_id()))?;
                tracing::warn!(
                    file = name,
                    "a damaged credential file was renamed, and a new one is written"
                );
            }
            folder.replace(&name, &bytes)?;
            folder.remove_leftovers();
            Ok(())
        })
        .await
        .map_err(|error| self.error(&error))
    }

    async fn delete(&self, key: &CredentialKey, _: Dialog) -> Result<bool, StoreError> {
        let (folder, name) = (self.shared.folder.clone(), file_name(key));
        run_blocking(move || match PrivateFolder::open(&folder)? {
            Some(folder) => folder.remove(&name),
            None => Ok(false),
        })
        .await
        .map_err(|error| self.error(&error))
    }

    async fn lock(&self, key: &CredentialKey, timeout: Duration) -> Result<StoreLock, StoreError> {
        self.shared.locks.lock(key, &self.describe(), timeout).await
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
