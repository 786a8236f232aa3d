//! Parsing of messages of any revision into the canonical model.

use std::borrow::Cow;

use serde::de::{Deserialize, Deserializer, Error};
use serde_json::value::RawValue;

use super::{Dialect, REVISION_COUNT};
use crate::json::Json;
use crate::json::read::{Read, Reader, not_one_of};
use crate::version::Era;

/// A type of the canonical model that can be parsed from any revision.
///
/// Implemented by the wire types of this crate; other crates need not implement it.
pub trait Raise: Fill + Sized {
    /// Returns an empty value to be filled.
    #[doc(hidden)]
    fn blank() -> Self;

    /// Reads the next value.
    #[doc(hidden)]
    fn raise(from: &mut Reader<'_>, how: Raising) -> Result<Self, serde_json::Error> {
        let mut value = Self::blank();
        value.fill(from, how)?;
        Ok(value)
    }
}

/// A value that a reader fills. The trait is dyn-compatible, so that one loop reads the members of all objects, instead
/// of separate code per type.
#[doc(hidden)]
#[allow(unnameable_types, reason = "supports a sealed-by-convention trait")]
pub trait Fill {
    /// Reads the next value into `self`. After an error, the contents of `self` are unspecified.
    fn fill(&mut self, from: &mut Reader<'_>, how: Raising) -> Result<(), serde_json::Error>;
}

/// Strictness with which an object is read.
#[derive(Clone, Copy, Debug)]
#[allow(unnameable_types, reason = "appears in a hidden method of a sealed-by-convention trait")]
pub struct Raising(Option<Dialect>);

impl Raising {
    /// Requires every required member of the newest revision. The parts of a body are always read like this.
    pub(crate) const STRICT: Self = Self(None);

    pub(crate) fn from(dialect: Dialect) -> Self {
        Self(Some(dialect))
    }

    /// Returns true for legacy dialects, in which a structured result of `null` counts as absent, and invalid values in
    /// `_meta` are tolerated.
    pub(crate) fn is_legacy(self) -> bool {
        self.0.is_some_and(|dialect| dialect.era() == Era::Legacy)
    }

    /// Returns the mask of the dialect from a table; an empty mask if strict.
    pub(crate) fn of(self, masks: &[u64; REVISION_COUNT]) -> u64 {
        self.0.map_or(0, |dialect| masks[dialect.index()])
    }

    /// Parses a whole JSON text.
    pub(crate) fn text<T: Raise>(self, text: &str) -> Read<T> {
        let mut value = T::blank();
        Reader::whole(text, &mut |from| value.fill(from, self))?;
        Ok(value)
    }
}

/// Deserializes a wire type with serde: captures the text of the value and reads it strictly.
pub(crate) fn deserialize<'de, T: Raise, D: Deserializer<'de>>(source: D) -> Result<T, D::Error> {
    let text = Box::<RawValue>::deserialize(source)?;
    Raising::STRICT.text(text.get()).map_err(D::Error::custom)
}

/// Implements [`Raise`] for types with the same JSON in all revisions, given an empty value and a reading function.
macro_rules! raise {
    ($($type:ty, $blank:expr, |$from:ident| $read:expr;)*) => { $(
        impl crate::dialect::Raise for $type {
            fn blank() -> Self {
                $blank
            }
        }

        impl crate::dialect::Fill for $type {
            fn fill(
                &mut self,
                $from: &mut crate::json::read::Reader<'_>,
                _: crate::dialect::Raising,
            ) -> Result<(), serde_json::Error> {
                *self = $read?;
                Ok(())
            }
        }
    )* };
}
pub(crate) use raise;

raise! {
    String, String::new(), |from| from.string().map(Cow::into_owned);
    bool, false, |from| from.boolean();
    i64, 0, |from| from.integer();
    u64, 0, |from| from.integer();
    u32, 0, |from| from.integer();
    f64, 0.0, |from| from.number("a number", |text| text.parse().ok().filter(|number: &f64| number.is_finite()));
    Json, Json::from_valid(""), |from| from.any().map(Json::from_valid);
}

impl<T: Raise> Raise for Option<T> {
    fn blank() -> Self {
        None
    }
}

impl<T: Raise> Fill for Option<T> {
    fn fill(&mut self, from: &mut Reader<'_>, how: Raising) -> Read<()> {
        // A member is filled at most once, and is empty before.
        if from.null()? { Ok(()) } else { T::raise(from, how).map(|value| *self = Some(value)) }
    }
}

impl<T: Raise> Raise for Box<T> {
    fn blank() -> Self {
        Box::new(T::blank())
    }
}

impl<T: Raise> Fill for Box<T> {
    fn fill(&mut self, from: &mut Reader<'_>, how: Raising) -> Read<()> {
        (**self).fill(from, how)
    }
}

impl<T: Raise> Raise for Vec<T> {
    fn blank() -> Self {
        Vec::new()
    }
}

impl<T: Raise> Fill for Vec<T> {
    fn fill(&mut self, from: &mut Reader<'_>, how: Raising) -> Read<()> {
        from.array(&mut |from| {
            // Most lists have one element. Without this, the first one would reserve space for four.
            if self.capacity() == 0 {
                self.reserve_exact(1);
            }
            self.push(T::raise(from, how)?);
            Ok(())
        })
    }
}

/// A member whose value must be this string.
pub(crate) struct Tag(pub(crate) &'static str);

impl Fill for Tag {
    fn fill(&mut self, from: &mut Reader<'_>, _: Raising) -> Read<()> {
        let before = from.clone();
        if from.string()? == self.0 {
            return Ok(());
        }
        *from = before;
        Err(not_one_of(&[self.0]))
    }
}

/// A member for which `null` is a value. In the legacy era, `null` counts as absent.
pub(crate) struct Present<'a>(pub(crate) &'a mut Option<Json>, pub(crate) Raising);

impl Fill for Present<'_> {
    fn fill(&mut self, from: &mut Reader<'_>, _: Raising) -> Read<()> {
        let value = Json::from_valid(from.any()?);
        *self.0 = (!(value.is_null() && self.1.is_legacy())).then_some(value);
        Ok(())
    }
}
