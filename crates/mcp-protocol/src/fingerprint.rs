//! Digests for change detection.

use hmac_sha256::Hash;

/// Returns the SHA-256 digest of a sequence of parts as 64 hexadecimal digits. The length of each part is included, so
/// that the digests of `["ab", "c"]` and `["a", "bc"]` differ.
///
/// ```
/// use mcp_protocol::fingerprint::fingerprint;
///
/// let one = fingerprint(["npx", "-y", "server"]);
/// assert_eq!(one.len(), 64);
/// assert_ne!(one, fingerprint(["npx", "-yserver"]));
/// ```
#[doc(alias = "hash")]
#[doc(alias = "digest")]
#[must_use]
pub fn fingerprint<T: AsRef<[u8]>>(parts: impl IntoIterator<Item = T>) -> String {
    let mut hash = Hash::new();
    for part in parts {
        let part = part.as_ref();
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
