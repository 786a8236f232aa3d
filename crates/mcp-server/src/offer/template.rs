//! URI templates: the part of RFC 6570 that can be matched unambiguously.
//!
//! A URI is matched in one pass from left to right without backtracking, so the cost is linear in its length.

/// A template that can be matched against URIs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UriTemplate {
    parts: Vec<TemplatePart>,
}

/// A literal or an expression of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePart {
    Literal(String),
    /// `{name}`: up to the literal that follows, or to the end. The value is not empty and has no reserved characters.
    Simple(String),
    /// `{+name}`: up to the literal that follows, or to the end. The value may have reserved characters.
    Reserved(String),
    /// `{?a,b}` or `{&a,b}`: `name=value` parameters in any order, all optional. Always last.
    Query(char, Vec<String>),
}

impl UriTemplate {
    /// Parses a template.
    ///
    /// # Errors
    /// Returns the problem if the template is not supported.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |problem: &str| format!("unsupported URI template `{text}`: {problem}");
        let mut parts: Vec<TemplatePart> = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            if open > 0 {
                parts.push(TemplatePart::Literal(rest[..open].to_owned()));
            }
            let close = rest[open..].find('}').ok_or_else(|| wrong("unclosed `{`"))? + open;
            let expression = &rest[open + 1..close];
            rest = &rest[close + 1..];
            if matches!(parts.last(), Some(TemplatePart::Query(..))) {
                return Err(wrong("the query expression must be last"));
            }
            let is_adjacent =
                matches!(parts.last(), Some(TemplatePart::Simple(_) | TemplatePart::Reserved(_)));
            let operator = expression.chars().next().unwrap_or(' ');
            let part = match operator {
                '?' | '&' => TemplatePart::Query(
                    operator,
                    names(&expression[1..]).ok_or_else(|| wrong("invalid variable name"))?,
                ),
                '/' => {
                    parts.push(TemplatePart::Literal("/".to_owned()));
                    TemplatePart::Simple(
                        name(&expression[1..]).ok_or_else(|| wrong("invalid variable name"))?,
                    )
                }
                _ if is_adjacent => return Err(wrong("two adjacent variables")),
                '+' => TemplatePart::Reserved(
                    name(&expression[1..]).ok_or_else(|| wrong("invalid variable name"))?,
                ),
                _ => TemplatePart::Simple(name(expression).ok_or_else(|| {
                    wrong("only {name}, {+name}, {/name}, {?name} and {&name} are supported")
                })?),
            };
            parts.push(part);
        }
        if !rest.is_empty() {
            if matches!(parts.last(), Some(TemplatePart::Query(..))) {
                return Err(wrong("the query expression must be last"));
            }
            parts.push(TemplatePart::Literal(rest.to_owned()));
        }
        Ok(Self { parts })
    }

    /// Returns the percent-decoded values of the variables in a URI; `None` if the URI does not match.
    pub(crate) fn matches(&self, uri: &str) -> Option<Vec<(String, String)>> {
        let mut values = Vec::new();
        let mut rest = uri;
        let mut parts = self.parts.iter().peekable();
        while let Some(part) = parts.next() {
            match part {
                TemplatePart::Literal(text) => rest = rest.strip_prefix(text.as_str())?,
                TemplatePart::Simple(name) => {
                    let (value, after) = split_value(rest, parts.peek().copied(), parts.len() == 1)?;
                    if value.is_empty() || value.contains(is_reserved) {
                        return None;
                    }
                    values.push((name.clone(), decode(value)?));
                    rest = after;
                }
                TemplatePart::Reserved(name) => {
                    let (value, after) = split_value(rest, parts.peek().copied(), parts.len() == 1)?;
                    values.push((name.clone(), decode(value)?));
                    rest = after;
                }
                TemplatePart::Query(first, names) => {
                    if rest.is_empty() {
                        continue;
                    }
                    for pair in rest.strip_prefix(*first)?.split('&') {
                        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                        if !names.iter().any(|name| name == key)
                            || values.iter().any(|(known, _)| known == key)
                        {
                            return None;
                        }
                        values.push((key.to_owned(), decode(value)?));
                    }
                    rest = "";
                }
            }
        }
        rest.is_empty().then_some(values)
    }
}

fn is_reserved(c: char) -> bool {
    "/?#[]@!$&'()*+,;=:".contains(c)
}

/// Splits `rest` into the value of a variable and the text after it. The value ends at the next part, or at the end.
fn split_value<'t>(
    rest: &'t str,
    next: Option<&TemplatePart>,
    next_is_last: bool,
) -> Option<(&'t str, &'t str)> {
    let end = match next {
        // The last literal must match at the end, even if it also occurs earlier.
        Some(TemplatePart::Literal(text)) if next_is_last => rest.strip_suffix(text.as_str())?.len(),
        Some(TemplatePart::Literal(text)) => rest.find(text.as_str())?,
        Some(TemplatePart::Query(first, _)) => rest.find(*first).unwrap_or(rest.len()),
        _ => rest.len(),
    };
    Some(rest.split_at(end))
}

fn name(text: &str) -> Option<String> {
    let is_name =
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
    is_name.then(|| text.to_owned())
}

fn names(text: &str) -> Option<Vec<String>> {
    text.split(',').map(name).collect()
}

/// Percent-decodes text; `None` if an escape is invalid or the result is not UTF-8.
fn decode(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            // `from_str_radix` also accepts a sign as the first character, so this character is checked.
            let value = u8::from_str_radix(digits, 16).ok().filter(|_| rest[0].is_ascii_hexdigit())?;
            bytes.push(value);
            rest = &rest[2..];
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(template: &str, uri: &str) -> Option<Vec<(String, String)>> {
        UriTemplate::parse(template).unwrap().matches(uri)
    }

    fn pairs(pairs: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        Some(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn variables_are_found_and_decoded() {
        assert_eq!(
            matched("test://template/{id}/data", "test://template/1%202/data"),
            pairs(&[("id", "1 2")])
        );
        assert_eq!(matched("db://{table}/{id}", "db://users/7"), pairs(&[("table", "users"), ("id", "7")]));
        assert_eq!(matched("file:///{+path}", "file:///a/b/c.txt"), pairs(&[("path", "a/b/c.txt")]));
        assert_eq!(
            matched("x://a{/b}{?q,r}", "x://a/1?r=2&q=%41"),
            pairs(&[("b", "1"), ("r", "2"), ("q", "A")])
        );
        assert_eq!(matched("x://{a}-{b}", "x://1-2"), pairs(&[("a", "1"), ("b", "2")]));
        assert_eq!(matched("x://a{?q}", "x://a"), pairs(&[]));
        assert_eq!(matched("x://{name}.md/raw", "x://a.md/raw"), pairs(&[("name", "a")]));
        assert_eq!(matched("x://{name}.json", "x://a.json.json"), pairs(&[("name", "a.json")]));
        assert_eq!(matched("x://{+p}.txt", "x://a.txt/b.txt"), pairs(&[("p", "a.txt/b")]));
    }

    #[test]
    fn other_uris_do_not_match() {
        assert_eq!(matched("db://{table}/{id}", "db://users"), None);
        assert_eq!(matched("db://{table}/{id}", "db://users/7/8"), None);
        assert_eq!(matched("db://{table}", "db://"), None);
        assert_eq!(matched("db://{table}", "db://%zz"), None);
        assert_eq!(matched("db://{table}", "db://%ff"), None);
        assert_eq!(matched("x://a{?q}", "x://a?other=1"), None);
    }

    #[test]
    fn unsupported_templates_are_refused() {
        for text in ["{a}{b}", "{", "x{#a}", "{?q}tail", "{a b}", "{}", "{;x}"] {
            assert!(UriTemplate::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn hostile_uri_is_rejected_without_quadratic_work() {
        let template = UriTemplate::parse(&"{a}-".repeat(200)).unwrap_or_else(|error| panic!("{error}"));
        let uri = "-a".repeat(500_000);
        // Quadratic work would take minutes.
        assert_eq!(template.matches(&uri), None);
    }
}
