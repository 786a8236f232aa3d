//! Checks of `Host`, `Origin` and `Sec-Fetch-Site`, against DNS rebinding and cross-site requests.

use std::borrow::Cow;

use http::header::{HeaderMap, ORIGIN};
use http::{StatusCode, Uri};
use mcp_protocol::safe_text::SafeText;

use super::headers::RequestHeaders;

/// The names that are allowed in the `Host` header, and the web origins that are allowed in `Origin` (protection
/// against DNS rebinding). Default: loopback names with any port. The built-in listener accepts loopback names in
/// `Host` only with its own port.
///
/// ```
/// let access = mcp_server::http::Access::loopback()
///     .host("mcp.example.com")
///     .origin("https://app.example.com");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    loopback: Option<PortRule>,
    hosts: Vec<String>,
    origins: Vec<String>,
    any_host: bool,
}

/// The allowed ports of loopback names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PortRule {
    Any,
    #[cfg_attr(not(feature = "serve"), allow(dead_code, reason = "only a listener knows its port"))]
    Only(u16),
}

impl Default for Access {
    fn default() -> Self {
        Self::loopback()
    }
}

impl Access {
    /// Allows `localhost`, `127.0.0.1` and `[::1]` with any port, as host and as web origin.
    #[must_use]
    pub fn loopback() -> Self {
        Self { loopback: Some(PortRule::Any), hosts: Vec::new(), origins: Vec::new(), any_host: false }
    }

    /// Adds an allowed name for `Host`. A name with a port allows only this port, a name without one allows any port.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.hosts.push(host.into().to_ascii_lowercase());
        self
    }

    /// Adds an allowed web origin: scheme, name and port, as a browser sends it in `Origin`.
    #[doc(alias = "CORS")]
    #[must_use]
    pub fn origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.push(origin.into().to_ascii_lowercase());
        self
    }

    /// Accepts any `Host`, for a server behind a proxy that checks this header. `Origin` is still checked.
    #[must_use]
    pub fn any_host_is_checked_elsewhere(mut self) -> Self {
        self.any_host = true;
        self
    }

    /// Restricts loopback names in `Host` to this port.
    #[cfg(feature = "serve")]
    pub(crate) fn at_port(mut self, port: u16) -> Self {
        if self.loopback.is_some() {
            self.loopback = Some(PortRule::Only(port));
        }
        self
    }

    /// Returns the error status for a request whose `Host` or `Origin` is not allowed.
    pub(super) fn check(
        &self,
        uri: &Uri,
        all: &HeaderMap,
        headers: &RequestHeaders<'_>,
    ) -> Result<(), StatusCode> {
        let host = match headers.host.first() {
            Some(_) if headers.host.is_repeated() => return Err(StatusCode::BAD_REQUEST),
            Some(host) => Some(host.to_str().map_err(|_| StatusCode::BAD_REQUEST)?),
            None => None,
        };
        // HTTP/2 and absolute-form targets carry the host in the target; if both are present they must agree.
        let authority = uri.authority().map(http::uri::Authority::as_str);
        let host = match (host, authority) {
            (Some(host), Some(authority)) if !host.eq_ignore_ascii_case(authority) => {
                return Err(StatusCode::BAD_REQUEST);
            }
            (host, authority) => host.or(authority).ok_or(StatusCode::BAD_REQUEST)?,
        };
        if !self.any_host && !self.allows_host(host) {
            tracing::warn!(
                host = %SafeText::name(host),
                "request refused: `Host` is not allowed; allow it with Access::host"
            );
            return Err(StatusCode::FORBIDDEN);
        }
        if headers.origin.first().is_none() {
            return check_fetch_site(headers);
        }
        for origin in all.get_all(ORIGIN) {
            let origin = origin.to_str().map_err(|_| StatusCode::FORBIDDEN)?;
            if !self.allows_origin(origin) {
                tracing::warn!(
                    origin = %SafeText::name(origin),
                    "request refused: `Origin` is not allowed; allow it with Access::origin"
                );
                return Err(StatusCode::FORBIDDEN);
            }
        }
        Ok(())
    }

    fn allows_host(&self, host: &str) -> bool {
        let host = lower(host);
        let (name, port) = split_port(&host);
        self.is_loopback(name, port) || self.hosts.iter().any(|known| *known == *host || *known == *name)
    }

    fn allows_origin(&self, origin: &str) -> bool {
        let origin = lower(origin);
        if self.origins.iter().any(|known| *known == *origin) {
            return true;
        }
        let Some((scheme, host)) = origin.split_once("://") else { return false };
        let (name, port) = split_port(host);
        // Any port is allowed: the page may come from a local development server.
        matches!(scheme, "http" | "https")
            && self.loopback.is_some()
            && is_loopback_name(name)
            && port.is_none_or(|port| port.parse::<u16>().is_ok())
    }

    fn is_loopback(&self, name: &str, port: Option<&str>) -> bool {
        let port_fits = match self.loopback {
            None => false,
            Some(PortRule::Any) => port.is_none_or(|port| port.parse::<u16>().is_ok()),
            Some(PortRule::Only(only)) => port.map_or(Some(80), |port| port.parse().ok()) == Some(only),
        };
        port_fits && is_loopback_name(name)
    }
}

/// Refuses a request without `Origin` that a page of another origin caused, for example with an image. Only browsers
/// send `Sec-Fetch-Site`; its value `none` means that the user typed the address.
fn check_fetch_site(headers: &RequestHeaders<'_>) -> Result<(), StatusCode> {
    let Some(site) = headers.fetch_site.first() else { return Ok(()) };
    if !headers.fetch_site.is_repeated() && matches!(site.as_bytes(), b"same-origin" | b"none") {
        return Ok(());
    }
    let site = String::from_utf8_lossy(site.as_bytes());
    tracing::warn!(
        site = %SafeText::name(&site),
        "request refused: cross-site request without `Origin` (Sec-Fetch-Site)"
    );
    Err(StatusCode::FORBIDDEN)
}

fn is_loopback_name(name: &str) -> bool {
    matches!(name, "localhost" | "127.0.0.1" | "[::1]")
}

fn lower(text: &str) -> Cow<'_, str> {
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(text.to_ascii_lowercase())
    } else {
        Cow::Borrowed(text)
    }
}

/// Splits an authority into name and port. An IPv6 address keeps its brackets.
fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (authority, None),
    }
}

#[cfg(test)]
mod tests {
    use http::header::{HOST, HeaderValue};

    use super::*;

    fn check(access: &Access, host: &str, origin: Option<&str>) -> Result<(), StatusCode> {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(host).unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, HeaderValue::from_str(origin).unwrap());
        }
        access.check(&Uri::from_static("/mcp"), &headers, &RequestHeaders::of(&headers))
    }

    #[test]
    fn foreign_host_is_refused_by_default() {
        let access = Access::default();
        for host in ["localhost", "LocalHost:8080", "127.0.0.1:1", "[::1]", "[::1]:8080"] {
            assert_eq!(check(&access, host, None), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "0.0.0.0",
            "localhost:x",
        ] {
            assert_eq!(check(&access, host, None), Err(StatusCode::FORBIDDEN), "{host}");
        }
        let access = Access::loopback().host("mcp.example.com");
        assert_eq!(check(&access, "MCP.example.com:443", None), Ok(()));
    }

    #[test]
    fn foreign_origin_is_refused_even_with_an_allowed_host() {
        let access = Access::default();
        for origin in ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:8080"] {
            assert_eq!(check(&access, "localhost", Some(origin)), Ok(()), "{origin}");
        }
        for origin in [
            "https://evil.example",
            "null",
            "",
            "http://localhost.evil.example",
            "file://",
            "http://localhost@evil.example",
        ] {
            assert_eq!(check(&access, "localhost", Some(origin)), Err(StatusCode::FORBIDDEN), "{origin}");
        }
        let access = Access::loopback().origin("https://app.example.com");
        assert_eq!(check(&access, "localhost", Some("https://app.example.com")), Ok(()));
        assert_eq!(check(&access, "localhost", Some("http://app.example.com")), Err(StatusCode::FORBIDDEN));
    }

    #[test]
    fn request_of_a_foreign_page_without_origin_is_refused() {
        let access = Access::default();
        let check = |sites: &[&'static str], origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static("localhost"));
            for site in sites {
                headers.append("sec-fetch-site", HeaderValue::from_static(site));
            }
            if let Some(origin) = origin {
                headers.insert(ORIGIN, HeaderValue::from_static(origin));
            }
            access.check(&Uri::from_static("/sse"), &headers, &RequestHeaders::of(&headers))
        };
        for good in [&[][..], &["same-origin"], &["none"]] {
            assert_eq!(check(good, None), Ok(()), "{good:?}");
        }
        for bad in [&["cross-site"][..], &["same-site"], &["none", "cross-site"], &["?"]] {
            assert_eq!(check(bad, None), Err(StatusCode::FORBIDDEN), "{bad:?}");
        }
        // An allowed `Origin` takes precedence over `Sec-Fetch-Site`.
        assert_eq!(check(&["cross-site"], Some("http://localhost:3000")), Ok(()));
    }

    #[test]
    fn missing_duplicate_or_conflicting_host_is_refused() {
        let access = Access::default();
        let mut headers = HeaderMap::new();
        assert_eq!(
            access.check(&Uri::from_static("/"), &headers, &RequestHeaders::of(&headers)),
            Err(StatusCode::BAD_REQUEST)
        );
        headers.append(HOST, HeaderValue::from_static("localhost"));
        assert_eq!(
            access.check(&Uri::from_static("http://evil.example/"), &headers, &RequestHeaders::of(&headers)),
            Err(StatusCode::BAD_REQUEST)
        );
        headers.append(HOST, HeaderValue::from_static("localhost"));
        assert_eq!(
            access.check(&Uri::from_static("/"), &headers, &RequestHeaders::of(&headers)),
            Err(StatusCode::BAD_REQUEST)
        );
        assert_eq!(
            access.check(
                &Uri::from_static("http://evil.example/"),
                &HeaderMap::new(),
                &RequestHeaders::default()
            ),
            Err(StatusCode::FORBIDDEN)
        );
    }
}
