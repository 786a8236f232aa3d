//! Secrets that are longer than an item of the keychain: split into several items.
//!
//! A short secret is one item. A long one is a header item and parts under names of their own:
//!
//! - `<key>`: `mcp-parts 1 <generation> <number of parts> <fingerprint of the text>`
//! - `<key>-<generation>-<n>`: part `n`
//!
//! New parts are written first, then the header, then the parts of the previous generation are deleted. Whenever the
//! process is killed, the header names parts that exist.

use mcp_protocol::fingerprint::fingerprint;

use super::DESCRIPTION;
use super::thread::Items;
use crate::credentials::{MAX_SECRET_BYTES, Secret, StoreError, random_id};

const HEADER: &str = "mcp-parts 1 ";
/// The maximum number of parts. It bounds what a damaged header can make this code read.
const MAX_PARTS: usize = MAX_SECRET_BYTES / 512;

struct Header {
    generation: String,
    parts: usize,
    fingerprint: String,
}

impl Header {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.strip_prefix(HEADER)?.split(' ');
        let (generation, parts, fingerprint) = (words.next()?, words.next()?, words.next()?);
        let parts: usize = parts.parse().ok()?;
        let is_valid = parts <= MAX_PARTS && words.next().is_none();
        is_valid.then(|| Self {
            generation: generation.to_owned(),
            parts,
            fingerprint: fingerprint.to_owned(),
        })
    }

    fn to_secret(&self) -> Secret {
        Secret::new(format!("{HEADER}{} {} {}", self.generation, self.parts, self.fingerprint))
    }

    fn part_names(&self, key: &str) -> impl Iterator<Item = String> {
        let prefix = format!("{key}-{}", self.generation);
        (0..self.parts).map(move |number| format!("{prefix}-{number}"))
    }
}

pub(super) fn load(items: &mut dyn Items, service: &str, key: &str) -> Result<Option<Secret>, StoreError> {
    let Some(item) = items.get(service, key)? else { return Ok(None) };
    if !item.expose().starts_with(HEADER) {
        return Ok(Some(item));
    }
    let header = Header::parse(item.expose())
        .ok_or_else(|| corrupt("the header of the split credential is damaged"))?;
    let mut text = zeroize::Zeroizing::new(String::with_capacity(MAX_SECRET_BYTES));
    for name in header.part_names(key) {
        let part =
            items.get(service, &name)?.ok_or_else(|| corrupt("a part of the split credential is missing"))?;
        if text.len() + part.expose().len() > MAX_SECRET_BYTES {
            return Err(corrupt("the parts of the split credential are too long"));
        }
        text.push_str(part.expose());
    }
    if fingerprint([text.as_str()]) != header.fingerprint {
        return Err(corrupt("the parts of the split credential do not match its header"));
    }
    Ok(Some(Secret::new(text.as_str())))
}

pub(super) fn save(
    items: &mut dyn Items,
    service: &str,
    key: &str,
    secret: &Secret,
) -> Result<(), StoreError> {
    let previous = items.get(service, key)?.and_then(|item| Header::parse(item.expose()));
    let text = secret.expose();
    match items.max_item_bytes().filter(|limit| text.len() > *limit) {
        None => items.set(service, key, secret)?,
        Some(limit) => {
            let parts = split(text, limit);
            let header =
                Header { generation: random_id(), parts: parts.len(), fingerprint: fingerprint([text]) };
            for (name, part) in header.part_names(key).zip(parts) {
                items.set(service, &name, &Secret::new(part))?;
            }
            items.set(service, key, &header.to_secret())?;
        }
    }
    if let Some(previous) = previous {
        remove_parts(items, service, key, &previous);
    }
    Ok(())
}

pub(super) fn delete(items: &mut dyn Items, service: &str, key: &str) -> Result<bool, StoreError> {
    // A damaged item is deleted as well.
    let header = items.get(service, key).ok().flatten().and_then(|item| Header::parse(item.expose()));
    let existed = items.remove(service, key)?;
    if let Some(header) = header {
        remove_parts(items, service, key, &header);
    }
    Ok(existed)
}

/// Removes the parts that a header named. They are useless without it, so an error is only logged.
fn remove_parts(items: &mut dyn Items, service: &str, key: &str, header: &Header) {
    for name in header.part_names(key) {
        if let Err(error) = items.remove(service, &name) {
            tracing::warn!(%error, "cannot remove a part of an old credential from the keychain");
        }
    }
}

/// Splits text into parts of at most `limit` bytes, between characters.
fn split(mut text: &str, limit: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    while !text.is_empty() {
        let mut end = limit.max(4).min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let (part, rest) = text.split_at(end);
        parts.push(part);
        text = rest;
    }
    parts
}

fn corrupt(cause: &str) -> StoreError {
    StoreError::Corrupt { store: DESCRIPTION.to_owned(), cause: cause.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Items of at most 10 bytes (the header may be longer), which fail from operation `fail_at` on.
    #[derive(Clone, Default)]
    struct SmallItems {
        items: BTreeMap<String, String>,
        operations: usize,
        fail_at: Option<usize>,
    }

    impl SmallItems {
        fn count(&mut self) -> Result<(), StoreError> {
            self.operations += 1;
            match self.fail_at {
                Some(at) if self.operations > at => Err(corrupt("killed")),
                _ => Ok(()),
            }
        }
    }

    impl Items for SmallItems {
        fn max_item_bytes(&self) -> Option<usize> {
            Some(10)
        }

        fn get(&mut self, _: &str, name: &str) -> Result<Option<Secret>, StoreError> {
            self.count()?;
            Ok(self.items.get(name).map(Secret::new))
        }

        fn set(&mut self, _: &str, name: &str, secret: &Secret) -> Result<(), StoreError> {
            self.count()?;
            self.items.insert(name.to_owned(), secret.expose().to_owned());
            Ok(())
        }

        fn remove(&mut self, _: &str, name: &str) -> Result<bool, StoreError> {
            self.count()?;
            Ok(self.items.remove(name).is_some())
        }
    }

    const LONG: &str = "a long text with ümlauts, in eleven parts or so, which all have ten bytes at most";

    #[test]
    fn long_text_is_split_and_old_parts_are_removed() {
        let mut items = SmallItems::default();
        for text in [LONG, "short", &LONG.replace('a', "b"), LONG] {
            save(&mut items, "s", "key", &Secret::new(text)).unwrap();
            assert_eq!(load(&mut items, "s", "key").unwrap().unwrap().expose(), text);
            let parts = items.items.keys().filter(|name| *name != "key").count();
            assert_eq!(parts, if text == "short" { 0 } else { 9 }, "{:?}", items.items);
        }
        assert!(items.items.iter().all(|(name, text)| name == "key" || text.len() <= 10));
        assert!(delete(&mut items, "s", "key").unwrap());
        assert!(items.items.is_empty());
        assert!(!delete(&mut items, "s", "key").unwrap());
    }

    #[test]
    fn interrupted_save_leaves_the_old_or_the_new_text() {
        let mut before = SmallItems::default();
        save(&mut before, "s", "key", &Secret::new(LONG)).unwrap();
        let new = LONG.to_uppercase();
        let mut seen = [0, 0];
        for fail_at in 0..40 {
            let mut items = SmallItems { operations: 0, fail_at: Some(fail_at), ..before.clone() };
            drop(save(&mut items, "s", "key", &Secret::new(&new)));
            items.fail_at = None;
            let loaded = load(&mut items, "s", "key").unwrap().unwrap();
            assert!(loaded.expose() == LONG || loaded.expose() == new, "{fail_at}");
            seen[usize::from(loaded.expose() == new)] += 1;
        }
        assert!(seen[0] > 5 && seen[1] > 5, "{seen:?}");
    }

    #[test]
    fn missing_or_exchanged_parts_are_corrupt() {
        let mut items = SmallItems::default();
        save(&mut items, "s", "key", &Secret::new(LONG)).unwrap();
        let names: Vec<String> = items.items.keys().filter(|name| *name != "key").cloned().collect();
        for (name, change) in [(&names[3], None), (&names[3], Some("exchanged!"))] {
            let mut damaged = items.clone();
            match change {
                None => damaged.items.remove(name),
                Some(text) => damaged.items.insert(name.clone(), text.to_owned()),
            };
            let error = load(&mut damaged, "s", "key").unwrap_err();
            assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
        }
        for header in
            ["mcp-parts 1 x", "mcp-parts 1 x 999999999 y", "mcp-parts 1 x -1 y", "mcp-parts 1 x 1 y z"]
        {
            items.items.insert("key".to_owned(), header.to_owned());
            assert!(matches!(load(&mut items, "s", "key"), Err(StoreError::Corrupt { .. })), "{header}");
            assert!(delete(&mut items.clone(), "s", "key").unwrap());
        }
    }
}
