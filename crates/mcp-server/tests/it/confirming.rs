//! Confirmations and approvals: an answer is valid only once, for the call that asked for it.

use std::collections::HashSet;
use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use mcp_protocol::ProtocolVersion;
use mcp_protocol::capabilities::{ClientCapabilities, ElicitationCapability};
use mcp_protocol::elicitation::{ElicitFormParams, ElicitResult, FormSchema};
use mcp_protocol::input::{InputRequiredResult, InputResponse, InputResponses};
use mcp_protocol::messages::Method;
use mcp_protocol::tools::{CallToolParams, CallToolResponse};
use mcp_server::{
    ConfirmationStore, ConfirmationUse, Context, McpServer, NoArgs, ToolError, async_trait, tool,
};
use serde_json::json;

use crate::test_client::{TestClient, TestServer};

type Runs = Arc<AtomicUsize>;

/// Creates a server whose tools count their confirmed runs.
fn server(runs: &Runs) -> McpServer {
    let counted = |runs: &Runs| {
        let runs = Arc::clone(runs);
        move || runs.fetch_add(1, Ordering::SeqCst)
    };
    let (delete, pay, both, once) = (counted(runs), counted(runs), counted(runs), counted(runs));
    McpServer::named("careful", "1")
        .tool(
            tool("delete", move || {
                delete();
                async { "gone" }
            })
            .needs_approval(),
        )
        .tool(tool("pay", move |_: NoArgs, cx: Context| {
            let pay = pay.clone();
            async move {
                if !cx.confirm("pay", "Pay 10 EUR?").await? {
                    return Ok::<_, ToolError>("not paid");
                }
                pay();
                Ok("paid")
            }
        }))
        .tool(tool("once", move |_: NoArgs, cx: Context| {
            let once = once.clone();
            async move {
                cx.confirm("first", "First?").await?;
                cx.ask("why", ElicitFormParams::new("Why?", FormSchema::new())).await?;
                once();
                Ok::<_, ToolError>("done")
            }
        }))
        .tool(tool("both", move |_: NoArgs, cx: Context| {
            let both = both.clone();
            async move {
                cx.confirm("first", "First?").await?;
                let form = ElicitFormParams::new("Why?", FormSchema::new());
                cx.ask("why", form).await?;
                cx.confirm("second", "Second?").await?;
                both();
                Ok::<_, ToolError>("done")
            }
        }))
}

fn yes() -> InputResponse {
    InputResponse::Elicit(ElicitResult::accept([]))
}

/// Sends one request. Returns the input requests, or the text of the final result as `Err`.
async fn send(client: &mut TestClient, params: &CallToolParams) -> Result<InputRequiredResult, String> {
    let id = client.send(&Method::ToolsCall, params).await.unwrap();
    let result = client.response(&id).await.unwrap();
    match client.round(&result).unwrap() {
        CallToolResponse::InputRequired(required) => Ok(required),
        CallToolResponse::Complete(result) => {
            Err(result.content.iter().filter_map(|block| block.as_text()).collect())
        }
        other => panic!("{other:?}"),
    }
}

fn keys(required: &InputRequiredResult) -> Vec<String> {
    required.input_requests.iter().flatten().map(|(key, _)| key.clone()).collect()
}

/// Creates the next request of a call, with its state and accepted answers under these keys.
fn again(tool: &str, required: &InputRequiredResult, keys: &[String]) -> CallToolParams {
    let mut params = CallToolParams::new(tool).request_state(required.request_state.clone().unwrap());
    if !keys.is_empty() {
        params.input_responses = Some(keys.iter().map(|key| (key.clone(), yes())).collect());
    }
    params
}

#[tokio::test]
async fn used_approval_is_not_asked_for_again() {
    for tool in ["delete", "pay"] {
        let runs = Runs::default();
        let mut client = server(&runs).test_client().await.unwrap();
        let asked = send(&mut client, &CallToolParams::new(tool)).await.unwrap();
        let old_keys = keys(&asked);
        send(&mut client, &again(tool, &asked, &old_keys)).await.unwrap_err();
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        // The old state without answers does not start another round, because the call has already run.
        let refusal = send(&mut client, &again(tool, &asked, &[])).await.unwrap_err();
        assert!(refusal.contains("valid only once"), "{refusal}");
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn used_confirmation_does_not_answer_the_next_round() {
    for tool in ["delete", "pay"] {
        let runs = Runs::default();
        let mut client = server(&runs).test_client().await.unwrap();
        let first = send(&mut client, &CallToolParams::new(tool)).await.unwrap();
        // Until the confirmation is used, further rounds are possible; each asks under a new key.
        let second = send(&mut client, &again(tool, &first, &[])).await.unwrap();
        let third = send(&mut client, &again(tool, &second, &[])).await.unwrap();
        assert_ne!(keys(&first), keys(&second));
        assert_ne!(keys(&second), keys(&third));
        let reused = send(&mut client, &again(tool, &second, &keys(&first))).await;
        assert!(reused.is_ok(), "an answer to one question was used for another: {reused:?}");
        assert_eq!(runs.load(Ordering::SeqCst), 0);
        // All rounds belong to one call, which runs once.
        for asked in [&third, &second, &first, &third] {
            let _ = send(&mut client, &again(tool, asked, &keys(asked))).await;
        }
        assert_eq!(runs.load(Ordering::SeqCst), 1, "{tool}");
    }
}

#[tokio::test]
async fn confirmed_call_with_more_questions_completes_once() {
    for (tool, rounds) in [("once", 2), ("both", 3)] {
        let runs = Runs::default();
        let mut client = server(&runs).test_client().await.unwrap();
        let mut states = Vec::new();
        let mut params = CallToolParams::new(tool);
        while let Ok(asked) = send(&mut client, &params).await {
            params = again(tool, &asked, &keys(&asked));
            states.push((asked, params.clone()));
        }
        assert_eq!((states.len(), runs.load(Ordering::SeqCst)), (rounds, 1));
        // No repeated request, with or without answers, completes the call again.
        for _ in 0..3 {
            for (asked, params) in &states {
                let bare = again(tool, asked, &[]);
                for params in [params, &bare] {
                    if let Ok(asked) = send(&mut client, params).await {
                        let _ = send(&mut client, &again(tool, &asked, &keys(&asked))).await;
                    }
                }
            }
        }
        assert_eq!(runs.load(Ordering::SeqCst), 1, "{tool}");
    }
}

#[tokio::test]
async fn confirmation_sent_in_advance_is_not_accepted() {
    let runs = Runs::default();
    let mut client = server(&runs).test_client().await.unwrap();
    let guesses = ["pay", "pay.", "pay..0", "confirm"].map(|key| (key.to_owned(), yes()));
    let mut params = CallToolParams::new("pay");
    params.input_responses = Some(InputResponses::from(guesses.clone()));
    let asked =
        send(&mut client, &params).await.expect("an answer to a question that was not asked was accepted");
    // After the question was asked, an answer under the key of the tool is not accepted either.
    let mut params = again("pay", &asked, &[]);
    params.input_responses = Some(InputResponses::from(guesses));
    send(&mut client, &params).await.expect("an answer to another question was accepted");
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn confirmation_is_valid_only_for_its_message() {
    let (price, paid) = (Arc::new(AtomicUsize::new(10)), Runs::default());
    let (now, sum) = (Arc::clone(&price), Arc::clone(&paid));
    let server = McpServer::named("shop", "1").tool(tool("pay", move |_: NoArgs, cx: Context| {
        let (now, sum) = (Arc::clone(&now), Arc::clone(&sum));
        async move {
            let amount = now.load(Ordering::SeqCst);
            if cx.confirm("pay", format!("Pay {amount} EUR?")).await? {
                sum.fetch_add(amount, Ordering::SeqCst);
            }
            Ok::<_, ToolError>(())
        }
    }));
    let mut client = server.test_client().await.unwrap();
    let asked = send(&mut client, &CallToolParams::new("pay")).await.unwrap();
    price.store(1_000_000, Ordering::SeqCst);
    let again_asked = send(&mut client, &again("pay", &asked, &keys(&asked))).await;
    let again_asked = again_asked.expect("the old answer confirmed the new message");
    assert_eq!(paid.load(Ordering::SeqCst), 0);
    let _ = send(&mut client, &again("pay", &again_asked, &keys(&again_asked))).await;
    assert_eq!(paid.load(Ordering::SeqCst), 1_000_000);
}

#[tokio::test]
async fn approval_of_a_tool_does_not_answer_its_own_question() {
    let runs = Runs::default();
    let counted = Arc::clone(&runs);
    let server = McpServer::named("database", "1").tool(
        tool("drop", move |_: NoArgs, cx: Context| {
            let counted = Arc::clone(&counted);
            async move {
                if cx.confirm("approval", "Really drop the production database?").await? {
                    counted.fetch_add(1, Ordering::SeqCst);
                }
                Ok::<_, ToolError>(())
            }
        })
        .needs_approval(),
    );
    let mut client = server.test_client().await.unwrap();
    let asked = send(&mut client, &CallToolParams::new("drop")).await.unwrap();
    let own = send(&mut client, &again("drop", &asked, &keys(&asked))).await.expect("its own question");
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    let _ = send(&mut client, &again("drop", &own, &keys(&own))).await;
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn confirmation_is_true_only_for_accept_in_both_eras() {
    for (answer, text) in [
        (ElicitResult::accept([]), "paid"),
        (ElicitResult::decline(), "not paid"),
        (ElicitResult::cancel(), "not paid"),
    ] {
        let runs = Runs::default();
        let modern = server(&runs).test_client().await.unwrap();
        let legacy = server(&runs).legacy_test_client(ProtocolVersion::V2025_11_25).await.unwrap();
        for client in [modern, legacy] {
            let answer = answer.clone();
            let mut client = client.on_ask(move |_, _| InputResponse::Elicit(answer.clone()));
            assert_eq!(client.call("pay", json!({})).await.unwrap().text(), text);
        }
    }
}

/// A store that several replicas share.
#[derive(Clone, Default)]
struct SharedStore(Arc<Mutex<HashSet<String>>>);

#[async_trait]
impl ConfirmationStore for SharedStore {
    async fn spend(&self, spent: &ConfirmationUse) -> Result<bool, Box<dyn Error + Send + Sync>> {
        assert!(spent.keep_for.as_secs() >= 600, "shorter than the lifetime of sealed state");
        Ok(self.0.lock().unwrap().insert(spent.id.clone()))
    }

    async fn is_spent(&self, id: &str) -> Result<bool, Box<dyn Error + Send + Sync>> {
        Ok(self.0.lock().unwrap().contains(id))
    }
}

/// A store that always fails.
struct FailingStore;

#[async_trait]
impl ConfirmationStore for FailingStore {
    async fn spend(&self, _: &ConfirmationUse) -> Result<bool, Box<dyn Error + Send + Sync>> {
        Err("redis://user:secret@host cannot be reached".into())
    }

    async fn is_spent(&self, _: &str) -> Result<bool, Box<dyn Error + Send + Sync>> {
        Err("redis://user:secret@host cannot be reached".into())
    }
}

#[tokio::test]
async fn replicas_with_a_shared_store_accept_a_confirmation_once() {
    let runs = Runs::default();
    let store = SharedStore::default();
    let replica = || server(&runs).sealing_key([7; 32]).confirmation_store(store.clone()).test_client();
    let (mut one, mut other) = (replica().await.unwrap(), replica().await.unwrap());
    let asked = send(&mut one, &CallToolParams::new("delete")).await.unwrap();
    let approved = again("delete", &asked, &keys(&asked));
    assert_eq!(send(&mut one, &approved).await.unwrap_err(), "gone");
    let refusal = send(&mut other, &approved).await.unwrap_err();
    assert!(refusal.contains("valid only once"), "{refusal}");
    let refusal = send(&mut other, &again("delete", &asked, &[])).await.unwrap_err();
    assert!(refusal.contains("valid only once"), "{refusal}");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn replicas_without_a_shared_store_each_accept_a_confirmation() {
    let runs = Runs::default();
    let replica = || server(&runs).sealing_key([7; 32]).test_client();
    let (mut one, mut other) = (replica().await.unwrap(), replica().await.unwrap());
    let asked = send(&mut one, &CallToolParams::new("delete")).await.unwrap();
    let approved = again("delete", &asked, &keys(&asked));
    for _ in 0..2 {
        let _ = send(&mut one, &approved).await;
        let _ = send(&mut other, &approved).await;
    }
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn confirmation_is_refused_while_its_store_fails() {
    let runs = Runs::default();
    let mut client = server(&runs).confirmation_store(FailingStore).test_client().await.unwrap();
    let asked = send(&mut client, &CallToolParams::new("delete")).await.unwrap();
    for answers in [keys(&asked), Vec::new()] {
        let refusal = send(&mut client, &again("delete", &asked, &answers)).await.unwrap_err();
        assert!(refusal.contains("retry later") && !refusal.contains("secret"), "{refusal}");
    }
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn confirm_fails_if_the_client_lacks_elicitation() {
    let runs = Runs::default();
    let mut client = server(&runs).test_client().await.unwrap();
    client.declare(ClientCapabilities::new());
    assert!(client.call("pay", json!({})).await.is_err());
    client.declare(ClientCapabilities::new().elicitation(ElicitationCapability::new()));
    assert!(send(&mut client, &CallToolParams::new("pay")).await.is_ok());
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}
