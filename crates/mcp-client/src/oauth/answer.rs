//! Responses of authorization servers as they should have been: some servers deviate from RFC 6749.
//!
//! | deviation | seen at |
//! |---|---|
//! | an error with status 200 | GitHub |
//! | `bad_refresh_token` and `incorrect_client_credentials` instead of the codes of RFC 6749 | GitHub |
//! | a form instead of JSON | GitHub |
//! | `expires_in` and `interval` as text or with a fraction | several |
//! | `scope` as a list, or with commas | GitHub and others |
//! | no `token_type` | several |
//! | status 201 for a token | several |

use std::time::Duration;

use serde_json::{Map, Number, Value};

use super::endpoint::OAuthResponse;
use super::error::OAuthError;

/// The members of a response.
pub(super) type ResponseMembers = Map<String, Value>;

/// Returns the members of a successful response, as RFC 6749 and RFC 8628 define them.
pub(super) fn members(endpoint: &str, response: &OAuthResponse) -> Result<ResponseMembers, OAuthError> {
    let unusable = |problem: String| OAuthError::Unreachable {
        endpoint: crate::config::server_config::shown_url(endpoint),
        problem,
    };
    let status = response.status;
    let is_form = response.media_type.as_deref() == Some("application/x-www-form-urlencoded");
    let parsed = if is_form {
        Some(
            url::form_urlencoded::parse(&response.body)
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    } else {
        serde_json::from_slice::<ResponseMembers>(&response.body).ok()
    };
    // The body is not shown: it may contain tokens.
    let Some(mut members) = parsed else {
        return Err(unusable(format!("HTTP status {status} with a body that is not JSON")));
    };
    for name in ["expires_in", "interval"] {
        if let Some(seconds) = members.get(name).and_then(whole_seconds) {
            members.insert(name.to_owned(), Value::Number(Number::from(seconds)));
        } else {
            members.remove(name);
        }
    }
    if let Some(code) = members.get("error").and_then(Value::as_str) {
        // A server that is overloaded or broken may say anything in its error, or say so.
        if status >= 500 || status == 429 || matches!(code, "temporarily_unavailable" | "server_error") {
            return Err(unusable(format!("HTTP status {status}")));
        }
        let description = members.get("error_description").and_then(Value::as_str).map(str::to_owned);
        let interval = members.get("interval").and_then(Value::as_u64).map(Duration::from_secs);
        return Err(OAuthError::Refused { code: standard_code(code).to_owned(), description, interval });
    }
    if !(200..300).contains(&status) {
        return Err(unusable(format!("HTTP status {status} without an OAuth error")));
    }
    if let Some(scope) = members.get("scope").and_then(scope_text) {
        members.insert("scope".to_owned(), Value::String(scope));
    } else {
        members.remove("scope");
    }
    if members.contains_key("access_token") && !members.get("token_type").is_some_and(Value::is_string) {
        members.insert("token_type".to_owned(), Value::String("Bearer".to_owned()));
    }
    Ok(members)
}

/// Returns the code of RFC 6749 for an error.
fn standard_code(code: &str) -> &str {
    match code {
        "bad_refresh_token" => "invalid_grant",
        "incorrect_client_credentials" => "invalid_client",
        other => other,
    }
}

/// Returns a duration in whole seconds, given as a number or as text. Negative and huge values are ignored.
fn whole_seconds(value: &Value) -> Option<u64> {
    const MAX_SECONDS: f64 = 1e12;
    let seconds = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    // The range makes the conversion exact enough.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1e12")]
    (0.0..=MAX_SECONDS).contains(&seconds).then_some(seconds as u64)
}

/// Returns scopes separated by single spaces. `None` if there are none.
fn scope_text(value: &Value) -> Option<String> {
    let scopes: Vec<&str> = match value {
        Value::String(text) => text.split([' ', ',']).filter(|scope| !scope.is_empty()).collect(),
        Value::Array(scopes) => {
            scopes.iter().filter_map(Value::as_str).filter(|scope| !scope.is_empty()).collect()
        }
        _ => return None,
    };
    (!scopes.is_empty()).then(|| scopes.join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn response(status: u16, media_type: &str, body: &str) -> OAuthResponse {
        OAuthResponse {
            status,
            media_type: Some(media_type.to_owned()),
            headers: http::HeaderMap::new(),
            body: body.as_bytes().to_vec(),
        }
    }

    fn read(status: u16, media_type: &str, body: &str) -> Result<Value, OAuthError> {
        members("https://as.example/token?secret", &response(status, media_type, body)).map(Value::Object)
    }

    #[test]
    fn deviating_token_responses_are_read() {
        let expected =
            json!({"access_token": "t", "token_type": "Bearer", "expires_in": 3600, "scope": "a b"});
        for (status, media_type, body) in [
            (
                200,
                "application/json",
                r#"{"access_token":"t","token_type":"Bearer","expires_in":3600,"scope":"a b"}"#,
            ),
            (201, "text/json", r#"{"access_token":"t","expires_in":"3600","scope":["a","b"]}"#),
            (
                200,
                "text/plain",
                r#"{"access_token":"t","token_type":null,"expires_in":3600.0,"scope":"a,b"}"#,
            ),
            (
                200,
                "application/x-www-form-urlencoded",
                "access_token=t&token_type=Bearer&expires_in=3600&scope=a%2Cb",
            ),
        ] {
            assert_eq!(read(status, media_type, body).unwrap(), expected, "{body}");
        }
        let odd = read(
            200,
            "application/json",
            r#"{"access_token":"t","expires_in":-1,"scope":"","interval":"x"}"#,
        );
        assert_eq!(odd.unwrap(), json!({"access_token": "t", "token_type": "Bearer"}));
    }

    #[test]
    fn errors_are_found_whatever_the_status() {
        for (status, media_type, body) in [
            (400, "application/json", r#"{"error":"slow_down","error_description":"too fast"}"#),
            (200, "application/json", r#"{"error":"slow_down","error_description":"too fast"}"#),
            (200, "application/x-www-form-urlencoded", "error=slow_down&error_description=too+fast"),
        ] {
            let error = read(status, media_type, body).unwrap_err();
            assert!(error.is_code("slow_down"), "{error}");
            assert_eq!(error.to_string(), "the authorization server refused: slow_down (too fast)");
        }
    }

    #[test]
    fn codes_of_github_become_those_of_the_standard() {
        for (code, standard) in
            [("bad_refresh_token", "invalid_grant"), ("incorrect_client_credentials", "invalid_client")]
        {
            let error = read(200, "application/json", &format!(r#"{{"error":"{code}"}}"#)).unwrap_err();
            assert!(error.is_code(standard), "{error}");
        }
    }

    #[test]
    fn response_that_is_not_oauth_is_unreachable_and_not_quoted() {
        for (status, body) in [
            (200, "<html>access_token=hush</html>"),
            (200, "[1]"),
            (502, r#"{"error":"invalid_grant"}"#),
            (429, r#"{"error":"invalid_grant"}"#),
            (400, r#"{"error":"server_error"}"#),
            (200, r#"{"error":"temporarily_unavailable"}"#),
            (404, r#"{"message":"hush"}"#),
            (500, ""),
        ] {
            let error = read(status, "application/json", body).unwrap_err();
            assert!(matches!(error, OAuthError::Unreachable { .. }) && error.is_retry_safe(), "{error}");
            assert!(!format!("{error} {error:?}").contains("hush"), "{error:?}");
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
    }
}
