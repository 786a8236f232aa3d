//! The login of one connection.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use mcp_protocol::codec::challenge::Challenge;
use mcp_protocol::oauth::refresh::{LogInReason, Version};
use mcp_protocol::oauth::scopes::Scopes;

use super::credentials::Credentials;
use super::discover::Demand;
use super::error::OAuthError;
use super::event::CredentialEvent;
use super::login_server::LoginServer;
use super::source::TokenSource;
use super::token::Token;
use crate::error::{Error, LoginNeeded, Result};
use crate::http::authorizer::{Authorization, AuthorizationFuture, Authorizer};

/// The maximum number of logins for more scopes while the server accepts no request.
const MAX_STEP_UPS: u32 = 2;

/// The login of one connection: where its token comes from, and what a new login needs.
#[derive(Clone)]
pub(crate) struct ConnectionLogin {
    credentials: Credentials,
    server: Arc<LoginServer>,
    source: TokenSource,
    state: Arc<ConnectionState>,
}

/// State that all requests of a connection share.
#[derive(Default)]
struct ConnectionState {
    /// The server answered a request without a token.
    is_open: AtomicBool,
    /// The number of logins for more scopes that were begun since the server last accepted a request.
    step_ups: AtomicU32,
}

impl ConnectionLogin {
    /// Uses these credentials, or else those that the options name.
    pub(crate) fn new(server: LoginServer, credentials: Option<Credentials>) -> Result<Self> {
        let credentials = match credentials {
            Some(credentials) => credentials,
            None => Credentials::standard(server.options.standard_storage())?,
        };
        let (source, state) = (credentials.source(&server), Arc::default());
        Ok(Self { source, credentials, server: Arc::new(server), state })
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
            OAuthError::LoginNeeded(reason) => self.needed(reason, None),
            error => Error::NoToken {
                server: self.server.name.clone(),
                is_retry_safe: error.is_retry_safe(),
                problem: error.to_string(),
            },
        }
    }

    fn needed(&self, reason: LogInReason, demand: Option<Demand>) -> Error {
        let (server, options) = (&self.server, &self.server.options);
        let demanded = demand.iter().flat_map(|demand| demand.scopes.iter());
        let scopes: Scopes = options.scopes.iter().map(String::as_str).chain(demanded).collect();
        let issuer = Some(options.configured_issuer()).filter(|issuer| !issuer.is_empty());
        Error::LoginNeeded(Box::new(LoginNeeded {
            server: server.name.clone(),
            reason,
            issuer: issuer.map(str::to_owned),
            scopes: scopes.iter().map(str::to_owned).collect(),
            login: self.clone(),
            demand,
        }))
    }

    fn authorization_of(&self, token: Result<Token, OAuthError>) -> Result<Authorization> {
        let token = token.map_err(|error| self.error(error))?;
        authorization(&token).ok_or_else(|| Error::NoToken {
            server: self.server.name.clone(),
            problem: "the token has characters that are not allowed in a header, or its key is damaged; log in again".to_owned(),
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
        if self.reason == LogInReason::ScopeMissing {
            self.login.state.step_ups.fetch_add(1, Ordering::Relaxed);
        }
        self.login.credentials.log_in(&self.login.server, self.demand.as_ref(), prompt).await
    }
}

fn authorization(token: &Token) -> Option<Authorization> {
    let header = token.header()?.clone();
    Some(Authorization { header, token_id: token.version().0, prover: token.prover().cloned() })
}

impl Authorizer for ConnectionLogin {
    fn ready(&self) -> Option<Authorization> {
        authorization(&self.source.fresh_token()?)
    }

    fn authorization(&self) -> AuthorizationFuture<'_, Option<Authorization>> {
        Box::pin(async {
            let asks_first = self.server.asks_first();
            if asks_first && self.state.is_open.load(Ordering::Relaxed) && !self.source.has_token() {
                return Ok(None);
            }
            match self.source.token().await {
                // The response says where to log in, if a login is needed at all.
                Err(OAuthError::LoginNeeded(_) | OAuthError::Store(_)) if asks_first => Ok(None),
                token => self.authorization_of(token).map(Some),
            }
        })
    }

    fn authorization_after<'a>(
        &'a self,
        refused: Option<&'a Authorization>,
        challenges: &'a [Challenge],
    ) -> AuthorizationFuture<'a> {
        Box::pin(async move {
            self.state.is_open.store(false, Ordering::Relaxed);
            let demand = Demand::of(challenges);
            let token = match refused {
                None => self.source.token().await,
                Some(refused) => {
                    // A token of an authorization server that the server does not use any more must not be refreshed
                    // for it.
                    let version = Version(refused.token_id);
                    if self.source.is_current(version) && !self.still_uses_issuer(demand.as_ref()).await {
                        self.source.handle_second_refusal(version);
                        return Err(self.needed(LogInReason::IssuerChanged, demand));
                    }
                    self.source.token_after(version).await
                }
            };
            match token {
                Err(OAuthError::LoginNeeded(reason)) => Err(self.needed(reason, demand)),
                token => self.authorization_of(token),
            }
        })
    }

    fn refused_again(&self, refused: &Authorization, challenges: &[Challenge]) -> Error {
        self.source.handle_second_refusal(Version(refused.token_id));
        self.needed(LogInReason::TokenRefused, Demand::of(challenges))
    }

    fn scope_missing(&self, challenges: &[Challenge]) -> Option<Error> {
        let missing = |challenge: &&Challenge| challenge.error() == Some("insufficient_scope");
        let demanded = Scopes::parse(challenges.iter().find(missing)?.scope().unwrap_or_default());
        let asked = self.source.requested_scopes();
        // A service has no user to ask. What was asked for and is still missing will not be granted the next time.
        if !self.server.options.is_for_user() || demanded.without(&asked).is_empty() {
            return None;
        }
        if self.state.step_ups.load(Ordering::Relaxed) >= MAX_STEP_UPS {
            return None;
        }
        let mut demand = Demand::of(challenges).unwrap_or_default();
        demand.scopes = asked.union(&demanded);
        Some(self.needed(LogInReason::ScopeMissing, Some(demand)))
    }

    fn accepted(&self, used: Option<&Authorization>) {
        if used.is_none() {
            self.state.is_open.store(true, Ordering::Relaxed);
        }
        if self.state.step_ups.load(Ordering::Relaxed) != 0 {
            self.state.step_ups.store(0, Ordering::Relaxed);
        }
    }
}

impl ConnectionLogin {
    /// Returns true unless the metadata of the server says that it uses another issuer than that of the current token. If
    /// there is no metadata at the moment, a refresh does no harm: it goes to the recorded endpoint.
    async fn still_uses_issuer(&self, demand: Option<&Demand>) -> bool {
        let issuer = self.source.current_issuer().unwrap_or_default();
        issuer.is_empty()
            || self.server.still_uses(self.credentials.http(), &issuer, demand).await.unwrap_or(true)
    }
}

impl fmt::Debug for ConnectionLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionLogin").field("server", &self.server.name).finish_non_exhaustive()
    }
}
