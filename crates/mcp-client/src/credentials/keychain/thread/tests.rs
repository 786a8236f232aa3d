use std::collections::BTreeMap;
use std::sync::Mutex as StdMutex;
use std::time::Instant;

use super::*;

/// Tells the keychain of the tests how to behave, by the service name of an operation.
struct TestItems {
    items: BTreeMap<String, String>,
}

static RELEASED: StdMutex<bool> = StdMutex::new(false);

impl TestItems {
    fn open() -> Box<dyn Items> {
        Box::new(Self { items: BTreeMap::new() })
    }

    fn behave(service: &str) {
        match service {
            "panics" => panic!("on purpose"),
            "hangs" => {
                while !*lock(&RELEASED) {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            _ => {}
        }
    }
}

impl Items for TestItems {
    fn max_item_bytes(&self) -> Option<usize> {
        None
    }

    fn get(&mut self, service: &str, name: &str) -> Result<Option<Secret>, StoreError> {
        Self::behave(service);
        Ok(self.items.get(name).map(Secret::new))
    }

    fn set(&mut self, service: &str, name: &str, secret: &Secret) -> Result<(), StoreError> {
        if service != "forgets" {
            self.items.insert(name.to_owned(), secret.expose().to_owned());
        }
        Ok(())
    }

    fn remove(&mut self, _: &str, name: &str) -> Result<bool, StoreError> {
        Ok(self.items.remove(name).is_some())
    }
}

async fn load(thread: &KeychainThread, service: &str, dialog: Dialog) -> Result<Option<Secret>, StoreError> {
    thread.run(service, &CredentialKey::new(["key"]), Operation::Load, dialog).await
}

#[tokio::test]
async fn operations_run_and_panics_are_errors() {
    let thread = KeychainThread::new(TestItems::open);
    let key = CredentialKey::new(["key"]);
    thread.run("s", &key, Operation::Save(Secret::new("text")), Dialog::Forbidden).await.unwrap();
    assert_eq!(load(&thread, "s", Dialog::Forbidden).await.unwrap().unwrap().expose(), "text");
    let error = load(&thread, "panics", Dialog::Forbidden).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert!(load(&thread, "s", Dialog::Allowed).await.unwrap().is_some(), "the thread survives");
    assert!(thread.run("s", &key, Operation::Delete, Dialog::Forbidden).await.unwrap().is_some());
    assert!(thread.run("s", &key, Operation::Delete, Dialog::Forbidden).await.unwrap().is_none());
}

#[tokio::test]
async fn lost_write_is_an_error() {
    let thread = KeychainThread::new(TestItems::open);
    let save = Operation::Save(Secret::new("text"));
    let error = thread.run("forgets", &CredentialKey::new(["key"]), save, Dialog::Allowed).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "keychain is not available: it did not return the credential that was just saved"
    );
}

/// Real time: the thread is not part of the runtime.
#[tokio::test]
async fn hanging_keychain_costs_5_s_once_and_a_queued_save_runs() {
    let thread = KeychainThread::new(TestItems::open);
    let key = CredentialKey::new(["key"]);
    let started = Instant::now();
    let error = load(&thread, "hangs", Dialog::Forbidden).await.unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }), "{error}");
    let waited = started.elapsed();
    assert!(waited > Duration::from_secs(4) && waited < Duration::from_secs(9), "{waited:?}");
    // From now on, operations fail at once.
    let started = Instant::now();
    for _ in 0..100 {
        let error = load(&thread, "s", Dialog::Forbidden).await.unwrap_err();
        assert!(matches!(error, StoreError::Busy { .. }), "{error}");
    }
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    // With a dialog there is no limit. A save that nobody waits for is not lost.
    let save = thread.run("s", &key, Operation::Save(Secret::new("kept")), Dialog::Allowed);
    assert!(tokio::time::timeout(Duration::from_millis(50), save).await.is_err());
    // The queue is bounded.
    let loads: Vec<_> = (0..2 * MAX_QUEUED_JOBS)
        .map(|_| {
            let load = Box::pin(load(&thread, "s", Dialog::Allowed));
            poll_once(load)
        })
        .collect();
    let refused = loads.iter().filter(|load| matches!(load, Some(Err(StoreError::Busy { .. })))).count();
    assert!((MAX_QUEUED_JOBS..=MAX_QUEUED_JOBS + 2).contains(&refused), "{refused}");
    *lock(&RELEASED) = true;
    // The queue may still be full for a moment.
    let loaded = loop {
        match load(&thread, "s", Dialog::Allowed).await {
            Err(StoreError::Busy { .. }) => tokio::time::sleep(Duration::from_millis(5)).await,
            other => break other.unwrap().unwrap(),
        }
    };
    assert_eq!(loaded.expose(), "kept");
}

/// Polls a future once. It stays alive only if it is ready, so that its operation is skipped later.
fn poll_once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(&mut future).poll(&mut context) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}
