//! The error that asks for a login.

use mcp_protocol::oauth::refresh::LogInReason;

/// A login that is needed before a server can be used. With the feature `oauth`, `login` starts it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoginNeeded {
    /// The server: its URL without the query, or the command line.
    pub server: String,
    /// The reason.
    pub reason: LogInReason,
    /// The issuer at which the user logs in; `None` if it is found out when the login begins.
    pub issuer: Option<String>,
    /// The scopes that are requested.
    pub scopes: Vec<String>,
    #[cfg(feature = "oauth")]
    pub(crate) login: crate::oauth::ConnectionLogin,
    /// The metadata address and the scopes in the challenge of the server, if there was one.
    #[cfg(feature = "oauth")]
    pub(crate) demand: Option<crate::oauth::Demand>,
}
