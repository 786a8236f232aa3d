//! Parsing of JSON text into types with one non-generic reader, to keep compile times and code size low.
//!
//! Values are parsed in place, without an intermediate tree. Errors contain the path of the value. This path is
//! determined by a second pass, which takes place only after an error.

use std::borrow::Cow;
use std::ops::Range;

use serde::de::Error as _;

use super::Json;
use super::scan::{self, Fault, FaultKind, Scanner, Span};
use crate::dialect::{Fill, Raising};
use crate::limits::MAX_DEPTH;
use crate::members::Members;

pub(crate) type Read<T> = Result<T, serde_json::Error>;

/// A reader of JSON text, at some position in the text.
#[derive(Clone, Debug)]
#[allow(unnameable_types, reason = "appears in a hidden method of a sealed-by-convention trait")]
pub struct Reader<'a> {
    text: &'a str,
    scanner: Scanner<'a>,
    depth: usize,
}

impl<'a> Reader<'a> {
    /// Reads a whole text.
    pub(crate) fn whole(text: &'a str, read: &mut dyn FnMut(&mut Self) -> Read<()>) -> Read<()> {
        let mut reader = Self { text, scanner: Scanner::new(text), depth: 0 };
        read(&mut reader).map_err(|error| reader.placed(&error))?;
        reader.scanner.end().map_err(|fault| reader.fault(fault))
    }

    /// Reads a string; decodes it only if it has escapes.
    pub(crate) fn string(&mut self) -> Read<Cow<'a, str>> {
        if self.scanner.peek() != Some(b'"') {
            return Err(self.unexpected("a string"));
        }
        match self.scanner.string() {
            Ok(token) if !token.escaped => Ok(Cow::Borrowed(token.inner().of(self.text))),
            Ok(token) => self.decode(token.span).map(Cow::Owned),
            Err(fault) => Err(self.fault(fault)),
        }
    }

    /// Decodes a string that was just read and has escapes.
    #[cold]
    fn decode(&mut self, string: Span) -> Read<String> {
        serde_json::from_str(string.of(self.text)).map_err(|_| {
            self.scanner.go_to(string.start);
            serde_json::Error::custom("unpaired surrogate in a string")
        })
    }

    /// Reads a number and converts it with `parse`. `expected` names the kind of number in errors.
    pub(crate) fn number<T>(&mut self, expected: &str, parse: impl FnOnce(&str) -> Option<T>) -> Read<T> {
        if !matches!(self.scanner.peek(), Some(b'-' | b'0'..=b'9')) {
            return Err(self.unexpected(expected));
        }
        let before = self.scanner.clone();
        parse(self.any()?).ok_or_else(|| {
            self.scanner = before;
            serde_json::Error::custom(format_args!(
                "expected {expected}, found a number out of range or of another kind"
            ))
        })
    }

    /// Reads an integer.
    pub(crate) fn integer<T: std::str::FromStr>(&mut self) -> Read<T> {
        self.number("an integer", |text| text.parse().ok())
    }

    /// Reads `true` or `false`.
    pub(crate) fn boolean(&mut self) -> Read<bool> {
        match self.scanner.peek() {
            Some(b't' | b'f') => Ok(self.any()? == "true"),
            _ => Err(self.unexpected("true or false")),
        }
    }

    /// Skips `null`; returns true if it was present.
    pub(crate) fn null(&mut self) -> Read<bool> {
        if self.scanner.peek() != Some(b'n') {
            return Ok(false);
        }
        self.any().map(|_| true)
    }

    /// Returns the text of any value.
    pub(crate) fn any(&mut self) -> Read<&'a str> {
        match self.scanner.value(self.depth + 1) {
            Ok(span) => Ok(span.of(self.text)),
            Err(fault) => Err(self.fault(fault)),
        }
    }

    /// Returns the first byte of the next value.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        self.scanner.peek()
    }

    /// Returns the string at `member` of the object that begins here, without consuming it. `null` counts as absent.
    pub(crate) fn tag(&self, member: &str) -> Read<Option<Cow<'a, str>>> {
        let mut ahead = self.clone();
        ahead.open(b'{', "an object")?;
        let mut is_first = true;
        while ahead.next(&mut is_first, b'}')? {
            if ahead.key()? != member {
                ahead.any()?;
            } else if ahead.null()? {
                return Ok(None);
            } else {
                return ahead.string().map(Some);
            }
        }
        Ok(None)
    }

    /// Reads an object of unknown type as text. Fails if the member `tag` occurs twice.
    pub(crate) fn unknown_object(&mut self, tag: &'static str) -> Read<Json> {
        let text = self.any()?;
        if scan::members(text).filter(|(key, _)| key == tag).count() > 1 {
            return Err(serde_json::Error::duplicate_field(tag));
        }
        Ok(Json::from_valid(text))
    }

    /// Reads the elements of an array.
    pub(crate) fn array(&mut self, element: &mut dyn FnMut(&mut Self) -> Read<()>) -> Read<()> {
        self.open(b'[', "an array")?;
        let mut is_first = true;
        while self.next(&mut is_first, b']')? {
            element(self)?;
        }
        Ok(())
    }

    /// Reads the members of an object with arbitrary keys.
    pub(crate) fn map(&mut self, member: &mut dyn FnMut(&mut Self, Cow<'a, str>) -> Read<()>) -> Read<()> {
        self.open(b'{', "an object")?;
        let mut is_first = true;
        while self.next(&mut is_first, b'}')? {
            let key = self.key()?;
            member(self, key)?;
        }
        Ok(())
    }

    /// Reads the members of an object with arbitrary keys, sorted by key. Of members with the same key, only the last
    /// is read.
    pub(crate) fn sorted_map(&mut self, member: &mut dyn FnMut(&mut Self, String) -> Read<()>) -> Read<()> {
        let mut members: Vec<(String, u32)> = Vec::new();
        self.map(&mut |reader, key| {
            members.push((key.into_owned(), reader.scanner.position()));
            reader.any().map(|_| ())
        })?;
        let (after, depth) = (self.scanner.position(), self.depth);
        members.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut members = members.into_iter().peekable();
        while let Some((key, at)) = members.next() {
            if members.peek().is_none_or(|(next, _)| *next != key) {
                self.scanner.go_to(at);
                self.depth = depth + 1;
                member(self, key)?;
            }
        }
        self.scanner.go_to(after);
        self.depth = depth;
        Ok(())
    }

    /// Reads an object of a known type. The member `names[i]` fills `places[i]`, unless bit `i` of `lacks` is set. All
    /// other members are added to `unknown`, if present. Returns a mask of the members that were found.
    pub(crate) fn object(
        &mut self,
        names: &'static [&'static str],
        places: &mut [&mut dyn Fill],
        lacks: u64,
        mut unknown: Option<&mut Members>,
    ) -> Read<u64> {
        let mut seen = 0;
        self.map(&mut |reader, key| {
            let at = names.iter().position(|name| *name == key).filter(|at| lacks & (1 << at) == 0);
            if let Some(place) = at.and_then(|at| places.get_mut(at)) {
                let bit = at.map_or(0, |at| 1 << at);
                if seen & bit != 0 {
                    return Err(serde_json::Error::custom(format_args!("duplicate field `{key}`")));
                }
                seen |= bit;
                return place.fill(reader, Raising::STRICT);
            }
            let value = reader.any()?;
            if let Some(unknown) = &mut unknown {
                unknown.push(key.into_owned(), Json::from_valid(value));
            }
            Ok(())
        })?;
        Ok(seen)
    }

    /// Returns the error for the first missing member of an object that was read to its end.
    #[cold]
    pub(crate) fn missing(&mut self, names: &'static [&'static str], members: u64) -> serde_json::Error {
        let member = names.get(members.trailing_zeros() as usize).unwrap_or(&"");
        self.odd(serde_json::Error::missing_field(member))
    }

    /// Returns `error`, positioned at the object that was just read to its end.
    #[cold]
    pub(crate) fn odd(&mut self, error: serde_json::Error) -> serde_json::Error {
        self.scanner.retreat();
        error
    }

    fn open(&mut self, bracket: u8, expected: &str) -> Read<()> {
        if self.scanner.peek() != Some(bracket) {
            return Err(self.unexpected(expected));
        }
        if self.depth == MAX_DEPTH {
            return Err(self.fault(Fault { at: self.scanner.position() as usize, kind: FaultKind::TooDeep }));
        }
        self.depth += 1;
        self.scanner.advance();
        Ok(())
    }

    /// Skips the comma before the next element and returns true. After the last element, skips the closing bracket and
    /// returns false.
    fn next(&mut self, is_first: &mut bool, close: u8) -> Read<bool> {
        let is_first = std::mem::take(is_first);
        match self.scanner.peek() {
            Some(byte) if byte == close => {
                self.scanner.advance();
                self.depth -= 1;
                Ok(false)
            }
            Some(b',') if !is_first => {
                self.scanner.advance();
                Ok(true)
            }
            Some(_) if is_first => Ok(true),
            _ => Err(self.fault(self.scanner.fault())),
        }
    }

    fn key(&mut self) -> Read<Cow<'a, str>> {
        if self.scanner.peek() != Some(b'"') {
            return Err(self.fault(self.scanner.fault()));
        }
        let key = self.string()?;
        self.scanner.expect(b':').map_err(|fault| self.fault(fault))?;
        Ok(key)
    }

    #[cold]
    pub(crate) fn unexpected(&mut self, expected: &str) -> serde_json::Error {
        let found = match self.scanner.peek() {
            None => "nothing",
            Some(b'{') => "an object",
            Some(b'[') => "an array",
            Some(b'"') => "a string",
            Some(b't' | b'f') => "true or false",
            Some(b'n') => "null",
            Some(b'-' | b'0'..=b'9') => "a number",
            Some(_) => return self.fault(self.scanner.fault()),
        };
        serde_json::Error::custom(format_args!("expected {expected}, found {found}"))
    }

    #[cold]
    fn fault(&self, fault: Fault) -> serde_json::Error {
        serde_json::Error::custom(crate::errors::DecodeErrorKind::from(fault))
    }

    /// Adds the path of the value to the error.
    #[cold]
    fn placed(&self, error: &serde_json::Error) -> serde_json::Error {
        let path = path(self.text, self.scanner.position() as usize);
        if path.is_empty() {
            return serde_json::Error::custom(error);
        }
        serde_json::Error::custom(format_args!("`{path}`: {error}"))
    }
}

/// Writes the next value in its canonical form, see [`Json::canonical`].
pub(super) fn canonical(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Read<()> {
    match from.peek() {
        Some(b'{') => {
            out.push(b'{');
            let start = out.len();
            // Members are written in order of appearance and sorted afterwards if necessary.
            let mut members: Vec<(String, Range<usize>)> = Vec::new();
            from.map(&mut |from, key| {
                separate(out, b'{');
                let begin = out.len();
                serde_json::to_writer(&mut *out, &key)?;
                out.push(b':');
                canonical(from, out)?;
                members.push((key.into_owned(), begin - start..out.len() - start));
                Ok(())
            })?;
            if !members.is_sorted_by(|(one, _), (next, _)| one < next) {
                in_order(members, start, out);
            }
            out.push(b'}');
        }
        Some(b'[') => {
            out.push(b'[');
            from.array(&mut |from| {
                separate(out, b'[');
                canonical(from, out)
            })?;
            out.push(b']');
        }
        Some(b'"') => serde_json::to_writer(out, &*from.string()?)?,
        Some(b'-' | b'0'..=b'9') => {
            let is_digit = |byte: u8| byte == b'-' || byte.is_ascii_digit();
            let number = from.number("a number within bounds", |text| {
                let number = text.parse().ok().filter(|number: &f64| number.is_finite());
                if text.bytes().all(is_digit) {
                    return Some(text.to_owned());
                }
                let written = serde_json::to_string(&number?).ok()?;
                // Keep digits that a float cannot represent: two different values must not have the same form.
                Some(if decimal(&written) == decimal(text) { written } else { text.to_owned() })
            })?;
            out.extend_from_slice(number.as_bytes());
        }
        _ => out.extend_from_slice(from.any()?.as_bytes()),
    }
    Ok(())
}

/// Returns the sign of a number (true if negative), its digits without leading and trailing zeros, and the power of ten
/// of the last of these digits. The results for two texts are equal only if the values are equal. `None` if the
/// exponent overflows.
pub(crate) fn decimal(text: &str) -> Option<(bool, String, i64)> {
    let (text, is_negative) = text.strip_prefix('-').map_or((text, false), |rest| (rest, true));
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let trimmed = digits.trim_end_matches('0');
    if trimmed.is_empty() {
        return Some((is_negative, String::new(), 0));
    }
    let shift = i64::try_from(digits.len() - trimmed.len()).ok()? - i64::try_from(fraction.len()).ok()?;
    Some((is_negative, trimmed.to_owned(), exponent.parse::<i64>().ok()?.checked_add(shift)?))
}

/// Rewrites the members after `start`, sorted by key. Of members with the same key, only the last is kept.
fn in_order(mut members: Vec<(String, Range<usize>)>, start: usize, out: &mut Vec<u8>) {
    members.sort_by(|(one, _), (other, _)| one.cmp(other));
    let written = out.split_off(start);
    let mut members = members.into_iter().peekable();
    while let Some((key, range)) = members.next() {
        if members.peek().is_none_or(|(next, _)| *next != key) {
            separate(out, b'{');
            out.extend_from_slice(&written[range]);
        }
    }
}

/// Writes a comma, except after the opening bracket.
fn separate(out: &mut Vec<u8>, open: u8) {
    if out.last() != Some(&open) {
        out.push(b',');
    }
}

#[cold]
pub(crate) fn not_one_of(expected: &[&str]) -> serde_json::Error {
    serde_json::Error::custom(format_args!("expected \"{}\"", expected.join("\" or \"")))
}

/// One level of a path.
enum PathStep<'a> {
    Member(Cow<'a, str>),
    Element(usize),
}

/// Returns the path of the innermost value at the byte `at`, in one pass.
fn path(text: &str, at: usize) -> String {
    let mut steps: Vec<PathStep<'_>> = Vec::new();
    let mut scanner = Scanner::new(text);
    let mut is_before_value = true;
    loop {
        let (byte, position) = (scanner.peek(), scanner.position() as usize);
        match byte {
            // A position between two parts, or after the last one, refers to the container.
            _ if at < position => {
                steps.truncate(steps.len().saturating_sub(1));
                break;
            }
            Some(open @ (b'{' | b'[')) if is_before_value => {
                scanner.advance();
                let is_empty = matches!(scanner.peek(), Some(b'}' | b']'));
                steps.push(if open == b'[' {
                    PathStep::Element(0)
                } else {
                    PathStep::Member(Cow::Borrowed(""))
                });
                is_before_value = !is_empty;
                if open == b'{' && !is_empty && !member(&mut scanner, text, at, &mut steps) {
                    break;
                }
            }
            Some(_) if is_before_value => {
                if scanner.value(1).is_err() || at < scanner.position() as usize {
                    break;
                }
                is_before_value = false;
            }
            Some(b',') => {
                scanner.advance();
                is_before_value = true;
                if let Some(PathStep::Element(index)) = steps.last_mut() {
                    *index += 1;
                } else if !member(&mut scanner, text, at, &mut steps) {
                    break;
                }
            }
            Some(b'}' | b']') if at > position => {
                scanner.advance();
                steps.pop();
            }
            _ => {
                steps.pop();
                break;
            }
        }
    }
    written(&steps)
}

/// Reads the key of the next member and replaces the last step with it. If `at` is before the value of this member,
/// removes the last step and returns false.
fn member<'a>(scanner: &mut Scanner<'a>, text: &'a str, at: usize, steps: &mut Vec<PathStep<'a>>) -> bool {
    scanner.peek();
    let key = scanner.string();
    let is_whole = key.is_ok() && scanner.expect(b':').is_ok();
    scanner.peek();
    steps.pop();
    match key {
        Ok(key) if is_whole && at >= scanner.position() as usize => {
            steps.push(PathStep::Member(key.name(text)));
            true
        }
        _ => false,
    }
}

/// Maximum number of displayed characters of a key.
const MAX_KEY_CHARACTERS: usize = 64;

fn written(steps: &[PathStep<'_>]) -> String {
    let mut path = String::new();
    for step in steps {
        match step {
            PathStep::Element(index) => path.push_str(&format!("[{index}]")),
            PathStep::Member(key) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.extend(key.chars().take(MAX_KEY_CHARACTERS).flat_map(char::escape_debug));
                if key.chars().nth(MAX_KEY_CHARACTERS).is_some() {
                    path.push('…');
                }
            }
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use crate::dialect::Dialect;
    use crate::tools::ListToolsResult;

    #[test]
    fn errors_name_the_path_of_the_invalid_value() {
        let wrong = |text: &str| {
            let error = Dialect::V2026_07_28.raise_str::<ListToolsResult>(text).unwrap_err();
            error.to_string().replace("invalid body: ", "")
        };
        let tool = r#"{"name":"a","inputSchema":{"type":"object"}}"#;
        assert_eq!(wrong("[]"), "expected an object, found an array");
        assert_eq!(wrong("{}"), "missing field `tools`");
        assert_eq!(wrong(r#"{"tools":7}"#), "`tools`: expected an array, found a number");
        assert_eq!(
            wrong(&format!(r#"{{"tools":[{tool},{{"name":"b"}}]}}"#)),
            "`tools[1]`: missing field `inputSchema`"
        );
        assert_eq!(
            wrong(&format!(r#"{{"tools":[{tool} , {{"name": [], "inputSchema":{{}}}}]}}"#)),
            "`tools[1].name`: expected a string, found an array"
        );
        assert_eq!(
            wrong(r#"{"tools":[{"name":"a","name":"b"}]}"#),
            "`tools[0].name`: duplicate field `name`"
        );
        assert_eq!(
            wrong(r#"{"tools":[],"ttlMs":1.5}"#),
            "`ttlMs`: expected an integer, found a number out of range or of another kind"
        );
        assert_eq!(
            wrong(r#"{"tools":[],"nextCursor":"\ud800"}"#),
            "`nextCursor`: unpaired surrogate in a string"
        );
    }

    #[test]
    fn path_names_the_innermost_value_at_every_byte() {
        let text = r#"{"a":[1,{"b":"x"}] , "c":{},"d":[[]]}"#;
        let at = |mark: &str| super::path(text, text.find(mark).unwrap());
        assert_eq!(
            (at("{\"a"), at("a\""), at("[1"), at("1")),
            ("".into(), "".into(), "a".into(), "a[0]".into())
        );
        assert_eq!(
            (at("{\"b"), at("\"x"), at("}]"), at("] ,")),
            ("a[1]".into(), "a[1].b".into(), "a[1]".into(), "a".into())
        );
        assert_eq!(
            (at(" ,"), at("{},"), at("[]]"), at("]}")),
            ("".into(), "c".into(), "d[0]".into(), "d".into())
        );
        assert_eq!(super::path(text, text.len() - 1), "");
    }

    #[test]
    fn canonical_form_of_deeply_nested_json_takes_linear_time() {
        // In linear time, this takes about a second. If the text were read again on each of the 120 levels, the test
        // would time out.
        let wide = "1,".repeat(4 << 20);
        let text = format!("{}[{wide}1e999]{}", r#"{"b":0,"a":"#.repeat(120), "}".repeat(120));
        let json: crate::Json = text.parse().unwrap();
        let error = json.canonical().unwrap_err().to_string();
        assert!(error.contains(".a[4194304]`: expected a number within bounds"), "{error}");
    }

    #[test]
    fn key_with_lone_surrogate_is_refused() {
        let json: crate::Json = r#"{"\ud800":1}"#.parse().unwrap();
        assert!(json.canonical().is_err());
        assert!(json.raise::<crate::Map<String, crate::Json>>().is_err());
    }

    #[test]
    fn invalid_json_is_rejected_at_any_position() {
        for broken in [
            "",
            "{",
            r#"{"tools""#,
            r#"{"tools":[}"#,
            r#"{"tools":[],}"#,
            r#"{"tools":[]}x"#,
            r#"{,}"#,
            r#"{"tools":[] "a":1}"#,
        ] {
            assert!(Dialect::V2026_07_28.raise_str::<ListToolsResult>(broken).is_err(), "{broken}");
        }
    }
}
