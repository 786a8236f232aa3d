//! Writing the canonical model as one revision has it.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};

use super::{COUNT, Dialect};
use crate::json::Json;
use crate::messages::Id;
use crate::meta::Meta;

/// A value of the canonical model that each revision may write in its own way.
///
/// Implemented by every wire type of this crate; there is no reason to implement it elsewhere.
pub trait Lower {
    /// Writes the value as `cx` says.
    ///
    /// # Errors
    /// When the serializer fails, or the revision has no way to say this.
    fn lower<S: Serializer>(&self, cx: Lowering<'_>, serializer: S) -> Result<S::Ok, S::Error>;
}

/// How a message is lowered: in which dialect, and with what in the `_meta` of its body.
#[derive(Clone, Copy, Debug)]
pub struct Lowering<'a> {
    dialect: Option<Dialect>,
    meta: Option<&'a Meta>,
    progress_token: Option<&'a Id>,
}

impl<'a> Lowering<'a> {
    /// Everything the value holds, whichever revision it belongs to.
    pub(crate) const CANONICAL: Self = Self { dialect: None, meta: None, progress_token: None };

    /// As one revision writes it.
    #[must_use]
    pub const fn to(dialect: Dialect) -> Self {
        Self { dialect: Some(dialect), meta: None, progress_token: None }
    }

    /// Adds members to the body's `_meta`: the envelope of a modern request, the server's name in a result.
    /// What the body's own `_meta` says wins.
    #[must_use]
    pub const fn with_meta(mut self, meta: &'a Meta) -> Self {
        self.meta = Some(meta);
        self
    }

    /// Adds the progress token to the body's `_meta`.
    #[must_use]
    pub const fn with_progress_token(mut self, token: &'a Id) -> Self {
        self.progress_token = Some(token);
        self
    }

    /// A view of a whole body: `_meta` is added to this level alone.
    #[must_use]
    pub const fn root<T: Lower + ?Sized>(self, value: &'a T) -> View<'a, T> {
        View { value, cx: self }
    }

    /// A view of a part of a body.
    pub(crate) const fn view<'v, T: Lower + ?Sized>(self, value: &'v T) -> View<'v, T> {
        View { value, cx: Lowering { dialect: self.dialect, meta: None, progress_token: None } }
    }

    pub(crate) fn dialect(self) -> Option<Dialect> {
        self.dialect
    }

    /// True if the dialect is older than `first`; the canonical form is older than nothing.
    pub(crate) fn is_before(self, first: Dialect) -> bool {
        self.dialect.is_some_and(|dialect| dialect.index() < first.index())
    }

    /// Refuses what a dialect before `first` has no way to say.
    pub(crate) fn since<E: serde::ser::Error>(self, first: Dialect, what: &str) -> Result<(), E> {
        if self.is_before(first) {
            return Err(E::custom(format_args!("{what} needs {} or later", first.version())));
        }
        Ok(())
    }

    pub(crate) fn lacking(self, masks: &[u64; COUNT]) -> u64 {
        self.dialect.map_or(0, |dialect| masks[dialect.index()])
    }

    /// Writes `_meta` unless nothing is left of it.
    pub(crate) fn lower_meta<M: SerializeMap>(self, own: Option<&Meta>, out: &mut M) -> Result<(), M::Error> {
        let merged = MergedMeta { own, cx: self };
        if merged.is_empty() { Ok(()) } else { out.serialize_entry("_meta", &merged) }
    }
}

struct MergedMeta<'a> {
    own: Option<&'a Meta>,
    cx: Lowering<'a>,
}

impl MergedMeta<'_> {
    fn is_empty(&self) -> bool {
        let lacks = self.cx.lacking(&Meta::LACKS);
        let is_empty = |meta: Option<&Meta>| meta.is_none_or(|meta| meta.is_empty_without(lacks));
        // `"_meta":{}` that a person wrote is kept as it came.
        let explicit = self.own.is_some_and(|own| own.is_empty_without(0));
        !explicit && self.cx.progress_token.is_none() && is_empty(self.own) && is_empty(self.cx.meta)
    }
}

impl Serialize for MergedMeta<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let nested = Lowering { dialect: self.cx.dialect, meta: None, progress_token: None };
        let lacks = self.cx.lacking(&Meta::LACKS);
        let mut out = serializer.serialize_map(None)?;
        let mut written = lacks;
        if let Some(own) = self.own {
            own.lower_members(nested, written, &mut out)?;
            written |= own.present();
        }
        if let Some(token) = self.cx.progress_token
            && written & Meta::PROGRESS_TOKEN == 0
        {
            out.serialize_entry("progressToken", token)?;
            written |= Meta::PROGRESS_TOKEN;
        }
        if let Some(meta) = self.cx.meta {
            meta.lower_known_members(nested, written, &mut out)?;
            for (key, value) in meta.other.iter() {
                if self.own.is_none_or(|own| own.other.get(key).is_none()) {
                    out.serialize_entry(key, value)?;
                }
            }
        }
        out.end()
    }
}

/// A borrowed value that serializes as one revision writes it. Made by [`Dialect::lower`].
#[derive(Debug)]
pub struct View<'a, T: ?Sized> {
    value: &'a T,
    cx: Lowering<'a>,
}

impl<T: ?Sized> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for View<'_, T> {}

impl<T: Lower + ?Sized> Serialize for View<'_, T> {
    #[inline]
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.lower(self.cx, serializer)
    }
}

/// Types that every revision writes alike.
macro_rules! lower_as_it_is {
    ($($type:ty),* $(,)?) => { $(
        impl crate::dialect::Lower for $type {
            #[inline]
            fn lower<S: serde::Serializer>(
                &self,
                _: crate::dialect::Lowering<'_>,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                serde::Serialize::serialize(self, serializer)
            }
        }
    )* };
}
pub(crate) use lower_as_it_is;

lower_as_it_is! {
    str, String, bool, i64, u64, u32, Option<u64>, Json, Id,
    crate::version::ProtocolVersion, crate::members::Members, crate::errors::ErrorCode,
}

/// A whole number is written without a fraction, as people and schemas write it.
impl Lower for f64 {
    fn lower<S: Serializer>(&self, _: Lowering<'_>, serializer: S) -> Result<S::Ok, S::Error> {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        if self.fract() == 0.0 && self.abs() < EXACT {
            serializer.serialize_i64(*self as i64)
        } else {
            serializer.serialize_f64(*self)
        }
    }
}

impl<T: Lower> Lower for Vec<T> {
    fn lower<S: Serializer>(&self, cx: Lowering<'_>, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_seq(Some(self.len()))?;
        for item in self {
            out.serialize_element(&cx.view(item))?;
        }
        out.end()
    }
}

impl<T: Lower> Lower for BTreeMap<String, T> {
    fn lower<S: Serializer>(&self, cx: Lowering<'_>, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_map(Some(self.len()))?;
        for (key, value) in self {
            out.serialize_entry(key, &cx.view(value))?;
        }
        out.end()
    }
}

impl<T: Lower + ?Sized> Lower for Box<T> {
    fn lower<S: Serializer>(&self, cx: Lowering<'_>, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).lower(cx, serializer)
    }
}
