//! One of several processes that share a login.
//!
//! `worker MODE STORE FOLDER ISSUER`:
//!
//! | mode | what it does |
//! |---|---|
//! | `share` | for ten seconds, asks for the token ten times per second, and checks new ones at the server |
//! | `once` | asks for a new token once, after a line on stdin |
//! | `hold` | takes the lock, prints `held`, and waits |
//! | `stall` | refreshes the token, and waits for ever instead of saving it |
//!
//! It prints `token DIGEST` for each new token, or `error TEXT`.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_client::async_trait;
use mcp_client::credentials::{
    CredentialKey, Dialog, EncryptedFile, Keychain, Secret, StoreError, StoreLock, TokenStore,
};
use mcp_client::oauth::Credentials;

use crate::server::{accepts, user};

pub(crate) fn store(kind: &str, folder: &Path) -> Arc<dyn TokenStore> {
    match kind {
        "file" => Arc::new(EncryptedFile::new(folder)),
        "keychain" => Arc::new(Keychain::new("mcp-tests", folder)),
        other => panic!("unknown store `{other}`"),
    }
}

/// A store in which one operation never finishes.
struct Stuck {
    store: Arc<dyn TokenStore>,
    /// True for `load`, false for `save`.
    in_load: bool,
}

#[async_trait]
impl TokenStore for Stuck {
    fn describe(&self) -> String {
        self.store.describe()
    }

    async fn load(&self, key: &CredentialKey, dialog: Dialog) -> Result<Option<Secret>, StoreError> {
        if self.in_load {
            println!("held");
            std::future::pending::<()>().await;
        }
        self.store.load(key, dialog).await
    }

    async fn save(&self, _: &CredentialKey, _: &Secret, _: Dialog) -> Result<(), StoreError> {
        println!("stalled");
        std::future::pending().await
    }

    async fn delete(&self, key: &CredentialKey, dialog: Dialog) -> Result<bool, StoreError> {
        self.store.delete(key, dialog).await
    }

    async fn lock(&self, key: &CredentialKey, timeout: Duration) -> Result<StoreLock, StoreError> {
        self.store.lock(key, timeout).await
    }
}

pub(crate) async fn run(words: &[&str]) {
    let [mode, kind, folder, issuer] = words[..] else {
        panic!("usage: logins worker MODE STORE FOLDER ISSUER")
    };
    let store = store(kind, Path::new(folder));
    let config = user(issuer, "cli-short");
    if mode == "hold" {
        drop(Credentials::of(Stuck { store, in_load: true }).logout(&config).await);
        unreachable!("the lock is held for ever");
    }
    if mode == "stall" {
        let source = Credentials::of(Stuck { store, in_load: false }).token_source(&config).unwrap();
        let token = source.token().await.unwrap();
        drop(source.token_after_refusal(&token).await);
        unreachable!("the save does not finish");
    }
    let source = Credentials::of(store).token_source(&config).unwrap();
    if mode == "once" {
        let old = source.token().await;
        println!("ready");
        std::io::stdin().read_line(&mut String::new()).unwrap();
        let token = match old {
            Ok(old) => source.token_after_refusal(&old).await,
            Err(error) => Err(error),
        };
        match token {
            Ok(token) => println!("token {}", CredentialKey::new([token.access_token().expose()])),
            Err(error) => println!("error {error}"),
        }
        return;
    }
    let (started, mut last) = (Instant::now(), String::new());
    while started.elapsed() < Duration::from_secs(10) {
        match source.token().await {
            Ok(token) if token.access_token().expose() != last => {
                last = token.access_token().expose().to_owned();
                assert!(accepts(issuer, &last).await, "the server does not accept a token");
                println!("token {}", CredentialKey::new([&last]));
            }
            Ok(_) => {}
            Err(error) => println!("error {error}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
