//! What hostile servers send costs time in proportion to its size, and memory up to a ceiling.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use mcp_client::protocol::Json;
use mcp_client::protocol::codec::param_header::ParamHeaders;
use mcp_client::{McpClient, ServerConfig};
use serde_json::{Value, json};

/// Runs of each size; the fastest counts, because the machine is shared.
const RUNS: usize = 7;
/// The most that four times the input may cost.
const MAX_RATIO: f64 = 5.0;
/// Tools on the smaller page, each with a wrong annotation. Four times as many just fit into one message.
const TOOLS: usize = 20_000;
/// The most memory that reading the larger page may take, in KiB: the page, a copy of it, and 4096 tools.
const MAX_PAGE_MEMORY: u64 = 48 << 10;

/// Properties of the smaller schema, about 2 MiB.
const SCHEMA_PROPERTIES: usize = 50_000;
/// The most memory that reading the larger schema may take beyond its own text, in KiB.
const MAX_SCHEMA_MEMORY: u64 = 1 << 10;

/// Lists of tools that cannot be called, on one page.
pub(crate) fn lists() -> Result<String, String> {
    let (small, large) = (page(TOOLS), page(4 * TOOLS));
    let small = list_time(small)?;
    let before = reset_peak_memory()?;
    let large = list_time(large)?;
    let memory = peak_memory().saturating_sub(before);
    if memory > MAX_PAGE_MEMORY {
        return Err(format!("{} tools took {memory} KiB, more than {MAX_PAGE_MEMORY} KiB", 4 * TOOLS));
    }
    Ok(format!("{} and {memory} KiB", linear("tools", TOOLS, small, large)?))
}

/// Schemas of tools that nest as deeply as they are long.
pub(crate) fn schemas() -> Result<String, String> {
    let (small, large) = (schema(1)?, schema(4)?);
    let small_time = schema_time(&small)?;
    let before = reset_peak_memory()?;
    let large_time = schema_time(&large)?;
    let memory = peak_memory().saturating_sub(before);
    if memory > MAX_SCHEMA_MEMORY {
        return Err(format!("reading a schema took {memory} KiB, more than {MAX_SCHEMA_MEMORY} KiB"));
    }
    Ok(format!("{} and {memory} KiB", linear("bytes of schema", small.get().len(), small_time, large_time)?))
}

/// A schema of this many times 2 MiB, with this many times 28 levels above most of it.
fn schema(times: usize) -> Result<Json, String> {
    let mut bulk = String::new();
    for number in 0..times * SCHEMA_PROPERTIES {
        let separator = if number == 0 { "" } else { "," };
        bulk.push_str(&format!(r#"{separator}"p{number:08}":{{"title":"x","items":[[1]]}}"#));
    }
    let open = r#"{"properties":{"p":"#.repeat(14 * times);
    let nested = format!(r#"{open}{{"properties":{{{bulk}}}}}{}"#, "}}".repeat(14 * times));
    let annotated = r#"{"type":"string","x-mcp-header":"A"}"#;
    let schema = format!(r#"{{"type":"object","properties":{{"a":{annotated},"b":{nested}}}}}"#);
    schema.parse().map_err(|error| format!("{error}"))
}

/// The shortest time in which the annotations of this schema are read.
fn schema_time(schema: &Json) -> Result<Duration, String> {
    let mut fastest = Duration::MAX;
    for _ in 0..RUNS {
        let start = Instant::now();
        let headers = ParamHeaders::of(schema).map_err(|error| error.to_string())?;
        fastest = fastest.min(start.elapsed());
        if headers.is_empty() {
            return Err("the annotation was not found".to_owned());
        }
    }
    Ok(fastest)
}

/// The figures of two measurements, if the larger one is in proportion.
fn linear(what: &str, count: usize, small: Duration, large: Duration) -> Result<String, String> {
    let ratio = large.as_secs_f64() / small.as_secs_f64();
    let figures = format!("{count} {what} in {small:.1?}, {} in {large:.1?} ({ratio:.1} times)", 4 * count);
    if ratio > MAX_RATIO { Err(format!("not linear: {figures}")) } else { Ok(figures) }
}

/// The shortest time in which the client reads this page.
fn list_time(page: String) -> Result<Duration, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    // Ends with the client: it has one connection, and closes it.
    let server = std::thread::spawn(move || serve(&listener, &page));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let fastest = runtime.map_err(|error| error.to_string())?.block_on(async {
        let config = ServerConfig::url(format!("http://{address}/mcp"));
        let client = McpClient::connect(config).await.map_err(|error| error.to_string())?;
        let mut fastest = Duration::MAX;
        for _ in 0..RUNS {
            let start = Instant::now();
            let list = client.tools().await.map_err(|error| error.to_string())?;
            fastest = fastest.min(start.elapsed());
            if !list.items.is_empty() || list.cut.is_none() {
                return Err(format!("{} tools passed, cut: {:?}", list.items.len(), list.cut));
            }
        }
        client.close().await;
        Ok(fastest)
    })?;
    server.join().map_err(|_| "the server panicked")?.map_err(|error| error.to_string())?;
    Ok(fastest)
}

/// A result as text, so that making it takes no memory that would hide what reading it takes.
fn page(tools: usize) -> String {
    let mut page = r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":["#.to_owned();
    for number in 0..tools {
        let separator = if number == 0 { "" } else { "," };
        let property = r#"{"type":"string","x-mcp-header":"not a token"}"#;
        let schema = format!(r#"{{"type":"object","properties":{{"a":{property}}}}}"#);
        page.push_str(&format!(r#"{separator}{{"name":"tool-{number}","inputSchema":{schema}}}"#));
    }
    page + "]}"
}

/// Answers a client on its only connection.
fn serve(listener: &TcpListener, page: &str) -> std::io::Result<()> {
    let (stream, _) = listener.accept()?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let discovered = json!({
        "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
    })
    .to_string();
    while let Some(request) = read_request(&mut reader)? {
        let result = if request["method"] == "tools/list" { page } else { &discovered };
        let (start, end) = (format!(r#"{{"jsonrpc":"2.0","id":{},"result":"#, request["id"]), "}");
        let length = start.len() + result.len() + end.len();
        write!(
            &stream,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{start}{result}{end}"
        )?;
    }
    Ok(())
}

fn read_request(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<Value>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        match line.trim_end().to_ascii_lowercase().split_once(':') {
            Some(("content-length", value)) => length = value.trim().parse().unwrap_or(0),
            Some(_) => {}
            None if line.trim_end().is_empty() => break,
            None => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(serde_json::from_slice(&body)?))
}

/// Forgets the peak of earlier parts, and returns the memory that this program has now, in KiB.
fn reset_peak_memory() -> Result<u64, String> {
    std::fs::write("/proc/self/clear_refs", "5")
        .map_err(|error| format!("/proc/self/clear_refs: {error}"))?;
    Ok(peak_memory())
}

/// The most memory that this program has had since the peak was reset, in KiB.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
