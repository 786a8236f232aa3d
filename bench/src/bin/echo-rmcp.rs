//! An echo server with rmcp: as its README shows, or with `--best` its pipes on one thread. `--tools N` adds tools.

use std::sync::Arc;

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer, ServiceExt};

#[derive(Clone)]
struct Echo {
    tools: Vec<Tool>,
}

#[derive(serde::Deserialize)]
struct Arguments {
    text: String,
}

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.clone()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = serde_json::Value::Object(request.arguments.unwrap_or_default());
        let Arguments { text } = serde_json::from_value(arguments).unwrap();
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

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
