//! Tokens that cannot be saved.

use super::*;

#[tokio::test(start_paused = true)]
async fn unsaved_token_is_used_and_saved_later_under_the_lock() {
    let fixture = fixture(&[ROTATED]);
    fixture.store_credential(4000, |_| {}).await;
    fixture.store.failing_saves.store(3, Ordering::SeqCst);
    assert_eq!(fixture.token().await.unwrap(), "new");
    let key = key();
    // Nobody else can redeem the old token, which is still stored.
    let error = fixture.store.lock(&key, Duration::from_millis(500)).await.unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }), "{error}");
    assert_eq!(fixture.stored().await.unwrap().access_token.expose(), "access-hush");
    let events = fixture.events();
    assert!(
        matches!(&events[..], [CredentialEvent::NotSaved { server, .. }] if server == "https://mcp.example/mcp")
    );
    assert!(fixture.source.settle(Duration::from_millis(100)).await, "still not saved");
    assert!(!fixture.source.settle(Duration::from_secs(10)).await);
    assert_eq!(fixture.stored().await.unwrap().access_token.expose(), "new");
    assert!(matches!(&fixture.events()[1..], [CredentialEvent::Saved { .. }]));
    fixture.store.lock(&key, Duration::ZERO).await.unwrap();
    assert!(!fixture.source.settle(Duration::ZERO).await);
}

#[tokio::test(start_paused = true)]
async fn unsaved_token_of_a_closed_client_is_given_up_in_the_end() {
    let Fixture { store, source, events, .. } = {
        let fixture = fixture(&[ROTATED]);
        fixture.store_credential(4000, |_| {}).await;
        fixture
    };
    store.failing_saves.store(usize::MAX, Ordering::SeqCst);
    source.token().await.unwrap();
    drop(source);
    let key = key();
    let started = Instant::now();
    store.lock(&key, Duration::from_secs(60)).await.unwrap();
    let waited = started.elapsed();
    assert!((20..30).contains(&waited.as_secs()), "{waited:?}");
    assert!(matches!(&events.lock().unwrap()[1..], [CredentialEvent::Lost { .. }]));
}

/// Runs out of disk space before the first refresh.
async fn without_disk(responses: &[(u16, &'static str)]) -> Fixture {
    let fixture = fixture(responses);
    fixture.store_credential(4000, |_| {}).await;
    fixture.store.failing_saves.store(usize::MAX, Ordering::SeqCst);
    assert_eq!(fixture.token().await.unwrap(), "new");
    fixture
}

const NEXT: (u16, &str) =
    (200, r#"{"access_token":"next","token_type":"bearer","refresh_token":"third","expires_in":3600}"#);

#[tokio::test(start_paused = true)]
async fn unsaved_token_is_refreshed_from_memory_and_then_saved() {
    let fixture = without_disk(&[ROTATED, (503, ""), NEXT]).await;
    let first = fixture.source.token().await.unwrap();
    // The server does not respond at first: nothing is lost, and nobody else gets the lock.
    let error = fixture.source.token_after_refusal(&first).await.unwrap_err();
    assert!(matches!(error, OAuthError::Unreachable { .. }), "{error}");
    let key = key();
    fixture.store.lock(&key, Duration::from_millis(500)).await.unwrap_err();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let next = fixture.source.token_after_refusal(&first).await.unwrap();
    assert_eq!(next.access_token().expose(), "next");
    let requests = fixture.requests();
    assert!(requests[1..].iter().all(|request| request.contains("refresh_token=rotated")), "{requests:?}");
    // There is disk space again.
    fixture.store.failing_saves.store(0, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(fixture.stored().await.unwrap().refresh_token.unwrap().expose(), "third");
    fixture.store.lock(&key, Duration::ZERO).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn unsaved_token_that_is_refused_ends_the_login() {
    const REFUSED: (u16, &str) = (400, r#"{"error":"invalid_grant"}"#);
    let fixture = without_disk(&[ROTATED, REFUSED, REFUSED]).await;
    let first = fixture.source.token().await.unwrap();
    let error = fixture.source.token_after_refusal(&first).await.unwrap_err();
    assert!(matches!(error, OAuthError::LoginNeeded(LogInReason::Refused)), "{error}");
    assert!(fixture.stored().await.is_none());
    fixture.store.lock(&key(), Duration::ZERO).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn login_that_cannot_be_saved_is_used_and_saved_later() {
    let fixture = fixture(&[]);
    fixture.store.failing_saves.store(2, Ordering::SeqCst);
    let mut login = credential();
    login.details.lifetime = None;
    let error = fixture.source.store_login(login).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert_eq!(fixture.token().await.unwrap(), "access-hush");
    assert!(!fixture.has_stored().await);
    assert!(matches!(&fixture.events()[..], [CredentialEvent::NotSaved { .. }]));
    assert!(!fixture.source.settle(Duration::from_secs(10)).await);
    assert!(fixture.has_stored().await);
    fixture.store.lock(&key(), Duration::ZERO).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn login_replaces_a_refreshed_token_that_is_not_saved() {
    let fixture = without_disk(&[ROTATED]).await;
    fixture.store.failing_saves.store(0, Ordering::SeqCst);
    let mut login = credential();
    login.details.lifetime = None;
    login.access_token = Secret::new("of the login");
    let started = Instant::now();
    fixture.source.store_login(login).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(1), "it waited for the lock of the same process");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(fixture.stored().await.unwrap().access_token.expose(), "of the login");
    assert_eq!(fixture.token().await.unwrap(), "of the login");
    fixture.store.lock(&key(), Duration::ZERO).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn caller_that_is_dropped_does_not_end_the_save() {
    let fixture = fixture(&[]);
    fixture.store.lock_time.store(100, Ordering::SeqCst);
    let login = fixture.source.store_login(credential());
    assert!(tokio::time::timeout(Duration::from_millis(50), login).await.is_err());
    assert!(!fixture.has_stored().await);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(fixture.has_stored().await);
}

#[tokio::test(start_paused = true)]
async fn login_is_not_saved_while_another_process_holds_the_lock() {
    let fixture = fixture(&[NEXT]);
    let other = fixture.store.lock(&key(), Duration::ZERO).await.unwrap();
    let error = fixture.source.store_login(credential()).await.unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }), "{error}");
    // Neither the retries nor a refresh use the store without the lock.
    assert!(fixture.token().await.is_err());
    assert!(!fixture.has_stored().await && fixture.requests().is_empty());
    drop(other);
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(fixture.stored().await.unwrap().refresh_token.unwrap().expose(), "refresh-hush");
    assert_eq!(fixture.token().await.unwrap(), "next");
    fixture.store.lock(&key(), Duration::ZERO).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn logout_forgets_a_token_that_is_not_saved() {
    let fixture = without_disk(&[ROTATED]).await;
    let started = Instant::now();
    let (lock, unsaved) = fixture.source.take_lock().await.unwrap();
    assert_eq!(unsaved.unwrap().access_token.expose(), "new");
    assert!(started.elapsed() < Duration::from_secs(1), "it waited for the lock of the same process");
    fixture.store.delete(&key(), Dialog::Allowed).await.unwrap();
    fixture.source.replace(None);
    drop(lock);
    fixture.store.failing_saves.store(0, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!fixture.has_stored().await, "the login is back");
}
