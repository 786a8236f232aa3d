//! Serialization of JSON text with any serializer, value by value.

use serde::ser::{Error, Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::value::RawValue;

use super::scan::{Fault, Scanner};

/// Valid JSON text that serializes as the value that it represents, so that pretty printers and `serde_json::Value` see
/// its parts.
pub(crate) struct Transcode<'a>(pub(crate) &'a str);

impl Serialize for Transcode<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.0.trim_ascii();
        let too_deep = |_: Fault| S::Error::custom("JSON nested too deeply to be serialized");
        match text.as_bytes().first() {
            Some(b'{') => {
                let mut out = serializer.serialize_map(None)?;
                let mut scanner = Scanner::new(text);
                while scanner.step(b'{', b'}').map_err(too_deep)? {
                    scanner.peek();
                    let key = scanner.string().map_err(too_deep)?;
                    scanner.expect(b':').map_err(too_deep)?;
                    let value = scanner.value(1).map_err(too_deep)?;
                    out.serialize_entry(&Transcode(key.span.of(text)), &Transcode(value.of(text)))?;
                }
                out.end()
            }
            Some(b'[') => {
                let mut out = serializer.serialize_seq(None)?;
                let mut scanner = Scanner::new(text);
                while scanner.step(b'[', b']').map_err(too_deep)? {
                    let value = scanner.value(1).map_err(too_deep)?;
                    out.serialize_element(&Transcode(value.of(text)))?;
                }
                out.end()
            }
            Some(b't') => serializer.serialize_bool(true),
            Some(b'f') => serializer.serialize_bool(false),
            Some(b'n') => serializer.serialize_unit(),
            Some(b'"') if !text.contains('\\') => serializer.serialize_str(text.trim_matches('"')),
            Some(b'"') => match serde_json::from_str::<String>(text) {
                Ok(decoded) => serializer.serialize_str(&decoded),
                // A string with an unpaired surrogate cannot be decoded, so its text is serialized as it is.
                Err(_) => as_it_is(text, serializer),
            },
            _ => number(text, serializer),
        }
    }
}

/// Serializes a number as an integer or a float if that preserves its digits, and otherwise as raw JSON text.
fn number<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    match (text.parse::<i64>(), text.parse::<u64>(), text.parse::<f64>()) {
        (Ok(number), ..) if number != 0 || text == "0" => serializer.serialize_i64(number),
        (_, Ok(number), _) if number != 0 => serializer.serialize_u64(number),
        (_, _, Ok(number)) if serde_json::to_string(&number).is_ok_and(|written| written == text) => {
            serializer.serialize_f64(number)
        }
        _ => as_it_is(text, serializer),
    }
}

fn as_it_is<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serde_json::from_str::<&RawValue>(text).map_err(S::Error::custom)?.serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(text: &str) -> String {
        serde_json::to_string(&Transcode(text)).unwrap()
    }

    #[test]
    fn any_value_is_preserved_by_transcoding() {
        for text in [
            r#"{"a":[1,-2,0,0.5,1e2,18446744073709551615,18446744073709551616,-0,-0.0],"b\n":{"":null}}"#,
            r#"["line\nline",true,false,{},[],"\ud800"]"#,
        ] {
            assert_eq!(through(text), text);
        }
        assert_eq!(through(r#" { "\u0041" : "\u00e9" } "#), r#"{"A":"é"}"#);
    }

    #[test]
    fn other_serializers_see_values_instead_of_text() {
        let tree = serde_json::to_value(Transcode(r#"{"a\n":["x\ty",0.25,18446744073709551615]}"#)).unwrap();
        assert_eq!(tree, serde_json::json!({"a\n": ["x\ty", 0.25, u64::MAX]}));
    }

    #[test]
    fn json_nested_too_deeply_is_an_error_and_not_omitted() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        assert!(serde_json::to_string(&Transcode(&format!(r#"{{"a":{deep},"b":1}}"#))).is_err());
    }
}
