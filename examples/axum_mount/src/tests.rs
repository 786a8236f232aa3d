//! The check of the token, with the whole client over a socket.

use mcp_client::{McpClient, ServerConfig};
use tokio::net::TcpListener;

use super::{app, service};

#[tokio::test]
async fn tools_know_the_user_and_a_wrong_token_is_refused() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    let app = app(service()?, "secret".into());
    tokio::spawn(async { axum::serve(listener, app).await });
    let client = McpClient::connect(ServerConfig::url(&url).bearer_token("secret")).await?;
    assert_eq!(client.call("hello", ()).await?.text(), "Hello, ada.");
    for config in [ServerConfig::url(&url), ServerConfig::url(&url).bearer_token("other")] {
        assert!(McpClient::connect(config).await.is_err_and(|error| error.needs_login()));
    }
    Ok(())
}
