//! Ids of requests, and the progress tokens that look like them.

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

/// Names the request that a progress notification belongs to. Chosen by the sender of the request.
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

/// As in JSON, so that `1` and `"1"` look different.
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
            .number("a whole number", |text| text.parse().ok().filter(|_| text != "-0"))
            .map(Self::Number),
        _ => Err(from.unexpected("a string or a whole number")),
    };
}
