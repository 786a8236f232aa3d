use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn store() -> (tempfile::TempDir, EncryptedFile, CredentialKey) {
    let parent = tempfile::tempdir().unwrap();
    let store = EncryptedFile::new(parent.path().join("credentials"));
    (parent, store, CredentialKey::new(["key"]))
}

async fn text(store: &EncryptedFile, key: &CredentialKey) -> Option<String> {
    store.load(key, Dialog::Forbidden).await.unwrap().map(|secret| secret.expose().to_owned())
}

fn names(store: &EncryptedFile) -> Vec<String> {
    let files = fs::read_dir(store.folder()).unwrap();
    files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
}

#[tokio::test]
async fn credential_survives_the_process_and_no_file_shows_it() {
    let (_parent, store, key) = store();
    assert_eq!(text(&store, &key).await, None);
    assert!(!store.folder().exists(), "reading creates nothing");
    assert_eq!(store.protection().await.unwrap(), None);
    store.save(&key, &Secret::new("a-secret-token"), Dialog::Forbidden).await.unwrap();
    let again = EncryptedFile::new(store.folder());
    assert_eq!(text(&again, &key).await.unwrap(), "a-secret-token");
    assert_eq!(again.protection().await.unwrap(), Some(KeyProtection::Obfuscated));
    assert!(again.describe().starts_with("obfuscated files in "));
    for name in names(&store) {
        let bytes = fs::read(store.folder().join(&name)).unwrap();
        assert!(!bytes.windows(6).any(|part| part == b"secret"), "{name}");
    }
    assert!(again.delete(&key, Dialog::Forbidden).await.unwrap());
    assert!(!store.delete(&key, Dialog::Forbidden).await.unwrap());
    assert_eq!(text(&store, &key).await, None);
}

#[tokio::test]
async fn passphrase_is_asked_once_and_a_wrong_one_is_locked() {
    let (_parent, store, key) = store();
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let with_passphrase = EncryptedFile::new(store.folder()).passphrase(move |dialog| {
        counter.fetch_add(1, Ordering::Relaxed);
        (dialog == Dialog::Allowed).then(|| Secret::new("right"))
    });
    assert!(with_passphrase.describe().starts_with("encrypted files in "));
    let error = with_passphrase.save(&key, &Secret::new("text"), Dialog::Forbidden).await.unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    with_passphrase.save(&key, &Secret::new("text"), Dialog::Allowed).await.unwrap();
    assert_eq!(text(&with_passphrase, &key).await.unwrap(), "text", "the key is known now");
    assert_eq!(asked.load(Ordering::Relaxed), 2, "once without a dialog, once for the new key");
    for (other, cause) in [
        (EncryptedFile::new(store.folder()), "no passphrase is configured"),
        (EncryptedFile::new(store.folder()).passphrase(|_| Some(Secret::new("wrong"))), "wrong passphrase"),
    ] {
        let error = other.load(&key, Dialog::Allowed).await.unwrap_err();
        assert!(matches!(error, StoreError::Locked { .. }), "{error}");
        assert!(error.to_string().contains(cause), "{error}");
        let error = other.save(&key, &Secret::new("new"), Dialog::Allowed).await.unwrap_err();
        assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    }
    assert_eq!(text(&with_passphrase, &key).await.unwrap(), "text", "nothing was overwritten");
    assert_eq!(store.protection().await.unwrap(), Some(KeyProtection::Passphrase));
}

#[tokio::test]
async fn damaged_file_is_an_error_and_is_kept_when_a_new_one_is_saved() {
    let (_parent, store, key) = store();
    store.save(&key, &Secret::new("text"), Dialog::Forbidden).await.unwrap();
    let path = store.folder().join(file_name(&key));
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    for damaged in [bytes.as_slice(), b"", &[b'x'; MAX_FILE_BYTES + 1]] {
        fs::write(&path, damaged).unwrap();
        let error = store.load(&key, Dialog::Forbidden).await.unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
        store.save(&key, &Secret::new("new"), Dialog::Forbidden).await.unwrap();
        assert_eq!(text(&store, &key).await.unwrap(), "new");
        let kept: Vec<String> = names(&store).into_iter().filter(|name| name.contains(".damaged-")).collect();
        assert_eq!(kept.len(), 1, "{kept:?}");
        assert_eq!(fs::read(store.folder().join(&kept[0])).unwrap(), damaged);
        fs::remove_file(store.folder().join(&kept[0])).unwrap();
    }
}

#[tokio::test]
async fn damaged_key_file_is_an_error_and_nothing_is_overwritten() {
    let (_parent, store, key) = store();
    store.save(&key, &Secret::new("text"), Dialog::Forbidden).await.unwrap();
    let path = store.folder().join("key");
    let whole = fs::read(&path).unwrap();
    for damaged in [&whole[..8], &whole[..20], b"", b"MCPckey2xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"] {
        fs::write(&path, damaged).unwrap();
        let other = EncryptedFile::new(store.folder());
        for error in [
            other.load(&key, Dialog::Forbidden).await.map(drop).unwrap_err(),
            other.save(&key, &Secret::new("new"), Dialog::Forbidden).await.unwrap_err(),
        ] {
            assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
        }
    }
    fs::write(&path, &whole).unwrap();
    assert_eq!(text(&EncryptedFile::new(store.folder()), &key).await.unwrap(), "text");
}

/// Another process may create the key at the same moment, or replace the folder.
#[tokio::test]
async fn many_stores_of_a_new_folder_agree_on_one_key() {
    let (_parent, store, _) = store();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..16 {
        let store = EncryptedFile::new(store.folder());
        tasks.spawn(async move {
            let key = CredentialKey::new([number.to_string()]);
            store.save(&key, &Secret::new(number.to_string()), Dialog::Forbidden).await.unwrap();
        });
    }
    tasks.join_all().await;
    for number in 0..16 {
        assert_eq!(
            text(&store, &CredentialKey::new([number.to_string()])).await.unwrap(),
            number.to_string()
        );
    }
}

#[tokio::test]
async fn exchanged_key_file_is_noticed() {
    let (parent, store, key) = store();
    let other = EncryptedFile::new(parent.path().join("other"));
    for store in [&store, &other] {
        store.save(&key, &Secret::new("text"), Dialog::Forbidden).await.unwrap();
    }
    fs::copy(other.folder().join("key"), store.folder().join("key")).unwrap();
    let error = store.load(&key, Dialog::Forbidden).await.unwrap_err();
    assert!(error.to_string().contains("a key other than"), "{error}");
}

#[tokio::test]
async fn too_long_credential_is_refused() {
    let (_parent, store, key) = store();
    let largest = "x".repeat(MAX_SECRET_BYTES);
    store.save(&key, &Secret::new(&*largest), Dialog::Forbidden).await.unwrap();
    assert_eq!(text(&store, &key).await.unwrap(), largest);
    let error = store.save(&key, &Secret::new(largest + "x"), Dialog::Forbidden).await.unwrap_err();
    assert!(error.to_string().contains("65536 bytes"), "{error}");
}

#[tokio::test]
async fn lock_excludes_other_stores_until_it_is_dropped() {
    let (_parent, store, key) = store();
    let other = EncryptedFile::new(store.folder());
    let held = store.lock(&key, Duration::from_secs(1)).await.unwrap();
    let error = other.lock(&key, Duration::from_millis(60)).await.unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }), "{error}");
    drop(other.lock(&CredentialKey::new(["another"]), Duration::ZERO).await.unwrap());
    let waiting = tokio::spawn(async move { other.lock(&key, Duration::MAX).await });
    tokio::time::sleep(Duration::from_millis(60)).await;
    drop(held);
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn missing_key_file_is_an_error_and_reading_creates_none() {
    let (_parent, store, key) = store();
    store.save(&key, &Secret::new("text"), Dialog::Forbidden).await.unwrap();
    let path = store.folder().join("key");
    let whole = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let error = store.load(&key, Dialog::Forbidden).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }) && error.to_string().contains("missing"), "{error}");
    assert!(!path.exists());
    // It comes back, for example from a backup.
    fs::write(&path, whole).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    assert_eq!(text(&store, &key).await.unwrap(), "text");
}
