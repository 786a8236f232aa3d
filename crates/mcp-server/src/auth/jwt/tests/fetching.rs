//! Keys that are fetched from the issuer.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// An issuer on the network, which counts requests.
#[derive(Clone, Default)]
struct Network {
    requests: Arc<Mutex<Vec<String>>>,
    answers: Arc<Mutex<Vec<(String, String)>>>,
    pending: Arc<AtomicUsize>,
}

impl Network {
    fn set(&self, url: &str, body: impl Into<String>) {
        let mut answers = self.answers.lock().unwrap();
        answers.retain(|(known, _)| known != url);
        answers.push((url.to_owned(), body.into()));
    }

    fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }

    fn verifier(&self) -> JwtVerifier {
        let network = self.clone();
        JwtVerifier::new(ISSUER, move |url: String| {
            let network = network.clone();
            async move {
                network.requests.lock().unwrap().push(url.clone());
                if network.pending.load(Ordering::SeqCst) > 0 {
                    tokio::time::sleep(Duration::from_secs(3)).await;
                }
                let answers = network.answers.lock().unwrap();
                let found = answers.iter().find(|(known, _)| *known == url);
                found.map(|(_, body)| body.clone()).ok_or("connection refused")
            }
        })
    }
}

const METADATA: &str = "https://as.example/.well-known/oauth-authorization-server";
const OPENID: &str = "https://as.example/.well-known/openid-configuration";
const KEYS: &str = "https://as.example/keys";

fn online(issuer: &Issuer) -> Network {
    let network = Network::default();
    network.set(OPENID, json!({"issuer": ISSUER, "jwks_uri": KEYS}).to_string());
    network.set(KEYS, issuer.keys());
    network
}

#[tokio::test(start_paused = true)]
async fn keys_are_found_fetched_once_and_rotated() {
    let (old, new) = (Issuer::new("old"), Issuer::new("new"));
    let network = online(&old);
    network.pending.store(1, Ordering::SeqCst);
    let verifier = network.verifier();
    let token = old.valid(json!({"exp": now() + 200_000}));
    let verify = || verifier.verify(&token, RESOURCE);
    let all = tokio::join!(verify(), verify(), verify());
    assert!(all.0.is_ok() && all.1.is_ok() && all.2.is_ok());
    assert_eq!(network.take_requests(), [METADATA, OPENID, KEYS]);

    // Tokens with unknown keys cause one fetch in 30 s, however many there are.
    for _ in 0..100 {
        assert_eq!(
            refusal(&verifier, &new.valid(json!({}))).await,
            "the issuer does not have the key of the token"
        );
    }
    assert_eq!(network.take_requests(), [""; 0]);
    tokio::time::advance(Duration::from_secs(30)).await;
    network.set(KEYS, json!({"keys": [new.jwk()]}).to_string());
    verifier.verify(&new.valid(json!({})), RESOURCE).await.unwrap();
    assert_eq!(network.take_requests(), [METADATA, OPENID, KEYS]);
    // A token of a key that was taken back is no longer accepted, although it was verified before.
    assert_eq!(refusal(&verifier, &token).await, "the issuer does not have the key of the token");
}

#[tokio::test(start_paused = true)]
async fn token_of_a_removed_key_ends_although_it_is_remembered() {
    let (old, new) = (Issuer::new("old"), Issuer::new("new"));
    let network = online(&old);
    let verifier = network.verifier();
    let token = old.valid(json!({"exp": now() + 1_000_000_000}));
    verifier.verify(&token, RESOURCE).await.unwrap();
    network.set(KEYS, new.keys());
    tokio::time::advance(Duration::from_secs(15 * 60 - 1)).await;
    verifier.verify(&token, RESOURCE).await.unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(refusal(&verifier, &token).await, "the issuer does not have the key of the token");
}

#[tokio::test]
async fn forged_token_with_many_scopes_is_refused_quickly() {
    let issuer = Issuer::new("k");
    let scopes: Vec<String> = (0..3000).map(|number| format!("{number:x}")).collect();
    let claims = claims(json!({"scope": scopes.join(" ")}));
    let forged = Issuer::new("k").token(&json!({"alg": "EdDSA", "kid": "k"}), &claims);
    let verifier = fixed(&issuer);
    assert_eq!(refusal(&verifier, &forged).await, "the signature of the token is wrong");
    let valid = verifier.verify(&issuer.token(&json!({"alg": "EdDSA"}), &claims), RESOURCE).await.unwrap();
    assert_eq!(valid.scopes().iter().count(), 256);
}

#[tokio::test(start_paused = true)]
async fn old_keys_are_used_while_the_issuer_is_away() {
    let issuer = Issuer::new("k");
    let network = online(&issuer);
    let verifier = network.verifier();
    // Each token is new, because verified tokens need no keys.
    let verify = async |id: u32| {
        verifier.verify(&issuer.valid(json!({"jti": id, "exp": now() + 200_000})), RESOURCE).await
    };
    verify(1).await.unwrap();
    network.answers.lock().unwrap().clear();
    network.take_requests();
    tokio::time::advance(Duration::from_secs(15 * 60)).await;
    verify(2).await.unwrap();
    verify(3).await.unwrap();
    assert_eq!(network.take_requests(), [METADATA, OPENID]);
    tokio::time::advance(Duration::from_secs(24 * 60 * 60)).await;
    let gone = verify(4).await.unwrap_err();
    assert!(
        matches!(&gone, Rejection::Unavailable(reason) if reason.contains("connection refused")),
        "{gone:?}"
    );
    network.take_requests();
    verify(5).await.unwrap_err();
    assert_eq!(network.take_requests(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn clients_that_disconnect_cause_no_further_fetches() {
    let issuer = Issuer::new("k");
    let network = online(&issuer);
    network.pending.store(1, Ordering::SeqCst);
    let verifier = network.verifier();
    let token = issuer.valid(json!({}));
    for _ in 0..5 {
        let dropped =
            tokio::time::timeout(Duration::from_millis(100), verifier.verify(&token, RESOURCE)).await;
        assert!(dropped.is_err());
    }
    verifier.verify(&token, RESOURCE).await.unwrap();
    assert_eq!(network.take_requests(), [METADATA, OPENID, KEYS]);
}

#[tokio::test(start_paused = true)]
async fn fetch_that_hangs_ends_after_ten_seconds() {
    let issuer = Issuer::new("k");
    let verifier = JwtVerifier::new(ISSUER, |_| std::future::pending::<Result<String, String>>());
    let began = tokio::time::Instant::now();
    let error = verifier.verify(&issuer.valid(json!({})), RESOURCE).await.unwrap_err();
    assert!(
        matches!(&error, Rejection::Unavailable(reason) if reason.contains("no answer within 10s")),
        "{error:?}"
    );
    assert_eq!(began.elapsed(), Duration::from_secs(10));
}

#[tokio::test]
async fn lying_metadata_and_bodies_are_refused() {
    let issuer = Issuer::new("k");
    for (url, body, problem) in [
        (
            OPENID,
            json!({"issuer": "https://as.example/", "jwks_uri": KEYS}).to_string(),
            "is the metadata of `https://as.example/`",
        ),
        (OPENID, json!({"issuer": ISSUER}).to_string(), "does not say where the keys are"),
        (KEYS, "<html>".to_owned(), "invalid key set"),
        (KEYS, "x".repeat(300_000), "300000 bytes, limit 262144"),
    ] {
        let network = online(&issuer);
        network.set(url, body);
        let error = network.verifier().verify(&issuer.valid(json!({})), RESOURCE).await.unwrap_err();
        assert!(matches!(&error, Rejection::Unavailable(reason) if reason.contains(problem)), "{error:?}");
    }
    // Nothing is fetched for a token that is refused anyway.
    let network = online(&issuer);
    let verifier = network.verifier();
    refusal(&verifier, &issuer.valid(json!({"aud": "x"}))).await;
    refusal(&verifier, "x").await;
    assert_eq!(network.take_requests(), [""; 0]);
    let given = network.verifier().jwks_url(KEYS);
    given.verify(&issuer.valid(json!({})), RESOURCE).await.unwrap();
    assert_eq!(network.take_requests(), [KEYS]);
}
