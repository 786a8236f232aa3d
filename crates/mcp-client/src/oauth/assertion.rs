//! Tokens for an assertion of somebody else whom the authorization server trusts: the identity provider of a company, or
//! the platform on which a program runs (RFC 7523, RFC 8693).

use std::fmt;
use std::path::PathBuf;

use mcp_protocol::oauth::scopes::Scopes;

use super::answer::members;
use super::endpoint::{OAuthHttp, Trust};
use super::error::OAuthError;
use super::grants::{Grants, IssuedToken, form_headers};
use super::options::OAuthOptions;
use crate::credentials::Secret;

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
/// The maximum size of a file with an assertion.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// The identity provider of a company, at which the user of a program has already signed in.
///
/// ```
/// use mcp_client::oauth::{IdentityProvider, OAuthOptions};
///
/// let company = IdentityProvider::new("https://login.example.com/token", "chat-app", "the ID token of the user");
/// let oauth = OAuthOptions::discover().client_id("chat-app").secret("s-123").enterprise(company);
/// assert!(!format!("{oauth:?}").contains("ID token of"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct IdentityProvider {
    token_endpoint: String,
    client_id: String,
    id_token: Secret,
}

impl IdentityProvider {
    /// Describes the identity provider: its token endpoint, the client id that this program has there, and the ID token
    /// with which the user signed in.
    #[must_use]
    pub fn new(
        token_endpoint: impl Into<String>,
        client_id: impl Into<String>,
        id_token: impl Into<String>,
    ) -> Self {
        Self {
            token_endpoint: token_endpoint.into(),
            client_id: client_id.into(),
            id_token: Secret::new(id_token),
        }
    }
}

impl fmt::Debug for IdentityProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdentityProvider")
            .field("token_endpoint", &self.token_endpoint)
            .finish_non_exhaustive()
    }
}

/// Where an assertion comes from.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum AssertionSource {
    /// The platform gave it to the program.
    Text(Secret),
    /// The platform keeps it up to date in this file.
    File(PathBuf),
    /// The identity provider gives one for each authorization server.
    Enterprise(IdentityProvider),
}

impl OAuthOptions {
    /// Requests tokens for the user who signed in at this identity provider. The user is not sent to the authorization
    /// server of the MCP server, which trusts the identity provider. Set the client id that this program has there.
    #[doc(alias = "enterprise-managed authorization")]
    #[doc(alias = "ID-JAG")]
    #[must_use]
    pub fn enterprise(self, provider: IdentityProvider) -> Self {
        self.for_assertion(AssertionSource::Enterprise(provider))
    }

    /// Requests tokens for this program with the identity that its platform gave it: a JWT that the authorization server
    /// trusts. Set the client id that this program has there.
    #[doc(alias = "workload identity federation")]
    #[must_use]
    pub fn workload_identity(self, jwt: impl Into<String>) -> Self {
        self.for_assertion(AssertionSource::Text(Secret::new(jwt)))
    }

    /// Like [`workload_identity`](Self::workload_identity), with a file that the platform keeps up to date. It is read
    /// each time a token is requested.
    #[must_use]
    pub fn workload_identity_file(self, path: impl Into<PathBuf>) -> Self {
        self.for_assertion(AssertionSource::File(path.into()))
    }

    fn for_assertion(self, source: AssertionSource) -> Self {
        let mut options = self.for_service();
        options.assertion = Some(source);
        options
    }
}

impl AssertionSource {
    /// Requests a token.
    pub(super) async fn token(&self, grants: &Grants, scopes: &Scopes) -> Result<IssuedToken, OAuthError> {
        let assertion = match self {
            Self::Text(text) => text.clone(),
            Self::File(path) => read(path.clone()).await?,
            Self::Enterprise(provider) => exchange(&grants.http, provider, grants, scopes).await?,
        };
        let mut form =
            vec![("grant_type", JWT_BEARER.to_owned()), ("assertion", assertion.expose().to_owned())];
        if !scopes.is_empty() {
            form.push(("scope", scopes.to_string()));
        }
        // One attempt: what was refused is not sent again, and no other grant is tried.
        grants.request_token(form).await
    }
}

async fn read(path: PathBuf) -> Result<Secret, OAuthError> {
    let shown = path.display().to_string();
    let unreadable =
        |problem: String| OAuthError::Settings(format!("cannot read the assertion in {shown}: {problem}"));
    let reading = tokio::task::spawn_blocking(move || {
        use std::io::Read as _;
        let mut text = String::new();
        std::fs::File::open(&path)?.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
        Ok::<_, std::io::Error>(Secret::new(text.trim()))
    });
    match reading.await {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(error)) => Err(unreadable(error.to_string())),
        Err(error) => Err(unreadable(error.to_string())),
    }
}

/// Exchanges the ID token of the user for an assertion for the authorization server.
async fn exchange(
    http: &OAuthHttp,
    provider: &IdentityProvider,
    grants: &Grants,
    scopes: &Scopes,
) -> Result<Secret, OAuthError> {
    let endpoint = provider.token_endpoint.as_str();
    let body = {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", TOKEN_EXCHANGE)
            .append_pair("requested_token_type", ID_JAG)
            .append_pair("audience", &grants.issuer)
            .append_pair("subject_token", provider.id_token.expose())
            .append_pair("subject_token_type", ID_TOKEN)
            .append_pair("client_id", &provider.client_id);
        if let Some(resource) = &grants.resource {
            form.append_pair("resource", resource);
        }
        if !scopes.is_empty() {
            form.append_pair("scope", &scopes.to_string());
        }
        form.finish().into_bytes()
    };
    let response = http.post(endpoint, Trust::Configured, form_headers(), body).await?;
    let response = members(endpoint, &response)?;
    let text = |name: &str| response.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
    if text("issued_token_type") != ID_JAG || text("access_token").is_empty() {
        return Err(OAuthError::Unreachable {
            endpoint: crate::config::server_config::shown_url(endpoint),
            problem: "the response contains no assertion for the authorization server".to_owned(),
        });
    }
    Ok(Secret::new(text("access_token")))
}

#[cfg(test)]
mod tests;
