//! A server with rmcp: both eras. It asks in the legacy one only. `peer-rmcp-server`, or `peer-rmcp-server http PORT`

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer, ServiceExt};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;

/// Shared by all sessions.
#[derive(Clone, Default)]
struct Server {
    cancelled: Arc<AtomicUsize>,
    is_grown: Arc<AtomicBool>,
}

fn text(text: impl Into<String>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text.into())]).into()
}

fn failed(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(
            ServerCapabilities::builder().enable_tools().enable_tool_list_changed().enable_resources().build(),
        )
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({"type": "object"}).as_object().cloned().unwrap_or_default();
        let mut names = vec!["echo", "slow", "wait", "cancelled", "ask", "grow"];
        if self.is_grown.load(Ordering::SeqCst) {
            names.push("grown");
        }
        let tools = names.into_iter().map(|name| Tool::new(name, name, schema.clone())).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match &*request.name {
            "echo" => {
                let arguments = request.arguments.unwrap_or_default();
                Ok(text(arguments["text"].as_str().unwrap_or_default()))
            }
            "slow" => {
                let token = context.meta.get_progress_token().ok_or_else(|| failed("no token"))?;
                for step in 1..=3 {
                    let params = ProgressNotificationParam::new(token.clone(), f64::from(step)).with_total(3.0);
                    context.peer.notify_progress(params).await.map_err(failed)?;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Ok(text("done"))
            }
            "wait" => {
                tokio::select! {
                    () = context.ct.cancelled() => {
                        self.cancelled.fetch_add(1, Ordering::SeqCst);
                    }
                    () = tokio::time::sleep(Duration::from_secs(60)) => {}
                }
                Ok(text("waited"))
            }
            "cancelled" => Ok(text(self.cancelled.load(Ordering::SeqCst).to_string())),
            "ask" => {
                let form = json!({"mode": "form", "message": "Who are you?", "requestedSchema": {"type": "object",
                    "properties": {"name": {"type": "string"}}, "required": ["name"]}});
                let params = serde_json::from_value(form).map_err(failed)?;
                let answer = context.peer.create_elicitation(params).await.map_err(failed)?;
                let content = answer.content.unwrap_or_default();
                Ok(text(format!("Hello, {}!", content["name"].as_str().unwrap_or_default())))
            }
            "grow" => {
                self.is_grown.store(true, Ordering::SeqCst);
                context.peer.notify_tool_list_changed().await.map_err(failed)?;
                Ok(text("grown"))
            }
            other => Err(ErrorData::invalid_params(format!("no tool {other}"), None)),
        }
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let result = json!({"contents": [{"uri": request.uri, "text": "hello"}]});
        let result: rmcp::model::ReadResourceResult = serde_json::from_value(result).map_err(failed)?;
        Ok(result.into())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let server = Server::default();
    let mut words = std::env::args().skip(1);
    let (Some("http"), Some(port)) = (words.next().as_deref(), words.next()) else {
        server.serve(rmcp::transport::stdio()).await?.waiting().await?;
        return Ok(());
    };
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port.parse()?)).await?;
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}
