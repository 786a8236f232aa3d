//! The differences between the protocol revisions.
//!
//! The types of this crate form the canonical model: they have all members of the newest revision, and those that only
//! older revisions have. A [`Dialect`] is the form of this model in one revision. *Lowering* serializes the members
//! that the revision has, directly from the borrowed value. *Raising* parses a message from a peer of that revision,
//! and tolerates the absence of members that such a peer may omit.
//!
//! Each revision has a module, which lists the differences from the next newer revision as tables of members. The
//! tables are checked against the types at compile time and have no cost at run time. Apart from
//! [`crate::negotiation`], only this module compares versions.
//!
//! Spec: the schemas of MCP 2024-11-05 to 2026-07-28.

pub(crate) mod content;
pub(crate) mod elicitation;
pub(crate) mod errors;
pub(crate) mod input;
mod lower;
pub(crate) mod methods;
mod raise;
pub(crate) mod sampling;
pub(crate) mod tools;
mod v2024_11_05;
mod v2025_03_26;
mod v2025_06_18;
mod v2025_11_25;
mod v2026_07_28;

pub use lower::{Lower, Lowering, View};
pub(crate) use lower::{Written, element, member, object, serde_by_dialect, unknown_member};
pub use methods::Direction;
pub use raise::Raise;
pub(crate) use raise::{Fill, Present, Raising, Tag, deserialize, raise};

use crate::errors::BodyError;
use crate::messages::write::NoId;
use crate::messages::{Body, Method};
use crate::version::{Era, ProtocolVersion};

/// The representation of the canonical model in one revision.
///
/// ```
/// use mcp_protocol::Dialect;
/// use mcp_protocol::tools::Tool;
///
/// let tool = Tool::new("add", serde_json::json!({"type": "object"})).title("Add");
/// let old = serde_json::to_string(&Dialect::V2025_03_26.lower(&tool))?;
/// assert_eq!(old, r#"{"name":"add","inputSchema":{"type":"object"}}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Dialect(u8);

/// The differences of one revision from the next newer one.
struct Revision {
    version: ProtocolVersion,
    era: Era,
    /// Members, by type, that the next newer revision has and this one lacks.
    lacks: Table,
    /// Members, by type, that this revision has and the next newer one lacks.
    also_has: Table,
    /// Required members that a peer of this revision or an older one may omit.
    tolerates: Table,
}

type Table = &'static [(&'static str, &'static [&'static str])];

/// All revisions, oldest first. A [`Dialect`] is an index into this array.
static REVISIONS: [Revision; REVISION_COUNT] = REVISION_TABLE;
const REVISION_TABLE: [Revision; REVISION_COUNT] = [
    v2024_11_05::REVISION,
    v2025_03_26::REVISION,
    v2025_06_18::REVISION,
    v2025_11_25::REVISION,
    v2026_07_28::REVISION,
];
pub(crate) const REVISION_COUNT: usize = 5;

impl Dialect {
    /// 2024-11-05.
    pub const V2024_11_05: Self = Self(0);
    /// 2025-03-26.
    pub const V2025_03_26: Self = Self(1);
    /// 2025-06-18.
    pub const V2025_06_18: Self = Self(2);
    /// 2025-11-25.
    pub const V2025_11_25: Self = Self(3);
    /// 2026-07-28.
    pub const V2026_07_28: Self = Self(4);

    /// All dialects, oldest first.
    pub const ALL: [Self; REVISION_COUNT] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];

    /// Returns the dialect of a version, or `None` for an unknown version.
    #[must_use]
    pub fn of(version: &ProtocolVersion) -> Option<Self> {
        Some(match version {
            ProtocolVersion::V2024_11_05 => Self::V2024_11_05,
            ProtocolVersion::V2025_03_26 => Self::V2025_03_26,
            ProtocolVersion::V2025_06_18 => Self::V2025_06_18,
            ProtocolVersion::V2025_11_25 => Self::V2025_11_25,
            ProtocolVersion::V2026_07_28 => Self::V2026_07_28,
            ProtocolVersion::Unknown(_) => return None,
        })
    }

    /// Returns the version of this dialect.
    #[must_use]
    pub fn version(self) -> &'static ProtocolVersion {
        &self.revision().version
    }

    /// Returns the era of the version.
    #[must_use]
    pub fn era(self) -> Era {
        self.revision().era
    }

    /// Returns true for the modern era, in which each request is self-contained, and a server puts its requests for
    /// input into results.
    #[must_use]
    pub fn is_modern(self) -> bool {
        self.era() == Era::Modern
    }

    /// Returns true if an HTTP stream begins with an event that has only an id, so that a client can resume from the
    /// start.
    #[must_use]
    pub fn primes_streams(self) -> bool {
        self == Self::V2025_11_25
    }

    /// Returns a view of `value` that serializes as defined by this revision. Nothing is copied.
    #[must_use]
    pub fn lower(self, value: &dyn Lower) -> View<'_> {
        Lowering::to(self).root(value)
    }

    /// Parses a body sent by a peer of this revision. Members that such a peer may omit get their default values.
    ///
    /// # Errors
    /// Fails if the body does not match the type `T`.
    pub fn raise<T: Raise>(self, body: &Body<'_>) -> Result<T, BodyError> {
        self.raise_str(body.text())
    }

    /// Like [`raise`](Self::raise), for JSON text that is not the body of a message.
    ///
    /// # Errors
    /// Fails if the text does not match the type `T`.
    pub fn raise_str<T: Raise>(self, text: &str) -> Result<T, BodyError> {
        Ok(Raising::from(self).text(text)?)
    }

    /// Returns true if this revision has the method in this direction.
    #[must_use]
    pub fn has(self, method: &Method, direction: Direction) -> bool {
        methods::has(self, method, direction)
    }

    /// Returns false if this revision has no capability with which a server declares the method, so that a client has
    /// to call the method to find out. This applies only to `completion/complete` in 2024-11-05.
    #[must_use]
    pub fn declares(self, method: &Method) -> bool {
        self != Self::V2024_11_05 || *method != Method::Complete
    }

    /// Returns true if this revision allows the method as an input request inside a result.
    #[must_use]
    pub fn has_inside(self, method: &Method) -> bool {
        methods::has_inside(self, method)
    }

    /// Returns the form of the `id` member in an error response on stdio to a request whose id is unknown. Over HTTP,
    /// the member is always omitted in this case.
    #[must_use]
    pub fn no_id(self) -> NoId {
        if self.index() < Self::V2025_11_25.index() { NoId::Null } else { NoId::Omitted }
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    fn revision(self) -> &'static Revision {
        &REVISIONS[self.index()]
    }
}

impl std::fmt::Debug for Dialect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dialect({})", self.version())
    }
}

/// Returns the index of `member` in `members`. A compile error here means that the type does not have the member.
#[expect(clippy::panic, reason = "evaluated at compile time only")]
pub(crate) const fn index(members: &[&str], member: &str) -> usize {
    let mut at = 0;
    while at < members.len() {
        if same(members[at], member) {
            return at;
        }
        at += 1;
    }
    panic!("a dialect table names a member that the type does not have")
}

/// Returns the mask of one member: the bit at its index.
pub(crate) const fn bit(members: &[&str], member: &str) -> u64 {
    1 << index(members, member)
}

/// Returns one mask per revision: the members of a type that the revision lacks. The mask of each revision is that of
/// the next newer one, changed by the differences between them.
pub(crate) const fn lacks(name: &str, members: &[&str]) -> [u64; REVISION_COUNT] {
    assert!(members.len() <= 64, "a type has more members than a mask has bits");
    let mut masks = [0; REVISION_COUNT];
    let mut mask = 0;
    let mut at = REVISION_COUNT;
    while at > 0 {
        at -= 1;
        mask &= !row(REVISION_TABLE[at].also_has, name, members);
        mask |= row(REVISION_TABLE[at].lacks, name, members);
        masks[at] = mask;
    }
    masks
}

/// Returns one mask per revision: the required members of a type that may be absent.
pub(crate) const fn tolerates(name: &str, members: &[&str]) -> [u64; REVISION_COUNT] {
    let mut masks = [0; REVISION_COUNT];
    let mut mask = 0;
    let mut at = REVISION_COUNT;
    while at > 0 {
        at -= 1;
        mask |= row(REVISION_TABLE[at].tolerates, name, members);
        masks[at] = mask;
    }
    masks
}

const fn row(table: Table, name: &str, members: &[&str]) -> u64 {
    let mut mask = 0;
    let mut at = 0;
    while at < table.len() {
        if same(table[at].0, name) {
            let mut member = 0;
            while member < table[at].1.len() {
                mask |= bit(members, table[at].1[member]);
                member += 1;
            }
        }
        at += 1;
    }
    mask
}

const fn same(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    if left.len() != right.len() {
        return false;
    }
    let mut at = 0;
    while at < left.len() {
        if left[at] != right[at] {
            return false;
        }
        at += 1;
    }
    true
}
