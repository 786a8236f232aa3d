//! Uses a credential store as its arguments say, for tests that kill, lock and restart processes.
//!
//! `credentials KIND FOLDER` with KIND `keychain`, `file` or `auto` reads commands from stdin, one per line, and prints
//! one line for each:
//!
//! | command | result |
//! |---|---|
//! | `save NAME TEXT` | `saved` |
//! | `load NAME` | `text TEXT` or `none` |
//! | `delete NAME` | `deleted` or `none` |
//! | `hold NAME` | `held`: takes the lock, until the process ends |
//! | `choose` | `chosen STORE; refused: ERRORS` (only `auto`) |
//! | `write NAME` | saves numbered long texts until the process is killed; prints `number N` after each |
//!
//! A failure prints `error KIND: TEXT`, where KIND is the variant of the error.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a program of the tests")]

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

use mcp_client::credentials::{
    AutoStore, CredentialKey, Dialog, EncryptedFile, Keychain, LockFolder, Secret, StoreError, StoreLock,
    TokenStore,
};

const SERVICE: &str = "mcp-tests";

enum Store {
    One(Arc<dyn TokenStore>),
    Auto(AutoStore),
}

impl Store {
    fn store(&self) -> &dyn TokenStore {
        match self {
            Self::One(store) => &**store,
            Self::Auto(store) => store,
        }
    }
}

/// The text with this number: long, and different in each byte from its neighbours, so that a mixture is noticed.
fn numbered_text(number: u64) -> String {
    let letter = char::from(b'a' + u8::try_from(number % 26).unwrap());
    format!("{number} {}", String::from(letter).repeat(20_000))
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, folder] = &arguments[..] else { panic!("usage: credentials KIND FOLDER") };
    let store = match kind.as_str() {
        "keychain" => Store::One(Arc::new(Keychain::new(SERVICE, folder))),
        "file" => Store::One(Arc::new(EncryptedFile::new(folder))),
        "auto" => {
            let stores: Vec<Arc<dyn TokenStore>> =
                vec![Arc::new(Keychain::new(SERVICE, folder)), Arc::new(EncryptedFile::new(folder))];
            Store::Auto(AutoStore::of(stores, LockFolder::new(folder)))
        }
        other => panic!("unknown kind `{other}`"),
    };
    let mut held = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let result = match run(&store, &line, &mut held).await {
            Ok(result) => result,
            Err(error) => {
                let variant = format!("{error:?}");
                format!("error {}: {error}", variant.split(' ').next().unwrap())
            }
        };
        print(&result);
    }
}

fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

async fn run(store: &Store, line: &str, held: &mut Vec<StoreLock>) -> Result<String, StoreError> {
    let mut words = line.splitn(3, ' ');
    let command = words.next().unwrap();
    let key = CredentialKey::new([words.next().unwrap_or_default()]);
    let text = words.next().unwrap_or_default();
    let store_of_one = store.store();
    Ok(match command {
        "save" => {
            store_of_one.save(&key, &Secret::new(text), Dialog::Forbidden).await?;
            "saved".to_owned()
        }
        "load" => match store_of_one.load(&key, Dialog::Forbidden).await? {
            Some(secret) => format!("text {}", secret.expose()),
            None => "none".to_owned(),
        },
        "delete" if store_of_one.delete(&key, Dialog::Forbidden).await? => "deleted".to_owned(),
        "delete" => "none".to_owned(),
        "hold" => {
            held.push(store_of_one.lock(&key, Duration::from_secs(15)).await?);
            "held".to_owned()
        }
        "choose" => {
            let Store::Auto(store) = store else { panic!("only `auto` chooses") };
            let report = store.choose(Dialog::Forbidden).await;
            let refused: Vec<String> = report.refused.iter().map(StoreError::to_string).collect();
            format!("chosen {}; refused: {}", report.chosen.unwrap_or_default(), refused.join(", "))
        }
        "write" => {
            let first = match store_of_one.load(&key, Dialog::Forbidden).await? {
                Some(secret) => secret.expose().split(' ').next().unwrap().parse::<u64>().unwrap() + 1,
                None => 0,
            };
            for number in first.. {
                store_of_one.save(&key, &Secret::new(numbered_text(number)), Dialog::Forbidden).await?;
                print(&format!("number {number}"));
            }
            unreachable!("numbers end later than this program")
        }
        other => panic!("unknown command `{other}`"),
    })
}
