mod clients;

use std::sync::Mutex;

use super::*;
use crate::ServerConfig;
use crate::credentials::MemoryStore;
use crate::http::Network;
use crate::oauth::scripted::{Script, Scripted};
use crate::oauth::{Credentials, LoginMethod, LoginPrompt, LoginStatus, OAuthOptions};

const SERVER: &str = "https://mcp.example/mcp";
/// The probe of the MCP server. The script sends no challenge.
const REFUSED: Scripted = (401, "{}");
const NONE: Scripted = (404, "<html>");
const RESOURCE: Scripted = (
    200,
    r#"{"resource":"https://mcp.example","authorization_servers":["https://as.example/t1"],"scopes_supported":["read","write"]}"#,
);
const METADATA: Scripted = (
    200,
    r#"{"issuer":"https://as.example/t1","authorization_endpoint":"https://as.example/auth?x=1","token_endpoint":"https://as.example/token","registration_endpoint":"https://as.example/reg","code_challenge_methods_supported":["plain","S256"],"authorization_response_iss_parameter_supported":true}"#,
);
const REGISTERED: Scripted =
    (201, r#"{"client_id":"c1","client_secret":"","token_endpoint_auth_method":"none"}"#);
const TOKEN: Scripted = (200, r#"{"access_token":"t","token_type":"bearer","refresh_token":"r"}"#);

struct LoggedIn {
    status: Result<LoginStatus, OAuthError>,
    prompts: Vec<LoginPrompt>,
    requests: Vec<String>,
}

/// Logs in, as a user whose browser comes back with these parameters besides the state.
async fn log_in(
    options: OAuthOptions,
    store: &MemoryStore,
    responses: &[Scripted],
    redirect: &str,
) -> LoggedIn {
    let script = Script::new(responses);
    let credentials = Credentials::of(store.clone()).network(&Network::new().client(script.clone()));
    let prompts = Mutex::new(Vec::new());
    let config = ServerConfig::url(SERVER).oauth(options.opens_browser(false));
    let status = credentials
        .login(&config, async |prompt| {
            prompts.lock().unwrap().push(prompt.clone());
            if let LoginPrompt::Browser { url, pasted, .. } = prompt {
                let state = parameter(&url, "state").unwrap();
                pasted.send(format!("{redirect}&state={state}")).await;
            }
        })
        .await;
    LoggedIn { status, prompts: prompts.into_inner().unwrap(), requests: script.requests() }
}

fn parameter(url: &str, name: &str) -> Option<String> {
    let url = url::Url::parse(url).unwrap();
    url.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
}

/// Returns the URLs of the requests.
fn urls(requests: &[String]) -> Vec<&str> {
    requests.iter().map(|request| request.split(' ').nth(1).unwrap()).collect()
}

const GOOD: &str = "code=secret-code&iss=https%3A%2F%2Fas.example%2Ft1";

#[tokio::test]
async fn everything_is_found_out_and_the_user_logs_in_with_a_browser() {
    let store = MemoryStore::default();
    let options = || OAuthOptions::discover().client_name("Notes CLI");
    let responses = [REFUSED, NONE, RESOURCE, NONE, METADATA, REGISTERED, TOKEN];
    let LoggedIn { status, prompts, requests } = log_in(options(), &store, &responses, GOOD).await;
    let status = status.unwrap();
    assert_eq!((status.issuer.as_str(), status.client_id.as_str()), ("https://as.example/t1", "c1"));
    assert_eq!(
        urls(&requests),
        [
            SERVER,
            "https://mcp.example/.well-known/oauth-protected-resource/mcp",
            "https://mcp.example/.well-known/oauth-protected-resource",
            "https://as.example/.well-known/oauth-authorization-server/t1",
            "https://as.example/.well-known/openid-configuration/t1",
            "https://as.example/reg",
            "https://as.example/token",
        ]
    );
    let [LoginPrompt::Browser { url, issuer, is_opened, .. }] = &prompts[..] else { panic!("{prompts:?}") };
    assert_eq!((issuer.as_str(), *is_opened), ("https://as.example/t1", false));
    let redirect = parameter(url, "redirect_uri").unwrap();
    assert!(redirect.starts_with("http://127.0.0.1:") && redirect.ends_with("/callback"), "{redirect}");
    for (name, expected) in [
        ("x", "1"),
        ("response_type", "code"),
        ("client_id", "c1"),
        ("code_challenge_method", "S256"),
        ("resource", "https://mcp.example"),
        ("scope", "read write"),
    ] {
        assert_eq!(parameter(url, name).as_deref(), Some(expected), "{name}");
    }
    let registration: serde_json::Value = serde_json::from_str(
        requests[5].split_once(" {").map(|(_, json)| format!("{{{json}")).unwrap().as_str(),
    )
    .unwrap();
    assert_eq!(registration["redirect_uris"][0], redirect);
    assert_eq!(
        (&registration["application_type"], &registration["client_name"]),
        (&"native".into(), &"Notes CLI".into())
    );
    let form: Vec<(String, String)> =
        url::form_urlencoded::parse(requests[6].rsplit(' ').next().unwrap().as_bytes())
            .into_owned()
            .collect();
    let field = |name: &str| form.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let challenge = ring::digest::digest(&ring::digest::SHA256, field("code_verifier").unwrap().as_bytes());
    use base64::Engine as _;
    let challenge = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(challenge);
    assert_eq!(parameter(url, "code_challenge"), Some(challenge));
    assert_eq!((field("redirect_uri"), field("code")), (Some(redirect), Some("secret-code".to_owned())));
    assert_eq!(field("resource").as_deref(), Some("https://mcp.example"));
    let shown = format!("{prompts:?}");
    assert!(!shown.contains(&field("code_verifier").unwrap()), "{shown}");

    // The registration is kept, also for another port.
    let again = log_in(options(), &store, &[REFUSED, NONE, RESOURCE, METADATA, TOKEN], GOOD).await;
    again.status.unwrap();
    assert!(!urls(&again.requests).contains(&"https://as.example/reg"));
}

#[tokio::test]
async fn lying_metadata_ends_the_login_before_anything_is_shown() {
    let resource = |text: &'static str| (200, text);
    let other = "is the metadata of another server";
    for (responses, problem) in [
        (
            vec![
                REFUSED,
                resource(
                    r#"{"resource":"https://evil.example/mcp","authorization_servers":["https://as.example"]}"#,
                ),
            ],
            other,
        ),
        (
            vec![
                REFUSED,
                resource(
                    r#"{"resource":"https://mcp.example/mcp2","authorization_servers":["https://as.example"]}"#,
                ),
            ],
            other,
        ),
        (
            vec![REFUSED, resource(r#"{"resource":"https://mcp.example/mcp"}"#)],
            "names no authorization server",
        ),
        (vec![REFUSED, resource("{}")], "is not a metadata document"),
        (
            vec![
                REFUSED,
                RESOURCE,
                (200, r#"{"issuer":"https://as.example/t1/","token_endpoint":"https://as.example/token"}"#),
            ],
            "names another issuer: `https://as.example/t1/`",
        ),
        (
            vec![
                REFUSED,
                resource(
                    r#"{"resource":"https://mcp.example/mcp","authorization_servers":["javascript:alert(1)"]}"#,
                ),
            ],
            "javascript",
        ),
        (
            vec![
                REFUSED,
                resource(
                    r#"{"resource":"https://mcp.example/mcp","authorization_servers":["http://as.example"]}"#,
                ),
            ],
            "needs HTTPS",
        ),
        (
            vec![
                REFUSED,
                resource(
                    r#"{"resource":"https://mcp.example/mcp","authorization_servers":["https://as.example/?x"]}"#,
                ),
            ],
            "no query",
        ),
        // PKCE with `plain` only.
        (
            vec![
                REFUSED,
                RESOURCE,
                (
                    200,
                    r#"{"issuer":"https://as.example/t1","authorization_endpoint":"https://as.example/a","token_endpoint":"https://as.example/token","code_challenge_methods_supported":["plain"]}"#,
                ),
            ],
            "S256",
        ),
        // No registration, and no client id.
        (
            vec![
                REFUSED,
                RESOURCE,
                (
                    200,
                    r#"{"issuer":"https://as.example/t1","authorization_endpoint":"https://as.example/a","token_endpoint":"https://as.example/token","code_challenge_methods_supported":["S256"]}"#,
                ),
            ],
            "registration_endpoint",
        ),
        (vec![REFUSED, RESOURCE, (503, "<html>")], "HTTP status 503"),
    ] {
        let LoggedIn { status, prompts, requests } =
            log_in(OAuthOptions::discover(), &MemoryStore::default(), &responses, GOOD).await;
        let error = status.unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
        assert!(prompts.is_empty() && requests.len() == responses.len(), "{requests:?}");
    }
    for endpoint in ["javascript:alert(1)", "http://as.example/a", "myapp://x", "file:///etc/passwd"] {
        let metadata = format!(
            r#"{{"issuer":"https://as.example/t1","authorization_endpoint":"{endpoint}","token_endpoint":"https://as.example/token","code_challenge_methods_supported":["S256"]}}"#
        );
        let responses = [REFUSED, RESOURCE, (200, &*metadata.leak())];
        let login =
            log_in(OAuthOptions::discover().client_id("id"), &MemoryStore::default(), &responses, GOOD).await;
        assert!(
            login.status.unwrap_err().to_string().contains("not safe to open") && login.prompts.is_empty()
        );
    }
}

#[tokio::test]
async fn private_addresses_are_refused_unless_they_are_allowed() {
    for place in ["https://10.0.0.1", "https://169.254.169.254", "https://localhost:1", "https://[::1]"] {
        let metadata =
            format!(r#"{{"resource":"https://mcp.example/mcp","authorization_servers":["{place}"]}}"#);
        let script = Script::new(&[REFUSED, (200, &*metadata.leak())]);
        let credentials = Credentials::in_memory().network(&Network::new().client(script.clone()));
        let config = ServerConfig::url(SERVER).oauth(OAuthOptions::discover());
        let error = credentials.login(&config, async |_| {}).await.unwrap_err();
        assert!(matches!(error, OAuthError::Denied { .. }), "{error}");
        assert!(error.to_string().contains("Credentials::network"), "{error}");
        assert_eq!(script.requests().len(), 2);
    }
}

#[tokio::test]
async fn response_of_another_issuer_redeems_no_code() {
    let responses = [REFUSED, NONE, RESOURCE, METADATA, REGISTERED];
    for redirect in
        ["code=c", "code=c&iss=https%3A%2F%2Fevil.example", "code=c&iss=https%3A%2F%2Fas.example%2Ft1%2F"]
    {
        let login = log_in(OAuthOptions::discover(), &MemoryStore::default(), &responses, redirect).await;
        assert!(matches!(login.status, Err(OAuthError::ForeignResponse)), "{redirect}");
        assert!(!urls(&login.requests).contains(&"https://as.example/token"));
    }
}

#[tokio::test]
async fn server_without_metadata_is_used_as_in_2025_03_26() {
    let responses = [REFUSED, NONE, NONE, NONE, NONE, REGISTERED, TOKEN];
    let login = log_in(OAuthOptions::discover(), &MemoryStore::default(), &responses, "code=c").await;
    assert_eq!(login.status.unwrap().issuer, "https://mcp.example");
    assert_eq!(
        urls(&login.requests)[3..],
        [
            "https://mcp.example/.well-known/oauth-authorization-server",
            "https://mcp.example/.well-known/openid-configuration",
            "https://mcp.example/register",
            "https://mcp.example/token",
        ]
    );
    let [LoginPrompt::Browser { url, .. }] = &login.prompts[..] else { panic!() };
    assert!(
        url.starts_with("https://mcp.example/authorize?") && url.contains("code_challenge_method=S256"),
        "{url}"
    );
}

#[tokio::test]
async fn client_document_is_the_client_id_where_it_is_supported() {
    let options = || OAuthOptions::discover().client_document("https://cli.example/client.json");
    let metadata: Scripted = (
        200,
        r#"{"issuer":"https://as.example/t1","authorization_endpoint":"https://as.example/a","token_endpoint":"https://as.example/token","registration_endpoint":"https://as.example/reg","code_challenge_methods_supported":["S256"],"client_id_metadata_document_supported":true}"#,
    );
    let login =
        log_in(options(), &MemoryStore::default(), &[REFUSED, RESOURCE, metadata, TOKEN], "code=c").await;
    assert_eq!(login.status.unwrap().client_id, "https://cli.example/client.json");
    let responses = [REFUSED, RESOURCE, METADATA, REGISTERED, TOKEN];
    let login = log_in(options(), &MemoryStore::default(), &responses, GOOD).await;
    assert_eq!(login.status.unwrap().client_id, "c1");
    let login = log_in(
        options().client_id("known"),
        &MemoryStore::default(),
        &[REFUSED, RESOURCE, METADATA, TOKEN],
        GOOD,
    )
    .await;
    assert_eq!(login.status.unwrap().client_id, "known");
    let login =
        log_in(OAuthOptions::discover().client_document("http://x"), &MemoryStore::default(), &[], GOOD)
            .await;
    assert!(login.status.unwrap_err().to_string().contains("must begin with https://"));
}

#[tokio::test]
async fn program_can_want_a_method() {
    let responses = [REFUSED, RESOURCE, METADATA];
    let login =
        log_in(OAuthOptions::discover().method(LoginMethod::Code), &MemoryStore::default(), &responses, GOOD)
            .await;
    assert!(login.status.unwrap_err().to_string().contains("device_authorization_endpoint"));
}

#[tokio::test(start_paused = true)]
async fn user_has_five_minutes_to_log_in() {
    let script = Script::new(&[REFUSED, RESOURCE, METADATA, REGISTERED]);
    let credentials = Credentials::in_memory().network(&Network::new().client(script));
    let config = ServerConfig::url(SERVER).oauth(OAuthOptions::discover().opens_browser(false));
    let began = tokio::time::Instant::now();
    let error = credentials.login(&config, async |_| {}).await.unwrap_err();
    assert!(matches!(error, OAuthError::Expired), "{error}");
    assert!((300..302).contains(&began.elapsed().as_secs()));
}
