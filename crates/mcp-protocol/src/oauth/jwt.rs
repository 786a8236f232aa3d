//! JSON Web Tokens (RFC 7519): reading an access token, and the rules for its claims. The signature is checked elsewhere.
//!
//! ```
//! use std::time::Duration;
//!
//! use mcp_protocol::oauth::jwt::{JwtError, JwtRules};
//!
//! let rules = JwtRules { issuer: "https://auth.example.com", audience: "https://notes.example.com/mcp" };
//! let claims = r#"{"iss":"https://auth.example.com","aud":"https://other.example.com","exp":1800000000}"#;
//! assert_eq!(rules.check(claims, Duration::from_secs(1_700_000_000)), Err(JwtError::Audience));
//! ```

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;

use super::scopes::Scopes;
use crate::json::Json;

/// The maximum length of a token in bytes.
const MAX_TOKEN_BYTES: usize = 16 << 10;
/// The difference of two clocks that is tolerated.
const LEEWAY: Duration = Duration::from_secs(60);

/// The reason why a token is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JwtError {
    /// The token is not a JWT, or is too long.
    #[error("the token is not a JWT")]
    Malformed,
    /// The token has critical extensions (`crit`), none of which is supported.
    #[error("the token has critical extensions, which are not supported")]
    Critical,
    /// The token is of another kind (`typ`), for example an ID token with a type of its own.
    #[error("the token is not an access token")]
    Kind,
    /// The token comes from another issuer (`iss`).
    #[error("the token comes from another issuer")]
    Issuer,
    /// The token was issued for another server (`aud`).
    #[error("the token was issued for another server")]
    Audience,
    /// The token has no expiry (`exp`).
    #[error("the token does not say when it expires")]
    NoExpiry,
    /// The token has expired (`exp`).
    #[error("the token has expired")]
    Expired,
    /// The token is not valid yet (`nbf`).
    #[error("the token is not valid yet")]
    NotYetValid,
}

/// A token that was split into its parts. Nothing in it is trustworthy until its signature was checked.
#[derive(Clone, PartialEq, Eq)]
pub struct Jwt<'a> {
    /// The signature algorithm (`alg`) that the token names.
    pub algorithm: String,
    /// The id of the key (`kid`).
    pub key_id: Option<String>,
    /// The bytes that are signed.
    pub signed: &'a [u8],
    /// The signature.
    pub signature: Vec<u8>,
    /// The claims as JSON text.
    pub claims: String,
}

/// The parts that no log may show are left out.
impl std::fmt::Debug for Jwt<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jwt")
            .field("algorithm", &self.algorithm)
            .field("key_id", &self.key_id)
            .finish_non_exhaustive()
    }
}

impl<'a> Jwt<'a> {
    /// Splits a token into its parts.
    ///
    /// # Errors
    /// Fails if the text is not a JWT in its compact form, or not the JWT of an access token.
    pub fn parse(token: &'a str) -> Result<Self, JwtError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(JwtError::Malformed);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(JwtError::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(JwtError::Malformed)?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| JwtError::Malformed);
        let text = |part: &str| String::from_utf8(decode(part)?).map_err(|_| JwtError::Malformed);
        let header: Json = text(header)?.parse().map_err(|_| JwtError::Malformed)?;
        if header.member("crit").is_some() {
            return Err(JwtError::Critical);
        }
        let kind: Option<String> = read(&header, "typ")?;
        let kind = kind.as_deref().unwrap_or("JWT");
        let kind = kind.split_once('/').map_or(kind, |(group, name)| {
            if group.eq_ignore_ascii_case("application") { name } else { kind }
        });
        if !kind.eq_ignore_ascii_case("JWT") && !kind.eq_ignore_ascii_case("at+jwt") {
            return Err(JwtError::Kind);
        }
        Ok(Self {
            algorithm: read(&header, "alg")?.ok_or(JwtError::Malformed)?,
            key_id: read(&header, "kid")?,
            signed: signed.as_bytes(),
            signature: decode(signature)?,
            claims: text(claims)?,
        })
    }
}

/// The claims of an access token that a server needs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Claims {
    /// The user (`sub`), who is unique at this issuer.
    pub subject: Option<String>,
    /// The program that the token was issued to (`client_id` or `azp`).
    pub client_id: Option<String>,
    /// The scopes of the token (`scope` or `scp`).
    pub scopes: Scopes,
    /// The time at which the token expires, since 1970.
    pub expires_at: Duration,
    /// All claims.
    pub all: Json,
}

/// What a server expects of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JwtRules<'a> {
    /// The issuer of the token, compared byte for byte.
    pub issuer: &'a str,
    /// The server that the token must be issued for, compared byte for byte.
    pub audience: &'a str,
}

/// Returns a member of an object; `None` if it is absent, and an error if it is of another type. Of members with the same
/// name, the last one counts.
fn read<T: DeserializeOwned>(object: &Json, name: &str) -> Result<Option<T>, JwtError> {
    let member = object.member(name);
    member.map(serde_json::from_str).transpose().map_err(|_| JwtError::Malformed)
}

/// Returns a member that is one text or a list of texts.
fn read_texts(object: &Json, name: &str) -> Result<Vec<String>, JwtError> {
    match object.member(name) {
        Some(text) if text.starts_with('[') => Ok(read(object, name)?.unwrap_or_default()),
        _ => Ok(read::<String>(object, name)?.into_iter().collect()),
    }
}

impl JwtRules<'_> {
    /// Checks the claims of a token at the time `now`, which is a duration since 1970. Clocks may differ by a minute.
    ///
    /// # Errors
    /// Fails with the first rule that the claims break.
    pub fn check(&self, claims: &str, now: Duration) -> Result<Claims, JwtError> {
        let all: Json = claims.parse().map_err(|_| JwtError::Malformed)?;
        if !all.is_object() {
            return Err(JwtError::Malformed);
        }
        let issuer: Option<String> = read(&all, "iss")?;
        if issuer.as_deref() != Some(self.issuer) {
            return Err(JwtError::Issuer);
        }
        if !read_texts(&all, "aud")?.iter().any(|audience| audience == self.audience) {
            return Err(JwtError::Audience);
        }
        let expires_at = time(&all, "exp")?.ok_or(JwtError::NoExpiry)?;
        if now >= expires_at.saturating_add(LEEWAY) {
            return Err(JwtError::Expired);
        }
        if time(&all, "nbf")?.is_some_and(|from| now.saturating_add(LEEWAY) < from) {
            return Err(JwtError::NotYetValid);
        }
        let name = |name: &str| Ok(read::<String>(&all, name)?.filter(|name| !name.is_empty()));
        let client_id = match name("client_id")? {
            Some(client) => Some(client),
            None => name("azp")?,
        };
        let scopes = if all.member("scope").is_some() { "scope" } else { "scp" };
        let scopes = read_texts(&all, scopes)?.iter().flat_map(|text| text.split(' ')).collect();
        Ok(Claims { subject: name("sub")?, client_id, scopes, expires_at, all })
    }
}

/// Returns a member with a time in seconds since 1970.
fn time(object: &Json, name: &str) -> Result<Option<Duration>, JwtError> {
    let seconds = read::<f64>(object, name)?;
    seconds.map(|seconds| Duration::try_from_secs_f64(seconds).map_err(|_| JwtError::Malformed)).transpose()
}

#[cfg(test)]
mod tests;
