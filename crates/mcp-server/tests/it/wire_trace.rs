//! The wire trace: what it shows, and what it masks.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use mcp_server::{McpServer, WireTrace, tool};
use serde_json::json;

use crate::test_client::TestServer;

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

fn server(written: &Written) -> McpServer {
    McpServer::named("traced", "1")
        .tool(tool("echo", || async { "hi" }))
        .wire_trace(&WireTrace::new(written.clone()))
}

#[tokio::test]
async fn trace_shows_requests_and_responses_of_a_stream() {
    let written = Written::default();
    let mut client = server(&written).test_client().await.unwrap();
    client.call("echo", json!({})).await.unwrap();
    let lines = written.lines();
    let [request, response] = lines.as_slice() else { panic!("{lines:#?}") };
    assert!(request.starts_with("<-- {") && request.contains("\"tools/call\""), "{request}");
    assert!(response.starts_with("--> {") && response.contains("\"text\":\"hi\""), "{response}");
}

#[tokio::test]
async fn failing_trace_writer_does_not_harm_the_server() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let server = McpServer::named("traced", "1").tool(tool("echo", || async { "hi" }));
    let mut client = server.wire_trace(&WireTrace::new(writer)).test_client().await.unwrap();
    assert_eq!(client.call("echo", json!({})).await.unwrap().text(), "hi");
}

#[cfg(feature = "http")]
mod over_http {
    use bytes::Bytes;
    use http::Request;
    use http_body_util::{BodyExt, Full};
    use mcp_server::http::HttpOptions;
    use tower_service::Service;

    use super::{Written, server};

    #[tokio::test]
    async fn http_trace_shows_exchanges_and_masks_credentials() {
        let written = Written::default();
        let mut service = server(&written).into_http_service(HttpOptions::default()).unwrap();
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",
            "capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
        let request = Request::post("/mcp?key=k-123")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("authorization", "Bearer t-123")
            .header("cookie", "c-123")
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        let response = service.call(request).await.unwrap();
        let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        response.into_body().collect().await.unwrap();
        let lines = written.lines();
        let [head, message, answer, result] = lines.as_slice() else { panic!("{lines:#?}") };
        assert!(head.starts_with("<-- #1 POST /mcp host: localhost, "), "{head}");
        assert!(head.contains("authorization: ***, cookie: ***"), "{head}");
        // Line breaks between the members are escaped.
        assert!(message.starts_with("<-- #1 {") && message.contains("\"2025-06-18\",\\n  "), "{message}");
        assert!(answer.starts_with("--> #1 HTTP 200 OK "), "{answer}");
        assert!(answer.contains("mcp-session-id: ***"), "{answer}");
        assert!(result.starts_with("--> #1 {\"jsonrpc\""), "{result}");
        let text = lines.join("\n");
        assert!(!text.contains("-123") && !text.contains(&session), "{text}");
    }

    #[tokio::test]
    async fn http_trace_shows_refused_requests() {
        let written = Written::default();
        let mut service = server(&written).into_http_service(HttpOptions::default()).unwrap();
        let request =
            Request::post("/").header("host", "evil.example").body(Full::<Bytes>::default()).unwrap();
        service.call(request).await.unwrap();
        let lines = written.lines();
        assert!(lines[0].starts_with("<-- #1 POST / host: evil.example"), "{lines:#?}");
        assert!(lines[1].starts_with("--> #1 HTTP 403 "), "{lines:#?}");
    }
}
