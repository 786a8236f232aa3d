//! The login of one connection.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mcp_protocol::oauth::refresh::{LogInReason, Version};

use super::credentials::Credentials;
use super::error::OAuthError;
use super::event::CredentialEvent;
use super::login_server::LoginServer;
use super::source::TokenSource;
use super::token::Token;
use crate::error::{Error, LoginNeeded, Result};
use crate::http::authorizer::{Authorization, AuthorizationFuture, Authorizer};

/// The login of one connection: where its token comes from, and what a new login needs.
#[derive(Clone)]
pub(crate) struct ConnectionLogin {
    credentials: Credentials,
    server: Arc<LoginServer>,
    source: TokenSource,
}

impl ConnectionLogin {
    /// Uses these credentials, or else those that the options name.
    pub(crate) fn new(server: LoginServer, credentials: Option<Credentials>) -> Result<Self> {
        let credentials = match credentials {
            Some(credentials) => credentials,
            None => Credentials::standard(server.options.standard_storage())?,
        };
        Ok(Self { source: credentials.source(&server), credentials, server: Arc::new(server) })
    }

    /// Returns the key of the credential.
    pub(crate) fn key(&self) -> String {
        self.server.credential_key().to_string()
    }

    /// Returns a token that can be used now.
    pub(crate) async fn token(&self) -> Result<Token> {
        self.source.token().await.map_err(|error| self.error(error))
    }

    /// Returns the pause between two requests for the token by somebody who holds on to it.
    pub(crate) fn check_interval(&self) -> Duration {
        self.source.check_interval()
    }

    /// Reports that the program has a token that is out of date.
    pub(crate) fn report_outdated(&self) {
        let server = self.server.name.clone();
        tracing::warn!(server, "the program was started with a token that is out of date now");
        self.source.events().handle(CredentialEvent::Outdated { server });
    }

    /// Returns the environment variables in which a program receives the token.
    pub(crate) fn token_variables(&self) -> Vec<String> {
        self.server.options.token_variables()
    }

    /// Waits for a refresh in flight, but at most for this time. Returns true if a refreshed token is not saved.
    pub(crate) async fn settle(&self, time: Duration) -> bool {
        self.source.settle(time).await
    }

    /// Converts an error into that of a connection.
    pub(crate) fn error(&self, error: OAuthError) -> Error {
        match error {
            OAuthError::LoginNeeded(reason) => self.needed(reason),
            error => Error::NoToken {
                server: self.server.name.clone(),
                is_retry_safe: error.is_retry_safe(),
                problem: error.to_string(),
            },
        }
    }

    fn needed(&self, reason: LogInReason) -> Error {
        let (server, options) = (&self.server, &self.server.options);
        Error::LoginNeeded(Box::new(LoginNeeded {
            server: server.name.clone(),
            reason,
            issuer: options.configured_issuer().to_owned(),
            scopes: options.scopes.clone(),
            login: self.clone(),
        }))
    }

    fn authorization_of(&self, token: Result<Token, OAuthError>) -> Result<Authorization> {
        let token = token.map_err(|error| self.error(error))?;
        authorization(&token).ok_or_else(|| Error::NoToken {
            server: self.server.name.clone(),
            problem: "the token has characters that are not allowed in a header".to_owned(),
            is_retry_safe: false,
        })
    }
}

/// A login that a program can start because a connection needs it.
impl LoginNeeded {
    /// Logs in. Afterwards, connect or call again. See [`Credentials::login`].
    ///
    /// # Errors
    /// Those of [`Credentials::login`].
    #[cfg_attr(docsrs, doc(cfg(feature = "oauth")))]
    pub async fn login<F, Fut>(&self, prompt: F) -> Result<super::LoginStatus, OAuthError>
    where
        F: FnOnce(super::LoginPrompt) -> Fut,
        Fut: Future<Output = ()>,
    {
        self.login.credentials.log_in(&self.login.server, prompt).await
    }
}

fn authorization(token: &Token) -> Option<Authorization> {
    let header = token.header()?.clone();
    Some(Authorization { header, token_id: token.version().0 })
}

impl Authorizer for ConnectionLogin {
    fn ready(&self) -> Option<Authorization> {
        authorization(&self.source.fresh_token()?)
    }

    fn authorization(&self) -> AuthorizationFuture<'_> {
        Box::pin(async { self.authorization_of(self.source.token().await) })
    }

    fn authorization_after<'a>(&'a self, refused: &'a Authorization) -> AuthorizationFuture<'a> {
        Box::pin(async { self.authorization_of(self.source.token_after(Version(refused.token_id)).await) })
    }

    fn refused_again(&self, refused: &Authorization) -> Error {
        self.source.handle_second_refusal(Version(refused.token_id));
        self.needed(LogInReason::TokenRefused)
    }
}

impl fmt::Debug for ConnectionLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionLogin").field("server", &self.server.name).finish_non_exhaustive()
    }
}
