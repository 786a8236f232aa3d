//! Tools that use elicitation and sampling over a legacy connection.

use mcp_server::protocol::content::Role;
use mcp_server::protocol::elicitation::{
    BooleanSchema, ElicitFormParams, EnumItems, EnumOption, FormSchema, NumberSchema, StringSchema,
    TitledItems, TitledMultiSelectSchema, TitledSingleSelectSchema, UntitledMultiSelectSchema,
    UntitledSingleSelectSchema,
};
use mcp_server::protocol::sampling::{CreateMessageParams, SamplingBlock, SamplingMessage};
use mcp_server::{Context, McpServer, NoArgs, ToolError, tool};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Sampling {
    /// The prompt for the language model.
    prompt: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Elicitation {
    /// The message for the user.
    message: String,
}

pub(crate) fn add(server: McpServer) -> McpServer {
    server
        .tool(tool("test_sampling", sampling).description("Asks the language model."))
        .tool(tool("test_elicitation", elicitation).description("Asks the person."))
        .tool(tool("test_elicitation_sep1034_defaults", defaults).description("Asks with defaults."))
        .tool(tool("test_elicitation_sep1330_enums", enums).description("Asks for choices."))
}

async fn sampling(Sampling { prompt }: Sampling, cx: Context) -> Result<String, ToolError> {
    let message = SamplingMessage::new(Role::User, SamplingBlock::text(prompt));
    let answer = cx.ask("sampling", CreateMessageParams::new([message], 100_u64)).await?;
    Ok(format!("LLM response: {}", serde_json::to_string(&answer.content)?))
}

async fn elicitation(Elicitation { message }: Elicitation, cx: Context) -> Result<String, ToolError> {
    let form = FormSchema::new()
        .field("username", StringSchema::new())
        .field("email", StringSchema::new())
        .required(["username".to_owned(), "email".to_owned()]);
    let answer = cx.ask("elicitation", ElicitFormParams::new(message, form)).await?;
    Ok(format!("User response: {}", serde_json::to_string(&answer)?))
}

async fn defaults(_: NoArgs, cx: Context) -> Result<String, ToolError> {
    let form = FormSchema::new()
        .field("name", StringSchema::new().default("John Doe"))
        .field("age", NumberSchema::integer().default(30))
        .field("score", NumberSchema::number().default(95.5))
        .field(
            "status",
            UntitledSingleSelectSchema::new(["active", "inactive", "pending"].map(str::to_owned))
                .default("active"),
        )
        .field("verified", BooleanSchema::new().default(true));
    let answer = cx.ask("defaults", ElicitFormParams::new("Please look at these.", form)).await?;
    Ok(format!("Elicitation completed: {}", serde_json::to_string(&answer)?))
}

async fn enums(_: NoArgs, cx: Context) -> Result<String, ToolError> {
    let plain = || ["option1", "option2", "option3"].map(str::to_owned);
    let titled =
        || ["value1", "value2", "value3"].map(|value| EnumOption::new(value, format!("Title of {value}")));
    let form = FormSchema::new()
        .field("untitledSingle", UntitledSingleSelectSchema::new(plain()))
        .field("titledSingle", TitledSingleSelectSchema::new(titled()))
        .field(
            "legacyEnum",
            UntitledSingleSelectSchema::new(plain()).enum_names(["One", "Two", "Three"].map(str::to_owned)),
        )
        .field("untitledMulti", UntitledMultiSelectSchema::new(EnumItems::new(plain())))
        .field("titledMulti", TitledMultiSelectSchema::new(TitledItems::new(titled())));
    let answer = cx.ask("enums", ElicitFormParams::new("Please choose.", form)).await?;
    Ok(format!("Elicitation completed: {}", serde_json::to_string(&answer)?))
}
