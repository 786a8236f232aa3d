//! Requests to the client during a call, in both eras, also with repeated rounds and lost responses.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use mcp_protocol::ProtocolVersion;
use mcp_protocol::capabilities::ClientCapabilities;
use mcp_protocol::elicitation::{ElicitFormParams, ElicitResult, FieldValue, FormSchema, StringSchema};
use mcp_protocol::errors::ErrorCode;
use mcp_protocol::input::{InputRequest, InputRequiredResult, InputResponse, InputResponses};
use mcp_protocol::messages::Method;
use mcp_protocol::roots::ListRootsResult;
use mcp_protocol::tools::{CallToolParams, CallToolResponse};
use mcp_server::{Context, McpServer, NoArgs, Question, Roots, ToolError, tool};
use serde_json::json;

use crate::test_client::{TestClient, TestError, TestServer, message_of};

/// The idempotency keys of the charges, as an external system would receive them.
type Charges = Arc<Mutex<Vec<String>>>;

fn form(message: &str) -> ElicitFormParams {
    ElicitFormParams::new(message, FormSchema::new().field("value", StringSchema::new()))
}

fn value(answer: &ElicitResult) -> String {
    match answer.content.as_ref().and_then(|content| content.get("value")) {
        Some(FieldValue::String(text)) => text.clone(),
        other => panic!("{other:?}"),
    }
}

fn server(charges: &Charges) -> McpServer {
    let charges = Arc::clone(charges);
    McpServer::new(vec![])
        .tool(tool("wizard", move |_: NoArgs, cx: Context| {
            let charges = Arc::clone(&charges);
            async move {
                let name = value(&cx.ask("name", form("Who are you?")).await?);
                let receipt: String = cx
                    .step("charge", |key| async move {
                        charges.lock().unwrap().push(key);
                        Ok::<_, ToolError>("paid".to_owned())
                    })
                    .await?;
                let colour = value(&cx.ask("colour", form("Which colour?")).await?);
                Ok::<_, ToolError>(format!("{name} {receipt} {colour}"))
            }
        }))
        .tool(tool("both", |_: NoArgs, cx: Context| async move {
            let answers =
                cx.ask_all([("a", form("a").into_request()), ("roots", Roots.into_request())]).await?;
            Ok::<_, ToolError>(answers.len().to_string())
        }))
        .tool(tool("endless", |_: NoArgs, cx: Context| async move {
            for round in 0.. {
                cx.ask(&format!("q{round}"), form("more")).await?;
            }
            Ok::<_, ToolError>("never")
        }))
}

fn answer(_: &str, request: &InputRequest) -> InputResponse {
    match message_of(request) {
        Some("Who are you?") => elicited("Ada"),
        Some("Which colour?") => elicited("red"),
        Some(_) => elicited("x"),
        None => InputResponse::ListRoots(ListRootsResult::new([])),
    }
}

fn elicited(text: &str) -> InputResponse {
    InputResponse::Elicit(ElicitResult::accept([("value".to_owned(), text.into())]))
}

/// Sends the request of one round and returns its response.
async fn round(client: &mut TestClient, params: &CallToolParams) -> CallToolResponse {
    let id = client.send(&Method::ToolsCall, params).await.unwrap();
    let result = client.response(&id).await.unwrap();
    client.round(&result).unwrap()
}

fn retry(params: &CallToolParams, required: &InputRequiredResult) -> CallToolParams {
    let answers = required.input_requests.iter().flatten();
    let answers: InputResponses = answers.map(|(key, request)| (key.clone(), answer(key, request))).collect();
    let mut params = params.clone();
    params.input_responses = Some(answers);
    params.request_state.clone_from(&required.request_state);
    params
}

#[tokio::test]
async fn step_runs_once_across_two_asks_in_each_eliciting_version() {
    let charges = Charges::default();
    let mut client = server(&charges).test_client().await.unwrap().on_ask(answer);
    assert_eq!(client.call("wizard", json!({})).await.unwrap().text(), "Ada paid red");
    assert_eq!(charges.lock().unwrap().len(), 1);
    for version in [ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_11_25] {
        let charges = Charges::default();
        let mut client = server(&charges).legacy_test_client(version).await.unwrap().on_ask(answer);
        assert_eq!(client.call("wizard", json!({})).await.unwrap().text(), "Ada paid red");
        assert_eq!(charges.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn repeated_rounds_use_one_idempotency_key() {
    let charges = Charges::default();
    let mut client = server(&charges).test_client().await.unwrap();
    let mut params = CallToolParams::new("wizard");
    loop {
        // The first response is lost, the second one is used.
        round(&mut client, &params).await;
        match round(&mut client, &params).await {
            CallToolResponse::InputRequired(required) => {
                params = retry(&CallToolParams::new("wizard"), &required)
            }
            CallToolResponse::Complete(result) => {
                assert_eq!(result.content[0].as_text(), Some("Ada paid red"));
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    // The step ran twice with the same key, so that an external system can detect the repetition.
    let charges = charges.lock().unwrap();
    assert_eq!(charges.len(), 2);
    assert_eq!(charges.iter().collect::<BTreeSet<_>>().len(), 1, "{charges:?}");
}

#[tokio::test]
async fn tampered_or_foreign_request_state_is_refused() {
    let mut client = server(&Charges::default()).test_client().await.unwrap();
    let CallToolResponse::InputRequired(required) = round(&mut client, &CallToolParams::new("wizard")).await
    else {
        panic!()
    };
    let good = retry(&CallToolParams::new("wizard"), &required);
    let mut tampered = good.clone();
    tampered.request_state = good.request_state.as_ref().map(|state| format!("{state}-TAMPERED"));
    let mut other_tool = good.clone();
    other_tool.name = "both".into();
    let other_arguments = good.clone().arguments(json!({"x": 1}));
    for params in [tampered, other_tool, other_arguments] {
        let id = client.send(&Method::ToolsCall, &params).await.unwrap();
        let Err(TestError::Refused(error)) = client.response(&id).await else { panic!("accepted") };
        assert_eq!(
            (error.code, &*error.message),
            (ErrorCode::InvalidParams, "invalid or expired requestState")
        );
    }
    // Another process has another sealing key.
    let mut other_process = server(&Charges::default()).test_client().await.unwrap();
    let id = other_process.send(&Method::ToolsCall, &good).await.unwrap();
    assert!(matches!(other_process.response(&id).await, Err(TestError::Refused(_))));
    assert!(matches!(round(&mut client, &good).await, CallToolResponse::InputRequired(_)));
}

#[tokio::test]
async fn answers_without_state_are_used_and_unknown_keys_ignored() {
    let mut client = server(&Charges::default()).test_client().await.unwrap();
    let mut params = CallToolParams::new("wizard");
    params.input_responses =
        Some([("name".to_owned(), elicited("Ada")), ("other".to_owned(), elicited("?"))].into());
    let CallToolResponse::InputRequired(required) = round(&mut client, &params).await else { panic!() };
    assert_eq!(required.input_requests.unwrap().keys().collect::<Vec<_>>(), ["colour"]);
    params.input_responses = Some([("wrong".to_owned(), elicited("Ada"))].into());
    let CallToolResponse::InputRequired(required) = round(&mut client, &params).await else { panic!() };
    assert_eq!(required.input_requests.unwrap().keys().collect::<Vec<_>>(), ["name"]);
}

#[tokio::test]
async fn several_input_requests_share_one_round() {
    let mut client = server(&Charges::default()).test_client().await.unwrap();
    let CallToolResponse::InputRequired(required) = round(&mut client, &CallToolParams::new("both")).await
    else {
        panic!()
    };
    assert_eq!(required.input_requests.as_ref().unwrap().len(), 2);
    let CallToolResponse::Complete(result) =
        round(&mut client, &retry(&CallToolParams::new("both"), &required)).await
    else {
        panic!()
    };
    assert_eq!(result.content[0].as_text(), Some("2"));
}

#[tokio::test]
async fn call_fails_after_ten_input_rounds_in_both_eras() {
    let mut modern = server(&Charges::default()).test_client().await.unwrap().on_ask(answer);
    let legacy = server(&Charges::default()).legacy_test_client(ProtocolVersion::V2025_11_25).await.unwrap();
    for client in [&mut modern, &mut legacy.on_ask(answer)] {
        let outcome = client.call("endless", json!({})).await.unwrap();
        assert!(outcome.is_error());
        assert!(outcome.text().contains("10 rounds"), "{}", outcome.text());
    }
}

#[tokio::test]
async fn missing_client_capability_is_named_in_the_error() {
    let mut client = server(&Charges::default()).test_client().await.unwrap();
    client.declare(ClientCapabilities::new());
    let Err(TestError::Refused(error)) = client.call("wizard", json!({})).await else { panic!() };
    assert_eq!(error.code, ErrorCode::MissingClientCapability);
    assert_eq!(error.data.unwrap().get(), r#"{"requiredCapabilities":{"elicitation":{}}}"#);
}

#[tokio::test]
async fn elicitation_is_not_used_before_2025_06_18() {
    for version in ["2024-11-05", "2025-03-26"] {
        // Raw messages: the test client does not declare a capability that its version lacks.
        let mut client = server(&Charges::default()).test_client().await.unwrap();
        let mut exchange = async |message: serde_json::Value| {
            client.send_line(message.to_string().as_bytes()).await.unwrap();
            String::from_utf8(client.line().await.unwrap()).unwrap()
        };
        exchange(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": version, "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "c", "version": "1"},
        }}))
        .await;
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "wizard"}});
        let line = exchange(call).await;
        assert!(!line.contains("elicitation/create"), "{line}");
        assert!(line.contains(r#""id":1"#) && line.contains("isError"), "{line}");
    }
}

#[tokio::test]
async fn recorded_answer_cannot_be_changed_in_a_later_round() {
    let mut client = server(&Charges::default()).test_client().await.unwrap();
    let CallToolResponse::InputRequired(first) = round(&mut client, &CallToolParams::new("wizard")).await
    else {
        panic!()
    };
    let CallToolResponse::InputRequired(second) =
        round(&mut client, &retry(&CallToolParams::new("wizard"), &first)).await
    else {
        panic!()
    };
    let mut params = retry(&CallToolParams::new("wizard"), &second);
    params.input_responses.as_mut().unwrap().insert("name".to_owned(), elicited("Mallory"));
    let CallToolResponse::Complete(result) = round(&mut client, &params).await else { panic!() };
    assert_eq!(result.content[0].as_text(), Some("Ada paid red"));
}

#[tokio::test]
async fn step_result_nested_too_deeply_is_a_tool_error() {
    let charged = Arc::new(Mutex::new(0));
    let count = Arc::clone(&charged);
    let server = McpServer::new(vec![]).tool(tool("wizard", move |_: NoArgs, cx: Context| {
        let count = Arc::clone(&count);
        async move {
            let charge = async |_| -> Result<i32, ToolError> {
                *count.lock().unwrap() += 1;
                Ok(7)
            };
            cx.step("charge", charge).await?;
            let deep = |_| async { Ok::<_, ToolError>((0..126).fold(json!(1), |inner, _| json!([inner]))) };
            let tree: serde_json::Value = cx.step("a_tree", deep).await?;
            cx.ask("name", form("Who are you?")).await?;
            Ok::<_, ToolError>(tree.to_string())
        }
    }));
    let mut client = server.test_client().await.unwrap();
    let outcome = client.call("wizard", json!({})).await.unwrap();
    assert!(outcome.is_error() && outcome.text().contains("nested too deeply"), "{}", outcome.text());
    assert_eq!(*charged.lock().unwrap(), 1);
}

#[tokio::test]
async fn malformed_answers_of_every_kind_are_invalid_params() {
    use mcp_protocol::sampling::CreateMessageParams;
    let server = McpServer::new(vec![])
        .tool(tool("form", |_: NoArgs, cx: Context| async move {
            let answer = cx.ask("k", form("?")).await?;
            Ok::<_, ToolError>(answer.action.to_string())
        }))
        .tool(tool("roots", |_: NoArgs, cx: Context| async move {
            let answer = cx.ask("k", Roots).await?;
            Ok::<_, ToolError>(answer.roots.len().to_string())
        }))
        .tool(tool("sample", |_: NoArgs, cx: Context| async move {
            let answer = cx.ask("k", CreateMessageParams::new([], 10_u64)).await?;
            Ok::<_, ToolError>(answer.model)
        }));
    let mut client = server.test_client().await.unwrap();
    for (id, (tool, answer)) in [
        ("form", json!(null)),
        ("form", json!(5)),
        ("form", json!([])),
        ("form", json!({})),
        ("form", json!({"action": 5})),
        ("form", json!({"action": "maybe"})),
        ("form", json!({"action": ""})),
        ("form", json!({"action": "accept", "content": 5})),
        ("form", json!({"action": "accept", "content": {"value": {"deep": 1}}})),
        ("form", json!({"roots": []})),
        ("roots", json!({"roots": 5})),
        ("roots", json!({"roots": [{}]})),
        ("roots", json!({"roots": [{"uri": 5}]})),
        ("roots", json!({"action": "accept"})),
        ("sample", json!({"role": "assistant"})),
        ("sample", json!({"role": "robot", "model": "m", "content": {"type": "text", "text": "x"}})),
        ("sample", json!({"role": "assistant", "model": "m", "content": 5})),
        ("sample", json!({"role": "assistant", "model": "m", "content": {"type": "text"}})),
        ("sample", json!({"role": "assistant", "content": {"type": "text", "text": "x"}})),
        ("sample", json!({"action": "accept"})),
    ]
    .into_iter()
    .enumerate()
    {
        let line = json!({"jsonrpc": "2.0", "id": 1000 + id, "method": "tools/call", "params": {
            "name": tool, "arguments": {}, "inputResponses": {"k": answer},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "sampling": {}, "roots": {}},
            },
        }});
        client.send_line(line.to_string().as_bytes()).await.unwrap();
        let response = client.response(&mcp_protocol::messages::Id::Number(1000 + id as i64)).await;
        let Err(TestError::Refused(error)) = response else { panic!("{tool} {answer}: {response:?}") };
        assert_eq!(error.code, ErrorCode::InvalidParams, "{tool} {answer}: {}", error.message);
    }
}
