//! The client configuration that RFC 2190 of this project (`docs/rfcs`) specifies, with exactly the same names and
//! fields.
//!
//! New code should use [`ServerConfig`], which has more options. [`McpClientConfig`] converts into a `ServerConfig`.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use crate::config::server_config::ServerConfig;
use crate::error::Error;

/// A program to start, as defined by RFC 2190 of this project (`docs/rfcs`).
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
    /// The arguments of the program.
    pub args: Vec<String>,
    /// Environment variables of the program, in addition to the few variables that it receives from this process.
    pub env: HashMap<String, String>,
    /// The OAuth login. The program receives the token in an environment variable. Needs the feature `oauth`.
    pub oauth: Option<OAuthConfig>,
    /// The timeout for starting the server and for the handshake.
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

/// Does not show the values of environment variables.
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

/// An OAuth login, as defined by RFC 2190 of this project (`docs/rfcs`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OAuthConfig {
    /// The provider that issues the tokens.
    pub provider: OAuthProvider,
    /// The client id under which this program is registered at the provider.
    pub client_id: String,
    /// The requested scopes.
    pub scopes: Vec<String>,
    /// The storage for tokens.
    pub token_storage: TokenStorage,
}

/// An OAuth provider, as defined by RFC 2190 of this project (`docs/rfcs`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OAuthProvider {
    /// GitHub.
    Github,
    /// Google.
    Google,
    /// Another provider.
    Custom {
        /// The authorization endpoint.
        auth_url: String,
        /// The token endpoint.
        token_url: String,
    },
}

/// The storage for tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenStorage {
    /// The first of the other variants that is available.
    #[default]
    Auto,
    /// The keychain of the operating system.
    Keychain,
    /// An encrypted file.
    EncryptedFile,
    /// An environment variable. Tokens can be read, but not stored.
    Env,
    /// In memory only; lost when the process exits.
    Memory,
}

impl TryFrom<McpClientConfig> for ServerConfig {
    type Error = Error;

    /// # Errors
    /// [`Error::FeatureDisabled`] if `oauth` is set and the feature `oauth` is not enabled.
    fn try_from(config: McpClientConfig) -> Result<Self, Error> {
        let McpClientConfig { command, args, env, oauth, timeout } = config;
        let server = ServerConfig::command(command).args(args).start_timeout(timeout);
        let server = env.into_iter().fold(server, |server, (name, value)| server.env(name, value));
        Ok(match oauth {
            None => server.into(),
            #[cfg(feature = "oauth")]
            Some(oauth) => server.oauth(oauth.into()).into(),
            #[cfg(not(feature = "oauth"))]
            Some(_) => return Err(Error::FeatureDisabled { feature: "oauth" }),
        })
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
    #[cfg(not(feature = "oauth"))]
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
