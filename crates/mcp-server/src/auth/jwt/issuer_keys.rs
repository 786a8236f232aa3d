//! Where the keys of an issuer come from: given by the program, or fetched when they are needed.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_protocol::oauth::key_refresh::{KeyRefresh, KeyStep};
use mcp_protocol::oauth::well_known;
use serde::Deserialize;
use tokio::time::{Instant, timeout};

use super::keys::{Jwks, MAX_BYTES};
use super::signature::{JwtAlgorithm, PublicKey};
use crate::auth::verifier::Rejection;
use crate::call::BoxFuture;

/// The time limit for fetching the keys.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

type Get = dyn Fn(String) -> BoxFuture<Result<String, String>> + Send + Sync;

pub(super) enum IssuerKeys {
    Fixed(Arc<Jwks>),
    Fetched(Box<FetchedKeys>),
}

/// Keys that are fetched when they are needed.
pub(super) struct FetchedKeys {
    get: Arc<Get>,
    /// The address of the keys, if the program gave it.
    pub(super) url: Option<String>,
    state: Mutex<KeyState>,
    /// The fetch that is in progress. It stays here if the request that polls it is dropped, and the next request
    /// continues it, so that clients that disconnect cause no further fetches.
    fetching: tokio::sync::Mutex<Option<Fetching>>,
}

struct Fetching {
    since: Instant,
    keys: BoxFuture<Result<Jwks, String>>,
}

#[derive(Default)]
struct KeyState {
    keys: Option<Arc<Jwks>>,
    refresh: KeyRefresh,
    /// Incremented when the keys change.
    generation: u64,
    /// Why the last fetch failed.
    problem: String,
}

/// Creates a source that fetches the keys with `get`.
pub(super) fn fetched<F, Fut, B, E>(get: F) -> FetchedKeys
where
    F: Fn(String) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<B, E>> + Send + 'static,
    B: AsRef<[u8]>,
    E: fmt::Display,
{
    let get = move |url: String| -> BoxFuture<Result<String, String>> {
        let (shown, body) = (url.clone(), get(url));
        Box::pin(async move {
            let body = body.await.map_err(|error| format!("{shown}: {error}"))?;
            let body = body.as_ref();
            if body.len() > MAX_BYTES {
                return Err(format!("{shown}: {} bytes, limit {MAX_BYTES}", body.len()));
            }
            String::from_utf8(body.to_vec()).map_err(|_| format!("{shown}: not UTF-8"))
        })
    };
    FetchedKeys {
        get: Arc::new(get),
        url: None,
        state: Mutex::default(),
        fetching: tokio::sync::Mutex::default(),
    }
}

impl IssuerKeys {
    /// Returns a number that changes with the keys.
    pub(super) fn generation(&self) -> u64 {
        match self {
            Self::Fixed(_) => 0,
            Self::Fetched(fetched) => fetched.lock().generation,
        }
    }

    /// Returns true if the keys can be used without fetching them again.
    pub(super) fn are_current(&self) -> bool {
        match self {
            Self::Fixed(_) => true,
            Self::Fetched(fetched) => {
                fetched.lock().refresh.step(true, Instant::now().into_std()) == KeyStep::Use
            }
        }
    }

    /// Returns the key of a token. Fetches the keys if necessary.
    pub(super) async fn find(
        &self,
        issuer: &str,
        id: Option<&str>,
        algorithm: JwtAlgorithm,
    ) -> Result<Arc<PublicKey>, Rejection> {
        match self {
            Self::Fixed(keys) => keys.find(id, algorithm)?.ok_or_else(unknown_key),
            Self::Fetched(fetched) => fetched.find(issuer, id, algorithm).await,
        }
    }
}

fn unknown_key() -> Rejection {
    Rejection::Invalid("the issuer does not have the key of the token".to_owned())
}

impl FetchedKeys {
    async fn find(
        &self,
        issuer: &str,
        id: Option<&str>,
        algorithm: JwtAlgorithm,
    ) -> Result<Arc<PublicKey>, Rejection> {
        let mut fetching = match self.decide(id, algorithm)? {
            (Some(key), KeyStep::Use) => return Ok(key),
            // The key is known but old: only one request waits for newer keys.
            (Some(key), _) => match self.fetching.try_lock() {
                Ok(fetching) => fetching,
                Err(_) => return Ok(key),
            },
            (None, _) => self.fetching.lock().await,
        };
        loop {
            // Decided again, because another request may have fetched the keys meanwhile.
            if let (Some(key), KeyStep::Use) = self.decide(id, algorithm)? {
                return Ok(key);
            }
            // One that nobody continued in time has lost its connection.
            if fetching.as_ref().is_some_and(|fetching| fetching.since.elapsed() >= FETCH_TIMEOUT) {
                *fetching = None;
            }
            let current = fetching.get_or_insert_with(|| self.begin(issuer));
            let left = FETCH_TIMEOUT.saturating_sub(current.since.elapsed());
            let fetched = timeout(left, &mut current.keys).await;
            *fetching = None;
            self.handle(fetched.unwrap_or_else(|_| Err(format!("no answer within {FETCH_TIMEOUT:?}"))));
        }
    }

    /// Returns the key, if it is known, and whether to use it or to fetch the keys first.
    fn decide(
        &self,
        id: Option<&str>,
        algorithm: JwtAlgorithm,
    ) -> Result<(Option<Arc<PublicKey>>, KeyStep), Rejection> {
        let state = self.lock();
        let key = match &state.keys {
            Some(keys) => keys.find(id, algorithm)?,
            None => None,
        };
        match state.refresh.step(key.is_some(), Instant::now().into_std()) {
            step @ (KeyStep::Use | KeyStep::Fetch) => Ok((key, step)),
            KeyStep::Unknown => Err(unknown_key()),
            KeyStep::Unavailable => Err(Rejection::Unavailable(format!(
                "the keys of the issuer are not available: {}",
                state.problem
            ))),
        }
    }

    fn begin(&self, issuer: &str) -> Fetching {
        let (get, issuer, url) = (Arc::clone(&self.get), issuer.to_owned(), self.url.clone());
        Fetching { since: Instant::now(), keys: Box::pin(async move { fetch(&*get, &issuer, url).await }) }
    }

    /// Stores the result of a fetch.
    fn handle(&self, fetched: Result<Jwks, String>) {
        let mut state = self.lock();
        state.refresh.handle_attempt(Instant::now().into_std(), fetched.is_ok());
        match fetched {
            Ok(keys) => {
                if state.keys.as_deref() != Some(&keys) {
                    state.generation += 1;
                    state.keys = Some(Arc::new(keys));
                }
            }
            Err(problem) => {
                tracing::warn!(%problem, "the keys of the issuer could not be fetched");
                state.problem = problem;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, KeyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part of the metadata of an issuer that is needed here.
#[derive(Deserialize)]
struct IssuerMetadata {
    issuer: String,
    jwks_uri: Option<String>,
}

/// Fetches the keys, and first their address unless it is known.
async fn fetch(get: &Get, issuer: &str, url: Option<String>) -> Result<Jwks, String> {
    let url = match url {
        Some(url) => url,
        None => find_url(get, issuer).await?,
    };
    let body = get(url.clone()).await?;
    Jwks::from_json(&body).map_err(|error| format!("{url}: {error}"))
}

/// Returns the address of the keys from the metadata of an issuer.
async fn find_url(get: &Get, issuer: &str) -> Result<String, String> {
    let places = well_known::issuer_metadata(issuer)
        .ok_or_else(|| format!("`{issuer}` is not the URL of an issuer"))?;
    let mut problems = Vec::new();
    for place in places {
        let metadata = get(place.clone()).await.and_then(|body| {
            serde_json::from_str::<IssuerMetadata>(&body).map_err(|error| format!("{place}: {error}"))
        });
        match metadata {
            Ok(metadata) if metadata.issuer != issuer => {
                return Err(format!("{place} is the metadata of `{}`, not of `{issuer}`", metadata.issuer));
            }
            Ok(metadata) => {
                return metadata
                    .jwks_uri
                    .ok_or_else(|| format!("{place} does not say where the keys are (`jwks_uri`)"));
            }
            Err(problem) => problems.push(problem),
        }
    }
    Err(problems.join("; "))
}
