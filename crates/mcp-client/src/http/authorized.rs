//! Requests with a token: sent, refused, and sent again.

use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use mcp_protocol::codec::challenge::Challenge;
use url::Url;

use super::authorizer::{Authorization, Authorizer};
use super::http_error::HttpError;
use super::request::{HttpConnections, RawRequest, RawResponse};
use crate::oauth::{PROOF, Prover};

impl HttpConnections {
    /// Sends a request with the token of an authorizer. It is sent once more if the server refuses it with status 401 and
    /// there is another token.
    pub(super) async fn send_authorized(
        &self,
        authorizer: &dyn Authorizer,
        make: impl Fn() -> RawRequest,
    ) -> Result<RawResponse, HttpError> {
        let authorization = match authorizer.ready() {
            Some(authorization) => Some(authorization),
            None => authorizer.authorization().await.map_err(HttpError::refused)?,
        };
        let used = authorization.as_ref();
        let mut response = self.send_with_redirects(|| authorized(make(), used)).await?;
        // The server wants a number in the proof that it gives only now.
        if let Some(prover) = used.and_then(|used| used.prover.as_ref())
            && is_new_nonce(prover, &make().url, &response)
        {
            self.drain(response.body);
            response = self.send_with_redirects(|| authorized(make(), used)).await?;
        }
        if response.status == StatusCode::UNAUTHORIZED {
            return Box::pin(self.send_again(authorizer, used, response, &make)).await;
        }
        // Somebody may have logged in for more scopes while this request was on its way.
        if response.status == StatusCode::FORBIDDEN
            && let Some(newer) = authorizer.ready()
            && used.is_some_and(|used| used.token_id != newer.token_id)
        {
            self.drain(response.body);
            let response = self.send_with_redirects(|| authorized(make(), Some(&newer))).await?;
            return check_scopes(authorizer, Some(&newer), response);
        }
        check_scopes(authorizer, used, response)
    }

    /// Sends a request again with another token, after it was refused with this response.
    async fn send_again(
        &self,
        authorizer: &dyn Authorizer,
        refused: Option<&Authorization>,
        response: RawResponse,
        make: &impl Fn() -> RawRequest,
    ) -> Result<RawResponse, HttpError> {
        // Some servers also refuse unknown sessions with this status, but they do not ask for a token then. The session
        // is renewed, and if the token is the problem, that is refused too.
        let has_challenge = response.headers.contains_key(WWW_AUTHENTICATE);
        if !has_challenge && make().headers.contains_key("mcp-session-id") {
            return Ok(response);
        }
        // The server refused the request before it executed it, so it may be sent again.
        let demanded = challenges(&response.headers);
        let second = authorizer.authorization_after(refused, &demanded).await.map_err(HttpError::refused)?;
        self.drain(response.body);
        let response = self.send_with_redirects(|| authorized(make(), Some(&second))).await?;
        if response.status == StatusCode::UNAUTHORIZED {
            return Err(HttpError::refused(
                authorizer.refused_again(&second, &challenges(&response.headers)),
            ));
        }
        check_scopes(authorizer, Some(&second), response)
    }
}

/// Returns a response unless it demands more scopes, which a login can bring.
fn check_scopes(
    authorizer: &dyn Authorizer,
    used: Option<&Authorization>,
    response: RawResponse,
) -> Result<RawResponse, HttpError> {
    if response.status == StatusCode::FORBIDDEN {
        return match authorizer.scope_missing(&challenges(&response.headers)) {
            Some(error) => Err(HttpError::refused(error)),
            None => Ok(response),
        };
    }
    if response.status.is_success() {
        authorizer.accepted(used);
    }
    Ok(response)
}

/// Returns the challenges of a response (`WWW-Authenticate`).
pub(crate) fn challenges(headers: &HeaderMap) -> Vec<Challenge> {
    let values = headers.get_all(WWW_AUTHENTICATE).iter();
    Challenge::parse_all(values.filter_map(|value| value.to_str().ok()))
}

/// Notes the number of the server for proofs. Returns true if the server refused the request because it was missing.
fn is_new_nonce(prover: &Prover, url: &Url, response: &RawResponse) -> bool {
    let is_wanted = |challenge: &Challenge| challenge.error() == Some("use_dpop_nonce");
    prover.note(url, &response.headers)
        && response.status == StatusCode::UNAUTHORIZED
        && challenges(&response.headers).iter().any(is_wanted)
}

/// Adds the token, and the proof if the token is bound to a key.
fn authorized(mut request: RawRequest, authorization: Option<&Authorization>) -> RawRequest {
    let Some(authorization) = authorization else { return request };
    request.headers.insert(AUTHORIZATION, authorization.header.clone());
    if let Some(prover) = &authorization.prover
        && let Some(token) = authorization.header.as_bytes().strip_prefix(b"DPoP ")
        && let Ok(token) = std::str::from_utf8(token)
        && let Some(proof) = prover.proof(request.method.as_str(), &request.url, Some(token))
    {
        request.headers.insert(PROOF, proof);
    }
    request
}
