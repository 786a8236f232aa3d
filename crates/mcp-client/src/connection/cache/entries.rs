//! The entries of a cache, their limits, and the order in which they are evicted.

use std::collections::BTreeMap;
use std::time::Instant;

use mcp_protocol::messages::OwnedBody;

/// The maximum number of entries.
pub(super) const MAX_ENTRIES: usize = 1000;
/// The maximum number of bytes of all entries together.
pub(super) const MAX_BYTES: usize = 16 << 20;
/// The maximum number of servers for which the last change is recorded separately.
pub(super) const MAX_CHANGED_SERVERS: usize = 1000;

#[derive(Default)]
pub(super) struct Entries {
    pub(super) kept: BTreeMap<Key, CacheEntry>,
    pub(super) bytes: usize,
    /// The number of changes of all servers so far. A response that was in flight during a change of its server is not
    /// stored.
    pub(super) clock: u64,
    /// The value of `clock` at the last change of each server.
    pub(super) last_changes: BTreeMap<String, u64>,
    /// For all servers that are not in `last_changes`: a value of `clock` at or after their last change.
    pub(super) oldest_change: u64,
}

/// The key of an entry: server, request and principal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) server: String,
    pub(super) method: &'static str,
    /// A URI or a cursor.
    pub(super) about: String,
    /// A digest of the credentials of the request; `None` for a public response.
    pub(super) principal: Option<String>,
}

pub(super) struct CacheEntry {
    pub(super) body: OwnedBody,
    pub(super) until: Instant,
}

impl Entries {
    pub(super) fn last_change(&self, server: &str) -> u64 {
        self.last_changes.get(server).copied().unwrap_or(self.oldest_change)
    }

    pub(super) fn count_change(&mut self, server: &str) {
        self.clock += 1;
        self.last_changes.insert(server.to_owned(), self.clock);
        if self.last_changes.len() > MAX_CHANGED_SERVERS
            && let Some(oldest) =
                self.last_changes.iter().min_by_key(|(_, at)| **at).map(|(name, _)| name.clone())
            && let Some(at) = self.last_changes.remove(&oldest)
        {
            self.oldest_change = at;
        }
    }

    pub(super) fn insert(&mut self, key: Key, entry: CacheEntry, now: Instant) {
        let size = size(&key, &entry);
        if size > MAX_BYTES / 4 {
            return;
        }
        self.remove(&key);
        self.bytes += size;
        self.kept.insert(key, entry);
        if self.kept.len() > MAX_ENTRIES || self.bytes > MAX_BYTES {
            let over: Vec<Key> = self
                .kept
                .iter()
                .filter(|(_, entry)| entry.until <= now)
                .map(|(key, _)| key.clone())
                .collect();
            over.iter().for_each(|key| self.remove(key));
        }
        while self.kept.len() > MAX_ENTRIES || self.bytes > MAX_BYTES {
            let Some(first) = self.first_to_evict() else { return };
            self.remove(&first);
        }
    }

    /// Returns the entry to evict next: the entry that expires first of the server that takes the most room. If the
    /// choice were by expiry alone, one server could displace the entries of all others with long-lived ones.
    fn first_to_evict(&self) -> Option<Key> {
        let counts_bytes = self.bytes > MAX_BYTES;
        let mut held: BTreeMap<&str, usize> = BTreeMap::new();
        for (key, entry) in &self.kept {
            *held.entry(&key.server).or_default() += if counts_bytes { size(key, entry) } else { 1 };
        }
        let (largest, _) = held.into_iter().max_by_key(|(_, held)| *held)?;
        let its = self.kept.iter().filter(|(key, _)| key.server == largest);
        its.min_by_key(|(_, entry)| entry.until).map(|(key, _)| key.clone())
    }

    pub(super) fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.kept.remove(key) {
            self.bytes -= size(key, &entry);
        }
    }
}

/// Returns the number of bytes of an entry, including its key: a server may choose a cursor that is longer than the
/// page.
pub(super) fn size(key: &Key, entry: &CacheEntry) -> usize {
    let principal = key.principal.as_ref().map_or(0, String::len);
    key.server.len() + key.about.len() + principal + entry.body.text().len()
}
