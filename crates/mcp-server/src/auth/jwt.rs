//! Verifying JSON Web Tokens with the keys of their issuer.

mod cache;
mod issuer_keys;
mod keys;
mod signature;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use mcp_protocol::oauth::jwt::{Jwt, JwtRules};

use super::verifier::{Rejection, Verifier};
use crate::call::identity::Principal;
use cache::VerifiedTokens;
use issuer_keys::{IssuerKeys, fetched};
pub use keys::{InvalidKeys, Jwks};
pub use signature::JwtAlgorithm;

/// Verifies access tokens that are JWTs, with the public keys of their issuer (feature `jwt`).
///
/// A token is valid if one of the issuer's keys signed it, with an allowed algorithm, if it was issued for this server
/// (`aud`) by this issuer (`iss`), and if it has not expired (`exp`, and `nbf` if present). Clocks may differ by a minute.
///
/// Keys are fetched when they are needed, kept for 15 minutes, and used for up to 24 hours while the issuer cannot be
/// reached. A token with an unknown key causes at most one fetch in 30 s. Verified tokens are remembered until they
/// expire or the keys change.
///
/// ```
/// use mcp_server::auth::JwtVerifier;
///
/// # async fn get(url: String) -> Result<Vec<u8>, std::io::Error> { Err(std::io::Error::other(url)) }
/// // `get` is an async function of this program that returns the body of a URL, for example with reqwest.
/// let verifier = JwtVerifier::new("https://auth.example.com", get);
/// ```
#[doc(alias = "JWKS")]
#[doc(alias = "OAuth")]
pub struct JwtVerifier {
    issuer: String,
    keys: IssuerKeys,
    algorithms: Vec<JwtAlgorithm>,
    verified: Mutex<VerifiedTokens>,
}

impl JwtVerifier {
    /// Creates a verifier that fetches the keys. `get` returns the body of a URL; it should follow no redirects to other
    /// hosts. The keys are found through the metadata of the issuer, unless [`jwks_url`](Self::jwks_url) is set.
    pub fn new<F, Fut, B, E>(issuer: impl Into<String>, get: F) -> Self
    where
        F: Fn(String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<B, E>> + Send + 'static,
        B: AsRef<[u8]>,
        E: fmt::Display,
    {
        Self::of(issuer.into(), IssuerKeys::Fetched(Box::new(fetched(get))))
    }

    /// Creates a verifier with keys that do not change.
    #[must_use]
    pub fn with_keys(issuer: impl Into<String>, keys: Jwks) -> Self {
        Self::of(issuer.into(), IssuerKeys::Fixed(Arc::new(keys)))
    }

    fn of(issuer: String, keys: IssuerKeys) -> Self {
        Self { issuer, keys, algorithms: JwtAlgorithm::ALL.to_vec(), verified: Mutex::default() }
    }

    /// Sets the address of the keys (`jwks_uri`), for an issuer without metadata.
    #[must_use]
    pub fn jwks_url(mut self, url: impl Into<String>) -> Self {
        if let IssuerKeys::Fetched(fetched) = &mut self.keys {
            fetched.url = Some(url.into());
        }
        self
    }

    /// Sets the allowed signature algorithms. Default: all of [`JwtAlgorithm`], which are all asymmetric.
    #[must_use]
    pub fn algorithms(mut self, algorithms: impl IntoIterator<Item = JwtAlgorithm>) -> Self {
        self.algorithms = algorithms.into_iter().collect();
        self
    }

    async fn check(&self, token: &str, audience: &str, now: Duration) -> Result<Principal, Rejection> {
        let invalid = |reason: &dyn fmt::Display| Rejection::Invalid(reason.to_string());
        let jwt = Jwt::parse(token).map_err(|error| invalid(&error))?;
        let algorithm = JwtAlgorithm::from_name(&jwt.algorithm).filter(|name| self.algorithms.contains(name));
        let algorithm =
            algorithm.ok_or_else(|| invalid(&"the signature algorithm of the token is not allowed"))?;
        // Claims that cannot be accepted cost no signature check and no fetch.
        let rules = JwtRules { issuer: &self.issuer, audience };
        let claims = rules.check(&jwt.claims, now).map_err(|error| invalid(&error))?;
        let key = self.keys.find(&self.issuer, jwt.key_id.as_deref(), algorithm).await?;
        if !key.has_signed(algorithm, jwt.signed, &jwt.signature) {
            return Err(invalid(&"the signature of the token is wrong"));
        }
        let principal = match (claims.subject, &claims.client_id) {
            (Some(subject), _) => Principal::new(subject),
            (None, Some(client)) => Principal::client(client.as_str()),
            (None, None) => return Err(invalid(&"the token names neither a user nor a client")),
        };
        let principal = principal.with_issuer(self.issuer.as_str()).with_scopes(claims.scopes.iter());
        let principal = match claims.client_id {
            Some(client) => principal.with_client_id(client),
            None => principal,
        };
        let expires_at = SystemTime::UNIX_EPOCH.checked_add(claims.expires_at);
        let principal = principal.with_claims(claims.all);
        Ok(match expires_at {
            Some(time) => principal.with_expiry(time),
            None => principal,
        })
    }

    fn verified(&self) -> std::sync::MutexGuard<'_, VerifiedTokens> {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Verifier for JwtVerifier {
    fn issuers(&self) -> Vec<String> {
        vec![self.issuer.clone()]
    }

    async fn verify(&self, token: &str, resource: &str) -> Result<Principal, Rejection> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let generation = self.keys.generation();
        let digest = cache::digest(token, resource);
        // With old keys, the token is checked again, so that a key that its issuer took back ends its tokens.
        if self.keys.are_current()
            && let Some(principal) = self.verified().get(&digest, generation, now)
        {
            return Ok(principal);
        }
        let principal = self.check(token, resource, now).await?;
        // Noted under the generation of before the check: if the keys changed meanwhile, it is not used.
        self.verified().insert(digest, generation, principal.clone());
        Ok(principal)
    }
}

impl fmt::Debug for JwtVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwtVerifier")
            .field("issuer", &self.issuer)
            .field("algorithms", &self.algorithms)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
