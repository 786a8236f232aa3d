use super::super::MemoryStore;
use super::*;

/// A store in memory that can be made to fail.
#[derive(Default)]
struct Switched {
    memory: MemoryStore,
    failure: Mutex<Option<StoreError>>,
    /// Accepts writes and loses them.
    forgets: bool,
}

impl Switched {
    fn fail(&self, error: Option<StoreError>) {
        *self.failure.lock().unwrap() = error;
    }

    fn check(&self) -> Result<(), StoreError> {
        self.failure.lock().unwrap().clone().map_or(Ok(()), Err)
    }
}

#[async_trait]
impl TokenStore for Switched {
    fn describe(&self) -> String {
        "switched".to_owned()
    }

    async fn load(&self, key: &CredentialKey, dialog: Dialog) -> Result<Option<Secret>, StoreError> {
        self.check()?;
        self.memory.load(key, dialog).await
    }

    async fn save(&self, key: &CredentialKey, secret: &Secret, dialog: Dialog) -> Result<(), StoreError> {
        self.check()?;
        if self.forgets { Ok(()) } else { self.memory.save(key, secret, dialog).await }
    }

    async fn delete(&self, key: &CredentialKey, dialog: Dialog) -> Result<bool, StoreError> {
        self.check()?;
        self.memory.delete(key, dialog).await
    }

    async fn lock(&self, key: &CredentialKey, timeout: Duration) -> Result<StoreLock, StoreError> {
        self.memory.lock(key, timeout).await
    }
}

fn locked() -> StoreError {
    StoreError::Locked { store: "switched".to_owned(), cause: "of this test".to_owned() }
}

fn unavailable() -> StoreError {
    StoreError::Unavailable { store: "switched".to_owned(), cause: "of this test".to_owned() }
}

fn credential(obtained_at: u64) -> Secret {
    Secret::new(format!(r#"{{"access_token":"hush","obtained_at":{obtained_at}}}"#))
}

struct Fixture {
    first: Arc<Switched>,
    second: Arc<Switched>,
    store: AutoStore,
    key: CredentialKey,
    _folder: tempfile::TempDir,
}

fn fixture(first: Switched) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (Arc::new(first), Arc::new(Switched::default()));
    let stores: Vec<Arc<dyn TokenStore>> =
        vec![first.clone(), second.clone(), Arc::new(EnvStore::with_value("TOKEN", ""))];
    let store = AutoStore::of(stores, LockFolder::new(folder.path().join("locks")));
    Fixture { first, second, store, key: CredentialKey::new(["key"]), _folder: folder }
}

async fn time_in(store: &dyn TokenStore, key: &CredentialKey) -> Option<u64> {
    store.load(key, Dialog::Forbidden).await.unwrap().map(|secret| obtained_at(&secret))
}

#[tokio::test]
async fn login_goes_to_the_first_working_store_and_clears_the_others() {
    let Fixture { first, second, store, key, .. } = &fixture(Switched::default());
    second.save(key, &credential(1), Dialog::Allowed).await.unwrap();
    store.save(key, &credential(2), Dialog::Allowed).await.unwrap();
    assert_eq!((time_in(&**first, key).await, time_in(&**second, key).await), (Some(2), None));
    first.fail(Some(unavailable()));
    store.save(key, &credential(3), Dialog::Allowed).await.unwrap();
    assert_eq!(time_in(&**second, key).await, Some(3));
    let report = store.choose(Dialog::Allowed).await;
    assert_eq!(report, StoreReport { chosen: Some("switched".to_owned()), refused: vec![unavailable()] });
    second.fail(Some(locked()));
    assert_eq!(store.save(key, &credential(4), Dialog::Allowed).await.unwrap_err(), unavailable());
}

#[tokio::test]
async fn store_that_loses_writes_is_not_chosen() {
    let Fixture { second, store, key, .. } = &fixture(Switched { forgets: true, ..Switched::default() });
    store.save(key, &credential(1), Dialog::Allowed).await.unwrap();
    assert_eq!(time_in(&**second, key).await, Some(1));
    assert!(store.location(key).is_some());
    let report = store.choose(Dialog::Forbidden).await;
    assert_eq!(report.refused.len(), 1);
    assert!(report.refused[0].to_string().contains("did not return it"), "{report:?}");
    assert!(
        second.memory.load(key, Dialog::Forbidden).await.unwrap().is_some(),
        "the test item is another one"
    );
}

#[tokio::test]
async fn newest_credential_wins_and_is_refreshed_where_it_was_read() {
    let Fixture { first, second, store, key, .. } = &fixture(Switched::default());
    first.save(key, &credential(5), Dialog::Allowed).await.unwrap();
    second.save(key, &credential(6), Dialog::Allowed).await.unwrap();
    assert_eq!(time_in(store, key).await, Some(6));
    store.save(key, &credential(7), Dialog::Forbidden).await.unwrap();
    assert_eq!((time_in(&**first, key).await, time_in(&**second, key).await), (Some(5), Some(7)));
    // Equally old: the order of the stores decides.
    first.save(key, &credential(7), Dialog::Allowed).await.unwrap();
    assert_eq!(time_in(store, key).await, Some(7));
    store.save(key, &credential(8), Dialog::Forbidden).await.unwrap();
    assert_eq!((time_in(&**first, key).await, time_in(&**second, key).await), (Some(8), Some(7)));
}

#[tokio::test]
async fn locked_store_is_an_error_only_if_the_credential_may_be_in_it() {
    let Fixture { first, second, store, key, .. } = &fixture(Switched::default());
    assert!(store.load(key, Dialog::Forbidden).await.unwrap().is_none());
    first.fail(Some(unavailable()));
    assert!(store.load(key, Dialog::Forbidden).await.unwrap().is_none(), "a machine without a keychain");
    first.fail(Some(locked()));
    assert_eq!(store.load(key, Dialog::Forbidden).await.unwrap_err(), locked());
    second.save(key, &credential(1), Dialog::Allowed).await.unwrap();
    assert_eq!(time_in(store, key).await, Some(1));
}

#[tokio::test]
async fn logout_deletes_everywhere_and_reports_what_failed() {
    let Fixture { first, second, store, key, .. } = &fixture(Switched::default());
    for memory in [first, second] {
        memory.save(key, &credential(1), Dialog::Allowed).await.unwrap();
    }
    assert!(store.delete(key, Dialog::Allowed).await.unwrap());
    assert!(!store.delete(key, Dialog::Allowed).await.unwrap());
    second.save(key, &credential(1), Dialog::Allowed).await.unwrap();
    first.fail(Some(locked()));
    assert_eq!(store.delete(key, Dialog::Allowed).await.unwrap_err(), locked());
    assert_eq!(time_in(&**second, key).await, None, "the other store is cleared all the same");
}

#[tokio::test]
async fn credential_is_not_absent_while_its_store_does_not_respond() {
    let Fixture { first, second, store, key, .. } = &fixture(Switched::default());
    store.save(key, &credential(2), Dialog::Allowed).await.unwrap();
    second.save(key, &credential(1), Dialog::Allowed).await.unwrap();
    first.fail(Some(unavailable()));
    assert_eq!(store.load(key, Dialog::Forbidden).await.unwrap_err(), unavailable());
    assert_eq!(store.delete(key, Dialog::Allowed).await.unwrap_err(), unavailable());
    first.fail(None);
    assert_eq!(time_in(store, key).await, Some(2));
    // A new login goes to another store, and is found there, whichever process made it.
    first.fail(Some(unavailable()));
    second.save(key, &credential(3), Dialog::Allowed).await.unwrap();
    assert_eq!(time_in(store, key).await, Some(3));
    store.save(key, &credential(4), Dialog::Allowed).await.unwrap();
    assert_eq!(time_in(store, key).await, Some(4));
    assert!(store.delete(key, Dialog::Allowed).await.unwrap());
    assert!(store.load(key, Dialog::Forbidden).await.unwrap().is_none());
}

#[test]
fn service_name_must_be_a_plain_file_name() {
    for name in ["", ".", "..", ".hidden", "a/b", "a\\b", "ä", &"x".repeat(65)] {
        assert!(credential_folder(name).is_err(), "{name}");
    }
}
