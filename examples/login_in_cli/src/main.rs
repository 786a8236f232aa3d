//! Logs in at any protected server, keeps the login in the keychain, and calls a tool. Nothing is configured: the server
//! names its authorization server, and this program registers itself there. The login uses a browser if one can be
//! opened on this machine, and otherwise a code.
//!
//! ```sh
//! cargo run -p example-login-in-cli -- URL call TOOL [JSON]
//! cargo run -p example-login-in-cli -- URL logout
//! ```

use std::error::Error;
use std::process::ExitCode;

use mcp_client::oauth::{Credentials, LoginPrompt, OAuthOptions};
use mcp_client::{McpClient, ServerConfig};
use tokio::sync::mpsc;

const USAGE: &str = "usage: login-in-cli URL call TOOL [JSON] | logout";

async fn run(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    let [url, command, rest @ ..] = arguments else { return Err(USAGE.into()) };
    let server = ServerConfig::url(*url).oauth(OAuthOptions::discover().client_name("Login example"));
    let credentials = Credentials::auto("login-in-cli-example")?;
    match (*command, rest) {
        ("call", [tool, json @ ..]) => {
            let json: serde_json::Value = serde_json::from_str(json.first().unwrap_or(&"{}"))?;
            let connect = McpClient::builder(server).credentials(&credentials).on_login(show);
            let client = connect.connect().await?;
            let mut result = client.call(*tool, json.clone()).await;
            // The tool needs more than the login includes.
            if let Err(mcp_client::Error::LoginNeeded(needed)) = &result {
                eprintln!("The tool needs more permissions: {}", needed.scopes.join(" "));
                needed.login(show).await?;
                result = client.call(*tool, json).await;
            }
            client.close().await;
            println!("{}", result?.ok()?.text());
        }
        ("logout", []) => {
            let report = credentials.logout(&server).await?;
            println!("{}", if report.was_logged_in { "logged out" } else { "you were not logged in" });
        }
        _ => return Err(USAGE.into()),
    }
    Ok(())
}

/// Shows what the user must do. If the browser is on another machine, it cannot return to this program, and the user
/// pastes the address of its last page.
async fn show(prompt: LoginPrompt) {
    eprintln!("{prompt}");
    let LoginPrompt::Browser { pasted, is_opened: false, .. } = prompt else { return };
    eprintln!(
        "If the browser is on another machine, paste the address of the page that it shows in the end."
    );
    let (sender, mut lines) = mpsc::channel(1);
    // A thread of its own: it may wait for input when the login is over.
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    while let Some(line) = lines.recv().await {
        pasted.send(line).await;
    }
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
