//! The old names go on compiling, mean the same, and warn.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

/// The usage that RFC 2190 of this project (docs/rfcs) shows, with the names of the new crates.
mod with_new_names {
    use mcp_client::{McpClient, McpClientConfig, OAuthConfig, OAuthProvider, TokenStorage};
    use mcp_protocol::tools::ToolSchema;
    use mcp_server::{McpServer, ToolSpec};

    include!("usage.rs");
}

/// The same with the old names.
#[allow(deprecated, reason = "they are what is tested")]
mod with_old_names {
    use mcp_compat::{
        McpClient, McpClientConfig, McpServer, OAuthConfig, OAuthProvider, TokenStorage, ToolSchema, ToolSpec,
    };

    include!("usage.rs");
}

#[tokio::test]
async fn rfc_usage_behaves_the_same_with_old_and_new_names() {
    with_new_names::bounds();
    with_old_names::bounds();
    assert_eq!(with_new_names::config(), with_old_names::config());
    let google = mcp_client::OAuthProvider::Google;
    assert_eq!(with_new_names::endpoint(&google), with_old_names::endpoint(&google));
    // Nobody has logged in, or the feature for logins is not enabled, and nothing is started.
    let in_memory = |mut config: mcp_client::McpClientConfig| {
        config.oauth.as_mut().unwrap().token_storage = mcp_client::TokenStorage::Memory;
        config
    };
    let new = with_new_names::calls(in_memory(with_new_names::config())).await.unwrap_err();
    let old = with_old_names::calls(in_memory(with_old_names::config())).await.unwrap_err();
    let text = new.to_string();
    assert!(text.contains("`oauth`") || text.contains("nobody has logged in"), "{text}");
    assert_eq!(new.to_string(), old.to_string());
    for server in [with_new_names::server(), with_old_names::server().into_inner()] {
        let client = mcp_client::McpClient::over(server.in_memory().unwrap()).connect().await.unwrap();
        assert_eq!(client.call("hello", serde_json::json!({})).await.unwrap().text(), "Hello!");
    }
}

#[test]
#[allow(deprecated, reason = "they are what is tested")]
fn old_data_types_round_trip_through_json_unchanged() {
    let text = r#"{"config":{"name":"x","command":"npx","args":["-y"],"env":{"KEY":"v"},"enabled":true},"filter":{"allow":["a"],"deny":[]}}"#;
    let definition: mcp_compat::McpServerDefinition = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&definition).unwrap(), text);
    assert_eq!(mcp_client::ServerConfig::from(definition.config).to_string(), "npx -y");
    let tool = r#"{"server_name":"s","tool_name":"t","qualified_name":"mcp__s__t","description":null}"#;
    let descriptor: mcp_compat::McpToolDescriptor = serde_json::from_str(tool).unwrap();
    assert_eq!(serde_json::to_string(&descriptor).unwrap(), tool);
}

#[test]
fn every_old_name_warns_with_its_new_path() {
    trybuild::TestCases::new().compile_fail("tests/warns/*.rs");
}
