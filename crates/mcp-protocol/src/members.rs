//! Unknown members of an object, preserved in order.

use serde::{Serialize, Serializer};

use crate::dialect::{Lower, Lowering, Written, object, unknown_member};
use crate::json::Json;

/// Unknown members of an open type, preserved as received.
///
/// ```
/// use mcp_protocol::tools::Tool;
///
/// let tool: Tool = serde_json::from_str(r#"{"name":"t","inputSchema":{"type":"object"},"x-team":"db"}"#)?;
/// assert_eq!(tool.other.get("x-team").map(|json| json.get()), Some("\"db\""));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members(Vec<(String, Json)>);

impl Members {
    /// Returns the value of a member.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Sets a member, replacing an existing value.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<Json>) {
        let (name, value) = (name.into(), value.into());
        match self.0.iter_mut().find(|(key, _)| *key == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    /// Appends a member without checking for duplicates.
    pub(crate) fn push(&mut self, name: String, value: Json) {
        self.0.push((name, value));
    }

    /// Returns an iterator over all members, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Returns true if there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn lower_members(&self, out: &mut Vec<u8>) -> Written {
        self.0.iter().try_for_each(|(key, value)| unknown_member(out, key, value, Lowering::CANONICAL))
    }
}

impl Lower for Members {
    fn lower(&self, _: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        object(out, |out| self.lower_members(out))
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Lowering::CANONICAL.root(self).serialize(serializer)
    }
}
