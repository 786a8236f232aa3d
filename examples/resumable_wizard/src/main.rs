//! A tool that asks twice and books in between, in both eras: `cargo run -p example-resumable-wizard`
//!
//! **In the modern era the function below runs once per round, from the top.** What it was answered, and what
//! its steps gave, is there again; everything else is done again.

use mcp_server::protocol::elicitation::{
    ElicitFormParams, ElicitResult, FieldValue, FormSchema, StringSchema,
};
use mcp_server::{Context, Error, McpServer, NoArgs, ToolError, tool};

async fn book(_: NoArgs, cx: Context) -> Result<String, ToolError> {
    let city = text(&cx.ask("city", question("Where do you want to go?")).await?)?;
    // At least once: the key tells the outside world that it is the same booking.
    let booking: String = cx.step("hold", |key| async move { hold_a_seat(&key) }).await?;
    let name = text(&cx.ask("name", question("In whose name?")).await?)?;
    Ok(format!("{name} goes to {city}: {booking}"))
}

fn hold_a_seat(key: &str) -> Result<String, ToolError> {
    eprintln!("a seat is held under {key}");
    Ok("seat 12".to_owned())
}

fn question(message: &str) -> ElicitFormParams {
    let form = FormSchema::new().field("answer", StringSchema::new()).required(["answer".to_owned()]);
    ElicitFormParams::new(message, form)
}

fn text(answer: &ElicitResult) -> Result<String, ToolError> {
    match answer.content.as_ref().and_then(|content| content.get("answer")) {
        Some(FieldValue::String(text)) => Ok(text.clone()),
        _ => Err(ToolError::new("the person did not answer")),
    }
}

fn server() -> McpServer {
    McpServer::named("wizard", env!("CARGO_PKG_VERSION"))
        .tool(tool("book", book).description("Books a journey."))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    server().serve_stdio().await
}

#[cfg(test)]
mod tests {
    use mcp_server::protocol::ProtocolVersion;
    use mcp_server::protocol::input::{InputRequest, InputResponse};
    use mcp_server::testing::message_of;

    use super::*;

    fn answer(_: &str, request: &InputRequest) -> InputResponse {
        let text = if message_of(request) == Some("In whose name?") { "Ada" } else { "Paris" };
        InputResponse::Elicit(ElicitResult::accept([("answer".to_owned(), text.into())]))
    }

    #[tokio::test]
    async fn the_wizard_books_in_both_eras() {
        let mut modern = server().test_client().await.unwrap().on_ask(answer);
        let legacy = server().legacy_test_client(ProtocolVersion::V2025_11_25).await.unwrap();
        for client in [&mut modern, &mut legacy.on_ask(answer)] {
            let outcome = client.call("book", mcp_server::Json::object()).await.unwrap();
            assert_eq!(outcome.text(), "Ada goes to Paris: seat 12");
        }
    }
}
