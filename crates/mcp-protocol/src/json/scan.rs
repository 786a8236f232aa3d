//! A scanner that locates values in JSON text without allocating.
//!
//! It accepts exactly what serde_json accepts as a `RawValue`, up to a depth of [`MAX_DEPTH`]: fuzzing and property
//! tests compare the two. Time is linear in the length of the text.

use std::borrow::Cow;

use crate::limits::MAX_DEPTH;

/// The position and kind of a syntax error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) kind: FaultKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    Syntax,
    TooDeep,
}

/// A half-open range of bytes. 32 bits are enough, because messages are shorter than 4 GiB, and keep the index of
/// members small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    #[inline]
    pub(crate) fn of(self, text: &str) -> &str {
        text.get(self.start as usize..self.end as usize).unwrap_or("")
    }

    /// Returns the bytes, for comparisons without checks of character boundaries.
    #[inline]
    pub(crate) fn bytes(self, text: &str) -> &[u8] {
        text.as_bytes().get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

/// A string token: its span including the quotes, and whether it has escapes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StringToken {
    pub(crate) span: Span,
    pub(crate) escaped: bool,
}

impl StringToken {
    /// Returns the span between the quotes.
    #[inline]
    pub(crate) fn inner(self) -> Span {
        Span { start: self.span.start + 1, end: self.span.end - 1 }
    }

    /// Returns the string as a key, decoded only if necessary. A key with an unpaired surrogate becomes empty, so that
    /// it matches no known key.
    #[inline]
    pub(crate) fn name(self, text: &str) -> Cow<'_, str> {
        if self.escaped {
            Cow::Owned(serde_json::from_str(self.span.of(text)).unwrap_or_default())
        } else {
            Cow::Borrowed(self.inner().of(text))
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

type Scan<T> = Result<T, Fault>;

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { bytes: text.as_bytes(), at: 0 }
    }

    /// Returns the next byte that is not white space, without consuming it.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        while let Some(&byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }

    #[inline]
    pub(crate) fn advance(&mut self) {
        self.at += 1;
    }

    /// Moves to a position returned by [`position`](Self::position).
    pub(crate) fn go_to(&mut self, at: u32) {
        self.at = at as usize;
    }

    /// Moves back by one byte.
    pub(crate) fn retreat(&mut self) {
        self.at = self.at.saturating_sub(1);
    }

    #[inline]
    pub(crate) fn expect(&mut self, byte: u8) -> Scan<()> {
        if self.peek() == Some(byte) {
            self.at += 1;
            Ok(())
        } else {
            Err(self.fault())
        }
    }

    /// Moves to the next member or element of an object or array: skips the opening bracket or a comma. Returns false
    /// at the closing bracket.
    pub(crate) fn step(&mut self, open: u8, close: u8) -> Scan<bool> {
        match self.peek() {
            Some(byte) if byte == open && self.is_at_start() => {
                self.at += 1;
                Ok(self.peek() != Some(close))
            }
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == close => Ok(false),
            _ => Err(self.fault()),
        }
    }

    /// Skips `opener`, the next key of an object and the colon after it, and returns the key. `opener` must be the
    /// opening brace in the first call; each call sets it to a comma. Returns `None` before the closing brace.
    pub(crate) fn next_key(&mut self, opener: &mut u8) -> Option<StringToken> {
        self.expect(std::mem::replace(opener, b',')).ok()?;
        self.peek();
        let key = self.string().ok()?;
        self.expect(b':').ok()?;
        Some(key)
    }

    /// Skips `opener` before the next element of an array, like [`next_key`](Self::next_key). Returns false before the
    /// closing bracket.
    pub(crate) fn next_element(&mut self, opener: &mut u8) -> bool {
        self.expect(std::mem::replace(opener, b',')).is_ok() && self.peek().is_some_and(|byte| byte != b']')
    }

    fn is_at_start(&self) -> bool {
        self.bytes[..self.at].trim_ascii().is_empty()
    }

    #[inline]
    pub(crate) fn position(&self) -> u32 {
        self.at as u32
    }

    /// Checks that only white space follows the last value.
    pub(crate) fn end(&mut self) -> Scan<()> {
        if self.peek().is_none() { Ok(()) } else { Err(self.fault()) }
    }

    pub(crate) fn fault(&self) -> Fault {
        Fault { at: self.at, kind: FaultKind::Syntax }
    }

    /// Skips white space and one value whose outermost level is `depth`.
    pub(crate) fn value(&mut self, depth: usize) -> Scan<Span> {
        let first = self.peek().ok_or_else(|| self.fault())?;
        let start = self.at as u32;
        match first {
            b'{' | b'[' => self.container(depth)?,
            b'"' => {
                self.string()?;
            }
            _ => self.scalar(first)?,
        }
        Ok(Span { start, end: self.at as u32 })
    }

    /// Skips a string that starts here.
    #[inline]
    pub(crate) fn string(&mut self) -> Scan<StringToken> {
        if self.bytes.get(self.at) != Some(&b'"') {
            return Err(self.fault());
        }
        // Fast path: most keys end within eight bytes.
        let mut at = self.at + 1;
        if let Some(word) = self.bytes.get(at..at + WORD_BYTES) {
            at += special_bytes(word).trailing_zeros() as usize / 8;
            if self.bytes.get(at) == Some(&b'"') {
                let start = self.at as u32;
                self.at = at + 1;
                return Ok(StringToken { span: Span { start, end: self.at as u32 }, escaped: false });
            }
        }
        self.long_string(at)
    }

    /// Skips a string that starts here. The bytes before `at` are known to be plain.
    fn long_string(&mut self, mut at: usize) -> Scan<StringToken> {
        let start = self.at as u32;
        let mut escaped = false;
        loop {
            at = plain_run(self.bytes, at);
            match self.bytes.get(at) {
                Some(b'"') => {
                    self.at = at + 1;
                    return Ok(StringToken { span: Span { start, end: self.at as u32 }, escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    at = self.escape(at)?;
                }
                _ => {
                    self.at = at;
                    return Err(self.fault());
                }
            }
        }
    }

    /// Checks the escape whose backslash is at `at`; returns the position after it.
    #[inline]
    fn escape(&mut self, at: usize) -> Scan<usize> {
        let length = match self.bytes.get(at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u')
                if self
                    .bytes
                    .get(at + 2..at + 6)
                    .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) =>
            {
                6
            }
            _ => {
                self.at = at;
                return Err(self.fault());
            }
        };
        Ok(at + length)
    }

    /// Skips an object or array without recursion: one bit per open level stores whether it is an object.
    fn container(&mut self, depth: usize) -> Scan<()> {
        let mut objects: u128 = 0;
        let mut level = depth;
        let mut expect_value = true;
        loop {
            let byte = self.peek().ok_or_else(|| self.fault())?;
            if expect_value {
                match byte {
                    b'{' | b'[' => {
                        if level > MAX_DEPTH {
                            return Err(Fault { at: self.at, kind: FaultKind::TooDeep });
                        }
                        let bit = 1u128 << (level & 127);
                        self.at += 1;
                        let next = self.peek().ok_or_else(|| self.fault())?;
                        if byte == b'{' {
                            objects |= bit;
                            if next == b'}' {
                                self.at += 1;
                                expect_value = false;
                            } else {
                                self.key()?;
                            }
                        } else {
                            objects &= !bit;
                            if next == b']' {
                                self.at += 1;
                                expect_value = false;
                            }
                        }
                        if expect_value {
                            level += 1;
                            continue;
                        }
                    }
                    b'"' => {
                        self.string()?;
                    }
                    _ => self.scalar(byte)?,
                }
                expect_value = false;
            } else {
                let in_object = objects & (1u128 << ((level - 1) & 127)) != 0;
                match (byte, in_object) {
                    (b',', true) => {
                        self.at += 1;
                        self.peek();
                        self.key()?;
                        expect_value = true;
                    }
                    (b',', false) => {
                        self.at += 1;
                        expect_value = true;
                    }
                    (b'}', true) | (b']', false) => {
                        self.at += 1;
                        level -= 1;
                    }
                    _ => return Err(self.fault()),
                }
            }
            if level == depth && !expect_value {
                return Ok(());
            }
        }
    }

    #[inline]
    fn key(&mut self) -> Scan<()> {
        self.string()?;
        self.expect(b':')
    }

    fn scalar(&mut self, first: u8) -> Scan<()> {
        match first {
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            b'n' => self.literal(b"null"),
            b'-' | b'0'..=b'9' => self.number(),
            _ => Err(self.fault()),
        }
    }

    fn literal(&mut self, word: &[u8]) -> Scan<()> {
        if self.bytes.get(self.at..self.at + word.len()) == Some(word) {
            self.at += word.len();
            Ok(())
        } else {
            Err(self.fault())
        }
    }

    fn number(&mut self) -> Scan<()> {
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        match self.bytes.get(self.at) {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits()?,
            _ => return Err(self.fault()),
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Scan<()> {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == start { Err(self.fault()) } else { Ok(()) }
    }
}

/// Returns an iterator over the members of an object, with decoded keys. It is empty for other values.
pub(crate) fn members(text: &str) -> impl Iterator<Item = (Cow<'_, str>, &str)> {
    let mut scanner = Scanner::new(text);
    let mut opener = b'{';
    std::iter::from_fn(move || {
        let key = scanner.next_key(&mut opener)?;
        let value = scanner.value(2).ok()?;
        Some((key.name(text), value.of(text)))
    })
}

/// Returns an iterator over the elements of an array. It is empty for other values.
pub(crate) fn elements(text: &str) -> impl Iterator<Item = &str> {
    let mut scanner = Scanner::new(text);
    let mut opener = b'[';
    std::iter::from_fn(move || {
        if !scanner.next_element(&mut opener) {
            return None;
        }
        Some(scanner.value(2).ok()?.of(text))
    })
}

/// Returns the first position from `at` on with a quote, a backslash or a control character, or the length of `bytes`.
///
/// Short strings are scanned eight bytes at a time, and long ones in branch-free blocks, which the compiler vectorizes.
#[inline]
pub(crate) fn plain_run(bytes: &[u8], mut at: usize) -> usize {
    const BLOCK_BYTES: usize = 64;
    let long = at + 2 * BLOCK_BYTES;
    while let Some(word) = bytes.get(at..at + WORD_BYTES) {
        let special = special_bytes(word);
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += WORD_BYTES;
        // This is done only once, because the end is within the next block.
        if at == long {
            while let Some(block) = bytes.get(at..at + BLOCK_BYTES)
                && block.iter().fold(true, |plain, &byte| plain & is_plain(byte))
            {
                at += BLOCK_BYTES;
            }
        }
    }
    while at < bytes.len() && is_plain(bytes[at]) {
        at += 1;
    }
    at
}

const WORD_BYTES: usize = 8;

fn is_plain(byte: u8) -> bool {
    byte >= 0x20 && byte != b'"' && byte != b'\\'
}

/// Returns a mask in which the high bit of the first byte that is not plain is set, and possibly those of later bytes.
/// Returns 0 if all bytes are plain.
#[inline]
fn special_bytes(word: &[u8]) -> u64 {
    const LOW_BITS: u64 = u64::from_ne_bytes([1; WORD_BYTES]);
    const HIGH_BITS: u64 = u64::from_ne_bytes([0x80; WORD_BYTES]);
    let Ok(word) = word.try_into().map(u64::from_le_bytes) else { return HIGH_BITS };
    let zero_byte = |word: u64| word.wrapping_sub(LOW_BITS) & !word;
    let quotes = zero_byte(word ^ (LOW_BITS * b'"' as u64));
    let backslashes = zero_byte(word ^ (LOW_BITS * b'\\' as u64));
    let controls = word.wrapping_sub(LOW_BITS * 0x20) & !word;
    (quotes | backslashes | controls) & HIGH_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(text: &str) -> bool {
        let mut scanner = Scanner::new(text);
        scanner.value(1).and_then(|_| scanner.end()).is_ok()
    }

    #[test]
    fn scanner_accepts_exactly_what_serde_json_accepts() {
        let texts = [
            "{}",
            "[]",
            "[[]]",
            "[{}]",
            "{\"a\":[]}",
            "{\"a\":{\"b\":[1,2,{}]},\"c\":null}",
            " [ 1 , 2 ] ",
            "0",
            "-0",
            "01",
            "1.",
            "1.0",
            ".5",
            "1e5",
            "1E+5",
            "1e",
            "-",
            "1e999",
            "\"\"",
            "\"\\u12\"",
            "\"\\ud800\"",
            "\"\\x\"",
            "\"\u{1}\"",
            "\"\t\"",
            "tru",
            "true",
            "nul",
            "[1,]",
            "{,}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "[",
            "]",
            "{]",
            "[}",
            "{\"a\":1]",
            "1 2",
            "",
            " ",
            "\u{feff}1",
            "[1 2]",
            "{\"a\" : 1 , \"b\":2}",
            "[[],[[]],{}]",
            "{1:2}",
            "[\"\\\\\",\"\\\"\"]",
        ];
        for text in texts {
            let serde = serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok();
            assert_eq!(accepts(text), serde, "{text:?}");
        }
    }

    #[test]
    fn depth_127_is_accepted_and_128_is_rejected() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(accepts(&nested(MAX_DEPTH)));
        let mut scanner_text = nested(MAX_DEPTH + 1);
        let fault = Scanner::new(&scanner_text).value(1).unwrap_err();
        assert_eq!(fault, Fault { at: MAX_DEPTH, kind: FaultKind::TooDeep });
        scanner_text = "[".repeat(5_000_000);
        assert_eq!(Scanner::new(&scanner_text).value(1).unwrap_err().kind, FaultKind::TooDeep);
    }

    #[test]
    fn long_strings_are_scanned_in_blocks_to_the_same_end() {
        for length in 0..200 {
            for tail in
                ["\"", "\\n\"", "\u{1f}\"", "\u{1f}  and much more behind it, so that blocks are full\""]
            {
                let text = format!("\"{}{tail}", "é".repeat(length));
                assert_eq!(accepts(&text), !tail.contains('\u{1f}'), "{length} {tail:?}");
            }
        }
    }
}
