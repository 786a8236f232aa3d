//! Server names, and the callable tool names for language models.
//!
//! A callable name depends only on the names of the server and the tool, so that it is the same on every machine,
//! whatever the order in which tools are added. It has at most 64 characters. To find the server and the tool of a
//! callable name, look it up in a [`NameTable`]; it cannot always be split into the two names.

use std::fmt;

use crate::limits::{MAX_CALLABLE_NAME_CHARACTERS, MAX_SERVER_NAME_CHARACTERS};
use crate::map::Map;
use crate::safe_text::SafeText;

/// The name of a server: 1 to 256 characters of `A-Z a-z 0-9 _ -`, but not one of the reserved words `__proto__`,
/// `constructor` and `prototype`.
///
/// ```
/// use mcp_protocol::names::ServerName;
///
/// let name: ServerName = "my_db".parse()?;
/// assert_eq!(name.as_str(), "my_db");
/// assert!("my db".parse::<ServerName>().is_err());
/// # Ok::<(), mcp_protocol::names::NameError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerName(Box<str>);

/// Reason why a text is not a valid server name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The text is empty, or longer than 256 characters.
    #[error("a server name must have 1 to {MAX_SERVER_NAME_CHARACTERS} characters, not {0}")]
    Length(usize),
    /// The text has an invalid character.
    #[error("a server name may contain only letters, digits, `_` and `-`, not {0:?}")]
    Character(char),
    /// The text is a reserved word.
    #[error("`{0}` is a reserved name; choose another server name")]
    Reserved(&'static str),
}

const RESERVED_NAMES: [&str; 3] = ["__proto__", "constructor", "prototype"];

impl ServerName {
    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for ServerName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if let Some(odd) = text.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-')) {
            return Err(NameError::Character(odd));
        }
        if text.is_empty() || text.len() > MAX_SERVER_NAME_CHARACTERS {
            return Err(NameError::Length(text.len()));
        }
        if let Some(word) = RESERVED_NAMES.iter().find(|word| **word == text) {
            return Err(NameError::Reserved(word));
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const CALLABLE_NAME_PREFIX: &str = "mcp__";
/// Number of base32 characters of a digest, which follow `_x` in a name.
const DIGEST_CHARACTERS: usize = 10;
const MAX_LABEL_CHARACTERS: usize = 20;

/// Returns the name by which a model calls a tool.
///
/// The name is `mcp__{server}__{tool}` if that is valid for model APIs and unambiguous. Otherwise it is the name that
/// [`digest_name`] returns.
///
/// ```
/// use mcp_protocol::names::callable_name;
///
/// assert_eq!(callable_name("git", "status"), "mcp__git__status");
/// assert_eq!(callable_name("files", "admin.tools.list"), "mcp__files__admin_tools_list_xfan3xbbiqa");
/// ```
#[must_use]
pub fn callable_name(server: &str, tool: &str) -> String {
    let is_plain = is_label(server)
        && is_tool(tool)
        && !ends_like_a_digest(tool)
        && CALLABLE_NAME_PREFIX.len() + server.len() + 2 + tool.len() <= MAX_CALLABLE_NAME_CHARACTERS;
    if is_plain { format!("{CALLABLE_NAME_PREFIX}{server}__{tool}") } else { digest_name(server, tool) }
}

/// Returns a callable name that ends in a digest of both names. It exists for every pair of names, and is used if
/// `mcp__{server}__{tool}` is invalid, or reserved by the host.
#[must_use]
pub fn digest_name(server: &str, tool: &str) -> String {
    let label = short_label(server);
    let room =
        MAX_CALLABLE_NAME_CHARACTERS - CALLABLE_NAME_PREFIX.len() - label.len() - 2 - 2 - DIGEST_CHARACTERS;
    let tool_part: String =
        tool.chars().map(|c| if is_tool_character(c) { c } else { '_' }).take(room).collect();
    format!("{CALLABLE_NAME_PREFIX}{label}__{tool_part}_x{}", digest(server, tool))
}

/// Returns true for names that match `[A-Za-z0-9]+([_-][A-Za-z0-9]+)*`. They do not contain `__`, so that the first
/// `__` after the prefix ends the server name.
fn is_label(name: &str) -> bool {
    name.split(['_', '-']).all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric()))
}

fn is_tool(name: &str) -> bool {
    !name.is_empty() && name.chars().all(is_tool_character)
}

fn is_tool_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

fn ends_like_a_digest(name: &str) -> bool {
    let Some(at) = name.len().checked_sub(DIGEST_CHARACTERS + 2) else { return false };
    name.get(at..).is_some_and(|end| {
        end.starts_with("_x") && end[2..].bytes().all(|b| matches!(b, b'a'..=b'z' | b'2'..=b'7'))
    })
}

fn short_label(server: &str) -> String {
    let mut label = String::new();
    if is_label(server) {
        label.push_str(server);
    } else {
        for part in server.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty()) {
            if !label.is_empty() {
                label.push('-');
            }
            label.push_str(part);
        }
        if label.is_empty() {
            label.push('s');
        }
    }
    label.truncate(MAX_LABEL_CHARACTERS);
    label.truncate(label.trim_end_matches(['-', '_']).len());
    label
}

/// Returns the first ten characters of the lower-case base32 of SHA-256 over the length of the server name (32 bits,
/// big-endian), the server name and the tool name.
fn digest(server: &str, tool: &str) -> String {
    const BASE32_ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut hash = hmac_sha256::Hash::new();
    hash.update(u32::try_from(server.len()).unwrap_or(u32::MAX).to_be_bytes());
    hash.update(server);
    hash.update(tool);
    let hash = hash.finalize();
    (0..DIGEST_CHARACTERS)
        .map(|at| {
            let bit = at * 5;
            let pair = u16::from_be_bytes([hash[bit / 8], hash[bit / 8 + 1]]);
            char::from(BASE32_ALPHABET[usize::from((pair >> (11 - bit % 8)) & 31)])
        })
        .collect()
}

/// A table that maps callable names to servers and tools.
///
/// ```
/// use mcp_protocol::names::NameTable;
///
/// let mut table = NameTable::default();
/// let name = table.insert("git", "status").unwrap();
/// assert_eq!(table.get(&name), Some(("git", "status")));
/// assert_eq!(table.get("mcp__git__push"), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameTable {
    names: Map<String, (Box<str>, Box<str>)>,
    reserved: Vec<Box<str>>,
}

/// An error for a tool that is skipped, because its callable name is already used by another tool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "tool `{}` of `{}` was skipped: the name `{}` is already used by tool `{}` of `{}`",
    SafeText::name(tool),
    SafeText::name(server),
    SafeText::name(name),
    SafeText::name(holder_tool),
    SafeText::name(holder_server)
)]
pub struct NameTaken {
    /// Callable name.
    pub name: String,
    /// Server of the skipped tool.
    pub server: String,
    /// Skipped tool.
    pub tool: String,
    /// Server of the tool that has the name.
    pub holder_server: String,
    /// Tool that has the name.
    pub holder_tool: String,
}

impl NameTable {
    /// Creates a table that never assigns these names, whether in upper or lower case.
    #[must_use]
    pub fn reserving(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let reserved = names.into_iter().map(|name| name.into().into_boxed_str()).collect();
        Self { names: Map::new(), reserved }
    }

    /// Adds a tool and returns its callable name: the name by which a language model calls it.
    ///
    /// # Errors
    /// Fails if another tool already has this callable name. Adding the same tool again is not an error.
    pub fn insert(&mut self, server: &str, tool: &str) -> Result<String, NameTaken> {
        let mut name = callable_name(server, tool);
        if self.reserved.iter().any(|reserved| reserved.eq_ignore_ascii_case(&name)) {
            name = digest_name(server, tool);
        }
        match self.names.get(&name) {
            None => {
                self.names.insert(name.clone(), (server.into(), tool.into()));
                Ok(name)
            }
            Some((holder_server, holder_tool)) if **holder_server == *server && **holder_tool == *tool => {
                Ok(name)
            }
            Some((holder_server, holder_tool)) => Err(NameTaken {
                name,
                server: server.into(),
                tool: tool.into(),
                holder_server: holder_server.to_string(),
                holder_tool: holder_tool.to_string(),
            }),
        }
    }

    /// Returns the server and tool of a callable name, exactly as they were added.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<(&str, &str)> {
        self.names.get(name).map(|(server, tool)| (&**server, &**tool))
    }

    /// Returns an iterator over triples of callable name, server and tool, sorted by callable name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.names.iter().map(|(name, (server, tool))| (name.as_str(), &**server, &**tool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callable_names_match_the_fixed_test_vectors() {
        let long = "x".repeat(70);
        let long_name = format!("mcp__github__{}_xlcfphyr5vk", "x".repeat(39));
        for (server, tool, name) in [
            ("git", "status", "mcp__git__status"),
            ("files", "admin.tools.list", "mcp__files__admin_tools_list_xfan3xbbiqa"),
            ("a__b", "c", "mcp__a-b__c_x5hoasoucpw"),
            ("a", "b__c", "mcp__a__b__c"),
            ("github", &long, &long_name),
            ("天气", "预报", "mcp__s_____xavyfndyz3p"),
        ] {
            assert_eq!(callable_name(server, tool), name);
        }
    }

    #[test]
    fn callable_names_fit_model_apis_and_are_unique() {
        let servers = ["a", "my_db", "a-b", "a__b", "_a", "a_", "-", "", "天", &"s".repeat(256)];
        let tools = ["t", "a__b", "__", "a.b", "", "t_xabcdefghij", &"t".repeat(64), "é"];
        let mut seen = std::collections::BTreeMap::new();
        for server in servers {
            for tool in tools {
                let name = callable_name(server, tool);
                assert!((1..=64).contains(&name.len()), "{name}");
                assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'), "{name}");
                assert_eq!(seen.insert(name.clone(), (server, tool)), None, "{name}");
                let label = name.strip_prefix("mcp__").unwrap().split("__").next().unwrap();
                assert!(is_label(label), "{name}");
            }
        }
    }

    #[test]
    fn tool_name_cannot_imitate_a_name_with_digest() {
        // A tool name that contains the digest of another tool cannot claim its name.
        let victim = callable_name("files", "admin.tools.list");
        let tool = victim.strip_prefix("mcp__files__").unwrap();
        assert_ne!(callable_name("files", tool), victim);
    }

    #[test]
    fn name_is_looked_up_in_the_table_and_never_replaced() {
        let mut table = NameTable::default();
        let name = table.insert("a", "b__c").unwrap();
        assert_eq!(table.get(&name), Some(("a", "b__c")));
        assert_eq!(table.insert("a", "b__c").unwrap(), name);
        // No colliding pair is known, so the collision is inserted directly.
        table.names.insert("mcp__x__y".into(), ("other".into(), "tool".into()));
        let taken = table.insert("x", "y").unwrap_err();
        assert_eq!((taken.holder_server.as_str(), taken.tool.as_str()), ("other", "y"));
        assert_eq!(table.get("mcp__x__y"), Some(("other", "tool")));
    }

    #[test]
    fn reserved_names_get_a_digest() {
        let mut table = NameTable::reserving(["MCP__git__status"]);
        assert_eq!(table.insert("git", "status").unwrap(), digest_name("git", "status"));
        assert_eq!(table.insert("git", "push").unwrap(), "mcp__git__push");
    }

    #[test]
    fn server_name_length_and_characters_are_restricted() {
        for good in ["a", "my_db", "_", "-", "a__b", &"x".repeat(256)] {
            assert_eq!(good.parse::<ServerName>().unwrap().as_str(), good);
        }
        for bad in ["", "a b", "a/b", "ä", "__proto__", "constructor", "prototype", &"x".repeat(257)] {
            assert!(bad.parse::<ServerName>().is_err(), "{bad}");
        }
    }
}
