//! Tools and a prompt that ask for input (elicitation, sampling, roots) in several rounds.

use mcp_server::protocol::capabilities::ClientCapabilities;
use mcp_server::protocol::content::Role;
use mcp_server::protocol::elicitation::{
    BooleanSchema, ElicitFormParams, ElicitResult, FieldValue, FormSchema, StringSchema,
};
use mcp_server::protocol::prompts::Prompt;
use mcp_server::protocol::sampling::{CreateMessageParams, SamplingBlock, SamplingMessage};
use mcp_server::{Context, McpServer, NoArgs, Question, Roots, ToolError, prompt, tool};

pub(crate) fn add(server: McpServer) -> McpServer {
    let asks = Prompt::new("test_input_required_result_prompt").description("Asks for context first.");
    server
        .tool(tool("test_input_required_result_elicitation", greet).description("Asks for a name."))
        .tool(tool("test_input_required_result_sampling", sample).description("Asks the language model."))
        .tool(tool("test_input_required_result_list_roots", roots).description("Asks for the roots."))
        .tool(tool("test_input_required_result_request_state", confirm).description("Asks for a yes."))
        .tool(tool("test_input_required_result_tampered_state", confirm).description("Asks for a yes."))
        .tool(
            tool("test_input_required_result_multiple_inputs", several).description("Asks for three things."),
        )
        .tool(tool("test_input_required_result_multi_round", rounds).description("Asks twice."))
        .tool(
            tool("test_input_required_result_capabilities", able)
                .description("Asks what the client can answer."),
        )
        .tool(tool("test_streaming_elicitation", greet).description("Asks for a name."))
        .tool(tool("test_missing_capability", sample).description("Needs a language model."))
        .prompt(prompt(asks, context))
}

fn text_form(message: &str, field: &str) -> ElicitFormParams {
    let form = FormSchema::new().field(field, StringSchema::new()).required([field.to_owned()]);
    ElicitFormParams::new(message, form)
}

fn text(answer: &ElicitResult, field: &str) -> String {
    match answer.content.as_ref().and_then(|content| content.get(field)) {
        Some(FieldValue::String(text)) => text.clone(),
        _ => "nobody".to_owned(),
    }
}

fn question(text: &str) -> CreateMessageParams {
    CreateMessageParams::new([SamplingMessage::new(Role::User, SamplingBlock::text(text))], 100_u64)
}

async fn greet(_: NoArgs, cx: Context) -> Result<String, ToolError> {
    let answer = cx.ask("user_name", text_form("What is your name?", "name")).await?;
    Ok(format!("Hello, {}!", text(&answer, "name")))
}

async fn sample(_: NoArgs, cx: Context) -> Result<String, ToolError> {
    let answer = cx.ask("capital_question", question("What is the capital of France?")).await?;
    Ok(serde_json::to_string(&answer.content)?)
}

async fn roots(_: NoArgs, cx: Context) -> Result<String, ToolError> {
    let answer = cx.ask("client_roots", Roots).await?;
    Ok(format!("{} roots", answer.roots.len()))
}

async fn confirm(_: NoArgs, cx: Context) -> Result<&'static str, ToolError> {
    let form = FormSchema::new().field("ok", BooleanSchema::new());
    cx.ask("confirm", ElicitFormParams::new("Is it all right?", form)).await?;
    Ok("state-ok")
}

async fn several(_: NoArgs, cx: Context) -> Result<String, ToolError> {
    let answers = cx
        .ask_all([
            ("user_name", text_form("What is your name?", "name").into_request()),
            ("greeting", question("Say hello.").into_request()),
            ("client_roots", Roots.into_request()),
        ])
        .await?;
    Ok(format!("{} answers", answers.len()))
}

async fn rounds(_: NoArgs, cx: Context) -> Result<String, ToolError> {
    let name = text(&cx.ask("step1", text_form("What is your name?", "name")).await?, "name");
    let color = text(&cx.ask("step2", text_form("Which color?", "color")).await?, "color");
    Ok(format!("{name} likes {color}"))
}

/// Asks only for input that the client declared as a capability.
async fn able(_: NoArgs, cx: Context) -> Result<String, ToolError> {
    let none = ClientCapabilities::new();
    let can = cx.client_capabilities().unwrap_or(&none);
    let mut questions = Vec::new();
    if can.elicitation.is_some() {
        questions.push(("user_name", text_form("What is your name?", "name").into_request()));
    }
    if can.sampling.is_some() {
        questions.push(("greeting", question("Say hello.").into_request()));
    }
    let answers = cx.ask_all(questions).await?;
    Ok(format!("{} answers", answers.len()))
}

async fn context(_: NoArgs, cx: Context) -> Result<String, ToolError> {
    let answer = cx.ask("user_context", text_form("What is it about?", "context")).await?;
    Ok(format!("Think about {}.", text(&answer, "context")))
}
