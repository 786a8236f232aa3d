//! A store in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex as AsyncMutex;

use super::{CredentialKey, Dialog, Secret, StoreError, StoreLock, TokenStore};

/// A store in memory: credentials are lost when the process exits. Clones share their content.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_client::credentials::StoreError> {
/// use mcp_client::credentials::{CredentialKey, Dialog, MemoryStore, Secret, TokenStore};
///
/// let store = MemoryStore::default();
/// let key = CredentialKey::new(["weather"]);
/// assert!(store.load(&key, Dialog::Forbidden).await?.is_none());
/// store.save(&key, &Secret::new("a token"), Dialog::Forbidden).await?;
/// assert!(store.clone().delete(&key, Dialog::Forbidden).await?);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryStore(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    secrets: HashMap<CredentialKey, Secret>,
    locks: HashMap<CredentialKey, Arc<AsyncMutex<()>>>,
}

impl MemoryStore {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl TokenStore for MemoryStore {
    fn describe(&self) -> String {
        "memory of this process".to_owned()
    }

    async fn load(&self, key: &CredentialKey, _: Dialog) -> Result<Option<Secret>, StoreError> {
        Ok(self.state().secrets.get(key).cloned())
    }

    async fn save(&self, key: &CredentialKey, secret: &Secret, _: Dialog) -> Result<(), StoreError> {
        self.state().secrets.insert(key.clone(), secret.clone());
        Ok(())
    }

    async fn delete(&self, key: &CredentialKey, _: Dialog) -> Result<bool, StoreError> {
        Ok(self.state().secrets.remove(key).is_some())
    }

    async fn lock(&self, key: &CredentialKey, timeout: Duration) -> Result<StoreLock, StoreError> {
        let lock = Arc::clone(self.state().locks.entry(key.clone()).or_default());
        match tokio::time::timeout(timeout, lock.lock_owned()).await {
            Ok(guard) => Ok(StoreLock::new(guard)),
            Err(_) => Err(StoreError::Busy {
                store: self.describe(),
                cause: format!("the lock was not released within {timeout:.0?}"),
            }),
        }
    }
}
