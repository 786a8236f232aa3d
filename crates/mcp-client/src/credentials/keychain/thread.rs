//! The thread that makes all calls to the keychain.
//!
//! # Invariants
//! - At most one call to the keychain is running, and at most [`MAX_QUEUED_JOBS`] wait for it.
//! - Nothing waits for the end of this thread, unlike the other threads of this crate, because a call to the keychain
//!   cannot be interrupted. The thread holds no lock while it waits for the keychain.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::DESCRIPTION;
use super::chunks;
use super::platform::Platform;
use crate::credentials::{CredentialKey, Dialog, Secret, StoreError};

/// The maximum number of operations that wait for the thread.
const MAX_QUEUED_JOBS: usize = 64;
/// The maximum duration of an operation if no dialog may be open.
const TIMEOUT: Duration = Duration::from_secs(5);

/// An operation on one item.
pub(super) enum Operation {
    Load,
    Save(Secret),
    /// Deletes the item. The result is empty text if there was an item.
    Delete,
}

struct Job {
    service: String,
    key: CredentialKey,
    operation: Operation,
    response: oneshot::Sender<Result<Option<Secret>, StoreError>>,
}

/// The items of a keychain. Tests replace the real one.
pub(super) trait Items: Send {
    /// The maximum size of an item in bytes, if the keychain has such a limit.
    fn max_item_bytes(&self) -> Option<usize>;
    fn get(&mut self, service: &str, name: &str) -> Result<Option<Secret>, StoreError>;
    fn set(&mut self, service: &str, name: &str, secret: &Secret) -> Result<(), StoreError>;
    /// Returns false if there was no such item.
    fn remove(&mut self, service: &str, name: &str) -> Result<bool, StoreError>;
}

/// The state of the thread.
#[derive(Default)]
struct Activity {
    is_running: bool,
    /// True if a caller stopped waiting for the running operation.
    is_stuck: bool,
}

/// The handle of the thread.
pub(super) struct KeychainThread {
    jobs: Mutex<Option<SyncSender<Job>>>,
    activity: Arc<Mutex<Activity>>,
    open: fn() -> Box<dyn Items>,
}

impl KeychainThread {
    /// Returns the thread of this process. It is started by the first operation.
    pub(super) fn shared() -> &'static Self {
        static SHARED: OnceLock<KeychainThread> = OnceLock::new();
        SHARED.get_or_init(|| Self::new(|| Box::new(Platform::default())))
    }

    pub(super) fn new(open: fn() -> Box<dyn Items>) -> Self {
        Self { jobs: Mutex::default(), activity: Arc::default(), open }
    }

    /// Runs one operation. A `Save` that was queued is finished even if this future is dropped; other operations are
    /// skipped if they have not begun.
    pub(super) async fn run(
        &self,
        service: &str,
        key: &CredentialKey,
        operation: Operation,
        dialog: Dialog,
    ) -> Result<Option<Secret>, StoreError> {
        if dialog == Dialog::Forbidden && lock(&self.activity).is_stuck {
            return Err(busy("it has not responded to an earlier operation for more than 5 s"));
        }
        let (response, receiver) = oneshot::channel();
        self.send(Job { service: service.to_owned(), key: key.clone(), operation, response })?;
        let received = match dialog {
            Dialog::Allowed => receiver.await,
            Dialog::Forbidden => match tokio::time::timeout(TIMEOUT, receiver).await {
                Ok(received) => received,
                Err(_) => {
                    let mut activity = lock(&self.activity);
                    activity.is_stuck = activity.is_running;
                    return Err(busy("it did not respond within 5 s; it may be waiting for a dialog"));
                }
            },
        };
        // The thread drops the sender only if the call to the keychain panicked.
        received.unwrap_or_else(|_| Err(unavailable("the keychain library failed unexpectedly")))
    }

    fn send(&self, job: Job) -> Result<(), StoreError> {
        let mut jobs = lock(&self.jobs);
        let job = match &*jobs {
            None => job,
            Some(sender) => match sender.try_send(job) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(_)) => return Err(busy("too many operations wait for it")),
                Err(TrySendError::Disconnected(job)) => job,
            },
        };
        let (sender, receiver) = sync_channel(MAX_QUEUED_JOBS);
        let (activity, open) = (Arc::clone(&self.activity), self.open);
        std::thread::Builder::new()
            .name("mcp-keychain".to_owned())
            .spawn(move || serve(&receiver, &activity, open()))
            .map_err(|error| unavailable(&format!("cannot start its thread: {error}")))?;
        // The channel is new and has room.
        let queued = sender.try_send(job).map_err(|_| busy("its thread ended"));
        *jobs = Some(sender);
        queued
    }
}

fn serve(jobs: &Receiver<Job>, activity: &Mutex<Activity>, mut items: Box<dyn Items>) {
    while let Ok(Job { service, key, operation, response }) = jobs.recv() {
        if response.is_closed() && !matches!(operation, Operation::Save(_)) {
            continue;
        }
        lock(activity).is_running = true;
        let result = catch_unwind(AssertUnwindSafe(|| run(items.as_mut(), &service, &key, operation)));
        *lock(activity) = Activity::default();
        if let Ok(result) = result {
            // The caller may have stopped waiting.
            drop(response.send(result));
        }
    }
}

fn run(
    items: &mut dyn Items,
    service: &str,
    key: &CredentialKey,
    operation: Operation,
) -> Result<Option<Secret>, StoreError> {
    match operation {
        Operation::Load => chunks::load(items, service, key.as_str()),
        Operation::Save(secret) => {
            chunks::save(items, service, key.as_str(), &secret)?;
            // Some keychains accept a write and lose it.
            match chunks::load(items, service, key.as_str())? {
                Some(read) if read.expose() == secret.expose() => Ok(None),
                _ => Err(unavailable("it did not return the credential that was just saved")),
            }
        }
        Operation::Delete => {
            let existed = chunks::delete(items, service, key.as_str())?;
            Ok(existed.then(|| Secret::new(String::new())))
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn busy(cause: &str) -> StoreError {
    StoreError::Busy { store: DESCRIPTION.to_owned(), cause: cause.to_owned() }
}

fn unavailable(cause: &str) -> StoreError {
    StoreError::Unavailable { store: DESCRIPTION.to_owned(), cause: cause.to_owned() }
}

#[cfg(test)]
mod tests;
