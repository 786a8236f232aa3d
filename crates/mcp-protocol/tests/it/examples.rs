//! The published examples of 2026-07-28: each round-trips through its type, and is rejected without any of its required
//! members.

use mcp_protocol::capabilities::{ClientCapabilities, ServerCapabilities};
use mcp_protocol::completion::{CompleteParams, CompleteResult};
use mcp_protocol::content::{
    AudioContent, EmbeddedResource, ImageContent, TextContent, ToolResultContent, ToolUseContent,
};
use mcp_protocol::dialect::{Lower, Raise};
use mcp_protocol::elicitation::{
    BooleanSchema, ElicitFormParams, ElicitResult, ElicitUrlParams, NumberSchema, StringSchema,
    TitledMultiSelectSchema, TitledSingleSelectSchema, UntitledMultiSelectSchema, UntitledSingleSelectSchema,
};
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::input::{InputRequest, InputRequests, InputRequiredResult, InputResponses};
use mcp_protocol::logging::LogMessageParams;
use mcp_protocol::messages::{
    CancelledParams, DiscoverResult, EmptyParams, Incoming, Message, Method, PageParams, ProgressParams,
    parse, write,
};
use mcp_protocol::prompts::{GetPromptParams, GetPromptResult, ListPromptsResult, Prompt};
use mcp_protocol::resources::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceParams, ReadResourceResult, Resource,
    ResourceContents, ResourceLink, ResourceTemplate, ResourceUpdatedParams,
};
use mcp_protocol::roots::{ListRootsResult, Root};
use mcp_protocol::sampling::{CreateMessageParams, CreateMessageResult, ModelPreferences, SamplingMessage};
use mcp_protocol::subscriptions::{AcknowledgedParams, ListenParams, ListenResult};
use mcp_protocol::tools::{CallToolParams, CallToolResult, ListToolsResult, Tool};
use mcp_protocol::{Dialect, Limits};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::support;

const NEWEST: Dialect = Dialect::V2026_07_28;

/// A function that parses text into a type and serializes it again.
type RoundTrip = fn(&str) -> Result<String, String>;

fn object<T: DeserializeOwned + Lower>(text: &str) -> Result<String, String> {
    let value: T = serde_json::from_str(text).map_err(|error| error.to_string())?;
    Ok(serde_json::to_string(&NEWEST.lower(&value)).unwrap())
}

/// Round-trips the params of a modern request, which must have the whole envelope.
fn params<T: Raise + Lower>(text: &str) -> Result<String, String> {
    envelope(text)?;
    let value: T = NEWEST.raise_str(text).map_err(|error| error.to_string())?;
    Ok(serde_json::to_string(&NEWEST.lower(&value)).unwrap())
}

fn envelope(text: &str) -> Result<(), String> {
    let params: EmptyParams = NEWEST.raise_str(text).map_err(|error| error.to_string())?;
    match params.meta.unwrap_or_default().missing_from_envelope()[..] {
        [] => Ok(()),
        ref missing => Err(format!("missing {missing:?}")),
    }
}

fn message(text: &str) -> Result<Message<'_>, String> {
    match parse(text, &Limits::default()).map_err(|error| error.to_string())? {
        Incoming::Message(message) => Ok(message),
        Incoming::Batch(_) => Err("a batch".into()),
    }
}

fn request<T: DeserializeOwned + Lower>(text: &str) -> Result<String, String> {
    let Message::Request(request) = message(text)? else { return Err("no request".into()) };
    envelope(request.params.text())?;
    let params: T = request.params.parse().map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    write::request(&mut out, &request.id, &request.method, &NEWEST.lower(&params)).unwrap();
    Ok(String::from_utf8(out).unwrap())
}

fn notification<T: DeserializeOwned + Lower>(text: &str) -> Result<String, String> {
    let Message::Notification(notification) = message(text)? else { return Err("no notification".into()) };
    let params: T = notification.params.parse().map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    write::notification(&mut out, &notification.method, Some(&NEWEST.lower(&params))).unwrap();
    Ok(String::from_utf8(out).unwrap())
}

/// Round-trips a response; the result is read as by a client.
fn response<T: Raise + Lower>(text: &str) -> Result<String, String> {
    let Message::Response(response) = message(text)? else { return Err("no response".into()) };
    let result = response.outcome.map_err(|error| error.to_string())?;
    let result: T = NEWEST.raise(&result).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    write::response(&mut out, &response.id.unwrap(), &NEWEST.lower(&result)).unwrap();
    Ok(String::from_utf8(out).unwrap())
}

/// Round-trips an error response with a known code and data.
fn error_response(text: &str) -> Result<String, String> {
    let Message::Response(response) = message(text)? else { return Err("no response".into()) };
    let Err(error) = response.outcome else { return Err("no error".into()) };
    let data_is_typed = match error.code {
        ErrorCode::UnsupportedVersion => error.unsupported_version_data().is_some(),
        ErrorCode::MissingClientCapability => error.missing_client_capability_data().is_some(),
        ErrorCode::HeaderMismatch => true,
        _ => false,
    };
    if !data_is_typed {
        return Err("no data of its own type".into());
    }
    let mut out = Vec::new();
    write::error(&mut out, response.id.as_ref(), write::NoId::Omitted, &NEWEST.lower(&error)).unwrap();
    Ok(String::from_utf8(out).unwrap())
}

/// Every folder of examples, with the type of its files.
const TYPES: &[(&str, RoundTrip)] = &[
    ("AudioContent", object::<AudioContent>),
    ("BlobResourceContents", object::<ResourceContents>),
    ("BooleanSchema", object::<BooleanSchema>),
    ("CallToolRequest", request::<CallToolParams>),
    ("CallToolRequestParams", params::<CallToolParams>),
    ("CallToolResult", object::<CallToolResult>),
    ("CallToolResultResponse", response::<CallToolResult>),
    ("CancelledNotification", notification::<CancelledParams>),
    ("CancelledNotificationParams", object::<CancelledParams>),
    ("ClientCapabilities", object::<ClientCapabilities>),
    ("CompleteRequest", request::<CompleteParams>),
    ("CompleteRequestParams", params::<CompleteParams>),
    ("CompleteResult", object::<CompleteResult>),
    ("CompleteResultResponse", response::<CompleteResult>),
    ("CreateMessageRequest", object::<InputRequest>),
    ("CreateMessageRequestParams", object::<CreateMessageParams>),
    ("CreateMessageResult", object::<CreateMessageResult>),
    ("DiscoverRequest", request::<EmptyParams>),
    ("DiscoverResult", object::<DiscoverResult>),
    ("DiscoverResultResponse", response::<DiscoverResult>),
    ("ElicitRequest", object::<InputRequest>),
    ("ElicitRequestFormParams", object::<ElicitFormParams>),
    ("ElicitRequestURLParams", object::<ElicitUrlParams>),
    ("ElicitResult", object::<ElicitResult>),
    ("EmbeddedResource", object::<EmbeddedResource>),
    ("GetPromptRequest", request::<GetPromptParams>),
    ("GetPromptRequestParams", params::<GetPromptParams>),
    ("GetPromptResult", object::<GetPromptResult>),
    ("GetPromptResultResponse", response::<GetPromptResult>),
    ("HeaderMismatchError", error_response),
    ("ImageContent", object::<ImageContent>),
    ("InputRequests", object::<InputRequests>),
    ("InputRequiredResult", object::<InputRequiredResult>),
    ("InputResponses", object::<InputResponses>),
    ("InternalError", object::<ErrorObject>),
    ("InvalidParamsError", object::<ErrorObject>),
    ("ListPromptsRequest", request::<PageParams>),
    ("ListPromptsResult", object::<ListPromptsResult>),
    ("ListPromptsResultResponse", response::<ListPromptsResult>),
    ("ListResourceTemplatesRequest", request::<PageParams>),
    ("ListResourceTemplatesResult", object::<ListResourceTemplatesResult>),
    ("ListResourceTemplatesResultResponse", response::<ListResourceTemplatesResult>),
    ("ListResourcesRequest", request::<PageParams>),
    ("ListResourcesResult", object::<ListResourcesResult>),
    ("ListResourcesResultResponse", response::<ListResourcesResult>),
    ("ListRootsRequest", object::<InputRequest>),
    ("ListRootsResult", object::<ListRootsResult>),
    ("ListToolsRequest", request::<PageParams>),
    ("ListToolsResult", object::<ListToolsResult>),
    ("ListToolsResultResponse", response::<ListToolsResult>),
    ("LoggingMessageNotification", notification::<LogMessageParams>),
    ("LoggingMessageNotificationParams", object::<LogMessageParams>),
    ("MethodNotFoundError", object::<ErrorObject>),
    ("MissingRequiredClientCapabilityError", error_response),
    ("ModelPreferences", object::<ModelPreferences>),
    ("NumberSchema", object::<NumberSchema>),
    ("PaginatedRequestParams", params::<PageParams>),
    ("ParseError", object::<ErrorObject>),
    ("ProgressNotification", notification::<ProgressParams>),
    ("ProgressNotificationParams", object::<ProgressParams>),
    ("PromptListChangedNotification", notification::<EmptyParams>),
    ("ReadResourceRequest", request::<ReadResourceParams>),
    ("ReadResourceResult", object::<ReadResourceResult>),
    ("ReadResourceResultResponse", response::<ReadResourceResult>),
    ("Resource", object::<Resource>),
    ("ResourceLink", object::<ResourceLink>),
    ("ResourceListChangedNotification", notification::<EmptyParams>),
    ("ResourceUpdatedNotification", notification::<ResourceUpdatedParams>),
    ("ResourceUpdatedNotificationParams", object::<ResourceUpdatedParams>),
    ("Root", object::<Root>),
    ("SamplingMessage", object::<SamplingMessage>),
    ("ServerCapabilities", object::<ServerCapabilities>),
    ("StringSchema", object::<StringSchema>),
    ("SubscriptionsAcknowledgedNotification", notification::<AcknowledgedParams>),
    ("SubscriptionsListenRequest", request::<ListenParams>),
    ("SubscriptionsListenResult", object::<ListenResult>),
    ("SubscriptionsListenResultResponse", response::<ListenResult>),
    ("TextContent", object::<TextContent>),
    ("TextResourceContents", object::<ResourceContents>),
    ("TitledMultiSelectEnumSchema", object::<TitledMultiSelectSchema>),
    ("TitledSingleSelectEnumSchema", object::<TitledSingleSelectSchema>),
    ("Tool", object::<Tool>),
    ("ToolListChangedNotification", notification::<EmptyParams>),
    ("ToolResultContent", object::<ToolResultContent>),
    ("ToolUseContent", object::<ToolUseContent>),
    ("UnsupportedProtocolVersionError", error_response),
    ("UntitledMultiSelectEnumSchema", object::<UntitledMultiSelectSchema>),
    ("UntitledSingleSelectEnumSchema", object::<UntitledSingleSelectSchema>),
];

fn examples(suite: &str) -> Vec<(String, RoundTrip, String)> {
    let Some(data) = support::spec_data(suite) else { return Vec::new() };
    let mut found = Vec::new();
    for folder in std::fs::read_dir(data.join("examples-2026-07-28")).unwrap() {
        let folder = folder.unwrap();
        let name = folder.file_name().into_string().unwrap();
        let (_, round_trip) =
            TYPES.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("{name}"));
        for file in std::fs::read_dir(folder.path()).unwrap() {
            found.push((name.clone(), *round_trip, std::fs::read_to_string(file.unwrap().path()).unwrap()));
        }
    }
    found
}

#[test]
fn every_example_parses_into_its_type_and_comes_back_equal() {
    let examples = examples("examples of 2026-07-28, round trip");
    for (name, round_trip, text) in &examples {
        let back = round_trip(text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
        let (before, after): (Value, Value) =
            (serde_json::from_str(text).unwrap(), serde_json::from_str(&back).unwrap());
        assert_eq!(before, after, "{name}");
    }
    println!("{} examples", examples.len());
    assert!(examples.is_empty() || examples.len() == 129);
}

/// Members that readers of this revision must tolerate as absent in a response: `resultType`, `ttlMs`, `cacheScope`.
/// Outside responses they are required.
const TOLERATED_IN_RESPONSES: &[&str] = &["resultType", "ttlMs", "cacheScope"];

#[test]
fn every_example_fails_without_any_one_required_member() {
    let examples = examples("examples of 2026-07-28, required members");
    if examples.is_empty() {
        return;
    }
    let data = support::spec_data("").unwrap();
    let (schema, definitions) = support::schema(&data, "2026-07-28");
    let mut removed = 0;
    for (name, round_trip, text) in &examples {
        let value: Value = serde_json::from_str(text).unwrap();
        let mut paths = Vec::new();
        let root = serde_json::json!({ "$ref": format!("#/{definitions}/{name}") });
        required_members(&schema, &root, &value, String::new(), &mut paths);
        for path in paths {
            let (parent, member) = path.rsplit_once('/').unwrap();
            let member = member.replace("~1", "/");
            if name.ends_with("Response") && parent == "/result" && TOLERATED_IN_RESPONSES.contains(&&*member)
            {
                continue;
            }
            let mut without = value.clone();
            without.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(&member).unwrap();
            let result = round_trip(&without.to_string());
            assert!(result.is_err(), "{name} without {path} was read as {result:?}");
            removed += 1;
        }
    }
    println!("{removed} removals");
    assert_eq!(removed, 579);
}

/// Returns the JSON pointers of the members that the schema requires of this value, at every level.
fn required_members(root: &Value, schema: &Value, value: &Value, path: String, found: &mut Vec<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#')).unwrap();
        return required_members(root, target, value, path, found);
    }
    for any in ["anyOf", "allOf"] {
        for branch in schema[any].as_array().into_iter().flatten() {
            if any == "allOf" || support::fits(root, branch, value) {
                required_members(root, branch, value, path.clone(), found);
                if any == "anyOf" {
                    break;
                }
            }
        }
    }
    match value {
        Value::Object(members) => {
            for required in schema["required"].as_array().into_iter().flatten() {
                found.push(format!("{path}/{}", required.as_str().unwrap().replace('/', "~1")));
            }
            for (name, member) in members {
                let below = match schema["properties"].get(name) {
                    Some(below) => below,
                    None => &schema["additionalProperties"],
                };
                if below.is_object() {
                    let path = format!("{path}/{}", name.replace('/', "~1"));
                    required_members(root, below, member, path, found);
                }
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                required_members(root, &schema["items"], item, format!("{path}/{at}"), found);
            }
        }
        _ => {}
    }
}

/// Types that preserve unknown members, by the folder of their examples.
const OPEN: &[&str] = &[
    "AudioContent",
    "CallToolResult",
    "ClientCapabilities",
    "CompleteResult",
    "CreateMessageResult",
    "DiscoverResult",
    "ElicitResult",
    "EmbeddedResource",
    "GetPromptResult",
    "ImageContent",
    "InputRequiredResult",
    "ListPromptsResult",
    "ListResourceTemplatesResult",
    "ListResourcesResult",
    "ListRootsResult",
    "ListToolsResult",
    "ReadResourceResult",
    "Resource",
    "ResourceLink",
    "ServerCapabilities",
    "SubscriptionsListenResult",
    "TextContent",
    "Tool",
    "ToolResultContent",
    "ToolUseContent",
    "BooleanSchema",
    "NumberSchema",
    "StringSchema",
    "TitledMultiSelectEnumSchema",
    "TitledSingleSelectEnumSchema",
    "UntitledMultiSelectEnumSchema",
    "UntitledSingleSelectEnumSchema",
];

/// Number of examples of a type that preserves unknown members.
const OPEN_EXAMPLES: usize = 63;

#[test]
fn unknown_members_of_open_types_are_kept() {
    let mut open = 0;
    for (name, round_trip, text) in examples("examples of 2026-07-28, unknown members") {
        if !OPEN.contains(&&*name) {
            continue;
        }
        open += 1;
        let mut value: Value = serde_json::from_str(&text).unwrap();
        value["com.example/unknown"] = serde_json::json!({ "kept": [1, null, "x"] });
        let back: Value = serde_json::from_str(&round_trip(&value.to_string()).unwrap()).unwrap();
        assert_eq!(back, value, "{name}");
    }
    println!("{open} open examples");
    assert!(open == 0 || open == OPEN_EXAMPLES);
    // Two types of the list have no example.
    let unknown = r#""com.example/unknown":[1,null]"#;
    let prompt = format!(r#"{{"name":"p",{unknown}}}"#);
    assert_eq!(object::<Prompt>(&prompt).unwrap(), prompt);
    let template = format!(r#"{{"uriTemplate":"t://{{x}}","name":"t",{unknown}}}"#);
    assert_eq!(object::<ResourceTemplate>(&template).unwrap(), template);
    // At any position.
    let page =
        format!(r#"{{"resultType":"complete","ttlMs":0,"cacheScope":"private","prompts":[{prompt}]}}"#);
    assert_eq!(object::<ListPromptsResult>(&page).unwrap(), page);
}

#[test]
fn envelope_drops_unknown_members() {
    let text = r#"{"jsonrpc":"2.0","id":1,"method":"ping","extra":[1],"params":{}}"#;
    let Message::Request(request) = message(text).unwrap() else { panic!() };
    let mut out = Vec::new();
    write::relay_request(&mut out, &request.id, &Method::Ping, &request.params).unwrap();
    assert_eq!(out, br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}"#);
}
