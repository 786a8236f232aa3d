//! The metadata of an authorization server (RFC 8414, OpenID Connect Discovery).

use serde::Deserialize;
use url::Url;

use super::endpoint::{OAuthHttp, Trust, endpoint_url};
use super::error::OAuthError;

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

/// Fetches the metadata of a configured issuer.
pub(super) async fn fetch(http: &OAuthHttp, issuer: &str) -> Result<ServerMetadata, OAuthError> {
    let unusable =
        |problem: &str| OAuthError::Metadata { issuer: issuer.to_owned(), problem: problem.to_owned() };
    let mut last = None;
    for url in well_known_urls(issuer)? {
        let response = match http.get(&url, Trust::Configured).await {
            Ok(response) if response.status == 200 => response,
            Ok(response) if response.status >= 500 || response.status == 429 => {
                let problem = format!("HTTP status {}", response.status);
                return Err(OAuthError::Unreachable { endpoint: url, problem });
            }
            Ok(response) => {
                last = Some(unusable(&format!("{url} returned HTTP status {}", response.status)));
                continue;
            }
            Err(error) => return Err(error),
        };
        let metadata: ServerMetadata = serde_json::from_slice(&response.body)
            .map_err(|error| unusable(&format!("{url} is not a metadata document: {error}")))?;
        // Compared as text: another issuer could otherwise pass as this one.
        if metadata.issuer != issuer {
            let named = mcp_protocol::safe_text::SafeText::name(&metadata.issuer);
            return Err(unusable(&format!("{url} names another issuer: `{named}`")));
        }
        return Ok(metadata);
    }
    Err(last.unwrap_or_else(|| unusable("there is no URL for it")))
}

/// Returns the URLs at which the metadata may be, in the order in which the specification demands them.
fn well_known_urls(issuer: &str) -> Result<Vec<String>, OAuthError> {
    let url = endpoint_url(issuer)?;
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
