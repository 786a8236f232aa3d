//! The configuration of RFC 2190, with exactly its names and fields.
//!
//! New code says more with a [`ServerConfig`]; every one of these becomes one.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use crate::connect::server_config::ServerConfig;
use crate::error::Error;

/// What to start, as RFC 2190 has it.
///
/// ```
/// use mcp_client::{McpClientConfig, ServerConfig};
///
/// let config = McpClientConfig { command: "weather".to_owned(), ..McpClientConfig::default() };
/// let config = ServerConfig::try_from(config)?;
/// assert_eq!(config.to_string(), "weather");
/// # Ok::<(), mcp_client::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct McpClientConfig {
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables for its environment, beside the few that are passed on.
    pub env: HashMap<String, String>,
    /// How to log in.
    pub oauth: Option<OAuthConfig>,
    /// How long it may take from the start until the server is usable.
    pub timeout: Duration,
}

impl Default for McpClientConfig {
    fn default() -> Self {
        Self {
            command: String::new(),
            args: Vec::new(),
            env: HashMap::new(),
            oauth: None,
            timeout: Duration::from_secs(30),
        }
    }
}

/// Values of variables are never shown.
impl fmt::Debug for McpClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<&String> = self.env.keys().collect();
        names.sort();
        f.debug_struct("McpClientConfig")
            .field("command", &self.command)
            .field("args", &self.args)
            .field("env", &names)
            .field("oauth", &self.oauth)
            .field("timeout", &self.timeout)
            .finish()
    }
}

/// How to log in, as RFC 2190 has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OAuthConfig {
    /// Who issues the tokens.
    pub provider: OAuthProvider,
    /// What the provider knows this program by.
    pub client_id: String,
    /// What is asked for.
    pub scopes: Vec<String>,
    /// Where tokens are kept.
    pub token_storage: TokenStorage,
}

/// Who issues tokens, as RFC 2190 has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OAuthProvider {
    /// GitHub.
    Github,
    /// Google.
    Google,
    /// Somebody else.
    Custom {
        /// Where a person logs in.
        auth_url: String,
        /// Where tokens are given out.
        token_url: String,
    },
}

/// Where tokens are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenStorage {
    /// The first of the others that works.
    #[default]
    Auto,
    /// The keychain of the operating system.
    Keychain,
    /// An encrypted file.
    EncryptedFile,
    /// A variable of the environment. Read only.
    Env,
    /// Nowhere: gone with the process.
    Memory,
}

impl TryFrom<McpClientConfig> for ServerConfig {
    type Error = Error;

    /// # Errors
    /// [`Error::FeatureDisabled`] if the configuration wants a login: there is none over stdio yet.
    fn try_from(config: McpClientConfig) -> Result<Self, Error> {
        if config.oauth.is_some() {
            return Err(Error::FeatureDisabled { feature: "oauth" });
        }
        let McpClientConfig { command, args, env, timeout, .. } = config;
        let server = ServerConfig::command(command).args(args).start_timeout(timeout);
        Ok(env.into_iter().fold(server, |server, (name, value)| server.env(name, value)).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_2190_config_converts_to_a_server_config_without_loss() {
        let config = McpClientConfig {
            command: "npx".to_owned(),
            args: vec!["-y".to_owned(), "server".to_owned()],
            env: HashMap::from([("KEY".to_owned(), "hush-hush".to_owned())]),
            oauth: None,
            timeout: Duration::from_secs(5),
        };
        assert!(!format!("{config:?}").contains("hush"));
        let expected = ServerConfig::command("npx")
            .args(["-y", "server"])
            .env("KEY", "hush-hush")
            .start_timeout(Duration::from_secs(5));
        assert_eq!(ServerConfig::try_from(config).unwrap(), expected.into());
        assert_eq!(McpClientConfig::default().timeout, Duration::from_secs(30));
    }

    #[test]
    fn oauth_config_without_the_feature_is_an_error_naming_it() {
        let oauth = OAuthConfig {
            provider: OAuthProvider::Github,
            client_id: "id".to_owned(),
            scopes: vec!["repo".to_owned()],
            token_storage: TokenStorage::default(),
        };
        let config = McpClientConfig { oauth: Some(oauth), ..McpClientConfig::default() };
        let error = ServerConfig::try_from(config).unwrap_err();
        assert!(matches!(error, Error::FeatureDisabled { feature: "oauth" }), "{error}");
    }
}
