//! The providers of tokens, and what is known about each.

use super::options::{ClientSecret, Grant, OAuthOptions};
use crate::config::rfc_config::{OAuthConfig, OAuthProvider};

/// A provider of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Provider {
    /// An issuer, whose metadata names its endpoints.
    Issuer(String),
    Github,
    Google,
    /// A provider of which only the token endpoint is known.
    Custom {
        token_url: String,
    },
    /// The one that the MCP server names.
    Discovered,
}

/// The endpoints of an authorization server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Endpoints {
    pub(super) token: String,
    pub(super) authorization: Option<String>,
    pub(super) device: Option<String>,
    pub(super) revocation: Option<String>,
    pub(super) registration: Option<String>,
    /// The methods with which clients can authenticate. Empty if the server does not say.
    pub(super) auth_methods: Vec<String>,
    /// The scopes that the server lists.
    pub(super) scopes: Vec<String>,
    /// The server supports PKCE with S256.
    pub(super) has_s256: bool,
    /// A client id may be the URL of a document about the client.
    pub(super) has_client_documents: bool,
    /// The server names itself in responses through the browser.
    pub(super) names_issuer: bool,
}

impl Provider {
    /// Returns the issuer, or the URL that stands for it; empty if it has to be found out.
    pub(super) fn issuer(&self) -> &str {
        match self {
            Self::Issuer(issuer) => issuer,
            Self::Github => "https://github.com/login/oauth",
            Self::Google => "https://accounts.google.com",
            Self::Custom { token_url } => token_url,
            Self::Discovered => "",
        }
    }

    /// Returns a URL on the host of the endpoints.
    pub(super) fn host_url(&self) -> &str {
        match self {
            Self::Google => "https://oauth2.googleapis.com",
            _ => self.issuer(),
        }
    }

    /// Returns true if the provider may know the parameter `resource` (RFC 8707).
    pub(super) fn knows_resources(&self) -> bool {
        matches!(self, Self::Issuer(_) | Self::Discovered)
    }

    /// Returns the endpoints that are known without metadata.
    pub(super) fn endpoints(&self) -> Endpoints {
        let (token, device, revocation) = match self {
            Self::Github => {
                ("https://github.com/login/oauth/access_token", "https://github.com/login/device/code", None)
            }
            Self::Google => (
                "https://oauth2.googleapis.com/token",
                "https://oauth2.googleapis.com/device/code",
                Some("https://oauth2.googleapis.com/revoke".to_owned()),
            ),
            Self::Issuer(_) | Self::Custom { .. } | Self::Discovered => return Endpoints::default(),
        };
        Endpoints {
            token: token.to_owned(),
            device: Some(device.to_owned()),
            revocation,
            // Both take the secret from the form.
            auth_methods: vec!["client_secret_post".to_owned()],
            ..Endpoints::default()
        }
    }

    /// Returns the environment variable in which the usual MCP server of this provider expects its token.
    pub(super) fn token_variable(&self) -> Option<&'static str> {
        match self {
            Self::Github => Some("GITHUB_PERSONAL_ACCESS_TOKEN"),
            _ => None,
        }
    }

    /// Returns the name of an environment variable for this provider. `name` is the name that the program gave to the
    /// login.
    pub(super) fn variable(&self, prefix: &str, name: &str) -> String {
        let suffix = match self {
            Self::Github => "GITHUB",
            Self::Google => "GOOGLE",
            Self::Issuer(_) | Self::Custom { .. } | Self::Discovered if name.is_empty() => {
                return prefix.to_owned();
            }
            Self::Issuer(_) | Self::Custom { .. } | Self::Discovered => name,
        };
        let letters = suffix.chars().map(|letter| match letter.to_ascii_uppercase() {
            letter if letter.is_ascii_alphanumeric() => letter,
            _ => '_',
        });
        format!("{prefix}_{}", letters.collect::<String>())
    }
}

/// Converts the login of RFC 2190 of this project. It has no field for a client secret, so a secret is read from the
/// environment variable `MCP_OAUTH_CLIENT_SECRET_GITHUB`, `MCP_OAUTH_CLIENT_SECRET_GOOGLE` or, for another provider,
/// `MCP_OAUTH_CLIENT_SECRET`, if that is set.
impl From<OAuthConfig> for OAuthOptions {
    fn from(config: OAuthConfig) -> Self {
        let OAuthConfig { provider, client_id, scopes, token_storage } = config;
        let provider = match provider {
            OAuthProvider::Github => Provider::Github,
            OAuthProvider::Google => Provider::Google,
            OAuthProvider::Custom { auth_url: _, token_url } => Provider::Custom { token_url },
        };
        let variable = provider.variable("MCP_OAUTH_CLIENT_SECRET", "");
        let mut options = Self::new(provider, client_id, Grant::Login);
        options.secret = Some(ClientSecret::Variable { name: variable, is_required: false });
        options.scopes(scopes).token_storage(token_storage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::rfc_config::TokenStorage;

    #[test]
    fn variables_are_named_after_the_provider_or_the_login() {
        let issuer = || OAuthOptions::issuer("https://as.example", "id");
        assert_eq!(issuer().token_variables(), ["MCP_OAUTH_TOKEN"]);
        assert_eq!(issuer().name("a-b.c9").token_variables(), ["MCP_OAUTH_TOKEN_A_B_C9"]);
        assert_eq!(
            OAuthOptions::github("id").name("ignored").token_env("MY_TOKEN").token_variables(),
            ["MCP_OAUTH_TOKEN_GITHUB", "GITHUB_PERSONAL_ACCESS_TOKEN", "MY_TOKEN"]
        );
        assert_eq!(OAuthOptions::google("id", "s").token_variables(), ["MCP_OAUTH_TOKEN_GOOGLE"]);
    }

    #[test]
    fn login_of_the_rfc_becomes_options() {
        let convert = |provider| {
            OAuthOptions::from(OAuthConfig {
                provider,
                client_id: "Iv1".to_owned(),
                scopes: vec!["repo".to_owned()],
                token_storage: TokenStorage::Memory,
            })
        };
        let github = convert(OAuthProvider::Github);
        assert_eq!((github.client_id.as_str(), github.token_storage), ("Iv1", TokenStorage::Memory));
        assert_eq!(github.scopes, ["repo"]);
        assert_eq!(github.configured_issuer(), "https://github.com/login/oauth");
        assert!(
            github.secret
                == Some(ClientSecret::Variable {
                    name: "MCP_OAUTH_CLIENT_SECRET_GITHUB".to_owned(),
                    is_required: false
                })
        );
        assert_eq!(convert(OAuthProvider::Google).configured_issuer(), "https://accounts.google.com");
        let custom = convert(OAuthProvider::Custom {
            auth_url: "https://as.example/authorize".to_owned(),
            token_url: "https://as.example/token".to_owned(),
        });
        assert_eq!(custom.configured_issuer(), "https://as.example/token");
    }
}
