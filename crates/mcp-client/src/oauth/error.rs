//! The errors of logins and refreshes.

use std::time::Duration;

use mcp_protocol::oauth::refresh::LogInReason;
use mcp_protocol::safe_text::SafeText;

use crate::credentials::StoreError;

/// An error of a login, a refresh or a logout.
///
/// No error contains a token, a code or a secret.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OAuthError {
    /// There is no login, or it has ended.
    #[error("login needed: {}", .0.as_str())]
    LoginNeeded(LogInReason),
    /// A setting is missing or cannot be used. Nothing was sent.
    #[error("invalid OAuth settings: {0}")]
    Settings(String),
    /// The network policy does not allow the connection. Nothing was sent.
    #[error(
        "connection to `{}` denied by the network policy: {}; to allow it, set Credentials::network",
        SafeText::message(host),
        SafeText::message(reason)
    )]
    Denied {
        /// The host that was not connected to.
        host: String,
        /// The reason, as a predicate of the host.
        reason: String,
    },
    /// The authorization server could not be reached, or its response is not an OAuth response. A retry may help.
    #[error("no usable response from {}: {}", SafeText::message(endpoint), SafeText::message(problem))]
    Unreachable {
        /// The URL of the endpoint, without its query.
        endpoint: String,
        /// The problem.
        problem: String,
    },
    /// The metadata of the authorization server cannot be used.
    #[error(
        "unusable metadata of authorization server {}: {}",
        SafeText::message(issuer),
        SafeText::message(problem)
    )]
    Metadata {
        /// The issuer.
        issuer: String,
        /// The problem.
        problem: String,
    },
    /// The metadata of the MCP server cannot be used. Nothing was sent to an authorization server.
    #[error("unusable metadata of server {}: {}", SafeText::message(server), SafeText::message(problem))]
    ResourceMetadata {
        /// The URL of the MCP server.
        server: String,
        /// The problem.
        problem: String,
    },
    /// The response that the browser brought does not come from the authorization server at which the user logged in.
    /// No code was redeemed.
    #[error("the response to the login comes from another authorization server")]
    ForeignResponse,
    /// The authorization server refused the request.
    #[error("the authorization server refused: {}{}", SafeText::name(code), described(description.as_deref()))]
    Refused {
        /// The error code, such as `invalid_client`. Untrusted.
        code: String,
        /// The description that the server sent. Untrusted.
        description: Option<String>,
        /// The interval between requests that the server names with `slow_down`.
        interval: Option<Duration>,
    },
    /// The user refused the login.
    #[error("the user refused the login")]
    RefusedByUser,
    /// The user did not log in in time.
    #[error("the user did not log in in time; log in again")]
    Expired,
    /// A credential store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn described(description: Option<&str>) -> String {
    description.map(|text| format!(" ({})", SafeText::message(text))).unwrap_or_default()
}

impl OAuthError {
    /// Returns true if the same attempt may succeed later without a change of settings.
    #[must_use]
    pub fn is_retry_safe(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Store(StoreError::Busy { .. }))
    }

    pub(super) fn is_code(&self, expected: &str) -> bool {
        matches!(self, Self::Refused { code, .. } if code == expected)
    }
}
