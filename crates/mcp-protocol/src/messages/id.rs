//! Request ids and progress tokens.

use std::fmt;

use crate::dialect::{Lower, Lowering, Written, raise, serde_by_dialect};

/// The id of a request: a string or a 64-bit integer. `1` and `"1"` are different ids.
///
/// ```
/// use mcp_protocol::messages::Id;
///
/// assert_ne!(Id::from(1), Id::from("1"));
/// assert_eq!(format!("{} {}", Id::from(1), Id::from("1")), r#"1 "1""#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Id {
    /// An integer.
    Number(i64),
    /// A string.
    String(Box<str>),
}

/// Token that links a progress notification to its request. Chosen by the sender of the request.
#[doc(alias = "progressToken")]
pub type ProgressToken = Id;

impl From<i64> for Id {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Id {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for Id {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

/// Prints the id as JSON, so that `1` and `"1"` are distinguishable.
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::String(text) => write!(f, "{text:?}"),
        }
    }
}

serde_by_dialect!(Id);

impl Lower for Id {
    fn lower(&self, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        match self {
            Self::Number(number) => number.lower(cx, out),
            Self::String(text) => text.lower(cx, out),
        }
    }
}

raise! {
    Id, Self::Number(0), |from| match from.peek() {
        Some(b'"') => Ok(Self::String(from.string()?.into())),
        Some(b'-' | b'0'..=b'9') => from
            .number("an integer", |text| text.parse().ok().filter(|_| text != "-0"))
            .map(Self::Number),
        _ => Err(from.unexpected("a string or an integer")),
    };
}
