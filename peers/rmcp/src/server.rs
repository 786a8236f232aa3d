//! A server with rmcp: both eras. `peer-rmcp-server`, or `peer-rmcp-server http PORT`

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, InputRequest,
    InputRequiredResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig, SubscriptionFilter,
    Tool,
};
use rmcp::service::{RequestContext, RoleServer, ServiceExt, SubscriptionContext};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use tokio::sync::watch;

/// State that all sessions share.
#[derive(Clone, Default)]
struct Server {
    cancelled: Arc<AtomicUsize>,
    grown: watch::Sender<bool>,
}

/// Requests a name with an input-required result (modern era), unless the call contains it.
fn ask_modern(request: &CallToolRequestParams) -> Result<CallToolResponse, ErrorData> {
    let given = request.input_responses.as_ref().and_then(|responses| responses.get("who"));
    if let Some(given) = given {
        return Ok(text(format!("Hello, {}!", given["content"]["name"].as_str().unwrap_or_default())));
    }
    let ask = json!({"method": "elicitation/create", "params": form()});
    let ask: InputRequest = serde_json::from_value(ask).map_err(failed)?;
    Ok(InputRequiredResult::from_input_requests([("who".to_owned(), ask)].into()).into())
}

fn form() -> serde_json::Value {
    json!({"mode": "form", "message": "Who are you?", "requestedSchema": {"type": "object",
        "properties": {"name": {"type": "string"}}, "required": ["name"]}})
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
            ServerCapabilities::builder()
                .enable_tools()
                .enable_tool_list_changed()
                .enable_resources()
                .build(),
        )
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({"type": "object"}).as_object().cloned().unwrap_or_default();
        let mut names = vec!["echo", "slow", "wait", "cancelled", "ask", "grow"];
        if *self.grown.borrow() {
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
                    let params =
                        ProgressNotificationParam::new(token.clone(), f64::from(step)).with_total(3.0);
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
            "ask" if context.protocol_version() == Some(ProtocolVersion::V_2026_07_28) => {
                ask_modern(&request)
            }
            "ask" => {
                let params = serde_json::from_value(form()).map_err(failed)?;
                let answer = context.peer.create_elicitation(params).await.map_err(failed)?;
                let content = answer.content.unwrap_or_default();
                Ok(text(format!("Hello, {}!", content["name"].as_str().unwrap_or_default())))
            }
            "grow" => {
                self.grown.send_replace(true);
                context.peer.notify_tool_list_changed().await.map_err(failed)?;
                Ok(text("grown"))
            }
            other => Err(ErrorData::invalid_params(format!("no tool {other}"), None)),
        }
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut grown = self.grown.subscribe();
        // A tool may have been added since the acknowledgment.
        let mut is_new = *grown.borrow_and_update();
        loop {
            if is_new {
                context.sink().notify_tool_list_changed().await.map_err(failed)?;
            }
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                changed = grown.changed() => is_new = changed.is_ok(),
            }
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
