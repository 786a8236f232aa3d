//! The key of a folder of credential files, and where it comes from.
//!
//! The file `key` in the folder is written once and says which of the sources has the key. It never changes, so a folder
//! keeps the protection that it began with.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | magic and version |
//! | 1 | source: 1 this file, 2 passphrase, 3 keychain |
//! | 8 | id of the key |
//! | rest | 1: the key; 2: salt (16 bytes) and check value (24 bytes); 3: nothing |

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use argon2::{Algorithm, Argon2, Params, Version};
use chacha20poly1305::aead::{Aead, KeyInit};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

use super::format::KEY_ID_BYTES;
use crate::credentials::folder::{PrivateFolder, store_error};
use crate::credentials::lock::run_blocking;
#[cfg(feature = "keyring")]
use crate::credentials::{CredentialKey, Keychain, TokenStore};
use crate::credentials::{Dialog, Secret, StoreError, fill_random};

const FILE_NAME: &str = "key";
const MAGIC: &[u8; 8] = b"MCPckey1";
const MAX_FILE_BYTES: usize = 128;
const KEY_BYTES: usize = 32;
const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 24;
/// Argon2id with 19 MiB and two passes, as OWASP recommends.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;

/// How the key of encrypted files is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyProtection {
    /// The key is in the keychain of the operating system.
    Keychain,
    /// The key is derived from a passphrase.
    Passphrase,
    /// The key is in a file beside the credentials: whoever can read the folder can decrypt them.
    Obfuscated,
}

impl fmt::Display for KeyProtection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keychain => "encrypted, with the key in the keychain",
            Self::Passphrase => "encrypted, with a passphrase",
            Self::Obfuscated => "obfuscated: the key is in a file beside the credentials",
        })
    }
}

/// The key with which the files of a folder are encrypted.
#[derive(Clone)]
pub(super) struct FileKey {
    pub(super) id: [u8; KEY_ID_BYTES],
    pub(super) bytes: Zeroizing<[u8; KEY_BYTES]>,
}

/// Returns the passphrase, or `None` if there is none.
pub(super) type AskPassphrase = Arc<dyn Fn(Dialog) -> Option<Secret> + Send + Sync>;

pub(super) enum KeySource {
    Passphrase(AskPassphrase),
    #[cfg(feature = "keyring")]
    Keychain(Keychain),
}

/// The configured sources, and the key once it is known.
#[derive(Clone, Default)]
pub(super) struct KeySources {
    passphrase: Option<AskPassphrase>,
    #[cfg(feature = "keyring")]
    keychain: Option<Keychain>,
    known: Arc<Mutex<Option<KnownKey>>>,
}

#[derive(Clone)]
struct KnownKey {
    /// The content of the file `key` for which this is the key.
    record: KeyRecord,
    key: FileKey,
}

/// The content of the file `key`.
#[derive(Clone, PartialEq, Eq)]
enum KeyRecord {
    Plain { id: [u8; KEY_ID_BYTES], key: Zeroizing<[u8; KEY_BYTES]> },
    Passphrase { id: [u8; KEY_ID_BYTES], salt: [u8; SALT_BYTES], check: Vec<u8> },
    Keychain { id: [u8; KEY_ID_BYTES] },
}

/// Tells how the key of this folder is protected, if it has one.
pub(super) fn protection(folder: &PrivateFolder) -> io::Result<Option<KeyProtection>> {
    Ok(KeyRecord::read(folder)?.map(|record| record.protection()))
}

impl KeySources {
    pub(super) fn with(mut self, source: KeySource) -> Self {
        match source {
            KeySource::Passphrase(ask) => self.passphrase = Some(ask),
            #[cfg(feature = "keyring")]
            KeySource::Keychain(keychain) => self.keychain = Some(keychain),
        }
        self.known = Arc::default();
        self
    }

    /// Tells how the key is protected if it is known, and otherwise how a new key would be.
    pub(super) fn expected_protection(&self) -> KeyProtection {
        if let Some(known) = &*self.known.lock().unwrap_or_else(PoisonError::into_inner) {
            return known.record.protection();
        }
        #[cfg(feature = "keyring")]
        if self.keychain.is_some() {
            return KeyProtection::Keychain;
        }
        if self.passphrase.is_some() { KeyProtection::Passphrase } else { KeyProtection::Obfuscated }
    }

    /// Returns the key of the folder. If the folder has none, creates it, or fails if `is_new` is false.
    pub(super) async fn get(
        &self,
        folder: &Path,
        store: &str,
        dialog: Dialog,
        is_new: bool,
    ) -> Result<FileKey, StoreError> {
        let failed = |error: &io::Error| store_error(store, folder, error);
        let path = folder.to_owned();
        let record = run_blocking(move || KeyRecord::read(&PrivateFolder::create(&path)?)).await;
        let record = match record.map_err(|error| failed(&error))? {
            Some(record) => record,
            None if !is_new => {
                return Err(StoreError::Corrupt {
                    store: store.to_owned(),
                    cause: format!("{}: the file `key` is missing", folder.display()),
                });
            }
            None => {
                let new = self.new_key(store, dialog).await?;
                let (path, record) = (folder.to_owned(), new.record.clone());
                let created = run_blocking(move || record.create(&PrivateFolder::create(&path)?)).await;
                let created = created.map_err(|error| failed(&error))?;
                if created == new.record {
                    *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(new.clone());
                    return Ok(new.key);
                }
                created
            }
        };
        if let Some(known) = &*self.known.lock().unwrap_or_else(PoisonError::into_inner)
            && known.record == record
        {
            return Ok(known.key.clone());
        }
        let key = self.open(&record, store, dialog).await?;
        let known = KnownKey { record, key: key.clone() };
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
        Ok(key)
    }

    /// Makes a key for a folder that has none, with the best configured source.
    async fn new_key(&self, store: &str, dialog: Dialog) -> Result<KnownKey, StoreError> {
        let mut id = [0; KEY_ID_BYTES];
        fill_random(&mut id);
        #[cfg(feature = "keyring")]
        if let Some(keychain) = &self.keychain {
            let mut key = Zeroizing::new([0; KEY_BYTES]);
            fill_random(&mut *key);
            keychain.save(&keychain_key(&id), &to_hex(&*key), dialog).await?;
            return Ok(KnownKey { record: KeyRecord::Keychain { id }, key: FileKey { id, bytes: key } });
        }
        if self.passphrase.is_some() {
            let mut salt = [0; SALT_BYTES];
            fill_random(&mut salt);
            let key = self.derive(&id, salt, store, dialog).await?;
            let record = KeyRecord::Passphrase { id, salt, check: check_value(&key) };
            return Ok(KnownKey { record, key });
        }
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        fill_random(&mut *key);
        let record = KeyRecord::Plain { id, key: key.clone() };
        Ok(KnownKey { record, key: FileKey { id, bytes: key } })
    }

    async fn open(&self, record: &KeyRecord, store: &str, dialog: Dialog) -> Result<FileKey, StoreError> {
        match record {
            KeyRecord::Plain { id, key } => Ok(FileKey { id: *id, bytes: key.clone() }),
            KeyRecord::Passphrase { id, salt, check } => {
                let key = self.derive(id, *salt, store, dialog).await?;
                if check_value(&key) != *check {
                    return Err(locked(store, "wrong passphrase"));
                }
                Ok(key)
            }
            #[cfg(feature = "keyring")]
            KeyRecord::Keychain { id } => {
                let Some(keychain) = &self.keychain else {
                    return Err(locked(
                        store,
                        "the key of its files is in the keychain, but no keychain is configured",
                    ));
                };
                let hex = keychain.load(&keychain_key(id), dialog).await?;
                let bytes = hex.and_then(|hex| from_hex(&hex)).ok_or_else(|| StoreError::Corrupt {
                    store: store.to_owned(),
                    cause: "the key of its files is no longer in the keychain".to_owned(),
                })?;
                Ok(FileKey { id: *id, bytes })
            }
            #[cfg(not(feature = "keyring"))]
            KeyRecord::Keychain { .. } => Err(locked(
                store,
                "the key of its files is in the keychain, but the feature `keyring` is disabled",
            )),
        }
    }

    async fn derive(
        &self,
        id: &[u8; KEY_ID_BYTES],
        salt: [u8; SALT_BYTES],
        store: &str,
        dialog: Dialog,
    ) -> Result<FileKey, StoreError> {
        let Some(ask) = self.passphrase.clone() else {
            return Err(locked(
                store,
                "its key is derived from a passphrase, but no passphrase is configured",
            ));
        };
        let derived = run_blocking(move || {
            let Some(passphrase) = ask(dialog) else { return Ok(None) };
            let mut bytes = Zeroizing::new([0; KEY_BYTES]);
            let parameters = Params::new(MEMORY_KIB, PASSES, 1, Some(KEY_BYTES)).map_err(io::Error::other)?;
            Argon2::new(Algorithm::Argon2id, Version::V0x13, parameters)
                .hash_password_into(passphrase.expose().as_bytes(), &salt, &mut *bytes)
                .map_err(io::Error::other)?;
            Ok(Some(bytes))
        });
        match derived.await {
            Ok(Some(bytes)) => Ok(FileKey { id: *id, bytes }),
            Ok(None) => Err(locked(store, "the passphrase is not available")),
            Err(error) => {
                let cause = format!("the key cannot be derived: {error}");
                Err(StoreError::Unavailable { store: store.to_owned(), cause })
            }
        }
    }
}

fn locked(store: &str, cause: &str) -> StoreError {
    StoreError::Locked { store: store.to_owned(), cause: cause.to_owned() }
}

/// A value that only the same key yields, and that does not reveal the key: the id, encrypted. Its fixed nonce is not
/// used for anything else, because nonces of files are random.
fn check_value(key: &FileKey) -> Vec<u8> {
    let cipher = XChaCha20Poly1305::new((&*key.bytes).into());
    cipher.encrypt(&XNonce::from([0; NONCE_BYTES]), &key.id[..]).unwrap_or_default()
}

impl KeyRecord {
    fn protection(&self) -> KeyProtection {
        match self {
            Self::Plain { .. } => KeyProtection::Obfuscated,
            Self::Passphrase { .. } => KeyProtection::Passphrase,
            Self::Keychain { .. } => KeyProtection::Keychain,
        }
    }

    fn read(folder: &PrivateFolder) -> io::Result<Option<Self>> {
        let Some(bytes) = folder.read(FILE_NAME, MAX_FILE_BYTES)? else { return Ok(None) };
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the file `key` is damaged");
        Self::parse(&bytes).map(Some).ok_or_else(damaged)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (source, rest) = bytes.strip_prefix(MAGIC)?.split_first()?;
        let (id, rest) = rest.split_first_chunk::<KEY_ID_BYTES>()?;
        let id = *id;
        match source {
            1 => Some(Self::Plain { id, key: Zeroizing::new(rest.try_into().ok()?) }),
            2 => {
                let (salt, check) = rest.split_first_chunk::<SALT_BYTES>()?;
                (check.len() == KEY_ID_BYTES + 16).then(|| Self::Passphrase {
                    id,
                    salt: *salt,
                    check: check.to_vec(),
                })
            }
            3 => rest.is_empty().then_some(Self::Keychain { id }),
            _ => None,
        }
    }

    fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_FILE_BYTES));
        bytes.extend_from_slice(MAGIC);
        match self {
            Self::Plain { id, key } => {
                bytes.push(1);
                bytes.extend_from_slice(id);
                bytes.extend_from_slice(&**key);
            }
            Self::Passphrase { id, salt, check } => {
                bytes.push(2);
                bytes.extend_from_slice(id);
                bytes.extend_from_slice(salt);
                bytes.extend_from_slice(check);
            }
            Self::Keychain { id } => {
                bytes.push(3);
                bytes.extend_from_slice(id);
            }
        }
        bytes
    }

    /// Writes this record, unless another process has already written one. Returns the record of the folder.
    fn create(self, folder: &PrivateFolder) -> io::Result<Self> {
        if folder.create_file(FILE_NAME, &self.to_bytes())? {
            return Ok(self);
        }
        Self::read(folder)?.ok_or_else(|| io::Error::other("another process removed the file `key`; retry"))
    }
}

#[cfg(feature = "keyring")]
fn keychain_key(id: &[u8; KEY_ID_BYTES]) -> CredentialKey {
    CredentialKey::new([&b"key of credential files"[..], id])
}

#[cfg(feature = "keyring")]
fn to_hex(bytes: &[u8]) -> Secret {
    Secret::new(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

#[cfg(feature = "keyring")]
fn from_hex(hex: &Secret) -> Option<Zeroizing<[u8; KEY_BYTES]>> {
    let hex = hex.expose();
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    if hex.len() != 2 * KEY_BYTES {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}
