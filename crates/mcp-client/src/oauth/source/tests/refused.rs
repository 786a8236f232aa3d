//! Tokens that the server refused.

use super::*;

#[tokio::test(start_paused = true)]
async fn refused_token_is_refreshed_once_and_a_newer_one_used_at_once() {
    let fixture = fixture(&[ROTATED]);
    fixture.store_credential(0, |_| {}).await;
    let first = fixture.source.token().await.unwrap();
    let (one, other) =
        tokio::join!(fixture.source.token_after_refusal(&first), fixture.source.token_after_refusal(&first));
    assert_eq!(one.unwrap().access_token().expose(), "new");
    assert_eq!(other.unwrap().access_token().expose(), "new");
    // Somebody comes late with the old token.
    assert_eq!(fixture.source.token_after_refusal(&first).await.unwrap().access_token().expose(), "new");
    assert_eq!(fixture.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn token_without_refresh_token_is_used_until_it_is_refused() {
    let fixture = fixture(&[]);
    fixture.store_credential(4000, |stored| stored.refresh_token = None).await;
    let token = fixture.source.token().await.unwrap();
    let error = fixture.source.token_after_refusal(&token).await.map(drop).unwrap_err();
    assert!(matches!(error, OAuthError::LoginNeeded(LogInReason::NoRefreshToken)), "{error}");
    // A login elsewhere is picked up.
    fixture.store_credential(0, |stored| stored.access_token = Secret::new("newer")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fixture.token().await.unwrap(), "newer");
}

#[tokio::test(start_paused = true)]
async fn token_that_is_refused_twice_is_not_refreshed_at_once() {
    let fixture = fixture(&[ROTATED, ROTATED]);
    fixture.store_credential(0, |_| {}).await;
    let first = fixture.source.token().await.unwrap();
    let second = fixture.source.token_after_refusal(&first).await.unwrap();
    fixture.source.handle_second_refusal(second.version());
    for _ in 0..3 {
        let error = fixture.source.token().await.unwrap_err();
        assert!(matches!(error, OAuthError::LoginNeeded(LogInReason::TokenRefused)), "{error}");
    }
    assert_eq!(fixture.requests().len(), 1);
    // A login by another process is noticed after a second.
    fixture.store_credential(0, |stored| stored.access_token = Secret::new("newer")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fixture.token().await.unwrap(), "newer");
    // A refusal of an old token does not count.
    fixture.source.handle_second_refusal(second.version());
    assert_eq!(fixture.token().await.unwrap(), "newer");
}

#[tokio::test(start_paused = true)]
async fn text_that_is_not_json_is_a_token_without_refresh() {
    let fixture = fixture(&[]);
    let bare = Secret::new("  gho_abc123\n");
    fixture.store.memory.save(&key(), &bare, Dialog::Allowed).await.unwrap();
    let token = fixture.source.token().await.unwrap();
    assert_eq!(token.access_token().expose(), "gho_abc123");
    let error = fixture.source.token_after_refusal(&token).await.map(drop).unwrap_err();
    assert!(matches!(error, OAuthError::LoginNeeded(LogInReason::NoRefreshToken)), "{error}");
}
