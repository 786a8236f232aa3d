//! The response cache: lists and resources that modern servers allow to be cached.
//!
//! Spec: MCP 2026-07-28, server/utilities/caching.

mod entries;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_protocol::messages::{Method, OwnedBody};

use crate::connection::now;
use crate::connection::subscribers::Change;
use entries::{CacheEntry, Entries, Key};

/// The maximum time that a response is cached, even if its `ttlMs` is longer.
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// A cache for lists and resources that modern servers allow to be cached (`ttlMs`, `cacheScope`). It is kept in memory
/// only.
///
/// Every connection has a cache. If several connections use the same one, they share the responses that a server marks
/// as public; private responses are used only by connections with the same credentials. A change notification evicts
/// the entries that it affects; if changes may have been missed, all entries of the server are evicted. The cache holds
/// at most 1000 entries and 16 MiB, and no entry lives longer than a day. When it is full, entries of the server that
/// takes the most room are evicted first.
///
/// ```
/// use mcp_client::{Cache, McpClient, ServerConfig};
///
/// let cache = Cache::new();
/// let connect = McpClient::builder(ServerConfig::command("weather")).cache(&cache);
/// cache.clear();
/// ```
#[doc(alias = "ttlMs")]
#[doc(alias = "cacheScope")]
#[derive(Clone)]
pub struct Cache(Option<Arc<Mutex<Entries>>>);

/// Shows only the size: entries may be private to other connections.
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
    /// Creates an empty cache.
    #[must_use]
    pub fn new() -> Self {
        Self(Some(Arc::default()))
    }

    /// Creates a cache that stores nothing.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// Removes all entries.
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

/// The part of a cache that one connection may see.
pub(crate) struct CacheView {
    cache: Cache,
    /// The digest of the server config, and the protocol version.
    server: String,
    /// A digest of the credentials of this connection.
    principal: String,
}

impl std::fmt::Debug for CacheView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CacheView").field(&self.cache).finish()
    }
}

/// A request whose response may be cached.
pub(crate) struct CacheableRequest {
    method: &'static str,
    /// The URI of the resource or the cursor of the page; empty for the first page.
    about: String,
    /// The value of the change counter at the time of the request.
    clock: u64,
}

impl CacheView {
    pub(crate) fn new(cache: Cache, server: String, principal: String) -> Self {
        Self { cache, server, principal }
    }

    /// Looks up the response to a request. If it is not in the cache, the `Err` variant is the request, to be passed to
    /// [`keep`](Self::keep) with the response, or `None` if the response must not be cached.
    pub(crate) fn find(&self, method: &Method, about: &str) -> Result<OwnedBody, Option<CacheableRequest>> {
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
        Err(Some(CacheableRequest { method, about: about.to_owned(), clock: entries.clock }))
    }

    /// Stores a response if the server allows it, and nothing has changed since the request was made.
    pub(crate) fn keep(&self, request: CacheableRequest, body: &OwnedBody) {
        let CacheableRequest { method, about, clock } = request;
        let Some(mut entries) = self.cache.lock() else { return };
        if clock < entries.last_change(&self.server) {
            return;
        }
        let whole = body.body();
        let ttl = whole.member("ttlMs").ok().flatten().and_then(|millis| millis.parse::<u64>().ok());
        let Some(time) = ttl.filter(|ttl| *ttl > 0).map(|ttl| Duration::from_millis(ttl).min(MAX_AGE)) else {
            return;
        };
        let is_public = whole.member("cacheScope").ok().flatten() == Some("\"public\"");
        let principal = (!is_public).then(|| self.principal.clone());
        let key = Key { server: self.server.clone(), method, about, principal };
        let now = now();
        let Some(until) = now.checked_add(time) else { return };
        entries.insert(key, CacheEntry { body: body.clone(), until }, now);
    }

    /// Evicts the entries that a change affects.
    pub(crate) fn changed(&self, change: &Change) {
        self.forget(|method, about| match change {
            Change::Tools => method == name_of(&Method::ToolsList),
            Change::Prompts => method == name_of(&Method::PromptsList),
            Change::Resources => {
                method == name_of(&Method::ResourcesList) || method == name_of(&Method::ResourceTemplatesList)
            }
            Change::Resource(uri) => {
                method == name_of(&Method::ResourcesRead)
                    && crate::connection::subscribers::is_part(uri, about)
            }
            Change::Gap => true,
        });
    }

    /// Evicts all pages of a list, because a cursor was refused or a page turned out to be outdated.
    pub(crate) fn drop_pages(&self, list: &Method) {
        self.forget(|method, _| method == name_of(list));
    }

    /// Evicts the entries of this server for which `is_affected` returns true, given their method and their URI or
    /// cursor.
    fn forget(&self, is_affected: impl Fn(&str, &str) -> bool) {
        let Some(mut entries) = self.cache.lock() else { return };
        entries.count_change(&self.server);
        let over: Vec<Key> = entries
            .kept
            .keys()
            .filter(|key| key.server == self.server && is_affected(key.method, &key.about))
            .cloned()
            .collect();
        for key in over {
            entries.remove(&key);
        }
    }
}

/// Returns the name of a method, or `None` if its results must not be cached.
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
