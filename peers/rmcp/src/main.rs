//! The official Rust SDK (rmcp) as a client, in both eras. `peers/run` counts the steps.
//!
//! `peer-rmcp ERA stdio stdio-server PROGRAM LOG`, or `peer-rmcp ERA http URL`

mod handler;

use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, GetPromptRequestParams,
    ProtocolVersion, ReadResourceRequestParams, ResourceContents, ServerNotification, SubscriptionFilter,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, PeerRequestOptions, RoleClient, RunningService, Subscription,
};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::handler::{Handler, Seen};

/// The timeout for events that should happen immediately.
const LATEST: Duration = Duration::from_secs(5);

type Client = RunningService<RoleClient, Handler>;

/// The transport and address of the server.
struct Target {
    modern: bool,
    http: bool,
    server: Vec<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // `step` has printed the error.
    if run().await.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn run() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let modern = arguments.next().as_deref() == Some("modern");
    let http = arguments.next().as_deref() == Some("http");
    let target = Target { modern, http, server: arguments.collect() };
    let seen = Seen::default();

    let client = step("connect", connect(&target, &seen)).await?;
    step("list", list(&client)).await?;
    step("call", call(&client)).await?;
    step("read", read(&client)).await?;
    step("get", get(&client)).await?;
    step("complete", complete(&client)).await?;
    step("ask", ask(&client)).await?;
    step("progress", progress(&client, &seen)).await?;
    let subscription = step("grow", grow(&client, &target)).await?;
    step("notice", notice(subscription, &seen)).await?;
    step("cancel", cancel(&client)).await?;
    step("end", end(client, &target)).await
}

async fn step<T>(name: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    match work.await {
        Ok(value) => {
            println!("ok {name}");
            Ok(value)
        }
        Err(error) => {
            println!("FAILED {name}: {error:#}");
            Err(error)
        }
    }
}

async fn connect(target: &Target, seen: &Seen) -> Result<Client> {
    let handler = Handler::new(seen.clone());
    let lifecycle = if target.modern {
        ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: None,
        }
    } else {
        ClientLifecycleMode::Initialize
    };
    let client = if target.http {
        let transport = StreamableHttpClientTransport::from_uri(target.server[0].as_str());
        handler.serve_with_lifecycle(transport, lifecycle).await?
    } else {
        let mut command = Command::new(&target.server[0]);
        command.args(&target.server[1..]);
        handler.serve_with_lifecycle(TokioChildProcess::new(command)?, lifecycle).await?
    };
    let server = client.peer_info().context("the server did not introduce itself")?;
    let expected = if target.modern { ProtocolVersion::V_2026_07_28 } else { ProtocolVersion::V_2025_11_25 };
    ensure!(server.protocol_version == expected, "{:?}", server.protocol_version);
    ensure!(server.server_info.as_ref().is_some_and(|info| info.name == "everything"));
    Ok(client)
}

async fn list(client: &Client) -> Result<()> {
    let tools = tool_names(client).await?;
    for name in ["echo", "add", "sleep", "running", "ask", "fail", "grow"] {
        ensure!(tools.iter().any(|tool| tool == name), "no tool {name}");
    }
    let resources = client.list_all_resources().await?;
    ensure!(resources.len() == 1 && resources[0].name == "motd", "{resources:?}");
    let templates = client.list_all_resource_templates().await?;
    ensure!(templates.len() == 1 && templates[0].name == "row", "{templates:?}");
    let prompts = client.list_all_prompts().await?;
    ensure!(prompts.len() == 1 && prompts[0].name == "greet", "{prompts:?}");
    Ok(())
}

async fn call(client: &Client) -> Result<()> {
    ensure!(text(client, "echo", json!({"text": "hello"})).await? == "hello");
    let sum = client.call_tool(tool("add", json!({"a": 2, "b": 3}))).await?;
    ensure!(sum.structured_content == Some(json!({"sum": 5})), "{sum:?}");
    let failed = client.call_tool(tool("fail", json!({"message": "no luck"}))).await?;
    ensure!(failed.is_error == Some(true) && text_of(&failed)? == "no luck", "{failed:?}");
    Ok(())
}

async fn read(client: &Client) -> Result<()> {
    for (uri, expected) in [("motd://today", "Be kind."), ("row://t/7", "row 7 of t")] {
        let result = client.read_resource(ReadResourceRequestParams::new(uri)).await?;
        let [ResourceContents::TextResourceContents { text, .. }] = result.contents.as_slice() else {
            bail!("{result:?}");
        };
        ensure!(text == expected, "{text}");
    }
    Ok(())
}

async fn get(client: &Client) -> Result<()> {
    let params = GetPromptRequestParams::new("greet").with_arguments(object(json!({"language": "Latin"})));
    let prompt = client.get_prompt(params).await?;
    let message = prompt.messages.first().and_then(|message| message.content.as_text());
    ensure!(message.is_some_and(|text| text.text == "Greet me in Latin."), "{prompt:?}");
    Ok(())
}

async fn complete(client: &Client) -> Result<()> {
    let values = client.complete_prompt_simple("greet", "language", "G").await?;
    ensure!(values == ["German", "Greek"], "{values:?}");
    Ok(())
}

async fn ask(client: &Client) -> Result<()> {
    let greeting = text(client, "ask", json!({})).await?;
    ensure!(greeting == "Hello, Ada!", "{greeting}");
    Ok(())
}

/// rmcp handles each notification in its own task: they may arrive in any order, and after the response.
async fn progress(client: &Client, seen: &Seen) -> Result<()> {
    ensure!(text(client, "sleep", json!({"ms": 300})).await? == "slept 300 ms");
    until("progress comes more than once", async || Ok(seen.progress().len() > 1)).await?;
    let seen = seen.progress();
    let plausible = |(step, total): &(f64, Option<f64>)| (1.0..=10.0).contains(step) && *total == Some(10.0);
    ensure!(seen.iter().all(plausible), "{seen:?}");
    Ok(())
}

async fn grow(client: &Client, target: &Target) -> Result<Option<Subscription>> {
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    let subscription = if target.modern { Some(client.listen(filter).await?) } else { None };
    ensure!(text(client, "grow", json!({})).await? == "grown");
    ensure!(tool_names(client).await?.iter().any(|name| name == "grown"));
    ensure!(text(client, "grown", json!({})).await? == "I am new.");
    Ok(subscription)
}

/// Changes arrive through the subscription in the modern era, and through the handler in the legacy era.
async fn notice(subscription: Option<Subscription>, seen: &Seen) -> Result<()> {
    let Some(mut subscription) = subscription else {
        return until("the handler is told", async || Ok(seen.tools_changed())).await;
    };
    let told = timeout(LATEST, subscription.next()).await??;
    ensure!(matches!(told, Some(ServerNotification::ToolListChangedNotification(_))), "{told:?}");
    subscription.cancel().await?;
    Ok(())
}

async fn cancel(client: &Client) -> Result<()> {
    let request = CallToolRequest::new(tool("sleep", json!({"ms": 60_000})));
    let request = ClientRequest::CallToolRequest(request);
    let sleeping = client.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
    until("the sleep runs", async || Ok(text(client, "running", json!({})).await? == "1")).await?;
    sleeping.cancel(Some("enough".to_owned())).await?;
    until("the sleep was cancelled", async || Ok(text(client, "running", json!({})).await? == "0")).await
}

async fn end(mut client: Client, target: &Target) -> Result<()> {
    client.close().await?;
    if target.http {
        let mut next = connect(target, &Seen::default()).await?;
        ensure!(text(&next, "echo", json!({"text": "next"})).await? == "next");
        next.close().await?;
    } else {
        let log = std::fs::read_to_string(&target.server[2])?;
        ensure!(log == "started\nended 0\n", "{log}");
    }
    Ok(())
}

async fn tool_names(client: &Client) -> Result<Vec<String>> {
    Ok(client.list_all_tools().await?.into_iter().map(|tool| tool.name.into_owned()).collect())
}

async fn text(client: &Client, name: &'static str, arguments: Value) -> Result<String> {
    text_of(&client.call_tool(tool(name, arguments)).await?)
}

fn text_of(result: &CallToolResult) -> Result<String> {
    let text = result.content.first().and_then(|content| content.as_text()).context("no text")?;
    Ok(text.text.clone())
}

fn tool(name: &'static str, arguments: Value) -> CallToolRequestParams {
    CallToolRequestParams::new(name).with_arguments(object(arguments))
}

fn object(value: Value) -> serde_json::Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => serde_json::Map::new(),
    }
}

async fn until(what: &str, holds: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let waiting = async {
        while !holds().await? {
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    };
    timeout(LATEST, waiting).await.with_context(|| format!("not within {LATEST:?}: {what}"))?
}
