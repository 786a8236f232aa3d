//! Serialization of strings as JSON.

use super::scan::plain_run;

/// Writes a string with quotes and escapes, byte for byte as serde_json does.
///
/// Text without escapes is found in blocks and copied at once; serde_json checks every byte separately, which takes
/// twice as long for long texts.
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    // A long text is usually the last part of a message except for brackets, for which the buffer should not double.
    const BYTES_AFTER: usize = 64;
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2 + BYTES_AFTER);
    out.push(b'"');
    let mut start = 0;
    loop {
        let end = plain_run(bytes, start);
        out.extend_from_slice(&bytes[start..end]);
        let Some(&byte) = bytes.get(end) else { break };
        escape(out, byte);
        start = end + 1;
    }
    out.push(b'"');
}

/// Writes a quote, a backslash or a control character.
fn escape(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => {
            out.extend_from_slice(b"\\u00");
            return out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 0xf)]]);
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(text: &str) -> String {
        let mut out = Vec::new();
        string(&mut out, text);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn characters_below_256_are_serialized_as_by_serde_json() {
        for byte in 0..=u8::MAX {
            // Put the character at every position of a word, and after the part that is scanned in blocks.
            for before in (0..9).chain([127, 128, 129, 200]) {
                let text = format!("{}{}{}", "x".repeat(before), char::from(byte), "é".repeat(5));
                assert_eq!(written(&text), serde_json::to_string(&text).unwrap(), "{byte} after {before}");
            }
        }
    }

    proptest! {
        #[test]
        fn strings_are_serialized_as_by_serde_json(text in any::<String>(), times in 0..40usize) {
            let text = text.repeat(times);
            prop_assert_eq!(written(&text), serde_json::to_string(&text).unwrap());
        }
    }
}
