//! Calls, logins and logouts of two processes at once, while the disk fills up now and then.

use std::collections::HashMap;

use super::*;
use crate::http::{HttpBody, HttpClient, HttpError, ResponseFuture};

/// A small generator, so that a failing sequence can be repeated.
#[derive(Clone)]
struct Random(Arc<Mutex<u64>>);

impl Random {
    fn below(&self, bound: u64) -> u64 {
        let mut state = self.0.lock().unwrap();
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % bound
    }
}

/// An authorization server that accepts each refresh token once. A refresh token is `LOGIN.NUMBER`.
#[derive(Clone)]
struct OnceServer {
    random: Random,
    /// The number of the refresh token that each login has now.
    current: Arc<Mutex<HashMap<u64, u64>>>,
    /// The refresh tokens that were redeemed again.
    reused: Arc<Mutex<Vec<String>>>,
}

impl OnceServer {
    fn log_in(&self) -> Credential {
        let mut current = self.current.lock().unwrap();
        let login = current.len() as u64;
        current.insert(login, 0);
        let mut issued = credential();
        issued.details.login_id = login.to_string();
        issued.details.obtained_at = unix_time().as_secs();
        issued.access_token = Secret::new(format!("access.{login}.0"));
        issued.refresh_token = Some(Secret::new(format!("{login}.0")));
        issued
    }

    fn is_current(&self, credential: &Credential) -> bool {
        let token = credential.refresh_token.as_ref().unwrap().expose();
        let (login, number) = token.split_once('.').unwrap();
        self.current.lock().unwrap()[&login.parse().unwrap()].to_string() == number
    }

    fn redeem(&self, token: &str) -> (u16, String) {
        let (login, number) = token.split_once('.').unwrap();
        let (login, number): (u64, u64) = (login.parse().unwrap(), number.parse().unwrap());
        let mut current = self.current.lock().unwrap();
        if current[&login] != number {
            self.reused.lock().unwrap().push(token.to_owned());
            return (400, r#"{"error":"invalid_grant"}"#.to_owned());
        }
        current.insert(login, number + 1);
        let next = number + 1;
        let issued = format!(
            r#"{{"access_token":"access.{login}.{next}","refresh_token":"{login}.{next}","expires_in":3600}}"#
        );
        (200, issued)
    }
}

impl HttpClient for OnceServer {
    fn send(&self, request: http::Request<bytes::Bytes>) -> ResponseFuture<'_> {
        let form = request.into_body();
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(self.random.below(80))).await;
            if self.random.below(5) == 0 {
                return Err(HttpError::unsent("connection refused"));
            }
            let token = url::form_urlencoded::parse(&form).find(|(name, _)| name == "refresh_token");
            let (status, text) = self.redeem(&token.unwrap().1);
            tokio::time::sleep(Duration::from_millis(self.random.below(80))).await;
            let body = http_body_util::Full::new(bytes::Bytes::from(text));
            let body: HttpBody = Box::pin(http_body_util::BodyExt::map_err(body, |never| match never {}));
            let response =
                http::Response::builder().status(status).header("content-type", "application/json");
            Ok(response.body(body).unwrap())
        })
    }
}

/// One thing that a program does, for at most as long as it has patience.
async fn act(source: TokenSource, server: OnceServer, store: FailingStore, random: Random) {
    tokio::time::sleep(Duration::from_millis(random.below(40_000))).await;
    let patience = Duration::from_millis([5, 60, 400, 60_000][random.below(4) as usize]);
    let action = async {
        match random.below(12) {
            0 => drop(source.store_login(server.log_in()).await),
            1 => {
                let Ok((lock, _)) = source.take_lock().await else { return };
                drop(store.delete(&key(), Dialog::Allowed).await);
                source.replace(None);
                drop(lock);
            }
            2 => store.failing_saves.store(random.below(4) as usize, Ordering::SeqCst),
            3..8 => {
                if let Ok(token) = source.token().await {
                    drop(source.token_after_refusal(&token).await);
                }
            }
            _ => drop(source.token().await),
        }
    };
    drop(tokio::time::timeout(patience, action).await);
}

#[tokio::test(start_paused = true)]
async fn no_refresh_token_is_redeemed_twice_whatever_happens_at_once() {
    for seed in 0..60 {
        let random = Random(Arc::new(Mutex::new(seed)));
        let server = OnceServer { random: random.clone(), current: Arc::default(), reused: Arc::default() };
        let store = FailingStore::default();
        // Two processes share a store, and nothing else.
        let source = || {
            let http = OAuthHttp::new(Network::new().client(server.clone()));
            TokenSource::new(super::server(), Arc::new(store.clone()), http, EventHandler::default())
        };
        let sources = [source(), source()];
        sources[0].store_login(server.log_in()).await.unwrap();
        let mut actions = tokio::task::JoinSet::new();
        for number in 0..120 {
            let source = sources[number % 2].clone();
            actions.spawn(act(source, server.clone(), store.clone(), random.clone()));
        }
        actions.join_all().await;
        // The disk has room again.
        store.failing_saves.store(0, Ordering::SeqCst);
        for source in &sources {
            assert!(!source.settle(Duration::from_secs(300)).await, "seed {seed}: a token is not saved");
        }
        assert_eq!(*server.reused.lock().unwrap(), Vec::<String>::new(), "seed {seed}");
        store.lock(&key(), Duration::from_secs(1)).await.unwrap();
        if let Some(text) = store.load(&key(), Dialog::Allowed).await.unwrap() {
            let stored = Credential::from_stored(&text, &super::server()).unwrap();
            assert!(server.is_current(&stored), "seed {seed}: a spent token is stored");
        }
    }
}
