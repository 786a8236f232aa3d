//! The requests to an authorization server. Only this file uses the library `oauth2`.
//!
//! Its errors may contain the body of a response, and with it tokens. So no error of it is kept: responses with errors
//! never reach it (see `answer.rs`), and a failure to parse the rest is reported without its text.

use std::pin::Pin;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use mcp_protocol::oauth::scopes::Scopes;
use mcp_protocol::safe_text::SafeText;
use oauth2::basic::{BasicClient, BasicTokenResponse};
use oauth2::{
    AsyncHttpClient, AuthType, ClientId, ClientSecret, DeviceAuthorizationUrl,
    EmptyExtraDeviceAuthorizationFields, EndpointNotSet, EndpointSet, HttpRequest, HttpResponse,
    RefreshToken, RequestTokenError, Scope, StandardDeviceAuthorizationResponse, TokenResponse as _,
    TokenUrl,
};

use super::answer::{ResponseMembers, members};
use super::client_auth::ClientAuth;
use super::dpop::{PROOF, Prover};
use super::endpoint::{OAuthHttp, OAuthResponse, Trust, endpoint_url};
use super::error::OAuthError;
use crate::credentials::Secret;

/// The grant type of device logins (RFC 8628, section 3.4).
const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// The type of signed client assertions (RFC 7523, section 2.2).
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// A client of one authorization server.
#[derive(Clone, Debug)]
pub(super) struct Grants {
    pub(super) http: OAuthHttp,
    pub(super) client_id: String,
    pub(super) auth: ClientAuth,
    /// True if the secret is sent in the form instead of the header `Authorization`.
    pub(super) is_secret_in_form: bool,
    pub(super) token_endpoint: String,
    /// The issuer, for the audience of client assertions. Empty if it is not known.
    pub(super) issuer: String,
    /// The host that was configured. Endpoints on it, and public ones, may be connected to.
    pub(super) trusted_host: String,
    /// The key to which tokens are bound.
    pub(super) prover: Option<Prover>,
    /// The identifier of the MCP server (RFC 8707). `None` for servers that do not know the parameter.
    pub(super) resource: Option<String>,
}

/// A token that an authorization server issued.
pub(super) struct IssuedToken {
    pub(super) access_token: Secret,
    pub(super) refresh_token: Option<Secret>,
    pub(super) lifetime: Option<Duration>,
    /// The granted scopes. `None` if they are the requested ones.
    pub(super) scopes: Option<Vec<String>>,
}

/// The codes of a device login.
pub(super) struct DeviceCodes {
    pub(super) device_code: Secret,
    pub(super) user_code: String,
    pub(super) url: String,
    pub(super) url_with_code: Option<String>,
    pub(super) lifetime: Duration,
    pub(super) interval: Option<Duration>,
}

type LibraryClient = BasicClient<EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointSet>;

impl Grants {
    fn client(&self) -> Result<LibraryClient, OAuthError> {
        let token_url =
            TokenUrl::new(self.token_endpoint.clone()).map_err(|_| invalid_url("token endpoint"))?;
        let mut client = BasicClient::new(ClientId::new(self.client_id.clone())).set_token_uri(token_url);
        client = client.set_auth_type(AuthType::RequestBody);
        if let ClientAuth::Secret(secret) = &self.auth {
            client = client.set_client_secret(ClientSecret::new(secret.expose().to_owned()));
            if !self.is_secret_in_form {
                client = client.set_auth_type(AuthType::BasicAuth);
            }
        }
        Ok(client)
    }

    /// The parameters of every token request besides those of its grant.
    fn more_parameters(&self) -> Result<Vec<(&'static str, String)>, OAuthError> {
        let mut parameters: Vec<_> =
            self.resource.iter().map(|resource| ("resource", resource.clone())).collect();
        if let ClientAuth::PrivateKey(key) = &self.auth {
            let audience = if self.issuer.is_empty() { &self.token_endpoint } else { &self.issuer };
            let assertion = key.assertion(&self.client_id, audience, super::clock::unix_time().as_secs())?;
            parameters.push(("client_assertion_type", ASSERTION_TYPE.to_owned()));
            parameters.push(("client_assertion", assertion));
        }
        Ok(parameters)
    }

    /// Requests a token for this client itself.
    pub(super) async fn client_credentials(&self, scopes: &Scopes) -> Result<IssuedToken, OAuthError> {
        let client = self.client()?;
        let mut request = client
            .exchange_client_credentials()
            .add_scopes(scopes.iter().map(|scope| Scope::new(scope.to_owned())));
        for (name, value) in self.more_parameters()? {
            request = request.add_extra_param(name, value);
        }
        issued(request.request_async(self).await, &self.token_endpoint)
    }

    /// Redeems a refresh token. Scopes are not sent: the new token has those of the login.
    pub(super) async fn refresh(&self, refresh_token: &Secret) -> Result<IssuedToken, OAuthError> {
        let client = self.client()?;
        let refresh_token = RefreshToken::new(refresh_token.expose().to_owned());
        let mut request = client.exchange_refresh_token(&refresh_token);
        for (name, value) in self.more_parameters()? {
            request = request.add_extra_param(name, value);
        }
        issued(request.request_async(self).await, &self.token_endpoint)
    }

    /// Begins a device login.
    pub(super) async fn device_codes(
        &self,
        endpoint: &str,
        scopes: &Scopes,
    ) -> Result<DeviceCodes, OAuthError> {
        let url = DeviceAuthorizationUrl::new(endpoint.to_owned())
            .map_err(|_| invalid_url("device authorization endpoint"))?;
        let client = self.client()?.set_device_authorization_url(url);
        let mut request =
            client.exchange_device_code().add_scopes(scopes.iter().map(|scope| Scope::new(scope.to_owned())));
        for (name, value) in self.more_parameters()? {
            request = request.add_extra_param(name, value);
        }
        let codes: Result<StandardDeviceAuthorizationResponse, _> =
            request.request_async::<_, EmptyExtraDeviceAuthorizationFields>(self).await;
        let codes = codes.map_err(|error| plain_error(error, endpoint))?;
        Ok(DeviceCodes {
            device_code: Secret::new(codes.device_code().secret().clone()),
            user_code: codes.user_code().secret().clone(),
            url: codes.verification_uri().as_str().to_owned(),
            url_with_code: codes.verification_uri_complete().map(|url| url.secret().clone()),
            lifetime: codes.expires_in(),
            interval: Some(codes.interval()),
        })
    }

    /// Asks once whether the user has decided about a device login.
    pub(super) async fn device_token(&self, device_code: &Secret) -> Result<IssuedToken, OAuthError> {
        let form =
            vec![("grant_type", DEVICE_GRANT.to_owned()), ("device_code", device_code.expose().to_owned())];
        self.request_token(form).await
    }

    /// Requests a token with this form.
    pub(super) async fn request_token(
        &self,
        mut form: Vec<(&str, String)>,
    ) -> Result<IssuedToken, OAuthError> {
        form.extend(self.more_parameters()?);
        let (headers, body) = self.form(form)?;
        let members = self.post(&self.token_endpoint, headers, body).await?;
        parse_token(members, &self.token_endpoint)
    }

    /// Redeems the code of a login with a browser.
    pub(super) async fn redeem_code(
        &self,
        code: &Secret,
        verifier: &Secret,
        redirect: &str,
    ) -> Result<IssuedToken, OAuthError> {
        let form = vec![
            ("grant_type", "authorization_code".to_owned()),
            ("code", code.expose().to_owned()),
            ("code_verifier", verifier.expose().to_owned()),
            ("redirect_uri", redirect.to_owned()),
        ];
        self.request_token(form).await
    }

    /// Revokes a token (RFC 7009).
    pub(super) async fn revoke(&self, endpoint: &str, token: &Secret, hint: &str) -> Result<(), OAuthError> {
        let mut form = vec![("token", token.expose().to_owned()), ("token_type_hint", hint.to_owned())];
        form.extend(self.more_parameters()?.into_iter().filter(|(name, _)| *name != "resource"));
        let (headers, body) = self.form(form)?;
        let trust = Trust::LearnedFrom(&self.trusted_host);
        let response = self.http.post(endpoint, trust, headers, body).await?;
        // The status of a successful response says everything, whatever its body is (RFC 7009, section 2.2).
        if (200..300).contains(&response.status) {
            return Ok(());
        }
        members(endpoint, &response).map(drop)
    }

    /// Sends a request of the library, and returns a response that the library can parse.
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, OAuthError> {
        let (parts, body) = request.into_parts();
        let mut headers = HeaderMap::new();
        for name in [CONTENT_TYPE, AUTHORIZATION] {
            if let Some(mut value) = parts.headers.get(&name).cloned() {
                value.set_sensitive(true);
                headers.insert(name, value);
            }
        }
        let endpoint = parts.uri.to_string();
        let members = self.post(&endpoint, headers, body).await?;
        let mut response = HttpResponse::new(serde_json::Value::Object(members).to_string().into_bytes());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(response)
    }

    /// Returns the headers and the body of a form, with the authentication of the client. Not a part of an async function:
    /// the serializer is not `Send`.
    fn form(&self, form: Vec<(&str, String)>) -> Result<(HeaderMap, Vec<u8>), OAuthError> {
        let mut headers = form_headers();
        let mut text = url::form_urlencoded::Serializer::new(String::new());
        text.extend_pairs(form);
        match &self.auth {
            ClientAuth::Secret(secret) if !self.is_secret_in_form => {
                headers.insert(AUTHORIZATION, basic(&self.client_id, secret)?);
            }
            ClientAuth::Secret(secret) => {
                text.append_pair("client_id", &self.client_id).append_pair("client_secret", secret.expose());
            }
            ClientAuth::None | ClientAuth::PrivateKey(_) => {
                text.append_pair("client_id", &self.client_id);
            }
        }
        Ok((headers, text.finish().into_bytes()))
    }

    async fn post(
        &self,
        endpoint: &str,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<ResponseMembers, OAuthError> {
        let mut response = self.post_once(endpoint, headers.clone(), &body).await?;
        if let (Some(prover), Ok(url)) = (&self.prover, endpoint_url(endpoint))
            && prover.note(&url, &response.headers)
            && members(endpoint, &response).is_err_and(|error| error.is_code("use_dpop_nonce"))
        {
            response = self.post_once(endpoint, headers, &body).await?;
        }
        let mut members = members(endpoint, &response).map_err(|error| without_secrets(error, &body))?;
        if self.prover.is_some() && members.contains_key("access_token") {
            let kind = members.get("token_type").and_then(serde_json::Value::as_str).unwrap_or_default();
            if !kind.eq_ignore_ascii_case("DPoP") {
                return Err(OAuthError::Unreachable {
                    endpoint: crate::config::server_config::shown_url(endpoint),
                    problem: "the token is not bound to the key of this client (DPoP)".to_owned(),
                });
            }
            // The library knows only this type.
            members.insert("token_type".to_owned(), "Bearer".into());
        }
        Ok(members)
    }

    async fn post_once(
        &self,
        endpoint: &str,
        mut headers: HeaderMap,
        body: &[u8],
    ) -> Result<OAuthResponse, OAuthError> {
        if let (Some(prover), Ok(url)) = (&self.prover, endpoint_url(endpoint))
            && let Some(proof) = prover.proof("POST", &url, None)
        {
            headers.insert(PROOF, proof);
        }
        self.http.post(endpoint, Trust::LearnedFrom(&self.trusted_host), headers, body.to_vec()).await
    }
}

/// Sends the requests of the library.
impl<'c> AsyncHttpClient<'c> for Grants {
    type Error = OAuthError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, OAuthError>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.send(request))
    }
}

/// Returns the headers of a form.
pub(super) fn form_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    headers
}

/// The parameters of requests that are secret.
const SECRETS: [&str; 8] = [
    "assertion",
    "refresh_token",
    "device_code",
    "client_secret",
    "client_assertion",
    "token",
    "code",
    "code_verifier",
];

/// Removes the description of an error that quotes a secret of the request: some servers describe a refresh token as
/// `Invalid refresh token: …`.
fn without_secrets(mut error: OAuthError, form: &[u8]) -> OAuthError {
    if let OAuthError::Refused { description, .. } = &mut error {
        let is_quoted = |text: &mut String| {
            // Short values could be part of any text.
            let mut form = url::form_urlencoded::parse(form).filter(|(_, value)| value.len() >= 8);
            form.any(|(name, value)| SECRETS.contains(&&*name) && text.contains(&*value))
        };
        description.take_if(is_quoted);
    }
    error
}

/// Returns the header for a client id and secret (RFC 6749, section 2.3.1): both are form-encoded first.
fn basic(client_id: &str, secret: &Secret) -> Result<HeaderValue, OAuthError> {
    let encode = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encode(client_id), encode(secret.expose()));
    let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair)))
        .map_err(|_| OAuthError::Settings("the client secret cannot be sent in a header".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

type LibraryError = RequestTokenError<OAuthError, oauth2::basic::BasicErrorResponse>;

/// Converts an error of the library, without the text of a response.
fn plain_error(error: LibraryError, endpoint: &str) -> OAuthError {
    match error {
        RequestTokenError::Request(error) => error,
        RequestTokenError::ServerResponse(_) | RequestTokenError::Parse(..) | RequestTokenError::Other(_) => {
            OAuthError::Unreachable {
                endpoint: crate::config::server_config::shown_url(endpoint),
                problem: "the response lacks a required member, or one has a wrong type".to_owned(),
            }
        }
    }
}

fn issued(
    response: Result<BasicTokenResponse, LibraryError>,
    endpoint: &str,
) -> Result<IssuedToken, OAuthError> {
    let response = response.map_err(|error| plain_error(error, endpoint))?;
    let unusable = |problem: String| OAuthError::Unreachable {
        endpoint: crate::config::server_config::shown_url(endpoint),
        problem,
    };
    let token_type = response.token_type();
    if *token_type != oauth2::basic::BasicTokenType::Bearer {
        let token_type = SafeText::name(token_type.as_ref());
        return Err(unusable(format!("the token has the type `{token_type}`, not `Bearer`")));
    }
    if response.access_token().secret().is_empty() {
        return Err(unusable("the token is empty".to_owned()));
    }
    // Some servers send an empty one if there is no new one. It must not replace the old one.
    let refresh_token = response.refresh_token().filter(|token| !token.secret().is_empty());
    Ok(IssuedToken {
        access_token: Secret::new(response.access_token().secret().clone()),
        refresh_token: refresh_token.map(|token| Secret::new(token.secret().clone())),
        lifetime: response.expires_in(),
        scopes: response.scopes().map(|scopes| scopes.iter().map(|scope| scope.to_string()).collect()),
    })
}

fn parse_token(members: ResponseMembers, endpoint: &str) -> Result<IssuedToken, OAuthError> {
    let parsed = serde_json::from_value(serde_json::Value::Object(members));
    let missing = |_| RequestTokenError::Other(String::new());
    issued(parsed.map_err(missing), endpoint)
}

fn invalid_url(what: &str) -> OAuthError {
    OAuthError::Settings(format!("the URL of the {what} is not valid"))
}
