//! Sets of scopes, which say what a token allows.

use std::fmt;

/// The maximum number of scopes in a set. Adding one compares it with all others.
const MAX_SCOPES: usize = 256;

/// A set of scopes, in the order in which they were added.
///
/// ```
/// use mcp_protocol::oauth::scopes::Scopes;
///
/// let granted = Scopes::parse("notes:read profile");
/// let needed = Scopes::from_iter(["notes:read", "notes:write"]);
/// assert_eq!(needed.without(&granted).to_string(), "notes:write");
/// assert_eq!(granted.union(&needed).to_string(), "notes:read profile notes:write");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(Vec<String>);

impl Scopes {
    /// Creates an empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Reads scopes that are separated by spaces. Words that cannot be scopes (RFC 6749, section 3.3) are skipped, and
    /// so is everything after the first 256 scopes.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        text.split(' ').collect()
    }

    /// Returns true if the set has this scope.
    #[must_use]
    pub fn contains(&self, scope: &str) -> bool {
        self.0.iter().any(|known| known == scope)
    }

    /// Adds a scope. Returns false, and does nothing, if the text cannot be a scope, or if the set has 256 scopes.
    pub fn insert(&mut self, scope: &str) -> bool {
        if !is_scope(scope) {
            return false;
        }
        let is_known = self.contains(scope);
        if !is_known && self.0.len() < MAX_SCOPES {
            self.0.push(scope.to_owned());
            return true;
        }
        is_known
    }

    /// Returns the scopes of both sets.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.iter().chain(other.iter()).collect()
    }

    /// Returns the scopes that are not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        self.iter().filter(|scope| !other.contains(scope)).collect()
    }

    /// Returns an iterator over the scopes.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns true if there are no scopes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns true if the text can be one scope: visible ASCII without quotation mark and backslash.
#[must_use]
pub fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5B | 0x5D..=0x7E))
}

/// Texts that cannot be scopes are skipped, and so is everything after the first 256 scopes.
impl<S: AsRef<str>> FromIterator<S> for Scopes {
    fn from_iter<I: IntoIterator<Item = S>>(scopes: I) -> Self {
        let mut set = Self::new();
        for scope in scopes {
            if set.0.len() == MAX_SCOPES {
                break;
            }
            set.insert(scope.as_ref());
        }
        set
    }
}

/// Writes the scopes separated by spaces, as requests and challenges carry them.
impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, scope) in self.iter().enumerate() {
            let space = if at == 0 { "" } else { " " };
            write!(f, "{space}{scope}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_read_once_each_and_without_invalid_words() {
        for (text, expected) in [
            ("", ""),
            ("a b a", "a b"),
            ("  a   b ", "a b"),
            ("a\"b c\\d e\tf g\u{7f}h \u{e4} !~ ok", "!~ ok"),
            ("https://x/y?z=1#[] a", "https://x/y?z=1#[] a"),
        ] {
            assert_eq!(Scopes::parse(text).to_string(), expected, "{text}");
        }
        assert!(Scopes::parse("\"").is_empty() && !Scopes::parse("a").is_empty());
        let many: Vec<String> = (0..2000).map(|at| at.to_string()).collect();
        let read = Scopes::parse(&many.join(" "));
        assert!(read.contains("255") && !read.contains("256"));
        assert_eq!(many.iter().collect::<Scopes>(), read);
        let mut full = read.clone();
        assert!(full.insert("0") && !full.insert("more"));
        assert_eq!(full, read);
    }

    #[test]
    fn union_and_difference_keep_the_order() {
        let (one, other) = (Scopes::parse("a b"), Scopes::parse("c b"));
        assert_eq!(one.union(&other).to_string(), "a b c");
        assert_eq!(one.without(&other).to_string(), "a");
        assert_eq!(one.without(&one), Scopes::new());
        let mut set = Scopes::new();
        assert!(set.insert("a") && set.insert("a") && !set.insert("") && !set.insert("a b"));
        assert_eq!(set.to_string(), "a");
    }
}
