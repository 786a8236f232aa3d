//! A tool that asks the user twice and makes a booking in between, and one that asks for a confirmation, in both eras:
//! `cargo run -p example-resumable-wizard`
//!
//! **In the modern era the function below runs once per round, from the beginning.** Earlier answers and the results of
//! steps are reused; all other code runs again.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use mcp_server::protocol::elicitation::{
    ElicitFormParams, ElicitResult, FieldValue, FormSchema, StringSchema,
};
use mcp_server::{Context, McpServer, NoArgs, ToolError, tool};

/// The reservation system: seats by idempotency key. One key always returns the same seat.
type Seats = Arc<Mutex<BTreeMap<String, usize>>>;

async fn book(seats: Seats, cx: Context) -> Result<String, ToolError> {
    let city = text(&cx.ask("city", question("Where do you want to go?")).await?)?;
    // Runs at least once; the idempotency key identifies a repeated booking.
    let booking: String = cx.step("hold", |key| async move { hold_a_seat(&seats, key) }).await?;
    let name = text(&cx.ask("name", question("In whose name?")).await?)?;
    Ok(format!("{name} goes to {city}: {booking}"))
}

/// An action that cannot be undone needs a confirmation, which is valid only for the call that asked.
async fn give_back(seats: Seats, cx: Context) -> Result<String, ToolError> {
    let held: Vec<String> = seats.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect();
    let count = held.len();
    if !cx.confirm("give_back", format!("Give back all {count} seats?")).await? {
        return Ok("Nothing was given back.".to_owned());
    }
    // Cancels only the seats that were confirmed; others may have been booked in the meantime.
    seats.lock().unwrap_or_else(PoisonError::into_inner).retain(|key, _| !held.contains(key));
    Ok(format!("{count} seats were given back."))
}

fn hold_a_seat(seats: &Seats, key: String) -> Result<String, ToolError> {
    let mut seats = seats.lock().unwrap_or_else(PoisonError::into_inner);
    let next = seats.len() + 1;
    Ok(format!("seat {}", seats.entry(key).or_insert(next)))
}

fn question(message: &str) -> ElicitFormParams {
    let form = FormSchema::new().field("answer", StringSchema::new()).required(["answer".to_owned()]);
    ElicitFormParams::new(message, form)
}

fn text(answer: &ElicitResult) -> Result<String, ToolError> {
    match answer.content.as_ref().and_then(|content| content.get("answer")) {
        Some(FieldValue::String(text)) => Ok(text.clone()),
        _ => Err(ToolError::new("the user did not answer")),
    }
}

fn server(seats: &Seats) -> McpServer {
    let (booked, given_back) = (Arc::clone(seats), Arc::clone(seats));
    let book = move |_: NoArgs, cx: Context| book(Arc::clone(&booked), cx);
    let give_back = move |_: NoArgs, cx: Context| give_back(Arc::clone(&given_back), cx);
    McpServer::named("wizard", env!("CARGO_PKG_VERSION"))
        .tool(tool("book", book).description("Books a journey."))
        .tool(tool("give_back", give_back).description("Gives back all seats, after a confirmation."))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    if let Err(error) = server(&Seats::default()).serve_stdio().await {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use mcp_client::{Handlers, McpClient};
    use mcp_server::protocol::ProtocolVersion;
    use mcp_server::testing::RawClient;
    use serde_json::{Value, json};

    use super::*;

    const BOTH_ERAS: [ProtocolVersion; 2] = [ProtocolVersion::V2026_07_28, ProtocolVersion::V2025_11_25];

    async fn connect(seats: &Seats, version: ProtocolVersion, handlers: Handlers) -> McpClient {
        let streams = server(seats).in_memory().unwrap();
        McpClient::over(streams).versions([version]).handlers(handlers).connect().await.unwrap()
    }

    fn answer(message: &str) -> &'static str {
        if message == "In whose name?" { "Ada" } else { "Paris" }
    }

    #[tokio::test]
    async fn the_wizard_books_in_both_eras() {
        let seats = Seats::default();
        for (number, version) in BOTH_ERAS.into_iter().enumerate() {
            let handlers = Handlers::new().on_form(|asked| async move {
                ElicitResult::accept([("answer".to_owned(), answer(&asked.params.message).into())])
            });
            let client = connect(&seats, version, handlers).await;
            let outcome = client.call("book", json!({})).await.unwrap();
            assert_eq!(outcome.text(), format!("Ada goes to Paris: seat {}", number + 1));
        }
    }

    #[tokio::test]
    async fn seats_are_given_back_only_after_a_yes() {
        for (says_yes, left) in [(false, 1), (true, 0)] {
            let seats = Seats::default();
            for version in BOTH_ERAS {
                let handlers = Handlers::new().on_form(move |_| async move {
                    if says_yes { ElicitResult::accept([]) } else { ElicitResult::decline() }
                });
                let client = connect(&seats, version, handlers).await;
                seats.lock().unwrap().insert("key".to_owned(), 1);
                client.call("give_back", json!({})).await.unwrap();
                assert_eq!(seats.lock().unwrap().len(), left);
            }
        }
    }

    #[tokio::test]
    async fn modern_rounds_sent_twice_hold_one_seat() {
        let seats = Seats::default();
        let mut client = RawClient::new(server(&seats)).unwrap();
        let mut params = json!({"name": "book", "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
        }});
        let text = loop {
            // The first response is lost; the second one is used.
            client.request("tools/call", params.clone()).await.unwrap();
            let result = client.request("tools/call", params.clone()).await.unwrap()["result"].take();
            if result["resultType"] == "complete" {
                break result["content"][0]["text"].clone();
            }
            let asked = result["inputRequests"].as_object().unwrap().iter();
            let answers = asked.map(|(key, request)| {
                let text = answer(request["params"]["message"].as_str().unwrap());
                (key.clone(), json!({"action": "accept", "content": {"answer": text}}))
            });
            params["inputResponses"] = answers.collect::<serde_json::Map<_, _>>().into();
            params["requestState"] = result["requestState"].clone();
        };
        assert_eq!(text, "Ada goes to Paris: seat 1");
        assert_eq!(seats.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn legacy_every_answer_sent_twice_and_the_response_dropped_once() {
        let seats = Seats::default();
        let mut client = RawClient::new(server(&seats)).unwrap();
        let capabilities = json!({"elicitation": {"form": {}}});
        let info = json!({"name": "test", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info});
        let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        client.send(&initialize).await.unwrap();
        assert_eq!(client.receive().await.unwrap()["result"]["protocolVersion"], "2025-11-25");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await.unwrap();
        // The response to the first call is lost: the client calls again, which is a new call.
        for call in 1..=2 {
            let request =
                json!({"jsonrpc": "2.0", "id": call, "method": "tools/call", "params": {"name": "book"}});
            client.send(&request).await.unwrap();
            let response: Value = loop {
                let message = client.receive().await.unwrap();
                if message["method"] != "elicitation/create" {
                    break message;
                }
                let text = answer(message["params"]["message"].as_str().unwrap());
                let result = json!({"action": "accept", "content": {"answer": text}});
                let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
                for _ in 0..2 {
                    client.send(&answer).await.unwrap();
                }
            };
            assert_eq!(response["id"], json!(call));
            assert_eq!(
                response["result"]["content"][0]["text"],
                json!(format!("Ada goes to Paris: seat {call}"))
            );
        }
        assert_eq!(seats.lock().unwrap().len(), 2);
    }
}
