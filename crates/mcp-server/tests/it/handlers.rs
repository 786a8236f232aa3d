//! The functions that a user writes: their errors, their state, their arguments and what they return.

use std::sync::{Arc, Mutex};

use mcp_protocol::ProtocolVersion;
use mcp_protocol::content::{ContentBlock, EmbeddedResource};
use mcp_protocol::elicitation::{ElicitFormParams, ElicitResult, FormSchema, StringSchema};
use mcp_protocol::input::InputResponse;
use mcp_protocol::messages::Method;
use mcp_protocol::prompts::{
    GetPromptParams, GetPromptResult, ListPromptsResult, Prompt, PromptArgument, PromptMessage,
};
use mcp_protocol::resources::{
    ReadResourceParams, ReadResourceResult, Resource, ResourceContents, ResourceLink,
};
use mcp_protocol::tools::{CallToolParams, CallToolResult};
use mcp_server::{
    AskError, Audio, Context, Error, FormAnswer, Image, IntoOutcome, Json, McpServer, NoArgs,
    PromptArguments, ReadRequest, ToolError, prompt, resource, resource_template, state, tool,
};
use serde_json::json;

use crate::around::RecordedWarnings;
use crate::test_client::{TestClient, TestError, TestServer};

fn form() -> ElicitFormParams {
    ElicitFormParams::new("Who are you?", FormSchema::new().field("name", StringSchema::new()))
}

/// A client that answers every question with the name Ada.
async fn client(server: McpServer) -> TestClient {
    let client = server.test_client().await.unwrap();
    client.on_ask(|_, _| InputResponse::Elicit(ElicitResult::accept([("name".to_owned(), "Ada".into())])))
}

async fn legacy_client(server: McpServer) -> TestClient {
    let client = server.legacy_test_client(ProtocolVersion::V2025_11_25).await.unwrap();
    client.on_ask(|_, _| InputResponse::Elicit(ElicitResult::accept([("name".to_owned(), "Ada".into())])))
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

fn anyhow_number(text: &str) -> anyhow::Result<u8> {
    use anyhow::Context as _;
    text.parse().context("reading the number")
}

/// Tools that fail with each type of error, and tools that ask before.
fn fallible() -> McpServer {
    async fn text() -> Result<(), String> {
        Err("as text".to_owned())
    }
    async fn static_text() -> Result<(), &'static str> {
        Err("as static text")
    }
    async fn boxed() -> Result<String, BoxError> {
        Ok("x".parse::<u8>()?.to_string())
    }
    async fn boxed_tool_error() -> Result<(), BoxError> {
        Err(ToolError::invalid_params("no such thing"))?
    }
    async fn with_anyhow() -> anyhow::Result<()> {
        anyhow_number("x").map(drop)
    }
    async fn asks_anyhow(cx: Context) -> anyhow::Result<String> {
        Ok(cx.ask("name", form()).await?.action.to_string())
    }
    async fn asks_anyhow_with_context(cx: Context) -> anyhow::Result<String> {
        use anyhow::Context as _;
        Ok(cx.ask("name", form()).await.context("asking for the name")?.action.to_string())
    }
    async fn asks_boxed(cx: Context) -> Result<String, BoxError> {
        Ok(cx.ask("name", form()).await?.action.to_string())
    }
    async fn asks_text(cx: Context) -> Result<String, String> {
        Ok(cx.ask("name", form()).await.map_err(|error| format!("asking: {error}"))?.action.to_string())
    }
    async fn confirms_anyhow(cx: Context) -> anyhow::Result<String> {
        Ok(cx.confirm("sure", "Sure?").await?.to_string())
    }
    async fn step_anyhow(cx: Context) -> anyhow::Result<String> {
        let count: u8 = cx.step("count", |_| async { anyhow_number("x") }).await?;
        Ok(count.to_string())
    }
    async fn step_tool_error(cx: Context) -> Result<String, ToolError> {
        let none = |_| async { Err::<u8, _>(ToolError::invalid_params("no such step")) };
        Ok(cx.step("none", none).await?.to_string())
    }
    async fn asks_in_step_anyhow(cx: Context) -> anyhow::Result<String> {
        let ask = |_| async { anyhow::Ok(cx.ask("name", form()).await?.action.to_string()) };
        Ok(cx.step("ask", ask).await?)
    }
    async fn asks_in_step_with_context(cx: Context) -> anyhow::Result<String> {
        use anyhow::Context as _;
        let ask = |_| async { anyhow::Ok(cx.ask("name", form()).await?.action.to_string()) };
        let plain = |_| async { Ok::<_, AskError>(cx.ask("name", form()).await?.action.to_string()) };
        cx.step("plain", plain).await.context("asking in a step")?;
        cx.step("ask", ask).await.context("asking again")
    }
    async fn asks_in_step(cx: Context) -> Result<String, ToolError> {
        let ask = |_| async { anyhow::Ok(cx.ask("name", form()).await?.action.to_string()) };
        Ok(cx.step("ask", ask).await?)
    }
    McpServer::named("fallible", "1")
        .tool(tool("step_anyhow", step_anyhow))
        .tool(tool("step_tool_error", step_tool_error))
        .tool(tool("asks_in_step_anyhow", asks_in_step_anyhow))
        .tool(tool("asks_in_step", asks_in_step))
        .tool(tool("asks_in_step_with_context", asks_in_step_with_context))
        .tool(tool("text", text))
        .tool(tool("static_text", static_text))
        .tool(tool("boxed", boxed))
        .tool(tool("boxed_tool_error", boxed_tool_error))
        .tool(tool("anyhow", with_anyhow))
        .tool(tool("asks_anyhow", asks_anyhow))
        .tool(tool("asks_anyhow_with_context", asks_anyhow_with_context))
        .tool(tool("asks_boxed", asks_boxed))
        .tool(tool("asks_text", asks_text))
        .tool(tool("confirms_anyhow", confirms_anyhow))
}

#[tokio::test]
async fn errors_of_common_types_reach_the_model_as_text() {
    let mut client = client(fallible()).await;
    for (name, text) in [
        ("text", "as text"),
        ("static_text", "as static text"),
        ("boxed", "invalid digit found in string"),
        ("anyhow", "reading the number: invalid digit found in string"),
        ("step_anyhow", "reading the number: invalid digit found in string"),
    ] {
        let outcome = client.call(name, json!({})).await.unwrap();
        assert_eq!((outcome.text().as_str(), outcome.is_error()), (text, true), "{name}");
    }
    for (name, message) in [("boxed_tool_error", "no such thing"), ("step_tool_error", "no such step")] {
        let Err(TestError::Refused(error)) = client.call(name, json!({})).await else { panic!("{name}") };
        assert_eq!(error.message, message);
    }
}

#[tokio::test]
async fn question_survives_every_error_type() {
    for mut client in [client(fallible()).await, legacy_client(fallible()).await] {
        for name in [
            "asks_anyhow",
            "asks_anyhow_with_context",
            "asks_boxed",
            "asks_text",
            "asks_in_step",
            "asks_in_step_anyhow",
            "asks_in_step_with_context",
        ] {
            let outcome = client.call(name, json!({})).await.unwrap();
            assert_eq!((outcome.text().as_str(), outcome.is_error()), ("accept", false), "{name}");
        }
        assert_eq!(client.call("confirms_anyhow", json!({})).await.unwrap().text(), "true");
    }
}

#[tokio::test]
async fn missing_capability_survives_anyhow() {
    let mut client = fallible().test_client().await.unwrap();
    client.declare(Default::default());
    for name in [
        "asks_anyhow",
        "asks_anyhow_with_context",
        "asks_boxed",
        "confirms_anyhow",
        "asks_in_step",
        "asks_in_step_anyhow",
        "asks_in_step_with_context",
    ] {
        let Err(TestError::Refused(error)) = client.call(name, json!({})).await else { panic!("{name}") };
        assert_eq!(i64::from(error.code), -32021, "{name}");
    }
    // A text of the tool's own is not mistaken for it.
    let outcome = client.call("asks_text", json!({})).await.unwrap();
    assert!(outcome.is_error() && outcome.text().starts_with("asking: "), "{}", outcome.text());
}

#[tokio::test]
async fn hook_sees_a_question_behind_anyhow() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    let server = fallible().around(move |call: mcp_server::Call| {
        let record = Arc::clone(&record);
        async move {
            let outcome = call.run().await;
            record.lock().unwrap().push(outcome.as_ref().err().map(ToolError::is_unanswered));
            outcome
        }
    });
    let mut client = client(server).await;
    client.call("asks_anyhow", json!({})).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [Some(true), None]);
}

/// Tools that discard the error of a question.
fn careless() -> McpServer {
    async fn asks(cx: Context) -> String {
        cx.ask("name", form()).await.map_or("nobody".to_owned(), |answer| answer.action.to_string())
    }
    async fn confirms(cx: Context) -> String {
        cx.confirm("sure", "Sure?").await.unwrap_or(false).to_string()
    }
    async fn refuses(cx: Context) -> Result<String, ToolError> {
        let answer = cx.ask("name", form()).await.map_err(|_| ToolError::invalid_params("no name"))?;
        Ok(answer.action.to_string())
    }
    McpServer::named("careless", "1")
        .tool(tool("asks", asks).description("Asks."))
        .tool(tool("confirms", confirms).description("Asks."))
        .tool(tool("refuses", refuses).description("Asks."))
}

#[tokio::test]
async fn discarded_question_is_asked_nevertheless() {
    for mut client in [client(careless()).await, legacy_client(careless()).await] {
        for (name, text) in [("asks", "accept"), ("confirms", "true"), ("refuses", "accept")] {
            assert_eq!(client.call(name, json!({})).await.unwrap().text(), text, "{name}");
        }
    }
    let mut client = careless().test_client().await.unwrap();
    client.declare(Default::default());
    assert_eq!(client.call("confirms", json!({})).await.unwrap().text(), "false");
}

#[tokio::test]
async fn missing_capability_ends_a_run_that_asked_something_else() {
    async fn typed(cx: Context) -> Result<String, ToolError> {
        let _ = cx.ask("name", form()).await;
        Ok(cx.ask("roots", mcp_server::Roots).await?.roots.len().to_string())
    }
    async fn with_anyhow(cx: Context) -> anyhow::Result<String> {
        let _ = cx.ask("name", form()).await;
        Ok(cx.ask("roots", mcp_server::Roots).await?.roots.len().to_string())
    }
    let server = McpServer::named("two", "1").tool(tool("typed", typed)).tool(tool("anyhow", with_anyhow));
    // The person is not asked in vain.
    let asked = Arc::new(Mutex::new(0));
    let count = Arc::clone(&asked);
    let mut client = server.test_client().await.unwrap().on_ask(move |_, _| {
        *count.lock().unwrap() += 1;
        InputResponse::Elicit(ElicitResult::accept([]))
    });
    let forms = mcp_protocol::capabilities::ElicitationCapability::new();
    client.declare(mcp_protocol::capabilities::ClientCapabilities::new().elicitation(forms));
    for name in ["typed", "anyhow"] {
        let Err(TestError::Refused(error)) = client.call(name, json!({})).await else { panic!("{name}") };
        assert_eq!(i64::from(error.code), -32021, "{name}");
    }
    assert_eq!(*asked.lock().unwrap(), 0);
}

#[tokio::test]
async fn question_that_a_hook_discards_is_asked_nevertheless() {
    let server = fallible().around(|call: mcp_server::Call| async move {
        let cx = call.context().clone();
        let outcome = call.run().await.unwrap_or_else(|_| CallToolResult::text("discarded").into());
        let sure = cx.confirm("hook", "Really?").await.unwrap_or(false);
        if sure { Ok(outcome) } else { Err(ToolError::new("not sure")) }
    });
    let mut client = client(server).await;
    assert_eq!(client.call("asks_anyhow", json!({})).await.unwrap().text(), "accept");
}

#[tokio::test]
async fn ignored_question_is_reported_with_the_tool() {
    let warnings = RecordedWarnings::default();
    let _guard = tracing::subscriber::set_default(warnings.clone());
    let mut modern = client(careless()).await;
    modern.call("confirms", json!({})).await.unwrap();
    let logged = warnings.take();
    assert!(logged.contains("confirms") && logged.contains("has not answered its question yet"), "{logged}");
    let mut legacy = legacy_client(careless()).await;
    legacy.call("confirms", json!({})).await.unwrap();
    assert_eq!(warnings.take(), "");
}

#[derive(Default)]
struct Tasks {
    titles: Mutex<Vec<String>>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct NewTask {
    title: String,
}

impl Tasks {
    async fn add(&self, NewTask { title }: NewTask) -> Result<String, String> {
        if title.is_empty() {
            return Err("the title is empty".to_owned());
        }
        tokio::task::yield_now().await;
        self.titles.lock().unwrap().push(title);
        Ok("added".to_owned())
    }

    async fn count(&self) -> String {
        self.titles.lock().unwrap().len().to_string()
    }

    async fn name(&self, cx: Context) -> String {
        cx.name().to_owned()
    }

    async fn add_for(&self, task: NewTask, cx: Context) -> Result<String, String> {
        let title = format!("{} for {}", task.title, cx.client_name().unwrap_or("nobody"));
        self.add(NewTask { title }).await
    }

    async fn read(&self, request: ReadRequest) -> Result<String, ToolError> {
        let titles = self.titles.lock().unwrap();
        let number: usize = request.variable("number").parse()?;
        titles.get(number).cloned().ok_or_else(|| ToolError::resource_not_found(&request.uri))
    }

    async fn all(&self) -> String {
        self.titles.lock().unwrap().join("\n")
    }

    async fn plan(&self, arguments: PromptArguments) -> String {
        format!("Plan {} {}.", self.titles.lock().unwrap().len(), arguments.get("when"))
    }
}

#[tokio::test]
async fn methods_of_shared_state_serve_calls() {
    let tasks = state(Tasks::default());
    let server = McpServer::named("tasks", "1")
        .tool(tasks.tool("add", Tasks::add))
        .tool(tasks.tool("count", Tasks::count))
        .tool(tasks.tool("name", Tasks::name))
        .tool(tasks.tool("add_for", Tasks::add_for))
        .resource(tasks.resource(Resource::new("tasks://all", "all"), Tasks::all))
        .template(tasks.resource_template(
            mcp_protocol::resources::ResourceTemplate::new("tasks://{number}", "task"),
            Tasks::read,
        ))
        .prompt(tasks.prompt(Prompt::new("plan").arguments([PromptArgument::new("when")]), Tasks::plan));
    let mut client = client(server).await;
    assert_eq!(client.call("add", json!({"title": "Shop"})).await.unwrap().text(), "added");
    assert_eq!(client.call("add_for", json!({"title": "Cook"})).await.unwrap().text(), "added");
    let failed = client.call("add", json!({"title": ""})).await.unwrap();
    assert_eq!((failed.text().as_str(), failed.is_error()), ("the title is empty", true));
    assert_eq!(client.call("count", json!({})).await.unwrap().text(), "2");
    assert_eq!(client.call("name", json!({})).await.unwrap().text(), "name");
    assert_eq!(*tasks.titles.lock().unwrap(), ["Shop", "Cook for test"]);
    for (uri, text) in [("tasks://all", "Shop\nCook for test"), ("tasks://1", "Cook for test")] {
        let read: ReadResourceResult =
            client.request(&Method::ResourcesRead, &ReadResourceParams::new(uri)).await.unwrap();
        assert_eq!(read.contents[0].text.as_deref(), Some(text), "{uri}");
    }
    let params = GetPromptParams::new("plan").arguments([("when".to_owned(), "today".to_owned())]);
    let plan: GetPromptResult = client.request(&Method::PromptsGet, &params).await.unwrap();
    assert_eq!(plan.messages[0].content.as_text(), Some("Plan 2 today."));
}

#[tokio::test]
async fn function_with_only_a_context_serves_every_kind() {
    async fn name(cx: Context) -> String {
        cx.name().to_owned()
    }
    let server = McpServer::named("context", "1")
        .tool(tool("tool", name))
        .resource(resource(Resource::new("x://y", "y"), name))
        .prompt(prompt("prompt", name));
    let mut client = client(server).await;
    assert_eq!(client.call("tool", json!({})).await.unwrap().text(), "tool");
    let read: ReadResourceResult =
        client.request(&Method::ResourcesRead, &ReadResourceParams::new("x://y")).await.unwrap();
    assert_eq!(read.contents[0].text.as_deref(), Some("x://y"));
    let got: GetPromptResult =
        client.request(&Method::PromptsGet, &GetPromptParams::new("prompt")).await.unwrap();
    assert_eq!(got.messages[0].content.as_text(), Some("prompt"));
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Tone {
    Kind,
    Strict,
}

/// For people who read the code.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Review {
    /// The programming language.
    language: String,
    lines: Option<u32>,
    tone: Option<Tone>,
    version: Option<String>,
}

#[tokio::test]
async fn prompt_arguments_are_read_into_a_type() {
    async fn review(review: Review) -> String {
        let tone = match review.tone {
            Some(Tone::Kind) => "kindly ",
            Some(Tone::Strict) | None => "",
        };
        let version = review.version.unwrap_or_default();
        format!("Review {} lines of {}{version} {tone}.", review.lines.unwrap_or(1), review.language)
    }
    let server = McpServer::named("prompts", "1").prompt(prompt("review", review).description("Reviews."));
    let mut client = client(server).await;
    let listed: ListPromptsResult =
        client.request(&Method::PromptsList, &mcp_protocol::messages::EmptyParams::new()).await.unwrap();
    let arguments = listed.prompts[0].arguments.clone().unwrap();
    let shown: Vec<_> = arguments
        .iter()
        .map(|argument| (argument.name.as_str(), argument.required, argument.description.as_deref()))
        .collect();
    assert_eq!(shown[0], ("language", Some(true), Some("The programming language.")));
    assert_eq!(shown.len(), 4);
    assert!(shown[1..].iter().all(|(_, required, _)| *required == Some(false)), "{shown:?}");
    let get = |arguments: Vec<(&str, &str)>| {
        let arguments: Vec<(String, String)> =
            arguments.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        GetPromptParams::new("review").arguments(mcp_protocol::Map::from_iter(arguments))
    };
    let params = get(vec![("language", "Rust"), ("lines", "30"), ("tone", "kind"), ("version", "2024")]);
    let got: GetPromptResult = client.request(&Method::PromptsGet, &params).await.unwrap();
    assert_eq!(got.messages[0].content.as_text(), Some("Review 30 lines of Rust2024 kindly ."));
    for (params, problem) in [
        (get(vec![]), "missing required argument `language` of prompt `review`"),
        (get(vec![("language", "C"), ("lines", "many")]), "invalid arguments: `lines`: invalid type: string"),
    ] {
        let refused = client.request::<GetPromptResult>(&Method::PromptsGet, &params).await;
        let Err(TestError::Refused(error)) = refused else { panic!("{problem}") };
        assert!(error.message.starts_with(problem), "{}", error.message);
        assert_eq!(i64::from(error.code), -32602);
    }
}

#[tokio::test]
async fn form_is_answered_as_a_value_in_both_eras() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Dish {
        name: String,
        pieces: Option<u8>,
    }
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[expect(dead_code, reason = "it has no form")]
    struct Menu {
        dishes: Vec<Dish>,
    }
    async fn order(cx: Context) -> anyhow::Result<String> {
        Ok(match cx.ask_form::<Dish>("dish", "What would you like?").await? {
            FormAnswer::Accepted(dish) => format!("{} {}", dish.pieces.unwrap_or(1), dish.name),
            FormAnswer::Declined => "declined".to_owned(),
            FormAnswer::Cancelled => "cancelled".to_owned(),
        })
    }
    async fn menu(cx: Context) -> Result<String, ToolError> {
        Ok(cx.ask_form::<Menu>("menu", "?").await?.accepted().is_some().to_string())
    }
    let server = || McpServer::named("kitchen", "1").tool(tool("order", order)).tool(tool("menu", menu));
    let dish = |pieces: Option<i64>| {
        let mut content = vec![("name".to_owned(), "Curry".into())];
        content.extend(pieces.map(|pieces| ("pieces".to_owned(), pieces.into())));
        ElicitResult::accept(mcp_protocol::Map::from_iter(content))
    };
    for (answer, text) in [
        (dish(None), "1 Curry"),
        (dish(Some(3)), "3 Curry"),
        (ElicitResult::decline(), "declined"),
        (ElicitResult::cancel(), "cancelled"),
    ] {
        for client in [
            server().test_client().await.unwrap(),
            server().legacy_test_client(ProtocolVersion::V2025_06_18).await.unwrap(),
        ] {
            let answer = answer.clone();
            let mut client = client.on_ask(move |_, _| InputResponse::Elicit(answer.clone()));
            assert_eq!(client.call("order", json!({})).await.unwrap().text(), text);
        }
    }
    // An answer that is not a `Dish`, and a type that has no form.
    let mut client =
        server().test_client().await.unwrap().on_ask(move |_, _| {
            InputResponse::Elicit(ElicitResult::accept([("pieces".to_owned(), 300.into())]))
        });
    let Err(TestError::Refused(error)) = client.call("order", json!({})).await else { panic!() };
    assert!(i64::from(error.code) == -32602 && error.message.contains("`dish`"), "{error:?}");
    let failed = client.call("menu", json!({})).await.unwrap();
    assert!(failed.text().starts_with("invalid form: field `dishes` of `Menu`"), "{}", failed.text());
}

#[tokio::test]
async fn images_sound_and_resources_are_returned_directly() {
    let block = |outcome: Result<mcp_protocol::tools::CallToolResult, ToolError>| {
        serde_json::to_value(&outcome.unwrap().content[0]).unwrap()
    };
    assert_eq!(
        block(Image::png([1, 2, 3]).into_outcome()),
        json!({"type": "image", "data": "AQID", "mimeType": "image/png"})
    );
    assert_eq!(
        block(Audio::new("audio/flac", b"x".to_vec()).into_outcome()),
        json!({"type": "audio", "data": "eA==", "mimeType": "audio/flac"})
    );
    let contents = ResourceContents::new("x://y").text("hi");
    let embedded = json!({"type": "resource", "resource": {"uri": "x://y", "text": "hi"}});
    assert_eq!(block(contents.clone().into_outcome()), embedded);
    assert_eq!(block(EmbeddedResource::new(contents).into_outcome()), embedded);
    assert_eq!(block(ResourceLink::new("x://y", "y").into_outcome())["type"], "resource_link");
    for (media, mime_type) in [
        (ContentBlock::from(Image::jpeg([])), "image/jpeg"),
        (Image::gif([]).into(), "image/gif"),
        (Image::webp([]).into(), "image/webp"),
        (Audio::wav([]).into(), "audio/wav"),
        (Audio::mp3([]).into(), "audio/mpeg"),
        (Audio::ogg([]).into(), "audio/ogg"),
    ] {
        assert_eq!(serde_json::to_value(&media).unwrap()["mimeType"], mime_type);
    }
}

#[test]
fn hints_are_set_one_by_one() {
    let hints = |tool: mcp_server::Tool| serde_json::to_value(tool.definition().annotations.clone()).unwrap();
    let plain = || tool("x", || async {});
    assert_eq!(hints(plain()), json!(null));
    assert_eq!(
        hints(plain().read_only().idempotent()),
        json!({"readOnlyHint": true, "idempotentHint": true})
    );
    assert_eq!(hints(plain().destructive()), json!({"readOnlyHint": false, "destructiveHint": true}));
}

#[test]
fn doc_comment_of_the_argument_type_is_not_a_description() {
    async fn review(_: Review) {}
    let tool = tool("review", review);
    assert_eq!(tool.definition().description, None);
    assert_eq!(tool.definition().input_schema.member("description"), None);
}

#[tokio::test]
async fn tool_without_a_description_is_reported_at_start() {
    let warnings = RecordedWarnings::default();
    let _guard = tracing::subscriber::set_default(warnings.clone());
    let server = McpServer::named("bare", "1")
        .tool(tool("described", || async {}).description("Does nothing."))
        .tool(tool("mystery", || async {}));
    let _client = server.test_client().await.unwrap();
    let logged = warnings.take();
    assert!(logged.contains("mystery") && logged.contains("without a description"), "{logged}");
    assert!(!logged.contains("described\""), "{logged}");
}

#[tokio::test]
async fn invalid_and_repeated_definitions_are_errors_at_start() {
    async fn number(_: i32) {}
    let uri = |uri: &str| resource(Resource::new(uri, "r"), || async { "" });
    let template = || {
        resource_template(
            mcp_protocol::resources::ResourceTemplate::new("x://{a}", "t"),
            |_: ReadRequest| async { "" },
        )
    };
    let server = McpServer::named("wrong", "1")
        .tool(tool("number", number))
        .resource(uri("today"))
        .resource(uri("x: y"))
        .resource(uri("x://twice"))
        .resource(uri("x://twice"))
        .template(template())
        .template(template())
        .prompt(prompt("again", || async { "" }))
        .prompt(prompt("again", || async { "" }));
    let registry = server.registry();
    let Err(Error::Setup { problems }) = server.test_client().await else { panic!() };
    assert_eq!(
        problems,
        [
            "the arguments of tool `number` are not an object: the function must take a struct with named fields, \
             whose schema has `\"type\": \"object\"`",
            "invalid resource URI `today`: use a scheme, as in `notes://today`, and no whitespace",
            "invalid resource URI `x: y`: use a scheme, as in `notes://today`, and no whitespace",
            "duplicate resource `x://twice`",
            "duplicate resource template `x://{a}`",
            "duplicate prompt `again`",
        ]
    );
    assert!(
        registry.add_resource(uri("nowhere")).unwrap_err().to_string().starts_with("invalid resource URI")
    );
}

#[tokio::test]
async fn prompt_arguments_that_are_not_text_are_errors_at_start() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Tags {
        tags: Option<Vec<String>>,
    }
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    enum Shape {
        Square,
        Rectangle { width: u8 },
    }
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Drawing {
        shape: Shape,
        tone: Option<Tone>,
    }
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Nested {
        review: Review,
    }
    async fn number(_: i32) -> String {
        String::new()
    }
    async fn list(_: Tags) -> String {
        String::new()
    }
    async fn drawing(_: Drawing) -> String {
        String::new()
    }
    async fn nested(_: Nested) -> String {
        String::new()
    }
    async fn text(_: std::collections::BTreeMap<String, String>) -> String {
        String::new()
    }
    let server = McpServer::named("wrong", "1")
        .prompt(prompt("number", number))
        .prompt(prompt("list", list))
        .prompt(prompt("drawing", drawing))
        .prompt(prompt("nested", nested))
        .prompt(prompt("text", text));
    let registry = server.registry();
    let Err(Error::Setup { problems }) = server.test_client().await else { panic!() };
    let field = |prompt: &str, field: &str| {
        format!(
            "the arguments of prompt `{prompt}` are text, which cannot become the field `{field}`: use text, a \
             number, a boolean, an enum without data, or an `Option` of one of these, or take `PromptArguments`"
        )
    };
    let number = "the arguments of prompt `number` are not an object: the function must take a struct with named \
                  fields, or `PromptArguments`";
    let fields = [field("list", "tags"), field("drawing", "shape"), field("nested", "review")];
    assert_eq!(problems, [&[number.to_owned()], &fields[..]].concat());
    let added = registry.add_prompt(prompt("late", list)).unwrap_err();
    assert_eq!(added.to_string(), field("late", "tags"));
}

#[tokio::test]
async fn messages_and_json_are_still_accepted() {
    let server = McpServer::named("old", "1")
        .tool(mcp_server::Tool::dynamic(
            "echo",
            json!({"type": "object"}),
            |arguments: Json, cx: Context| async move {
                cx.ask("name", form()).await.map_err(|error| error.to_string())?;
                Ok::<_, String>(arguments.get().to_owned())
            },
        ))
        .prompt(prompt(Prompt::new("p"), |_: NoArgs| async { Vec::<PromptMessage>::new() }));
    let mut client = client(server).await;
    assert_eq!(client.call("echo", json!({"a": 1})).await.unwrap().text(), r#"{"a":1}"#);
    let _ = CallToolParams::new("echo");
}
