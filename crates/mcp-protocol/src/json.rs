//! JSON values stored as text: schemas, arguments, unknown members.
//!
//! [`Json`] preserves the text of a value. The text is valid JSON without line breaks, so that a message that contains
//! it stays on one line. Its depth is limited: parsed messages and [`str::parse`] allow [`MAX_DEPTH`] levels, and
//! [`Json::of`] allows 120.

pub(crate) mod read;
pub(crate) mod scan;
mod transcode;
pub(crate) mod write;

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::de::{self, DeserializeOwned, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use scan::Scanner;

use crate::dialect::{Raise, Raising};
use crate::limits::MAX_DEPTH;

pub(crate) use transcode::Transcode;

/// The nesting level at which a value is assumed to begin in a message, so that values created here fit into a message.
const RESERVED_LEVELS: usize = 8;

/// A JSON value as text, preserved as received.
///
/// ```
/// use mcp_protocol::Json;
///
/// let schema: Json = r#"{"type": "object"}"#.parse()?;
/// assert_eq!(schema.get(), r#"{"type": "object"}"#);
/// assert_eq!(schema.to::<serde_json::Value>()?["type"], "object");
/// # Ok::<(), mcp_protocol::errors::BodyError>(())
/// ```
#[derive(Clone)]
pub struct Json(Box<str>);

impl Json {
    /// Serializes a value to JSON text.
    ///
    /// # Errors
    /// Fails if JSON cannot represent the value, for example a map whose keys are not strings, or if the value is
    /// nested too deeply for a message.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        let text = serde_json::to_string(value)?;
        // A short text cannot be nested too deeply: each level takes two brackets.
        if text.len() > MAX_DEPTH && Scanner::new(&text).value(RESERVED_LEVELS).is_err() {
            return Err(serde::ser::Error::custom("JSON nested too deeply for a message"));
        }
        Ok(Self::from_text(text))
    }

    /// Creates a value from text that is known to be JSON.
    pub(crate) fn from_valid(text: &str) -> Self {
        Self(compact(text).into())
    }

    /// Like `from_valid`, for owned text.
    pub(crate) fn from_text(text: String) -> Self {
        match compact(&text) {
            Cow::Borrowed(_) => Self(text.into()),
            Cow::Owned(compact) => Self(compact.into()),
        }
    }

    /// Returns the empty object, `{}`.
    #[must_use]
    pub fn object() -> Self {
        Self("{}".into())
    }

    /// Returns the text.
    #[must_use]
    pub fn get(&self) -> &str {
        &self.0
    }

    /// Parses the text into a type.
    ///
    /// # Errors
    /// Fails if the text does not match the type `T`.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, crate::errors::BodyError> {
        Ok(serde_json::from_str(self.get())?)
    }

    /// Parses the text into a type of this crate, as defined by the newest revision.
    ///
    /// # Errors
    /// Fails if the text does not match the type `T`.
    pub fn raise<T: Raise>(&self) -> Result<T, serde_json::Error> {
        Raising::STRICT.text(self.get())
    }

    /// Returns the canonical form: members sorted by name, only the last of duplicate members, no white space, no
    /// unnecessary escapes, and one notation for numbers with a fraction or an exponent. Texts that differ only in
    /// these points have the same form, and different values never do. Integers keep their digits, whatever their size.
    /// Numbers that a float would round are kept as written.
    ///
    /// ```
    /// use mcp_protocol::Json;
    ///
    /// let json: Json = r#"{"b": 1.50, "a": "\u0041", "b": [2, 1e2]}"#.parse()?;
    /// assert_eq!(json.canonical()?.get(), r#"{"a":"A","b":[2,100.0]}"#);
    /// # Ok::<(), mcp_protocol::errors::BodyError>(())
    /// ```
    ///
    /// # Errors
    /// Fails if a number with a fraction or an exponent is out of the range of `f64`, or if a string has an unpaired
    /// surrogate.
    pub fn canonical(&self) -> Result<Self, crate::errors::BodyError> {
        let mut out = Vec::with_capacity(self.0.len());
        read::Reader::whole(self.get(), &mut |from| read::canonical(from, &mut out))?;
        // The output is always UTF-8.
        Ok(Self(String::from_utf8(out).unwrap_or_default().into()))
    }

    /// Returns the text of a member of an object; of duplicates, the last one. Returns `None` if the member is absent
    /// or the value is not an object.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&str> {
        scan::members(self.get()).filter(|(key, _)| key == name).last().map(|(_, value)| value)
    }

    /// Returns true if the value is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.get().starts_with('{')
    }

    /// Returns true if the value is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.get() == "null"
    }
}

/// The default is `null`.
impl Default for Json {
    fn default() -> Self {
        Self("null".into())
    }
}

/// Compares the text: `{"a":1}` and `{"a": 1}` differ.
impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Json {}

/// Prints the text escaped and truncated, because errors that contain JSON of a peer are logged with `{:?}`.
impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&crate::safe_text::SafeText::message(self.get()), f)
    }
}

impl std::str::FromStr for Json {
    type Err = crate::errors::BodyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut scanner = Scanner::new(text);
        scanner.value(1).and_then(|_| scanner.end()).map_err(crate::errors::BodyError::from)?;
        Ok(Self::from_valid(text.trim_ascii()))
    }
}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        // A `Value` is always JSON.
        Self::of(&value).unwrap_or_default()
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from_text(Box::<str>::from(Box::<RawValue>::deserialize(deserializer)?).into()))
    }
}

/// Returns the text without line breaks: unchanged if there are none, otherwise without white space outside strings.
///
/// The text must be valid JSON, in which line breaks occur only outside strings.
pub(crate) fn compact(text: &str) -> Cow<'_, str> {
    if memchr::memchr2(b'\n', b'\r', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut in_string = false;
    let mut escaped = false;
    for c in text.chars() {
        if in_string || !matches!(c, ' ' | '\t' | '\n' | '\r') {
            out.push(c);
        }
        in_string ^= c == '"' && !escaped;
        escaped = in_string && c == '\\' && !escaped;
    }
    Cow::Owned(out)
}

/// A string read from JSON, borrowed if it has no escapes.
pub(crate) struct Text<'de>(pub(crate) Cow<'de, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text)))
            }
        }

        deserializer.deserialize_str(TextVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newlines_in_raw_json_are_removed_from_lines() {
        let json: Json = "{\n  \"a b\": \"x \\\" \\n y\",\r\n \"c\\\\\": [1, 2]\n}".parse().unwrap();
        assert_eq!(json.get(), "{\"a b\":\"x \\\" \\n y\",\"c\\\\\":[1,2]}");
        let json: Json = "{ \"kept\" : 1 }".parse().unwrap();
        assert_eq!(json.get(), "{ \"kept\" : 1 }");
    }

    #[test]
    fn depth_of_raw_json_is_limited() {
        let deep = format!("{}{}", "[".repeat(128), "]".repeat(128));
        assert!(deep.parse::<Json>().is_err());
        assert!(deep[1..255].parse::<Json>().is_ok());
        let nested =
            |levels: usize| (0..levels).fold(serde_json::json!(1), |inner, _| serde_json::json!([inner]));
        assert!(Json::of(&nested(100)).is_ok() && Json::of(&nested(200)).is_err());
    }

    #[test]
    fn equal_values_have_the_same_canonical_form() {
        let form =
            |text: &str| text.parse::<Json>().unwrap().canonical().map(|json| json.get().to_owned()).ok();
        let same = [r#"{"b":[1,"é"],"a":null}"#, r#" {"a" : 1, "a":null,"b":[ 1 , "\u00e9" ]} "#];
        assert_eq!(form(same[0]), form(same[1]));
        assert_eq!(form(same[0]).unwrap(), r#"{"a":null,"b":[1,"é"]}"#);
        assert_ne!(form("18446744073709551616"), form("18446744073709551617"));
        assert_ne!(form("\"1\""), form("1"));
        assert_eq!(form("[1.50,1.5e0]").unwrap(), "[1.5,1.5]");
        assert_eq!(form("[15e-1,0.0,-0.0,1e2]").unwrap(), "[1.5,0.0,-0.0,100.0]");
        assert_eq!((form("1e999"), form("\"\\ud800\"")), (None, None));
    }

    #[test]
    fn amounts_that_one_float_would_hold_keep_different_forms() {
        let form = |text: &str| text.parse::<Json>().unwrap().canonical().unwrap().get().to_owned();
        for (one, other) in [
            ("0.1", "0.10000000000000001"),
            ("9007199254740993.0", "9007199254740992.0"),
            ("1e-400", "2e-400"),
            ("1e-400", "0.0"),
            ("-0.30000000000000004", "-0.300000000000000041"),
        ] {
            assert_ne!(form(one), form(other), "{one} {other}");
        }
        assert_eq!(form("10.0e-1"), form("1.0"));
    }

    #[test]
    fn empty_object_is_an_object() {
        assert_eq!(Json::object().get(), "{}");
    }
}
