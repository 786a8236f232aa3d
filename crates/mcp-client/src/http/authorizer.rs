//! Authorization of requests by tokens that change.

use std::pin::Pin;

use http::HeaderValue;
use mcp_protocol::codec::challenge::Challenge;

use crate::error::Error;
use crate::oauth::Prover;

/// The value of the header `Authorization`.
pub(crate) struct Authorization {
    pub(crate) header: HeaderValue,
    /// A number that differs for different tokens.
    pub(crate) token_id: u64,
    /// The key to which the token is bound.
    pub(crate) prover: Option<Prover>,
}

/// The future returned by an [`Authorizer`].
pub(crate) type AuthorizationFuture<'a, T = Authorization> =
    Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Adds authorization to requests.
pub(crate) trait Authorizer: Send + Sync {
    /// Returns the authorization of a request if it is known without waiting.
    fn ready(&self) -> Option<Authorization>;

    /// Returns the authorization of a request; `None` if it is sent without one, to find out whether the server wants one.
    fn authorization(&self) -> AuthorizationFuture<'_, Option<Authorization>>;

    /// Returns another authorization after the server refused a request with status 401 and these challenges. `refused` is
    /// the authorization that the request had.
    fn authorization_after<'a>(
        &'a self,
        refused: Option<&'a Authorization>,
        challenges: &'a [Challenge],
    ) -> AuthorizationFuture<'a>;

    /// Returns the error after the server refused also the other authorization.
    fn refused_again(&self, refused: &Authorization, challenges: &[Challenge]) -> Error;

    /// Returns the error after the server refused a request with status 403 because of missing scopes; `None` if a login
    /// would not help.
    fn scope_missing(&self, challenges: &[Challenge]) -> Option<Error>;

    /// Notes that the server accepted a request with this authorization.
    fn accepted(&self, used: Option<&Authorization>);
}
