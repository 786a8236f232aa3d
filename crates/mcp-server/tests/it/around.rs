//! Hooks, approval, blocking handlers, the watchdog, and validation of arguments.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_protocol::ProtocolVersion;
use mcp_protocol::capabilities::ClientCapabilities;
use mcp_protocol::elicitation::ElicitResult;
use mcp_protocol::errors::ErrorCode;
use mcp_protocol::input::{InputResponse, InputResponses};
use mcp_protocol::messages::{CancelledParams, Method, PageParams};
use mcp_protocol::resources::{ReadResourceParams, ReadResourceResult, Resource};
use mcp_protocol::tools::{CallToolParams, CallToolResponse, CallToolResult, ListToolsResult};
use mcp_server::{
    Call, Context, Json, McpServer, NoArgs, Outcome, Proposal, Tool, ToolError, blocking, resource, tool,
};
use serde_json::json;

use crate::test_client::{TestError, TestServer, message_of};

#[tokio::test]
async fn hooks_see_calls_in_order_and_may_answer_instead() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let recording_hook = |label: &'static str| {
        let seen = Arc::clone(&seen);
        move |call: Call| {
            let seen = Arc::clone(&seen);
            async move {
                seen.lock().unwrap().push(format!(
                    "{label} {} {}",
                    call.context().method(),
                    call.arguments().get()
                ));
                let outcome = call.run().await;
                seen.lock().unwrap().push(format!("{label} returned"));
                outcome
            }
        }
    };
    let server = McpServer::named("hooked", "1")
        .tool(
            Tool::dynamic("hello", json!({"type": "object"}), |_: Json| async { "Hello!" })
                .around(recording_hook("inner")),
        )
        .tool(tool("closed", || async { "never" }).around(|_: Call| async { Err(ToolError::new("closed")) }))
        .tool(
            tool("instead", || async { "never" })
                .around(|_: Call| async { Ok(CallToolResult::text("mine").into()) }),
        )
        .resource(resource(Resource::new("motd://today", "motd"), || async { "Be kind." }))
        .around(recording_hook("first"))
        .around(recording_hook("second"));
    let mut client = server.test_client().await.unwrap();
    assert_eq!(client.call("hello", json!({"a": 1})).await.unwrap().text(), "Hello!");
    assert_eq!(
        std::mem::take(&mut *seen.lock().unwrap()),
        [
            "first tools/call {\"a\":1}",
            "second tools/call {\"a\":1}",
            "inner tools/call {\"a\":1}",
            "inner returned",
            "second returned",
            "first returned"
        ]
    );
    let closed = client.call("closed", json!({})).await.unwrap();
    assert!(closed.is_error());
    assert_eq!(closed.text(), "closed");
    assert_eq!(client.call("instead", json!({})).await.unwrap().text(), "mine");
    seen.lock().unwrap().clear();
    let read: ReadResourceResult =
        client.request(&Method::ResourcesRead, &ReadResourceParams::new("motd://today")).await.unwrap();
    assert_eq!(read.contents[0].text.as_deref(), Some("Be kind."));
    assert_eq!(seen.lock().unwrap()[0], "first resources/read {}");
}

#[tokio::test]
async fn hook_panic_or_wrong_outcome_type_fails_only_its_own_call() {
    let server = McpServer::named("hooked", "1")
        .tool(tool("hello", || async { "Hello!" }))
        .tool(tool("panics", || async { "never" }))
        .resource(resource(Resource::new("motd://today", "motd"), || async { "Be kind." }))
        .around(|call: Call| async move {
            if call.context().name() == "panics" {
                panic!("in a hook");
            }
            if call.context().method() == &Method::ResourcesRead {
                return Ok(Outcome::Tool(CallToolResult::text("not a resource")));
            }
            call.run().await
        });
    let mut client = server.test_client().await.unwrap();
    for failed in [
        client.call("panics", json!({})).await.map(drop),
        client
            .request::<ReadResourceResult>(&Method::ResourcesRead, &ReadResourceParams::new("motd://today"))
            .await
            .map(drop),
    ] {
        let Err(TestError::Refused(error)) = failed else { panic!("{failed:?}") };
        assert_eq!((error.code, error.message.as_str()), (ErrorCode::InternalError, "the handler failed"));
    }
    assert_eq!(client.call("hello", json!({})).await.unwrap().text(), "Hello!");
}

/// Creates a server whose tool `delete` needs approval, and a counter of the runs of the tool.
fn server_with_approval() -> (McpServer, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let delete = Tool::dynamic("delete", json!({"type": "object"}), move |_: Json| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { "gone" }
    });
    (McpServer::named("careful", "1").tool(delete.needs_approval()), runs)
}

#[tokio::test]
async fn approval_prompt_shows_the_escaped_arguments() {
    for accepts in [true, false] {
        for legacy in [None, Some(ProtocolVersion::V2025_11_25)] {
            let (server, runs) = server_with_approval();
            let mut client = match legacy.clone() {
                Some(version) => server.legacy_test_client(version).await.unwrap(),
                None => server.test_client().await.unwrap(),
            };
            let shown = Arc::new(Mutex::new(String::new()));
            let prompt = Arc::clone(&shown);
            client = client.on_ask(move |_, request| {
                *prompt.lock().unwrap() = message_of(request).unwrap_or_default().to_owned();
                InputResponse::Elicit(if accepts {
                    ElicitResult::accept([])
                } else {
                    ElicitResult::decline()
                })
            });
            let outcome = client.call("delete", json!({"path": "/a\u{202e}b"})).await.unwrap();
            assert_eq!(outcome.is_error(), !accepts);
            assert_eq!(outcome.text(), if accepts { "gone" } else { "`delete` was not approved" });
            assert_eq!(runs.load(Ordering::SeqCst), usize::from(accepts));
            assert_eq!(*shown.lock().unwrap(), r#"Run `delete` with {"path":"/a\u{202e}b"}?"#);
        }
    }
}

#[tokio::test]
async fn unsolicited_approval_from_the_caller_is_not_accepted() {
    let (server, runs) = server_with_approval();
    let mut client = server.test_client().await.unwrap();
    client.declare(all_capabilities());
    let accept = || InputResponse::Elicit(ElicitResult::accept([]));
    let answers =
        InputResponses::from([("approval".to_owned(), accept()), ("approval.".to_owned(), accept())]);
    let params = CallToolParams::new("delete")
        .arguments(json!({"approved": true, "approval": "accept"}))
        .input_responses(answers);
    let id = client.send(&Method::ToolsCall, &params).await.unwrap();
    let result = client.response(&id).await.unwrap();
    let CallToolResponse::InputRequired(first) = client.round(&result).unwrap() else {
        panic!("the tool ran")
    };
    assert_eq!(runs.load(Ordering::SeqCst), 0);

    // The approval of one call is not valid for another.
    let key = first.input_requests.unwrap().into_iter().next().unwrap().0;
    let params = CallToolParams::new("delete")
        .arguments(json!({"path": "/other"}))
        .input_responses(InputResponses::from([(key.clone(), accept())]))
        .request_state(first.request_state.unwrap());
    let id = client.send(&Method::ToolsCall, &params).await.unwrap();
    assert!(matches!(client.response(&id).await, Err(TestError::Refused(_))));
    let params = CallToolParams::new("delete")
        .arguments(json!({"path": "/other"}))
        .input_responses(InputResponses::from([(key, accept())]));
    let id = client.send(&Method::ToolsCall, &params).await.unwrap();
    let result = client.response(&id).await.unwrap();
    assert!(matches!(client.round(&result).unwrap(), CallToolResponse::InputRequired(_)));
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

fn all_capabilities() -> ClientCapabilities {
    ClientCapabilities::new().elicitation(mcp_protocol::capabilities::ElicitationCapability::new())
}

#[tokio::test]
async fn approval_allows_a_single_run() {
    let (server, runs) = server_with_approval();
    let mut client = server.test_client().await.unwrap();
    let id = client.send(&Method::ToolsCall, &CallToolParams::new("delete")).await.unwrap();
    let result = client.response(&id).await.unwrap();
    let CallToolResponse::InputRequired(first) = client.round(&result).unwrap() else {
        panic!("the tool ran")
    };
    let key = first.input_requests.unwrap().into_iter().next().unwrap().0;
    let approved = CallToolParams::new("delete")
        .input_responses(InputResponses::from([(key, InputResponse::Elicit(ElicitResult::accept([])))]))
        .request_state(first.request_state.unwrap());
    for round in 0..3 {
        let id = client.send(&Method::ToolsCall, &approved).await.unwrap();
        let result = client.response(&id).await.unwrap();
        assert_eq!(result.get().contains("gone"), round == 0, "{}", result.get());
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn approved_arguments_are_the_arguments_the_tool_receives() {
    let shown = Arc::new(Mutex::new(String::new()));
    let prompt = Arc::clone(&shown);
    let echo = Tool::dynamic("echo", json!({"type": "object"}), |arguments: Json| async move {
        arguments.get().to_owned()
    });
    let server = McpServer::named("careful", "1").tool(echo.needs_approval()).approve_with(
        move |proposal: Proposal| {
            *prompt.lock().unwrap() = proposal.to_string();
            async { true }
        },
    );
    let mut client = server.legacy_test_client(ProtocolVersion::V2025_03_26).await.unwrap();
    // Escapes, whitespace, and a duplicate member.
    let line = br#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"echo","arguments":{"path":"/tmp",     "p\u0061th":"\u002fetc"}}}"#;
    client.send_line(line).await.unwrap();
    let result = client.response(&mcp_protocol::messages::Id::from("x")).await.unwrap();
    assert_eq!(*shown.lock().unwrap(), r#"Run `echo` with {"path":"/etc"}?"#);
    let result: serde_json::Value = result.to().unwrap();
    assert_eq!(result["content"][0]["text"], json!(r#"{"path":"/etc"}"#));
}

#[tokio::test]
async fn host_approves_or_call_fails_if_client_lacks_elicitation() {
    let (server, runs) = server_with_approval();
    let mut client = server.test_client().await.unwrap();
    client.declare(ClientCapabilities::new());
    let outcome = client.call("delete", json!({})).await.unwrap();
    assert!(
        outcome.text().starts_with("`delete` needs approval, but the client does not support elicitation")
    );
    assert_eq!(runs.load(Ordering::SeqCst), 0);

    for approves in [true, false] {
        let (server, runs) = server_with_approval();
        let server = server.approve_with(move |proposal: Proposal| async move {
            assert_eq!(proposal.to_string(), "Run `delete` with {\"path\":\"/a\"}?");
            approves
        });
        let mut client = server.test_client().await.unwrap();
        client.declare(ClientCapabilities::new());
        let outcome = client.call("delete", json!({"path": "/a"})).await.unwrap();
        assert_eq!(outcome.is_error(), !approves);
        assert_eq!(runs.load(Ordering::SeqCst), usize::from(approves));
    }
}

#[tokio::test]
async fn arguments_too_long_to_show_are_not_approved() {
    let (server, runs) = server_with_approval();
    let server = server.approve_with(|_: Proposal| async { true });
    let outcome =
        server.test_client().await.unwrap().call("delete", json!({"path": "x".repeat(5000)})).await.unwrap();
    assert!(outcome.text().contains("too long to show"), "{}", outcome.text());
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn blocking_tool_does_not_block_other_calls() {
    let release = Arc::new(AtomicBool::new(false));
    let (waits, opens) = (Arc::clone(&release), Arc::clone(&release));
    let server = McpServer::named("busy", "1")
        .tool(tool(
            "wait",
            blocking(move |_: NoArgs, cx: Context| {
                while !waits.load(Ordering::SeqCst) && !cx.is_cancelled() {
                    std::thread::yield_now();
                }
                if cx.is_cancelled() { "cancelled" } else { "released" }
            }),
        ))
        .tool(tool("panics", blocking(|| -> String { panic!("on a thread") })))
        .tool(tool("release", move || {
            opens.store(true, Ordering::SeqCst);
            async {}
        }));
    let mut client = server.test_client().await.unwrap();
    let waiting = client.send(&Method::ToolsCall, &CallToolParams::new("wait")).await.unwrap();
    let Err(TestError::Refused(error)) = client.call("panics", json!({})).await else { panic!("no error") };
    assert_eq!(error.code, ErrorCode::InternalError);
    client.call("release", json!({})).await.unwrap();
    let waited = client.response(&waiting).await.unwrap();
    assert!(waited.get().contains("released"), "{}", waited.get());
}

#[tokio::test]
async fn cancelled_blocking_call_in_the_queue_never_runs() {
    let (release, released) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (waits, counted) = (Arc::clone(&release), Arc::clone(&released));
    let server = McpServer::named("busy", "1").tool(tool(
        "wait",
        blocking(move |_: NoArgs| {
            counted.fetch_add(1, Ordering::SeqCst);
            while !waits.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        }),
    ));
    let mut client = server.test_client().await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..70 {
        ids.push(client.send(&Method::ToolsCall, &CallToolParams::new("wait")).await.unwrap());
    }
    while released.load(Ordering::SeqCst) < 64 {
        tokio::task::yield_now().await;
    }
    for id in ids.split_off(64) {
        client.notify(&Method::Cancelled, &CancelledParams::new(id)).await.unwrap();
    }
    // This response shows that the server has processed the cancellations.
    client.request::<ListToolsResult>(&Method::ToolsList, &PageParams::new()).await.unwrap();
    release.store(true, Ordering::SeqCst);
    for id in &ids {
        client.response(id).await.unwrap();
    }
    assert_eq!(released.load(Ordering::SeqCst), 64, "a cancelled call ran");
}

#[test]
fn runtime_shutdown_does_not_wait_for_blocking_tools() {
    let (started, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (starts, ends) = (Arc::clone(&started), Arc::clone(&over));
    let server = McpServer::named("busy", "1").tool(tool(
        "wait",
        blocking(move |_: NoArgs| {
            starts.store(true, Ordering::SeqCst);
            while !ends.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        }),
    ));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut client = server.test_client().await.unwrap();
        client.send(&Method::ToolsCall, &CallToolParams::new("wait")).await.unwrap();
        while !started.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
    });
    // Dropping the runtime waits for its own blocking threads, which would never end here.
    drop(runtime);
    over.store(true, Ordering::SeqCst);
}

/// A subscriber that records warnings.
#[derive(Clone, Default)]
pub(crate) struct RecordedWarnings(Arc<Mutex<Vec<String>>>);

impl RecordedWarnings {
    /// Returns the warnings since the last call, one per line.
    pub(crate) fn take(&self) -> String {
        std::mem::take(&mut *self.0.lock().unwrap()).join("\n")
    }
}

impl tracing::Subscriber for RecordedWarnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Text(String);
        impl tracing::field::Visit for Text {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!("{}={value:?} ", field.name());
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn tool_that_blocks_the_runtime_thread_is_logged_by_name() {
    fn is_ours(warning: &str) -> bool {
        warning.contains("name=stuck")
    }
    let warnings = Arc::new(Mutex::new(Vec::new()));
    tracing::subscriber::set_global_default(RecordedWarnings(Arc::clone(&warnings))).unwrap();
    let recorded = Arc::clone(&warnings);
    let server = McpServer::named("busy", "1").tool(
        tool("stuck", move || {
            let recorded = Arc::clone(&recorded);
            async move {
                // Blocks until the watchdog has logged its warning. With `cargo test`, other tests log warnings, too.
                while !recorded.lock().unwrap().iter().any(|warning| is_ours(warning)) {
                    std::thread::sleep(Duration::from_millis(10));
                }
                "reported"
            }
        })
        .description("Blocks."),
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut client = server.test_client().await.unwrap();
        assert_eq!(client.call("stuck", json!({})).await.unwrap().text(), "reported");
    });
    let warnings = warnings.lock().unwrap();
    assert_eq!(warnings.iter().filter(|warning| is_ours(warning)).count(), 1, "{warnings:?}");
}

#[cfg(feature = "validate")]
mod validated {
    use mcp_protocol::elicitation::{ElicitFormParams, FieldValue, FormSchema, StringSchema};

    use super::*;

    #[tokio::test]
    async fn arguments_are_validated_before_the_tool_runs() {
        let schema = json!({
            "type": "object",
            "properties": {"port": {"type": "integer", "minimum": 1, "maximum": 65535},
                           "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}}},
            "required": ["port"],
            "$defs": {"tag": {"type": "string", "pattern": "^(a+)+$"}},
        });
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let open = Tool::dynamic("open", schema, move |arguments: Json| {
            counted.fetch_add(1, Ordering::SeqCst);
            async move { arguments.get().to_owned() }
        });
        let mut client = McpServer::named("strict", "1").tool(open).test_client().await.unwrap();
        for (arguments, path) in [
            (json!({"port": 0}), "`port`"),
            (json!({"port": 1, "tags": ["a", 7]}), "`tags[1]`"),
            (json!({}), "port"),
            // A backtracking matcher would take exponential time.
            (json!({"port": 1, "tags": ["a".repeat(100_000) + "!"]}), "`tags[0]`"),
        ] {
            let outcome = client.call("open", arguments).await.unwrap();
            assert!(outcome.is_error());
            assert!(outcome.text().starts_with("invalid arguments: ") && outcome.text().contains(path));
            assert!(outcome.text().len() < 600, "{}", outcome.text().len());
        }
        assert_eq!(runs.load(Ordering::SeqCst), 0);
        assert!(!client.call("open", json!({"port": 1, "tags": ["aa"]})).await.unwrap().is_error());
    }

    #[tokio::test]
    async fn external_reference_or_invalid_schema_prevents_serving() {
        for schema in [
            json!({"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}}}),
            json!({"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}),
            json!({"type": "object", "properties": {"a": {"type": "strong"}}}),
        ] {
            let bad = Tool::dynamic("bad", schema, |_: Json| async { "never" });
            let error = McpServer::named("strict", "1").tool(bad).test_client().await.unwrap_err();
            assert!(error.to_string().contains("invalid input schema of tool `bad`"), "{error}");
        }
    }

    #[tokio::test]
    async fn recursive_schema_is_validated_without_exponential_work() {
        let branch = |name: &str| json!({"type": "object", "properties": {"args": {"type": "array", "items": {"$ref": "#/$defs/Expr"}}, name: {"type": "integer"}}, "required": [name, "args"]});
        let schema = json!({
            "type": "object",
            "properties": {"expr": {"$ref": "#/$defs/Expr"}},
            "$defs": {"Expr": {"anyOf": [branch("add"), branch("mul"), branch("neg")]}},
        });
        let eval = Tool::dynamic("eval", schema, |_: Json| async { "evaluated" });
        let mut client = McpServer::named("recursive", "1").tool(eval).test_client().await.unwrap();
        let expr = (0..50).fold(json!(7), |inner, _| json!({"neg": 1, "args": [inner]}));
        assert_eq!(client.call("eval", json!({"expr": expr})).await.unwrap().text(), "evaluated");
    }

    #[tokio::test]
    async fn elicitation_answers_are_validated_against_their_form() {
        let ask = tool("ask", |_: NoArgs, cx: Context| async move {
            let form = FormSchema::new()
                .field("name", StringSchema::new().min_length(2u64))
                .required(["name".to_owned()]);
            let answer = cx.ask("name", ElicitFormParams::new("Who?", form)).await?;
            Ok::<_, ToolError>(format!("{:?}", answer.action))
        });
        for (name, fits) in [("Ada", true), ("A", false)] {
            let server = McpServer::named("asks", "1").tool(ask.clone());
            let mut client = server.test_client().await.unwrap();
            client = client.on_ask(move |_, _| {
                InputResponse::Elicit(ElicitResult::accept([("name".to_owned(), FieldValue::from(name))]))
            });
            let outcome = client.call("ask", json!({})).await;
            assert_eq!(outcome.is_ok(), fits, "{outcome:?}");
        }
    }
}
