//! JSON text given to any serializer, value by value.

use serde::ser::{Error, Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::value::RawValue;

use super::scan;

/// Valid JSON text that serializes as what it says, so that pretty printers and trees see its parts.
pub(crate) struct Transcode<'a>(pub(crate) &'a str);

impl Serialize for Transcode<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.0.trim_ascii();
        match text.as_bytes().first() {
            Some(b'{') => {
                let mut out = serializer.serialize_map(None)?;
                for (key, value) in scan::members(text) {
                    out.serialize_entry(&*key, &Transcode(value))?;
                }
                out.end()
            }
            Some(b'[') => {
                let mut out = serializer.serialize_seq(None)?;
                for element in scan::elements(text) {
                    out.serialize_element(&Transcode(element))?;
                }
                out.end()
            }
            Some(b't') => serializer.serialize_bool(true),
            Some(b'f') => serializer.serialize_bool(false),
            Some(b'n') => serializer.serialize_unit(),
            Some(b'"') if !text.contains('\\') => serializer.serialize_str(text.trim_matches('"')),
            _ => match text.parse::<i64>() {
                Ok(number) if number != 0 || text == "0" => serializer.serialize_i64(number),
                // Numbers keep their digits, and strings their escapes: a lone surrogate has no other form.
                _ => serde_json::from_str::<&RawValue>(text).map_err(S::Error::custom)?.serialize(serializer),
            },
        }
    }
}
