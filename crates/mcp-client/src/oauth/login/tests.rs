use std::sync::Mutex;

use super::*;
use crate::ServerConfig;
use crate::credentials::{Dialog, MemoryStore, TokenStore};
use crate::http::Network;
use crate::oauth::scripted::{Script, Scripted};
use crate::oauth::{Credentials, LoginStatus, OAuthOptions};

fn config(options: &OAuthOptions) -> ServerConfig {
    ServerConfig::url("https://mcp.example/mcp").oauth(options.clone()).into()
}

/// Logs in, and returns the result, the prompts and the seconds between the requests.
async fn log_in(
    options: &OAuthOptions,
    responses: &[Scripted],
) -> (Result<LoginStatus, OAuthError>, Vec<LoginPrompt>, Vec<u64>, Vec<String>) {
    let script = Script::new(responses);
    let credentials = Credentials::in_memory().network(&Network::new().client(script.clone()));
    let prompts = Mutex::new(Vec::new());
    let status =
        credentials.login(&config(options), async |prompt| prompts.lock().unwrap().push(prompt)).await;
    let times = script.times();
    let pauses = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect();
    (status, prompts.into_inner().unwrap(), pauses, script.requests())
}

const TOKEN: Scripted = (200, r#"{"access_token":"t","token_type":"bearer"}"#);

#[tokio::test(start_paused = true)]
async fn github_answers_with_forms_and_errors_with_status_200() {
    let (status, prompts, pauses, requests) = log_in(
        &OAuthOptions::github("Iv1").scopes(["repo", "read:org"]),
        &[
            (200, "device_code=d&user_code=WDJB-MJHT&verification_uri=https%3A%2F%2Fgithub.com%2Flogin%2Fdevice&expires_in=899&interval=5"),
            (200, "error=authorization_pending&error_description=x"),
            (200, "error=slow_down&error_description=x&interval=25"),
            (200, "access_token=t&scope=repo%2Cread%3Aorg&token_type=bearer"),
        ],
    )
    .await;
    let status = status.unwrap();
    assert_eq!(
        (status.scopes, status.expires_at, status.can_refresh),
        (vec!["repo".into(), "read:org".into()], None, false)
    );
    assert_eq!(pauses, [5, 5, 25]);
    let [LoginPrompt::DeviceCode { url, code, .. }] = &prompts[..] else { panic!("{prompts:?}") };
    assert_eq!((url.as_str(), code.as_str()), ("https://github.com/login/device", "WDJB-MJHT"));
    assert!(
        requests[0].contains("client_id=Iv1") && requests[0].contains("scope=repo+read%3Aorg"),
        "{requests:?}"
    );
    let urls = ["https://github.com/login/device/code", "https://github.com/login/oauth/access_token"];
    for (request, url) in requests.iter().zip(urls) {
        // Without this header, GitHub would answer with a form.
        assert!(request.starts_with(&format!("POST {url} application/json ")), "{request}");
    }
    // GitHub does not know the parameter.
    assert!(!requests.iter().any(|request| request.contains("resource=")), "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn google_gets_the_client_secret_in_the_form() {
    let (status, _, pauses, requests) = log_in(
        &OAuthOptions::google("id", "s-123").scopes(["email"]),
        &[
            (200, r#"{"device_code":"d","user_code":"c","verification_url":"https://www.google.com/device","expires_in":1800,"interval":5}"#),
            (428, r#"{"error":"authorization_pending","error_description":"Precondition Required"}"#),
            (403, r#"{"error":"slow_down","error_description":"Forbidden"}"#),
            TOKEN,
        ],
    )
    .await;
    status.unwrap();
    assert_eq!(pauses, [5, 5, 10]);
    assert!(requests[1].contains("client_secret=s-123"), "{requests:?}");
    assert!(requests[0].starts_with("POST https://oauth2.googleapis.com/device/code "), "{requests:?}");
    assert!(requests[1].starts_with("POST https://oauth2.googleapis.com/token "), "{requests:?}");
}

fn issuer() -> OAuthOptions {
    OAuthOptions::issuer("https://as.example", "client")
}

const METADATA: Scripted = (
    200,
    r#"{"issuer":"https://as.example","token_endpoint":"https://as.example/token","device_authorization_endpoint":"https://as.example/device"}"#,
);
const CODES: Scripted =
    (200, r#"{"device_code":"d","user_code":"c","verification_uri":"https://as.example/d","expires_in":60}"#);

#[tokio::test(start_paused = true)]
async fn transient_failures_and_slow_down_do_not_end_a_login() {
    let (status, _, pauses, _) = log_in(
        &issuer(),
        &[METADATA, CODES, (0, ""), (502, "<html>"), (400, r#"{"error":"authorization_pending"}"#), TOKEN],
    )
    .await;
    status.unwrap();
    assert_eq!(pauses, [0, 5, 10, 20, 5]);
}

#[tokio::test(start_paused = true)]
async fn device_login_ends_with_each_final_error() {
    for (response, text) in [
        (r#"{"error":"access_denied"}"#, "the user refused the login"),
        (r#"{"error":"expired_token"}"#, "the user did not log in in time; log in again"),
        (r#"{"error":"invalid_scope"}"#, "the authorization server refused: invalid_scope"),
    ] {
        let (status, ..) = log_in(&issuer(), &[METADATA, CODES, (400, response)]).await;
        assert_eq!(status.unwrap_err().to_string(), text);
    }
    // Nobody acts.
    let pending = [(400, r#"{"error":"authorization_pending"}"#); 11];
    let (status, _, pauses, _) = log_in(&issuer(), &[&[METADATA, CODES][..], &pending].concat()).await;
    assert!(matches!(status.unwrap_err(), OAuthError::Expired));
    assert!(pauses.iter().sum::<u64>() < 60, "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn pages_with_other_schemes_are_not_shown() {
    for url in ["javascript:alert(1)", "file:///etc/passwd", "http://as.example/d"] {
        let codes =
            format!(r#"{{"device_code":"d","user_code":"c","verification_uri":"{url}","expires_in":60}}"#);
        let (status, prompts, ..) = log_in(&issuer(), &[METADATA, (200, codes.leak())]).await;
        assert!(
            matches!(status, Err(OAuthError::Metadata { .. } | OAuthError::Unreachable { .. })),
            "{status:?}"
        );
        assert!(prompts.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn missing_endpoints_and_settings_are_named() {
    let no_device = (200, r#"{"issuer":"https://as.example","token_endpoint":"https://as.example/token"}"#);
    let other_issuer =
        (200, r#"{"issuer":"https://evil.example","token_endpoint":"https://as.example/token"}"#);
    let service = OAuthOptions::client_credentials("https://as.example", "id");
    for (options, responses, part) in [
        (issuer(), vec![no_device], "supports neither logins with a browser (`authorization_endpoint`"),
        (issuer(), vec![(200, r#"{"issuer":"https://as.example"}"#)], "no `token_endpoint`"),
        (issuer(), vec![other_issuer], "names another issuer: `https://evil.example`"),
        (issuer(), vec![(404, "<html>"), (404, "<html>")], "HTTP status 404"),
        (service.clone(), vec![], "a client secret or a private key"),
        (service.secret_env("MCP_TESTS_NO_SUCH_VARIABLE"), vec![], "MCP_TESTS_NO_SUCH_VARIABLE"),
        (OAuthOptions::issuer("https://as.example", ""), vec![], "client id is missing"),
        (OAuthOptions::issuer("http://as.example", "id"), vec![], "needs HTTPS"),
    ] {
        let (status, ..) = log_in(&options, &responses).await;
        let error = status.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn login_by_another_process_ends_the_wait() {
    let pending = [(400, r#"{"error":"authorization_pending"}"#); 4];
    let script = Script::new(&[&[METADATA, CODES][..], &pending].concat());
    let store = MemoryStore::default();
    let credentials = Credentials::of(store.clone()).network(&Network::new().client(script));
    let config = config(&issuer());
    let (status, ()) = tokio::join!(credentials.login(&config, async |_| {}), async {
        tokio::time::sleep(std::time::Duration::from_secs(12)).await;
        let mut stored = crate::oauth::credential::tests::credential();
        stored.details.lifetime = None;
        let stored = stored.to_stored();
        let key = LoginServer::of(&config).unwrap().credential_key();
        store.save(&key, &stored, Dialog::Allowed).await.unwrap();
    });
    assert_eq!(status.unwrap().scopes, ["read"]);
    assert!(credentials.token_source(&config).unwrap().token().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn custom_provider_is_found_by_the_metadata_at_its_origin() {
    let custom = |token: &str| {
        OAuthOptions::from(crate::OAuthConfig {
            provider: crate::OAuthProvider::Custom {
                auth_url: "https://as.example/authorize".to_owned(),
                token_url: token.to_owned(),
            },
            client_id: "client".to_owned(),
            scopes: Vec::new(),
            token_storage: crate::TokenStorage::Memory,
        })
    };
    let (status, prompts, _, requests) =
        log_in(&custom("https://as.example/token"), &[METADATA, CODES, TOKEN]).await;
    assert_eq!(status.unwrap().issuer, "https://as.example/token");
    assert_eq!((prompts.len(), requests.len()), (1, 3));
    let (status, ..) = log_in(&custom("https://as.example/other"), &[METADATA]).await;
    let error = status.unwrap_err().to_string();
    assert!(error.contains("the `token_endpoint` of https://as.example/.well-known"), "{error}");
}

#[test]
fn logins_can_run_on_any_thread() {
    fn assert_send(_: impl Send) {}
    let (credentials, config) = (Credentials::in_memory(), config(&issuer()));
    assert_send(credentials.login(&config, async |_| {}));
    assert_send(credentials.logout(&config));
    assert_send(credentials.status(&config));
}

#[tokio::test(start_paused = true)]
async fn revocation_succeeds_whatever_the_body_is() {
    const METADATA: Scripted = (
        200,
        r#"{"issuer":"https://as.example","token_endpoint":"https://as.example/token","revocation_endpoint":"https://as.example/revoke"}"#,
    );
    let service = OAuthOptions::client_credentials("https://as.example", "id").secret("s-123");
    for (response, is_revoked) in [
        ((200, ""), true),
        ((200, "<html>OK</html>"), true),
        ((204, ""), true),
        ((503, ""), false),
        ((400, r#"{"error":"unsupported_token_type"}"#), false),
    ] {
        let script = Script::new(&[METADATA, TOKEN, response]);
        let credentials = Credentials::in_memory().network(&Network::new().client(script.clone()));
        let service = config(&service);
        credentials.login(&service, |_| async {}).await.unwrap();
        let report = credentials.logout(&service).await.unwrap();
        assert_eq!((report.was_logged_in, report.is_revoked), (true, is_revoked), "{response:?} {report:?}");
        assert_eq!(report.revocation_error.is_some(), response.0 == 503, "{report:?}");
        assert!(script.requests()[2].contains("token=t&"), "{:?}", script.requests());
    }
}

#[tokio::test(start_paused = true)]
async fn prompt_names_the_time_for_which_the_client_polls() {
    for (expires_in, shown) in [("60", 60), ("7200", 1800), ("1e300", 0)] {
        let codes = format!(
            r#"{{"device_code":"d","user_code":"c","verification_uri":"https://as.example/d","expires_in":{expires_in}}}"#
        );
        let (status, prompts, ..) = log_in(&issuer(), &[METADATA, (200, codes.leak()), TOKEN]).await;
        let Some(LoginPrompt::DeviceCode { expires_in, .. }) = prompts.first() else {
            assert!(shown == 0 && status.is_err(), "{status:?}");
            continue;
        };
        assert_eq!(expires_in.as_secs(), shown);
    }
}

#[tokio::test(start_paused = true)]
async fn corrected_secret_is_used_at_once() {
    let refused = (401, r#"{"error":"invalid_client"}"#);
    let script = Script::new(&[METADATA, refused, METADATA, TOKEN]);
    let credentials = Credentials::in_memory().network(&Network::new().client(script.clone()));
    let service = OAuthOptions::client_credentials("https://as.example", "id");
    let token = async |secret: &str| {
        let config = config(&service.clone().secret(secret));
        credentials.token_source(&config).unwrap().token().await
    };
    let error = token("wrong").await.unwrap_err();
    assert!(matches!(error, OAuthError::LoginNeeded(_)), "{error}");
    assert_eq!(token("right").await.unwrap().access_token().expose(), "t");
    assert_eq!(token("right").await.unwrap().access_token().expose(), "t");
    assert_eq!(script.requests().len(), 4, "there is one source for the same options");
}
