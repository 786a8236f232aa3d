//! The client that the official conformance suite tests: `conformance-client URL`, with the scenario in the environment.

#[path = "client/login.rs"]
mod login;

use std::process::ExitCode;

use mcp_client::protocol::Json;
use mcp_client::protocol::content::Role;
use mcp_client::protocol::elicitation::{ElicitAction, ElicitResult};
use mcp_client::protocol::roots::Root;
use mcp_client::protocol::sampling::{CreateMessageResult, SamplingBlock};
use mcp_client::{Handlers, McpClient, Result, ServerConfig};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let Some(url) = std::env::args().nth(1) else {
        eprintln!("usage: MCP_CONFORMANCE_SCENARIO=NAME conformance-client URL");
        return ExitCode::from(2);
    };
    match run(&scenario, &url).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{scenario}: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(scenario: &str, url: &str) -> Result<()> {
    // Forms are accepted without values, so that every field gets its default.
    let handlers = Handlers::new()
        .on_form(|_| async { ElicitResult::new(ElicitAction::Accept) })
        .on_sample(|_| async {
            Ok(CreateMessageResult::new(Role::Assistant, SamplingBlock::text("nothing"), "none"))
        })
        .on_roots(|| async { vec![Root::new("file:///tmp")] });
    let connect = match scenario.starts_with("auth/") {
        true => login::connect(scenario, url, &context()),
        false => McpClient::builder(ServerConfig::url(url)),
    };
    let client =
        connect.name("conformance-client", env!("CARGO_PKG_VERSION")).handlers(handlers).connect().await?;
    match scenario {
        "initialize" => {}
        "elicitation-sep1034-client-defaults" => call(&client, "test_client_elicitation_defaults").await?,
        "sse-retry" => call(&client, "test_reconnection").await?,
        "tools_call" => {
            client.list_tools().await?;
            client.call("add_numbers", json!({"a": 5, "b": 3})).await?;
        }
        "http-custom-headers" => {
            client.list_tools().await?;
            for (tool, arguments) in calls_of_context() {
                client.call(tool, arguments).await?;
            }
        }
        "http-invalid-tool-headers" => {
            for tool in client.list_tools().await? {
                client.call(tool.name, json!({"region": "us-west1"})).await?;
            }
        }
        "json-schema-ref-no-deref" => drop(client.list_tools().await?),
        "json-schema-2020-12-preservation" => {
            let tools = client.list_tools().await?;
            let tool = tools.iter().find(|tool| tool.name == "json_schema_2020_12_tool");
            let schema = tool.map(|tool| tool.input_schema.to::<serde_json::Value>());
            client
                .call("json_schema_echo", json!({"schema": schema.and_then(std::result::Result::ok)}))
                .await?;
        }
        "sep-2322-client-request-state" => {
            let tools = [
                "test_mrtr_echo_state",
                "test_mrtr_no_state",
                "test_mrtr_unrelated",
                "test_mrtr_no_result_type",
            ];
            for tool in tools {
                call(&client, tool).await?;
            }
        }
        auth if auth.starts_with("auth/") => login::use_tools(&client).await?,
        _ => everything(&client).await?,
    }
    client.close().await;
    Ok(())
}

async fn call(client: &McpClient, tool: &str) -> Result<()> {
    client.list_tools().await?;
    client.call(tool, json!({})).await.map(drop)
}

/// Uses everything that the server offers.
async fn everything(client: &McpClient) -> Result<()> {
    for tool in client.list_tools().await? {
        client.call(tool.name, json!({})).await?;
    }
    for resource in client.list_resources().await? {
        client.read_resource(resource.uri).await?;
    }
    client.list_resource_templates().await?;
    for prompt in client.list_prompts().await? {
        client.get_prompt(prompt.name, ()).await?;
    }
    Ok(())
}

/// What a scenario gives to the client.
fn context() -> serde_json::Value {
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    serde_json::from_str(&context).unwrap_or_default()
}

/// The calls that a scenario requires.
fn calls_of_context() -> Vec<(String, Json)> {
    let context = context();
    let calls = context["toolCalls"].as_array().into_iter().flatten();
    calls
        .filter_map(|call| Some((call["name"].as_str()?.to_owned(), Json::from(call["arguments"].clone()))))
        .collect()
}
