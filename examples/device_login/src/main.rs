//! Logs in to a protected server with a code, keeps the login in the keychain, and calls a tool.
//!
//! ```sh
//! cargo run -p example-device-login -- ISSUER CLIENT-ID URL login
//! cargo run -p example-device-login -- ISSUER CLIENT-ID URL status
//! cargo run -p example-device-login -- ISSUER CLIENT-ID URL call TOOL [JSON]
//! cargo run -p example-device-login -- ISSUER CLIENT-ID URL logout
//! ```

use std::error::Error;
use std::process::ExitCode;

use mcp_client::oauth::{Credentials, OAuthOptions};
use mcp_client::{McpClient, ServerConfig};

const USAGE: &str = "usage: device-login ISSUER CLIENT-ID URL login | status | call TOOL [JSON] | logout";

async fn run(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    let [issuer, client_id, url, command, rest @ ..] = arguments else { return Err(USAGE.into()) };
    let oauth = OAuthOptions::issuer(*issuer, *client_id).scopes(["openid", "offline_access"]);
    let server = ServerConfig::url(*url).oauth(oauth);
    let credentials = Credentials::auto("device-login-example")?;
    match (*command, rest) {
        ("login", []) => {
            let show = |prompt| async move { eprintln!("{prompt}") };
            let status = credentials.login(&server, show).await?;
            println!("logged in; the token is in: {}", status.store);
        }
        ("status", []) => match credentials.status(&server).await? {
            Some(status) => println!("logged in at {}; the token is in: {}", status.issuer, status.store),
            None => println!("not logged in"),
        },
        ("call", [tool, json @ ..]) => {
            let json: serde_json::Value = serde_json::from_str(json.first().unwrap_or(&"{}"))?;
            let client = McpClient::builder(server).credentials(&credentials).connect().await?;
            let result = client.call(*tool, json).await;
            client.close().await;
            println!("{}", result?.ok()?.text());
        }
        ("logout", []) => {
            let report = credentials.logout(&server).await?;
            println!("{}", if report.was_logged_in { "logged out" } else { "you were not logged in" });
            if let Some(error) = report.revocation_error {
                eprintln!("the token may still be valid at the authorization server: {error}");
            }
            if let Some(error) = report.store_error {
                return Err(error.into());
            }
        }
        _ => return Err(USAGE.into()),
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
