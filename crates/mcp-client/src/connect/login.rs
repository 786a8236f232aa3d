//! Logins while connecting.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::client::McpClient;
use crate::config::server_config::{ServerConfig, Target};
use crate::connect::Connect;
use crate::connect::settings::{ConnectSettings, Connecting};
use crate::error::{Error, Result};
use crate::oauth::{ConnectionLogin, Credentials, LoginPrompt, LoginServer, OAuthOptions, endpoint_url};

/// The maximum number of logins while connecting: the first one may not include all scopes.
const MAX_LOGINS: usize = 2;

/// The settings of a builder that concern logins.
#[derive(Clone, Debug, Default)]
pub(super) struct LoginSettings {
    credentials: Option<Credentials>,
    handler: Option<LoginHandler>,
}

/// The function that shows a prompt to the user.
#[derive(Clone)]
pub(super) struct LoginHandler(Arc<dyn Fn(LoginPrompt) -> PromptFuture + Send + Sync>);

type PromptFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Connect {
    /// Sets where tokens come from. For a server behind a URL, a config without [OAuth options](ServerConfig::oauth) is
    /// like one with [`OAuthOptions::discover`]: a token is sent if the server wants one. Without this setting, the
    /// credentials that [`Credentials::standard`] returns are used; those of a service are kept in memory.
    ///
    /// The token is refreshed when it is due, and when the server refuses it; a request that was refused is sent once
    /// more. If there is no login, connecting and calls fail with [`Error::LoginNeeded`] before anything is sent or
    /// started, unless [`on_login`](Self::on_login) is set.
    #[cfg_attr(docsrs, doc(cfg(feature = "oauth")))]
    pub fn credentials(mut self, credentials: &Credentials) -> Self {
        self.login.credentials = Some(credentials.clone());
        self
    }

    /// Lets the user log in while connecting, if a login is needed. The function shows the prompt; its future runs
    /// beside the login. The time until the user has logged in does not count against the start timeout.
    ///
    /// A login that is needed later, in the middle of a connection, is an [`Error::LoginNeeded`]: call
    /// [`LoginNeeded::login`](crate::LoginNeeded::login), then make the call again.
    ///
    /// ```no_run
    /// # async fn example() -> mcp_client::Result<()> {
    /// use mcp_client::McpClient;
    ///
    /// let client = McpClient::builder("https://mcp.example.com/mcp")
    ///     .on_login(|prompt| async move { eprintln!("{prompt}") })
    ///     .connect()
    ///     .await?;
    /// # client.close().await; Ok(()) }
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "oauth")))]
    pub fn on_login<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(LoginPrompt) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.login.handler = Some(LoginHandler(Arc::new(move |prompt| Box::pin(handler(prompt)))));
        self
    }
}

impl LoginSettings {
    /// Adds the login of a connection to its settings, and returns the handler if there is one. There is no login if
    /// the config has no OAuth options, or a header `Authorization`.
    pub(super) fn add_to(
        self,
        settings: ConnectSettings,
        target: &Target,
        config: &ServerConfig<()>,
    ) -> Result<(ConnectSettings, Option<LoginHandler>)> {
        let has_login = self.credentials.is_some() || self.handler.is_some();
        let options = match (config.oauth.as_deref(), target) {
            (_, Target::Url(url)) if url.has_authorization() => return Ok((settings, None)),
            (Some(options), _) => options.clone(),
            // Whoever sets where tokens are, or how users log in, wants a login where the server wants one.
            (None, Target::Url(url)) if has_login && endpoint_url(&url.url).is_ok() => {
                OAuthOptions::discover()
            }
            (None, _) => return Ok((settings, None)),
        };
        let server = match target {
            Target::Url(url) => {
                endpoint_url(&url.url).map_err(|problem| Error::InvalidConfig {
                    config: url.to_string(),
                    problem: format!("a token is not sent there: {problem}"),
                })?;
                LoginServer::of_url(url, options)
            }
            Target::Command(command) => LoginServer::of_command(command, options),
        };
        let login = Some(ConnectionLogin::new(server, self.credentials)?);
        Ok((ConnectSettings { login, ..settings }, self.handler))
    }
}

impl LoginHandler {
    /// Connects. If a login is needed, lets the user log in, and connects again.
    pub(super) async fn connect(
        self,
        settings: ConnectSettings,
        connecting: Connecting,
    ) -> Result<McpClient> {
        for _ in 0..MAX_LOGINS {
            match settings.clone().connect(connecting.clone()).await {
                Err(Error::LoginNeeded(needed)) => {
                    let login = needed.login(|prompt| (self.0)(prompt)).await;
                    login.map_err(|error| needed.login.error(error))?;
                }
                connected => return connected,
            }
        }
        settings.connect(connecting).await
    }
}

impl fmt::Debug for LoginHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoginHandler")
    }
}
