//! The messages of the newest revision, read by an independent crate.

use mcp_protocol::Dialect;
use mcp_protocol::dialect::Lower;
use mcp_protocol::errors::ErrorCode;
use mcp_protocol::logging::{LogLevel, LogMessageParams};
use mcp_protocol::messages::{CancelledParams, Method, ProgressParams, write};
use mcp_protocol::meta::Meta;
use mcp_protocol::resources::ResourceUpdatedParams;
use mcp_protocol::subscriptions::{AcknowledgedParams, ListenParams, SubscriptionFilter};
use rust_mcp_schema as other;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::samples;

/// Checks that a value lowered by this crate, then read and written by the other crate, is unchanged in the members it
/// knows.
fn check<T: DeserializeOwned + Serialize>(value: &impl Lower) {
    let ours = serde_json::to_value(Dialect::V2026_07_28.lower(value)).unwrap();
    let theirs: T = serde_json::from_value(ours.clone()).unwrap_or_else(|error| panic!("{error}: {ours}"));
    let back = serde_json::to_value(&theirs).unwrap();
    let lost = differences(&ours, &back, String::new());
    assert!(lost.is_empty(), "{}: {lost:?}", std::any::type_name::<T>());
}

/// Returns the members that changed.
fn differences(ours: &Value, theirs: &Value, path: String) -> Vec<String> {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => ours
            .iter()
            .flat_map(|(name, value)| {
                differences(value, theirs.get(name).unwrap_or(&Value::Null), format!("{path}/{name}"))
            })
            .collect(),
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => ours
            .iter()
            .zip(theirs)
            .enumerate()
            .flat_map(|(at, (ours, theirs))| differences(ours, theirs, format!("{path}/{at}")))
            .collect(),
        (ours, theirs) if ours == theirs || ours.as_f64().is_some() && ours.as_f64() == theirs.as_f64() => {
            Vec::new()
        }
        _ => vec![path],
    }
}

#[test]
fn newest_messages_are_read_by_an_independent_crate() {
    check::<other::CallToolRequestParams>(&samples::call_tool_params());
    check::<other::CallToolResult>(&samples::call_tool_result());
    check::<other::ListToolsResult>(&samples::list_tools_result());
    check::<other::DiscoverResult>(&samples::discover_result());
    check::<other::ListResourcesResult>(&samples::list_resources_result());
    check::<other::ListResourceTemplatesResult>(&samples::list_templates_result());
    check::<other::ReadResourceRequestParams>(&samples::read_params());
    check::<other::ReadResourceResult>(&samples::read_result());
    check::<other::ListPromptsResult>(&samples::list_prompts_result());
    check::<other::GetPromptRequestParams>(&samples::get_prompt_params());
    check::<other::GetPromptResult>(&samples::get_prompt_result());
    check::<other::CompleteRequestParams>(&samples::complete_params());
    check::<other::CompleteResult>(&samples::complete_result());
    // The other crate's union of field schemas takes the first match and drops the options, so only reading is checked.
    let ours = serde_json::to_value(Dialect::V2026_07_28.lower(&samples::input_required_result())).unwrap();
    serde_json::from_value::<other::InputRequiredResult>(ours).unwrap();
    check::<other::CreateMessageResult>(&samples::create_message_result());
    check::<other::ListRootsResult>(&samples::list_roots_result());
    check::<other::ElicitResult>(&samples::elicit_result(Dialect::V2026_07_28));
    check::<other::Implementation>(&samples::implementation());
    check::<other::ClientCapabilities>(&samples::client_capabilities());
    check::<other::ServerCapabilities>(&samples::server_capabilities());
    check::<other::CreateMessageRequestParams>(&samples::create_message_params(Dialect::V2026_07_28));
    check::<other::PaginatedRequestParams>(&samples::page_params());
}

#[test]
fn newest_notifications_are_read_by_an_independent_crate() {
    let filter = SubscriptionFilter::new().tools_list_changed(true).resource_subscriptions(["r://1".into()]);
    check::<other::SubscriptionsListenRequestParams>(
        &ListenParams::new(filter.clone()).meta(samples::meta()),
    );
    let subscription = Meta::new().subscription_id(7);
    check::<other::SubscriptionsAcknowledgedNotificationParams>(
        &AcknowledgedParams::new(filter).meta(subscription.clone()),
    );
    check::<other::ResourceUpdatedNotificationParams>(
        &ResourceUpdatedParams::new("r://1").meta(subscription),
    );
    check::<other::ProgressNotificationParams>(&ProgressParams::new("t", 0.5).total(1.0).message("half"));
    check::<other::CancelledNotificationParams>(&CancelledParams::new(7).reason("no"));
    check::<other::LoggingMessageNotificationParams>(
        &LogMessageParams::new(LogLevel::Info, serde_json::json!({"a": 1})).logger("l"),
    );
}

/// Complete messages, including the envelope.
#[test]
fn newest_envelopes_are_read_by_an_independent_crate() {
    let mut out = Vec::new();
    let params = samples::call_tool_params();
    write::request(&mut out, &7.into(), &Method::ToolsCall, &Dialect::V2026_07_28.lower(&params)).unwrap();
    let read: other::CallToolRequest = serde_json::from_slice(&out).unwrap();
    assert_eq!(read.params.name, params.name);
    out.clear();
    let error = mcp_protocol::errors::ErrorObject::new(ErrorCode::InvalidParams, "no");
    write::error(&mut out, Some(&"x".into()), write::NoId::Omitted, &error).unwrap();
    let read: other::JsonrpcErrorResponse = serde_json::from_slice(&out).unwrap();
    assert_eq!(read.error.code, -32602);
}
