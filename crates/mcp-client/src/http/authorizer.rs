//! Authorization of requests by tokens that change.

use std::pin::Pin;

use http::HeaderValue;

use crate::error::Error;

/// The value of the header `Authorization`.
pub(crate) struct Authorization {
    pub(crate) header: HeaderValue,
    /// A number that differs for different tokens.
    pub(crate) token_id: u64,
}

/// The future returned by an [`Authorizer`].
pub(crate) type AuthorizationFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Authorization, Error>> + Send + 'a>>;

/// Adds authorization to requests.
pub(crate) trait Authorizer: Send + Sync {
    /// Returns the authorization of a request if it is known without waiting.
    fn ready(&self) -> Option<Authorization>;

    /// Returns the authorization of a request.
    fn authorization(&self) -> AuthorizationFuture<'_>;

    /// Returns another authorization after the server refused this one with status 401.
    fn authorization_after<'a>(&'a self, refused: &'a Authorization) -> AuthorizationFuture<'a>;

    /// Returns the error after the server refused also the other authorization.
    fn refused_again(&self, refused: &Authorization) -> Error;
}
