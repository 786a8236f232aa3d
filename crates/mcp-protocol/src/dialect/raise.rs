//! Reading what a peer of one revision sends into the canonical model.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, Deserializer, Error, MapAccess, Visitor};

use super::{COUNT, Dialect};
use crate::version::Era;

/// An object of the canonical model that can be read from any revision.
///
/// Implemented by the wire types of this crate; there is no reason to implement it elsewhere.
pub trait Raise: DeserializeOwned {
    /// The name of the type, for error messages.
    #[doc(hidden)]
    const NAME: &'static str;

    /// Reads the members of an object.
    #[doc(hidden)]
    fn raise_members<'de, A: MapAccess<'de>>(map: A, how: Raising) -> Result<Self, A::Error>;
}

impl<T: Raise> Raise for Box<T> {
    const NAME: &'static str = T::NAME;

    fn raise_members<'de, A: MapAccess<'de>>(map: A, how: Raising) -> Result<Self, A::Error> {
        T::raise_members(map, how).map(Box::new)
    }
}

/// How strictly an object is read.
#[derive(Clone, Copy, Debug)]
#[allow(unnameable_types, reason = "appears in a hidden method of a trait that is not for implementing")]
pub struct Raising {
    dialect: Option<Dialect>,
    /// The member that tells the type was read by whoever chose the type.
    pub(crate) tag_seen: bool,
}

impl Raising {
    /// As the newest schema says, every required member demanded.
    pub(crate) const STRICT: Self = Self { dialect: None, tag_seen: false };
    /// The same, after the tag.
    pub(crate) const AFTER_TAG: Self = Self { dialect: None, tag_seen: true };

    pub(crate) fn from(dialect: Dialect) -> Self {
        Self { dialect: Some(dialect), tag_seen: false }
    }

    /// True unless the dialect that is read from lacks the member: then it means something else there.
    pub(crate) fn has(self, lacks: &[u64; COUNT], bit: u64) -> bool {
        self.dialect.is_none_or(|dialect| lacks[dialect.index()] & bit == 0)
    }

    /// True for legacy dialects, in which `null` is no structured result and `_meta` is open.
    pub(crate) fn is_legacy(self) -> bool {
        self.dialect.is_some_and(|dialect| dialect.era() == Era::Legacy)
    }

    pub(crate) fn tolerated(self, masks: &[u64; COUNT]) -> u64 {
        self.dialect.map_or(0, |dialect| masks[dialect.index()])
    }

    /// Reads one object; an array is none, whatever derived code would make of it.
    pub(crate) fn object<'de, T: Raise, D: Deserializer<'de>>(self, source: D) -> Result<T, D::Error> {
        source.deserialize_map(ObjectVisitor { how: self, object: PhantomData })
    }
}

struct ObjectVisitor<T> {
    how: Raising,
    object: PhantomData<T>,
}

impl<'de, T: Raise> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object ({})", T::NAME)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::raise_members(map, self.how)
    }
}

/// Refuses a member that was read before.
#[inline]
pub(crate) fn once<E: Error>(seen: &mut u64, bit: u64, member: &'static str) -> Result<(), E> {
    if *seen & bit != 0 {
        return Err(E::duplicate_field(member));
    }
    *seen |= bit;
    Ok(())
}

/// Refuses an object without this member.
#[inline]
pub(crate) fn demand<E: Error>(seen: u64, bit: u64, member: &'static str) -> Result<(), E> {
    if seen & bit == 0 { Err(E::missing_field(member)) } else { Ok(()) }
}

/// The value of a required member.
#[inline]
pub(crate) fn required<T, E: Error>(value: Option<T>, member: &'static str) -> Result<T, E> {
    value.ok_or_else(|| E::missing_field(member))
}
