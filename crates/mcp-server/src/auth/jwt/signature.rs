//! Signature algorithms, and public keys.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    self, ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use serde::Deserialize;

macro_rules! algorithms {
    ($($(#[$attr:meta])* $name:ident = $wire:literal,)*) => {
        /// A signature algorithm of JWTs. All are asymmetric: who can verify a token cannot create one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum JwtAlgorithm {
            $($(#[$attr])* $name,)*
        }

        impl JwtAlgorithm {
            pub(super) const ALL: &[Self] = &[$(Self::$name,)*];

            pub(super) fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($wire => Some(Self::$name),)*
                    _ => None,
                }
            }

            fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $wire,)*
                }
            }
        }
    };
}

algorithms! {
    /// RSA (PKCS #1) with SHA-256.
    Rs256 = "RS256",
    /// RSA (PKCS #1) with SHA-384.
    Rs384 = "RS384",
    /// RSA (PKCS #1) with SHA-512.
    Rs512 = "RS512",
    /// RSA (PSS) with SHA-256.
    Ps256 = "PS256",
    /// RSA (PSS) with SHA-384.
    Ps384 = "PS384",
    /// RSA (PSS) with SHA-512.
    Ps512 = "PS512",
    /// ECDSA with P-256 and SHA-256.
    Es256 = "ES256",
    /// ECDSA with P-384 and SHA-384.
    Es384 = "ES384",
    /// Ed25519.
    EdDsa = "EdDSA",
}

impl JwtAlgorithm {
    fn rsa(self) -> Option<&'static RsaParameters> {
        Some(match self {
            Self::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Self::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Self::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            Self::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
            Self::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
            Self::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
            Self::Es256 | Self::Es384 | Self::EdDsa => return None,
        })
    }
}

/// A public key of an issuer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PublicKey {
    pub(super) id: Option<String>,
    /// The only algorithm of this key, if its issuer names one.
    algorithm: Option<String>,
    numbers: Numbers,
}

/// The key itself.
#[derive(Debug, PartialEq, Eq)]
enum Numbers {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// An uncompressed point.
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// A key as its issuer writes it (RFC 7517).
#[derive(Deserialize)]
pub(super) struct JsonKey {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl PublicKey {
    /// Returns the key if it can verify signatures; `None` for keys of another purpose or kind.
    pub(super) fn of(key: JsonKey) -> Option<Self> {
        if key.purpose.is_some_and(|purpose| purpose != "sig")
            || key.key_ops.is_some_and(|operations| !operations.iter().any(|name| name == "verify"))
        {
            return None;
        }
        let number =
            |text: Option<String>| URL_SAFE_NO_PAD.decode(text?).ok().filter(|number| !number.is_empty());
        let point = |length: usize| {
            let (x, y) = (number(key.x.clone())?, number(key.y.clone())?);
            (x.len() == length && y.len() == length).then(|| [&[4][..], &x, &y].concat())
        };
        let numbers = match (key.kty.as_str(), key.crv.as_deref()) {
            ("RSA", None) => Numbers::Rsa { n: number(key.n)?, e: number(key.e)? },
            ("EC", Some("P-256")) => Numbers::P256(point(32)?),
            ("EC", Some("P-384")) => Numbers::P384(point(48)?),
            ("OKP", Some("Ed25519")) => Numbers::Ed25519(number(key.x.clone()).filter(|x| x.len() == 32)?),
            _ => return None,
        };
        Some(Self { id: key.kid, algorithm: key.alg, numbers })
    }

    /// Returns true if the key is one for this algorithm.
    pub(super) fn fits(&self, algorithm: JwtAlgorithm) -> bool {
        let is_of_kind = match &self.numbers {
            Numbers::Rsa { .. } => algorithm.rsa().is_some(),
            Numbers::P256(_) => algorithm == JwtAlgorithm::Es256,
            Numbers::P384(_) => algorithm == JwtAlgorithm::Es384,
            Numbers::Ed25519(_) => algorithm == JwtAlgorithm::EdDsa,
        };
        is_of_kind && self.algorithm.as_deref().is_none_or(|only| only == algorithm.name())
    }

    /// Returns true if the owner of this key signed the message.
    pub(super) fn has_signed(&self, algorithm: JwtAlgorithm, message: &[u8], signature: &[u8]) -> bool {
        let checked = match (&self.numbers, algorithm.rsa()) {
            (Numbers::Rsa { n, e }, Some(parameters)) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (Numbers::P256(point), None) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            (Numbers::P384(point), None) => {
                UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point).verify(message, signature)
            }
            (Numbers::Ed25519(key), None) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
            _ => return false,
        };
        self.fits(algorithm) && checked.is_ok()
    }
}
