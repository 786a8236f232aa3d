//! The server that a login is for.

use mcp_protocol::fingerprint::fingerprint;

use super::discover::host_of;
use super::error::OAuthError;
use super::options::OAuthOptions;
use crate::config::server_config::{CommandTarget, ServerConfig, Target, UrlTarget};
use crate::credentials::CredentialKey;

/// The server that a login is for, and the options with which this program requests its tokens.
#[derive(Clone, Debug)]
pub(crate) struct LoginServer {
    /// The name in prompts and errors: the URL without its query, or the command line.
    pub(crate) name: String,
    /// The URL; `None` for programs.
    pub(super) url: Option<String>,
    /// The host that was configured: of the issuer, or of the server if the issuer is found out. Endpoints on it, and
    /// public ones, may be connected to.
    pub(super) trusted_host: String,
    /// The URL, or a digest of the program and its arguments, as part of the credential key.
    identity: String,
    /// The value of the parameter `resource` (RFC 8707). `None` for programs, and for providers that do not know it.
    pub(super) resource: Option<String>,
    pub(super) options: OAuthOptions,
}

impl LoginServer {
    /// Returns the login of a server config.
    ///
    /// # Errors
    /// [`OAuthError::Settings`] if the config has no OAuth options.
    pub(crate) fn of<T>(config: &ServerConfig<T>) -> Result<Self, OAuthError>
    where
        ServerConfig<T>: Clone + Into<ServerConfig>,
    {
        let config: ServerConfig = config.clone().into();
        let Some(options) = config.oauth.map(|options| *options) else {
            let problem = "the server config has no OAuth options; set them with ServerConfig::oauth";
            return Err(OAuthError::Settings(problem.to_owned()));
        };
        Ok(match &config.target {
            Target::Url(target) => Self::of_url(target, options),
            Target::Command(target) => Self::of_command(target, options),
        })
    }

    pub(crate) fn of_url(target: &UrlTarget, options: OAuthOptions) -> Self {
        // RFC 8707 advises against a query, which may be secret, and forbids a fragment.
        let without_query = target.url.split(['?', '#']).next().unwrap_or_default();
        let resource = options.has_resource.then(|| without_query.to_owned());
        let url = target.url.clone();
        let trusted_host = trusted_host(&options, &url);
        Self {
            name: target.to_string(),
            identity: url.clone(),
            url: Some(url),
            trusted_host,
            resource,
            options,
        }
    }

    pub(crate) fn of_command(target: &CommandTarget, options: OAuthOptions) -> Self {
        let parts = std::iter::once(&target.program).chain(&target.arguments);
        let identity = fingerprint(parts.map(|part| part.as_encoded_bytes().to_vec()));
        let trusted_host = trusted_host(&options, "");
        Self { name: target.to_string(), identity, url: None, trusted_host, resource: None, options }
    }

    /// Returns the key under which the credential is stored. It is known without a network.
    pub(super) fn credential_key(&self) -> CredentialKey {
        let options = &self.options;
        CredentialKey::new([&options.name, &self.identity, options.configured_issuer(), &options.client_id])
    }
}

fn trusted_host(options: &OAuthOptions, url: &str) -> String {
    let configured = options.provider.host_url();
    host_of(if configured.is_empty() { url } else { configured })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The server of the unit tests.
    pub(in super::super) fn server(options: OAuthOptions) -> LoginServer {
        LoginServer::of(&ServerConfig::url("https://mcp.example/mcp").oauth(options)).unwrap()
    }

    #[test]
    fn key_depends_on_server_name_issuer_and_client() {
        let options = || OAuthOptions::issuer("https://as.example", "client");
        let key = |config: ServerConfig| LoginServer::of(&config).unwrap().credential_key();
        let keys = [
            key(ServerConfig::url("https://a.example/").oauth(options()).into()),
            key(ServerConfig::url("https://a.example/?b").oauth(options()).into()),
            key(ServerConfig::url("https://a.example/").oauth(options().name("work")).into()),
            key(ServerConfig::url("https://a.example/").oauth(OAuthOptions::github("client")).into()),
            key(ServerConfig::command("a").oauth(options()).into()),
            key(ServerConfig::command("a").arg("b c").oauth(options()).into()),
            key(ServerConfig::command("a").args(["b", "c"]).oauth(options()).into()),
        ];
        for (at, key) in keys.iter().enumerate() {
            assert!(!keys[..at].contains(key), "{at}");
        }
        // What only affects how the program runs does not end a login.
        assert_eq!(key(ServerConfig::command("a").env("A", "b").oauth(options()).into()), keys[4]);
    }

    #[test]
    fn prompt_shows_no_query_and_a_program_has_no_resource() {
        let options = OAuthOptions::issuer("https://as.example", "client");
        let url = ServerConfig::url("https://a.example/mcp?key=hush").oauth(options.clone());
        let server = LoginServer::of(&url).unwrap();
        assert_eq!(server.name, "https://a.example/mcp?…");
        assert_eq!(server.resource.as_deref(), Some("https://a.example/mcp"));
        let program = LoginServer::of(&ServerConfig::command("npx").arg("x").oauth(options)).unwrap();
        assert_eq!((program.name.as_str(), program.resource), ("npx x", None));
        assert!(LoginServer::of(&ServerConfig::url("https://a.example/")).is_err());
    }
}
