//! `WWW-Authenticate`: authentication challenges of a server, read and written.
//!
//! Spec: MCP 2026-07-28, basic/authorization; RFC 9110, section 11.

use std::fmt::{self, Write as _};

/// One authentication challenge of a 401 or 403 response.
///
/// ```
/// use mcp_protocol::codec::challenge::Challenge;
///
/// let header = r#"Bearer resource_metadata="https://h/.well-known/x", scope="a b""#;
/// let challenges = Challenge::parse_all([header]);
/// assert_eq!(challenges[0].scheme, "bearer");
/// assert_eq!(challenges[0].scope(), Some("a b"));
/// ```
#[doc(alias = "WWW-Authenticate")]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Challenge {
    /// Scheme in lower case, such as `bearer`, `dpop` or `basic`.
    pub scheme: String,
    /// Parameters in order of appearance: names in lower case, values unescaped. Untrusted.
    pub parameters: Vec<(String, String)>,
}

/// Maximum number of challenges per response.
const MAX_CHALLENGES: usize = 16;
/// Maximum number of parameters per challenge.
const MAX_PARAMETERS: usize = 32;

impl Challenge {
    /// Parses the values of all `WWW-Authenticate` headers of a response. Malformed parts are skipped, and so are
    /// challenges after the first 16 and parameters of a challenge after the first 32.
    #[must_use]
    pub fn parse_all<'a>(values: impl IntoIterator<Item = &'a str>) -> Vec<Self> {
        let mut challenges = Vec::new();
        for value in values {
            parse(value, &mut challenges);
        }
        challenges
    }

    /// Creates a challenge without parameters for the scheme `Bearer`.
    ///
    /// ```
    /// use mcp_protocol::codec::challenge::Challenge;
    ///
    /// let challenge = Challenge::bearer().with("error", "invalid_token").with("scope", "a b");
    /// assert_eq!(challenge.to_string(), r#"Bearer error="invalid_token", scope="a b""#);
    /// ```
    #[must_use]
    pub fn bearer() -> Self {
        Self { scheme: "bearer".to_owned(), parameters: Vec::new() }
    }

    /// Adds a parameter. `name` must be in lower case.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.parameters.push((name.to_owned(), value.into()));
        self
    }

    /// Returns the value of a parameter. `name` must be in lower case.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns the URL of the protected resource metadata.
    #[must_use]
    pub fn resource_metadata(&self) -> Option<&str> {
        self.parameter("resource_metadata")
    }

    /// Returns the required scopes, separated by spaces.
    #[must_use]
    pub fn scope(&self) -> Option<&str> {
        self.parameter("scope")
    }

    /// Returns the error code, such as `invalid_token` or `insufficient_scope` (RFC 6750).
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.parameter("error")
    }
}

/// Writes the challenge as the value of a header. Characters that a header cannot contain are replaced by `?`.
impl fmt::Display for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, rest) = self.scheme.split_at(self.scheme.chars().next().map_or(0, char::len_utf8));
        write!(f, "{}{rest}", first.to_ascii_uppercase())?;
        for (at, (name, value)) in self.parameters.iter().enumerate() {
            f.write_str(if at == 0 { " " } else { ", " })?;
            write!(f, "{name}=\"")?;
            for c in value.chars() {
                match c {
                    '"' | '\\' => write!(f, "\\{c}")?,
                    ' '..='~' => f.write_char(c)?,
                    _ => f.write_char('?')?,
                }
            }
            f.write_char('"')?;
        }
        Ok(())
    }
}

/// Parses a header value. Challenges and their parameters are both separated by commas; a name that is followed by `=`
/// is a parameter, and any other name begins a new challenge.
fn parse(value: &str, challenges: &mut Vec<Challenge>) {
    let mut rest = value;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if rest.is_empty() || challenges.len() == MAX_CHALLENGES {
            return;
        }
        let (name, after) = token(rest);
        if name.is_empty() {
            // Not a token: skip to the next comma.
            rest = rest.split_once(',').map_or("", |(_, rest)| rest);
            continue;
        }
        let behind = after.trim_start_matches([' ', '\t']);
        match behind.strip_prefix('=') {
            // The padding of a token68 is not a parameter.
            Some(text) if !text.starts_with('=') && challenges.last().is_some() => {
                let (text, after) = parameter(text.trim_start_matches([' ', '\t']));
                if let Some(challenge) = challenges.last_mut()
                    && challenge.parameters.len() < MAX_PARAMETERS
                {
                    challenge.parameters.push((name.to_ascii_lowercase(), text));
                }
                rest = after;
            }
            Some(text) => rest = text.split_once(',').map_or("", |(_, rest)| rest),
            None => {
                challenges.push(Challenge { scheme: name.to_ascii_lowercase(), parameters: Vec::new() });
                // A token68 in place of parameters is skipped.
                let (word, after_word) = token68(behind);
                let ends = after_word.trim_start_matches([' ', '\t']);
                let is_token68 = !word.is_empty() && (ends.is_empty() || ends.starts_with(','));
                rest = if is_token68 && after != behind { ends } else { behind };
            }
        }
    }
}

fn token(text: &str) -> (&str, &str) {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    text.split_at(text.bytes().take_while(|byte| is_token(*byte)).count())
}

fn token68(text: &str) -> (&str, &str) {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    let part = text.bytes().take_while(|byte| is_part(*byte)).count();
    let padding = text[part..].bytes().take_while(|byte| *byte == b'=').count();
    text.split_at(part + padding)
}

/// Parses a value, quoted or not; returns it with the rest of the text.
fn parameter(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, rest) = token68(text);
        return (value.to_owned(), rest.trim_start_matches(|c| c != ','));
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(chars.next().map(|(_, c)| c)),
            c => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Vec<(String, Vec<(String, String)>)> {
        Challenge::parse_all([value]).into_iter().map(|it| (it.scheme, it.parameters)).collect()
    }

    #[test]
    fn joined_and_separate_challenges_are_parsed() {
        let pairs = |list: &[(&str, &str)]| -> Vec<(String, String)> {
            list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        for (value, expected) in [
            ("Bearer", vec![("bearer", pairs(&[]))]),
            (
                r#"Bearer error="insufficient_scope", scope="a b" , resource_metadata="https://x/y,z""#,
                vec![(
                    "bearer",
                    pairs(&[
                        ("error", "insufficient_scope"),
                        ("scope", "a b"),
                        ("resource_metadata", "https://x/y,z"),
                    ]),
                )],
            ),
            (
                r#"Basic realm="a\"b", BEARER Scope=x,DPoP algs="ES256""#,
                vec![
                    ("basic", pairs(&[("realm", "a\"b")])),
                    ("bearer", pairs(&[("scope", "x")])),
                    ("dpop", pairs(&[("algs", "ES256")])),
                ],
            ),
            (
                "Negotiate YWJj==, Bearer realm=x",
                vec![("negotiate", pairs(&[])), ("bearer", pairs(&[("realm", "x")]))],
            ),
            ("Negotiate, Bearer", vec![("negotiate", pairs(&[])), ("bearer", pairs(&[]))]),
            (", ,Bearer  realm = \"x\",,", vec![("bearer", pairs(&[("realm", "x")]))]),
            ("", vec![]),
            ("=x, \"y\", Bearer", vec![("bearer", pairs(&[]))]),
            (r#"Bearer realm="never ends"#, vec![("bearer", pairs(&[("realm", "never ends")]))]),
        ] {
            let expected: Vec<_> = expected.into_iter().map(|(s, p)| (s.to_owned(), p)).collect();
            assert_eq!(read(value), expected, "{value}");
        }
    }

    #[test]
    fn written_challenge_is_read_again() {
        let challenge =
            Challenge::bearer().with("scope", "a b").with("error_description", "say \"x\\y\", \r\n\u{e4}");
        let text = challenge.to_string();
        assert_eq!(text, r#"Bearer scope="a b", error_description="say \"x\\y\", ???""#);
        let read = Challenge::parse_all([text.as_str()]);
        assert_eq!((read.len(), read[0].scope()), (1, Some("a b")));
        assert_eq!(read[0].resource_metadata(), None);
        assert_eq!(read[0].parameter("error_description"), Some("say \"x\\y\", ???"));
        assert_eq!(Challenge::bearer().to_string(), "Bearer");
    }

    #[test]
    fn hostile_challenge_header_is_parsed_in_bounded_time() {
        let flood = "Bearer a=b,".repeat(10_000);
        assert_eq!(read(&flood).len(), MAX_CHALLENGES);
        let parameters = format!("Bearer {}", "a=b,".repeat(10_000));
        assert_eq!(read(&parameters)[0].1.len(), MAX_PARAMETERS);
        for text in ["\"", "\\", "a=\"\\", "ä=ö", "Bearer =", "Bearer a=", "Bearer a=,b"] {
            let _ = read(text);
        }
    }
}
