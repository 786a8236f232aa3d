//! The server asks the host: one handler for both eras.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_client::protocol::ProtocolVersion;
use mcp_client::protocol::capabilities::ClientCapabilities;
use mcp_client::protocol::elicitation::{
    BooleanSchema, ElicitFormParams, ElicitResult, ElicitUrlParams, FieldValue, FormSchema, StringSchema,
};
use mcp_client::protocol::roots::Root;
use mcp_client::protocol::sampling::{CreateMessageParams, CreateMessageResult, SamplingMessage};
use mcp_client::{Error, Handlers, ServerRequest};
use mcp_server::{Context, McpServer, NoArgs, ToolError, tool};
use serde_json::json;

use crate::support::{BOTH_ERAS, pair};

fn form() -> ElicitFormParams {
    let fields = FormSchema::new()
        .field("name", StringSchema::new().title("Your name"))
        .field("again", BooleanSchema::new().default(true))
        .require("name");
    ElicitFormParams::new("Who are you?", fields)
}

fn asking() -> McpServer {
    McpServer::named("asker", "1").tool(tool("ask", |_: NoArgs, cx: Context| async move {
        let answer = cx.ask("name", form()).await?;
        let content = answer.content.unwrap_or_default();
        let name = match content.get("name") {
            Some(FieldValue::String(name)) => name.clone(),
            _ => return Ok::<_, ToolError>(format!("{:?}", answer.action)),
        };
        Ok(format!("{name} {}", content.get("again") == Some(&true.into())))
    }))
}

#[tokio::test]
async fn form_answer_has_defaults_and_handler_sees_the_server_name() {
    for version in &BOTH_ERAS {
        let handlers = Handlers::new().on_form(async |asked: ServerRequest<ElicitFormParams>| {
            assert_eq!((asked.server.as_str(), asked.params.message.as_str()), ("asker", "Who are you?"));
            ElicitResult::accept([("name".to_owned(), "Ada".into())])
        });
        let pair = pair(asking(), version, handlers).await;
        assert_eq!(pair.client.call("ask", json!({})).await.unwrap().text(), "Ada true", "{version}");
    }
}

#[tokio::test]
async fn answer_to_a_url_has_no_content() {
    for version in &BOTH_ERAS {
        let server = McpServer::named("asker", "1").tool(tool("ask", |cx: Context| async move {
            let answer = cx.ask("page", ElicitUrlParams::new("Log in", "https://example.com/login")).await?;
            Ok::<_, ToolError>(format!("{:?} {:?}", answer.action, answer.content))
        }));
        let handlers =
            Handlers::new().on_url(async |_: ServerRequest<ElicitUrlParams>| ElicitResult::accept([]));
        let pair = pair(server, version, handlers).await;
        assert_eq!(pair.client.call("ask", ()).await.unwrap().text(), "Accept None", "{version}");
    }
}

#[tokio::test]
async fn an_answer_that_does_not_fit_the_form_is_not_sent() {
    for version in &BOTH_ERAS {
        let handlers =
            Handlers::new().on_form(async |_: ServerRequest<ElicitFormParams>| ElicitResult::accept([]));
        let pair = pair(asking(), version, handlers).await;
        match pair.client.call("ask", json!({})).await {
            Err(Error::Input { error: source, .. }) => assert!(source.message.contains("`name`"), "{source}"),
            Ok(outcome) => {
                assert!(outcome.is_error() && !version.era().unwrap().eq(&mcp_client::protocol::Era::Modern))
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn capability_without_a_handler_is_not_declared() {
    assert_eq!(Handlers::new().capabilities(), ClientCapabilities::new());
    for version in &BOTH_ERAS {
        let pair = pair(asking(), version, Handlers::new()).await;
        // The server sees that nothing was declared, and says so itself.
        let outcome = pair.client.call("ask", json!({})).await;
        match outcome {
            Ok(outcome) => assert!(outcome.is_error(), "{version}"),
            Err(error) => assert!(matches!(error, Error::Refused { .. }), "{version}: {error:?}"),
        }
    }
}

#[tokio::test]
async fn sampling_and_roots_are_answered_in_both_eras() {
    for version in &BOTH_ERAS {
        let server = McpServer::named("asker", "1").tool(tool("ask", |_: NoArgs, cx: Context| async move {
            let params = CreateMessageParams::new([SamplingMessage::user("2 + 2?")], 10_u64);
            let said = cx.ask("model", params).await?;
            let roots = cx.ask("roots", mcp_server::Roots).await?;
            let text = said.content.blocks()[0].as_text().unwrap_or_default().to_owned();
            Ok::<_, ToolError>(format!("{text} {}", roots.roots[0].uri))
        }));
        let handlers = Handlers::new()
            .on_sample(async |asked: ServerRequest<CreateMessageParams>| {
                assert_eq!(asked.params.max_tokens, 10);
                let said = SamplingMessage::assistant("4");
                Ok(CreateMessageResult::new(said.role, said.content, "small"))
            })
            .on_roots(async || vec![Root::new("file:///home")]);
        let pair = pair(server, version, handlers).await;
        assert_eq!(pair.client.call("ask", json!({})).await.unwrap().text(), "4 file:///home", "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn call_timeouts_are_paused_while_a_handler_runs() {
    for version in &BOTH_ERAS {
        let handlers = Handlers::new().on_form(async |_: ServerRequest<ElicitFormParams>| {
            tokio::time::sleep(Duration::from_secs(400)).await;
            ElicitResult::accept([("name".to_owned(), "Ada".into())])
        });
        let pair = pair(asking(), version, handlers).await;
        let call = pair.client.call("ask", json!({})).timeout(Duration::from_secs(5));
        assert_eq!(call.total_timeout(Duration::from_secs(9)).await.unwrap().text(), "Ada true", "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn unanswered_form_ends_the_call_after_the_handler_limit() {
    for version in &BOTH_ERAS {
        let handlers = Handlers::new()
            .timeout(Duration::from_secs(100))
            .on_form(async |_: ServerRequest<ElicitFormParams>| std::future::pending().await);
        let pair = pair(asking(), version, handlers).await;
        let began = tokio::time::Instant::now();
        let ended = pair.client.call("ask", json!({})).await;
        assert!(ended.as_ref().map_or(true, mcp_client::ToolResult::is_error), "{ended:?}");
        assert_eq!(began.elapsed().as_secs(), 100, "{version}");
    }
}

#[tokio::test]
async fn a_handler_that_panics_ends_its_own_request_only() {
    let handlers = Handlers::new().on_form(async |_: ServerRequest<ElicitFormParams>| panic!("on purpose"));
    let pair = pair(asking(), &ProtocolVersion::V2025_11_25, handlers).await;
    assert!(pair.client.call("ask", json!({})).await.unwrap().is_error());
    assert!(pair.client.call("ask", json!({})).await.unwrap().is_error());
}

#[tokio::test]
async fn call_ends_when_the_server_keeps_asking() {
    let server = McpServer::named("asker", "1").tool(tool("ask", |_: NoArgs, cx: Context| async move {
        for number in 0..100 {
            cx.ask(&format!("question {number}"), form()).await?;
        }
        Ok::<_, ToolError>("never")
    }));
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let handlers = Handlers::new().on_form(move |_: ServerRequest<ElicitFormParams>| {
        count.fetch_add(1, Ordering::SeqCst);
        async { ElicitResult::accept([("name".to_owned(), "Ada".into())]) }
    });
    let pair = pair(server, &ProtocolVersion::V2026_07_28, handlers).await;
    let ended = pair.client.call("ask", json!({})).await;
    assert!(ended.as_ref().map_or(true, mcp_client::ToolResult::is_error), "{ended:?}");
    assert!(asked.load(Ordering::SeqCst) <= 11, "{asked:?}");
}
