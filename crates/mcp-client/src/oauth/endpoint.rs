//! HTTP requests to authorization servers. They share nothing with the requests of MCP but the network settings: no
//! headers, cookies or connections.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING};
use http::{HeaderMap, HeaderValue, Method};
use mcp_protocol::safe_text::SafeText;
use url::{Host, Url};

use super::error::OAuthError;
use crate::config::server_config::shown_url;
use crate::error::Error;
use crate::http::request::{HttpConnections, RawRequest};
use crate::http::target_url::parse_url;
use crate::http::{Network, NetworkPolicy};

/// The maximum time for a request, connecting included.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum size of a response.
const MAX_RESPONSE_BYTES: usize = 256 << 10;

/// Sends requests to the endpoints of authorization servers.
#[derive(Clone, Debug)]
pub(super) struct OAuthHttp {
    network: Network,
}

/// A response with its complete body.
pub(super) struct OAuthResponse {
    pub(super) status: u16,
    pub(super) media_type: Option<String>,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

/// The origin of an endpoint's URL, which decides which addresses it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust<'a> {
    /// The operator or the user configured it.
    Configured,
    /// A server named it. It must be on this host, which was configured, or public. If this host is this machine, it may
    /// also be another name or address of this machine.
    LearnedFrom(&'a str),
}

impl OAuthHttp {
    /// Uses these network settings. The exchanges are not written to a wire trace, because they contain tokens.
    pub(super) fn new(network: Network) -> Self {
        Self { network: network.traced(None) }
    }

    /// Sends a form by POST, with these additional headers.
    pub(super) async fn post(
        &self,
        url: &str,
        trust: Trust<'_>,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<OAuthResponse, OAuthError> {
        self.send(Method::POST, url, trust, headers, body).await
    }

    /// Fetches a JSON document.
    pub(super) async fn get(&self, url: &str, trust: Trust<'_>) -> Result<OAuthResponse, OAuthError> {
        self.send(Method::GET, url, trust, HeaderMap::new(), Vec::new()).await
    }

    async fn send(
        &self,
        method: Method,
        text: &str,
        trust: Trust<'_>,
        mut headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<OAuthResponse, OAuthError> {
        let url = endpoint_url(text).map_err(|problem| match trust {
            Trust::Configured => OAuthError::Settings(problem),
            Trust::LearnedFrom(host) => OAuthError::Metadata { issuer: host.to_owned(), problem },
        })?;
        let unreachable = |problem: String| OAuthError::Unreachable { endpoint: shown_url(text), problem };
        let uri: http::Uri = url.as_str().parse().map_err(|_| unreachable("not a valid URL".to_owned()))?;
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let connections = HttpConnections::new(&self.network_for(&url, trust), &url).map_err(unreachable)?;
        let (url, body) = (std::sync::Arc::new(url), Bytes::from(body));
        let request = || RawRequest {
            method: method.clone(),
            url: std::sync::Arc::clone(&url),
            uri: uri.clone(),
            headers: headers.clone(),
            body: body.clone(),
        };
        let exchange = async {
            let mut response =
                connections.send(request).await.map_err(|error| match error.refusal.as_deref() {
                    Some(Error::Denied { host, reason }) => {
                        OAuthError::Denied { host: host.clone(), reason: reason.clone() }
                    }
                    _ => unreachable(error.to_string()),
                })?;
            if response.encoding().is_some() {
                return Err(unreachable("the response is compressed, which was not requested".to_owned()));
            }
            let mut read = Vec::new();
            while let Some(chunk) = response.body.chunk().await {
                let chunk = chunk.map_err(|error| unreachable(error.to_string()))?;
                if read.len() + chunk.len() > MAX_RESPONSE_BYTES {
                    return Err(unreachable(format!(
                        "the response is larger than {MAX_RESPONSE_BYTES} bytes"
                    )));
                }
                read.extend_from_slice(&chunk);
            }
            let media_type = response.media_type();
            Ok(OAuthResponse {
                status: response.status.as_u16(),
                media_type,
                headers: response.headers,
                body: read,
            })
        };
        let result = tokio::time::timeout(TIMEOUT, exchange).await;
        connections.close().await;
        result.unwrap_or_else(|_| Err(unreachable(format!("timed out after {} s", TIMEOUT.as_secs()))))
    }

    /// Returns the network settings for a URL. A policy that the host has set always applies.
    fn network_for(&self, url: &Url, trust: Trust<'_>) -> Network {
        let is_trusted = match trust {
            Trust::Configured => true,
            Trust::LearnedFrom(host) => url.host_str() == Some(host),
        };
        if is_trusted || *self.network.current_policy() != NetworkPolicy::as_given() {
            return self.network.clone();
        }
        let is_issuer_local =
            matches!(trust, Trust::LearnedFrom(host) if is_loopback(Host::parse(host).ok()));
        let policy = NetworkPolicy::public();
        self.network.clone().policy(if is_issuer_local { policy } else { policy.without_loopback() })
    }
}

/// Returns true for hosts that are this machine whatever a name server says.
fn is_loopback<S: AsRef<str>>(host: Option<Host<S>>) -> bool {
    match host {
        Some(Host::Domain(name)) => name.as_ref() == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Parses the URL of an endpoint: HTTPS, or HTTP on this machine.
///
/// # Errors
/// Returns the problem.
pub(crate) fn endpoint_url(text: &str) -> Result<Url, String> {
    let shown = || SafeText::message(&shown_url(text)).to_string();
    let url = parse_url(text).map_err(|problem| format!("`{}`: {problem}", shown()))?;
    if url.scheme() != "https" && !is_loopback(url.host()) {
        return Err(format!("`{}` needs HTTPS; plain HTTP is allowed only for this machine", shown()));
    }
    Ok(url)
}

/// Parses the URL of a page that a user opens: like that of an endpoint, but on this machine only if the configured host
/// is this machine, too. Otherwise a server elsewhere could make the browser send requests to programs on this machine.
///
/// # Errors
/// Returns the problem.
pub(super) fn page_url(text: &str, trusted_host: &str) -> Result<Url, String> {
    let page = endpoint_url(text)?;
    if is_loopback(page.host()) && !is_loopback(Host::parse(trusted_host).ok()) {
        return Err(format!("`{}` is on this machine", SafeText::message(&shown_url(text))));
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_need_https_except_on_this_machine() {
        for url in
            ["https://as.example/token", "http://127.0.0.1:1/token", "http://localhost/t", "http://[::1]/t"]
        {
            assert!(endpoint_url(url).is_ok(), "{url}");
        }
        for url in [
            "http://as.example/token",
            "http://10.0.0.1/t",
            "ftp://as.example",
            "as.example",
            "https://u:p@a/",
        ] {
            let problem = endpoint_url(url).unwrap_err();
            assert!(!problem.contains(":p@"), "{problem}");
        }
    }

    #[tokio::test]
    async fn learned_endpoints_must_be_public_or_on_the_same_host() {
        let http = OAuthHttp::new(Network::new().no_proxy());
        let error =
            http.get("https://10.1.2.3/token", Trust::LearnedFrom("as.example")).await.map(drop).unwrap_err();
        assert!(matches!(error, OAuthError::Denied { .. }), "{error}");
        let url = Url::parse("https://10.1.2.3/token").unwrap();
        let policy = |http: &OAuthHttp, trust| http.network_for(&url, trust).current_policy().clone();
        assert_eq!(policy(&http, Trust::LearnedFrom("10.1.2.3")), NetworkPolicy::as_given());
        assert_eq!(policy(&http, Trust::Configured), NetworkPolicy::as_given());
        // A server elsewhere must not make this client send forms to programs on this machine.
        for url in ["http://localhost:1/token", "http://127.0.0.1:1/token", "https://[::1]:1/token"] {
            let error = http.get(url, Trust::LearnedFrom("as.example")).await.map(drop).unwrap_err();
            assert!(matches!(error, OAuthError::Denied { .. }), "{error}");
        }
        assert_eq!(policy(&http, Trust::LearnedFrom("[::1]")), NetworkPolicy::public());
        // A policy of the host is kept, so that it can allow a private network by name.
        let own = NetworkPolicy::public().allow_range("10.0.0.0/8").unwrap();
        let http = OAuthHttp::new(Network::new().policy(own.clone()));
        assert_eq!(policy(&http, Trust::LearnedFrom("as.example")), own);
    }
}
