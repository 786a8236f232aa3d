//! Pages of lists, read item by item, so that an invalid item is skipped and the others are kept.

use crate::dialect::{Dialect, Raise};
use crate::errors::BodyError;
use crate::json::Json;
use crate::messages::Body;

/// An item of a list that was skipped because it is invalid.
#[derive(Debug)]
#[non_exhaustive]
pub struct SkippedItem {
    /// Index on the page, from 0.
    pub position: usize,
    /// Name, if it could be read.
    pub name: Option<String>,
    /// Reason why the item was skipped.
    pub error: BodyError,
}

impl SkippedItem {
    /// Creates the report of an item that was read but cannot be used. Its [`position`](Self::position) is 0.
    #[must_use]
    pub fn new(name: Option<String>, error: impl Into<BodyError>) -> Self {
        Self { position: 0, name, error: error.into() }
    }
}

/// Reads a page with the first `limit` elements of its array `member`, and stores these items in the list that `items`
/// returns. Items that cannot be read are skipped and reported.
pub(crate) fn raise_each<P: Raise, T: Raise>(
    dialect: Dialect,
    page: &Body<'_>,
    member: &'static str,
    limit: usize,
    items: fn(&mut P) -> &mut Vec<T>,
) -> Result<(P, Vec<SkippedItem>), BodyError> {
    let list = page.member(member)?.unwrap_or_default();
    if page.count(member)? <= limit {
        match dialect.raise::<P>(page) {
            Ok(whole) => return Ok((whole, Vec::new())),
            Err(error) if !list.starts_with('[') => return Err(error),
            Err(_) => {}
        }
    }
    let mut kept = Vec::new();
    let mut skipped = Vec::new();
    for (position, text) in crate::json::scan::elements(list).take(limit).enumerate() {
        let json = Json::from_valid(text);
        match json.raise::<T>() {
            Ok(item) => kept.push(item),
            Err(error) => {
                let name = json.member("name").and_then(|name| serde_json::from_str(name).ok());
                skipped.push(SkippedItem { position, name, error: error.into() });
            }
        }
    }
    let members = crate::json::scan::members(page.text());
    let mut others: Vec<String> = members
        .filter(|(key, _)| key != member)
        .map(|(key, value)| Ok(format!("{}:{value}", serde_json::to_string(&key)?)))
        .collect::<Result<_, serde_json::Error>>()?;
    others.push(format!("\"{member}\":[]"));
    let mut page: P = dialect.raise_str(&format!("{{{}}}", others.join(",")))?;
    *items(&mut page) = kept;
    Ok((page, skipped))
}
