//! Protocol revisions and their eras.
//!
//! A version is an opaque string on the wire. Order and era come from the table of revisions in [`crate::dialect`], not
//! from a comparison of strings: an unknown version, such as `zzz`, is unsupported, and neither newer nor older.
//!
//! Spec: MCP 2026-07-28, basic/versioning.

use std::fmt;

use crate::dialect::{Dialect, Lower, Lowering, Written, raise, serde_by_dialect};

/// A dated revision of the protocol.
///
/// ```
/// use mcp_protocol::version::{Era, ProtocolVersion};
///
/// let version = ProtocolVersion::from("2025-06-18");
/// assert_eq!(version, ProtocolVersion::V2025_06_18);
/// assert_eq!(version.era(), Some(Era::Legacy));
/// assert_eq!(ProtocolVersion::from("zzz").era(), None);
/// ```
#[doc(alias = "protocolVersion")]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtocolVersion {
    /// The first revision: handshake, tools, resources, prompts, sampling, roots; stdio and the HTTP+SSE transport.
    V2024_11_05,
    /// Streamable HTTP, batches, tool annotations, audio.
    V2025_03_26,
    /// Structured tool output, elicitation, resource links; no batches.
    V2025_06_18,
    /// Icons, URL elicitation, sampling with tools, experimental tasks.
    V2025_11_25,
    /// Stateless: no handshake, an envelope in every request, no requests from the server.
    V2026_07_28,
    /// A version unknown to this crate. Preserved as received; never supported.
    Unknown(Box<str>),
}

/// The two generations of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Era {
    /// Stateful: `initialize` first, then a connection or session with requests in both directions.
    Legacy,
    /// Stateless: every request is self-contained, and only the client sends requests.
    Modern,
}

/// Newest revision supported by this crate.
pub const LATEST: ProtocolVersion = ProtocolVersion::V2026_07_28;

/// Newest revision of the legacy era, which is offered in `initialize`.
pub const LATEST_LEGACY: ProtocolVersion = ProtocolVersion::V2025_11_25;

/// All revisions supported by this crate, newest first, in the order in which they are advertised.
pub const SUPPORTED: &[ProtocolVersion] = &[
    ProtocolVersion::V2026_07_28,
    ProtocolVersion::V2025_11_25,
    ProtocolVersion::V2025_06_18,
    ProtocolVersion::V2025_03_26,
    ProtocolVersion::V2024_11_05,
];

/// Returns the version with which a server responds to `initialize`: the requested one if it is supported, otherwise
/// the newest supported legacy version. `None` if no legacy version is supported.
///
/// ```
/// use mcp_protocol::version::{SUPPORTED, ProtocolVersion, negotiate};
///
/// assert_eq!(negotiate(&"2025-03-26".into(), SUPPORTED), Some(&ProtocolVersion::V2025_03_26));
/// // `initialize` never selects a modern version.
/// assert_eq!(negotiate(&"2026-07-28".into(), SUPPORTED), Some(&ProtocolVersion::V2025_11_25));
/// ```
#[must_use]
pub fn negotiate<'a>(
    requested: &ProtocolVersion,
    supported: &'a [ProtocolVersion],
) -> Option<&'a ProtocolVersion> {
    let legacy = || supported.iter().filter(|version| version.era() == Some(Era::Legacy));
    legacy().find(|version| *version == requested).or_else(|| legacy().max_by_key(|version| version.age()))
}

impl ProtocolVersion {
    /// Returns the string on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
            Self::Unknown(text) => text,
        }
    }

    /// Returns the era, or `None` for an unknown version.
    #[must_use]
    pub fn era(&self) -> Option<Era> {
        self.dialect().map(Dialect::era)
    }

    /// Returns the dialect, or `None` for an unknown version.
    #[must_use]
    pub fn dialect(&self) -> Option<Dialect> {
        Dialect::of(self)
    }

    /// Returns true for 2025-03-26, the only revision with JSON-RPC batches.
    #[must_use]
    pub fn has_batches(&self) -> bool {
        *self == Self::V2025_03_26
    }

    /// Returns true if tool results can have `structuredContent`.
    #[must_use]
    pub fn has_structured_output(&self) -> bool {
        self.is_known_since(&Self::V2025_06_18)
    }

    /// Returns true if a server can request input from the user.
    #[must_use]
    pub fn has_elicitation(&self) -> bool {
        self.is_known_since(&Self::V2025_06_18)
    }

    /// Returns true if requests are stateless: no handshake, no session.
    #[must_use]
    pub fn has_stateless_requests(&self) -> bool {
        self.era() == Some(Era::Modern)
    }

    fn is_known_since(&self, first: &Self) -> bool {
        *self >= *first
    }

    /// Returns the position in the order of revisions, oldest first; `None` for an unknown version.
    fn age(&self) -> Option<usize> {
        self.dialect().map(Dialect::index)
    }
}

/// An older version is less than a newer one. An unknown version is not comparable with others.
impl PartialOrd for ProtocolVersion {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        if self == other {
            return Some(std::cmp::Ordering::Equal);
        }
        Some(self.age()?.cmp(&other.age()?))
    }
}

impl From<&str> for ProtocolVersion {
    fn from(text: &str) -> Self {
        SUPPORTED
            .iter()
            .find(|version| version.as_str() == text)
            .cloned()
            .unwrap_or_else(|| Self::Unknown(text.into()))
    }
}

impl From<String> for ProtocolVersion {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

/// Prints the version for people: an unknown version is escaped and truncated. `as_str` returns the string on the wire.
impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::safe_text::SafeText::name(self.as_str()).fmt(f)
    }
}

impl Lower for ProtocolVersion {
    fn lower(&self, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        self.as_str().lower(cx, out)
    }
}

raise! { ProtocolVersion, Self::from(""), |from| Ok(Self::from(&*from.string()?)); }

serde_by_dialect!(ProtocolVersion);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negotiate_returns_requested_or_newest_legacy_version() {
        for version in SUPPORTED.iter().filter(|version| version.era() == Some(Era::Legacy)) {
            assert_eq!(negotiate(version, SUPPORTED), Some(version));
        }
        for odd in ["2026-07-28", "2024-10-07", "zzz", ""] {
            assert_eq!(negotiate(&odd.into(), SUPPORTED), Some(&LATEST_LEGACY), "{odd}");
        }
        assert_eq!(negotiate(&LATEST_LEGACY, &[LATEST]), None);
    }

    #[test]
    fn feature_predicates_match_each_revision() {
        let row = |v: &ProtocolVersion| {
            [v.has_batches(), v.has_structured_output(), v.has_elicitation(), v.has_stateless_requests()]
        };
        assert_eq!(row(&ProtocolVersion::V2024_11_05), [false, false, false, false]);
        assert_eq!(row(&ProtocolVersion::V2025_03_26), [true, false, false, false]);
        assert_eq!(row(&ProtocolVersion::V2025_06_18), [false, true, true, false]);
        assert_eq!(row(&ProtocolVersion::V2025_11_25), [false, true, true, false]);
        assert_eq!(row(&ProtocolVersion::V2026_07_28), [false, true, true, true]);
        assert_eq!(row(&"zzz".into()), [false; 4]);
    }

    #[test]
    fn unknown_version_is_neither_older_nor_newer() {
        let unknown = ProtocolVersion::from("zzz");
        assert_eq!((unknown.partial_cmp(&LATEST), LATEST.partial_cmp(&unknown)), (None, None));
        assert_eq!(unknown, "zzz".into());
        assert!(ProtocolVersion::V2024_11_05 < ProtocolVersion::V2025_03_26);
    }

    #[test]
    fn strings_round_trip() {
        for text in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "DRAFT-1"] {
            assert_eq!(ProtocolVersion::from(text).to_string(), text);
        }
    }
}
