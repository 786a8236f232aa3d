//! Our client over HTTP, through the public `call` path with its deadlines on. With `header` or `login`, it sends a
//! bearer token.

use std::time::Duration;

use mcp_bench::callers::Ours;
use mcp_bench::client::{WEB_IN_FLIGHT, Work, web_responder};
use mcp_client::credentials::{CredentialKey, Dialog, Secret, StoreError, StoreLock, TokenStore};
use mcp_client::oauth::{Credentials, OAuthOptions};
use mcp_client::{McpClient, ServerConfig, async_trait};

const TOKEN: &str = "a-token-of-usual-length-0123456789-0123456789";

/// A store that has one token for everybody.
struct OneToken;

#[async_trait]
impl TokenStore for OneToken {
    fn describe(&self) -> String {
        "one token".to_owned()
    }

    async fn load(&self, _: &CredentialKey, _: Dialog) -> Result<Option<Secret>, StoreError> {
        Ok(Some(Secret::new(TOKEN)))
    }

    async fn save(&self, _: &CredentialKey, _: &Secret, _: Dialog) -> Result<(), StoreError> {
        Ok(())
    }

    async fn delete(&self, _: &CredentialKey, _: Dialog) -> Result<bool, StoreError> {
        Ok(false)
    }

    async fn lock(&self, _: &CredentialKey, _: Duration) -> Result<StoreLock, StoreError> {
        Ok(StoreLock::new(()))
    }
}

fn main() {
    let work = Work::from_arguments();
    let (_responder, url) = web_responder(&work);
    work.runtime().block_on(async {
        let mut config = ServerConfig::url(url);
        if work.has_header {
            config = config.bearer_token(TOKEN);
        }
        if work.has_login {
            config = config.oauth(OAuthOptions::issuer("https://auth.example.com", "bench"));
        }
        let connect = McpClient::builder(config).credentials(&Credentials::of(OneToken));
        let client = connect.connect().await.unwrap();
        work.measure(&Ours::new(&client), WEB_IN_FLIGHT).await;
        client.close().await;
    });
}
