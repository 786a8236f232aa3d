//! Servers that are not MCP servers, or send something else than messages: each error quotes it and names the cause.

use std::time::Duration;

use mcp_client::{CommandTarget, EndCause, Error, McpClient, ServerConfig};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::{harmless, peer};
use crate::web::{Piece, Say, against, calling, echo};

fn shell(script: &str) -> ServerConfig<CommandTarget> {
    ServerConfig::command("sh").arg("-c").arg(script)
}

async fn error_of(config: impl Into<ServerConfig>) -> Error {
    let config: ServerConfig = config.into();
    McpClient::builder(config.start_timeout(Duration::from_secs(2))).connect().await.unwrap_err()
}

#[tokio::test]
async fn text_on_stdout_instead_of_a_handshake_is_quoted() {
    harmless(async {
        for (script, line, hint) in [
            ("echo 'usage: server [options]'; exit 2", "usage: server [options]", "write logs to stderr"),
            (
                "echo 'Listening on port 3000'; cat >/dev/null",
                "Listening on port 3000",
                "write logs to stderr",
            ),
            (
                "printf 'Content-Length: 2\\r\\n\\r\\n{}'; cat >/dev/null",
                "Content-Length: 2",
                "on one line, without a Content-Length header",
            ),
        ] {
            let error = error_of(shell(script)).await;
            let Error::Connect { ended, .. } = &error else { panic!("{error:?}") };
            assert_eq!(ended.stray_line, line);
            // The script is shown, too.
            let expected = "is not a JSON-RPC message (";
            let text = error.to_string();
            let (_, quoted) = text.split_once(expected).unwrap_or_else(|| panic!("{text}"));
            assert!(quoted.contains(hint) && quoted.contains(&format!("\"{line}\"")), "{text}");
        }
        let error = error_of(shell("echo \"key $KEY\"; exit 1").env("KEY", "k-12345")).await.to_string();
        assert!(error.contains("\"key ***\"") && !error.contains("k-12345"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn pretty_printed_handshake_fails_at_once_with_its_cause() {
    harmless(async {
        let script =
            r#"read line; printf '{\n  "jsonrpc": "2.0",\n  "id": 1,\n  "result": {}\n}\n'; cat >/dev/null"#;
        let began = std::time::Instant::now();
        let error = error_of(shell(script).start_timeout(Duration::from_secs(20))).await.to_string();
        assert!(
            error.contains("write each message on one line, without line breaks; first line: \"{\""),
            "{error}"
        );
        assert!(began.elapsed() < Duration::from_millis(1500), "{:?}", began.elapsed());
    })
    .await;
}

#[tokio::test]
async fn call_lost_among_stray_lines_quotes_the_first_one() {
    harmless(async {
        for era in ["legacy", "modern"] {
            let client = McpClient::connect(peer(&["--era", era])).await.unwrap();
            let before = client.stats().unreadable;
            client.call("banner", json!({"lines": 3})).await.unwrap();
            assert_eq!(client.stats().unreadable, before + 3, "{era}");
            let error = client.call("wait", json!({})).timeout(Duration::from_millis(100)).await.unwrap_err();
            let Error::TimedOut { stray_line: Some(line), .. } = &error else { panic!("{error:?}") };
            assert!(error.to_string().contains(&format!("(write logs to stderr): \"{line}\"")), "{error}");
            let error = client.call("exit", json!({"code": 3})).await.unwrap_err();
            let Error::Lost { ended, .. } = &error else { panic!("{error:?}") };
            assert_eq!(&*ended.stray_line, &**line);
            client.close().await;
        }
        // Lines before the handshake count as well.
        let client = McpClient::connect(peer(&["--noise", "5"])).await.unwrap();
        assert_eq!(client.stats().unreadable, 5);
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn odd_web_response_to_connect_is_reported_with_its_status() {
    const PAGE: &str = "this is a web page and not an MCP response: check the path of the URL";
    let slow = |head: &str| {
        let head = format!("HTTP/1.1 200 X\r\ncontent-type: {head}\r\n\r\n<");
        Say::Pieces(vec![Piece::Bytes(head.into_bytes()), Piece::UntilGone])
    };
    let gzip = |kind| Say::status(200, &[("content-type", kind), ("content-encoding", "gzip")], "\u{1f}");
    for (say, expected) in [
        (
            Say::status(200, &[("content-type", "text/html")], "<p>Hi"),
            &["200 with text/html: <p>Hi", PAGE][..],
        ),
        (Say::status(404, &[("content-type", "text/html")], "<p>No"), &["404 with text/html: <p>No", PAGE]),
        (
            Say::status(200, &[("content-type", "application/json")], "{\n  \"a\": 1\n}"),
            &["200 with application/json: {\\n  \"a\": 1\\n}; this is not a JSON-RPC message"],
        ),
        (gzip("text/html"), &["200 with text/html, compressed with gzip although", PAGE]),
        (gzip("application/json"), &["200 with application/json, compressed with gzip although"]),
        (Say::status(200, &[("content-type", "text/html")], ""), &["200 with text/html, empty body", PAGE]),
        (Say::status(200, &[], ""), &["HTTP status 200, empty body"]),
        (slow("text/html"), &["200 with text/html"]),
        (slow("application/json"), &["200 with application/json"]),
    ] {
        against(
            move |_| say.clone(),
            |web| async move {
                for config in [ServerConfig::url(&web.url), ServerConfig::sse(&web.url)] {
                    let text = error_of(config).await.to_string();
                    assert!(expected.iter().all(|part| text.contains(part)), "{text}");
                }
            },
        )
        .await;
    }
}

#[tokio::test]
async fn odd_web_response_to_a_call_is_counted() {
    let html = Say::status(200, &[("content-type", "text/html")], "<p>Please log in");
    let broken = Say::status(200, &[("content-type", "application/json")], "{\"jsonrpc\":");
    let gzip = Say::status(200, &[("content-type", "text/html"), ("content-encoding", "gzip")], "\u{1f}");
    for say in [html, broken, gzip] {
        against(calling(move |_| say.clone()), |web| async move {
            let client = McpClient::connect(ServerConfig::url(&web.url)).await.unwrap();
            echo(&client, "x").await.unwrap_err();
            assert_eq!(client.stats().unreadable, 1);
            client.close().await;
        })
        .await;
    }
    // A page that never ends does not hide its status until the timeout of the call.
    let head = b"HTTP/1.1 200 X\r\ncontent-type: text/html\r\n\r\n<p>wait".to_vec();
    let slow = Say::Pieces(vec![Piece::Bytes(head), Piece::UntilGone]);
    against(calling(move |_| slow.clone()), |web| async move {
        let client = McpClient::connect(ServerConfig::url(&web.url)).await.unwrap();
        let error = echo(&client, "x").await.unwrap_err().to_string();
        assert!(error.contains("HTTP status 200 with text/html: <p>wait"), "{error}");
        client.close().await;
    })
    .await;
}

/// Answers every connection with these bytes, after it has read something if it `waits`.
async fn answering(bytes: &'static [u8], waits: bool) -> (u16, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            if waits {
                let _ = stream.read(&mut [0; 4096]).await;
            }
            let _ = stream.write_all(bytes).await;
        }
    });
    (port, serving)
}

#[tokio::test]
async fn server_of_another_protocol_is_named() {
    const ALERT: &[u8] = &[0x15, 3, 1, 0, 2, 2, 70];
    for (scheme, bytes, waits, expected) in [
        (
            "https",
            &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
            true,
            "speaks http on this port, without TLS; use http://",
        ),
        ("https", b"", true, "check that this port uses https and not http"),
        ("http", ALERT, true, "speaks TLS on this port; use https://"),
        (
            "http",
            b"SSH-2.0-OpenSSH_9.2\r\n",
            false,
            "does not speak HTTP; first bytes: \"SSH-2.0-OpenSSH_9.2\\r\\n\"",
        ),
        ("http", b"\0\x1b[2J", true, "does not speak HTTP; first bytes: \"\\u{0}\\u{1b}[2J\""),
    ] {
        let (port, serving) = answering(bytes, waits).await;
        let error = error_of(ServerConfig::url(format!("{scheme}://127.0.0.1:{port}/mcp"))).await;
        let Error::Connect { ended, .. } = &error else { panic!("{error:?}") };
        assert!(matches!(&ended.cause, EndCause::Network(_)), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
        serving.abort();
    }
}
