//! A small sorted map.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::dialect::{Fill, Lower, Lowering, Raise, Raising, Written, deserialize, object, unknown_member};
use crate::json::read::{Read, Reader};

/// A map that is stored as one list, sorted by key. For the few entries of a message, it needs less memory and code
/// than the maps of the standard library. Inserting into the middle of a long map is slow: the time is linear in its
/// length.
///
/// ```
/// use mcp_protocol::Map;
///
/// let mut arguments = Map::from([("b".to_owned(), 2), ("a".to_owned(), 1)]);
/// arguments.insert("c".to_owned(), 3);
/// assert_eq!(arguments.get("b"), Some(&2));
/// assert_eq!(arguments.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Map<K, V>(Vec<(K, V)>);

impl<K: Ord, V> Map<K, V> {
    /// Creates an empty map.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let at = self.place(key).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    /// Returns a mutable reference to the value of a key.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let at = self.place(key).ok()?;
        self.0.get_mut(at).map(|(_, value)| value)
    }

    /// Returns true if the map has the key.
    #[must_use]
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.place(key).is_ok()
    }

    /// Sets the value of a key and returns the previous value, if any.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.place(&key) {
            Ok(at) => self.0.get_mut(at).map(|(_, old)| std::mem::replace(old, value)),
            Err(at) => {
                self.0.insert(at, (key, value));
                None
            }
        }
    }

    /// Removes a key and returns its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let at = self.place(key).ok()?;
        Some(self.0.remove(at).1)
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns an iterator over the entries, sorted by key.
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter(self.0.iter())
    }

    /// Returns an iterator over the keys, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.0.iter().map(|(key, _)| key)
    }

    /// Returns an iterator over the values, sorted by key.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    /// Keeps only the entries for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.0.retain_mut(|(key, value)| keep(key, value));
    }

    fn place<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        // Fast path: most keys arrive in order.
        match self.0.last() {
            Some((last, _)) if last.borrow() < key => Err(self.0.len()),
            _ => self.0.binary_search_by(|(other, _)| other.borrow().cmp(key)),
        }
    }
}

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for Map<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(key, value)| (key, value))).finish()
    }
}

impl<K: Ord, V, const N: usize> From<[(K, V); N]> for Map<K, V> {
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<K: Ord, V> From<BTreeMap<K, V>> for Map<K, V> {
    fn from(entries: BTreeMap<K, V>) -> Self {
        entries.into_iter().collect()
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for Map<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.extend(entries);
        map
    }
}

impl<K: Ord, V> Extend<(K, V)> for Map<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        // The list is sorted once, whatever the order of the entries. Of duplicates, the last one wins.
        self.0.extend(entries);
        if !self.0.is_sorted_by(|(one, _), (next, _)| one < next) {
            self.0.sort_by(|(one, _), (other, _)| one.cmp(other));
            self.0.reverse();
            self.0.dedup_by(|(one, _), (kept, _)| one == kept);
            self.0.reverse();
        }
    }
}

impl<K, V> IntoIterator for Map<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, K, V> IntoIterator for &'a Map<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        Iter(self.0.iter())
    }
}

/// An iterator over the entries of a [`Map`].
#[derive(Clone, Debug)]
pub struct Iter<'a, K, V>(std::slice::Iter<'a, (K, V)>);

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(key, value)| (key, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<K, V> DoubleEndedIterator for Iter<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|(key, value)| (key, value))
    }
}

impl<V: Lower> Lower for Map<String, V> {
    fn lower(&self, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        object(out, |out| {
            for (key, value) in self {
                unknown_member(out, key, value, cx)?;
            }
            Ok(())
        })
    }
}

impl<V: Raise> Raise for Map<String, V> {
    fn blank() -> Self {
        Self::new()
    }
}

impl<V: Raise> Fill for Map<String, V> {
    fn fill(&mut self, from: &mut Reader<'_>, how: Raising) -> Read<()> {
        from.sorted_map(&mut |from, key| {
            self.0.push((key, V::raise(from, how)?));
            Ok(())
        })
    }
}

impl<V: Lower> Serialize for Map<String, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Lowering::CANONICAL.root(self).serialize(serializer)
    }
}

impl<'de, V: Raise> Deserialize<'de> for Map<String, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_sorted_and_the_last_duplicate_wins() {
        let read = |text: &str| serde_json::from_str::<Map<String, i64>>(text).unwrap();
        let map = read(r#"{"b":1,"a":2,"b":3,"c":4,"a":5}"#);
        assert_eq!(map, Map::from([("c".to_owned(), 4), ("a".to_owned(), 5), ("b".to_owned(), 3)]));
        assert_eq!(serde_json::to_string(&map).unwrap(), r#"{"a":5,"b":3,"c":4}"#);
        assert!(serde_json::from_str::<Map<String, i64>>(r#"{"a":"x","a":1}"#).is_ok());
        assert!(serde_json::from_str::<Map<String, i64>>(r#"{"a":1,"a":"x"}"#).is_err());
    }

    #[test]
    fn object_with_100_000_keys_in_reverse_order_is_read() {
        let members: Vec<String> = (0..100_000).rev().map(|key| format!("\"{key:06}\":{key}")).collect();
        let map: Map<String, i64> = serde_json::from_str(&format!("{{{}}}", members.join(","))).unwrap();
        assert_eq!((map.len(), map.get("000007")), (100_000, Some(&7)));
    }

    #[test]
    fn map_behaves_like_btree_map() {
        let (mut ours, mut theirs) = (Map::new(), BTreeMap::new());
        let mut random = 1_u32;
        for _ in 0..2_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (key, value) = (random >> 26, random >> 8);
            if value % 3 == 0 {
                assert_eq!(ours.remove(&key), theirs.remove(&key));
            } else {
                assert_eq!(ours.insert(key, value), theirs.insert(key, value));
            }
            assert_eq!((ours.get(&7), ours.contains_key(&key)), (theirs.get(&7), theirs.contains_key(&key)));
            assert!(ours.iter().eq(theirs.iter()));
            assert_eq!(ours.iter().size_hint(), theirs.iter().size_hint());
        }
    }
}
