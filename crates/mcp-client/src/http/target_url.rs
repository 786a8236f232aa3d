//! Checks the URLs of servers.

use url::Url;

/// The maximum length of a URL in bytes.
const MAX_URL_BYTES: usize = 2048;

/// Parses the URL of a server. The `Err` variant says why it cannot be used.
pub(crate) fn parse_url(text: &str) -> Result<Url, &'static str> {
    if text.len() > MAX_URL_BYTES {
        return Err("the URL is longer than 2048 bytes");
    }
    // The parser would silently remove some of these characters.
    if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err("the URL has spaces or control characters");
    }
    let url = Url::parse(text)
        .map_err(|_| "not a valid URL; write it with its scheme, such as https://example.com/mcp")?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(
            "the scheme of the URL is neither `https` nor `http`; a server behind a URL is reached over one of them",
        );
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the URL contains a user name or password; use a header instead");
    }
    if url.fragment().is_some() {
        return Err("the URL has a fragment, which is never sent; remove it");
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_not_an_http_url_is_refused() {
        let long = format!("https://a/{}", "x".repeat(MAX_URL_BYTES));
        for text in [
            "ftp://a",
            "https://u@a",
            "https://:p@a",
            "https://a/#x",
            "nothing",
            &long,
            "$(id)",
            "-x",
            "--url",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "data:,x",
            "https://a/\nb",
            " https://a",
        ] {
            assert!(parse_url(text).is_err(), "{text:?}");
        }
        assert_eq!(parse_url("https://A.example/$(id)").unwrap().as_str(), "https://a.example/$(id)");
    }
}
