//! Where the metadata of protected resources and of authorization servers is found. Identifiers are compared and
//! extended as text, because a URL library may change them when it writes them again.
//!
//! Spec: RFC 9728, section 3.1; RFC 8414, section 3.1; MCP 2026-07-28, basic/authorization.

/// The well-known path of the metadata of a protected resource.
pub const PROTECTED_RESOURCE: &str = "/.well-known/oauth-protected-resource";
const AUTHORIZATION_SERVER: &str = "/.well-known/oauth-authorization-server";
const OPENID_CONFIGURATION: &str = "/.well-known/openid-configuration";

/// Returns the addresses at which the metadata of a resource is looked for, in this order: with the path of the
/// resource, and at the root. `None` if the resource is not an `http` or `https` URL without query and fragment.
///
/// ```
/// use mcp_protocol::oauth::well_known::resource_metadata;
///
/// assert_eq!(resource_metadata("https://h/public/mcp").unwrap(), [
///     "https://h/.well-known/oauth-protected-resource/public/mcp",
///     "https://h/.well-known/oauth-protected-resource",
/// ]);
/// ```
#[must_use]
pub fn resource_metadata(resource: &str) -> Option<Vec<String>> {
    let (origin, path) = split(resource)?;
    let root = format!("{origin}{PROTECTED_RESOURCE}");
    Some(if path.is_empty() { vec![root] } else { vec![format!("{root}{path}"), root] })
}

/// Returns the addresses at which the metadata of an issuer is looked for, in this order. `None` if the issuer is not an
/// `http` or `https` URL without query and fragment.
///
/// ```
/// use mcp_protocol::oauth::well_known::issuer_metadata;
///
/// assert_eq!(issuer_metadata("https://a/t1").unwrap(), [
///     "https://a/.well-known/oauth-authorization-server/t1",
///     "https://a/.well-known/openid-configuration/t1",
///     "https://a/t1/.well-known/openid-configuration",
/// ]);
/// ```
#[must_use]
pub fn issuer_metadata(issuer: &str) -> Option<Vec<String>> {
    let (origin, path) = split(issuer)?;
    let mut places = vec![
        format!("{origin}{AUTHORIZATION_SERVER}{path}"),
        format!("{origin}{OPENID_CONFIGURATION}{path}"),
    ];
    if !path.is_empty() {
        places.push(format!("{origin}{path}{OPENID_CONFIGURATION}"));
    }
    Some(places)
}

/// Returns the origin of an `http` or `https` URL as it is written, and its path without a slash at the end.
#[must_use]
pub fn split(url: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let is_web = scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http");
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '?' | '#' | '\\' | '"' | '<' | '>');
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if !is_web || authority.is_empty() || authority.contains('@') || !rest.chars().all(is_plain) {
        return None;
    }
    Some((&url[..scheme.len() + 3 + end], path.strip_suffix('/').unwrap_or(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slash_at_the_end_belongs_to_no_address() {
        assert_eq!(
            resource_metadata("https://h").unwrap(),
            ["https://h/.well-known/oauth-protected-resource"]
        );
        assert_eq!(resource_metadata("https://h/"), resource_metadata("https://h"));
        assert_eq!(resource_metadata("http://h:8080/mcp/"), resource_metadata("http://h:8080/mcp"));
        assert_eq!(
            issuer_metadata("HTTPS://[::1]:1/").unwrap(),
            [
                "HTTPS://[::1]:1/.well-known/oauth-authorization-server",
                "HTTPS://[::1]:1/.well-known/openid-configuration"
            ]
        );
    }

    #[test]
    fn other_texts_have_no_metadata() {
        for bad in [
            "",
            "h",
            "ftp://h",
            "https://",
            "https:///x",
            "https://h/?a",
            "https://h/#a",
            "https://u@h/",
            "https://h/ü",
            "https://h/a b",
            "https://h\\x",
            "//h/x",
            "https://h/\n",
        ] {
            assert_eq!((resource_metadata(bad), issuer_metadata(bad)), (None, None), "{bad}");
        }
    }
}
