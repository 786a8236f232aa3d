mod fetching;

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::signature::PublicKey;
use super::*;

const ISSUER: &str = "https://as.example";
const RESOURCE: &str = "https://notes.example/mcp";

/// The modulus of an RSA key, and its signatures of the text `message`.
const MODULUS: &str = "\
    z3zRsoQSiF2GVMFURLpGrYdeWKaIoeK-X3MwjCXz7fpPOvWPiae7UnHIbay01ILQYDCR4eXdWtVJzstAU37R79JZlxjk3mBAoluS\
    2fiIvgNfmILaA1LAAXx_Bk1GSEZ2Va_2vB7z0ryi5ln8afCcu-TDFQSofuTenXuMBvAbov0ZzAEwgDUmAGdJ1Jh48m3hE8S2pKGo\
    NpXx0fmg-uQTox7iKw2grFqxzZIH54YpGqjZTNz29g5Qb6MBdx5vfUFtIXYlHAYgiXCGmlCQLS3ezwbAWETkX93sdS3A6KgJ18o7\
    gFvY18EAcncmWskfNjJbWkVC-NrRUaI6Dxrl9oYcOQ";
const RS256: &str = "\
    yaVkHW2Kf3kbdVnJHwuGcfHY2RQBR7zHh8o_eN_RS5c1Hf696pRj7UcwE316-9swfaFdTWaaUH2AXZyWvzzAEn87vo7xFhhw1XcY\
    aaBeFGhHm4ENGpizYklefRq30ylCp_wvieZpSFk2ntBxRU2VO1gRkAT41MMd0ZPA4cBuB_znoLHLeJSqzYA96ELkAFUPdNlXrD7I\
    ymJ4SiEWPSFhpcdQXHuesaykAbyh54gNYkoSm0sUPzVsSmIbpYhvkPKlake4HRARO3GX2OiSc_t8u1M-JR2EKA_HT2TYEUzvhG2n\
    YjJHVrTNW4ikgRbsH1JDRWQhwmObAD931ir_e1uaSA";
const PS256: &str = "\
    JeQ9ZcY3-QFjxwJhTy68GcFEYKyHViq_Obv4xG_qa-eXf7mBEIvqeiGeXCHFzk18AS9QWph5EDAqa8zuJyhAPdy7wXbDoovnmCT5\
    pHD8Yg8CPhGv9R-Gnj6CIdY3UlWFmctUAc8W0-gy8PGfmxvPOjvyTuWQPtv1l95VyC6HiCmBB2SnS8e9vDxCXMYLzcxV91vECV_o\
    QyzocShBaFh3YjbzmZaKCXy37_QOzRVnEZj4h9U7305m-Q5lNyxk87yle-4aYcBuP0V5BlzpSUrgUcMtLpTPicZmgwh0whYofWUK\
    BLyOrdeaFbXcu6VF54RtiAwhMe_vyW2G3N4C1KqU1A";

/// An issuer with one Ed25519 key.
struct Issuer {
    pair: Ed25519KeyPair,
    id: &'static str,
}

impl Issuer {
    fn new(id: &'static str) -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self { pair: Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap(), id }
    }

    fn jwk(&self) -> Value {
        json!({"kty": "OKP", "crv": "Ed25519", "kid": self.id, "use": "sig", "x": encode(self.pair.public_key())})
    }

    fn keys(&self) -> String {
        json!({"keys": [self.jwk()]}).to_string()
    }

    fn token(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
        let signature = self.pair.sign(signed.as_bytes());
        format!("{signed}.{}", encode(signature))
    }

    /// Returns a valid token with these claims in addition.
    fn valid(&self, more: Value) -> String {
        self.token(&json!({"alg": "EdDSA", "kid": self.id, "typ": "at+jwt"}), &claims(more))
    }
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn claims(more: Value) -> Value {
    let mut claims = json!({"iss": ISSUER, "aud": RESOURCE, "exp": now() + 300, "sub": "ada", "client_id": "cli", "scope": "a b"});
    for (name, value) in more.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

fn fixed(issuer: &Issuer) -> JwtVerifier {
    JwtVerifier::with_keys(ISSUER, Jwks::from_json(&issuer.keys()).unwrap())
}

async fn refusal(verifier: &JwtVerifier, token: &str) -> String {
    match verifier.verify(token, RESOURCE).await {
        Err(Rejection::Invalid(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn valid_token_names_its_caller() {
    let issuer = Issuer::new("k");
    let verifier = fixed(&issuer);
    let token = issuer.valid(json!({"email": "ada@x"}));
    // The second time from the cache.
    for _ in 0..2 {
        let ada = verifier.verify(&token, RESOURCE).await.unwrap();
        assert_eq!((ada.subject(), ada.client_id(), ada.issuer()), (Some("ada"), Some("cli"), Some(ISSUER)));
        assert_eq!(
            (ada.scopes().to_string(), ada.claim("email")),
            ("a b".to_owned(), Some("ada@x".to_owned()))
        );
        assert!(ada.expires_at().unwrap() > SystemTime::now());
        assert!(!format!("{ada:?} {verifier:?}").contains(&token[..20]));
    }
    // The cache does not forget for which server it was.
    assert!(verifier.verify(&token, "https://other.example/mcp").await.is_err());
    let service = verifier.verify(&issuer.valid(json!({"sub": ""})), RESOURCE).await.unwrap();
    assert_eq!((service.subject(), service.client_id()), (None, Some("cli")));
    let nobody = issuer.valid(json!({"sub": "", "client_id": ""}));
    assert!(refusal(&verifier, &nobody).await.contains("neither a user nor a client"));
}

#[tokio::test]
async fn forged_tokens_are_refused() {
    let (issuer, stranger) = (Issuer::new("k"), Issuer::new("k"));
    let verifier = fixed(&issuer);
    let good = issuer.valid(json!({}));
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let header = |header: Value| {
        format!("{}.{}.{signature}", encode(header.to_string()), signed.split('.').nth(1).unwrap())
    };
    for (token, reason) in [
        (stranger.valid(json!({})), "the signature of the token is wrong"),
        (format!("{signed}."), "the signature of the token is wrong"),
        (format!("{signed}.{}", encode([0; 64])), "the signature of the token is wrong"),
        (header(json!({"alg": "none"})), "the signature algorithm of the token is not allowed"),
        (header(json!({"alg": "NONE", "kid": "k"})), "the signature algorithm of the token is not allowed"),
        // The public key as the secret of an HMAC.
        (header(json!({"alg": "HS256", "kid": "k"})), "the signature algorithm of the token is not allowed"),
        (header(json!({"alg": "RS256", "kid": "k"})), "the issuer does not have the key of the token"),
        (header(json!({"alg": "EdDSA", "kid": "other"})), "the issuer does not have the key of the token"),
        (header(json!({"alg": "EdDSA", "kid": "k", "x": 1})), "the signature of the token is wrong"),
        (
            issuer.valid(json!({"aud": "https://other.example/mcp"})),
            "the token was issued for another server",
        ),
        (issuer.valid(json!({"iss": "https://evil.example"})), "the token comes from another issuer"),
        (issuer.valid(json!({"exp": now() - 61})), "the token has expired"),
        (issuer.valid(json!({"nbf": now() + 90})), "the token is not valid yet"),
        ("opaque".to_owned(), "the token is not a JWT"),
    ] {
        // Also if a valid token was seen before.
        verifier.verify(&good, RESOURCE).await.unwrap();
        assert_eq!(refusal(&verifier, &token).await, reason, "{token}");
    }
    let only_rsa = fixed(&issuer).algorithms([JwtAlgorithm::Rs256]);
    assert!(refusal(&only_rsa, &good).await.contains("not allowed"));
}

#[tokio::test]
async fn token_with_any_changed_letter_is_refused() {
    let issuer = Issuer::new("k");
    let (verifier, token) = (fixed(&issuer), issuer.valid(json!({})));
    for at in 0..token.len() {
        for letter in ["A", "z", "_", ".", "="] {
            let mut changed = token.clone();
            changed.replace_range(at..=at, letter);
            let accepted = verifier.verify(&changed, RESOURCE).await.is_ok();
            assert_eq!(accepted, changed == token, "{at} {letter}");
        }
        assert!(
            verifier.verify(&token[..at], RESOURCE).await.is_err()
                && verifier.verify(&token[at + 1..], RESOURCE).await.is_err()
        );
    }
    assert!(verifier.verify(&token.repeat(20_000), RESOURCE).await.is_err());
}

#[test]
fn signatures_of_all_kinds_are_checked() {
    let key = |key: Value| serde_json::from_value(key).ok().and_then(PublicKey::of);
    let rsa = key(json!({"kty": "RSA", "n": MODULUS, "e": "AQAB"})).unwrap();
    let check = |key: &PublicKey, algorithm, signature: &str| {
        key.has_signed(algorithm, b"message", &URL_SAFE_NO_PAD.decode(signature).unwrap())
    };
    assert!(check(&rsa, JwtAlgorithm::Rs256, RS256) && check(&rsa, JwtAlgorithm::Ps256, PS256));
    for algorithm in JwtAlgorithm::ALL {
        assert_eq!(check(&rsa, *algorithm, RS256), *algorithm == JwtAlgorithm::Rs256);
        assert_eq!(check(&rsa, *algorithm, PS256), *algorithm == JwtAlgorithm::Ps256);
        assert_eq!(
            JwtAlgorithm::from_name(&format!("{algorithm:?}").to_uppercase().replace("EDDSA", "EdDSA")),
            Some(*algorithm)
        );
    }
    let only = key(json!({"kty": "RSA", "n": MODULUS, "e": "AQAB", "alg": "PS256"})).unwrap();
    assert!(!check(&only, JwtAlgorithm::Rs256, RS256) && check(&only, JwtAlgorithm::Ps256, PS256));

    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let pair =
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).unwrap();
    let point = pair.public_key().as_ref();
    let jwk = json!({"kty": "EC", "crv": "P-256", "x": encode(&point[1..33]), "y": encode(&point[33..])});
    let signature = encode(pair.sign(&random, b"message").unwrap());
    assert!(check(&key(jwk.clone()).unwrap(), JwtAlgorithm::Es256, &signature));
    assert!(!check(&key(jwk).unwrap(), JwtAlgorithm::Es384, &signature));

    let x = encode([1; 32]);
    for unusable in [
        json!({"kty": "oct", "k": x}),
        json!({"kty": "RSA", "n": MODULUS}),
        json!({"kty": "RSA", "n": "", "e": "AQAB"}),
        json!({"kty": "RSA", "n": MODULUS, "e": "AQAB", "use": "enc"}),
        json!({"kty": "RSA", "n": MODULUS, "e": "AQAB", "key_ops": ["sign"]}),
        json!({"kty": "EC", "crv": "P-256", "x": x}),
        json!({"kty": "EC", "crv": "P-256", "x": x, "y": encode([1; 31])}),
        json!({"kty": "EC", "crv": "P-384", "x": x, "y": x}),
        json!({"kty": "EC", "crv": "secp256k1", "x": x, "y": x}),
        json!({"kty": "OKP", "crv": "Ed25519", "x": encode([1; 31])}),
        json!({"kty": "OKP", "crv": "X25519", "x": x}),
    ] {
        assert_eq!(key(unusable.clone()), None, "{unusable}");
    }
    assert!(key(json!({"kty": "OKP", "crv": "Ed25519", "x": x, "key_ops": ["verify"]})).is_some());
}

#[tokio::test]
async fn key_is_found_by_id_or_if_it_is_the_only_one() {
    let (one, other) = (Issuer::new("1"), Issuer::new("2"));
    let without_id = |issuer: &Issuer| issuer.token(&json!({"alg": "EdDSA"}), &claims(json!({})));
    fixed(&one).verify(&without_id(&one), RESOURCE).await.unwrap();
    let rsa = json!({"kty": "RSA", "n": MODULUS, "e": "AQAB", "kid": "1"});
    let keys = json!({"keys": [rsa, one.jwk(), other.jwk(), {"kty": "unknown"}, 5]}).to_string();
    let both = JwtVerifier::with_keys(ISSUER, Jwks::from_json(&keys).unwrap());
    both.verify(&one.valid(json!({})), RESOURCE).await.unwrap();
    both.verify(&other.valid(json!({})), RESOURCE).await.unwrap();
    assert_eq!(refusal(&both, &without_id(&one)).await, "the token does not say which key signed it");
    for (text, problem) in [
        ("[]", "invalid length"),
        (r#"{"keys":[]}"#, "no key can verify a signature"),
        (r#"{"keys":[{"kty":"oct","k":"x"}]}"#, "no key can verify a signature"),
        (&format!(r#"{{"keys":[{}1]}}"#, "1,".repeat(100)), "101 keys, limit 100"),
        (&" ".repeat(300_000), "300000 bytes, limit 262144"),
    ] {
        let error = Jwks::from_json(text).unwrap_err().to_string();
        assert!(error.starts_with("invalid key set: ") && error.contains(problem), "{error}");
    }
}
