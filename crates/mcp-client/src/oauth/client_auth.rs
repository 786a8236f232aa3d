//! How a client authenticates at the token endpoint.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;

use super::error::OAuthError;
use crate::credentials::{Secret, random_id};

/// The lifetime of a client assertion, in seconds.
const ASSERTION_LIFETIME: u64 = 60;

/// How a client authenticates at the token endpoint.
#[derive(Clone, Debug, Default)]
pub(super) enum ClientAuth {
    /// Not at all: a public client.
    #[default]
    None,
    /// With its secret, in the header `Authorization` or in the form, as the server supports it.
    Secret(Secret),
    /// With a signed assertion (RFC 7523).
    PrivateKey(SigningKey),
}

/// The private key of a client.
#[derive(Clone)]
pub(super) struct SigningKey {
    key: Arc<KeyPair>,
    /// The id of the key at the server, if it has several.
    id: Option<String>,
}

enum KeyPair {
    Es256(EcdsaKeyPair, SystemRandom),
    Rs256(RsaKeyPair, SystemRandom),
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(..)")
    }
}

impl SigningKey {
    /// Reads a private key: PKCS#8 in PEM, on the curve P-256 or RSA.
    pub(super) fn from_pem(pem: &str, id: Option<String>) -> Result<Self, OAuthError> {
        let unusable =
            || OAuthError::Settings("the private key is not a P-256 or RSA key in PEM (PKCS#8)".to_owned());
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| unusable())?;
        let der = der.secret_pkcs8_der();
        let random = SystemRandom::new();
        let key = match EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random) {
            Ok(key) => KeyPair::Es256(key, random),
            Err(_) => KeyPair::Rs256(RsaKeyPair::from_pkcs8(der).map_err(|_| unusable())?, random),
        };
        Ok(Self { key: Arc::new(key), id })
    }

    /// Returns a signed assertion that this client is `client_id`, for the server `audience`. `now` is in seconds since
    /// 1970.
    pub(super) fn assertion(&self, client_id: &str, audience: &str, now: u64) -> Result<String, OAuthError> {
        let algorithm = match &*self.key {
            KeyPair::Es256(..) => "ES256",
            KeyPair::Rs256(..) => "RS256",
        };
        let mut header = serde_json::json!({"alg": algorithm, "typ": "JWT"});
        if let Some(id) = &self.id {
            header["kid"] = id.as_str().into();
        }
        let claims = serde_json::json!({
            "iss": client_id,
            "sub": client_id,
            "aud": audience,
            "iat": now,
            "exp": now + ASSERTION_LIFETIME,
            "jti": random_id(),
        });
        let encode = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(&header), encode(&claims));
        let signature = self.sign(signed.as_bytes());
        let signature = signature
            .ok_or_else(|| OAuthError::Settings("signing with the private key failed".to_owned()))?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    fn sign(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        match &*self.key {
            KeyPair::Es256(key, random) => Some(key.sign(random, bytes).ok()?.as_ref().to_vec()),
            KeyPair::Rs256(key, random) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, random, bytes, &mut signature).ok()?;
                Some(signature)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, KeyPair as _, UnparsedPublicKey};

    use super::*;

    #[test]
    fn assertion_is_signed_and_names_client_and_audience() {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let body = base64::engine::general_purpose::STANDARD.encode(document.as_ref());
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n");
        let key = SigningKey::from_pem(&pem, Some("k1".to_owned())).unwrap();
        assert_eq!(format!("{key:?}"), "SigningKey(..)");
        let assertion = key.assertion("the-client", "https://as.example", 1000).unwrap();
        let (signed, signature) = assertion.rsplit_once('.').unwrap();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).unwrap();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key())
            .verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap())
            .unwrap();
        let parts: Vec<serde_json::Value> = signed
            .split('.')
            .map(|part| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap())
            .collect();
        assert_eq!(parts[0], serde_json::json!({"alg": "ES256", "typ": "JWT", "kid": "k1"}));
        assert_eq!((&parts[1]["iss"], &parts[1]["sub"]), (&"the-client".into(), &"the-client".into()));
        assert_eq!((&parts[1]["aud"], &parts[1]["exp"]), (&"https://as.example".into(), &1060.into()));
        assert_ne!(assertion, key.assertion("the-client", "https://as.example", 1000).unwrap(), "jti");
    }

    #[test]
    fn text_that_is_not_a_private_key_is_refused_without_showing_it() {
        for pem in ["", "hush", "-----BEGIN PRIVATE KEY-----\naHVzaA==\n-----END PRIVATE KEY-----\n"] {
            let error = SigningKey::from_pem(pem, None).unwrap_err();
            assert!(
                !format!("{error:?}").contains("hush") && !format!("{error:?}").contains("aHVz"),
                "{error:?}"
            );
        }
    }
}
