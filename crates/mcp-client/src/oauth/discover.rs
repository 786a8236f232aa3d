//! Finds the authorization server of an MCP server, and what it wants of a login.
//!
//! Spec: MCP 2026-07-28, basic/authorization; RFC 9728, RFC 8414. Resources and issuers are kept as text: they are
//! compared byte for byte, and a URL library may change them when it writes them again.

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use mcp_protocol::codec::challenge::Challenge;
use mcp_protocol::oauth::resource::covers;
use mcp_protocol::oauth::scopes::Scopes;
use mcp_protocol::oauth::well_known;
use mcp_protocol::safe_text::SafeText;
use serde::Deserialize;

use super::endpoint::{OAuthHttp, Trust, endpoint_url};
use super::error::OAuthError;
use super::login_server::LoginServer;
use super::metadata;
use super::providers::{Endpoints, Provider};
use crate::http::authorized::challenges;

/// The challenge of a server that refused a request: the address of its metadata, and the scopes that it requires.
#[derive(Clone, Debug, Default)]
pub(crate) struct Demand {
    /// The address of the resource metadata.
    pub(crate) metadata: Option<String>,
    pub(crate) scopes: Scopes,
}

impl Demand {
    /// Reads the first challenge for a token; `None` if there is no such challenge.
    pub(crate) fn of(challenges: &[Challenge]) -> Option<Self> {
        let challenge =
            challenges.iter().find(|challenge| matches!(challenge.scheme.as_str(), "bearer" | "dpop"))?;
        let metadata = challenges.iter().find_map(Challenge::resource_metadata).map(str::to_owned);
        Some(Self { metadata, scopes: Scopes::parse(challenge.scope().unwrap_or_default()) })
    }
}

/// The authorization server of a login.
#[derive(Clone, Debug)]
pub(super) struct Discovery {
    pub(super) issuer: String,
    /// The identifier of the MCP server at the authorization server. `None` if it knows no identifiers.
    pub(super) resource: Option<String>,
    pub(super) endpoints: Endpoints,
    /// The scopes to ask for.
    pub(super) scopes: Scopes,
}

/// The metadata of a protected resource.
#[derive(Debug, Deserialize)]
struct ResourceMetadata {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

impl LoginServer {
    /// Finds the authorization server. `demand` is the challenge of the MCP server, if it is known.
    pub(super) async fn discover(
        &self,
        http: &OAuthHttp,
        demand: Option<&Demand>,
    ) -> Result<Discovery, OAuthError> {
        let options = &self.options;
        options.check()?;
        // A missing secret is reported before anything is sent.
        options.auth()?;
        let (issuer, resource, endpoints, supported) = match &options.provider {
            Provider::Discovered => return self.discover_all(http, demand).await,
            Provider::Issuer(issuer) => {
                let metadata = metadata::fetch(http, issuer, Trust::Configured).await?;
                (issuer.as_str(), self.resource.clone(), metadata.endpoints(issuer)?, Vec::new())
            }
            Provider::Custom { token_url, .. } => (
                token_url.as_str(),
                self.resource.clone(),
                metadata::fetch_beside(http, token_url).await?,
                Vec::new(),
            ),
            provider => (provider.issuer(), self.resource.clone(), provider.endpoints(), Vec::new()),
        };
        let scopes = self.scopes(demand, supported, &Endpoints::default());
        Ok(Discovery { issuer: issuer.to_owned(), resource, endpoints, scopes })
    }

    async fn discover_all(&self, http: &OAuthHttp, demand: Option<&Demand>) -> Result<Discovery, OAuthError> {
        let url = self.url()?;
        let trust = self.trust();
        let probed;
        let demand = match demand {
            Some(demand) => Some(demand),
            None => {
                probed = probe(http, url).await;
                probed.as_ref()
            }
        };
        let Some(resource) = self.resource_metadata(http, demand).await? else {
            return self.discover_as_in_2025_03_26(http, demand).await;
        };
        let Some(issuer) = resource.authorization_servers.first() else {
            return Err(unusable(
                url,
                "it names no authorization server (`authorization_servers`)".to_owned(),
            ));
        };
        let endpoints = metadata::fetch(http, issuer, trust).await?.endpoints(issuer)?;
        let scopes = self.scopes(demand, resource.scopes_supported, &endpoints);
        Ok(Discovery { issuer: issuer.clone(), resource: Some(resource.resource), endpoints, scopes })
    }

    /// Finds the authorization server of a server without resource metadata, as in MCP 2025-03-26: it is at the origin of
    /// the server, and without metadata its endpoints have fixed paths.
    async fn discover_as_in_2025_03_26(
        &self,
        http: &OAuthHttp,
        demand: Option<&Demand>,
    ) -> Result<Discovery, OAuthError> {
        let (origin, _) = well_known::split(self.resource.as_deref().unwrap_or_default())
            .ok_or_else(|| OAuthError::Settings("the URL of the server is not valid".to_owned()))?;
        let endpoints = match metadata::find(http, origin, self.trust()).await? {
            Some(metadata) => metadata.endpoints(origin)?,
            // A guessed endpoint gets no secret that was given out elsewhere.
            None if self.options.has_secret() => {
                return Err(unusable(
                    self.url()?,
                    "there is none, and neither has its origin an authorization server".to_owned(),
                ));
            }
            None => Endpoints {
                token: format!("{origin}/token"),
                authorization: Some(format!("{origin}/authorize")),
                registration: Some(format!("{origin}/register")),
                has_s256: true,
                ..Endpoints::default()
            },
        };
        let scopes = self.scopes(demand, Vec::new(), &endpoints);
        Ok(Discovery { issuer: origin.to_owned(), resource: self.resource.clone(), endpoints, scopes })
    }

    /// Returns true if the metadata of the server still names this issuer, and also if there is no metadata.
    pub(super) async fn still_uses(
        &self,
        http: &OAuthHttp,
        issuer: &str,
        demand: Option<&Demand>,
    ) -> Result<bool, OAuthError> {
        if self.options.provider != Provider::Discovered {
            return Ok(true);
        }
        let found = self.resource_metadata(http, demand).await?;
        Ok(found.is_none_or(|found| found.authorization_servers.iter().any(|known| known == issuer)))
    }

    /// Fetches the metadata of the server; `None` if there is none.
    async fn resource_metadata(
        &self,
        http: &OAuthHttp,
        demand: Option<&Demand>,
    ) -> Result<Option<ResourceMetadata>, OAuthError> {
        let url = self.url()?;
        let named = demand.and_then(|demand| demand.metadata.clone());
        let known = self.resource.as_deref().and_then(well_known::resource_metadata).unwrap_or_default();
        for place in named.into_iter().chain(known) {
            let response = http.get(&place, self.trust()).await?;
            match response.status {
                200 => {
                    let found: ResourceMetadata =
                        serde_json::from_slice(&response.body).map_err(|error| {
                            unusable(url, format!("{place} is not a metadata document: {error}"))
                        })?;
                    if !covers(&found.resource, url) {
                        let other = SafeText::message(&found.resource).to_string();
                        return Err(unusable(
                            url,
                            format!("{place} is the metadata of another server: its `resource` is `{other}`"),
                        ));
                    }
                    return Ok(Some(found));
                }
                status @ (429 | 500..) => {
                    return Err(OAuthError::Unreachable {
                        endpoint: place,
                        problem: format!("HTTP status {status}"),
                    });
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// Returns the scopes to ask for: those of the program and those that the server demands, or else all that it
    /// supports; and the one for a refresh token, if the authorization server has it.
    fn scopes(&self, demand: Option<&Demand>, supported: Vec<String>, endpoints: &Endpoints) -> Scopes {
        let mut scopes: Scopes = self.options.scopes.iter().collect();
        if let Some(demand) = demand {
            scopes = scopes.union(&demand.scopes);
        }
        if scopes.is_empty() {
            scopes = supported.iter().collect();
        }
        let offline = "offline_access";
        if endpoints.scopes.iter().any(|scope| scope == offline) && self.options.is_for_user() {
            scopes.insert(offline);
        }
        scopes
    }

    /// Returns true if requests are sent without a token to find out whether the server wants one.
    pub(super) fn asks_first(&self) -> bool {
        self.options.provider == Provider::Discovered && self.options.is_for_user()
    }

    /// Returns the URL of the server.
    pub(super) fn url(&self) -> Result<&str, OAuthError> {
        self.url.as_deref().ok_or_else(|| {
            let problem = "the authorization server of a program cannot be found out; set its issuer";
            OAuthError::Settings(problem.to_owned())
        })
    }

    /// Returns which addresses a URL may have that was learned from this server or its authorization server.
    pub(super) fn trust(&self) -> Trust<'_> {
        Trust::LearnedFrom(&self.trusted_host)
    }
}

/// Sends a request without a token, to learn what the server demands. `None` if it does not say.
async fn probe(http: &OAuthHttp, url: &str) -> Option<Demand> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    let ping = br#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#.to_vec();
    let response = http.post(url, Trust::Configured, headers, ping).await.ok()?;
    Demand::of(&challenges(&response.headers))
}

fn unusable(server: &str, problem: String) -> OAuthError {
    OAuthError::ResourceMetadata { server: crate::config::server_config::shown_url(server), problem }
}

/// Returns the host of a URL, for [`Trust::LearnedFrom`].
pub(super) fn host_of(url: &str) -> String {
    endpoint_url(url).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
