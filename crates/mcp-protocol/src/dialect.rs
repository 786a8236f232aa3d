//! The differences between the revisions, and nothing else.
//!
//! The model of this crate is canonical: the newest revision's terms, plus what only older ones have. A
//! [`Dialect`] is one revision's view of it. *Lowering* writes what that revision has, straight from the
//! borrowed value; *raising* reads what a peer of that revision sends, and puts up with what it leaves out.
//!
//! Each revision is a module that states its difference from the next newer one, as tables of members.
//! The tables are checked against the types while compiling and cost nothing at run time. Besides
//! [`crate::negotiation`], this is the only place that compares versions.
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

/// How one revision writes and reads the canonical model.
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

/// What one revision says of itself, relative to the next newer one.
struct Revision {
    version: ProtocolVersion,
    era: Era,
    /// Members the newer one has and this one lacks, by type.
    lacks: Table,
    /// Members this one has and the newer one lacks, by type.
    also_has: Table,
    /// Required members whose absence is accepted from a peer of this revision and of older ones.
    tolerates: Table,
}

type Table = &'static [(&'static str, &'static [&'static str])];

/// Oldest first; a [`Dialect`] is an index into it.
static REVISIONS: [Revision; COUNT] = REVISION_TABLE;
const REVISION_TABLE: [Revision; COUNT] = [
    v2024_11_05::REVISION,
    v2025_03_26::REVISION,
    v2025_06_18::REVISION,
    v2025_11_25::REVISION,
    v2026_07_28::REVISION,
];
pub(crate) const COUNT: usize = 5;

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

    /// Every dialect, oldest first.
    pub const ALL: [Self; COUNT] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];

    /// The dialect of a version, or `None` for one this crate does not know.
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

    /// The version whose dialect this is.
    #[must_use]
    pub fn version(self) -> &'static ProtocolVersion {
        &self.revision().version
    }

    /// The era of that version.
    #[must_use]
    pub fn era(self) -> Era {
        self.revision().era
    }

    /// True if each request says by itself who asks, and asks of the server travel in results: the modern era.
    #[must_use]
    pub fn is_modern(self) -> bool {
        self.era() == Era::Modern
    }

    /// True if a stream over HTTP begins with an event that holds only its number, so that a client that loses it at
    /// once can come back.
    #[must_use]
    pub fn primes_streams(self) -> bool {
        self == Self::V2025_11_25
    }

    /// A view of `value` that serializes as this revision writes it. Nothing is copied.
    #[must_use]
    pub fn lower(self, value: &dyn Lower) -> View<'_> {
        Lowering::to(self).root(value)
    }

    /// Reads a body as a peer of this revision sends it: what that revision may leave out is filled in.
    ///
    /// # Errors
    /// When the body has another shape than `T`.
    pub fn raise<T: Raise>(self, body: &Body<'_>) -> Result<T, BodyError> {
        self.raise_str(body.text())
    }

    /// [`raise`](Self::raise) for JSON text that is not the body of a message.
    ///
    /// # Errors
    /// When the text has another shape than `T`.
    pub fn raise_str<T: Raise>(self, text: &str) -> Result<T, BodyError> {
        Ok(Raising::from(self).text(text)?)
    }

    /// True if this revision has the method in this direction.
    #[must_use]
    pub fn has(self, method: &Method, direction: Direction) -> bool {
        methods::has(self, method, direction)
    }

    /// True if this revision can ask for the method inside a result that requires input.
    #[must_use]
    pub fn has_inside(self, method: &Method) -> bool {
        methods::has_inside(self, method)
    }

    /// How an error response without an id is written on stdio; over HTTP the id is always left out.
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

/// The place of a member in the type's listing. Not compiling means: no such member.
#[expect(clippy::panic, reason = "evaluated while compiling only")]
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

/// The bit of a member, in the order of the type's listing.
pub(crate) const fn bit(members: &[&str], member: &str) -> u64 {
    1 << index(members, member)
}

/// Per version, the members of a type it lacks: the newest revision's list, changed step by step.
pub(crate) const fn lacks(name: &str, members: &[&str]) -> [u64; COUNT] {
    assert!(members.len() <= 64, "a type has more members than a mask has bits");
    let mut masks = [0; COUNT];
    let mut mask = 0;
    let mut at = COUNT;
    while at > 0 {
        at -= 1;
        mask &= !row(REVISION_TABLE[at].also_has, name, members);
        mask |= row(REVISION_TABLE[at].lacks, name, members);
        masks[at] = mask;
    }
    masks
}

/// Per version, the required members of a type that may be absent.
pub(crate) const fn tolerates(name: &str, members: &[&str]) -> [u64; COUNT] {
    let mut masks = [0; COUNT];
    let mut mask = 0;
    let mut at = COUNT;
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
