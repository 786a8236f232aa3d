mod interleaved;
mod refused;
mod unsaved;

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;

use super::*;
use crate::credentials::{MemoryStore, Secret, StoreError, StoreLock};
use crate::http::Network;
use crate::oauth::OAuthOptions;
use crate::oauth::credential::tests::credential;
use crate::oauth::event::CredentialEvent;
use crate::oauth::login_server::tests::server as server_with;
use crate::oauth::scripted::Script;

/// A store in memory that can fail.
#[derive(Clone, Default)]
struct FailingStore {
    memory: MemoryStore,
    failing_loads: Arc<AtomicUsize>,
    failing_saves: Arc<AtomicUsize>,
    /// The time that a load takes, in milliseconds.
    load_time: Arc<AtomicUsize>,
    /// The time that taking the lock takes, in milliseconds.
    lock_time: Arc<AtomicUsize>,
}

impl FailingStore {
    /// Fails as often as the counter says.
    fn check(&self, failing: &AtomicUsize) -> Result<(), StoreError> {
        let left = failing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        let error = StoreError::Unavailable { store: self.describe(), cause: "of this test".to_owned() };
        left.map_or(Ok(()), |_| Err(error))
    }
}

#[async_trait]
impl TokenStore for FailingStore {
    fn describe(&self) -> String {
        self.memory.describe()
    }

    async fn load(&self, key: &CredentialKey, dialog: Dialog) -> Result<Option<Secret>, StoreError> {
        self.check(&self.failing_loads)?;
        let loaded = self.memory.load(key, dialog).await;
        tokio::time::sleep(Duration::from_millis(self.load_time.load(Ordering::SeqCst) as u64)).await;
        loaded
    }

    async fn save(&self, key: &CredentialKey, secret: &Secret, dialog: Dialog) -> Result<(), StoreError> {
        self.check(&self.failing_saves)?;
        self.memory.save(key, secret, dialog).await
    }

    async fn delete(&self, key: &CredentialKey, dialog: Dialog) -> Result<bool, StoreError> {
        self.memory.delete(key, dialog).await
    }

    async fn lock(&self, key: &CredentialKey, timeout: Duration) -> Result<StoreLock, StoreError> {
        tokio::time::sleep(Duration::from_millis(self.lock_time.load(Ordering::SeqCst) as u64)).await;
        self.memory.lock(key, timeout).await
    }
}

struct Fixture {
    store: FailingStore,
    script: Script,
    source: TokenSource,
    events: Arc<Mutex<Vec<CredentialEvent>>>,
}

fn server() -> LoginServer {
    server_with(OAuthOptions::issuer("https://as.example", "client"))
}

fn key() -> CredentialKey {
    server().credential_key()
}

fn fixture(responses: &[(u16, &'static str)]) -> Fixture {
    fixture_for(server(), responses)
}

fn fixture_for(server: LoginServer, responses: &[(u16, &'static str)]) -> Fixture {
    let (script, store) = (Script::new(responses), FailingStore::default());
    let http = OAuthHttp::new(Network::new().client(script.clone()));
    let events = Arc::<Mutex<Vec<_>>>::default();
    let seen = Arc::clone(&events);
    let handler = EventHandler::new(move |event| seen.lock().unwrap().push(event));
    let source = TokenSource::new(server, Arc::new(store.clone()), http, handler);
    Fixture { store, script, source, events }
}

impl Fixture {
    /// Stores a credential that was obtained this many seconds ago and lives for an hour.
    async fn store_credential(&self, age: u64, change: impl FnOnce(&mut Credential)) {
        let mut stored = credential();
        stored.details.obtained_at = unix_time().as_secs() - age;
        stored.details.lifetime = Some(3600);
        change(&mut stored);
        self.store.memory.save(&key(), &stored.to_stored(), Dialog::Allowed).await.unwrap();
    }

    async fn stored(&self) -> Option<Credential> {
        let text = self.store.memory.load(&key(), Dialog::Allowed).await.unwrap();
        text.and_then(|text| Credential::from_stored(&text, &server()))
    }

    async fn has_stored(&self) -> bool {
        self.store.memory.load(&key(), Dialog::Allowed).await.unwrap().is_some()
    }

    fn events(&self) -> Vec<CredentialEvent> {
        self.events.lock().unwrap().clone()
    }

    async fn token(&self) -> Result<String, OAuthError> {
        self.source.token().await.map(|token| token.access_token().expose().to_owned())
    }

    fn requests(&self) -> Vec<String> {
        self.script.requests()
    }
}

const ROTATED: (u16, &str) =
    (200, r#"{"access_token":"new","token_type":"bearer","refresh_token":"rotated","expires_in":3600}"#);

#[tokio::test(start_paused = true)]
async fn fresh_token_is_used_and_absent_login_is_reported() {
    let fixture = fixture(&[]);
    let error = fixture.token().await.unwrap_err();
    assert!(matches!(error, OAuthError::LoginNeeded(LogInReason::NoCredential)), "{error}");
    fixture.store_credential(0, |_| {}).await;
    // A login by another process is noticed after a second.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fixture.token().await.unwrap(), "access-hush");
    assert!(fixture.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn expired_token_is_refreshed_once_for_all_callers() {
    let fixture = fixture(&[ROTATED]);
    fixture.store_credential(4000, |_| {}).await;
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let source = fixture.source.clone();
        callers.spawn(async move { source.token().await.unwrap().access_token().expose().to_owned() });
    }
    assert!(callers.join_all().await.iter().all(|token| token == "new"));
    let requests = fixture.requests();
    assert_eq!(requests.len(), 1);
    assert!(
        requests[0].contains("grant_type=refresh_token")
            && requests[0].contains("refresh_token=refresh-hush")
    );
    assert!(requests[0].contains("resource=https%3A%2F%2Fmcp.example%2Fmcp"), "{requests:?}");
    assert_eq!(fixture.stored().await.unwrap().refresh_token.unwrap().expose(), "rotated");
}

#[tokio::test(start_paused = true)]
async fn caller_that_stops_waiting_loses_no_token() {
    let fixture = fixture(&[ROTATED]);
    fixture.store_credential(4000, |_| {}).await;
    // Dropped while the request is in flight, and then nobody waits.
    assert!(tokio::time::timeout(Duration::from_millis(50), fixture.token()).await.is_err());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fixture.stored().await.unwrap().access_token.expose(), "new");
    assert_eq!(fixture.token().await.unwrap(), "new");
    assert_eq!(fixture.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn token_that_is_due_is_used_while_it_is_refreshed() {
    let fixture = fixture(&[(503, ""), ROTATED]);
    fixture.store_credential(3590, |_| {}).await;
    assert_eq!(fixture.token().await.unwrap(), "access-hush", "nobody waits for the refresh");
    tokio::time::sleep(Duration::from_secs(1)).await;
    // The refresh failed; the next one is 5 s later.
    assert_eq!(fixture.token().await.unwrap(), "access-hush");
    assert_eq!(fixture.requests().len(), 1);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(fixture.token().await.unwrap(), "access-hush");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fixture.token().await.unwrap(), "new");
    assert_eq!(fixture.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn unreachable_server_ends_no_login() {
    let fixture =
        fixture(&[(502, "<html>"), (200, "{}"), (200, r#"{"error":"temporarily_unavailable"}"#), ROTATED]);
    fixture.store_credential(4000, |_| {}).await;
    for pause in [5, 10, 20] {
        let error = fixture.token().await.unwrap_err();
        assert!(!matches!(error, OAuthError::LoginNeeded(_)), "{error}");
        let requests = fixture.requests().len();
        assert_eq!(
            fixture.token().await.unwrap_err().to_string(),
            error.to_string(),
            "no request before the pause"
        );
        assert_eq!(fixture.requests().len(), requests);
        tokio::time::sleep(Duration::from_secs(pause)).await;
    }
    assert_eq!(fixture.token().await.unwrap(), "new");
}

#[tokio::test(start_paused = true)]
async fn invalid_grant_deletes_only_the_token_that_was_refused() {
    const REFUSED: (u16, &str) = (400, r#"{"error":"invalid_grant"}"#);
    let alone = fixture(&[REFUSED]);
    alone.store_credential(4000, |_| {}).await;
    let error = alone.token().await.unwrap_err();
    assert!(matches!(error, OAuthError::LoginNeeded(LogInReason::Refused)), "{error}");
    assert!(alone.stored().await.is_none());
    // The login ends in the middle of the work.
    let later = fixture(&[REFUSED]);
    later.store_credential(0, |_| {}).await;
    let token = later.source.token().await.unwrap();
    let error = later.source.token_after_refusal(&token).await.unwrap_err();
    assert!(matches!(error, OAuthError::LoginNeeded(LogInReason::Refused)), "{error}");
    // Another program logs in while the refresh is in flight, without taking the lock.
    let raced = fixture(&[REFUSED]);
    raced.store_credential(4000, |_| {}).await;
    let (token, ()) = tokio::join!(raced.token(), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        raced.store_credential(0, |newer| newer.access_token = Secret::new("newer")).await;
    });
    assert_eq!(token.unwrap(), "newer");
    assert_eq!(raced.stored().await.unwrap().access_token.expose(), "newer");
}

#[tokio::test(start_paused = true)]
async fn refused_client_and_changed_issuer_delete_nothing() {
    let refused = fixture(&[(401, r#"{"error":"invalid_client"}"#)]);
    refused.store_credential(4000, |_| {}).await;
    // The second time without a request: it would be refused as well.
    for _ in 0..2 {
        let error = refused.token().await.unwrap_err();
        assert!(matches!(error, OAuthError::LoginNeeded(LogInReason::ClientRefused)), "{error}");
    }
    assert!(refused.stored().await.is_some());
    for change in [
        (|other: &mut Credential| other.details.issuer = "https://other.example".to_owned())
            as fn(&mut Credential),
        |other| other.details.client_id = "other".to_owned(),
        |other| other.details.resource = None,
    ] {
        let changed = fixture(&[]);
        changed.store_credential(0, change).await;
        let error = changed.token().await.unwrap_err();
        assert!(matches!(error, OAuthError::LoginNeeded(LogInReason::NoCredential)), "{error}");
        assert!(changed.has_stored().await && changed.requests().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn service_without_a_token_requests_one_for_all_callers() {
    const METADATA: (u16, &str) =
        (200, r#"{"issuer":"https://as.example","token_endpoint":"https://as.example/token"}"#);
    let options = OAuthOptions::client_credentials("https://as.example", "service").secret("s");
    let fixture = fixture_for(server_with(options), &[METADATA, ROTATED]);
    let tokens = tokio::join!(fixture.token(), fixture.token(), fixture.token());
    assert_eq!(
        (tokens.0.unwrap(), tokens.1.unwrap(), tokens.2.unwrap()),
        ("new".into(), "new".into(), "new".into())
    );
    assert_eq!(fixture.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn store_that_cannot_be_read_is_not_a_missing_login() {
    let fixture = fixture(&[]);
    fixture.store_credential(0, |_| {}).await;
    fixture.store.failing_loads.store(1, Ordering::SeqCst);
    // The second error is that of the same look.
    for _ in 0..2 {
        let error = fixture.token().await.unwrap_err();
        assert!(matches!(error, OAuthError::Store(StoreError::Unavailable { .. })), "{error}");
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fixture.token().await.unwrap(), "access-hush");
}

#[tokio::test(start_paused = true)]
async fn services_that_start_one_after_another_share_a_token() {
    const METADATA: (u16, &str) =
        (200, r#"{"issuer":"https://as.example","token_endpoint":"https://as.example/token"}"#);
    let service = OAuthOptions::client_credentials("https://as.example", "client").secret("s-123");
    let fixture = fixture_for(server_with(service), &[METADATA, ROTATED]);
    let late = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        fixture.token().await
    };
    let (first, second) = tokio::join!(fixture.token(), late);
    assert_eq!((first.unwrap(), second.unwrap()), ("new".to_owned(), "new".to_owned()));
    assert_eq!(fixture.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn token_that_expires_at_once_is_used_once() {
    const SHORT: (u16, &str) = (200, r#"{"access_token":"new","expires_in":0,"refresh_token":"rotated"}"#);
    let fixture = fixture(&[SHORT, SHORT]);
    fixture.store_credential(4000, |_| {}).await;
    for requests in [1, 2] {
        assert_eq!(fixture.token().await.unwrap(), "new");
        assert_eq!(fixture.requests().len(), requests);
    }
}

#[tokio::test(start_paused = true)]
async fn aborted_refresh_does_not_block_later_ones() {
    let fixture = fixture(&[ROTATED, ROTATED]);
    fixture.store_credential(4000, |_| {}).await;
    let source = fixture.source.clone();
    // The runtime in which the refresh runs ends before the response.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let token =
            runtime.block_on(async { tokio::time::timeout(Duration::from_millis(20), source.token()).await });
        assert!(token.is_err());
    })
    .join()
    .unwrap();
    assert_eq!(fixture.token().await.unwrap(), "new");
}

#[tokio::test(start_paused = true)]
async fn empty_tokens_replace_nothing() {
    let fixture = fixture(&[
        (200, r#"{"access_token":"","refresh_token":"rotated"}"#),
        (200, r#"{"access_token":"new","refresh_token":""}"#),
    ]);
    fixture.store_credential(4000, |_| {}).await;
    let error = fixture.token().await.unwrap_err();
    assert!(matches!(error, OAuthError::Unreachable { .. }), "{error}");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(fixture.token().await.unwrap(), "new");
    assert_eq!(fixture.stored().await.unwrap().refresh_token.unwrap().expose(), "refresh-hush");
}

#[tokio::test(start_paused = true)]
async fn error_that_quotes_the_refresh_token_does_not_show_it() {
    const QUOTED: (u16, &str) = (
        401,
        r#"{"error":"invalid_token","error_description":"Invalid refresh token (expired): refresh-hush"}"#,
    );
    let fixture = fixture(&[QUOTED]);
    fixture.store_credential(4000, |_| {}).await;
    let error = fixture.token().await.unwrap_err();
    assert_eq!(error.to_string(), "the authorization server refused: invalid_token");
    assert!(!format!("{error:?}").contains("hush"), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn credential_that_was_read_before_a_logout_is_not_used() {
    let fixture = fixture(&[]);
    fixture.store_credential(0, |_| {}).await;
    fixture.store.load_time.store(100, Ordering::SeqCst);
    let (token, ()) = tokio::join!(fixture.token(), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        fixture.store.delete(&key(), Dialog::Allowed).await.unwrap();
        fixture.source.replace(None);
    });
    assert!(matches!(token, Err(OAuthError::LoginNeeded(LogInReason::NoCredential))), "{token:?}");
}
