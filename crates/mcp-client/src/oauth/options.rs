//! The OAuth options of a program.

use std::fmt;

use mcp_protocol::oauth::choice::LoginMethod;

use super::assertion::AssertionSource;
use super::endpoint::endpoint_url;
use super::error::OAuthError;
use super::providers::Provider;
use crate::config::rfc_config::TokenStorage;
use crate::credentials::Secret;

/// The OAuth settings of a server: the issuer of its tokens, and the client id with which this program
/// requests them.
///
/// ```
/// use mcp_client::oauth::OAuthOptions;
///
/// use mcp_client::ServerConfig;
///
/// // A user logs in with a code.
/// let device = OAuthOptions::issuer("https://auth.example.com", "my-cli").scopes(["notes:read"]);
/// let notes = ServerConfig::url("https://notes.example.com/mcp").oauth(device);
/// // A service that acts for itself.
/// let service = OAuthOptions::client_credentials("https://auth.example.com", "billing-bot").secret("s-123");
/// assert!(!format!("{service:?}").contains("s-123"));
/// # drop(notes);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct OAuthOptions {
    pub(super) provider: Provider,
    pub(super) client_id: String,
    pub(super) grant: Grant,
    pub(super) name: String,
    pub(super) secret: Option<ClientSecret>,
    pub(super) scopes: Vec<String>,
    pub(super) has_resource: bool,
    /// True if the secret is sent in the form, whatever the metadata says.
    pub(super) is_secret_in_form: bool,
    /// True if tokens are bound to a key.
    pub(super) has_bound_tokens: bool,
    /// An assertion for which the authorization server issues tokens, instead of client credentials.
    pub(super) assertion: Option<AssertionSource>,
    /// The URL of a document that describes this program, which is then its client id.
    pub(super) client_document: Option<String>,
    client_name: String,
    /// The method with which users log in, if the program wants a certain one.
    pub(super) method: Option<LoginMethod>,
    pub(super) opens_browser: bool,
    pub(super) callback_port: Option<u16>,
    pub(super) token_storage: TokenStorage,
    token_env: Vec<String>,
}

/// How tokens are obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grant {
    /// A user logs in.
    Login,
    /// The client requests them for itself.
    ClientCredentials,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) enum ClientSecret {
    Text(Secret),
    Variable {
        name: String,
        /// True if nothing can be requested without it.
        is_required: bool,
    },
    PrivateKey {
        pem: Secret,
        id: Option<String>,
    },
}

impl OAuthOptions {
    pub(super) fn new(provider: Provider, client_id: String, grant: Grant) -> Self {
        Self {
            has_resource: provider.knows_resources(),
            provider,
            client_id,
            grant,
            name: String::new(),
            secret: None,
            scopes: Vec::new(),
            is_secret_in_form: false,
            assertion: None,
            has_bound_tokens: false,
            client_document: None,
            client_name: String::new(),
            method: None,
            opens_browser: true,
            callback_port: None,
            token_storage: TokenStorage::Auto,
            token_env: Vec::new(),
        }
    }

    /// Creates options for a user's login at this issuer. The endpoints are read from its metadata, whose `issuer` must
    /// equal this URL exactly.
    #[must_use]
    pub fn issuer(issuer: impl Into<String>, client_id: impl Into<String>) -> Self {
        Self::new(Provider::Issuer(issuer.into()), client_id.into(), Grant::Login)
    }

    /// Creates options with which everything is found out: the server names its authorization server, and this program
    /// registers itself there. Enough for most servers behind a URL.
    ///
    /// ```
    /// use mcp_client::ServerConfig;
    /// use mcp_client::oauth::OAuthOptions;
    ///
    /// let oauth = OAuthOptions::discover().client_name("Notes CLI");
    /// let notes = ServerConfig::url("https://notes.example.com/mcp").oauth(oauth);
    /// ```
    #[doc(alias = "RFC 9728")]
    #[doc(alias = "dynamic client registration")]
    #[must_use]
    pub fn discover() -> Self {
        Self::new(Provider::Discovered, String::new(), Grant::Login)
    }

    /// Sets the client id that this program has at the authorization server, for one that does not let clients register
    /// themselves. Whichever authorization server the MCP server names gets to see the id, and the secret if there is
    /// one: use [`issuer`](Self::issuer) if the authorization server is known.
    #[must_use]
    pub fn client_id(mut self, id: impl Into<String>) -> Self {
        self.client_id = id.into();
        self
    }

    /// Sets the URL of a document that describes this program. At authorization servers that support such documents, the
    /// URL is the client id, and no registration is needed.
    #[doc(alias = "CIMD")]
    #[doc(alias = "client_id_metadata_document")]
    #[must_use]
    pub fn client_document(mut self, url: impl Into<String>) -> Self {
        self.client_document = Some(url.into());
        self
    }

    /// Sets the name of this program, which people see when they log in. Default: the name of its file.
    #[must_use]
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.client_name = name.into();
        self
    }

    /// Requests tokens for this program itself instead of a user. Set its client id, and its secret or private key.
    #[doc(alias = "client_credentials")]
    #[must_use]
    pub fn for_service(mut self) -> Self {
        self.grant = Grant::ClientCredentials;
        self
    }

    /// Sets how users log in. Default: with a browser if one can be opened on this machine, and otherwise with a code,
    /// as far as the authorization server supports them. See [`choice`](crate::protocol::oauth::choice).
    #[must_use]
    pub fn method(mut self, method: LoginMethod) -> Self {
        self.method = Some(method);
        self
    }

    /// Binds tokens to a key that only this client has: a stolen token is then of no use (DPoP, RFC 9449). The authorization
    /// server and the MCP server must support that.
    #[doc(alias = "DPoP")]
    #[must_use]
    pub fn bound_tokens(mut self) -> Self {
        self.has_bound_tokens = true;
        self
    }

    /// Sets whether the page for a login is opened in a browser. Default: yes, if one can probably be opened. The page is
    /// part of the [prompt](super::LoginPrompt::Browser) in any case.
    #[must_use]
    pub fn opens_browser(mut self, opens: bool) -> Self {
        self.opens_browser = opens;
        self
    }

    /// Sets the port of this machine to which the browser returns, for an authorization server that knows the exact
    /// address. Default: a free port.
    #[must_use]
    pub fn callback_port(mut self, port: u16) -> Self {
        self.callback_port = Some(port);
        self
    }

    /// Creates options for a service that requests tokens with its own credentials. Set its secret or private key.
    #[must_use]
    pub fn client_credentials(issuer: impl Into<String>, client_id: impl Into<String>) -> Self {
        Self::new(Provider::Issuer(issuer.into()), client_id.into(), Grant::ClientCredentials)
    }

    /// Creates options for a user's login at GitHub. Device logins must be enabled in the settings of the OAuth app.
    #[must_use]
    pub fn github(client_id: impl Into<String>) -> Self {
        Self::new(Provider::Github, client_id.into(), Grant::Login)
    }

    /// Creates options for a user's login at Google. Google requires a secret even for programs that cannot keep it
    /// secret.
    #[must_use]
    pub fn google(client_id: impl Into<String>, client_secret: impl Into<String>) -> Self {
        Self::new(Provider::Google, client_id.into(), Grant::Login).secret(client_secret)
    }

    /// Sets a name that distinguishes several logins to the same server, for example of two users.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the requested scopes.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the client secret.
    #[must_use]
    pub fn secret(mut self, secret: impl Into<String>) -> Self {
        self.secret = Some(ClientSecret::Text(Secret::new(secret)));
        self
    }

    /// Reads the client secret from this environment variable when it is needed.
    #[must_use]
    pub fn secret_env(mut self, variable: impl Into<String>) -> Self {
        self.secret = Some(ClientSecret::Variable { name: variable.into(), is_required: true });
        self
    }

    /// Sends the client secret in the form (`client_secret_post`). By default it is sent in a header
    /// (`client_secret_basic`), unless the metadata lists `client_secret_post` but not `client_secret_basic`.
    #[must_use]
    pub fn secret_in_form(mut self) -> Self {
        self.is_secret_in_form = true;
        self
    }

    /// Authenticates the client with a private key instead of a secret (`private_key_jwt`): PKCS#8 in PEM, on the curve
    /// P-256 or RSA. `id` is the id of the key (`kid`), if the server knows several.
    #[must_use]
    pub fn private_key(mut self, pem: impl Into<String>, id: Option<String>) -> Self {
        self.secret = Some(ClientSecret::PrivateKey { pem: Secret::new(pem), id });
        self
    }

    /// Sets the store for tokens if the connection has no [`Credentials`](super::Credentials) of its own. See
    /// [`Credentials::standard`](super::Credentials::standard).
    #[must_use]
    pub fn token_storage(mut self, storage: TokenStorage) -> Self {
        self.token_storage = storage;
        self
    }

    /// Passes the token of a server that is a program also in this environment variable, besides
    /// [`token_variable`](Self::token_variable).
    #[must_use]
    pub fn token_env(mut self, variable: impl Into<String>) -> Self {
        self.token_env.push(variable.into());
        self
    }

    /// Returns the environment variable in which a server that is a program receives its token, and from which
    /// [`TokenStorage::Env`] reads one unless the login has no name: `MCP_OAUTH_TOKEN_GITHUB`, `MCP_OAUTH_TOKEN_GOOGLE`, and otherwise
    /// `MCP_OAUTH_TOKEN_` with the [`name`](Self::name) in capitals, or `MCP_OAUTH_TOKEN` if there is no name.
    ///
    /// ```
    /// use mcp_client::oauth::OAuthOptions;
    ///
    /// let notes = OAuthOptions::issuer("https://auth.example.com", "my-cli").name("team notes");
    /// assert_eq!(notes.token_variable(), "MCP_OAUTH_TOKEN_TEAM_NOTES");
    /// assert_eq!(OAuthOptions::github("Iv1").token_variable(), "MCP_OAUTH_TOKEN_GITHUB");
    /// ```
    #[must_use]
    pub fn token_variable(&self) -> String {
        self.provider.variable("MCP_OAUTH_TOKEN", &self.name)
    }

    /// Returns the part of the options that affects how tokens are requested.
    pub(super) fn for_tokens(&self) -> Self {
        Self { token_env: Vec::new(), token_storage: TokenStorage::Auto, ..self.clone() }
    }

    /// Returns the environment variable from which a token may be read. `None` if its name does not say for which server
    /// it is.
    pub(super) fn readable_variable(&self) -> Option<String> {
        Some(self.token_variable()).filter(|variable| variable != "MCP_OAUTH_TOKEN")
    }

    /// Returns all environment variables in which a server that is a program receives its token.
    pub(crate) fn token_variables(&self) -> Vec<String> {
        let preset = self.provider.token_variable().map(str::to_owned);
        std::iter::once(self.token_variable()).chain(preset).chain(self.token_env.iter().cloned()).collect()
    }

    /// Returns where credentials are kept if the program did not say. A service can always request another token, so
    /// nothing of it is stored.
    pub(super) fn standard_storage(&self) -> TokenStorage {
        match (self.grant, self.token_storage) {
            (Grant::ClientCredentials, TokenStorage::Auto) => TokenStorage::Memory,
            (_, storage) => storage,
        }
    }

    /// Returns the name of this program.
    pub(super) fn shown_client_name(&self) -> String {
        let file = || std::env::current_exe().ok()?.file_stem()?.to_str().map(str::to_owned);
        if self.client_name.is_empty() {
            file().unwrap_or_else(|| "MCP client".to_owned())
        } else {
            self.client_name.clone()
        }
    }

    /// Returns true if this program has a secret.
    pub(super) fn has_secret(&self) -> bool {
        self.secret.is_some() || self.assertion.is_some()
    }

    /// Returns true if a user logs in.
    pub(super) fn is_for_user(&self) -> bool {
        self.grant == Grant::Login
    }

    pub(crate) fn configured_issuer(&self) -> &str {
        self.provider.issuer()
    }

    /// Checks the settings without a network.
    pub(super) fn check(&self) -> Result<(), OAuthError> {
        let invalid = |problem: &str| Err(OAuthError::Settings(problem.to_owned()));
        let is_discovered = self.provider == Provider::Discovered;
        if self.client_id.is_empty() && !(is_discovered && self.is_for_user()) {
            return invalid("the client id is missing");
        }
        if let Some(document) = &self.client_document
            && !document.starts_with("https://")
        {
            return invalid("the URL of a document about the client must begin with https://");
        }
        if self.grant == Grant::ClientCredentials && self.secret.is_none() && self.assertion.is_none() {
            return invalid("client credentials need a client secret or a private key; set one of them");
        }
        if is_discovered {
            return Ok(());
        }
        endpoint_url(self.configured_issuer()).map(drop).map_err(OAuthError::Settings)
    }
}

/// Does not show secrets.
impl fmt::Debug for OAuthOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthOptions")
            .field("issuer", &self.configured_issuer())
            .field("client_id", &self.client_id)
            .field("grant", &self.grant)
            .field("name", &self.name)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}
