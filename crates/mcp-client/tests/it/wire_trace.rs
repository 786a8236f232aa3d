//! The wire trace: what it shows, and what it masks.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use mcp_client::{McpClient, ServerConfig, WireTrace};
use serde_json::json;

use crate::support::{peer, unharmed};
use crate::web::{Say, Seen, against, legacy, modern};

/// A writer whose text can be read.
#[derive(Clone, Default)]
pub(crate) struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Written {
    /// The lines without their times.
    pub(crate) fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| line["12:34:56.789 ".len()..].to_owned()).collect()
    }
}

#[tokio::test]
async fn trace_shows_every_line_in_both_directions() {
    for era in ["modern", "legacy"] {
        let written = Written::default();
        let trace = WireTrace::new(written.clone());
        let config = peer(&["--era", era]).env("SECRET", "said \"hush\"");
        let client = McpClient::builder(config).wire_trace(&trace).connect().await.unwrap();
        let text = "said \"hush\" and more";
        assert_eq!(client.call("echo", json!({"text": text})).await.unwrap().text(), text);
        client.close().await;
        let lines = written.lines();
        let first = &lines[0];
        assert!(first.starts_with("--> [mcp-test-peer] {\"jsonrpc\":\"2.0\""), "{first}");
        let find = |start: &str, part: &str| {
            lines.iter().filter(|line| line.starts_with(start) && line.contains(part)).count()
        };
        assert_eq!(find("--> [mcp-test-peer] {", "\"tools/call\""), 1, "{lines:#?}");
        assert_eq!(find("<-- [mcp-test-peer] {", "*** and more"), 1, "{lines:#?}");
        assert_eq!(find("--> [mcp-test-peer] (closed)", ""), 1, "{lines:#?}");
        assert!(!lines.iter().any(|line| line.contains("hush")), "{lines:#?}");
    }
}

#[tokio::test]
async fn failing_trace_writer_does_not_harm_the_connection() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let trace = WireTrace::new(writer);
    let client = McpClient::builder(peer(&[])).wire_trace(&trace).connect().await.unwrap();
    unharmed(&client).await;
    client.close().await;
}

async fn traced_over_http(script: impl Fn(&Seen) -> Say + Send + Sync + 'static) -> Vec<String> {
    let written = Written::default();
    let trace = WireTrace::new(written.clone());
    against(script, |web| async move {
        let config = ServerConfig::url(format!("{}?key=k-123", web.url)).bearer_token("t-123");
        let client = McpClient::builder(config).wire_trace(&trace).connect().await.unwrap();
        client.call("echo", json!({"text": "the token is t-123"})).await.unwrap();
        client.close().await;
    })
    .await;
    written.lines()
}

#[tokio::test]
async fn http_trace_shows_exchanges_and_masks_credentials() {
    let lines = traced_over_http(modern).await;
    let at = lines.iter().position(|line| line.contains("\"tools/call\"")).unwrap();
    let (request, body, response, result) = (&lines[at - 1], &lines[at], &lines[at + 1], &lines[at + 2]);
    let (label, rest) = request.split_once(" POST http://").unwrap();
    assert!(label.starts_with("--> [127.0.0.1:") && label.contains("] #"), "{label}");
    for part in ["?…", "authorization: ***", "mcp-method: tools/call", "content-type: application/json"] {
        assert!(rest.contains(part), "{part} in {rest}");
    }
    assert!(body.starts_with(&format!("{label} {{\"jsonrpc\"")), "{body}");
    assert!(body.contains("the token is ***"), "{body}");
    let label = label.replace("-->", "<--");
    assert!(response.starts_with(&format!("{label} HTTP 200 ")), "{response}");
    assert!(result.starts_with(&format!("{label} {{")), "{result}");
    let text = lines.join("\n");
    assert!(!text.contains("t-123") && !text.contains("k-123"), "{text}");
}

#[tokio::test]
async fn http_trace_masks_session_ids() {
    let lines = traced_over_http(|seen| legacy(seen, "s3cret")).await;
    let masked = |start: &str| {
        lines.iter().any(|line| line.starts_with(start) && line.contains("mcp-session-id: ***"))
    };
    assert!(masked("<-- ") && masked("--> "), "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains("s3cret")), "{lines:#?}");
}
