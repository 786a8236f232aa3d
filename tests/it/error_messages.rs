//! The guide to error messages quotes what is really printed.
#![cfg(unix)]

use std::time::Duration;

use mcp_client::protocol::ProtocolVersion;
use mcp_client::{Error, McpClient, ServerConfig};
use mcp_server::{Context, McpServer, NoArgs, ToolError, tool};
use serde_json::json;
use tokio::net::TcpListener;

const GUIDE: &str = include_str!("../../docs/guides/error-messages.md");

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

async fn ask(_: NoArgs, cx: Context) -> Result<&'static str, ToolError> {
    Ok(if cx.confirm("sure", "Sure?").await? { "yes" } else { "no" })
}

fn server() -> McpServer {
    McpServer::named("calculator", "1")
        .tool(tool("add", |Add { a, b }: Add| async move { (a + b).to_string() }))
        .tool(tool("ask", ask))
        .tool(tool("hang", || async { std::future::pending::<String>().await }))
}

fn shell(script: &str) -> ServerConfig {
    ServerConfig::command("sh").args(["-c", script]).into()
}

/// The text of the error of a connection.
async fn refused<R>(config: R) -> String
where
    R: TryInto<ServerConfig>,
    Error: From<R::Error>,
{
    McpClient::connect(config).await.map(|_| ()).unwrap_err().to_string()
}

/// The text of the error of a connection to a program that does not respond.
async fn timed_out(script: &str) -> String {
    let connect = McpClient::builder(shell(script)).start_timeout(Duration::from_secs(1));
    connect.connect().await.map(|_| ()).unwrap_err().to_string()
}

/// Serves one fixed HTTP response for every request.
async fn web(response: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (mut reader, mut writer) = stream.split();
            let _ = tokio::io::AsyncReadExt::read(&mut reader, &mut [0; 4096]).await;
            let _ = tokio::io::AsyncWriteExt::write_all(&mut writer, response.as_bytes()).await;
        }
    });
    url
}

/// A printed error, and the part of it that the guide quotes.
type Quoted = (String, &'static str);

async fn connecting() -> Vec<Quoted> {
    let page =
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\nconnection: close\r\n\r\n<html>";
    let missing = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let login = "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let without_tls = web(missing).await.replace("http://", "https://");
    vec![
        (
            refused("my-server").await,
            "invalid server config `my-server`: not a URL, such as https://mcp.example.com/mcp; to start a program, use ServerConfig::command",
        ),
        (
            refused(ServerConfig::command("no-such-server")).await,
            "program \"no-such-server\" not found in PATH (searched: ",
        ),
        (
            refused(ServerConfig::command("no-such-server")).await,
            "); install it, add its folder to PATH, or give its full path",
        ),
        (
            refused(ServerConfig::command("npx -y some-server")).await,
            "program \"npx -y some-server\" not found; it contains spaces: name only the program, \"npx\", and pass its arguments with `.arg` or `.args`",
        ),
        (
            refused(shell("exit 1")).await,
            "`: the server process exited before it responded; the process exited with exit status: 1",
        ),
        (timed_out("exec sleep 9").await, "`: handshake failed: timed out waiting for the response"),
        (
            timed_out("cat > /dev/null").await,
            "timed out waiting for the response; this client closed the connection; the process exited with exit status: 0",
        ),
        (
            timed_out("echo Ready.; exec sleep 9").await,
            "stdout has output that is not a JSON-RPC message (write logs to stderr): \"Ready.\"",
        ),
        (
            refused(ServerConfig::url("http://127.0.0.1:1/mcp")).await,
            "network error: Connection refused (os error ",
        ),
        (
            refused(ServerConfig::url(without_tls)).await,
            "the server speaks http on this port, without TLS; use http:// in the URL",
        ),
        (
            refused(ServerConfig::url(web(page).await)).await,
            "this is a web page and not an MCP response: check the path of the URL, often /mcp or /sse, and whether a login page or proxy is in between",
        ),
        (
            refused(ServerConfig::url(web(missing).await)).await,
            "no MCP endpoint at this URL (POST server/discover: 404, POST initialize: 404, GET: 404)",
        ),
        (
            refused(ServerConfig::url(web(login).await)).await,
            "unauthorized: the server refused `server/discover` with HTTP status 401",
        ),
    ]
}

async fn calling() -> Vec<Quoted> {
    let client = McpClient::over(server().in_memory().unwrap()).connect().await.unwrap();
    let call = |name: &str, arguments: serde_json::Value| {
        let call = client.call(name, arguments);
        // Only one of the tools does not return.
        let call = if name == "hang" { call.timeout(Duration::from_millis(200)) } else { call };
        async { call.await.and_then(|result| result.ok()).unwrap_err().to_string() }
    };
    let mut quoted = vec![
        (
            call("add", json!({"a": 1, "b": "two"})).await,
            // The rest depends on the feature `validate` of the server.
            "tool `add` failed: invalid arguments: `b`: ",
        ),
        (call("ad", json!({})).await, "the server refused `tools/call`: unknown tool `ad` (-32602)"),
        (
            call("ask", json!({})).await,
            "the server refused `tools/call`: the request did not declare a required client capability: {\"elicitation\":{}} (-32021)",
        ),
        (call("hang", json!({})).await, "request timed out: no response and no progress"),
    ];
    let unknown = client.read_resource("file:///x").await.unwrap_err().to_string();
    quoted.push((unknown, "the server refused `resources/read`: resource not found: file:///x (-32602)"));
    let legacy = McpClient::over(server().in_memory().unwrap()).versions([ProtocolVersion::V2025_11_25]);
    let result = legacy.connect().await.unwrap().call("ask", json!({})).await.unwrap();
    quoted.push((
        result.ok().unwrap_err().to_string(),
        "tool `ask` failed: this call needs input, but the client did not declare the capability `elicitation`",
    ));
    let exits = r#"read line; echo '{"jsonrpc":"2.0","id":"probe-1","result":{"resultType":"complete",
        "supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,"cacheScope":"private"}}'; read line; exit 3"#;
    let client = McpClient::connect(shell(&exits.replace("\n        ", ""))).await.unwrap();
    let lost = client.call("add", json!({})).await.unwrap_err().to_string();
    quoted.push((
        lost,
        "connection lost before the response to `tools/call`; the process exited with exit status: 3",
    ));
    quoted
}

async fn starting() -> Vec<Quoted> {
    let twice = server().tool(tool("add", || async {}));
    let number = McpServer::named("n", "1").tool(tool("double", |n: i64| async move { (2 * n).to_string() }));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    vec![
        (
            twice.in_memory().map(|_| ()).unwrap_err().to_string(),
            "the server cannot start: duplicate tool `add`",
        ),
        (
            number.in_memory().map(|_| ()).unwrap_err().to_string(),
            "the server cannot start: the arguments of tool `double` are not an object: the function must take a struct with named fields, whose schema has `\"type\": \"object\"`",
        ),
        (
            server().serve_http(([0, 0, 0, 0], 8000).into()).await.unwrap_err().to_string(),
            "the server cannot start: 0.0.0.0:8000 is not a loopback address, and the server has no authorization; set HttpOptions::protect, or HttpOptions::beyond_loopback_without_authorization to listen anyway",
        ),
        (
            server().serve_http(taken.local_addr().unwrap()).await.unwrap_err().to_string(),
            ": Address already in use (os error ",
        ),
    ]
}

#[tokio::test]
async fn guide_quotes_the_errors_that_are_printed() {
    for (printed, quote) in [connecting().await, calling().await, starting().await].concat() {
        assert!(printed.contains(quote), "prints something else: {printed}");
        assert!(GUIDE.contains(quote), "not in the guide: {quote}");
    }
}
