//! What decides whether a token is valid.

use async_trait::async_trait;

use crate::call::identity::Principal;

/// Verifies the tokens of requests. `JwtVerifier` is one (feature `jwt`); write another for tokens that only their issuer
/// understands, or for tokens of your own.
///
/// ```
/// use mcp_server::auth::{Rejection, Verifier};
/// use mcp_server::{Principal, async_trait};
///
/// /// Asks the issuer about each token (RFC 7662).
/// struct Introspection;
/// # async fn ask_the_issuer(token: &str) -> Result<serde_json::Value, std::io::Error> {
/// #     Ok(serde_json::json!({"active": token == "good", "aud": "https://h/mcp", "sub": "ada", "scope": "a b"}))
/// # }
///
/// #[async_trait]
/// impl Verifier for Introspection {
///     fn issuers(&self) -> Vec<String> {
///         vec!["https://auth.example.com".to_owned()]
///     }
///
///     async fn verify(&self, token: &str, resource: &str) -> Result<Principal, Rejection> {
///         let answer = ask_the_issuer(token).await.map_err(|error| Rejection::Unavailable(error.to_string()))?;
///         if answer["active"] != true || answer["aud"] != resource {
///             return Err(Rejection::Invalid("the token is not valid here".to_owned()));
///         }
///         let user = answer["sub"].as_str().ok_or_else(|| Rejection::Invalid("the token names no user".to_owned()))?;
///         Ok(Principal::new(user).with_scopes(answer["scope"].as_str().unwrap_or_default().split(' ')))
///     }
/// }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # assert!(Introspection.verify("good", "https://h/mcp").await.is_ok());
/// # assert!(Introspection.verify("good", "https://other/mcp").await.is_err());
/// # });
/// ```
#[async_trait]
#[doc(alias = "introspection")]
#[doc(alias = "authorization")]
pub trait Verifier: Send + Sync + 'static {
    /// Returns the issuers whose tokens are accepted. Clients learn from this list where to log in.
    fn issuers(&self) -> Vec<String>;

    /// Verifies a token, and returns on whose behalf the request is made. A token is valid only if it was issued for
    /// `resource`, the URL of this server: otherwise another server could use the tokens that it receives.
    ///
    /// # Errors
    /// Fails if the token is not valid, or if that cannot be found out.
    async fn verify(&self, token: &str, resource: &str) -> Result<Principal, Rejection>;
}

/// The reason why a token was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The token is not valid: status 401. The client sees the text, which must not contain the token.
    #[error("{0}")]
    Invalid(String),
    /// It cannot be found out whether the token is valid: status 503. The text goes to the log, not to the client.
    #[error("{0}")]
    Unavailable(String),
}
