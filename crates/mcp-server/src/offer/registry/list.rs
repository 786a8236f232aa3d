//! A list in insertion order, with a cache of its serialized pages.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use mcp_protocol::Json;
use mcp_protocol::dialect::{Dialect, Lower, Lowering};
use mcp_protocol::meta::Meta;

use super::{CacheHint, ServerSettings};

/// An entry of a list. Implemented by [`list_entry!`].
pub(crate) trait ListEntry {
    /// The result of the list request on the wire.
    type Page: Lower;

    /// Returns the key by which the entry is found.
    fn key(&self) -> &str;

    fn page<'a>(items: impl Iterator<Item = &'a Self>, next: Option<String>, cache: &CacheHint) -> Self::Page
    where
        Self: 'a;
}

/// The entries of one kind, in insertion order.
pub(crate) struct EntryList<T> {
    items: Vec<Arc<T>>,
    indexes: HashMap<Arc<str>, usize>,
    /// Serialized pages by protocol version and index of the first item.
    cache: Mutex<Vec<(Dialect, usize, Arc<Json>)>>,
}

/// The start of a page.
pub(crate) enum Cursor<'a> {
    Start,
    /// After the item with this key.
    After(&'a str),
}

impl<T> Default for EntryList<T> {
    fn default() -> Self {
        Self { items: Vec::new(), indexes: HashMap::new(), cache: Mutex::default() }
    }
}

impl<T> Clone for EntryList<T> {
    fn clone(&self) -> Self {
        Self { items: self.items.clone(), indexes: self.indexes.clone(), cache: Mutex::default() }
    }
}

impl<T: ListEntry> EntryList<T> {
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.items.iter()
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Arc<T>> {
        self.items.get(*self.indexes.get(key)?)
    }

    pub(crate) fn put(&mut self, item: T) {
        self.clear_cache();
        match self.indexes.get(item.key()) {
            Some(&index) => self.items[index] = Arc::new(item),
            None => {
                self.indexes.insert(item.key().into(), self.items.len());
                self.items.push(Arc::new(item));
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &str) -> bool {
        let Some(index) = self.indexes.remove(key) else { return false };
        self.clear_cache();
        self.items.remove(index);
        for later in self.indexes.values_mut().filter(|later| **later > index) {
            *later -= 1;
        }
        true
    }

    /// Returns the page at a cursor as JSON; `None` if the cursor is unknown.
    pub(crate) fn page(
        &self,
        dialect: Dialect,
        cursor: &Cursor<'_>,
        settings: &ServerSettings,
        meta: &Meta,
    ) -> Option<Arc<Json>> {
        let start = match cursor {
            Cursor::Start => 0,
            Cursor::After(key) => self.indexes.get(*key)? + 1,
        };
        // Only pages at multiples of the page size are cached, because a client can send the key of any item as a
        // cursor.
        let is_regular = start.is_multiple_of(settings.page_size);
        if is_regular && let Some(page) = self.cached(dialect, start) {
            return Some(page);
        }
        let end = start.saturating_add(settings.page_size).min(self.items.len());
        let items = self.items.get(start..end).unwrap_or_default();
        let next = items.last().filter(|_| end < self.items.len()).map(|last| last.key().to_owned());
        let page = T::page(items.iter().map(|item| &**item), next, &settings.lists);
        let page = Arc::new(Lowering::to(dialect).with_meta(meta).root(&page).to_json().unwrap_or_default());
        if is_regular {
            self.add_to_cache(dialect, start, &page);
        }
        Some(page)
    }

    fn cached(&self, dialect: Dialect, start: usize) -> Option<Arc<Json>> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = cache.iter().find(|(of, at, _)| *of == dialect && *at == start);
        cached.map(|(_, _, page)| Arc::clone(page))
    }

    fn add_to_cache(&self, dialect: Dialect, start: usize, page: &Arc<Json>) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.push((dialect, start, Arc::clone(page)));
    }

    fn clear_cache(&mut self) {
        self.cache.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// `list_entry! { Entry by field in Page }` implements [`ListEntry`] for `Entry`: the key is this field of the
/// definition, and a page contains the definitions.
macro_rules! list_entry {
    ($entry:ident by $key:ident in $page:ident) => {
        impl crate::offer::registry::ListEntry for $entry {
            type Page = $page;

            fn key(&self) -> &str {
                &self.definition.$key
            }

            fn page<'a>(
                items: impl Iterator<Item = &'a Self>,
                next: Option<String>,
                cache: &crate::offer::registry::CacheHint,
            ) -> $page {
                let mut page = $page::new(items.map(|item| item.definition.clone()).collect::<Vec<_>>())
                    .ttl_ms(cache.ttl_ms)
                    .cache_scope(cache.scope.clone());
                page.next_cursor = next;
                page
            }
        }
    };
}
pub(crate) use list_entry;
