//! Objects that are one of several types, told apart by a member.
//!
//! The member usually stands first; then the rest is read straight into the right type. If it does not, or
//! tells of a type this crate does not know, the whole object is kept as text first.

use serde::de::{Error, MapAccess};

use crate::dialect::{Raise, Raising};
use crate::json::{Json, Text};

/// An object of which the member that tells its type was read, or the whole text.
pub(crate) enum Tagged<'de, A> {
    /// The tag stood first; the other members are still to be read. A tag of `null` is an absent one.
    First { tag: Option<Text<'de>>, rest: A },
    /// The whole object, and the tag if it has one.
    Whole { tag: Option<String>, text: String },
}

impl<'de, A: MapAccess<'de>> Tagged<'de, A> {
    pub(crate) fn read(member: &str, mut map: A) -> Result<Self, A::Error> {
        let Some(key) = map.next_key::<Text<'de>>()? else {
            return Ok(Self::Whole { tag: None, text: "{}".into() });
        };
        if &*key == member {
            return Ok(Self::First { tag: map.next_value()?, rest: map });
        }
        let first = (key, map.next_value::<Json>()?);
        Self::whole(member, Some(first), map)
    }

    fn whole(member: &str, first: Option<(Text<'de>, Json)>, mut map: A) -> Result<Self, A::Error> {
        let mut tag = None;
        let mut text = String::from("{");
        let mut push = |key: &str, value: &Json| -> Result<(), A::Error> {
            if key == member {
                if tag.is_some() {
                    return Err(A::Error::custom(format_args!("duplicate field `{member}`")));
                }
                tag = Some(value.to::<Option<String>>().map_err(A::Error::custom)?);
            }
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&serde_json::to_string(key).map_err(A::Error::custom)?);
            text.push(':');
            text.push_str(value.get());
            Ok(())
        };
        if let Some((key, value)) = &first {
            push(key, value)?;
        }
        while let Some((key, value)) = map.next_entry::<Text<'de>, Json>()? {
            push(&key, &value)?;
        }
        text.push('}');
        Ok(Self::Whole { tag: tag.flatten(), text })
    }

    pub(crate) fn tag(&self) -> Option<&str> {
        match self {
            Self::First { tag, .. } => tag.as_deref(),
            Self::Whole { tag, .. } => tag.as_deref(),
        }
    }

    /// The object as the type that its tag told.
    pub(crate) fn into_object<T: Raise>(self) -> Result<T, A::Error> {
        match self {
            Self::First { rest, .. } => T::raise_members(rest, Raising::AFTER_TAG),
            Self::Whole { text, .. } => serde_json::from_str(&text).map_err(A::Error::custom),
        }
    }

    /// The object as it came.
    pub(crate) fn into_json(self, member: &str) -> Result<Json, A::Error> {
        let text = match self {
            Self::Whole { text, .. } => text,
            Self::First { tag, rest } => {
                let first =
                    (Text(member.to_owned().into()), Json::of(&tag.as_deref()).map_err(A::Error::custom)?);
                match Self::whole(member, Some(first), rest)? {
                    Self::Whole { text, .. } => text,
                    Self::First { .. } => return Err(A::Error::custom("an object that begins twice")),
                }
            }
        };
        serde_json::from_str(&text).map_err(A::Error::custom)
    }
}

/// An enum over objects that are told apart by one member. An unknown tag keeps the object as it came.
macro_rules! union {
    (
        $(#[$attr:meta])*
        pub enum $name:ident by $member:literal {
            $($(#[$v_attr:meta])* $tag:literal => $variant:ident($type:ty),)*
        }
        $(lower by $lower:path;)?
    ) => {
        $(#[$attr])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$v_attr])* $variant($type),)*
            /// Something this crate does not know, kept as it came.
            Unknown(crate::json::Json),
        }

        $(
            impl From<$type> for $name {
                fn from(value: $type) -> Self {
                    Self::$variant(value)
                }
            }
        )*

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                crate::dialect::Lower::lower(self, crate::dialect::Lowering::CANONICAL, serializer)
            }
        }

        impl crate::dialect::Lower for $name {
            fn lower<S: serde::Serializer>(
                &self,
                cx: crate::dialect::Lowering<'_>,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                $(
                    if let Some(instead) = $lower(self, cx) {
                        return crate::dialect::Lower::lower(&instead, cx, serializer);
                    }
                )?
                match self {
                    $(Self::$variant(value) => crate::dialect::Lower::lower(value, cx, serializer),)*
                    Self::Unknown(json) => serde::Serialize::serialize(json, serializer),
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct UnionVisitor;

                impl<'de> serde::de::Visitor<'de> for UnionVisitor {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(concat!("an object with a member `", $member, "`"))
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<$name, A::Error> {
                        let object = crate::union::Tagged::read($member, map)?;
                        match object.tag() {
                            $(Some($tag) => object.into_object().map($name::$variant),)*
                            Some(_) => object.into_json($member).map($name::Unknown),
                            None => Err(serde::de::Error::missing_field($member)),
                        }
                    }
                }

                deserializer.deserialize_map(UnionVisitor)
            }
        }
    };
}
pub(crate) use union;
