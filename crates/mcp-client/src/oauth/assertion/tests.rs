use super::*;
use crate::ServerConfig;
use crate::http::Network;
use crate::oauth::scripted::{Script, Scripted};
use crate::oauth::{Credentials, TokenSource};

const REFUSED: Scripted = (401, "{}");
const RESOURCE: Scripted =
    (200, r#"{"resource":"https://mcp.example/mcp","authorization_servers":["https://as.example"]}"#);
const METADATA: Scripted =
    (200, r#"{"issuer":"https://as.example","token_endpoint":"https://as.example/token"}"#);
const TOKEN: Scripted = (200, r#"{"access_token":"t","token_type":"bearer"}"#);

fn source(options: OAuthOptions, responses: &[Scripted]) -> (TokenSource, Script) {
    let script = Script::new(&[&[REFUSED, RESOURCE, METADATA], responses].concat());
    let credentials = Credentials::in_memory().network(&Network::new().client(script.clone()));
    let config = ServerConfig::url("https://mcp.example/mcp").oauth(options.client_id("app"));
    (credentials.token_source(&config).unwrap(), script)
}

/// Returns the URL and the form of each token request.
fn forms(script: &Script) -> Vec<(String, Vec<(String, String)>)> {
    let read = |request: &String| {
        let (url, body) = (request.split(' ').nth(1).unwrap(), request.rsplit(' ').next().unwrap());
        (url.to_owned(), url::form_urlencoded::parse(body.as_bytes()).into_owned().collect())
    };
    script.requests()[3..].iter().map(read).collect()
}

fn field<'a>(form: &'a [(String, String)], name: &str) -> Option<&'a str> {
    form.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn company() -> OAuthOptions {
    let provider = IdentityProvider::new("https://idp.example/token", "app-at-idp", "the-id-token");
    OAuthOptions::discover().scopes(["notes:read"]).secret("the-secret").enterprise(provider)
}

#[tokio::test]
async fn id_token_goes_to_the_company_and_the_assertion_to_the_server() {
    let assertion: Scripted = (
        200,
        r#"{"issued_token_type":"urn:ietf:params:oauth:token-type:id-jag","access_token":"the-assertion","token_type":"N_A"}"#,
    );
    let (source, script) = source(company(), &[assertion, TOKEN]);
    assert_eq!(source.token().await.unwrap().access_token().expose(), "t");
    let forms = forms(&script);
    let [(idp, exchange), (server, request)] = &forms[..] else { panic!("{forms:?}") };
    assert_eq!((idp.as_str(), server.as_str()), ("https://idp.example/token", "https://as.example/token"));
    for (name, value) in [
        ("subject_token", "the-id-token"),
        ("audience", "https://as.example"),
        ("resource", "https://mcp.example/mcp"),
        ("client_id", "app-at-idp"),
        ("scope", "notes:read"),
    ] {
        assert_eq!(field(exchange, name), Some(value), "{name}");
    }
    assert_eq!(field(request, "assertion"), Some("the-assertion"));
    assert_eq!(field(request, "grant_type"), Some("urn:ietf:params:oauth:grant-type:jwt-bearer"));
    // The ID token stays at the company, and the secret of the server with the server.
    assert!(
        !format!("{request:?}").contains("the-id-token") && !format!("{exchange:?}").contains("the-secret")
    );
}

#[tokio::test]
async fn other_kind_of_token_is_not_passed_on() {
    for response in [
        r#"{"issued_token_type":"urn:ietf:params:oauth:token-type:access_token","access_token":"x"}"#,
        r#"{"issued_token_type":"urn:ietf:params:oauth:token-type:id-jag","access_token":""}"#,
        r#"{"access_token":"x"}"#,
    ] {
        let (source, script) = source(company(), &[(200, response)]);
        let error = source.token().await.unwrap_err().to_string();
        assert!(error.contains("contains no assertion") && forms(&script).len() == 1, "{error}");
    }
}

#[tokio::test]
async fn identity_of_the_platform_is_sent_once_and_read_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let options = || OAuthOptions::discover().workload_identity_file(&file);
    let missing = source(options(), &[]).0.token().await.unwrap_err().to_string();
    assert!(missing.contains("cannot read the assertion in"), "{missing}");
    for jwt in ["first-jwt\n", "second-jwt"] {
        std::fs::write(&file, jwt).unwrap();
        let (source, script) = source(options(), &[TOKEN]);
        source.token().await.unwrap();
        let forms = forms(&script);
        assert_eq!(field(&forms[0].1, "assertion"), Some(jwt.trim()));
        assert_eq!(field(&forms[0].1, "client_id"), Some("app"));
    }
    let refused: Scripted =
        (400, r#"{"error":"invalid_grant","error_description":"the jwt the-long-jwt has expired"}"#);
    let (source, script) = source(OAuthOptions::discover().workload_identity("the-long-jwt"), &[refused]);
    let error = source.token().await.unwrap_err();
    assert_eq!(forms(&script).len(), 1, "no other grant is tried");
    assert!(!format!("{error} {error:?}").contains("the-long-jwt"), "{error:?}");
}
