use super::*;

const OLD: Version = Version(1);
const NEW: Version = Version(2);
const NEWER: Version = Version(3);

/// A transaction that holds the lock and reads the store.
fn locked() -> RefreshTransaction {
    let now = Instant::now();
    let mut refresh = RefreshTransaction::new(OLD, now);
    refresh.handle_lock(true, now);
    assert_eq!(refresh.poll(), RefreshStep::Load);
    refresh
}

const fn stored(version: Version, is_usable: bool, can_refresh: bool) -> Loaded {
    Loaded::Credential { version, is_usable, can_refresh }
}

const STALE: Loaded = stored(OLD, false, true);

fn log_in(reason: LogInReason) -> RefreshStep {
    RefreshStep::End(RefreshEnd::LogIn(reason))
}

#[test]
fn stored_token_decides_what_is_done_under_the_lock() {
    let found = RefreshStep::End(RefreshEnd::Found);
    for (loaded, step) in [
        (STALE, RefreshStep::Redeem),
        // Somebody else refreshed it.
        (stored(NEW, true, true), found),
        (stored(NEW, true, false), found),
        // The same token may look usable, because it was refused before it expired.
        (stored(OLD, true, true), RefreshStep::Redeem),
        // A newer one that has expired as well.
        (stored(NEW, false, true), RefreshStep::Redeem),
        (stored(OLD, true, false), log_in(LogInReason::NoRefreshToken)),
        (stored(NEW, false, false), log_in(LogInReason::NoRefreshToken)),
        (Loaded::Nothing, log_in(LogInReason::NoCredential)),
        (Loaded::Failed, RefreshStep::End(RefreshEnd::Unavailable(Obstacle::Store))),
    ] {
        let mut refresh = locked();
        refresh.handle_loaded(loaded);
        assert_eq!(refresh.poll(), step, "{loaded:?}");
    }
}

#[test]
fn server_decides_what_is_written() {
    for (redeemed, step) in [
        (Redeemed::Token, RefreshStep::Save),
        (Redeemed::InvalidGrant, RefreshStep::Load),
        (Redeemed::InvalidClient, log_in(LogInReason::ClientRefused)),
        (Redeemed::Unreachable, RefreshStep::End(RefreshEnd::Unavailable(Obstacle::Server))),
    ] {
        let mut refresh = locked();
        refresh.handle_loaded(STALE);
        refresh.handle_redeemed(redeemed);
        assert_eq!(refresh.poll(), step, "{redeemed:?}");
    }
    for is_saved in [true, false] {
        let mut refresh = locked();
        refresh.handle_loaded(STALE);
        refresh.handle_redeemed(Redeemed::Token);
        refresh.handle_saved(is_saved);
        assert_eq!(refresh.poll(), RefreshStep::End(RefreshEnd::Refreshed { is_saved }));
    }
}

/// Runs until the server has refused the stored refresh token.
fn refused() -> RefreshTransaction {
    let mut refresh = locked();
    refresh.handle_loaded(STALE);
    refresh.handle_redeemed(Redeemed::InvalidGrant);
    assert_eq!(refresh.poll(), RefreshStep::Load);
    refresh
}

#[test]
fn refused_token_is_deleted_only_if_it_is_still_stored() {
    let mut refresh = refused();
    refresh.handle_loaded(STALE);
    assert_eq!(refresh.poll(), RefreshStep::Delete);
    refresh.handle_deleted();
    assert_eq!(refresh.poll(), log_in(LogInReason::Refused));
    for (loaded, step) in [
        // A login by somebody without the lock.
        (stored(NEW, true, true), RefreshStep::End(RefreshEnd::Found)),
        (Loaded::Nothing, log_in(LogInReason::NoCredential)),
        (Loaded::Failed, RefreshStep::End(RefreshEnd::Unavailable(Obstacle::Store))),
        (stored(NEW, false, true), RefreshStep::Redeem),
    ] {
        let mut refresh = refused();
        refresh.handle_loaded(loaded);
        assert_eq!(refresh.poll(), step, "{loaded:?}");
    }
}

#[test]
fn at_most_two_refresh_tokens_are_redeemed() {
    let mut refresh = refused();
    refresh.handle_loaded(stored(NEW, false, true));
    assert_eq!(refresh.poll(), RefreshStep::Redeem);
    refresh.handle_redeemed(Redeemed::InvalidGrant);
    let mut same = refresh.clone();
    same.handle_loaded(stored(NEW, false, true));
    assert_eq!(same.poll(), RefreshStep::Delete, "the second one was refused as well");
    refresh.handle_loaded(stored(NEWER, false, true));
    assert_eq!(refresh.poll(), log_in(LogInReason::Refused), "and the third one is not touched");
}

#[test]
fn busy_lock_is_waited_for_while_the_store_is_read() {
    let start = Instant::now();
    let mut refresh = RefreshTransaction::new(OLD, start);
    let lock = RefreshStep::Lock { timeout: Duration::from_secs(1) };
    for second in 1..15 {
        assert_eq!(refresh.poll(), lock);
        refresh.handle_lock(false, start + Duration::from_secs(second));
        assert_eq!(refresh.poll(), RefreshStep::Load, "{second}");
        // Without the lock, nothing but a newer usable token ends the wait.
        let loaded =
            [STALE, Loaded::Nothing, Loaded::Failed, stored(NEW, false, true), stored(OLD, true, false)];
        refresh.handle_loaded(loaded[usize::try_from(second).unwrap() % 5]);
    }
    let mut found = refresh.clone();
    found.handle_lock(false, start + Duration::from_millis(14_900));
    found.handle_loaded(stored(NEW, true, true));
    assert_eq!(found.poll(), RefreshStep::End(RefreshEnd::Found));
    let mut taken = refresh.clone();
    taken.handle_lock(true, start + Duration::from_secs(15));
    assert_eq!(taken.poll(), RefreshStep::Load);
    refresh.handle_lock(false, start + Duration::from_secs(15));
    assert_eq!(refresh.poll(), RefreshStep::End(RefreshEnd::Unavailable(Obstacle::Locked)));
}

#[test]
fn store_without_locks_ends_the_refresh() {
    let mut refresh = RefreshTransaction::new(OLD, Instant::now());
    refresh.handle_lock_failure();
    assert_eq!(refresh.poll(), RefreshStep::End(RefreshEnd::Unavailable(Obstacle::Store)));
}

#[test]
fn reasons_are_clauses_for_people() {
    use LogInReason::{ClientRefused, NoCredential, NoRefreshToken, Refused, TokenRefused};
    let texts = [NoCredential, NoRefreshToken, Refused, TokenRefused, ClientRefused].map(LogInReason::as_str);
    for (at, text) in texts.iter().enumerate() {
        assert!(text.contains(' ') && !text.ends_with('.') && !texts[..at].contains(text), "{text}");
    }
}
