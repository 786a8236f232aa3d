//! The identity of the program at authorization servers: who gets to see it, and when it is replaced.

use super::*;

#[tokio::test]
async fn secret_of_a_service_is_not_shown_to_another_issuer() {
    let evil: Scripted =
        (200, r#"{"resource":"https://mcp.example/mcp","authorization_servers":["https://evil.example"]}"#);
    let evil_metadata: Scripted =
        (200, r#"{"issuer":"https://evil.example","token_endpoint":"https://evil.example/token"}"#);
    for second in [vec![REFUSED, evil, evil_metadata], vec![REFUSED, NONE, NONE, NONE, NONE]] {
        let first = [REFUSED, RESOURCE, METADATA, TOKEN];
        let script = Script::new(&[&first[..], &second].concat());
        let credentials = Credentials::in_memory().network(&Network::new().client(script.clone()));
        let options = OAuthOptions::discover().client_id("bot").secret("the-secret").for_service();
        let source = credentials.token_source(&ServerConfig::url(SERVER).oauth(options)).unwrap();
        let token = source.token().await.unwrap();
        source.token_after_refusal(&token).await.map(drop).unwrap_err();
        let requests = script.requests();
        assert_eq!(requests.len(), first.len() + second.len());
        assert!(
            !requests[first.len()..].iter().any(|request| request.contains("the-secret")),
            "{requests:?}"
        );
        assert!(!requests[first.len()..].iter().any(|request| request.contains("/token")), "{requests:?}");
    }
}

#[tokio::test]
async fn configured_client_is_not_shown_to_another_issuer() {
    let store = MemoryStore::default();
    let options = || OAuthOptions::discover().client_id("known").secret("the-secret");
    log_in(options(), &store, &[REFUSED, RESOURCE, METADATA, TOKEN], GOOD).await.status.unwrap();
    let evil: Scripted =
        (200, r#"{"resource":"https://mcp.example/mcp","authorization_servers":["https://evil.example"]}"#);
    let evil_metadata: Scripted = (
        200,
        r#"{"issuer":"https://evil.example","authorization_endpoint":"https://evil.example/a","token_endpoint":"https://evil.example/token","code_challenge_methods_supported":["S256"]}"#,
    );
    let again = log_in(options(), &store, &[REFUSED, evil, evil_metadata], GOOD).await;
    let error = again.status.unwrap_err().to_string();
    assert!(error.contains("another authorization server") && again.prompts.is_empty(), "{error}");
}

const DEVICE_METADATA: Scripted = (
    200,
    r#"{"issuer":"https://as.example/t1","device_authorization_endpoint":"https://as.example/device","token_endpoint":"https://as.example/token","registration_endpoint":"https://as.example/reg"}"#,
);

#[tokio::test]
async fn registration_that_is_not_known_any_more_is_replaced() {
    let store = MemoryStore::default();
    let unknown: Scripted = (401, r#"{"error":"invalid_client"}"#);
    for responses in [
        vec![REFUSED, RESOURCE, DEVICE_METADATA, REGISTERED, unknown],
        // Not kept: registered again.
        vec![REFUSED, RESOURCE, DEVICE_METADATA, REGISTERED, unknown],
    ] {
        let login = log_in(OAuthOptions::discover(), &store, &responses, GOOD).await;
        assert!(login.status.unwrap_err().is_code("invalid_client"));
        assert_eq!(urls(&login.requests)[3..], ["https://as.example/reg", "https://as.example/device"]);
    }
}

#[tokio::test(start_paused = true)]
async fn registration_from_which_nobody_returns_is_replaced() {
    let store = MemoryStore::default();
    let login = async |responses: &[Scripted], port: Option<u16>| {
        let script = Script::new(responses);
        let credentials = Credentials::of(store.clone()).network(&Network::new().client(script.clone()));
        let mut options = OAuthOptions::discover().opens_browser(false);
        if let Some(port) = port {
            options = options.callback_port(port);
        }
        let status = credentials.login(&ServerConfig::url(SERVER).oauth(options), async |_| {}).await;
        assert!(matches!(status, Err(OAuthError::Expired)), "{status:?}");
        urls(&script.requests()).contains(&"https://as.example/reg")
    };
    let (new, kept) = ([REFUSED, RESOURCE, METADATA, REGISTERED], [REFUSED, RESOURCE, METADATA]);
    // A new registration may only have waited for a slow user; a stored one may be dead.
    assert!(login(&new, None).await);
    assert!(!login(&kept, None).await);
    assert!(login(&new, None).await);
    // One for another port is not that of this program.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    assert!(login(&new, Some(port)).await);
    assert!(!login(&kept, Some(port)).await);
}

#[tokio::test]
async fn expired_registration_is_replaced() {
    let store = MemoryStore::default();
    let expired: Scripted = (201, r#"{"client_id":"c1","client_secret":"s","client_secret_expires_at":1}"#);
    for _ in 0..2 {
        let responses = [REFUSED, RESOURCE, METADATA, expired, TOKEN];
        log_in(OAuthOptions::discover(), &store, &responses, GOOD).await.status.unwrap();
    }
}

#[tokio::test]
async fn page_on_this_machine_is_not_opened_for_a_server_elsewhere() {
    for page in ["http://127.0.0.1:8080/do?x", "http://localhost/do", "https://[::1]/do"] {
        let metadata = format!(
            r#"{{"issuer":"https://as.example/t1","authorization_endpoint":"{page}","token_endpoint":"https://as.example/token","code_challenge_methods_supported":["S256"]}}"#
        );
        let responses = [REFUSED, RESOURCE, (200, &*metadata.leak())];
        let login =
            log_in(OAuthOptions::discover().client_id("id"), &MemoryStore::default(), &responses, GOOD).await;
        let error = login.status.unwrap_err().to_string();
        assert!(error.contains("is on this machine") && login.prompts.is_empty(), "{error}");
    }
}
