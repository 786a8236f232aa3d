//! The keys of an issuer.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::signature::{JsonKey, JwtAlgorithm, PublicKey};
use crate::auth::verifier::Rejection;

/// The maximum size of a key set in bytes, and the maximum number of its keys.
pub(super) const MAX_BYTES: usize = 256 << 10;
const MAX_KEYS: usize = 100;

/// The public keys of an issuer (RFC 7517).
///
/// ```
/// use mcp_server::auth::Jwks;
///
/// let keys = Jwks::from_json(
///     r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "1", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#,
/// )?;
/// # Ok::<(), mcp_server::auth::InvalidKeys>(())
/// ```
#[derive(Debug, PartialEq, Eq)]
#[doc(alias = "JWK")]
pub struct Jwks(Vec<Arc<PublicKey>>);

/// The error for a text that is not a set of usable public keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidKeys(String);

#[derive(Deserialize)]
struct JsonKeys<'a> {
    #[serde(borrow)]
    keys: Vec<&'a RawValue>,
}

impl Jwks {
    /// Reads a JSON Web Key Set. Keys of other purposes and kinds are skipped.
    ///
    /// # Errors
    /// Fails if the text is not a key set, is larger than 256 KiB, has more than 100 keys, or has no key that can verify
    /// a signature.
    pub fn from_json(text: &str) -> Result<Self, InvalidKeys> {
        let invalid = |problem: String| InvalidKeys(format!("invalid key set: {problem}"));
        if text.len() > MAX_BYTES {
            return Err(invalid(format!("{} bytes, limit {MAX_BYTES}", text.len())));
        }
        let all: JsonKeys<'_> = serde_json::from_str(text).map_err(|error| invalid(error.to_string()))?;
        if all.keys.len() > MAX_KEYS {
            return Err(invalid(format!("{} keys, limit {MAX_KEYS}", all.keys.len())));
        }
        let read = |key: &&RawValue| serde_json::from_str::<JsonKey>(key.get()).ok().and_then(PublicKey::of);
        let keys: Vec<Arc<PublicKey>> = all.keys.iter().filter_map(read).map(Arc::new).collect();
        if keys.is_empty() {
            return Err(invalid("no key can verify a signature".to_owned()));
        }
        Ok(Self(keys))
    }

    /// Returns the key of a token: the one with its id, or the only one that fits if the token names none. `None` if
    /// there is none.
    pub(super) fn find(
        &self,
        id: Option<&str>,
        algorithm: JwtAlgorithm,
    ) -> Result<Option<Arc<PublicKey>>, Rejection> {
        let fitting =
            |key: &&Arc<PublicKey>| key.fits(algorithm) && (id.is_none() || key.id.as_deref() == id);
        let mut found = self.0.iter().filter(fitting);
        match (found.next(), found.next()) {
            (Some(_), Some(_)) => {
                Err(Rejection::Invalid("the token does not say which key signed it".to_owned()))
            }
            (one, _) => Ok(one.cloned()),
        }
    }
}
