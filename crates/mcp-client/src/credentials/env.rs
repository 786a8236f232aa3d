//! Tokens from environment variables.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use super::{CredentialKey, Dialog, Secret, StoreError, StoreLock, TokenStore};

/// A store that reads one environment variable, whatever the key is, and cannot be written.
///
/// If the variable is not set or is empty, there is no credential.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_client::credentials::StoreError> {
/// use mcp_client::credentials::{CredentialKey, Dialog, EnvStore, TokenStore};
///
/// let store = EnvStore::new("MCP_OAUTH_TOKEN_WEATHER");
/// assert!(store.load(&CredentialKey::new(["weather"]), Dialog::Forbidden).await?.is_none());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct EnvStore {
    variable: String,
    #[cfg(test)]
    value: Option<String>,
}

impl EnvStore {
    /// Creates a store that reads this variable.
    #[must_use]
    pub fn new(variable: impl Into<String>) -> Self {
        Self {
            variable: variable.into(),
            #[cfg(test)]
            value: None,
        }
    }

    /// Returns the name of the variable.
    #[must_use]
    pub fn variable(&self) -> &str {
        &self.variable
    }

    /// Replaces the environment, which tests cannot change safely.
    #[cfg(test)]
    pub(super) fn with_value(variable: &str, value: &str) -> Self {
        Self { variable: variable.to_owned(), value: Some(value.to_owned()) }
    }

    #[cfg(test)]
    fn value(&self) -> Option<String> {
        self.value.clone().or_else(|| std::env::var(&self.variable).ok())
    }

    #[cfg(not(test))]
    fn value(&self) -> Option<String> {
        std::env::var(&self.variable).ok()
    }

    fn read_only(&self) -> StoreError {
        StoreError::ReadOnly {
            store: self.describe(),
            cause: "an environment variable is only read; set or unset it where this program is started"
                .to_owned(),
        }
    }
}

impl fmt::Debug for EnvStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvStore").field("variable", &self.variable).finish_non_exhaustive()
    }
}

#[async_trait]
impl TokenStore for EnvStore {
    fn describe(&self) -> String {
        format!("environment variable {}", self.variable)
    }

    async fn load(&self, _: &CredentialKey, _: Dialog) -> Result<Option<Secret>, StoreError> {
        Ok(self.value().filter(|value| !value.is_empty()).map(Secret::new))
    }

    async fn save(&self, _: &CredentialKey, _: &Secret, _: Dialog) -> Result<(), StoreError> {
        Err(self.read_only())
    }

    async fn delete(&self, key: &CredentialKey, dialog: Dialog) -> Result<bool, StoreError> {
        match self.load(key, dialog).await? {
            Some(_) => Err(self.read_only()),
            None => Ok(false),
        }
    }

    async fn lock(&self, _: &CredentialKey, _: Duration) -> Result<StoreLock, StoreError> {
        // Nothing is ever written.
        Ok(StoreLock::new(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn variable_is_read_and_never_written() {
        let key = CredentialKey::new(["any"]);
        let store = EnvStore::with_value("TOKEN", "from the environment");
        let loaded = store.load(&key, Dialog::Forbidden).await.unwrap().unwrap();
        assert_eq!(loaded.expose(), "from the environment");
        let save = store.save(&key, &Secret::new("new"), Dialog::Allowed).await.unwrap_err();
        assert!(matches!(save, StoreError::ReadOnly { .. }), "{save}");
        let delete = store.delete(&key, Dialog::Allowed).await.unwrap_err();
        assert_eq!(
            delete.to_string(),
            "environment variable TOKEN cannot be written: an environment variable is only read; set or unset it where this program is started"
        );
        assert!(!format!("{store:?} {loaded:?}").contains("from the environment"));
    }

    #[tokio::test]
    async fn empty_variable_is_absent() {
        let (key, store) = (CredentialKey::new(["any"]), EnvStore::with_value("TOKEN", ""));
        assert!(store.load(&key, Dialog::Forbidden).await.unwrap().is_none());
        assert!(!store.delete(&key, Dialog::Forbidden).await.unwrap());
    }
}
