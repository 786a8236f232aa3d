//! Stores for credentials: the keychain of the operating system, encrypted files, environment variables and memory.
//!
//! A store keeps one secret text per [`CredentialKey`]. It neither knows nor checks what the text means, except that
//! [`AutoStore`] compares the member `obtained_at` if two stores have a credential for the same key.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), mcp_client::credentials::StoreError> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let folder = folder.path().join("credentials");
//! use mcp_client::credentials::{CredentialKey, Dialog, EncryptedFile, Secret, TokenStore};
//!
//! let store = EncryptedFile::new(&folder);
//! let key = CredentialKey::new(["weather", "https://weather.example.com/mcp"]);
//! store.save(&key, &Secret::new("a token"), Dialog::Forbidden).await?;
//! let loaded = store.load(&key, Dialog::Forbidden).await?;
//! assert_eq!(loaded.unwrap().expose(), "a token");
//! # Ok(()) }
//! ```

mod auto;
mod env;
mod file;
mod folder;
mod key;
#[cfg(feature = "keyring")]
mod keychain;
mod lock;
mod memory;
mod secret;
mod store;

pub use auto::{AutoStore, StoreReport};
#[cfg(feature = "oauth")]
pub(crate) use auto::{credential_folder, probe};
pub use env::EnvStore;
pub use file::EncryptedFile;
pub use file::keys::KeyProtection;
pub use key::CredentialKey;
#[cfg(feature = "keyring")]
#[cfg_attr(docsrs, doc(cfg(feature = "keyring")))]
pub use keychain::Keychain;
pub use lock::LockFolder;
pub use memory::MemoryStore;
pub use secret::Secret;
pub use store::{Dialog, StoreError, StoreLock, TokenStore};

/// The maximum size of a stored text, in bytes. Credentials have a few tokens, and tokens a few kilobytes.
const MAX_SECRET_BYTES: usize = 64 << 10;

/// Fills a buffer with random bytes.
#[expect(
    clippy::expect_used,
    reason = "no input can cause this, and no secret is possible without random bytes"
)]
fn fill_random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system returns random bytes");
}

/// Returns random bytes.
#[cfg(feature = "oauth")]
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    fill_random(&mut bytes);
    bytes
}

/// Returns a random id of 32 hexadecimal digits.
pub(crate) fn random_id() -> String {
    let mut bytes = [0; 16];
    fill_random(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
