//! Tokens that are bound to a key of this client (DPoP, RFC 9449): each request proves that the client has the key, so that
//! a stolen token alone is of no use.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderName, HeaderValue};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::json;
use url::Url;

use super::clock::unix_time;
use super::error::OAuthError;
use crate::credentials::{Secret, random_id};

/// The header with a proof.
pub(crate) const PROOF: HeaderName = HeaderName::from_static("dpop");
/// The header in which a server gives a number that the next proof must contain.
const NONCE: HeaderName = HeaderName::from_static("dpop-nonce");
/// The maximum length of such a number, and the maximum number of servers that give one.
const MAX_NONCE_BYTES: usize = 1 << 10;
const MAX_NONCES: usize = 16;

/// The key of one login, and the numbers that servers gave. Clones share both.
#[derive(Clone)]
pub(crate) struct Prover(Arc<ProverState>);

struct ProverState {
    key: EcdsaKeyPair,
    random: SystemRandom,
    /// The key as it is stored.
    document: Secret,
    nonces: Mutex<HashMap<String, String>>,
}

impl fmt::Debug for Prover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Prover(..)")
    }
}

impl Prover {
    /// Creates a key.
    pub(super) fn generate() -> Result<Self, OAuthError> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let document = document.map_err(|_| unusable())?;
        Self::from_stored(&Secret::new(URL_SAFE_NO_PAD.encode(document.as_ref())))
    }

    /// Reads a stored key.
    pub(super) fn from_stored(document: &Secret) -> Result<Self, OAuthError> {
        let random = SystemRandom::new();
        let bytes = URL_SAFE_NO_PAD.decode(document.expose()).map(zeroize::Zeroizing::new);
        let bytes = bytes.map_err(|_| unusable())?;
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &bytes, &random);
        let key = key.map_err(|_| unusable())?;
        Ok(Self(Arc::new(ProverState { key, random, document: document.clone(), nonces: Mutex::default() })))
    }

    /// Returns the key to store.
    pub(super) fn to_stored(&self) -> Secret {
        self.0.document.clone()
    }

    /// Returns the proof for one request. A request to an MCP server has a token, one to an authorization server has none.
    pub(crate) fn proof(&self, method: &str, url: &Url, token: Option<&str>) -> Option<HeaderValue> {
        let point = self.0.key.public_key().as_ref();
        let (x, y) = (point.get(1..33)?, point.get(33..65)?);
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let header = json!({
            "typ": "dpop+jwt",
            "alg": "ES256",
            "jwk": {"kty": "EC", "crv": "P-256", "x": encode(x), "y": encode(y)},
        });
        let mut address = url.clone();
        address.set_query(None);
        address.set_fragment(None);
        let mut claims =
            json!({"jti": random_id(), "htm": method, "htu": address.as_str(), "iat": unix_time().as_secs()});
        if let Some(token) = token {
            claims["ath"] = encode(digest(&SHA256, token.as_bytes()).as_ref()).into();
        }
        if let Some(nonce) = self.nonces().get(&origin(url)) {
            claims["nonce"] = nonce.as_str().into();
        }
        let signed =
            format!("{}.{}", encode(header.to_string().as_bytes()), encode(claims.to_string().as_bytes()));
        let signature = self.0.key.sign(&self.0.random, signed.as_bytes()).ok()?;
        HeaderValue::from_str(&format!("{signed}.{}", encode(signature.as_ref()))).ok()
    }

    /// Notes the number that a server gave with a response. Returns true if it is a new one.
    pub(crate) fn note(&self, url: &Url, headers: &HeaderMap) -> bool {
        let nonce = headers.get(NONCE).and_then(|nonce| nonce.to_str().ok());
        let Some(nonce) = nonce.filter(|nonce| nonce.len() <= MAX_NONCE_BYTES) else { return false };
        let mut nonces = self.nonces();
        if nonces.len() >= MAX_NONCES {
            nonces.clear();
        }
        nonces.insert(origin(url), nonce.to_owned()).as_deref() != Some(nonce)
    }

    fn nonces(&self) -> std::sync::MutexGuard<'_, HashMap<String, String>> {
        self.0.nonces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

fn unusable() -> OAuthError {
    OAuthError::Settings("the key of this login cannot be used".to_owned())
}

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
    use serde_json::Value;

    use super::*;

    fn parts(proof: &HeaderValue) -> (Value, Value) {
        let text = proof.to_str().unwrap();
        let (signed, signature) = text.rsplit_once('.').unwrap();
        let read =
            |part: &str| -> Value { serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap() };
        let (header, claims) = signed.split_once('.').unwrap();
        let (header, claims) = (read(header), read(claims));
        let number = |name: &str| URL_SAFE_NO_PAD.decode(header["jwk"][name].as_str().unwrap()).unwrap();
        let point = [vec![4], number("x"), number("y")].concat();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
            .verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap())
            .unwrap();
        (header, claims)
    }

    #[test]
    fn proof_is_for_one_request_with_one_token() {
        let prover = Prover::generate().unwrap();
        let url = Url::parse("https://mcp.example/mcp?key=hush#x").unwrap();
        let (header, claims) = parts(&prover.proof("POST", &url, Some("token")).unwrap());
        assert_eq!((&header["typ"], &header["alg"]), (&"dpop+jwt".into(), &"ES256".into()));
        assert_eq!((&claims["htm"], &claims["htu"]), (&"POST".into(), &"https://mcp.example/mcp".into()));
        assert_eq!(claims["ath"], "PEaenWxYddN6Q_NT1PiOYfz4EsZu7jRXRlpAsNpBU-A");
        assert_eq!(header["jwk"].as_object().unwrap().len(), 4, "nothing of the private key");
        let (again, other) = parts(&prover.proof("POST", &url, None).unwrap());
        assert!(other["ath"].is_null() && other["nonce"].is_null() && other["jti"] != claims["jti"]);
        // The stored key is the same key.
        let stored = Prover::from_stored(&prover.to_stored()).unwrap();
        assert_eq!(parts(&stored.proof("GET", &url, None).unwrap()).0, again);
        assert_eq!(format!("{prover:?}"), "Prover(..)");
        assert!(Prover::from_stored(&Secret::new("hush")).is_err());
    }

    #[test]
    fn number_of_a_server_is_used_only_for_that_server() {
        let prover = Prover::generate().unwrap();
        let [one, other] = ["https://a.example/x", "https://b.example/x"].map(|url| Url::parse(url).unwrap());
        let given = |nonce: &str| HeaderMap::from_iter([(NONCE, HeaderValue::from_str(nonce).unwrap())]);
        assert!(prover.note(&one, &given("n1")) && !prover.note(&one, &given("n1")));
        assert!(!prover.note(&one, &HeaderMap::new()) && !prover.note(&one, &given(&"n".repeat(2000))));
        let nonce = |url: &Url| parts(&prover.proof("GET", url, None).unwrap()).1["nonce"].clone();
        assert_eq!((nonce(&one), nonce(&other)), ("n1".into(), Value::Null));
        for number in 0..100 {
            prover.note(&Url::parse(&format!("https://{number}.example")).unwrap(), &given("x"));
        }
        assert!(prover.nonces().len() <= MAX_NONCES);
    }
}
