//! The part of server configs that concerns logins.

use super::{CommandTarget, ServerConfig, UrlTarget};
use crate::oauth::OAuthOptions;

impl<T> ServerConfig<T> {
    /// Sets how a token for the server is obtained.
    ///
    /// A server behind a URL receives it with every request, unless the config has a header `Authorization`. A program
    /// receives it in environment variables when it is started: see
    /// [`token_variable`](OAuthOptions::token_variable).
    #[cfg_attr(docsrs, doc(cfg(feature = "oauth")))]
    #[must_use]
    pub fn oauth(mut self, options: OAuthOptions) -> Self {
        self.oauth = Some(Box::new(options));
        self
    }
}

impl ServerConfig<CommandTarget> {
    /// Restarts the program between two calls when its token was refreshed, so that it receives the new one. Includes
    /// [`restarts`](Self::restarts). Without it, the program keeps the token with which it was started, and
    /// [`CredentialEvent::Outdated`](crate::oauth::CredentialEvent::Outdated) reports when that is out of date.
    #[cfg_attr(docsrs, doc(cfg(feature = "oauth")))]
    #[must_use]
    pub fn restarts_with_new_token(mut self) -> Self {
        self.target.restarts_for_token = true;
        self.restarts()
    }
}

impl UrlTarget {
    /// Returns true if the program configured the header `Authorization`.
    pub(crate) fn has_authorization(&self) -> bool {
        self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
    }
}
