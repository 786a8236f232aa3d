//! The store in the keychain of the operating system.

mod chunks;
mod platform;
mod thread;

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;

use self::thread::{KeychainThread, Operation};
use super::lock::LockFolder;
use super::{CredentialKey, Dialog, MAX_SECRET_BYTES, Secret, StoreError, StoreLock, TokenStore};

/// A store that keeps each credential as an item in the keychain of the operating system: Keychain on macOS, Credential
/// Manager on Windows, and Secret Service (GNOME Keyring, KWallet, KeePassXC) elsewhere.
///
/// Keychains block their callers, sometimes for as long as a dialog is open. Therefore one thread makes all calls of the
/// process, and this type waits for it without blocking the runtime. With [`Dialog::Forbidden`], an operation that has
/// not finished after 5 s fails with [`StoreError::Busy`]. Later operations of this kind fail immediately until the
/// keychain responds again. A `save` that was accepted is finished even if its caller stops waiting.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_client::credentials::StoreError> {
/// use mcp_client::credentials::{CredentialKey, Dialog, Keychain, Secret, TokenStore};
///
/// let store = Keychain::new("my-cli", "/home/ada/.local/state/my-cli/locks");
/// let key = CredentialKey::new(["weather"]);
/// store.save(&key, &Secret::new("a token"), Dialog::Allowed).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Keychain {
    service: String,
    locks: LockFolder,
}

impl Keychain {
    /// Uses the keychain under this service name, which users see in the list of their passwords. Keychains have
    /// no locks that processes can share, so the locks are files in `lock_folder`: see [`LockFolder`].
    #[must_use]
    pub fn new(service: impl Into<String>, lock_folder: impl Into<PathBuf>) -> Self {
        Self { service: service.into(), locks: LockFolder::new(lock_folder) }
    }

    async fn run(
        &self,
        key: &CredentialKey,
        operation: Operation,
        dialog: Dialog,
    ) -> Result<Option<Secret>, StoreError> {
        KeychainThread::shared().run(&self.service, key, operation, dialog).await
    }
}

/// The description of the keychain in errors.
const DESCRIPTION: &str = "keychain";

#[async_trait]
impl TokenStore for Keychain {
    fn describe(&self) -> String {
        DESCRIPTION.to_owned()
    }

    async fn load(&self, key: &CredentialKey, dialog: Dialog) -> Result<Option<Secret>, StoreError> {
        self.run(key, Operation::Load, dialog).await
    }

    async fn save(&self, key: &CredentialKey, secret: &Secret, dialog: Dialog) -> Result<(), StoreError> {
        if secret.expose().len() > MAX_SECRET_BYTES {
            return Err(StoreError::Unavailable {
                store: self.describe(),
                cause: format!("the credential is longer than {MAX_SECRET_BYTES} bytes"),
            });
        }
        self.run(key, Operation::Save(secret.clone()), dialog).await.map(drop)
    }

    async fn delete(&self, key: &CredentialKey, dialog: Dialog) -> Result<bool, StoreError> {
        Ok(self.run(key, Operation::Delete, dialog).await?.is_some())
    }

    async fn lock(&self, key: &CredentialKey, timeout: Duration) -> Result<StoreLock, StoreError> {
        self.locks.lock(key, &self.describe(), timeout).await
    }
}
