//! Text that must not be shown.

use std::fmt;

use zeroize::Zeroizing;

/// A secret text, such as a token. `Debug` does not show it, it cannot be serialized, and its memory is overwritten when
/// it is dropped.
///
/// ```
/// use mcp_client::credentials::Secret;
///
/// let secret = Secret::new("a token");
/// assert_eq!(format!("{secret:?}"), "Secret(..)");
/// assert_eq!(secret.expose(), "a token");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Creates a secret. Copies of the text that exist elsewhere are not overwritten.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// Returns the text.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}
