//! The metadata of an authorization server (RFC 8414, OpenID Connect Discovery).

use mcp_protocol::oauth::well_known;
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
    authorization_endpoint: Option<String>,
    registration_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
    #[serde(default)]
    code_challenge_methods_supported: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
    #[serde(default)]
    client_id_metadata_document_supported: bool,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

impl ServerMetadata {
    /// Returns the endpoints of this issuer.
    pub(super) fn endpoints(self, issuer: &str) -> Result<Endpoints, OAuthError> {
        let token =
            self.token_endpoint.ok_or_else(|| unusable(issuer, "it has no `token_endpoint`".to_owned()))?;
        Ok(Endpoints {
            token,
            authorization: self.authorization_endpoint,
            device: self.device_authorization_endpoint,
            revocation: self.revocation_endpoint,
            registration: self.registration_endpoint,
            auth_methods: self.token_endpoint_auth_methods_supported,
            scopes: self.scopes_supported,
            has_s256: self.code_challenge_methods_supported.iter().any(|method| method == "S256"),
            has_client_documents: self.client_id_metadata_document_supported,
            names_issuer: self.authorization_response_iss_parameter_supported,
        })
    }
}

fn unusable(issuer: &str, problem: String) -> OAuthError {
    OAuthError::Metadata { issuer: issuer.to_owned(), problem }
}

/// Fetches the metadata of an issuer. `trust` is where the issuer comes from.
pub(super) async fn fetch(
    http: &OAuthHttp,
    issuer: &str,
    trust: Trust<'_>,
) -> Result<ServerMetadata, OAuthError> {
    let (url, metadata) = fetch_first(http, issuer, well_known_urls(issuer, trust)?, trust)
        .await?
        .map_err(|problem| unusable(issuer, problem))?;
    check_issuer(issuer, &url, metadata)
}

/// Fetches the metadata of an issuer; `None` if there is none.
pub(super) async fn find(
    http: &OAuthHttp,
    issuer: &str,
    trust: Trust<'_>,
) -> Result<Option<ServerMetadata>, OAuthError> {
    match fetch_first(http, issuer, well_known_urls(issuer, trust)?, trust).await? {
        Ok((url, metadata)) => check_issuer(issuer, &url, metadata).map(Some),
        Err(_) => Ok(None),
    }
}

fn check_issuer(issuer: &str, url: &str, metadata: ServerMetadata) -> Result<ServerMetadata, OAuthError> {
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
    let places = well_known_urls(&origin, Trust::Configured)?;
    let found = fetch_first(http, token_url, places, Trust::Configured).await?;
    let (url, metadata) = found.map_err(|problem| unusable(token_url, problem))?;
    if metadata.token_endpoint.as_deref() != Some(token_url) {
        return Err(unusable(token_url, format!("the `token_endpoint` of {url} is another one")));
    }
    metadata.endpoints(token_url)
}

/// Returns the first document that exists, and its URL; or why there is none.
async fn fetch_first(
    http: &OAuthHttp,
    issuer: &str,
    urls: Vec<String>,
    trust: Trust<'_>,
) -> Result<Result<(String, ServerMetadata), String>, OAuthError> {
    let mut last = "there is no URL for it".to_owned();
    for url in urls {
        let response = http.get(&url, trust).await?;
        match response.status {
            200 => {
                let metadata = serde_json::from_slice(&response.body).map_err(|error| {
                    unusable(issuer, format!("{url} is not a metadata document: {error}"))
                })?;
                return Ok(Ok((url, metadata)));
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
    Ok(Err(last))
}

/// Returns the URLs at which the metadata may be, in the order in which the specification demands them.
fn well_known_urls(issuer: &str, trust: Trust<'_>) -> Result<Vec<String>, OAuthError> {
    let problem = match endpoint_url(issuer) {
        Err(problem) => problem,
        Ok(_) => match well_known::issuer_metadata(issuer) {
            Some(urls) => return Ok(urls),
            None => "an issuer has no query and no fragment".to_owned(),
        },
    };
    Err(match trust {
        Trust::Configured => OAuthError::Settings(problem),
        Trust::LearnedFrom(_) => unusable(issuer, problem),
    })
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}
