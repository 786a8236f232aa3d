//! Serialization of the canonical model for one revision.

use std::fmt;

use serde::ser::{Error, Serialize, Serializer};

use super::{Dialect, REVISION_COUNT};
use crate::json::{Json, Transcode, write};
use crate::messages::Id;
use crate::meta::Meta;
use crate::peer::CallHandle;

pub(crate) type Written = Result<(), serde_json::Error>;

/// A value of the canonical model that can be serialized for any revision.
///
/// Implemented by every wire type of this crate; other crates need not implement it.
pub trait Lower {
    /// Appends the value as JSON without a line break, in the dialect of `cx`.
    ///
    /// # Errors
    /// Fails if the revision cannot express the value. The caller must remove the bytes appended so far.
    fn lower(&self, cx: Lowering<'_>, out: &mut Vec<u8>) -> Result<(), serde_json::Error>;

    /// Returns true if an optional member with this value is omitted.
    #[doc(hidden)]
    fn is_absent(&self) -> bool {
        false
    }
}

/// The dialect in which a message body is serialized, and members to add to its `_meta`.
#[derive(Clone, Copy, Debug)]
pub struct Lowering<'a> {
    dialect: Option<Dialect>,
    meta: Option<&'a Meta>,
    progress_token: Option<ProgressTokenSource<'a>>,
}

/// The progress token of a body.
#[derive(Clone, Copy, Debug)]
enum ProgressTokenSource<'a> {
    Id(&'a Id),
    /// The token of a call, written without being allocated.
    Call(CallHandle),
}

impl Lower for ProgressTokenSource<'_> {
    fn lower(&self, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        match self {
            Self::Id(id) => id.lower(cx, out),
            Self::Call(call) => {
                out.push(b'"');
                call.id().lower(cx, out)?;
                out.push(b'"');
                Ok(())
            }
        }
    }
}

impl<'a> Lowering<'a> {
    /// The canonical form: the members of all revisions are written, and nothing is added to `_meta`.
    pub const CANONICAL: Self = Self { dialect: None, meta: None, progress_token: None };

    /// Creates a lowering to one revision.
    #[must_use]
    pub const fn to(dialect: Dialect) -> Self {
        Self { dialect: Some(dialect), meta: None, progress_token: None }
    }

    /// Adds members to the `_meta` of the body, such as the envelope of a modern request or the server's name in a
    /// result. Members of the body's own `_meta` take precedence.
    #[must_use]
    pub const fn with_meta(mut self, meta: &'a Meta) -> Self {
        self.meta = Some(meta);
        self
    }

    /// Adds the progress token to the `_meta` of the body.
    #[must_use]
    pub const fn with_progress_token(mut self, token: &'a Id) -> Self {
        self.progress_token = Some(ProgressTokenSource::Id(token));
        self
    }

    /// Adds the progress token of a call to the `_meta` of the body, see [`CallHandle::progress_token`].
    #[must_use]
    pub const fn with_progress_of(mut self, call: CallHandle) -> Self {
        self.progress_token = Some(ProgressTokenSource::Call(call));
        self
    }

    /// Returns a view of `value` as a whole body. Members are added only to its own `_meta`, not to those of its parts.
    #[must_use]
    pub const fn root(self, value: &'a dyn Lower) -> View<'a> {
        View { value, cx: self }
    }

    /// Returns the lowering of a part of the body, which adds nothing to `_meta`.
    pub(crate) const fn part(self) -> Lowering<'static> {
        Lowering { dialect: self.dialect, meta: None, progress_token: None }
    }

    pub(crate) fn dialect(self) -> Option<Dialect> {
        self.dialect
    }

    /// Returns true if the dialect is older than `first`; always false for the canonical form.
    pub(crate) fn is_before(self, first: Dialect) -> bool {
        self.dialect.is_some_and(|dialect| dialect.index() < first.index())
    }

    /// Fails if the dialect is older than `first` and therefore cannot express `what`.
    pub(crate) fn since(self, first: Dialect, what: &str) -> Written {
        if self.is_before(first) {
            return Err(serde_json::Error::custom(format_args!(
                "{what} requires protocol version {} or later",
                first.version()
            )));
        }
        Ok(())
    }

    pub(crate) fn lacking(self, masks: &[u64; REVISION_COUNT]) -> u64 {
        self.dialect.map_or(0, |dialect| masks[dialect.index()])
    }

    /// Returns the `_meta` of a body: its own and the added members.
    pub(crate) fn merged_meta(self, own: Option<&'a Meta>) -> MergedMeta<'a> {
        MergedMeta { own, cx: self }
    }

    /// Writes members in the order of `names`, except those whose bit is in `skip`. An absent member is written only if
    /// its bit is in `required`.
    pub(crate) fn members(
        self,
        names: &[&str],
        values: &[&dyn Lower],
        required: u64,
        skip: u64,
        out: &mut Vec<u8>,
    ) -> Written {
        for (at, (name, value)) in names.iter().zip(values).enumerate() {
            let bit = 1 << at;
            if skip & bit == 0 && (required & bit != 0 || !value.is_absent()) {
                member(out, name, *value, self)?;
            }
        }
        Ok(())
    }
}

pub(crate) struct MergedMeta<'a> {
    own: Option<&'a Meta>,
    cx: Lowering<'a>,
}

impl Lower for MergedMeta<'_> {
    fn lower(&self, _: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        let Self { own, cx } = *self;
        object(out, |out| {
            let mut written = cx.lacking(&Meta::LACKS);
            if let Some(own) = own {
                own.lower_members(cx.part(), written, out)?;
                written |= own.present();
            }
            if let Some(token) = cx.progress_token
                && written & Meta::PROGRESS_TOKEN == 0
            {
                member(out, "progressToken", &token, cx)?;
                written |= Meta::PROGRESS_TOKEN;
            }
            if let Some(meta) = cx.meta {
                meta.lower_known_members(cx.part(), written, out)?;
                for (key, value) in meta.other.iter() {
                    if own.is_none_or(|own| own.other.get(key).is_none()) {
                        unknown_member(out, key, value, cx)?;
                    }
                }
            }
            Ok(())
        })
    }

    /// Returns true if there is no member to write.
    fn is_absent(&self) -> bool {
        let lacks = self.cx.lacking(&Meta::LACKS);
        let is_empty = |meta: Option<&Meta>| meta.is_none_or(|meta| meta.is_empty_without(lacks));
        // An explicit `"_meta":{}` is preserved.
        let explicit = self.own.is_some_and(|own| own.is_empty_without(0));
        !explicit && self.cx.progress_token.is_none() && is_empty(self.own) && is_empty(self.cx.meta)
    }
}

/// Writes the braces of an object around the output of `members`.
pub(crate) fn object(out: &mut Vec<u8>, members: impl FnOnce(&mut Vec<u8>) -> Written) -> Written {
    out.push(b'{');
    let written = members(out);
    out.push(b'}');
    written
}

/// Writes one element of an array.
pub(crate) fn element(out: &mut Vec<u8>, item: &dyn Lower, cx: Lowering<'_>) -> Written {
    if out.last() != Some(&b'[') {
        out.push(b',');
    }
    item.lower(cx.part(), out)
}

/// Writes one member of an object. The name must not need escapes.
pub(crate) fn member(out: &mut Vec<u8>, name: &str, value: &dyn Lower, cx: Lowering<'_>) -> Written {
    key(out, name);
    value.lower(cx.part(), out)
}

/// Writes one member of an object. The name may be any string.
pub(crate) fn unknown_member(out: &mut Vec<u8>, name: &str, value: &dyn Lower, cx: Lowering<'_>) -> Written {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    name.lower(cx, out)?;
    out.push(b':');
    value.lower(cx.part(), out)
}

fn key(out: &mut Vec<u8>, name: &str) {
    // No JSON value ends in an opening brace, so a brace here means that this is the first member.
    out.extend_from_slice(if out.last() == Some(&b'{') { b"\"" } else { b",\"" });
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

/// A borrowed value that serializes for one revision. Created by [`Dialect::lower`].
#[derive(Clone, Copy)]
pub struct View<'a> {
    value: &'a dyn Lower,
    cx: Lowering<'a>,
}

impl View<'_> {
    /// Returns the value as JSON text.
    ///
    /// # Errors
    /// Fails if the revision cannot express the value.
    pub fn to_json(&self) -> Result<Json, serde_json::Error> {
        let mut out = Vec::new();
        self.value.lower(self.cx, &mut out)?;
        String::from_utf8(out).map(Json::from_text).map_err(serde_json::Error::custom)
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("cx", &self.cx).finish_non_exhaustive()
    }
}

/// A view uses its own lowering and ignores the argument.
impl Lower for View<'_> {
    fn lower(&self, _: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        self.value.lower(self.cx, out)
    }
}

impl Serialize for View<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = self.to_json().map_err(S::Error::custom)?;
        Transcode(json.get()).serialize(serializer)
    }
}

/// Implements `Serialize` and `Deserialize` for a type, in the canonical form.
macro_rules! serde_by_dialect {
    ($($type:ty),* $(,)?) => { $(
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serde::Serialize::serialize(&crate::dialect::Lowering::CANONICAL.root(self), serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                crate::dialect::deserialize(deserializer)
            }
        }
    )* };
}
pub(crate) use serde_by_dialect;

macro_rules! lower_as_it_is {
    ($($type:ty)*) => { $(
        impl Lower for $type {
            fn lower(&self, _: Lowering<'_>, out: &mut Vec<u8>) -> Written {
                serde_json::to_writer(out, self)
            }
        }
    )* };
}
lower_as_it_is! { bool i64 u64 u32 }

impl Lower for str {
    fn lower(&self, _: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        write::string(out, self);
        Ok(())
    }
}

impl Lower for String {
    fn lower(&self, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        self.as_str().lower(cx, out)
    }
}

impl Lower for Json {
    fn lower(&self, _: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        out.extend_from_slice(self.get().as_bytes());
        Ok(())
    }
}

/// A float with an integer value is written without a fraction.
impl Lower for f64 {
    fn lower(&self, _: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
        if self.fract() == 0.0 && self.abs() < MAX_EXACT_INTEGER {
            serde_json::to_writer(out, &(*self as i64))
        } else {
            serde_json::to_writer(out, self)
        }
    }
}

impl<T: Lower> Lower for Option<T> {
    fn lower(&self, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        match self {
            Some(value) => value.lower(cx, out),
            None => {
                out.extend_from_slice(b"null");
                Ok(())
            }
        }
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T: Lower> Lower for Vec<T> {
    fn lower(&self, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        out.push(b'[');
        for item in self {
            element(out, item, cx)?;
        }
        out.push(b']');
        Ok(())
    }
}

impl<T: Lower + ?Sized> Lower for &T {
    fn lower(&self, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        (**self).lower(cx, out)
    }

    fn is_absent(&self) -> bool {
        (**self).is_absent()
    }
}

impl<T: Lower + ?Sized> Lower for Box<T> {
    fn lower(&self, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        (**self).lower(cx, out)
    }

    fn is_absent(&self) -> bool {
        (**self).is_absent()
    }
}
