//! Tools that return content, and tools that send progress, log messages or changes.

use std::time::Duration;

use mcp_server::protocol::content::{AudioContent, ContentBlock, EmbeddedResource, ImageContent};
use mcp_server::protocol::logging::LogLevel;
use mcp_server::protocol::resources::ResourceContents;
use mcp_server::{Context, Json, McpServer, NoArgs, Tool, ToolError, tool};
use serde_json::json;

pub(crate) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

fn resource(uri: &str, mime_type: &str, text: &str) -> ContentBlock {
    EmbeddedResource::new(ResourceContents::new(uri).mime_type(mime_type).text(text)).into()
}

pub(crate) fn image() -> ContentBlock {
    ImageContent::new(PNG, "image/png").into()
}

pub(crate) fn add(server: McpServer) -> McpServer {
    server
        .tool(
            tool("test_simple_text", || async { "This is a simple text response for testing." })
                .description("Says a sentence."),
        )
        .tool(tool("test_image_content", || async { image() }).description("Shows a picture."))
        .tool(
            tool("test_audio_content", || async { ContentBlock::from(AudioContent::new(WAV, "audio/wav")) })
                .description("Plays silence."),
        )
        .tool(
            tool("test_embedded_resource", || async {
                resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")
            })
            .description("Holds a resource."),
        )
        .tool(
            tool("test_multiple_content_types", || async {
                vec![
                    ContentBlock::text("Multiple content types test:"),
                    image(),
                    resource(
                        "test://mixed-content-resource",
                        "application/json",
                        r#"{"test":"data","value":123}"#,
                    ),
                ]
            })
            .description("Holds several things."),
        )
        .tool(
            tool("test_error_handling", || async {
                Err::<(), _>(ToolError::new("This tool intentionally returns an error for testing"))
            })
            .description("Fails."),
        )
        .tool(tool("test_tool_with_progress", with_progress).description("Tells how far it is."))
        .tool(tool("test_tool_with_logging", with_logging).description("Logs what it does."))
        .tool(tool("test_logging_tool", with_logging).description("Logs what it does."))
        .tool(tool("test_trigger_tool_change", change_tools).description("Changes the list of tools."))
        .tool(tool("test_trigger_prompt_change", change_prompts).description("Changes the list of prompts."))
        .tool(tool("test_reconnection", reconnection).description("Sends the client away and answers later."))
        .tool(
            Tool::dynamic("json_schema_2020_12_tool", schema_2020_12(), |_: Json| async { "valid" })
                .description("Has a schema with many keywords."),
        )
        .tool(
            Tool::dynamic("test_custom_headers", header_schema(), |arguments: Json| async move {
                arguments.get().to_owned()
            })
            .description("Has an argument that travels as a header."),
        )
}

async fn with_progress(_: NoArgs, cx: Context) -> &'static str {
    for progress in [0.0, 50.0, 100.0] {
        cx.progress(progress, 100.0);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    "done"
}

async fn with_logging(_: NoArgs, cx: Context) -> &'static str {
    for message in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        cx.log(LogLevel::Info, message);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    "done"
}

/// Changes a list and restores it, because other scenarios compare the lists.
async fn change_tools(_: NoArgs, cx: Context) -> Result<&'static str, ToolError> {
    cx.registry().add_tool(tool("changing", || async { "changed" }))?;
    cx.registry().remove_tool("changing");
    Ok("changed")
}

async fn change_prompts(_: NoArgs, cx: Context) -> Result<&'static str, ToolError> {
    let changing = mcp_server::protocol::prompts::Prompt::new("changing");
    cx.registry().add_prompt(mcp_server::prompt(changing, || async { "changed" }))?;
    cx.registry().remove_prompt("changing");
    Ok("changed")
}

async fn reconnection(_: NoArgs, cx: Context) -> &'static str {
    cx.close_sse_stream(Duration::from_millis(500));
    tokio::time::sleep(Duration::from_millis(100)).await;
    "The client came back."
}

fn header_schema() -> serde_json::Value {
    json!({
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    })
}

fn schema_2020_12() -> serde_json::Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            },
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}
