//! Reading what a peer of one revision sends into the canonical model.

use std::borrow::Cow;

use serde::de::{Deserialize, Deserializer, Error};
use serde_json::value::RawValue;

use super::{COUNT, Dialect};
use crate::json::Json;
use crate::json::read::{Read, Reader, not_one_of};
use crate::version::Era;

/// A value of the canonical model that can be read from any revision.
///
/// Implemented by the wire types of this crate; there is no reason to implement it elsewhere.
pub trait Raise: Fill + Sized {
    /// A value that means nothing yet, to be filled.
    #[doc(hidden)]
    fn blank() -> Self;

    /// The value that stands next.
    #[doc(hidden)]
    fn raise(from: &mut Reader<'_>, how: Raising) -> Result<Self, serde_json::Error> {
        let mut value = Self::blank();
        value.fill(from, how)?;
        Ok(value)
    }
}

/// Something that takes what is read. One that is not generic, so that an object is read by a loop over its members
/// and not by code of its own.
#[doc(hidden)]
#[allow(unnameable_types, reason = "supports a trait that is not for implementing")]
pub trait Fill {
    /// Reads the value that stands next. When that fails, nothing is said of what was filled in.
    fn fill(&mut self, from: &mut Reader<'_>, how: Raising) -> Result<(), serde_json::Error>;
}

/// How strictly an object is read.
#[derive(Clone, Copy, Debug)]
#[allow(unnameable_types, reason = "appears in a hidden method of a trait that is not for implementing")]
pub struct Raising(Option<Dialect>);

impl Raising {
    /// As the newest schema says, every required member demanded. Parts of a body are always read like this.
    pub(crate) const STRICT: Self = Self(None);

    pub(crate) fn from(dialect: Dialect) -> Self {
        Self(Some(dialect))
    }

    /// True for legacy dialects, in which `null` is no structured result and `_meta` is open.
    pub(crate) fn is_legacy(self) -> bool {
        self.0.is_some_and(|dialect| dialect.era() == Era::Legacy)
    }

    /// What a table has for the dialect that is read from.
    pub(crate) fn of(self, masks: &[u64; COUNT]) -> u64 {
        self.0.map_or(0, |dialect| masks[dialect.index()])
    }

    /// Reads a whole text.
    pub(crate) fn text<T: Raise>(self, text: &str) -> Read<T> {
        let mut value = T::blank();
        Reader::whole(text, &mut |from| value.fill(from, self))?;
        Ok(value)
    }
}

/// A wire type for serde: the text of the value, read as its dialect says.
pub(crate) fn deserialize<'de, T: Raise, D: Deserializer<'de>>(source: D) -> Result<T, D::Error> {
    let text = Box::<RawValue>::deserialize(source)?;
    Raising::STRICT.text(text.get()).map_err(D::Error::custom)
}

/// Types that every revision has alike: what is blank, and how one is read.
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
        // A place is filled once, and empty before.
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
            self.push(T::raise(from, how)?);
            Ok(())
        })
    }
}

/// A member that can hold one string only.
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

/// A member for which `null` is a value, except in the legacy era.
pub(crate) struct Present<'a>(pub(crate) &'a mut Option<Json>, pub(crate) Raising);

impl Fill for Present<'_> {
    fn fill(&mut self, from: &mut Reader<'_>, _: Raising) -> Read<()> {
        let value = Json::from_valid(from.any()?);
        *self.0 = (!(value.is_null() && self.1.is_legacy())).then_some(value);
        Ok(())
    }
}
