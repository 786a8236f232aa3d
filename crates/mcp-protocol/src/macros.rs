//! Macros that define the wire types of this crate.
//!
//! [`object!`] turns a list of members into a struct, its constructor and setters, and the code that reads and lowers
//! it. The same rules apply to all types: a duplicate of a known member is an error, an array is not accepted as an
//! object, an optional member that is `null` counts as absent, and unknown members are preserved by open types and
//! ignored by the others. [`crate::dialect`] defines which version has which member.

/// Defines a JSON object with known members.
///
/// Sections, each optional, in this order:
/// - `tag "type" = "text";` a constant member that identifies the type;
/// - `expected { field: T = "wire" or default, }` required by the newest revision, absent from older ones. The field is
///   an `Option<T>`, and `new` sets it to the default. Reading fails if the member is absent, unless the dialect
///   tolerates its absence;
/// - `required { field: T = "wire", }` an argument of `new`;
/// - `empty { field: T = "wire", }` required on the wire, empty in `new`, and read as empty if the dialect tolerates
///   its absence;
/// - `optional { field: T = "wire", }` an `Option<T>` for which `null` means absent;
/// - `present { field: T = "wire", }` an `Option<T>` for which `null` is a value;
/// - `meta = meta;` the `_meta` member of a body; `meta = meta in part;` the `_meta` member of a part of a body, which
///   is not an envelope, so that an invalid value of a known key is preserved;
/// - `open = other;` unknown members are preserved in this field;
/// - `check by path;` a function that validates the value after reading;
/// - `lower by path;` a function that lowers the value, if omitting members is not sufficient.
macro_rules! object {
    (
        $(#[$attr:meta])*
        pub struct $name:ident {
            $(tag $tag:literal = $tagged:literal;)?
            $(expected { $($(#[$e_attr:meta])* $e:ident : $e_ty:ty = $e_wire:literal or $e_default:expr),* $(,)? })?
            $(required { $($(#[$r_attr:meta])* $r:ident : $r_ty:ty = $r_wire:literal),* $(,)? })?
            $(empty { $($(#[$l_attr:meta])* $l:ident : $l_ty:ty = $l_wire:literal),* $(,)? })?
            $(optional { $($(#[$o_attr:meta])* $o:ident : $o_ty:ty = $o_wire:literal),* $(,)? })?
            $(present { $($(#[$p_attr:meta])* $p:ident : $p_ty:ty = $p_wire:literal),* $(,)? })?
            $(meta = $meta:ident $(in $part:ident)?;)?
            $(open = $other:ident;)?
            $(check by $check:path;)?
            $(lower by $lower:path;)?
        }
    ) => {
        $(#[$attr])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($($(#[$e_attr])* pub $e: Option<$e_ty>,)*)?
            $($($(#[$r_attr])* pub $r: $r_ty,)*)?
            $($($(#[$l_attr])* pub $l: $l_ty,)*)?
            $($($(#[$o_attr])* pub $o: Option<$o_ty>,)*)?
            $($($(#[$p_attr])* pub $p: Option<$p_ty>,)*)?
            $(
                /// The `_meta` member: metadata of the message.
                pub $meta: Option<Box<crate::meta::Meta>>,
            )?
            $(
                /// Members unknown to this crate, preserved as received.
                pub $other: crate::members::Members,
            )?
        }

        impl $name {
            #[doc = concat!("Creates a `", stringify!($name), "` from its required members; setters set the rest.")]
            #[must_use]
            pub fn new($($($r: impl Into<$r_ty>,)*)?) -> Self {
                Self {
                    $($($e: Some($e_default),)*)?
                    $($($r: $r.into(),)*)?
                    $($($l: Default::default(),)*)?
                    $($($o: None,)*)?
                    $($($p: None,)*)?
                    $($meta: None,)?
                    $($other: Default::default(),)?
                }
            }

            $($(
                #[doc = concat!("Sets `", $e_wire, "`.")]
                #[must_use]
                pub fn $e(mut self, value: impl Into<$e_ty>) -> Self {
                    self.$e = Some(value.into());
                    self
                }
            )*)?
            $($(
                #[doc = concat!("Sets `", $l_wire, "`.")]
                #[must_use]
                pub fn $l(mut self, value: impl Into<$l_ty>) -> Self {
                    self.$l = value.into();
                    self
                }
            )*)?
            $($(
                #[doc = concat!("Sets `", $o_wire, "`.")]
                #[must_use]
                pub fn $o(mut self, value: impl Into<$o_ty>) -> Self {
                    self.$o = Some(value.into());
                    self
                }
            )*)?
            $($(
                #[doc = concat!("Sets `", $p_wire, "`.")]
                #[must_use]
                pub fn $p(mut self, value: impl Into<$p_ty>) -> Self {
                    self.$p = Some(value.into());
                    self
                }
            )*)?
            $(
                /// Sets `_meta`.
                #[must_use]
                pub fn $meta(mut self, value: crate::meta::Meta) -> Self {
                    self.$meta = Some(Box::new(value));
                    self
                }
            )?

            /// Names of the members on the wire, in the order of their bits.
            pub(crate) const MEMBERS: &'static [&'static str] = &[
                $($tag,)?
                $($($e_wire,)*)?
                $($($r_wire,)*)?
                $($($l_wire,)*)?
                $($($o_wire,)*)?
                $($($p_wire,)*)?
                $({ let _ = stringify!($meta); "_meta" },)?
            ];

            /// Mask of the members that the newest revision requires and others may lack.
            const EXPECTED: u64 = 0 $($(| crate::dialect::bit(Self::MEMBERS, $e_wire))*)?;

            /// Mask of the members that are always present.
            const REQUIRED: u64 = 0
                $(| crate::dialect::bit(Self::MEMBERS, $tag))?
                $($(| crate::dialect::bit(Self::MEMBERS, $r_wire))*)?
                $($(| crate::dialect::bit(Self::MEMBERS, $l_wire))*)?;

            /// For each version, the mask of the members that it lacks.
            pub(crate) const LACKS: [u64; crate::dialect::REVISION_COUNT] =
                crate::dialect::lacks(stringify!($name), Self::MEMBERS);

            /// For each version, the mask of the required members that a peer may omit.
            const TOLERATES: [u64; crate::dialect::REVISION_COUNT] =
                crate::dialect::tolerates(stringify!($name), Self::MEMBERS);

            /// Writes all members, except those whose bit is in `skip`.
            pub(crate) fn lower_members(
                &self,
                cx: crate::dialect::Lowering<'_>,
                skip: u64,
                out: &mut Vec<u8>,
            ) -> Result<(), serde_json::Error> {
                self.lower_known_members(cx, skip, out)?;
                $(self.$other.lower_members(out)?;)?
                Ok(())
            }

            /// Writes the members this crate knows, except those whose bit is in `skip`.
            pub(crate) fn lower_known_members(
                &self,
                cx: crate::dialect::Lowering<'_>,
                skip: u64,
                out: &mut Vec<u8>,
            ) -> Result<(), serde_json::Error> {
                cx.members(
                    Self::MEMBERS,
                    // In the order of `MEMBERS`.
                    &[
                        $(&$tagged,)?
                        $($(&self.$e,)*)?
                        $($(&self.$r,)*)?
                        $($(&self.$l,)*)?
                        $($(&self.$o,)*)?
                        $($(&self.$p,)*)?
                        $(&cx.merged_meta(self.$meta.as_deref()),)?
                    ],
                    Self::REQUIRED,
                    skip,
                    out,
                )
            }
        }

        object!(@default $name [$($($r)*)?]);
        object!(@lower $name $($lower)?);

        crate::dialect::serde_by_dialect!($name);

        impl crate::dialect::Raise for $name {
            fn blank() -> Self {
                Self {
                    $($($e: None,)*)?
                    $($($r: crate::dialect::Raise::blank(),)*)?
                    $($($l: Default::default(),)*)?
                    $($($o: None,)*)?
                    $($($p: None,)*)?
                    $($meta: None,)?
                    $($other: Default::default(),)?
                }
            }
        }

        impl crate::dialect::Fill for $name {
            fn fill(
                &mut self,
                from: &mut crate::json::read::Reader<'_>,
                how: crate::dialect::Raising,
            ) -> Result<(), serde_json::Error> {
                let seen = from.object(
                    Self::MEMBERS,
                    // In the order of `MEMBERS`.
                    &mut [
                        $(&mut crate::dialect::Tag($tagged),)?
                        $($(&mut self.$e,)*)?
                        $($(&mut self.$r,)*)?
                        $($(&mut self.$l,)*)?
                        $($(&mut self.$o,)*)?
                        $($(&mut crate::dialect::Present(&mut self.$p, how),)*)?
                        $(&mut crate::meta::Part(
                            &mut self.$meta,
                            how.is_legacy() $(|| !stringify!($part).is_empty())?,
                        ),)?
                    ],
                    how.of(&Self::LACKS) & Self::EXPECTED,
                    None $(.or(Some(&mut self.$other)))?,
                )?;
                let absent = 0
                    $($(| u64::from(self.$e.is_none()) * const { crate::dialect::bit(Self::MEMBERS, $e_wire) })*)?;
                let missing = (absent | Self::REQUIRED & !seen) & !how.of(&Self::TOLERATES);
                if missing != 0 {
                    return Err(from.missing(Self::MEMBERS, missing));
                }
                $(
                    if let Err(problem) = $check(self) {
                        return Err(from.odd(serde::de::Error::custom(problem)));
                    }
                )?
                Ok(())
            }
        }
    };

    (@default $name:ident []) => {
        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }
    };
    (@default $name:ident [$($r:ident)+]) => {};

    (@lower $name:ident) => {
        impl crate::dialect::Lower for $name {
            fn lower(
                &self,
                cx: crate::dialect::Lowering<'_>,
                out: &mut Vec<u8>,
            ) -> Result<(), serde_json::Error> {
                crate::dialect::object(out, |out| self.lower_members(cx, cx.lacking(&Self::LACKS), out))
            }
        }
    };
    (@lower $name:ident $lower:path) => {
        impl crate::dialect::Lower for $name {
            fn lower(
                &self,
                cx: crate::dialect::Lowering<'_>,
                out: &mut Vec<u8>,
            ) -> Result<(), serde_json::Error> {
                crate::dialect::object(out, |out| $lower(self, cx, out))
            }
        }
    };
}

/// Defines a string with known values. Unknown values are preserved.
macro_rules! string_enum {
    (
        $(#[$attr:meta])*
        pub enum $name:ident { $($(#[$v_attr:meta])* $variant:ident = $wire:literal),* $(,)? }
    ) => {
        $(#[$attr])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$v_attr])* $variant,)*
            /// A value unknown to this crate, preserved as received.
            Other(Box<str>),
        }

        impl $name {
            /// Returns the string on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $wire,)*
                    Self::Other(text) => text,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $($wire => Self::$variant,)*
                    _ => Self::Other(text.into()),
                }
            }
        }

        /// Prints the value for people: an unknown value is escaped and truncated. `as_str` returns the string on the
        /// wire.
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                crate::safe_text::SafeText::name(self.as_str()).fmt(f)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = crate::json::Text::deserialize(deserializer)?;
                Ok(Self::from(&*text))
            }
        }

        impl crate::dialect::Lower for $name {
            fn lower(
                &self,
                cx: crate::dialect::Lowering<'_>,
                out: &mut Vec<u8>,
            ) -> Result<(), serde_json::Error> {
                self.as_str().lower(cx, out)
            }
        }

        crate::dialect::raise! { $name, Self::from(""), |from| Ok(Self::from(&*from.string()?)); }
    };
}

pub(crate) use {object, string_enum};
