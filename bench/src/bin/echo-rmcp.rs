//! An echo server with rmcp: as its README shows, or with `--best` its pipes on one thread. `--tools N` adds tools.

use std::sync::Arc;

use mcp_bench::rmcp_echo::Echo;
use rmcp::model::Tool;
use rmcp::service::ServiceExt;

async fn serve(count: usize, best: bool) {
    let schema: Arc<serde_json::Map<String, serde_json::Value>> =
        Arc::new(serde_json::from_str(mcp_bench::SCHEMA).unwrap());
    let tools = (0..count)
        .map(|n| {
            Tool::new(
                format!("tool_{n}"),
                format!("Does the thing number {n} and tells about it."),
                schema.clone(),
            )
        })
        .collect();
    let echo = Echo { tools };
    if best {
        echo.serve(rmcp::transport::io::stdio_pipes()).await.unwrap().waiting().await.unwrap();
    } else {
        echo.serve(rmcp::transport::stdio()).await.unwrap().waiting().await.unwrap();
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let count = arguments.get(2).and_then(|count| count.parse().ok()).unwrap_or(0);
    let best = arguments.iter().any(|argument| argument == "--best");
    let mut builder = if best {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    builder.enable_all().build().unwrap().block_on(serve(count, best));
}
