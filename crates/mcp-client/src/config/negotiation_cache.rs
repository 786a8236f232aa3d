//! A cache of negotiation results, for later connections to the same servers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mcp_protocol::Era;
use mcp_protocol::fingerprint::fingerprint;
use mcp_protocol::negotiation::{NegotiationResult, ServerResponse};

use crate::config::server_config::{CommandTarget, ServerConfig, Target, UrlTarget};
use crate::error::{Error, Result};

/// The lifetime of a legacy result. Without a limit, a server that was upgraded would be treated as legacy forever.
const LEGACY_LIFE: Duration = Duration::from_secs(24 * 60 * 60);
/// The maximum lifetime that a modern server can request.
const MAX_MODERN_LIFE: Duration = Duration::from_secs(24 * 60 * 60);
/// The maximum number of servers. If there are more, the result that expires first is removed.
const MAX_SERVERS: usize = 1000;

/// A cache of the era of each known server, so that a legacy server is not probed again at every connection.
///
/// Share one cache between all connections. To keep it across restarts of the host, store [`to_text`](Self::to_text).
/// If a cached result turns out to be wrong, the era is negotiated again. Servers are identified by a hash of their
/// config, which does not reveal the config.
///
/// ```
/// use mcp_client::{McpClient, ServerConfig, NegotiationCache};
///
/// let negotiation_cache = NegotiationCache::from_text("")?;
/// let connect = McpClient::builder(ServerConfig::command("weather")).negotiation_cache(&negotiation_cache);
/// assert_eq!(negotiation_cache.to_text(), "");
/// # Ok::<(), mcp_client::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct NegotiationCache(Arc<Mutex<BTreeMap<String, CachedEra>>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CachedEra {
    era: Era,
    /// The time at which the result expires, in seconds since the Unix epoch.
    until: u64,
}

impl NegotiationCache {
    /// Creates an empty cache.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses text that [`to_text`](Self::to_text) returned.
    ///
    /// # Errors
    /// [`Error::InvalidCache`] if a line is invalid.
    pub fn from_text(text: &str) -> Result<Self> {
        let negotiation_cache = Self::default();
        for (number, line) in text.lines().enumerate() {
            let mut words = line.split(' ');
            let era = match words.next() {
                Some("legacy") => Some(Era::Legacy),
                Some("modern") => Some(Era::Modern),
                _ => None,
            };
            let until = words.next().and_then(|until| until.parse().ok());
            let digest = words.next().filter(|digest| digest.len() == 64);
            let (Some(era), Some(until), Some(digest), None) = (era, until, digest, words.next()) else {
                return Err(Error::InvalidCache { line: number + 1 });
            };
            negotiation_cache.insert(digest.to_owned(), CachedEra { era, until });
        }
        Ok(negotiation_cache)
    }

    /// Returns all results as text, one line each.
    #[must_use]
    pub fn to_text(&self) -> String {
        let line = |(digest, kept): (&String, &CachedEra)| {
            let era = if kept.era == Era::Legacy { "legacy" } else { "modern" };
            format!("{era} {} {digest}\n", kept.until)
        };
        self.lock().iter().map(line).collect()
    }

    /// Removes the negotiation result of a server.
    pub fn forget(&self, config: impl Into<ServerConfig>) {
        self.remove(&config.into().target.digest());
    }

    pub(crate) fn remove(&self, digest: &str) {
        self.lock().remove(digest);
    }

    /// Returns the era of the server with this digest, or `None` if it is unknown or the result has expired.
    pub(crate) fn era(&self, digest: &str, now: SystemTime) -> Option<Era> {
        let kept = self.lock().get(digest).copied()?;
        (seconds(now) < kept.until).then_some(kept.era)
    }

    /// Stores a negotiation result. If it must not be cached, removes the stored result of the server.
    pub(crate) fn keep(&self, digest: &str, negotiation: &NegotiationResult, now: SystemTime) {
        let life = match &negotiation.server {
            _ if !negotiation.is_cacheable => return self.remove(digest),
            ServerResponse::Discover(result) => {
                Duration::from_millis(result.ttl_ms.map_or(0, |ttl| ttl.0)).min(MAX_MODERN_LIFE)
            }
            _ => LEGACY_LIFE,
        };
        self.insert(
            digest.to_owned(),
            CachedEra { era: negotiation.era(), until: seconds(now) + life.as_secs() },
        );
    }

    fn insert(&self, digest: String, kept: CachedEra) {
        let mut all = self.lock();
        all.insert(digest, kept);
        while all.len() > MAX_SERVERS {
            let Some(first) = all.iter().min_by_key(|(_, kept)| kept.until).map(|(digest, _)| digest.clone())
            else {
                break;
            };
            all.remove(&first);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, CachedEra>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Hashes that identify a server: equal targets have equal hashes, and a hash does not reveal its target.
impl Target {
    pub(crate) fn digest(&self) -> String {
        match self {
            Self::Command(command) => command.digest(),
            Self::Url(url) => url.digest(),
        }
    }
}

impl UrlTarget {
    pub(crate) fn digest(&self) -> String {
        fingerprint(["url".as_bytes().to_vec(), self.url.as_bytes().to_vec()])
    }
}

impl CommandTarget {
    /// Returns the hash. It includes the values of environment variables: a server may behave differently with others.
    pub(crate) fn digest(&self) -> String {
        let folder = self.directory.as_ref().map(|folder| folder.as_os_str());
        let environment =
            self.environment.iter().flat_map(|(name, value)| [name.as_os_str(), value.as_os_str()]);
        let counts = [self.arguments.len(), self.environment.len()].map(|count| count.to_string());
        let parts = std::iter::once(self.program.as_os_str())
            .chain(self.arguments.iter().map(std::ffi::OsString::as_os_str))
            .chain(environment)
            .chain(folder);
        let parts = parts.map(|part| part.as_encoded_bytes().to_vec());
        fingerprint(counts.iter().map(|count| count.as_bytes().to_vec()).chain(parts))
    }
}

#[cfg(test)]
mod tests {
    use mcp_protocol::capabilities::{Implementation, ServerCapabilities};
    use mcp_protocol::messages::InitializeResult;
    use mcp_protocol::negotiation::{NegotiationOptions, StdioAction, StdioClientNegotiation};

    use super::*;

    fn legacy(is_cacheable: bool) -> NegotiationResult {
        let now = std::time::Instant::now();
        let options = NegotiationOptions::default().mode(mcp_protocol::negotiation::Mode::Legacy);
        let mut machine = StdioClientNegotiation::new(options, mcp_protocol::Limits::default(), now);
        let Some(StdioAction::Initialize { id, version }) = machine.poll_action() else { panic!() };
        let result = InitializeResult::new(version, ServerCapabilities::new(), Implementation::new("x", "1"));
        let mut line = Vec::new();
        mcp_protocol::messages::write::response(&mut line, &id, &result).unwrap();
        let parsed = mcp_protocol::messages::parse_bytes(&line, &mcp_protocol::Limits::default()).unwrap();
        let mcp_protocol::messages::Incoming::Message(message) = parsed else { panic!() };
        machine.handle_message(&message, now);
        assert_eq!(machine.poll_action(), Some(StdioAction::Initialized));
        let Some(StdioAction::Succeeded(mut negotiation)) = machine.poll_action() else { panic!() };
        negotiation.is_cacheable = is_cacheable;
        *negotiation
    }

    #[test]
    fn legacy_result_expires_after_a_day_and_a_guess_is_not_kept() {
        let (negotiation_cache, digest) =
            (NegotiationCache::new(), ServerConfig::command("x").env("KEY", "hush-hush").target.digest());
        let now = SystemTime::now();
        negotiation_cache.keep(&digest, &legacy(true), now);
        assert_eq!(
            negotiation_cache.era(&digest, now + LEGACY_LIFE - Duration::from_secs(1)),
            Some(Era::Legacy)
        );
        assert_eq!(negotiation_cache.era(&digest, now + LEGACY_LIFE), None);
        assert_eq!(
            negotiation_cache.era(&ServerConfig::command("x").target.digest(), now),
            None,
            "another server"
        );
        negotiation_cache.keep(
            &ServerConfig::url("http://a/1").header("x", "y").target.digest(),
            &legacy(true),
            now,
        );
        assert_eq!(
            negotiation_cache.era(&ServerConfig::url("http://a/1").target.digest(), now),
            Some(Era::Legacy)
        );
        assert_eq!(
            negotiation_cache.era(&ServerConfig::url("http://a/2").target.digest(), now),
            None,
            "another URL"
        );
        negotiation_cache.keep(&digest, &legacy(false), now);
        assert_eq!(negotiation_cache.era(&digest, now), None);
    }

    #[test]
    fn cache_text_round_trips_and_contains_no_secret() {
        let (negotiation_cache, digest) =
            (NegotiationCache::new(), ServerConfig::command("x").env("KEY", "hush-hush").target.digest());
        negotiation_cache.keep(&digest, &legacy(true), SystemTime::now());
        let text = negotiation_cache.to_text();
        assert!(text.starts_with("legacy ") && !text.contains("hush"));
        assert_eq!(NegotiationCache::from_text(&text).unwrap().to_text(), text);
        for wrong in ["legacy", "future 1 x", "legacy x y", "legacy 1 short"] {
            assert!(
                matches!(NegotiationCache::from_text(wrong), Err(Error::InvalidCache { line: 1 })),
                "{wrong}"
            );
        }
    }

    #[test]
    fn number_of_cached_servers_is_bounded() {
        let negotiation_cache = NegotiationCache::new();
        for number in 0..MAX_SERVERS + 10 {
            let now = UNIX_EPOCH + Duration::from_secs(number as u64);
            negotiation_cache.keep(
                &ServerConfig::command(number.to_string()).target.digest(),
                &legacy(true),
                now,
            );
        }
        assert_eq!(negotiation_cache.to_text().lines().count(), MAX_SERVERS);
        assert_eq!(negotiation_cache.era(&ServerConfig::command("0").target.digest(), UNIX_EPOCH), None);
    }
}
