//! The body of a message, kept as text until it is read as a type.

use serde::Deserialize;

use crate::Json;
use crate::dialect::{Raise, Raising};
use crate::errors::BodyError;
use crate::json::scan::{Fault, Scanner, Span, members};
use crate::meta::Meta;

/// The `params` or `result` of a message: a JSON object, not yet parsed.
///
/// Parsing a message records the positions of the first six members of its body, so that members are found without
/// another scan. Bodies with more members, or with escaped keys, are scanned for each lookup.
#[doc(alias = "params")]
#[doc(alias = "result")]
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    message: &'a str,
    span: Span,
    index: Index,
}

impl<'a> Body<'a> {
    /// Absent params. Reads as `{}`.
    pub const EMPTY: Body<'static> =
        Body { message: "{}", span: Span { start: 0, end: 2 }, index: Index::NONE };

    /// Creates a body from the text of an object that is not part of a parsed message.
    ///
    /// ```
    /// use mcp_protocol::messages::Body;
    ///
    /// let body = Body::of(r#"{"tools":[]}"#)?;
    /// assert_eq!(body.member("tools")?, Some("[]"));
    /// assert!(Body::of("[]").is_err());
    /// # Ok::<(), mcp_protocol::errors::BodyError>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the text is not a JSON object, or is nested too deeply.
    pub fn of(text: &'a str) -> Result<Self, BodyError> {
        let mut scanner = Scanner::new(text);
        scanner.peek();
        let mut index = Index::NONE;
        let span = index.read(&mut scanner)?;
        scanner.end()?;
        Ok(Self { message: text, span, index })
    }

    /// Returns an owned copy. Nothing is parsed again.
    ///
    /// ```
    /// use mcp_protocol::messages::Body;
    ///
    /// let kept = Body::of(r#"{"tools":[]}"#)?.keep();
    /// assert_eq!(kept.body().member("tools")?, Some("[]"));
    /// # Ok::<(), mcp_protocol::errors::BodyError>(())
    /// ```
    #[must_use]
    pub fn keep(&self) -> OwnedBody {
        let text = Json::from_valid(self.text());
        // The index is valid only if removing line breaks did not shorten the text.
        let is_same = text.get().len() == self.text().len();
        OwnedBody { text, index: if is_same { self.index.moved(self.span.start) } else { Index::UNREAD } }
    }

    pub(super) fn indexed(message: &'a str, span: Span, index: Index) -> Self {
        Self { message, span, index }
    }

    /// Returns the text of the object.
    #[must_use]
    pub fn text(&self) -> &'a str {
        self.span.of(self.message)
    }

    /// Returns the text of one member, or `None` if it is absent.
    ///
    /// # Errors
    /// Fails if the member occurs twice.
    pub fn member(&self, name: &'static str) -> Result<Option<&'a str>, BodyError> {
        if !self.index.complete {
            return self.search(name);
        }
        let mut found = None;
        for (key, value) in &self.index.members[..usize::from(self.index.length)] {
            if key.bytes(self.message) == name.as_bytes() && found.replace(value.of(self.message)).is_some() {
                return Err(BodyError::Member { member: name, problem: "occurs twice" });
            }
        }
        Ok(found)
    }

    /// Returns the number of elements of an array member; 0 if it is absent or not an array. Does not allocate, so that
    /// a list can be rejected before it is read.
    ///
    /// # Errors
    /// Fails if the member occurs twice.
    pub fn count(&self, name: &'static str) -> Result<usize, BodyError> {
        Ok(self.member(name)?.map_or(0, |list| crate::json::scan::elements(list).count()))
    }

    /// Parses one member, or returns `None` if it is absent or `null`.
    ///
    /// # Errors
    /// Fails if the member occurs twice, or does not match the type.
    pub fn parse_member<T: Deserialize<'a>>(&self, name: &'static str) -> Result<Option<T>, BodyError> {
        match self.member(name)? {
            None => Ok(None),
            Some(text) => Ok(serde_json::from_str(text)?),
        }
    }

    /// Parses one member as a type of this crate, or returns `None` if it is absent or `null`.
    ///
    /// # Errors
    /// Fails if the member occurs twice, or does not match the type.
    pub fn raise_member<T: Raise>(&self, name: &'static str) -> Result<Option<T>, BodyError> {
        match self.member(name)? {
            None => Ok(None),
            Some(text) => Ok(Raising::STRICT.text(text)?),
        }
    }

    /// Parses the whole body. For the types of this crate, prefer [`Dialect::raise`](crate::Dialect::raise).
    ///
    /// # Errors
    /// Fails if the body does not match the type.
    pub fn parse<T: Deserialize<'a>>(&self) -> Result<T, BodyError> {
        Ok(serde_json::from_str(self.text())?)
    }

    /// Returns the `_meta` member, if present.
    ///
    /// # Errors
    /// Fails if a key known to this crate has an invalid value.
    pub fn meta(&self) -> Result<Option<Meta>, BodyError> {
        self.raise_member("_meta")
    }

    /// Searches all members; needed for bodies with many members or escaped keys.
    fn search(&self, name: &'static str) -> Result<Option<&'a str>, BodyError> {
        let mut found = None;
        for (key, value) in members(self.text()) {
            if key == name && found.replace(value).is_some() {
                return Err(BodyError::Member { member: name, problem: "occurs twice" });
            }
        }
        Ok(found)
    }
}

/// The owned body of a message.
#[derive(Clone, Debug)]
pub struct OwnedBody {
    text: Json,
    /// Positions relative to `text`.
    index: Index,
}

impl OwnedBody {
    /// Returns the body, borrowed.
    #[must_use]
    pub fn body(&self) -> Body<'_> {
        let message = self.text.get();
        Body { message, span: Span { start: 0, end: message.len() as u32 }, index: self.index }
    }

    /// Returns the text of the object.
    #[must_use]
    pub fn text(&self) -> &str {
        self.text.get()
    }
}

/// The default has no members.
impl Default for OwnedBody {
    fn default() -> Self {
        Self { text: Json::object(), index: Index::NONE }
    }
}

/// Positions of the first members of a body in the message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Index {
    members: [(Span, Span); Self::MAX_MEMBERS],
    length: u8,
    /// False if there were more members than fit, a key has escapes, or the body was not scanned.
    complete: bool,
}

impl Index {
    const MAX_MEMBERS: usize = 6;
    const NONE: Self = Self {
        members: [(Span { start: 0, end: 0 }, Span { start: 0, end: 0 }); Self::MAX_MEMBERS],
        length: 0,
        complete: true,
    };

    /// The index of a body that was not scanned.
    const UNREAD: Self = Self { complete: false, ..Self::NONE };

    /// Returns the index for a text that begins at `start` of the current text.
    fn moved(mut self, start: u32) -> Self {
        for (key, value) in &mut self.members[..usize::from(self.length)] {
            for span in [key, value] {
                *span = Span { start: span.start - start, end: span.end - start };
            }
        }
        self
    }

    /// Skips the object that starts here and records its members.
    pub(super) fn read(&mut self, scanner: &mut Scanner<'_>) -> Result<Span, Fault> {
        (self.length, self.complete) = (0, true);
        let start = scanner.position();
        scanner.expect(b'{')?;
        if scanner.peek() == Some(b'}') {
            scanner.advance();
            return Ok(Span { start, end: scanner.position() });
        }
        loop {
            scanner.peek();
            let key = scanner.string()?;
            scanner.expect(b':')?;
            let value = scanner.value(3)?;
            if key.escaped || usize::from(self.length) == Self::MAX_MEMBERS {
                self.complete = false;
            } else {
                self.members[usize::from(self.length)] = (key.inner(), value);
                self.length += 1;
            }
            match scanner.peek() {
                Some(b',') => scanner.advance(),
                Some(b'}') => break,
                _ => return Err(scanner.fault()),
            }
        }
        scanner.advance();
        Ok(Span { start, end: scanner.position() })
    }
}

impl Default for Index {
    fn default() -> Self {
        Self::NONE
    }
}
