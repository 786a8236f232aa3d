//! Stderr of a server that is passed on.

use std::process::{Command, Stdio};

use mcp_client::protocol::negotiation::Mode;
use mcp_client::{McpClient, ServerConfig};

/// Not a test of its own: the host whose stderr the next one reads.
#[tokio::test]
async fn a_host_that_inherits_stderr() {
    if std::env::var_os("TEST_INHERIT").is_none() {
        return;
    }
    let script = "echo hello from the server >&2; echo \"key $KEY\" >&2; exec sleep 0.2";
    let config = ServerConfig::command("sh").args(["-c", script]).env("KEY", "k-123");
    // With one era, the server is started once.
    let config = config.era(Mode::Legacy).inherit_stderr();
    let error = McpClient::connect(config).await.unwrap_err().to_string();
    assert!(error.contains("hello from the server"), "{error}");
}

#[test]
fn inherited_stderr_is_passed_on_with_secrets_masked() {
    let host = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "stderr::a_host_that_inherits_stderr"])
        .env("TEST_INHERIT", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(host.status.success(), "{host:?}");
    assert_eq!(String::from_utf8(host.stderr).unwrap(), "hello from the server\nkey ***\n");
}
