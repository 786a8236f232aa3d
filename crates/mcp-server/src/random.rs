//! Random bytes and ids.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Fills a buffer with random bytes.
#[expect(clippy::expect_used, reason = "a system without random bytes cannot serve; no input can cause this")]
pub(crate) fn fill(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system returns random bytes");
}

/// Returns a random id of 22 letters, digits, `-` and `_` (128 bits).
pub(crate) fn id() -> String {
    let mut bytes = [0; 16];
    fill(&mut bytes);
    URL_SAFE_NO_PAD.encode(bytes)
}
