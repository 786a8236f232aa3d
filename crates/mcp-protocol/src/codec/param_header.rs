//! Tool arguments that are also sent as headers: `x-mcp-header` in the input schema of a tool, `Mcp-Param-*` in a call.
//!
//! Spec: MCP 2026-07-28, basic/transports/streamable-http.

use std::borrow::Cow;

use serde_json::Value;

use super::header::{decode, encode, mismatch, missing, one};
use crate::errors::ErrorObject;
use crate::json::Json;
use crate::json::read::decimal;
use crate::json::scan::{Scanner, Span, elements, members};
use crate::limits::{MAX_DEPTH, MAX_PARAM_HEADERS, MAX_PARAM_PATH_BYTES};
use crate::map::Map;
use crate::safe_text::SafeText;

/// The arguments of one tool that are sent as headers.
///
/// ```
/// use mcp_protocol::codec::param_header::ParamHeaders;
///
/// let schema = serde_json::json!({
///     "type": "object",
///     "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
/// });
/// let headers = ParamHeaders::of(&schema.into())?;
/// let arguments = serde_json::json!({"region": "us-west1"});
/// assert_eq!(headers.values(&arguments)?, [("mcp-param-region".into(), "us-west1".into())]);
/// # Ok::<(), mcp_protocol::codec::param_header::AnnotationError>(())
/// ```
#[doc(alias = "x-mcp-header")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParamHeaders(Vec<ParamHeader>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct ParamHeader {
    /// Header name in lower case, with prefix.
    name: String,
    path: Vec<String>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    String,
    Integer,
    Boolean,
}

/// An error for an invalid `x-mcp-header` in the input schema of a tool, or for an argument that cannot be sent as a
/// header. Over HTTP, a tool with an invalid `x-mcp-header` is omitted from lists.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnnotationError {
    /// The value is not a token, as RFC 9110 defines it for header names.
    #[error("`x-mcp-header` must be a valid part of an HTTP header name, not {}", SafeText::name(.0))]
    NotAToken(String),
    /// Two properties have the same header.
    #[error("duplicate `x-mcp-header` `{}`", SafeText::name(.0))]
    Twice(String),
    /// The property is not a string, integer or boolean.
    #[error("`x-mcp-header` `{}` is on a property that is not a string, integer or boolean", SafeText::name(.0))]
    Kind(String),
    /// The `x-mcp-header` is at a place that is not reachable through `properties` keywords alone, for example under
    /// `items` or `oneOf`.
    #[error("`x-mcp-header` at {} is not reachable through `properties` alone", SafeText::message(.0))]
    Place(String),
    /// More than 100 properties have an `x-mcp-header`.
    #[error("more than {MAX_PARAM_HEADERS} properties have an `x-mcp-header`")]
    TooMany,
    /// The paths of the properties with an `x-mcp-header` exceed 64 KiB in total.
    #[error(
        "the paths of the properties with an `x-mcp-header` exceed {MAX_PARAM_PATH_BYTES} bytes in total"
    )]
    LongPaths,
    /// The `x-mcp-header` annotations of all tools of a server together exceed their size limit.
    #[error("the `x-mcp-header` annotations of all tools of the server exceed {limit} bytes")]
    ServerTotal {
        /// Maximum number of bytes per server.
        limit: usize,
    },
    /// The integer is outside ±(2^53 - 1). Not every program can represent such integers.
    #[error("the argument for `{}` is outside -(2^53 - 1) to 2^53 - 1", SafeText::name(.0))]
    Range(String),
}

const ANNOTATION_KEYWORD: &str = "x-mcp-header";
const MAX_SAFE_INTEGER: i64 = (1 << 53) - 1;

impl ParamHeaders {
    /// Parses the `x-mcp-header` annotations of an input schema.
    ///
    /// # Errors
    /// Fails with the first invalid `x-mcp-header`.
    pub fn of(schema: &Json) -> Result<Self, AnnotationError> {
        if !schema.get().contains(ANNOTATION_KEYWORD) {
            return Ok(Self::default());
        }
        let mut walk = SchemaWalk::new(schema.get());
        walk.schema(1)?;
        Ok(Self(walk.found.into_iter().map(|(_, header)| header).collect()))
    }

    /// Returns true if no argument is sent as a header.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the approximate memory size of these headers, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        let one = |header: &ParamHeader| {
            let path: usize = header.path.iter().map(|name| part_bytes(name)).sum();
            size_of::<ParamHeader>() + header.name.len() + path
        };
        self.0.iter().map(one).sum()
    }

    /// Returns the headers of a call, with names in lower case and encoded values. An argument that is absent, `null`
    /// or of another type has no header.
    ///
    /// # Errors
    /// Fails if an integer is out of range.
    pub fn values(&self, arguments: &Value) -> Result<Vec<(String, String)>, AnnotationError> {
        let mut headers = Vec::new();
        for header in &self.0 {
            if let Some(text) = header.text(arguments)? {
                headers.push((header.name.clone(), encode(&text).into_owned()));
            }
        }
        Ok(headers)
    }

    /// Checks the headers of a call against its arguments, which are JSON text. `lookup` receives the name of a header
    /// in lower case and returns all its values.
    ///
    /// # Errors
    /// Returns the -32020 error to respond with if a header is missing, occurs twice or differs from its argument, if a
    /// header was sent without its argument, or if an argument occurs twice or cannot be parsed.
    pub fn check<'h>(
        &self,
        arguments: &str,
        lookup: impl Fn(&str) -> Vec<&'h [u8]>,
    ) -> Result<(), ErrorObject> {
        let mut found = vec![None; self.0.len()];
        let all: Vec<(usize, &ParamHeader)> = self.0.iter().enumerate().collect();
        find(arguments, 0, &all, &mut found)?;
        for (header, argument) in self.0.iter().zip(found) {
            let value = one(&header.name, &lookup(&header.name))?;
            let (expected, value) =
                match (argument.map(|text| header.read(text)).transpose()?.flatten(), value) {
                    (Some(expected), Some(value)) => (expected, value),
                    (Some(_), None) => return Err(missing(&header.name)),
                    (None, Some(_)) => {
                        return Err(mismatch(format!(
                            "the header `{}` was sent, but its argument is missing in the body",
                            header.name
                        )));
                    }
                    (None, None) => continue,
                };
            let value = decode(value).map_err(|error| mismatch(format!("`{}` {error}", header.name)))?;
            let is_same = match header.kind {
                Kind::Integer => same_integer(&value, &expected),
                Kind::String | Kind::Boolean => value == expected,
            };
            if !is_same {
                return Err(mismatch(format!("`{}` differs from the body", header.name)));
            }
        }
        Ok(())
    }
}

/// Finds the arguments of `headers` in `object`, in one pass. The first `depth` names of all their paths lead to
/// `object`. A duplicate name is rejected, because parsers differ in which value they use.
fn find<'a>(
    object: &'a str,
    depth: usize,
    headers: &[(usize, &ParamHeader)],
    found: &mut [Option<&'a str>],
) -> Result<(), ErrorObject> {
    let mut seen = Vec::new();
    for (name, value) in members(object) {
        let is_on_path =
            |(_, header): &&(usize, &ParamHeader)| header.path.get(depth).is_some_and(|part| *part == name);
        let below: Vec<_> = headers.iter().filter(is_on_path).copied().collect();
        let Some((_, first)) = below.first() else { continue };
        if seen.contains(&name) {
            return Err(mismatch(format!("duplicate argument for `{}`", first.name)));
        }
        for (index, header) in &below {
            if header.path.len() == depth + 1 {
                found[*index] = Some(value);
            }
        }
        find(value, depth + 1, &below, found)?;
        seen.push(name);
    }
    Ok(())
}

impl ParamHeader {
    /// Returns the argument as text; `None` if it is `null`, or of another type than the annotated property. The
    /// validation of the arguments rejects such types.
    fn read(&self, argument: &str) -> Result<Option<String>, ErrorObject> {
        let unreadable = |_| mismatch(format!("the argument for `{}` cannot be parsed", self.name));
        match (self.kind, argument.as_bytes().first()) {
            (Kind::Integer, Some(b'-' | b'0'..=b'9')) => {
                serde_json::from_str::<serde_json::Number>(argument).map_err(unreadable)?;
                match whole_number(argument) {
                    Some(Ok(integer)) => Ok(Some(integer.to_string())),
                    Some(Err(_)) => Err(mismatch(AnnotationError::Range(self.name.clone()).to_string())),
                    None => Ok(None),
                }
            }
            (Kind::String, Some(b'"')) | (Kind::Boolean, Some(b't' | b'f')) => {
                let value: Value = serde_json::from_str(argument).map_err(unreadable)?;
                self.text_of(&value).map_err(|error| mismatch(error.to_string()))
            }
            _ => Ok(None),
        }
    }

    /// Returns the argument as text; `None` if it is absent, `null`, or of another type.
    fn text(&self, arguments: &Value) -> Result<Option<String>, AnnotationError> {
        let mut value = arguments;
        for name in &self.path {
            match value.get(name) {
                Some(below) => value = below,
                None => return Ok(None),
            }
        }
        self.text_of(value)
    }

    fn text_of(&self, value: &Value) -> Result<Option<String>, AnnotationError> {
        Ok(match (self.kind, value) {
            (Kind::String, Value::String(text)) => Some(text.clone()),
            (Kind::Boolean, Value::Bool(flag)) => Some(flag.to_string()),
            (Kind::Integer, Value::Number(number)) => match as_integer(number) {
                Some(integer) if (-MAX_SAFE_INTEGER..=MAX_SAFE_INTEGER).contains(&integer) => {
                    Some(integer.to_string())
                }
                Some(_) => return Err(AnnotationError::Range(self.name.clone())),
                None => None,
            },
            _ => None,
        })
    }
}

/// `42` and `42.0` are the same integer in JSON Schema.
fn as_integer(number: &serde_json::Number) -> Option<i64> {
    number.as_i64().or_else(|| {
        let float = number.as_f64().filter(|float| float.fract() == 0.0)?;
        Some(float.clamp(i64::MIN as f64, i64::MAX as f64) as i64)
    })
}

/// Returns the value of an integer, computed from its digits: 42 for `42`, `42.0` and `4.2e1`. Returns `None` for a
/// fraction, even if a float would round it to an integer, such as `41.99999999999999999999`. The `Err` variant means
/// that the integer is outside ±(2^53 - 1).
fn whole_number(text: &str) -> Option<Result<i64, TooLarge>> {
    let (is_negative, digits, exponent) = decimal(text)?;
    if digits.is_empty() {
        return Some(Ok(0));
    }
    if exponent < 0 {
        return None;
    }
    if exponent > 16 || digits.len() > 16 {
        return Some(Err(TooLarge));
    }
    let zeros = "0".repeat(usize::try_from(exponent).unwrap_or(0));
    let integer =
        format!("{digits}{zeros}").parse::<i64>().ok().filter(|integer| *integer <= MAX_SAFE_INTEGER);
    Some(integer.map(|integer| if is_negative { -integer } else { integer }).ok_or(TooLarge))
}

struct TooLarge;

fn same_integer(header: &str, expected: &str) -> bool {
    let is_number = serde_json::from_str::<serde_json::Number>(header).is_ok();
    is_number && matches!(whole_number(header), Some(Ok(integer)) if integer.to_string() == expected)
}

/// Reads a schema in a single pass, so that nested parts are not read once per level.
///
/// The text must be valid JSON. Otherwise the pass ends early: every loop ends when the scanner does not find the
/// expected token.
struct SchemaWalk<'a> {
    text: &'a str,
    scanner: Scanner<'a>,
    /// Property names from the root to the current schema.
    path: Vec<Cow<'a, str>>,
    /// Memory size of all paths in `found`, in bytes.
    path_bytes: usize,
    found: Map<String, ParamHeader>,
}

impl<'a> SchemaWalk<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, scanner: Scanner::new(text), path: Vec::new(), path_bytes: 0, found: Map::new() }
    }

    /// Reads the schema of the arguments or of a property. An annotation is checked at the end, when the type of its
    /// property is known.
    fn schema(&mut self, depth: usize) -> Result<(), AnnotationError> {
        if self.scanner.peek() != Some(b'{') || depth > MAX_DEPTH {
            self.skip();
            return Ok(());
        }
        let (mut annotation, mut kind) = (None, None);
        let mut opener = b'{';
        while let Some(keyword) = self.scanner.next_key(&mut opener) {
            match &*keyword.name(self.text) {
                "properties" if self.scanner.peek() == Some(b'{') => self.properties(depth + 1)?,
                ANNOTATION_KEYWORD if self.path.is_empty() => {
                    return Err(AnnotationError::Place("the root".into()));
                }
                ANNOTATION_KEYWORD => annotation = Some(self.skip()),
                // These keywords contain data, not schemas.
                "const" | "enum" | "default" | "examples" | "example" => drop(self.skip()),
                "type" => kind = Some(self.unannotated("type", depth + 1)?),
                other => drop(self.unannotated(other, depth + 1)?),
            }
        }
        self.close(b'}');
        annotation.map_or(Ok(()), |annotation| self.annotate(annotation, kind))
    }

    /// Reads the schemas of properties.
    fn properties(&mut self, depth: usize) -> Result<(), AnnotationError> {
        let mut opener = b'{';
        while let Some(name) = self.scanner.next_key(&mut opener) {
            self.path.push(name.name(self.text));
            self.schema(depth + 1)?;
            self.path.pop();
        }
        self.close(b'}');
        Ok(())
    }

    /// Reads the value of a keyword other than `properties`. Fails if the value contains an annotation.
    fn unannotated(&mut self, keyword: &str, depth: usize) -> Result<&'a str, AnnotationError> {
        let first = self.scanner.peek();
        let start = self.scanner.position();
        let mut opener = first.unwrap_or_default();
        match first {
            Some(b'{') if depth <= MAX_DEPTH => {
                while let Some(key) = self.scanner.next_key(&mut opener) {
                    if key.name(self.text) == ANNOTATION_KEYWORD {
                        let place = format!("`/{}` under `{keyword}`", self.path.join("/"));
                        return Err(AnnotationError::Place(place));
                    }
                    self.unannotated(keyword, depth + 1)?;
                }
                self.close(b'}');
            }
            Some(b'[') if depth <= MAX_DEPTH => {
                while self.scanner.next_element(&mut opener) {
                    self.unannotated(keyword, depth + 1)?;
                }
                self.close(b']');
            }
            _ => drop(self.skip()),
        }
        Ok(Span { start, end: self.scanner.position() }.of(self.text))
    }

    /// Records an annotation of the property at the current path.
    fn annotate(&mut self, annotation: &str, kind: Option<&str>) -> Result<(), AnnotationError> {
        let token = string(annotation).filter(|name| is_token(name));
        let token = token.ok_or_else(|| AnnotationError::NotAToken(annotation.to_owned()))?;
        let name = format!("{}{}", super::header::PARAM_PREFIX, token.to_ascii_lowercase());
        if self.found.contains_key(&name) {
            return Err(AnnotationError::Twice(token));
        }
        if self.found.len() == MAX_PARAM_HEADERS {
            return Err(AnnotationError::TooMany);
        }
        let kind = kind.and_then(kind_of).ok_or(AnnotationError::Kind(token))?;
        self.path_bytes += self.path.iter().map(|name| part_bytes(name)).sum::<usize>();
        if self.path_bytes > MAX_PARAM_PATH_BYTES {
            return Err(AnnotationError::LongPaths);
        }
        let path = self.path.iter().map(|name| name.clone().into_owned()).collect();
        self.found.insert(name.clone(), ParamHeader { name, path, kind });
        Ok(())
    }

    /// Skips one value and returns its text.
    fn skip(&mut self) -> &'a str {
        self.scanner.value(1).map_or("", |span| span.of(self.text))
    }

    fn close(&mut self, bracket: u8) {
        // In valid JSON, only the closing bracket can follow here.
        let _ = self.scanner.expect(bracket);
    }
}

/// Returns the memory size of one name of a path, in bytes. An empty name takes memory, too.
fn part_bytes(name: &str) -> usize {
    size_of::<String>() + name.len()
}

fn string(json: &str) -> Option<String> {
    serde_json::from_str(json).ok()
}

/// Parses a type, or an array of one type and `null`.
fn kind_of(kind: &str) -> Option<Kind> {
    if kind.starts_with('[') {
        let mut others = elements(kind).filter(|kind| *kind != "\"null\"");
        return match (others.next(), others.next()) {
            (Some(only), None) if !only.starts_with('[') => kind_of(only),
            _ => None,
        };
    }
    match string(kind)?.as_str() {
        "string" => Some(Kind::String),
        "integer" => Some(Kind::Integer),
        "boolean" => Some(Kind::Boolean),
        _ => None,
    }
}

fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(properties: Value) -> Result<ParamHeaders, AnnotationError> {
        ParamHeaders::of(&json!({"type": "object", "properties": properties}).into())
    }

    #[test]
    fn invalid_header_annotation_is_rejected() {
        let good = of(json!({
            "a": {"type": "string", "x-mcp-header": "A"},
            "b": {"type": ["integer", "null"], "x-mcp-header": "b~"},
            "c": {"type": "object", "properties": {"d": {"type": "boolean", "x-mcp-header": "D"}}},
            "x-mcp-header": {"type": "string", "enum": [{"x-mcp-header": 1}]},
            "anything": true,
        }));
        assert_eq!(good.unwrap().0.len(), 3);
        let bad = [
            json!({"a": {"type": "string", "x-mcp-header": ""}}),
            json!({"a": {"type": "string", "x-mcp-header": "a b"}}),
            json!({"a": {"type": "string", "x-mcp-header": 7}}),
            json!({"a": {"type": "number", "x-mcp-header": "A"}}),
            json!({"a": {"x-mcp-header": "A"}}),
            json!({"a": {"type": ["string", "integer"], "x-mcp-header": "A"}}),
            json!({"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}}),
            json!({"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}),
            json!({"a": {"oneOf": [{"type": "string", "x-mcp-header": "A"}]}}),
            json!({"a": {"$defs": {"x": {"properties": {"y": {"x-mcp-header": "A"}}}}}}),
        ];
        for properties in bad {
            assert!(of(properties.clone()).is_err(), "{properties}");
        }
        assert!(ParamHeaders::of(&json!({"type": "object", "x-mcp-header": "A"}).into()).is_err());
    }

    #[test]
    fn arguments_are_sent_as_headers_and_checked() {
        let headers = of(json!({
            "s": {"type": "string", "x-mcp-header": "S"},
            "i": {"type": "integer", "x-mcp-header": "I"},
            "b": {"type": "boolean", "x-mcp-header": "B"},
        }))
        .unwrap();
        let arguments = json!({"s": "ü", "i": -7, "b": true});
        let values = headers.values(&arguments).unwrap();
        assert_eq!(values.len(), 3);
        let lookup = |name: &str| {
            values.iter().filter(|(n, _)| n == name).map(|(_, v)| v.as_bytes()).collect::<Vec<_>>()
        };
        let only = |wanted: &'static str, value: &'static [u8]| {
            move |name: &str| if name == wanted { vec![value] } else { Vec::new() }
        };
        assert_eq!(headers.check(&arguments.to_string(), lookup), Ok(()));
        assert!(headers.check(r#"{"s":"u"}"#, lookup).is_err());
        assert!(headers.check(r#"{"s":"ü"}"#, |_| Vec::new()).is_err());
        assert!(headers.check(r#"{"s":"a"}"#, |_| vec![b"a", b"a"]).is_err());
        assert_eq!(headers.check(r#"{"s":null}"#, |_| Vec::new()), Ok(()));
        assert_eq!(headers.check(r#"{"i":42}"#, only("mcp-param-i", b"42.0")), Ok(()));
        assert!(headers.check(r#"{"i":42}"#, only("mcp-param-i", b"43")).is_err());
        assert!(headers.values(&json!({"i": 1_i64 << 60})).is_err());
    }

    #[test]
    fn integers_out_of_range_are_rejected_without_panic() {
        let headers = of(json!({"i": {"type": "integer", "x-mcp-header": "I"}})).unwrap();
        for wild in [json!(i64::MIN), json!(-1e300), json!(1e300), json!(u64::MAX)] {
            assert!(headers.values(&json!({ "i": wild })).is_err(), "{wild}");
            assert!(headers.check(&json!({ "i": wild }).to_string(), |_| Vec::new()).is_err(), "{wild}");
        }
        assert!(headers.values(&json!({"i": -9_007_199_254_740_991_i64})).is_ok());
        assert!(headers.values(&json!({"i": 9_007_199_254_740_992_i64})).is_err());
    }

    #[test]
    fn header_check_reads_the_arguments_as_the_tool_does() {
        let headers = of(json!({
            "tenant": {"type": "string", "x-mcp-header": "Tenant"},
            "at": {"type": "object", "properties": {"zone": {"type": "integer", "x-mcp-header": "Zone"}}},
        }))
        .unwrap();
        let check = |arguments: &str, sent: &[(&str, &'static str)]| {
            headers.check(arguments, |name| {
                sent.iter().filter(|(known, _)| *known == name).map(|(_, value)| value.as_bytes()).collect()
            })
        };
        let mine = [("mcp-param-tenant", "mine")];
        // Another argument that parsers may reject does not prevent the check of this one.
        for rest in ["1e999", r#""\ud800""#] {
            assert_eq!(check(&format!(r#"{{"tenant":"mine","x":{rest}}}"#), &mine), Ok(()));
            assert!(check(&format!(r#"{{"tenant":"victim","x":{rest}}}"#), &mine).is_err(), "{rest}");
        }
        for wrong in [
            // The argument itself cannot be parsed, occurs twice, is absent, or is of another type.
            r#"{"tenant":"\ud800"}"#,
            r#"{"tenant":"mine","tenant":"victim"}"#,
            r#"{"tenant":"victim","ten\u0061nt":"mine"}"#,
            r#"{"tenant":"mine","at":{},"at":{"zone":1}}"#,
            r#"{"tenant":"mine","at":{"zone":1e999}}"#,
            r#"{"other":"mine"}"#,
            r#"{"tenant":null}"#,
            r#"{"tenant":["mine"]}"#,
        ] {
            assert!(check(wrong, &mine).is_err(), "{wrong}");
        }
        let one = [("mcp-param-tenant", "mine"), ("mcp-param-zone", "1")];
        for (zone, is_one) in [
            ("1", true),
            ("1.0", true),
            ("10e-1", true),
            ("0.1e1", true),
            ("0.1", false),
            ("0.9999999999999999999999", false),
            ("1.0000000000000000000001", false),
            ("-1", false),
            ("9007199254740993", false),
            ("1e400", false),
        ] {
            let arguments = format!(r#"{{"tenant":"mine","at":{{"zone":{zone}}}}}"#);
            assert_eq!(check(&arguments, &one).is_ok(), is_one, "{zone}");
        }
        let both = [("mcp-param-tenant", "mine"), ("mcp-param-zone", "7")];
        assert_eq!(check(r#"{"at":{"zone":7,"x":{"zone":8}},"tenant":"mine","zone":9}"#, &both), Ok(()));
        assert!(check(r#"{"at":{"zone":8},"tenant":"mine"}"#, &both).is_err());
    }

    #[test]
    fn long_paths_of_annotations_are_refused() {
        let inner: serde_json::Map<String, Value> = (0..60)
            .map(|n| (format!("p{n}"), json!({"type": "string", "x-mcp-header": format!("H{n}")})))
            .collect();
        let below = |name: String| of(json!({ name: { "type": "object", "properties": inner } }));
        assert_eq!(below("x".repeat(1000)).unwrap().0.len(), 60);
        assert_eq!(below("x".repeat(2000)), Err(AnnotationError::LongPaths));
    }

    #[test]
    fn too_many_annotations_are_rejected_quickly() {
        let many: serde_json::Map<String, Value> = (0..20_000)
            .map(|n| (format!("p{n}"), json!({"type": "string", "x-mcp-header": format!("H{n}")})))
            .collect();
        assert_eq!(of(Value::Object(many)), Err(AnnotationError::TooMany));
    }

    #[test]
    fn levels_without_a_name_count_as_path_bytes() {
        let below = |levels: usize, headers: usize| {
            let inner: serde_json::Map<String, Value> = (0..headers)
                .map(|n| (format!("p{n}"), json!({"type": "string", "x-mcp-header": format!("H{n}")})))
                .collect();
            let nested = (0..levels).fold(json!(inner), |inner, _| json!({"": {"properties": inner}}));
            of(nested)
        };
        assert_eq!(below(58, 100), Err(AnnotationError::LongPaths));
        assert_eq!(below(20, 100).unwrap().0.len(), 100);
    }
}
