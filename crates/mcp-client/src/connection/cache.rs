//! Lists and resources that modern servers allow to be cached.
//!
//! Spec: MCP 2026-07-28, server/utilities/caching.

mod entries;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_protocol::messages::{KeptBody, Method};

use crate::client::changes::Change;
use crate::connection::now;
use entries::{Entries, Entry, Key};

/// The longest that anything is kept, whatever the server says.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Lists and resources that modern servers allow to be kept for a while.
///
/// Every connection has one. Give the same to several, and they share what a server calls public; what is private stays
/// with whoever asked for it. A change that a server tells of, and one that may have been missed, end what they
/// concern. It is bounded, and nothing is kept longer than a day. When it is full, the server that takes the most room loses
/// entries first.
///
/// ```
/// use mcp_client::{Cache, McpClient, ServerConfig};
///
/// let cache = Cache::new();
/// let connect = McpClient::builder(ServerConfig::command("weather")).cache(&cache);
/// cache.clear();
/// ```
#[derive(Clone)]
pub struct Cache(Option<Arc<Mutex<Entries>>>);

/// How much there is, and nothing of it: some of it is somebody else's.
impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (entries, bytes) = self.lock().map_or((0, 0), |entries| (entries.kept.len(), entries.bytes));
        f.debug_struct("Cache").field("entries", &entries).field("bytes", &bytes).finish()
    }
}

impl Default for Cache {
    fn default() -> Self {
        Self::new()
    }
}

impl Cache {
    /// One that is empty.
    #[must_use]
    pub fn new() -> Self {
        Self(Some(Arc::default()))
    }

    /// One that keeps nothing.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// Forgets everything.
    pub fn clear(&self) {
        if let Some(mut entries) = self.lock() {
            let clock = entries.clock + 1;
            *entries = Entries { clock, oldest_change: clock, ..Entries::default() };
        }
    }

    fn lock(&self) -> Option<MutexGuard<'_, Entries>> {
        Some(self.0.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The part of a cache that is one connection's to see.
pub(crate) struct View {
    cache: Cache,
    /// Where the server is, and in which revision it speaks.
    server: String,
    /// A digest of what says who asks.
    principal: String,
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("View").field(&self.cache).finish()
    }
}

/// A request whose answer may be kept.
pub(crate) struct Wanted {
    method: &'static str,
    about: String,
    /// The clock when the request was made.
    clock: u64,
}

impl View {
    pub(crate) fn new(cache: Cache, server: String, principal: String) -> Self {
        Self { cache, server, principal }
    }

    /// What answers a request, or what is to be kept.
    pub(crate) fn find(&self, method: &Method, about: &str) -> Result<KeptBody, Option<Wanted>> {
        let Some(method) = name(method) else { return Err(None) };
        let Some(mut entries) = self.cache.lock() else { return Err(None) };
        let now = now();
        for principal in [Some(self.principal.clone()), None] {
            let key = Key { server: self.server.clone(), method, about: about.to_owned(), principal };
            match entries.kept.get(&key) {
                Some(entry) if now < entry.until => return Ok(entry.body.clone()),
                Some(_) => entries.remove(&key),
                None => {}
            }
        }
        Err(Some(Wanted { method, about: about.to_owned(), clock: entries.clock }))
    }

    /// Keeps an answer, if the server allows it.
    pub(crate) fn keep(&self, wanted: Wanted, body: &KeptBody) {
        let Wanted { method, about, clock } = wanted;
        let Some(mut entries) = self.cache.lock() else { return };
        if clock < entries.last_change(&self.server) {
            return;
        }
        let whole = body.body();
        let ttl = whole.member("ttlMs").ok().flatten().and_then(|millis| millis.parse::<u64>().ok());
        let Some(time) = ttl.filter(|ttl| *ttl > 0).map(|ttl| Duration::from_millis(ttl).min(LONGEST)) else {
            return;
        };
        let is_public = whole.member("cacheScope").ok().flatten() == Some("\"public\"");
        let principal = (!is_public).then(|| self.principal.clone());
        let key = Key { server: self.server.clone(), method, about, principal };
        let now = now();
        let Some(until) = now.checked_add(time) else { return };
        entries.insert(key, Entry { body: body.clone(), until }, now);
    }

    /// Something on the server changed.
    pub(crate) fn changed(&self, change: &Change) {
        self.forget(|method, about| match change {
            Change::Tools => method == name_of(&Method::ToolsList),
            Change::Prompts => method == name_of(&Method::PromptsList),
            Change::Resources => {
                method == name_of(&Method::ResourcesList) || method == name_of(&Method::ResourceTemplatesList)
            }
            Change::Resource(uri) => {
                method == name_of(&Method::ResourcesRead) && crate::client::changes::is_part(uri, about)
            }
            Change::Gap => true,
        });
    }

    /// A list is not what it was: a cursor was refused, or what stands in it proved wrong.
    pub(crate) fn drop_pages(&self, list: &Method) {
        self.forget(|method, _| method == name_of(list));
    }

    fn forget(&self, is_over: impl Fn(&str, &str) -> bool) {
        let Some(mut entries) = self.cache.lock() else { return };
        entries.count_change(&self.server);
        let over: Vec<Key> = entries
            .kept
            .keys()
            .filter(|key| key.server == self.server && is_over(key.method, &key.about))
            .cloned()
            .collect();
        for key in over {
            entries.remove(&key);
        }
    }
}

/// The methods whose results may be kept.
fn name(method: &Method) -> Option<&'static str> {
    Some(match method {
        Method::ToolsList => "tools/list",
        Method::PromptsList => "prompts/list",
        Method::ResourcesList => "resources/list",
        Method::ResourceTemplatesList => "resources/templates/list",
        Method::ResourcesRead => "resources/read",
        _ => return None,
    })
}

fn name_of(method: &Method) -> &'static str {
    name(method).unwrap_or_default()
}
