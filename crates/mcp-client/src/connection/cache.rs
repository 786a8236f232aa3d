//! Lists and resources that modern servers allow to be cached.
//!
//! Spec: MCP 2026-07-28, server/utilities/caching.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mcp_protocol::messages::{KeptBody, Method};

use crate::connection::now;
use crate::connection::subscribers::Change;

/// The longest that anything is kept, whatever the server says.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// The most entries.
const ENTRIES: usize = 1000;
/// The most bytes.
const BYTES: usize = 16 << 20;
/// For how many servers the time of their last change is kept apart.
const MAX_CHANGED_SERVERS: usize = 1000;

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

#[derive(Default)]
struct Entries {
    kept: BTreeMap<Key, Entry>,
    bytes: usize,
    /// Counts the changes of all servers, as a clock: an answer that was in flight during a change is not kept.
    clock: u64,
    /// The clock at the last change of each server.
    last_changes: BTreeMap<String, u64>,
    /// The clock at the last change of every server that is not in `last_changes`, or later.
    oldest_change: u64,
}

/// Who said what to whom.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    server: String,
    method: &'static str,
    /// A URI or a cursor.
    about: String,
    /// A digest of who asked; `None` if it is for everybody.
    principal: Option<String>,
}

struct Entry {
    body: KeptBody,
    until: Instant,
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
                method == name_of(&Method::ResourcesRead)
                    && crate::connection::subscribers::is_part(uri, about)
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

impl Entries {
    fn last_change(&self, server: &str) -> u64 {
        self.last_changes.get(server).copied().unwrap_or(self.oldest_change)
    }

    fn count_change(&mut self, server: &str) {
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

    fn insert(&mut self, key: Key, entry: Entry, now: Instant) {
        let size = size(&key, &entry);
        if size > BYTES / 4 {
            return;
        }
        self.remove(&key);
        self.bytes += size;
        self.kept.insert(key, entry);
        if self.kept.len() > ENTRIES || self.bytes > BYTES {
            let over: Vec<Key> = self
                .kept
                .iter()
                .filter(|(_, entry)| entry.until <= now)
                .map(|(key, _)| key.clone())
                .collect();
            over.iter().for_each(|key| self.remove(key));
        }
        while self.kept.len() > ENTRIES || self.bytes > BYTES {
            let Some(first) = self.first_to_evict() else { return };
            self.remove(&first);
        }
    }

    /// The entry that expires first, of the server that takes most of what is short. Long-lived entries of one server must not
    /// displace those of all others.
    fn first_to_evict(&self) -> Option<Key> {
        let counts_bytes = self.bytes > BYTES;
        let mut held: BTreeMap<&str, usize> = BTreeMap::new();
        for (key, entry) in &self.kept {
            *held.entry(&key.server).or_default() += if counts_bytes { size(key, entry) } else { 1 };
        }
        let (largest, _) = held.into_iter().max_by_key(|(_, held)| *held)?;
        let its = self.kept.iter().filter(|(key, _)| key.server == largest);
        its.min_by_key(|(_, entry)| entry.until).map(|(key, _)| key.clone())
    }

    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.kept.remove(key) {
            self.bytes -= size(key, &entry);
        }
    }
}

/// What an entry takes. A cursor is the server's to choose, and may be longer than what it leads to.
fn size(key: &Key, entry: &Entry) -> usize {
    let principal = key.principal.as_ref().map_or(0, String::len);
    key.server.len() + key.about.len() + principal + entry.body.text().len()
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

#[cfg(test)]
mod tests {
    use mcp_protocol::messages::Body;

    use super::*;

    fn body(ttl: &str, scope: &str) -> KeptBody {
        Body::of(&format!(r#"{{"ttlMs":{ttl},"cacheScope":"{scope}"}}"#)).unwrap().keep()
    }

    fn view(cache: &Cache, server: &str, principal: &str) -> View {
        View::new(cache.clone(), server.to_owned(), principal.to_owned())
    }

    fn keep(view: &View, method: &Method, about: &str, body: &KeptBody) {
        let Err(Some(wanted)) = view.find(method, about) else { panic!() };
        view.keep(wanted, body);
    }

    fn has(view: &View, method: &Method, about: &str) -> bool {
        view.find(method, about).is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn response_is_fresh_for_its_ttl_but_at_most_one_day() {
        let view = view(&Cache::new(), "a", "me");
        for (ttl, seconds) in [("1000", 1), ("999999999999", 86400)] {
            keep(&view, &Method::ToolsList, "", &body(ttl, "private"));
            tokio::time::advance(Duration::from_secs(seconds) - Duration::from_millis(1)).await;
            assert!(has(&view, &Method::ToolsList, ""), "{ttl}");
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(!has(&view, &Method::ToolsList, ""), "{ttl}");
        }
        for ttl in ["0", "-5", "1.5", "null"] {
            keep(&view, &Method::ToolsList, "", &body(ttl, "private"));
            assert!(!has(&view, &Method::ToolsList, ""), "{ttl}");
        }
        assert!(matches!(view.find(&Method::ToolsCall, ""), Err(None)), "a call is never kept");
    }

    #[tokio::test]
    async fn private_responses_are_not_shared_between_principals() {
        let cache = Cache::new();
        let (me, you, elsewhere) =
            (view(&cache, "a", "me"), view(&cache, "a", "you"), view(&cache, "b", "me"));
        keep(&me, &Method::ToolsList, "", &body("5000", "private"));
        keep(&me, &Method::PromptsList, "", &body("5000", "public"));
        // What says nothing clear is private.
        keep(&me, &Method::ResourcesList, "", &body("5000", "Public"));
        assert!(has(&me, &Method::ToolsList, "") && !has(&you, &Method::ToolsList, ""));
        assert!(has(&you, &Method::PromptsList, "") && !has(&you, &Method::ResourcesList, ""));
        assert!(!has(&elsewhere, &Method::PromptsList, ""));
        assert!(!has(&me, &Method::ToolsList, "page 2"));
    }

    #[tokio::test]
    async fn debug_output_does_not_show_cached_responses() {
        let cache = Cache::new();
        keep(&view(&cache, "a", "me"), &Method::ResourcesRead, "note://diary", &body("5000", "private"));
        let shown = format!("{cache:?} {:?}", view(&cache, "a", "you"));
        assert!(shown.contains("entries: 1"), "{shown}");
        assert!(!shown.contains("diary") && !shown.contains("ttlMs") && !shown.contains("me"), "{shown}");
    }

    #[tokio::test]
    async fn cursors_count_towards_the_byte_limit() {
        let cache = Cache::new();
        let view = view(&cache, "a", "me");
        for number in 0..100 {
            let cursor = format!("{number}{}", "x".repeat(1 << 20));
            keep(&view, &Method::ToolsList, &cursor, &body("5000", "private"));
        }
        let entries = cache.lock().unwrap();
        let held: usize = entries.kept.keys().map(|key| key.about.len()).sum();
        assert!(held <= BYTES && entries.kept.len() < 17, "{held}");
    }

    #[tokio::test]
    async fn change_evicts_matching_entries_and_discards_older_responses() {
        let cache = Cache::new();
        let view = view(&cache, "a", "me");
        let all = || {
            cache.clear();
            for (method, about) in [
                (Method::ToolsList, ""),
                (Method::ToolsList, "page 2"),
                (Method::PromptsList, ""),
                (Method::ResourcesList, ""),
                (Method::ResourceTemplatesList, ""),
                (Method::ResourcesRead, "a:b"),
                (Method::ResourcesRead, "a:c"),
            ] {
                keep(&view, &method, about, &body("5000", "private"));
            }
        };
        let left = || cache.lock().unwrap().kept.len();
        for (change, count) in [
            (Change::Tools, 5),
            (Change::Prompts, 6),
            (Change::Resources, 5),
            (Change::Resource("a:b".to_owned()), 6),
            (Change::Gap, 0),
        ] {
            all();
            view.changed(&change);
            assert_eq!(left(), count, "{change:?}");
        }
        all();
        view.drop_pages(&Method::ToolsList);
        assert_eq!(left(), 5);
        let Err(Some(wanted)) = view.find(&Method::ToolsList, "") else { panic!() };
        view.changed(&Change::Tools);
        view.keep(wanted, &body("5000", "private"));
        assert!(!has(&view, &Method::ToolsList, ""), "it was older than the change");
        // Somebody else may have been told.
        let other = super::View::new(cache.clone(), "a".to_owned(), "me".to_owned());
        let Err(Some(wanted)) = view.find(&Method::ToolsList, "") else { panic!() };
        other.changed(&Change::Tools);
        view.keep(wanted, &body("5000", "private"));
        assert!(!has(&view, &Method::ToolsList, ""), "it was older than the change that another was told of");
        let none = super::View::new(Cache::none(), "a".to_owned(), "me".to_owned());
        assert!(matches!(none.find(&Method::ToolsList, ""), Err(None)));
    }

    #[tokio::test]
    async fn cache_is_bounded_in_entries_and_bytes() {
        let cache = Cache::new();
        let view = view(&cache, "a", "me");
        for number in 0..ENTRIES + 10 {
            keep(&view, &Method::ResourcesRead, &number.to_string(), &body("5000", "private"));
        }
        let long = format!(r#"{{"ttlMs":5000,"x":"{}"}}"#, "x".repeat(BYTES / 5));
        for number in 0..10 {
            let body = Body::of(&long).unwrap().keep();
            keep(&view, &Method::ResourcesRead, &format!("long {number}"), &body);
        }
        let entries = cache.lock().unwrap();
        assert!(entries.kept.len() <= ENTRIES && entries.bytes <= BYTES);
        assert_eq!(entries.bytes, entries.kept.iter().map(|(key, entry)| size(key, entry)).sum::<usize>());
    }

    #[tokio::test]
    async fn changes_of_one_server_do_not_keep_out_answers_of_another() {
        let cache = Cache::new();
        let (noisy, quiet) = (view(&cache, "noisy", "me"), view(&cache, "quiet", "me"));
        let Err(Some(wanted)) = quiet.find(&Method::ToolsList, "") else { panic!() };
        for _ in 0..10 {
            noisy.changed(&Change::Tools);
        }
        quiet.keep(wanted, &body("5000", "private"));
        assert!(has(&quiet, &Method::ToolsList, ""));
        // Forgetting everything is for all of them.
        let Err(Some(wanted)) = quiet.find(&Method::PromptsList, "") else { panic!() };
        cache.clear();
        quiet.keep(wanted, &body("5000", "private"));
        assert!(!has(&quiet, &Method::PromptsList, ""));
    }

    #[tokio::test]
    async fn changes_are_counted_for_a_bounded_number_of_servers() {
        let cache = Cache::new();
        let first = view(&cache, "first", "me");
        let Err(Some(wanted)) = first.find(&Method::ToolsList, "") else { panic!() };
        first.changed(&Change::Tools);
        for number in 0..2 * MAX_CHANGED_SERVERS {
            view(&cache, &number.to_string(), "me").changed(&Change::Tools);
        }
        assert_eq!(cache.lock().unwrap().last_changes.len(), MAX_CHANGED_SERVERS);
        first.keep(wanted, &body("5000", "private"));
        assert!(!has(&first, &Method::ToolsList, ""), "its change is not forgotten");
        keep(&first, &Method::ToolsList, "", &body("5000", "private"));
        assert!(has(&first, &Method::ToolsList, ""));
    }

    #[tokio::test]
    async fn server_that_fills_the_cache_does_not_displace_others() {
        let cache = Cache::new();
        let (greedy, modest) = (view(&cache, "greedy", "me"), view(&cache, "modest", "me"));
        let text = |ttl: u64, bytes: usize| {
            let padding = "x".repeat(bytes);
            Body::of(&format!(r#"{{"ttlMs":{ttl},"p":"{padding}"}}"#)).unwrap().keep()
        };
        for page in 0..4 {
            keep(&greedy, &Method::ToolsList, &page.to_string(), &text(u64::MAX, BYTES / 4 - 100));
        }
        for number in 0..100 {
            keep(&modest, &Method::ResourcesRead, &number.to_string(), &text(600_000, 1000));
        }
        let kept = |view: &View, method, count: u32| {
            (0..count).filter(|number| has(view, method, &number.to_string())).count()
        };
        assert_eq!(kept(&modest, &Method::ResourcesRead, 100), 100);
        assert_eq!(kept(&greedy, &Method::ToolsList, 4), 3);
    }

    #[tokio::test]
    async fn many_small_entries_of_one_server_do_not_displace_others() {
        let cache = Cache::new();
        let (greedy, modest) = (view(&cache, "greedy", "me"), view(&cache, "modest", "me"));
        let large = format!(r#"{{"ttlMs":5000,"p":"{}"}}"#, "x".repeat(1 << 20));
        keep(&modest, &Method::ToolsList, "", &Body::of(&large).unwrap().keep());
        for number in 0..ENTRIES + 100 {
            keep(&greedy, &Method::ResourcesRead, &number.to_string(), &body("99999999", "private"));
        }
        assert!(has(&modest, &Method::ToolsList, ""));
        assert_eq!(cache.lock().unwrap().kept.len(), ENTRIES);
    }
}
