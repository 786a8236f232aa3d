//! An echo server with mcp-server, over HTTP. Prints its port.
//!
//! With `--verified`, every request needs a token, and with `--token` none does; both also print a token.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_server::auth::{Jwks, JwtVerifier, ProtectedResource};
use mcp_server::http::HttpOptions;
use mcp_server::{Error, McpServer, tool};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::json;
use tokio::net::TcpListener;

const ISSUER: &str = "https://auth.example.com";
const RESOURCE: &str = "https://notes.example.com/mcp";

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

/// Returns a token as long as those of common authorization servers, and the keys of its issuer.
fn token() -> (String, Jwks) {
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
    let keys = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "x": URL_SAFE_NO_PAD.encode(pair.public_key())}]});
    let expiry = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 3600;
    let claims = json!({"iss": ISSUER, "aud": RESOURCE, "exp": expiry, "sub": "ada", "client_id": "cli",
        "scope": "notes:read notes:write", "groups": "x".repeat(450)});
    let encode = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", encode(json!({"alg": "EdDSA", "typ": "at+jwt"})), encode(claims));
    let signature = URL_SAFE_NO_PAD.encode(pair.sign(signed.as_bytes()));
    (format!("{signed}.{signature}"), Jwks::from_json(&keys.to_string()).unwrap())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let server = McpServer::named("echo", "1").tool(tool("echo", |Echo { text }: Echo| async { text }));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let mut options = HttpOptions::default();
    match std::env::args().nth(1).as_deref() {
        None => println!("{port}"),
        Some(mode) => {
            let (token, keys) = token();
            println!("{port} {token}");
            if mode == "--verified" {
                let verifier = JwtVerifier::with_keys(ISSUER, keys);
                options = options.protect(ProtectedResource::new(RESOURCE, verifier).scopes(["notes:read"]));
            }
        }
    }
    server.serve_listener(listener, options, std::future::pending()).await
}
