// The usage that RFC 2190 of this project (docs/rfcs) shows, as code. It is included twice: with the names of the new
// crates, and with the old names of `mcp-compat`.

pub(crate) fn config() -> McpClientConfig {
    McpClientConfig {
        command: "npx".to_string(),
        args: vec!["-y".to_string(), "@modelcontextprotocol/server-github".to_string()],
        env: std::collections::HashMap::new(),
        oauth: Some(OAuthConfig {
            provider: OAuthProvider::Github,
            client_id: "id".to_string(),
            scopes: vec!["repo".to_string(), "read:org".to_string()],
            token_storage: TokenStorage::Auto,
        }),
        timeout: std::time::Duration::from_secs(30),
    }
}

pub(crate) fn endpoint(provider: &OAuthProvider) -> &str {
    match provider {
        OAuthProvider::Github => "github",
        OAuthProvider::Google => "google",
        OAuthProvider::Custom { auth_url, token_url } => {
            if auth_url.is_empty() {
                token_url
            } else {
                auth_url
            }
        }
    }
}

/// Calls with the RFC's signatures, whose errors go into a box by `?`.
pub(crate) async fn calls(
    config: McpClientConfig,
) -> Result<(Vec<ToolSchema>, serde_json::Value), Box<dyn std::error::Error + Send + Sync + 'static>> {
    let client = McpClient::connect(config).await?;
    let tools: Vec<ToolSchema> = client.list_tools().await?;
    let value: serde_json::Value = client.call_tool("add", serde_json::json!({"a": 1})).await?;
    let () = client.disconnect().await;
    Ok((tools, value))
}

pub(crate) struct Hello;

#[async_trait::async_trait]
impl ToolSpec for Hello {
    fn name(&self) -> &str {
        "hello"
    }

    fn description(&self) -> &str {
        "Greets."
    }

    fn input_schema(&self) -> mcp_protocol::Json {
        serde_json::json!({"type": "object"}).into()
    }

    async fn execute(
        &self,
        _: mcp_protocol::Json,
        _: mcp_server::Context,
    ) -> Result<mcp_protocol::tools::CallToolResult, mcp_server::ToolError> {
        Ok(mcp_protocol::tools::CallToolResult::text("Hello!"))
    }
}

pub(crate) fn server() -> McpServer {
    McpServer::new(vec![std::sync::Arc::new(Hello) as std::sync::Arc<dyn ToolSpec>])
}

/// Sent between threads, used by many at once, serving on both ways.
pub(crate) fn bounds() {
    fn is_send_and_sync<T: Send + Sync + 'static>() {}
    is_send_and_sync::<McpClient>();
    let _ = |server: McpServer| server.serve_stdio();
    #[cfg(feature = "serve")]
    let _ = |server: McpServer| server.serve_sse(std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
}
