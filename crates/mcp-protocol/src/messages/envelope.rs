//! Parsing and classification of messages.
//!
//! The parser reads every byte of a message once, allocates only for string ids, unknown methods, errors and batches,
//! and records the positions of the body's members for later lookups. Text that it accepts is valid JSON.

use std::borrow::Cow;

use super::body::Index;
use super::{Body, Id, Method};
use crate::codec::input::without_mark;
use crate::errors::{DecodeError, DecodeErrorKind, ErrorObject, MessageShape};
use crate::json::scan::{Scanner, Span};
use crate::limits::Limits;

/// One JSON-RPC message with an unparsed body.
#[derive(Clone, Debug)]
pub enum Message<'a> {
    /// A request.
    Request(Request<'a>),
    /// A notification.
    Notification(Notification<'a>),
    /// A response.
    Response(Response<'a>),
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Id assigned by the sender and repeated in the response.
    pub id: Id,
    /// Requested method.
    pub method: Method,
    /// Parameters; `{}` if absent.
    pub params: Body<'a>,
}

/// A notification.
#[derive(Clone, Debug)]
pub struct Notification<'a> {
    /// Method.
    pub method: Method,
    /// Parameters; `{}` if absent.
    pub params: Body<'a>,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Response<'a> {
    /// Id of the request. May be absent in an error response.
    pub id: Option<Id>,
    /// The unparsed result, or the error.
    pub outcome: Result<Body<'a>, ErrorObject>,
}

/// The content of one line or HTTP body.
#[derive(Clone, Debug)]
pub enum Incoming<'a> {
    /// A single message.
    Message(Message<'a>),
    /// An array of messages; 2025-03-26 only.
    Batch(Batch<'a>),
}

/// An array of messages, each parsed on demand.
#[doc(alias = "batching")]
#[derive(Clone, Debug)]
pub struct Batch<'a> {
    items: Vec<&'a str>,
    limits: Limits,
}

impl<'a> Batch<'a> {
    /// Returns the number of messages; at least one.
    #[expect(clippy::len_without_is_empty, reason = "a batch is never empty")]
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns an iterator over the messages. A malformed message does not affect the others; a nested batch is an
    /// error.
    pub fn messages(&self) -> impl Iterator<Item = Result<Message<'a>, DecodeError>> {
        self.items.iter().map(|item| match parse(item, &self.limits)? {
            Incoming::Message(message) => Ok(message),
            Incoming::Batch(_) => Err(fail(DecodeErrorKind::NotAnObject)),
        })
    }
}

/// Like [`parse`], for bytes. Skips a leading byte order mark and checks that the rest is UTF-8.
///
/// # Errors
/// Fails like [`parse`], or with [`DecodeErrorKind::NotUtf8`] if the bytes are not UTF-8.
pub fn parse_bytes<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Incoming<'a>, DecodeError> {
    let bytes = without_mark(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => parse(text, limits),
        Err(error) => {
            let mut failed = salvage_id(bytes);
            failed.kind = DecodeErrorKind::NotUtf8 { at: error.valid_up_to() };
            Err(failed)
        }
    }
}

/// Recovers the id and the message type from the beginning of a line that exceeded the length limit.
///
/// The caller must set the kind of the returned error.
#[must_use]
pub fn salvage_id(beginning: &[u8]) -> DecodeError {
    let text = match std::str::from_utf8(beginning) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&beginning[..error.valid_up_to()]).unwrap_or(""),
    };
    let mut outline = Outline::default();
    let kind = match outline.read(text) {
        Ok(()) => DecodeErrorKind::Ambiguous,
        Err(kind) => kind,
    };
    outline.failed(text, kind, &Limits::default())
}

/// Parses one message or a batch.
///
/// ```
/// use mcp_protocol::Limits;
/// use mcp_protocol::messages::{Incoming, Message, Method, parse};
///
/// let text = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add","arguments":{"a":1}}}"#;
/// let Incoming::Message(Message::Request(request)) = parse(text, &Limits::default())? else { panic!() };
/// assert_eq!(request.method, Method::ToolsCall);
/// assert_eq!(request.params.member("arguments")?, Some(r#"{"a":1}"#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Fails if the text is not a valid message. The error contains the id of the message, if the id could be read.
pub fn parse<'a>(text: &'a str, limits: &Limits) -> Result<Incoming<'a>, DecodeError> {
    if text.len() > limits.message.min(u32::MAX as usize) {
        return Err(fail(DecodeErrorKind::TooLong { limit: limits.message }));
    }
    if Scanner::new(text).peek() == Some(b'[') {
        return batch(text, limits).map_err(fail);
    }
    let mut outline = Outline::default();
    match outline.read(text).and_then(|()| outline.message(text, limits)) {
        Ok(message) => Ok(Incoming::Message(message)),
        Err(kind) => Err(outline.failed(text, kind, limits)),
    }
}

fn fail(kind: DecodeErrorKind) -> DecodeError {
    DecodeError { kind, id: None, shape: MessageShape::Unknown }
}

fn batch<'a>(text: &'a str, limits: &Limits) -> Result<Incoming<'a>, DecodeErrorKind> {
    let wrong_count = DecodeErrorKind::Batch { limit: limits.batch };
    let mut scanner = Scanner::new(text);
    scanner.expect(b'[')?;
    if scanner.peek() == Some(b']') {
        return Err(wrong_count);
    }
    let mut items = Vec::new();
    loop {
        // A message inside a batch may nest as deeply as a single message.
        let item = scanner.value(1)?;
        if items.len() == limits.batch {
            return Err(wrong_count);
        }
        items.push(item.of(text));
        if scanner.peek() != Some(b',') {
            break;
        }
        scanner.advance();
    }
    scanner.expect(b']')?;
    scanner.end()?;
    Ok(Incoming::Batch(Batch { items, limits: limits.clone() }))
}

/// Positions of the members of a message.
#[derive(Default)]
struct Outline {
    jsonrpc: Option<Span>,
    id: Option<Span>,
    method: Option<Span>,
    params: Option<Span>,
    result: Option<Span>,
    error: Option<Span>,
    shape: MessageShape,
    body: Index,
}

impl Outline {
    fn read(&mut self, text: &str) -> Result<(), DecodeErrorKind> {
        let mut scanner = Scanner::new(text);
        if scanner.peek() != Some(b'{') {
            scanner.value(1)?;
            scanner.end()?;
            return Err(DecodeErrorKind::NotAnObject);
        }
        scanner.advance();
        if scanner.peek() == Some(b'}') {
            scanner.advance();
            scanner.end()?;
            return Ok(());
        }
        loop {
            scanner.peek();
            let key = scanner.string()?;
            scanner.expect(b':')?;
            self.member(&mut scanner, &key.name(text))?;
            match scanner.peek() {
                Some(b',') => scanner.advance(),
                Some(b'}') => break,
                _ => return Err(scanner.fault().into()),
            }
        }
        scanner.advance();
        scanner.end()?;
        Ok(())
    }

    fn member(&mut self, scanner: &mut Scanner<'_>, name: &str) -> Result<(), DecodeErrorKind> {
        let (slot, name) = match name {
            "jsonrpc" => (&mut self.jsonrpc, "jsonrpc"),
            "id" => (&mut self.id, "id"),
            "method" => (&mut self.method, "method"),
            "params" => (&mut self.params, "params"),
            "result" => (&mut self.result, "result"),
            "error" => (&mut self.error, "error"),
            _ => {
                scanner.value(2)?;
                return Ok(());
            }
        };
        if slot.is_some() {
            return Err(DecodeErrorKind::Duplicate(name));
        }
        // The type is set before the value is read, because the value may be malformed.
        match name {
            "method" => self.shape = MessageShape::Request,
            "result" | "error" if self.shape == MessageShape::Unknown => self.shape = MessageShape::Response,
            _ => {}
        }
        let is_body = matches!(name, "params" | "result") && scanner.peek() == Some(b'{');
        *slot = Some(if is_body { self.body.read(scanner)? } else { scanner.value(2)? });
        Ok(())
    }

    fn message<'a>(&self, text: &'a str, limits: &Limits) -> Result<Message<'a>, DecodeErrorKind> {
        if self.jsonrpc.map(|span| span.of(text)) != Some("\"2.0\"") {
            return Err(DecodeErrorKind::Version);
        }
        match (self.method, self.result, self.error) {
            (Some(method), None, None) => {
                let method = method_of(method.of(text)).ok_or(DecodeErrorKind::Method)?;
                let params = self.params(text)?;
                Ok(match self.id {
                    Some(id) => {
                        let id = id_of(id.of(text), limits).ok_or(DecodeErrorKind::Id)?;
                        Message::Request(Request { id, method, params })
                    }
                    None => Message::Notification(Notification { method, params }),
                })
            }
            (None, Some(result), None) => {
                let id = self.id.ok_or(DecodeErrorKind::Id)?;
                let id = Some(id_of(id.of(text), limits).ok_or(DecodeErrorKind::Id)?);
                let outcome = Ok(self.object(text, result).ok_or(DecodeErrorKind::Result)?);
                Ok(Message::Response(Response { id, outcome }))
            }
            (None, None, Some(error)) => {
                let id = match self.id.map(|span| span.of(text)) {
                    None | Some("null") => None,
                    Some(id) => Some(id_of(id, limits).ok_or(DecodeErrorKind::Id)?),
                };
                let error = serde_json::from_str(error.of(text)).map_err(|_| DecodeErrorKind::Error)?;
                Ok(Message::Response(Response { id, outcome: Err(error) }))
            }
            _ => Err(DecodeErrorKind::Ambiguous),
        }
    }

    fn params<'a>(&self, text: &'a str) -> Result<Body<'a>, DecodeErrorKind> {
        match self.params {
            None => Ok(Body::EMPTY),
            Some(span) if span.of(text) == "null" => Ok(Body::EMPTY),
            Some(span) => self.object(text, span).ok_or(DecodeErrorKind::Params),
        }
    }

    fn object<'a>(&self, text: &'a str, span: Span) -> Option<Body<'a>> {
        span.of(text).starts_with('{').then(|| Body::indexed(text, span, self.body))
    }

    fn failed(&self, text: &str, kind: DecodeErrorKind, limits: &Limits) -> DecodeError {
        DecodeError {
            kind,
            // An id that ends at the end of the text may be truncated.
            id: self
                .id
                .filter(|span| (span.end as usize) < text.len())
                .and_then(|span| id_of(span.of(text), limits)),
            shape: self.shape,
        }
    }
}

fn method_of(quoted: &str) -> Option<Method> {
    string_of(quoted).map(|name| Method::from(&*name))
}

fn id_of(text: &str, limits: &Limits) -> Option<Id> {
    if text.starts_with('"') {
        string_of(text).filter(|id| id.len() <= limits.id).map(|id| Id::from(&*id))
    } else if text == "-0" {
        None
    } else {
        text.parse().ok().map(Id::Number)
    }
}

fn string_of(quoted: &str) -> Option<Cow<'_, str>> {
    let inner = quoted.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        Some(Cow::Borrowed(inner))
    } else {
        serde_json::from_str(quoted).ok().map(Cow::Owned)
    }
}

#[cfg(test)]
mod tests;
