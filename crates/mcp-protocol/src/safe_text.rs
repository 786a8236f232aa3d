//! Safe display of text from the peer.

use std::fmt;

use crate::limits::{MAX_MESSAGE_CHARACTERS, MAX_NAME_CHARACTERS};

/// Displays untrusted text: control characters, invisible characters and characters that change the text direction are
/// escaped.
///
/// ```
/// use mcp_protocol::safe_text::SafeText;
///
/// assert_eq!(SafeText::new("harm\u{202e}less\u{e0041}").to_string(), r"harm\u{202e}less\u{e0041}");
/// assert_eq!(SafeText::new("line\nline").to_string(), r"line\nline");
/// assert_eq!(SafeText::new("Grüße, 世界").to_string(), "Grüße, 世界");
/// assert_eq!(SafeText::new("0123456789").at_most(4).to_string(), "0123… (10 characters)");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SafeText<'a> {
    text: &'a str,
    most: usize,
}

impl<'a> SafeText<'a> {
    /// Displays the whole text.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        Self { text, most: usize::MAX }
    }

    /// Displays a name or other short text: at most 80 characters.
    #[must_use]
    pub fn name(text: &'a str) -> Self {
        Self::new(text).at_most(MAX_NAME_CHARACTERS)
    }

    /// Displays a message: at most 1000 characters.
    #[must_use]
    pub fn message(text: &'a str) -> Self {
        Self::new(text).at_most(MAX_MESSAGE_CHARACTERS)
    }

    /// Limits the number of characters that are displayed, counted before escaping. If the text is longer, `…` and its
    /// total number of characters follow.
    #[must_use]
    pub fn at_most(mut self, characters: usize) -> Self {
        self.most = characters;
        self
    }
}

impl fmt::Display for SafeText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, character) in self.text.chars().enumerate() {
            if number == self.most {
                return write!(f, "… ({} characters)", self.text.chars().count());
            }
            if misleads(character) {
                write!(f, "{}", character.escape_default())?;
                continue;
            }
            write!(f, "{character}")?;
        }
        Ok(())
    }
}

/// Returns true for characters that are invisible or change the display of others.
fn misleads(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_control_and_bidi_characters_are_escaped() {
        for hidden in
            ['\u{e0041}', '\u{202e}', '\u{200b}', '\u{feff}', '\u{1b}', '\u{2066}', '\u{fe0f}', '\u{7f}']
        {
            let shown = SafeText::new(&format!("a{hidden}b")).to_string();
            assert!(!shown.contains(hidden), "{:x}", hidden as u32);
            assert!(shown.starts_with('a') && shown.ends_with('b') && shown.len() > 3, "{shown}");
        }
    }
}
