//! The format of a credential file: header, nonce and cipher text.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | magic and version |
//! | 8 | id of the key |
//! | 24 | nonce, random for each write |
//! | rest | text, encrypted with XChaCha20-Poly1305; the 16 header bytes and the credential key are authenticated |

use std::fmt;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use zeroize::{Zeroize, Zeroizing};

use super::keys::FileKey;
use crate::credentials::{CredentialKey, MAX_SECRET_BYTES, Secret, fill_random};

const MAGIC: &[u8; 8] = b"MCPcred1";
pub(super) const KEY_ID_BYTES: usize = 8;
const HEADER_BYTES: usize = MAGIC.len() + KEY_ID_BYTES;
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;
/// The maximum size of a credential file.
pub(super) const MAX_FILE_BYTES: usize = HEADER_BYTES + NONCE_BYTES + MAX_SECRET_BYTES + TAG_BYTES;

/// The reason why a file cannot be decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileError {
    Format,
    OtherKey,
    Changed,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Format => "not a credential file of this version, or truncated",
            Self::OtherKey => "encrypted with a key other than the current key of its folder",
            Self::Changed => "the content was changed, or belongs to another credential",
        })
    }
}

pub(super) fn encrypt(secret: &Secret, key: &CredentialKey, file_key: &FileKey) -> Vec<u8> {
    let mut file = Vec::with_capacity(HEADER_BYTES + NONCE_BYTES + secret.expose().len() + TAG_BYTES);
    file.extend_from_slice(MAGIC);
    file.extend_from_slice(&file_key.id);
    let associated = associated_data(&file, key);
    let mut nonce = [0; NONCE_BYTES];
    fill_random(&mut nonce);
    file.extend_from_slice(&nonce);
    let payload = Payload { msg: secret.expose().as_bytes(), aad: &associated };
    // Encryption fails only for texts of more than 256 GiB. Then the file is too short, and refused when it is read.
    file.extend(cipher(file_key).encrypt(&XNonce::from(nonce), payload).unwrap_or_default());
    file
}

pub(super) fn decrypt(file: &[u8], key: &CredentialKey, file_key: &FileKey) -> Result<Secret, FileError> {
    let (header, rest) = file.split_at_checked(HEADER_BYTES).ok_or(FileError::Format)?;
    let id = header.strip_prefix(MAGIC).ok_or(FileError::Format)?;
    let (nonce, text) = rest.split_at_checked(NONCE_BYTES).ok_or(FileError::Format)?;
    if id != file_key.id {
        return Err(FileError::OtherKey);
    }
    let nonce = XNonce::try_from(nonce).map_err(|_| FileError::Format)?;
    let payload = Payload { msg: text, aad: &associated_data(header, key) };
    let plain = cipher(file_key).decrypt(&nonce, payload).map_err(|_| FileError::Changed)?;
    match String::from_utf8(plain) {
        Ok(text) => Ok(Secret::new(text)),
        Err(error) => {
            error.into_bytes().zeroize();
            Err(FileError::Format)
        }
    }
}

fn cipher(file_key: &FileKey) -> XChaCha20Poly1305 {
    let key: Zeroizing<[u8; 32]> = file_key.bytes.clone();
    XChaCha20Poly1305::new((&*key).into())
}

fn associated_data(header: &[u8], key: &CredentialKey) -> Vec<u8> {
    [header, key.as_str().as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_key(byte: u8) -> FileKey {
        FileKey { id: [byte; KEY_ID_BYTES], bytes: Zeroizing::new([byte; 32]) }
    }

    #[test]
    fn changed_files_are_refused_and_never_become_text() {
        let (key, file_key) = (CredentialKey::new(["one"]), file_key(1));
        let file = encrypt(&Secret::new("a secret text"), &key, &file_key);
        assert!(!file.windows(6).any(|part| part == b"secret"));
        assert_eq!(decrypt(&file, &key, &file_key).unwrap().expose(), "a secret text");
        for at in 0..file.len() {
            let mut changed = file.clone();
            changed[at] ^= 1;
            assert!(decrypt(&changed, &key, &file_key).is_err(), "byte {at}");
            assert!(decrypt(&file[..at], &key, &file_key).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn file_is_bound_to_its_credential_and_its_key() {
        let (one, other) = (CredentialKey::new(["one"]), CredentialKey::new(["other"]));
        let file = encrypt(&Secret::new("text"), &one, &file_key(1));
        assert_eq!(decrypt(&file, &other, &file_key(1)).unwrap_err(), FileError::Changed);
        assert_eq!(decrypt(&file, &one, &file_key(2)).unwrap_err(), FileError::OtherKey);
        let same_id = FileKey { id: [1; KEY_ID_BYTES], ..file_key(2) };
        assert_eq!(decrypt(&file, &one, &same_id).unwrap_err(), FileError::Changed);
    }

    #[test]
    fn each_write_has_its_own_nonce() {
        let (key, file_key) = (CredentialKey::new(["one"]), file_key(1));
        let [one, other] = [(); 2].map(|()| encrypt(&Secret::new("text"), &key, &file_key));
        assert_ne!(one[HEADER_BYTES..], other[HEADER_BYTES..]);
    }
}
