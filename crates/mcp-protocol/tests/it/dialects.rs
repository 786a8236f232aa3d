//! Every method in every revision that has it, with all members set: the lowered message validates against the schema
//! of the revision and has no members that the schema does not name.

use mcp_protocol::dialect::{Direction, Lower};
use mcp_protocol::elicitation::ElicitationCompleteParams;
use mcp_protocol::logging::{LogLevel, LogMessageParams, SetLevelParams};
use mcp_protocol::messages::{CancelledParams, EmptyResult, Id, Method, ProgressParams, write};
use mcp_protocol::resources::{ResourceUpdatedParams, SubscribeParams};
use mcp_protocol::subscriptions::{AcknowledgedParams, ListenParams, ListenResult, SubscriptionFilter};
use mcp_protocol::tasks::{TaskIdParams, legacy};
use mcp_protocol::{Dialect, Era};
use serde_json::Value;

use crate::{samples, support};

/// A lowered message, and the definition it must validate against.
struct Case {
    definition: &'static str,
    json: Value,
}

struct Row {
    method: Method,
    cases: fn(Dialect) -> Vec<Case>,
}

fn lowered<T: Lower>(dialect: Dialect, value: &T) -> Value {
    serde_json::to_value(dialect.lower(value)).unwrap()
}

fn request<T: Lower>(definition: &'static str, dialect: Dialect, method: Method, params: &T) -> Case {
    let mut out = Vec::new();
    write::request(&mut out, &Id::from(1), &method, &dialect.lower(params)).unwrap();
    Case { definition, json: serde_json::from_slice(&out).unwrap() }
}

/// Returns the cases of an input request: a separate request, or a part of a result.
fn ask<T: Lower>(definition: &'static str, dialect: Dialect, method: Method, params: &T) -> Case {
    let mut case = request(definition, dialect, method, params);
    if dialect.era() == Era::Modern {
        let message = case.json.as_object_mut().unwrap();
        message.remove("jsonrpc");
        message.remove("id");
    }
    case
}

fn notification<T: Lower>(definition: &'static str, dialect: Dialect, method: Method, params: &T) -> Case {
    let mut out = Vec::new();
    write::notification(&mut out, &method, Some(&dialect.lower(params))).unwrap();
    Case { definition, json: serde_json::from_slice(&out).unwrap() }
}

fn result<T: Lower>(definition: &'static str, dialect: Dialect, value: &T) -> Case {
    Case { definition, json: lowered(dialect, value) }
}

fn changed(definition: &'static str, dialect: Dialect, method: Method) -> Vec<Case> {
    vec![notification(definition, dialect, method, &samples::empty_params())]
}

fn filter() -> SubscriptionFilter {
    SubscriptionFilter::new()
        .tools_list_changed(true)
        .prompts_list_changed(true)
        .resources_list_changed(true)
        .resource_subscriptions(["file:///a".to_owned()])
}

const ROWS: &[Row] = &[
    Row {
        method: Method::Initialize,
        cases: |d| {
            vec![
                request("InitializeRequest", d, Method::Initialize, &samples::initialize_params()),
                result("InitializeResult", d, &samples::initialize_result()),
            ]
        },
    },
    Row {
        method: Method::Ping,
        cases: |d| {
            vec![
                request("PingRequest", d, Method::Ping, &samples::empty_params()),
                result("EmptyResult", d, &EmptyResult::new().meta(samples::meta())),
            ]
        },
    },
    Row {
        method: Method::Discover,
        cases: |d| {
            vec![
                request("DiscoverRequest", d, Method::Discover, &samples::empty_params()),
                result("DiscoverResult", d, &samples::discover_result()),
            ]
        },
    },
    Row {
        method: Method::ToolsList,
        cases: |d| {
            vec![
                request("ListToolsRequest", d, Method::ToolsList, &samples::page_params()),
                result("ListToolsResult", d, &samples::list_tools_result()),
            ]
        },
    },
    Row {
        method: Method::ToolsCall,
        cases: |d| {
            let mut cases = vec![
                request("CallToolRequest", d, Method::ToolsCall, &samples::call_tool_params()),
                result("CallToolResult", d, &samples::call_tool_result()),
            ];
            if d == Dialect::V2026_07_28 {
                cases.push(result("InputRequiredResult", d, &samples::input_required_result()));
            }
            if d == Dialect::V2025_11_25 {
                let created =
                    legacy::CreateLegacyTaskResult::new(samples::legacy_task()).meta(samples::meta());
                cases.push(result("CreateTaskResult", d, &created));
            }
            cases
        },
    },
    Row {
        method: Method::ResourcesList,
        cases: |d| {
            vec![
                request("ListResourcesRequest", d, Method::ResourcesList, &samples::page_params()),
                result("ListResourcesResult", d, &samples::list_resources_result()),
            ]
        },
    },
    Row {
        method: Method::ResourceTemplatesList,
        cases: |d| {
            vec![
                request(
                    "ListResourceTemplatesRequest",
                    d,
                    Method::ResourceTemplatesList,
                    &samples::page_params(),
                ),
                result("ListResourceTemplatesResult", d, &samples::list_templates_result()),
            ]
        },
    },
    Row {
        method: Method::ResourcesRead,
        cases: |d| {
            vec![
                request("ReadResourceRequest", d, Method::ResourcesRead, &samples::read_params()),
                result("ReadResourceResult", d, &samples::read_result()),
            ]
        },
    },
    Row {
        method: Method::ResourcesSubscribe,
        cases: |d| {
            let params = SubscribeParams::new("file:///a").meta(samples::meta());
            vec![request("SubscribeRequest", d, Method::ResourcesSubscribe, &params)]
        },
    },
    Row {
        method: Method::ResourcesUnsubscribe,
        cases: |d| {
            let params = SubscribeParams::new("file:///a").meta(samples::meta());
            vec![request("UnsubscribeRequest", d, Method::ResourcesUnsubscribe, &params)]
        },
    },
    Row {
        method: Method::PromptsList,
        cases: |d| {
            vec![
                request("ListPromptsRequest", d, Method::PromptsList, &samples::page_params()),
                result("ListPromptsResult", d, &samples::list_prompts_result()),
            ]
        },
    },
    Row {
        method: Method::PromptsGet,
        cases: |d| {
            vec![
                request("GetPromptRequest", d, Method::PromptsGet, &samples::get_prompt_params()),
                result("GetPromptResult", d, &samples::get_prompt_result()),
            ]
        },
    },
    Row {
        method: Method::Complete,
        cases: |d| {
            vec![
                request("CompleteRequest", d, Method::Complete, &samples::complete_params()),
                result("CompleteResult", d, &samples::complete_result()),
            ]
        },
    },
    Row {
        method: Method::SetLevel,
        cases: |d| {
            let params = SetLevelParams::new(LogLevel::Notice).meta(samples::meta());
            vec![request("SetLevelRequest", d, Method::SetLevel, &params)]
        },
    },
    Row {
        method: Method::Listen,
        cases: |d| {
            let params = ListenParams::new(filter()).meta(samples::meta());
            let ended = ListenResult::new().meta(samples::meta());
            vec![
                request("SubscriptionsListenRequest", d, Method::Listen, &params),
                result("SubscriptionsListenResult", d, &ended),
            ]
        },
    },
    Row {
        method: Method::TasksGet,
        cases: |d| task_cases(d, "GetTaskRequest", "GetTaskResult", Method::TasksGet),
    },
    Row {
        method: Method::TasksCancel,
        cases: |d| task_cases(d, "CancelTaskRequest", "CancelTaskResult", Method::TasksCancel),
    },
    Row {
        method: Method::TasksResult,
        cases: |d| {
            vec![request(
                "GetTaskPayloadRequest",
                d,
                Method::TasksResult,
                &TaskIdParams::new("t").meta(samples::meta()),
            )]
        },
    },
    Row {
        method: Method::TasksList,
        cases: |d| {
            let tasks =
                legacy::ListTasksResult::new([samples::legacy_task()]).next_cursor("n").meta(samples::meta());
            vec![
                request("ListTasksRequest", d, Method::TasksList, &samples::page_params()),
                result("ListTasksResult", d, &tasks),
            ]
        },
    },
    // The schema of 2026-07-28 does not include extensions.
    Row { method: Method::TasksUpdate, cases: |_| Vec::new() },
    Row {
        method: Method::CreateMessage,
        cases: |d| {
            vec![
                ask("CreateMessageRequest", d, Method::CreateMessage, &samples::create_message_params(d)),
                result("CreateMessageResult", d, &samples::create_message_result()),
            ]
        },
    },
    Row {
        method: Method::RootsList,
        cases: |d| {
            vec![
                ask("ListRootsRequest", d, Method::RootsList, &samples::empty_params()),
                result("ListRootsResult", d, &samples::list_roots_result()),
            ]
        },
    },
    Row {
        method: Method::Elicit,
        cases: |d| {
            let mut cases = vec![
                ask("ElicitRequest", d, Method::Elicit, &samples::form(d)),
                result("ElicitResult", d, &samples::elicit_result(d)),
            ];
            if d != Dialect::V2025_06_18 {
                cases.push(ask("ElicitRequest", d, Method::Elicit, &samples::url()));
            }
            cases
        },
    },
    Row {
        method: Method::Initialized,
        cases: |d| changed("InitializedNotification", d, Method::Initialized),
    },
    Row {
        method: Method::Cancelled,
        cases: |d| {
            let params = CancelledParams::new(7).reason("enough").meta(samples::meta());
            vec![notification("CancelledNotification", d, Method::Cancelled, &params)]
        },
    },
    Row {
        method: Method::Progress,
        cases: |d| {
            let params = ProgressParams::new("t", 1.5).total(3).message("half").meta(samples::meta());
            vec![notification("ProgressNotification", d, Method::Progress, &params)]
        },
    },
    Row {
        method: Method::LogMessage,
        cases: |d| {
            let params = LogMessageParams::new(LogLevel::Error, serde_json::json!({"a": null}))
                .logger("db")
                .meta(samples::meta());
            vec![notification("LoggingMessageNotification", d, Method::LogMessage, &params)]
        },
    },
    Row {
        method: Method::ToolsChanged,
        cases: |d| changed("ToolListChangedNotification", d, Method::ToolsChanged),
    },
    Row {
        method: Method::PromptsChanged,
        cases: |d| changed("PromptListChangedNotification", d, Method::PromptsChanged),
    },
    Row {
        method: Method::ResourcesChanged,
        cases: |d| changed("ResourceListChangedNotification", d, Method::ResourcesChanged),
    },
    Row {
        method: Method::ResourceUpdated,
        cases: |d| {
            let params = ResourceUpdatedParams::new("file:///a").meta(samples::meta());
            vec![notification("ResourceUpdatedNotification", d, Method::ResourceUpdated, &params)]
        },
    },
    Row {
        method: Method::RootsChanged,
        cases: |d| changed("RootsListChangedNotification", d, Method::RootsChanged),
    },
    Row {
        method: Method::ElicitationComplete,
        cases: |d| {
            let params = ElicitationCompleteParams::new("e-1").meta(samples::meta());
            vec![notification("ElicitationCompleteNotification", d, Method::ElicitationComplete, &params)]
        },
    },
    Row {
        method: Method::TaskStatus,
        cases: |d| {
            vec![notification(
                "TaskStatusNotification",
                d,
                Method::TaskStatus,
                &samples::legacy_task().meta(samples::meta()),
            )]
        },
    },
    Row {
        method: Method::SubscriptionAcknowledged,
        cases: |d| {
            let params = AcknowledgedParams::new(filter()).meta(samples::meta());
            vec![notification(
                "SubscriptionsAcknowledgedNotification",
                d,
                Method::SubscriptionAcknowledged,
                &params,
            )]
        },
    },
    Row { method: Method::TaskChanged, cases: |_| Vec::new() },
];

fn task_cases(
    d: Dialect,
    request_name: &'static str,
    result_name: &'static str,
    method: Method,
) -> Vec<Case> {
    if d == Dialect::V2026_07_28 {
        return Vec::new();
    }
    vec![
        request(request_name, d, method, &TaskIdParams::new("t").meta(samples::meta())),
        result(result_name, d, &samples::legacy_task().meta(samples::meta())),
    ]
}

fn has(dialect: Dialect, method: &Method) -> bool {
    dialect.has(method, Direction::ToServer)
        || dialect.has(method, Direction::ToClient)
        || dialect.has_inside(method)
}

#[test]
fn every_method_matches_the_schema_of_each_revision() {
    let Some(data) = support::spec_data("methods against the schemas") else { return };
    let mut cases = 0;
    let mut problems = Vec::new();
    for dialect in Dialect::ALL {
        let version = dialect.version().as_str();
        let (schema, definitions) = support::schema(&data, version);
        for row in ROWS.iter().filter(|row| has(dialect, &row.method)) {
            for case in (row.cases)(dialect) {
                cases += 1;
                let validator = support::validator(&schema, definitions, case.definition);
                for error in validator.iter_errors(&case.json) {
                    problems.push(format!(
                        "{version} {}: {error} at {}",
                        case.definition,
                        error.instance_path()
                    ));
                }
                let root = serde_json::json!({ "$ref": format!("#/{definitions}/{}", case.definition) });
                let mut extra = Vec::new();
                unnamed_members(&schema, &[&root], &case.json, "", &mut extra);
                problems.extend(
                    extra.into_iter().map(|path| format!("{version} {}: extra {path}", case.definition)),
                );
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    println!("{cases} lowered messages");
    assert_eq!(cases, 195);
}

/// Returns the members that no schema of this value names. `extensions` is written in every revision, because unknown
/// members are allowed there.
fn unnamed_members(root: &Value, schemas: &[&Value], value: &Value, path: &str, found: &mut Vec<String>) {
    let mut flat = Vec::new();
    for schema in schemas {
        flatten(root, schema, value, &mut flat);
    }
    match value {
        Value::Object(members) => {
            let is_open = flat.iter().all(|schema| schema.get("properties").is_none())
                || flat
                    .iter()
                    .any(|schema| schema.get("additionalProperties").is_some_and(|more| more != false));
            for (name, member) in members {
                let named = flat.iter().filter_map(|schema| schema["properties"].get(name));
                let mut below: Vec<&Value> = named.collect();
                if below.is_empty() {
                    // A map: all members have the same schema.
                    below.extend(
                        flat.iter()
                            .map(|schema| &schema["additionalProperties"])
                            .filter(|more| more.is_object()),
                    );
                }
                let path = format!("{path}/{name}");
                // Every request has these members; the schemas of some revisions do not repeat them.
                if name == "extensions" || ["/jsonrpc", "/id", "/params/_meta"].contains(&&*path) {
                    continue;
                }
                if below.is_empty() {
                    if !is_open {
                        found.push(path);
                    }
                } else if name != "_meta" {
                    // The contents of `_meta` are open in every revision, but its presence is not.
                    unnamed_members(root, &below, member, &path, found);
                }
            }
        }
        Value::Array(items) => {
            let below: Vec<&Value> = flat.iter().filter_map(|schema| schema.get("items")).collect();
            for (at, item) in items.iter().enumerate() {
                unnamed_members(root, &below, item, &format!("{path}/{at}"), found);
            }
        }
        _ => {}
    }
}

/// Resolves references and alternatives to plain schemas; of alternatives, only those that accept the value.
fn flatten<'a>(root: &'a Value, schema: &'a Value, value: &Value, flat: &mut Vec<&'a Value>) {
    if let Some(reference) = schema["$ref"].as_str() {
        return flatten(root, root.pointer(reference.trim_start_matches('#')).unwrap(), value, flat);
    }
    for branch in schema["anyOf"].as_array().into_iter().flatten() {
        if support::fits(root, branch, value) {
            flatten(root, branch, value, flat);
        }
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        flatten(root, part, value, flat);
    }
    flat.push(schema);
}
