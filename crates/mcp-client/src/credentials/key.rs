//! The key of a credential.

use std::fmt;

use mcp_protocol::fingerprint::fingerprint;

/// The key under which a credential is stored: a digest, so that a store does not show for which servers it has
/// credentials.
///
/// ```
/// use mcp_client::credentials::CredentialKey;
///
/// let key = CredentialKey::new(["weather", "https://weather.example.com/mcp"]);
/// assert_eq!(key.as_str().len(), 64);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CredentialKey(String);

impl CredentialKey {
    /// Creates the key from the parts that identify the credential, such as the name and the URL of a server.
    #[must_use]
    pub fn new<T: AsRef<[u8]>>(parts: impl IntoIterator<Item = T>) -> Self {
        Self(fingerprint(parts))
    }

    /// Returns the key as 64 lower-case hexadecimal digits, which is safe as a file name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CredentialKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
