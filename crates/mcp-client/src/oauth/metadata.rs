//! The metadata of an authorization server (RFC 8414, OpenID Connect Discovery).

use serde::Deserialize;
use url::Url;

use super::endpoint::{OAuthHttp, Trust, endpoint_url};
use super::error::OAuthError;
use super::providers::Endpoints;

/// The metadata of an authorization server.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct ServerMetadata {
    pub(super) issuer: String,
    pub(super) token_endpoint: Option<String>,
    pub(super) device_authorization_endpoint: Option<String>,
    pub(super) revocation_endpoint: Option<String>,
    #[serde(default)]
    pub(super) token_endpoint_auth_methods_supported: Vec<String>,
}

impl ServerMetadata {
    /// Returns the endpoints of this issuer.
    pub(super) fn endpoints(self, issuer: &str) -> Result<Endpoints, OAuthError> {
        let Self { token_endpoint, device_authorization_endpoint, revocation_endpoint, .. } = self;
        let token =
            token_endpoint.ok_or_else(|| unusable(issuer, "it has no `token_endpoint`".to_owned()))?;
        Ok(Endpoints {
            token,
            device: device_authorization_endpoint,
            revocation: revocation_endpoint,
            auth_methods: self.token_endpoint_auth_methods_supported,
        })
    }
}

fn unusable(issuer: &str, problem: String) -> OAuthError {
    OAuthError::Metadata { issuer: issuer.to_owned(), problem }
}

/// Fetches the metadata of a configured issuer.
pub(super) async fn fetch(http: &OAuthHttp, issuer: &str) -> Result<ServerMetadata, OAuthError> {
    let (url, metadata) = fetch_first(http, issuer, well_known_urls(issuer)?).await?;
    // Compared as text: another issuer could otherwise pass as this one.
    if metadata.issuer != issuer {
        let named = mcp_protocol::safe_text::SafeText::name(&metadata.issuer);
        return Err(unusable(issuer, format!("{url} names another issuer: `{named}`")));
    }
    Ok(metadata)
}

/// Returns the endpoints of a provider of which only the token endpoint is configured: those of the metadata at the
/// origin of that endpoint, if this names the same token endpoint.
pub(super) async fn fetch_beside(http: &OAuthHttp, token_url: &str) -> Result<Endpoints, OAuthError> {
    let origin = origin(&endpoint_url(token_url).map_err(OAuthError::Settings)?);
    let (url, metadata) = fetch_first(http, token_url, well_known_urls(&origin)?).await?;
    if metadata.token_endpoint.as_deref() != Some(token_url) {
        return Err(unusable(token_url, format!("the `token_endpoint` of {url} is another one")));
    }
    metadata.endpoints(token_url)
}

/// Returns the first document that exists, and its URL.
async fn fetch_first(
    http: &OAuthHttp,
    issuer: &str,
    urls: Vec<String>,
) -> Result<(String, ServerMetadata), OAuthError> {
    let mut last = "there is no URL for it".to_owned();
    for url in urls {
        let response = http.get(&url, Trust::Configured).await?;
        match response.status {
            200 => {
                let metadata = serde_json::from_slice(&response.body).map_err(|error| {
                    unusable(issuer, format!("{url} is not a metadata document: {error}"))
                })?;
                return Ok((url, metadata));
            }
            status @ (429 | 500..) => {
                return Err(OAuthError::Unreachable {
                    endpoint: url,
                    problem: format!("HTTP status {status}"),
                });
            }
            status => last = format!("{url} returned HTTP status {status}"),
        }
    }
    Err(unusable(issuer, last))
}

/// Returns the URLs at which the metadata may be, in the order in which the specification demands them.
fn well_known_urls(issuer: &str) -> Result<Vec<String>, OAuthError> {
    let url = endpoint_url(issuer).map_err(OAuthError::Settings)?;
    let origin = origin(&url);
    let path = url.path().trim_end_matches('/');
    Ok(if path.is_empty() {
        vec![
            format!("{origin}/.well-known/oauth-authorization-server"),
            format!("{origin}/.well-known/openid-configuration"),
        ]
    } else {
        vec![
            format!("{origin}/.well-known/oauth-authorization-server{path}"),
            format!("{origin}/.well-known/openid-configuration{path}"),
            format!("{origin}{path}/.well-known/openid-configuration"),
        ]
    })
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_urls_follow_the_order_of_the_specification() {
        assert_eq!(
            well_known_urls("https://as.example").unwrap(),
            [
                "https://as.example/.well-known/oauth-authorization-server",
                "https://as.example/.well-known/openid-configuration"
            ]
        );
        assert_eq!(
            well_known_urls("https://as.example:8443/t1/").unwrap(),
            [
                "https://as.example:8443/.well-known/oauth-authorization-server/t1",
                "https://as.example:8443/.well-known/openid-configuration/t1",
                "https://as.example:8443/t1/.well-known/openid-configuration"
            ]
        );
        assert!(well_known_urls("http://as.example").is_err());
    }
}
