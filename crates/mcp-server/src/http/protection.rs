//! The protection of a running service: from the headers of a request to its principal, or to a refusal; and the
//! metadata from which clients learn where to log in.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, AUTHORIZATION, CACHE_CONTROL, HeaderMap, HeaderValue, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use mcp_protocol::codec::challenge::Challenge;
use mcp_protocol::oauth::scopes::Scopes;
use mcp_protocol::oauth::well_known;
use serde_json::json;

use super::response::{HttpResponse, empty_response, json_response};
use crate::auth::{ProtectedResource, Rejection, ScopeRules, Verifier};
use crate::call::identity::Principal;

/// The longest token that is verified.
const MAX_TOKEN_BYTES: usize = 16 << 10;
/// How long clients may keep the metadata, in seconds.
const METADATA_CACHE: &str = "public, max-age=300";

/// The protection of a service.
pub(super) struct Protection {
    resource: String,
    verifier: Arc<dyn Verifier>,
    /// The address of the metadata.
    metadata_url: String,
    /// The metadata of the resource as JSON (RFC 9728).
    metadata: Bytes,
    pub(super) rules: Arc<ScopeRules>,
}

impl Protection {
    /// Creates the protection of a service, or returns the problems of its configuration.
    pub(super) fn new(resource: &ProtectedResource) -> Result<Self, Vec<String>> {
        let problems = resource.problems();
        if !problems.is_empty() {
            return Err(problems);
        }
        let base: Scopes = resource.scopes.iter().collect();
        let mut metadata = json!({
            "resource": resource.resource,
            "authorization_servers": resource.verifier.issuers(),
            "bearer_methods_supported": ["header"],
        });
        if !base.is_empty() {
            metadata["scopes_supported"] = base.iter().collect();
        }
        if let Some(name) = &resource.name {
            metadata["resource_name"] = name.as_str().into();
        }
        Ok(Self {
            metadata: metadata.to_string().into(),
            metadata_url: well_known::resource_metadata(&resource.resource)
                .into_iter()
                .flatten()
                .next()
                .unwrap_or_default(),
            resource: resource.resource.clone(),
            verifier: Arc::clone(&resource.verifier),
            rules: Arc::new(ScopeRules::new(base, &resource.includes)),
        })
    }

    /// Returns who makes a request, or the response that refuses it.
    pub(super) async fn admit(&self, headers: &HeaderMap) -> Result<Principal, Box<HttpResponse>> {
        let token = match token_of(headers) {
            Ok(Some(token)) => token,
            // A request that does not log in is not told that its token is wrong (RFC 6750, section 3.1).
            Ok(None) => return Err(self.refuse(StatusCode::UNAUTHORIZED, None, &self.rules.base)),
            Err(problem) => {
                return Err(self.refuse(
                    StatusCode::BAD_REQUEST,
                    Some(("invalid_request", problem)),
                    &self.rules.base,
                ));
            }
        };
        match self.verifier.verify(token, &self.resource).await {
            Ok(principal) if principal.is_anonymous() => {
                tracing::warn!("the verifier accepted a token of nobody; the request is refused");
                Err(self.refuse(
                    StatusCode::UNAUTHORIZED,
                    Some(("invalid_token", "the token names nobody")),
                    &self.rules.base,
                ))
            }
            Ok(principal) => match self.rules.check(principal.scopes(), &Scopes::new()) {
                Ok(()) => Ok(principal),
                Err(needed) => Err(Box::new(self.insufficient_scope(&needed))),
            },
            Err(Rejection::Invalid(reason)) => {
                tracing::debug!(%reason, "a token was refused");
                Err(self.refuse(StatusCode::UNAUTHORIZED, Some(("invalid_token", &reason)), &self.rules.base))
            }
            Err(Rejection::Unavailable(reason)) => {
                tracing::warn!(%reason, "a token could not be verified");
                let mut response = empty_response(StatusCode::SERVICE_UNAVAILABLE);
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
                Err(Box::new(response))
            }
        }
    }

    /// Returns the response to a request whose token lacks scopes.
    pub(super) fn insufficient_scope(&self, needed: &Scopes) -> HttpResponse {
        let error = ("insufficient_scope", "the token does not have all scopes that this request needs");
        *self.refuse(StatusCode::FORBIDDEN, Some(error), needed)
    }

    /// Returns a response with a challenge: what is wrong, where the metadata is, and which scopes are needed.
    fn refuse(&self, status: StatusCode, error: Option<(&str, &str)>, scopes: &Scopes) -> Box<HttpResponse> {
        let mut challenge = Challenge::bearer();
        if let Some((code, description)) = error {
            challenge = challenge.with("error", code).with("error_description", description);
        }
        if !scopes.is_empty() {
            challenge = challenge.with("scope", scopes.to_string());
        }
        Box::new(challenged(status, &challenge.with("resource_metadata", &self.metadata_url)))
    }

    /// Returns the response to a request for the metadata. It is public: pages of every origin may read it.
    pub(super) fn metadata(&self) -> HttpResponse {
        let mut response = json_response(StatusCode::OK, self.metadata.clone());
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(METADATA_CACHE));
        response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        response
    }

    /// Returns true if a path is one of the places of the metadata: with the path of the resource, or at the root.
    pub(super) fn is_metadata_path(&self, path: &str) -> bool {
        let places = well_known::resource_metadata(&self.resource).unwrap_or_default();
        places.iter().any(|place| well_known::split(place).is_some_and(|(_, known)| known == path))
    }
}

/// Returns the response to a request whose principal lacks scopes, for a service without a protection of its own.
pub(super) fn insufficient_scope(needed: &Scopes) -> HttpResponse {
    let challenge = Challenge::bearer().with("error", "insufficient_scope").with("scope", needed.to_string());
    challenged(StatusCode::FORBIDDEN, &challenge)
}

fn challenged(status: StatusCode, challenge: &Challenge) -> HttpResponse {
    let mut response = empty_response(status);
    if let Ok(challenge) = HeaderValue::from_str(&challenge.to_string()) {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response
}

/// Returns the bearer token of a request. `None` if there is none; an error if the header is not well-formed.
fn token_of(headers: &HeaderMap) -> Result<Option<&str>, &'static str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err("the header Authorization occurs twice");
    }
    let Ok(text) = value.to_str() else { return Err("the header Authorization is not ASCII") };
    let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Ok(None);
    }
    let token = token.trim_matches(' ');
    let body = token.trim_end_matches('=');
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    if body.is_empty() || !body.bytes().all(is_part) {
        return Err("the header Authorization contains no valid bearer token");
    }
    if token.len() > MAX_TOKEN_BYTES {
        return Err("the token is too long");
    }
    Ok(Some(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bearer_token_is_read_from_one_well_formed_header() {
        let read = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, HeaderValue::from_bytes(value.as_bytes()).unwrap());
            }
            token_of(&headers).map(|token| token.map(str::to_owned)).map_err(str::len).map_err(|_| ())
        };
        for (value, token) in
            [("Bearer abc", "abc"), ("bearer  a.b-c_~+/== ", "a.b-c_~+/=="), ("BEARER x", "x")]
        {
            assert_eq!(read(&[value]), Ok(Some(token.to_owned())), "{value}");
        }
        for value in ["Basic YTpi", "DPoP abc", "", "Bearerabc"] {
            assert_eq!(read(&[value]), Ok(None), "{value}");
        }
        for value in
            ["Bearer", "Bearer ", "Bearer a b", "Bearer a,b", "Bearer =", "Bearer a=b", "Bearer \u{e4}"]
        {
            assert_eq!(read(&[value]), Err(()), "{value}");
        }
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&["Bearer a", "Bearer a"]), Err(()));
        assert_eq!(read(&[&format!("Bearer {}", "a".repeat(MAX_TOKEN_BYTES + 1))]), Err(()));
        assert!(read(&[&format!("Bearer {}", "a".repeat(MAX_TOKEN_BYTES))]).is_ok());
    }
}
