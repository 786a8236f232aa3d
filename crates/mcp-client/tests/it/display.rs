//! Text of a server is escaped and cut in every error and log line.

use mcp_client::{McpClient, ServerConfig};
use serde_json::{Value, json};

use crate::support::{LogLines, harmless, peer};
use crate::web::{Piece, Say, Seen, against, calling, connect, echo, modern};

/// Clears the screen, sets the title, forges a line and turns the direction of writing.
const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\r\nINFO forged\u{9b}31m\u{202e}\u{2028}\u{200b}";
/// The most bytes of an error or a log line.
const MAX_SHOWN: usize = 10_000;

fn hostile() -> String {
    HOSTILE.repeat(10_000)
}

#[track_caller]
fn assert_harmless(shown: &str) {
    let bad = shown.chars().find(|c| c.is_control() || matches!(c, '\u{200b}' | '\u{202e}' | '\u{2028}'));
    let beginning: String = shown.chars().take(200).collect();
    assert_eq!(bad, None, "{beginning:?}");
    assert!(shown.len() <= MAX_SHOWN, "{} bytes: {beginning}", shown.len());
}

/// The error of a call, with all its causes.
async fn error_of_call(client: &McpClient) -> String {
    use std::error::Error as _;
    let error = echo(client, "x").await.unwrap_err();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

#[tokio::test]
async fn server_errors_are_displayed_escaped_and_cut() {
    let value = "v".repeat(20_000);
    let answers: [fn(&Seen) -> Say; 4] = [
        |seen| seen.error(200, -32000, &hostile()),
        |seen| seen.error(400, -32602, &hostile()),
        |seen| seen.result(json!({"resultType": hostile(), "content": []})),
        |seen| {
            seen.result(
                json!({"resultType": "complete", "content": [{"type": "text", "text": [], hostile(): 1}]}),
            )
        },
    ];
    for answer in answers {
        against(calling(answer), |web| async move {
            let client = connect(&web).await;
            assert_harmless(&error_of_call(&client).await);
            client.close().await;
        })
        .await;
    }
    for headers in [
        vec![("content-type", "text/html"), ("content-encoding", value.as_str())],
        vec![("content-type", value.as_str())],
    ] {
        let say = Say::status(200, &headers, &hostile());
        against(calling(move |_| say.clone()), |web| async move {
            let client = connect(&web).await;
            assert_harmless(&error_of_call(&client).await);
            client.close().await;
        })
        .await;
    }
}

#[tokio::test]
async fn log_lines_hold_no_raw_text_of_a_server() {
    let schema =
        json!({"type": "object", "properties": {HOSTILE: {"type": "string", "x-mcp-header": hostile()}}});
    let script = move |seen: &Seen| match seen.method() {
        "server/discover" => seen.result(json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": HOSTILE, "version": "1"}},
        })),
        "tools/list" => seen.result(json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "tools": [{"name": hostile(), "inputSchema": schema}],
        })),
        "tools/call" => Say::stream([
            Piece::from(format!("data: {}\n\n", HOSTILE.replace(['\r', '\n'], ""))),
            Piece::from(seen.event(json!({"resultType": "complete", "content": []}))),
        ]),
        _ => modern(seen),
    };
    against(script, |web| async move {
        let (lines, guard) = LogLines::capture();
        let client = connect(&web).await;
        assert_eq!(client.tools().await.unwrap().skipped.len(), 1);
        let _ = echo(&client, "x").await;
        client.close().await;
        drop(guard);
        let lines = lines.get();
        assert!(lines.iter().any(|line| line.contains("left out")), "{lines:?}");
        assert!(lines.iter().any(|line| line.contains(r"\u{1b}[2J")), "{lines:?}");
        lines.iter().for_each(|line| assert_harmless(line));
    })
    .await;
}

#[tokio::test]
async fn noise_of_a_server_with_a_hostile_name_is_logged_escaped() {
    let result = json!({
        "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
        "serverInfo": {"name": HOSTILE.repeat(100), "version": HOSTILE},
    });
    let answer = format!("\"result\":{result}");
    harmless(async {
        let (lines, guard) = LogLines::capture();
        let client = McpClient::connect(peer(&["--era", "legacy", "--initialize", &answer])).await.unwrap();
        let _ = client.call("banner", json!({"lines": 1})).await;
        client.close().await;
        drop(guard);
        let lines = lines.get();
        assert!(lines.iter().any(|line| line.contains("server=") && line.contains("sample=")), "{lines:?}");
        lines.iter().for_each(|line| assert_harmless(line));
    })
    .await;
}

#[tokio::test]
async fn versions_of_a_server_are_displayed_escaped_and_cut() {
    let versions: Vec<Value> = vec![hostile().into(); 20];
    let script = move |seen: &Seen| match seen.method() {
        "server/discover" => seen.result(json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "supportedVersions": versions, "capabilities": {},
        })),
        _ => modern(seen),
    };
    against(script, |web| async move {
        let error = McpClient::connect(ServerConfig::url(&web.url)).await.unwrap_err();
        assert_harmless(&error.to_string());
    })
    .await;
}
