//! Locks across processes: files whose advisory lock is held.
//!
//! A lock file is never deleted and never replaced: a lock on a deleted file would exclude no other process.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use super::folder::{PrivateFolder, store_error};
use super::{CredentialKey, StoreError, StoreLock};

/// The pauses between attempts to take a lock: the first one, doubled up to the last one.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const MAX_PAUSE: Duration = Duration::from_millis(200);

/// A folder of lock files, one per credential. Processes that use the same folder exclude each other.
///
/// The kernel releases a lock when its process ends, however it ends. Child processes do not inherit it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_client::credentials::StoreError> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path().join("locks");
/// use std::time::Duration;
///
/// use mcp_client::credentials::{CredentialKey, LockFolder, StoreError};
///
/// let (locks, key) = (LockFolder::new(&folder), CredentialKey::new(["weather"]));
/// let held = locks.lock(&key, "my store", Duration::from_secs(15)).await?;
/// let refused = locks.lock(&key, "my store", Duration::ZERO).await;
/// assert!(matches!(refused, Err(StoreError::Busy { .. })));
/// drop(held);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct LockFolder {
    path: PathBuf,
}

impl LockFolder {
    /// Uses this folder. It is created with mode 700 when the first lock is taken.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Takes the lock for `key`. `store` is the description of the store in errors.
    ///
    /// # Errors
    /// [`StoreError::Busy`] if the lock is still held after `timeout`, and other errors if the folder cannot be used.
    pub async fn lock(
        &self,
        key: &CredentialKey,
        store: &str,
        timeout: Duration,
    ) -> Result<StoreLock, StoreError> {
        // `None` is a time that this system cannot represent, and never comes.
        let deadline = Instant::now().checked_add(timeout);
        let failed = |error: &io::Error| store_error(store, &self.path, error);
        let (path, name) = (self.path.clone(), format!("{key}.lock"));
        let mut file = run_blocking(move || open(&path, &name)).await.map_err(|error| failed(&error))?;
        let mut pause = FIRST_PAUSE;
        loop {
            // The file is moved into the blocking task and back. If this future is dropped in between, the file is
            // closed there, which releases the lock.
            let (returned, locked) = run_blocking(move || {
                let locked = file.try_lock();
                Ok((file, locked))
            })
            .await
            .map_err(|error| failed(&error))?;
            file = returned;
            match locked {
                Ok(()) => return Ok(StoreLock::new(file)),
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                    let folder = self.path.display();
                    tracing::warn!(%folder, "the file system has no locks: several processes may refresh one token");
                    return Ok(StoreLock::new(file));
                }
                Err(TryLockError::Error(error)) => return Err(failed(&error)),
                Err(TryLockError::WouldBlock)
                    if deadline.is_some_and(|deadline| Instant::now() + pause > deadline) =>
                {
                    return Err(StoreError::Busy {
                        store: store.to_owned(),
                        cause: format!("another task or process held its lock for {timeout:.0?}"),
                    });
                }
                Err(TryLockError::WouldBlock) => tokio::time::sleep(pause).await,
            }
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }
}

fn open(path: &Path, name: &str) -> io::Result<File> {
    PrivateFolder::create(path)?.open_lock_file(name)
}

/// Runs a function that may block on a thread for such functions. It runs to its end even if the caller stops waiting.
pub(super) async fn run_blocking<T: Send + 'static>(
    run: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match tokio::task::spawn_blocking(run).await {
        Ok(result) => result,
        Err(_) => Err(io::Error::other("the runtime is shutting down")),
    }
}
