//! Our own server, with the tools that all of them have: `servers own PORT`; and a client in a process of its own:
//! `servers call URL`

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_client::{McpClient, ServerConfig};
use mcp_server::http::HttpOptions;
use mcp_server::protocol::elicitation::{ElicitFormParams, FieldValue, FormSchema, StringSchema};
use mcp_server::protocol::resources::Resource;
use mcp_server::{Context, McpServer, NoArgs, ToolError, resource, tool};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

/// Counts a call that is dropped.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

pub(crate) fn serve(port: &str) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (Ok(port), Ok(runtime)) = (port.parse::<u16>(), runtime) else { return ExitCode::from(2) };
    let served = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
        server().serve_listener(listener, HttpOptions::default(), std::future::pending()).await
    });
    if served.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Calls `echo`, and prints what it says, or why not.
pub(crate) fn call(url: &str) -> ExitCode {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return ExitCode::from(2);
    };
    let said: mcp_client::Result<String> = runtime.block_on(async {
        let client = McpClient::connect(ServerConfig::url(url)).await?;
        let outcome = client.call("echo", serde_json::json!({"text": "hi"})).await?;
        client.close().await;
        Ok(outcome.text())
    });
    match said {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn server() -> McpServer {
    let dropped = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&dropped);
    let grown = AtomicUsize::new(0);
    McpServer::named("ours", "1")
        .tool(tool("echo", |Text { text }: Text| async { text }))
        .tool(tool("slow", |_: NoArgs, cx: Context| async move {
            for step in 1..=3 {
                cx.progress(f64::from(step), 3.0);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            "done"
        }))
        .tool(tool("wait", move || {
            let counted = Dropped(Arc::clone(&counted));
            async move {
                tokio::time::sleep(Duration::from_secs(60)).await;
                drop(counted);
                "waited"
            }
        }))
        .tool(tool("cancelled", move || {
            let count = dropped.load(Ordering::SeqCst);
            async move { count.to_string() }
        }))
        .tool(tool("ask", ask))
        .tool(tool("grow", move |_: NoArgs, cx: Context| {
            let name = format!("grown-{}", grown.fetch_add(1, Ordering::SeqCst));
            async move {
                cx.registry().add_tool(tool(name, || async { "new" }))?;
                Ok::<_, ToolError>("grown")
            }
        }))
        .resource(resource(Resource::new("note://hello", "note"), || async { "hello" }))
}

async fn ask(_: NoArgs, cx: Context) -> Result<String, ToolError> {
    let form = FormSchema::new().field("name", StringSchema::new()).required(["name".to_owned()]);
    let answer = cx.ask("name", ElicitFormParams::new("Who are you?", form)).await?;
    match answer.content.and_then(|content| content.get("name").cloned()) {
        Some(FieldValue::String(name)) => Ok(format!("Hello, {name}!")),
        _ => Err(ToolError::new("nobody")),
    }
}
