//! A tool that asks the user twice and books in between, and one that asks for a confirmation, in both eras:
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
    // Only the seats that were confirmed; others may have been booked meanwhile.
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
    use mcp_server::Json;
    use mcp_server::protocol::ProtocolVersion;
    use mcp_server::protocol::input::{InputRequest, InputResponse, InputResponses};
    use mcp_server::protocol::messages::Method;
    use mcp_server::protocol::tools::{CallToolParams, CallToolResponse};
    use mcp_server::testing::message_of;
    use serde_json::{Value, json};

    use super::*;

    fn answer(_: &str, request: &InputRequest) -> InputResponse {
        let text = if message_of(request) == Some("In whose name?") { "Ada" } else { "Paris" };
        InputResponse::Elicit(ElicitResult::accept([("answer".to_owned(), text.into())]))
    }

    #[tokio::test]
    async fn the_wizard_books_in_both_eras() {
        let seats = Seats::default();
        let mut modern = server(&seats).test_client().await.unwrap().on_ask(answer);
        let legacy = server(&seats).legacy_test_client(ProtocolVersion::V2025_11_25).await.unwrap();
        for (number, client) in [&mut modern, &mut legacy.on_ask(answer)].into_iter().enumerate() {
            let outcome = client.call("book", Json::object()).await.unwrap();
            assert_eq!(outcome.text(), format!("Ada goes to Paris: seat {}", number + 1));
        }
    }

    #[tokio::test]
    async fn seats_are_given_back_only_after_a_yes() {
        for (says_yes, left) in [(false, 1), (true, 0)] {
            let reply = move |_: &str, _: &InputRequest| {
                InputResponse::Elicit(if says_yes {
                    ElicitResult::accept([])
                } else {
                    ElicitResult::decline()
                })
            };
            let seats = Seats::default();
            let modern = server(&seats).test_client().await.unwrap();
            let legacy = server(&seats).legacy_test_client(ProtocolVersion::V2025_11_25).await.unwrap();
            for client in [modern, legacy] {
                seats.lock().unwrap().insert("key".to_owned(), 1);
                client.on_ask(reply).call("give_back", Json::object()).await.unwrap();
                assert_eq!(seats.lock().unwrap().len(), left);
            }
        }
    }

    #[tokio::test]
    async fn modern_rounds_sent_twice_hold_one_seat() {
        let seats = Seats::default();
        let mut client = server(&seats).test_client().await.unwrap();
        let mut params = CallToolParams::new("book");
        let text = loop {
            let mut responses = Vec::new();
            for _ in 0..2 {
                let id = client.send(&Method::ToolsCall, &params).await.unwrap();
                let result = client.response(&id).await.unwrap();
                responses.push(client.round(&result).unwrap());
            }
            // The first response is lost; the second one is used.
            match responses.pop() {
                Some(CallToolResponse::Complete(result)) => {
                    break result.content[0].as_text().map(str::to_owned);
                }
                Some(CallToolResponse::InputRequired(required)) => {
                    let asked = required.input_requests.iter().flatten();
                    let answers: InputResponses =
                        asked.map(|(key, request)| (key.clone(), answer(key, request))).collect();
                    params = CallToolParams::new("book").input_responses(answers);
                    params.request_state = required.request_state;
                }
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(text.as_deref(), Some("Ada goes to Paris: seat 1"));
        assert_eq!(seats.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn legacy_every_answer_sent_twice_and_the_response_dropped_once() {
        let seats = Seats::default();
        let mut client = server(&seats).legacy_test_client(ProtocolVersion::V2025_11_25).await.unwrap();
        // The response to the first call is lost: the client calls again, which is a new call.
        for call in 1..=2 {
            let request =
                json!({"jsonrpc": "2.0", "id": call, "method": "tools/call", "params": {"name": "book"}});
            client.send_line(request.to_string().as_bytes()).await.unwrap();
            let response = loop {
                let message: Value = serde_json::from_slice(&client.line().await.unwrap()).unwrap();
                if message["method"] != "elicitation/create" {
                    break message;
                }
                let text = if message["params"]["message"] == "In whose name?" { "Ada" } else { "Paris" };
                let result = json!({"action": "accept", "content": {"answer": text}});
                let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
                for _ in 0..2 {
                    client.send_line(answer.as_bytes()).await.unwrap();
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
