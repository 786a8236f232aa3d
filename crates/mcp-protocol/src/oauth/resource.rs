//! Whether metadata is that of the server that a client wants to use.

use super::well_known::split;

/// Returns true if the `resource` of a metadata document identifies the server at `url`: it is the URL itself, or an
/// address above it at the same origin. Another server could otherwise ask for tokens of this one.
///
/// ```
/// use mcp_protocol::oauth::resource::covers;
///
/// assert!(covers("https://h", "https://h/mcp"));
/// assert!(covers("https://h/mcp", "https://h/mcp"));
/// assert!(!covers("https://h/mc", "https://h/mcp"));
/// assert!(!covers("https://evil/mcp", "https://h/mcp"));
/// ```
#[must_use]
pub fn covers(resource: &str, url: &str) -> bool {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let (Some((origin, path)), Some((url_origin, url_path))) = (split(resource), split(url)) else {
        return false;
    };
    let has_dots = |path: &str| path.split('/').any(|part| matches!(part, "." | ".."));
    normal(origin) == normal(url_origin)
        && !has_dots(path)
        && url_path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns an origin in lower case and without the default port.
fn normal(origin: &str) -> String {
    let origin = origin.to_ascii_lowercase();
    let port = if origin.starts_with("https:") { ":443" } else { ":80" };
    origin.strip_suffix(port).map(str::to_owned).unwrap_or(origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_server_and_what_is_above_it_are_covered() {
        let url = "https://H.example/public/mcp?key=1";
        for resource in [
            "https://h.example",
            "https://h.example/",
            "HTTPS://h.example:443/public",
            "https://h.example/public/mcp",
            "https://h.example/public/mcp/",
        ] {
            assert!(covers(resource, url), "{resource}");
        }
        for resource in [
            "http://h.example/public/mcp",
            "https://h.example:8443",
            "https://h.example.evil",
            "https://evil.h.example",
            "https://h.example/public/mcp/more",
            "https://h.example/publi",
            "https://h.example/Public",
            "https://h.example/public/..",
            "https://h.example/public/mcp?x",
            "https://h.example/public/mcp#x",
            "https://u@h.example/public",
            "h.example",
            "",
        ] {
            assert!(!covers(resource, url), "{resource}");
        }
        assert!(covers("http://127.0.0.1:80", "http://127.0.0.1/mcp"));
        assert!(!covers("http://127.0.0.1:443", "http://127.0.0.1/mcp"));
        assert!(!covers("https://h", "ftp://h"));
    }
}
