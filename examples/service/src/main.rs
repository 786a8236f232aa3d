//! A service that lists the tools of a protected server with its own credentials (client credentials). Nobody logs in,
//! and nothing is stored.
//!
//! ```sh
//! BILLING_SECRET=… cargo run -p example-service -- ISSUER CLIENT-ID URL
//! ```

use std::error::Error;
use std::process::ExitCode;

use mcp_client::oauth::OAuthOptions;
use mcp_client::{McpClient, ServerConfig};

async fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let [issuer, client_id, url] = arguments else {
        return Err("usage: service ISSUER CLIENT-ID URL".into());
    };
    let oauth = OAuthOptions::client_credentials(issuer, client_id).secret_env("BILLING_SECRET");
    let client = McpClient::connect(ServerConfig::url(url).oauth(oauth)).await?;
    let tools = client.list_tools().await;
    client.close().await;
    for tool in tools? {
        println!("{}", tool.name);
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
