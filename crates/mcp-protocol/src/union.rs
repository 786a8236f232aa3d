//! Objects of several types that are distinguished by a member.

/// Defines an enum over objects that are distinguished by one member. An object with an unknown tag is preserved.
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
            /// A kind unknown to this crate, preserved as received.
            Unknown(crate::json::Json),
        }

        $(
            impl From<$type> for $name {
                fn from(value: $type) -> Self {
                    Self::$variant(value)
                }
            }
        )*

        crate::dialect::serde_by_dialect!($name);

        impl crate::dialect::Lower for $name {
            fn lower(
                &self,
                cx: crate::dialect::Lowering<'_>,
                out: &mut Vec<u8>,
            ) -> Result<(), serde_json::Error> {
                $(
                    if let Some(instead) = $lower(self, cx) {
                        return crate::dialect::Lower::lower(&instead, cx, out);
                    }
                )?
                match self {
                    $(Self::$variant(value) => value.lower(cx, out),)*
                    Self::Unknown(json) => json.lower(cx, out),
                }
            }
        }

        impl crate::dialect::Raise for $name {
            fn blank() -> Self {
                Self::Unknown(crate::dialect::Raise::blank())
            }
        }

        impl crate::dialect::Fill for $name {
            fn fill(
                &mut self,
                from: &mut crate::json::read::Reader<'_>,
                how: crate::dialect::Raising,
            ) -> Result<(), serde_json::Error> {
                use crate::dialect::Raise;

                *self = match from.tag($member)?.as_deref() {
                    $(Some($tag) => Self::$variant(Raise::raise(from, how)?),)*
                    Some(_) => Self::Unknown(from.unknown_object($member)?),
                    None => return Err(serde::de::Error::missing_field($member)),
                };
                Ok(())
            }
        }
    };
}
pub(crate) use union;
