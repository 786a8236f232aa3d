//! One value of every wire type with all members set.

use mcp_protocol::capabilities::{
    ClientCapabilities, ElicitationCapability, Icon, IconTheme, Implementation, ListCapability,
    ResourcesCapability, RootsCapability, SamplingCapability, ServerCapabilities,
};
use mcp_protocol::completion::{
    CompleteParams, CompleteResult, Completion, CompletionArgument, CompletionContext, PromptReference,
};
use mcp_protocol::content::{
    Annotations, AudioContent, ContentBlock, EmbeddedResource, ImageContent, Role, TextContent,
    ToolResultContent, ToolUseContent,
};
use mcp_protocol::elicitation::{
    BooleanSchema, ElicitFormParams, ElicitMode, ElicitResult, ElicitUrlParams, EnumItems, EnumOption,
    FormSchema, NumberSchema, StringFormat, StringSchema, TitledItems, TitledMultiSelectSchema,
    TitledSingleSelectSchema, UntitledMultiSelectSchema, UntitledSingleSelectSchema,
};
use mcp_protocol::input::{InputRequest, InputRequests, InputRequiredResult, InputResponse, InputResponses};
use mcp_protocol::logging::LogLevel;
use mcp_protocol::messages::{
    CacheScope, DiscoverResult, EmptyParams, InitializeParams, InitializeResult, PageParams,
};
use mcp_protocol::meta::Meta;
use mcp_protocol::prompts::{
    GetPromptParams, GetPromptResult, ListPromptsResult, Prompt, PromptArgument, PromptMessage,
};
use mcp_protocol::resources::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceParams, ReadResourceResult, Resource,
    ResourceContents, ResourceLink, ResourceTemplate,
};
use mcp_protocol::roots::{ListRootsResult, Root};
use mcp_protocol::sampling::{
    CreateMessageParams, CreateMessageResult, IncludeContext, ModelHint, ModelPreferences, SamplingBlock,
    SamplingMessage, StopReason, ToolChoice, ToolChoiceMode,
};
use mcp_protocol::tasks::legacy;
use mcp_protocol::tasks::{RelatedTask, TaskStatus};
use mcp_protocol::tools::{
    CallToolParams, CallToolResult, ListToolsResult, TaskSupport, Tool, ToolAnnotations, ToolExecution,
};
use mcp_protocol::version::{ProtocolVersion, SUPPORTED};
use mcp_protocol::{Dialect, Json};
use serde_json::json;

/// Returns every known key, and an unknown one.
pub(crate) fn meta() -> Meta {
    Meta::envelope(ProtocolVersion::V2026_07_28, client_capabilities())
        .client_info(implementation())
        .log_level(LogLevel::Debug)
        .server_info(implementation())
        .subscription_id("s-1")
        .related_task(RelatedTask::new("t-1"))
        .model_immediate_response("soon")
        .progress_token(7)
        .traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .tracestate("a=b")
        .baggage("c=d")
        .with("com.example/tenant", json!("acme"))
}

pub(crate) fn implementation() -> Implementation {
    Implementation::new("name", "1.0.0")
        .title("Name")
        .description("What it is")
        .website_url("https://example.com")
        .icons([icon()])
}

pub(crate) fn icon() -> Icon {
    Icon::new("https://example.com/i.png")
        .mime_type("image/png")
        .sizes(["48x48".to_owned()])
        .theme(IconTheme::Dark)
}

pub(crate) fn client_capabilities() -> ClientCapabilities {
    ClientCapabilities::new()
        .elicitation(ElicitationCapability::both())
        .sampling(SamplingCapability::new().context(Json::object()).tools(Json::object()))
        .roots(RootsCapability::new().list_changed(true))
        .tasks(tasks_capability("sampling", "createMessage"))
        .experimental([("x".to_owned(), Json::object())])
        .extensions([("io.modelcontextprotocol/tasks".to_owned(), Json::object())])
}

pub(crate) fn server_capabilities() -> ServerCapabilities {
    ServerCapabilities::new()
        .tools(ListCapability::new().list_changed(true))
        .resources(ResourcesCapability::new().subscribe(true).list_changed(true))
        .prompts(ListCapability::new().list_changed(true))
        .completions(Json::object())
        .logging(Json::object())
        .tasks(tasks_capability("tools", "call"))
        .experimental([("x".to_owned(), Json::object())])
        .extensions([("io.modelcontextprotocol/tasks".to_owned(), Json::object())])
}

pub(crate) fn annotations() -> Annotations {
    Annotations::new()
        .audience([Role::User, Role::Assistant])
        .priority(0.5)
        .last_modified("2025-01-12T15:00:58Z")
}

pub(crate) fn initialize_params() -> InitializeParams {
    InitializeParams::new(ProtocolVersion::V2025_11_25, client_capabilities(), implementation()).meta(meta())
}

pub(crate) fn initialize_result() -> InitializeResult {
    InitializeResult::new(ProtocolVersion::V2025_11_25, server_capabilities(), implementation())
        .instructions("Use it")
        .meta(meta())
}

pub(crate) fn discover_result() -> DiscoverResult {
    DiscoverResult::new(SUPPORTED, server_capabilities())
        .instructions("Use it")
        .ttl_ms(1000_u64)
        .cache_scope(CacheScope::Public)
        .meta(meta())
}

pub(crate) fn empty_params() -> EmptyParams {
    EmptyParams::new().meta(meta())
}

pub(crate) fn page_params() -> PageParams {
    PageParams::new().cursor("c").meta(meta())
}

pub(crate) fn tool() -> Tool {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]});
    Tool::new("tool", schema.clone())
        .title("Tool")
        .description("Does it")
        .output_schema(schema)
        .annotations(
            ToolAnnotations::new()
                .title("Tool")
                .read_only_hint(true)
                .destructive_hint(false)
                .idempotent_hint(true)
                .open_world_hint(false),
        )
        .icons([icon()])
        .execution(ToolExecution::new().task_support(TaskSupport::Optional))
        .meta(meta())
}

pub(crate) fn list_tools_result() -> ListToolsResult {
    ListToolsResult::new([tool()]).next_cursor("").ttl_ms(5_u64).meta(meta())
}

pub(crate) fn call_tool_params() -> CallToolParams {
    CallToolParams::new("tool")
        .arguments(json!({"a": 1}))
        .input_responses(input_responses())
        .request_state("state")
        .task(legacy::TaskParams::new().ttl(1000_u64))
        .meta(meta())
}

/// Returns one content block of every kind.
pub(crate) fn blocks() -> Vec<ContentBlock> {
    vec![
        TextContent::new("text").annotations(annotations()).meta(meta()).into(),
        ImageContent::new("aGk=", "image/png").annotations(annotations()).meta(meta()).into(),
        AudioContent::new("aGk=", "audio/wav").annotations(annotations()).meta(meta()).into(),
        link().into(),
        EmbeddedResource::new(text_contents()).annotations(annotations()).meta(meta()).into(),
        EmbeddedResource::new(blob_contents()).into(),
    ]
}

pub(crate) fn call_tool_result() -> CallToolResult {
    CallToolResult::new().content(blocks()).is_error(false).structured_content(json!({"a": 1})).meta(meta())
}

pub(crate) fn link() -> ResourceLink {
    ResourceLink::new("file:///a", "a")
        .title("A")
        .description("About a")
        .mime_type("text/plain")
        .size(3_u64)
        .annotations(annotations())
        .icons([icon()])
        .meta(meta())
}

pub(crate) fn text_contents() -> ResourceContents {
    ResourceContents::new("file:///a").mime_type("text/plain").text("hi").meta(meta())
}

pub(crate) fn blob_contents() -> ResourceContents {
    ResourceContents::new("file:///b").mime_type("image/png").blob("aGk=").meta(meta())
}

pub(crate) fn list_resources_result() -> ListResourcesResult {
    let resource = Resource::new("file:///a", "a")
        .title("A")
        .description("About a")
        .mime_type("text/plain")
        .size(3_u64)
        .annotations(annotations())
        .icons([icon()])
        .meta(meta());
    ListResourcesResult::new([resource]).next_cursor("n").meta(meta())
}

pub(crate) fn list_templates_result() -> ListResourceTemplatesResult {
    let template = ResourceTemplate::new("file:///{name}", "files")
        .title("Files")
        .description("About files")
        .mime_type("text/plain")
        .annotations(annotations())
        .icons([icon()])
        .meta(meta());
    ListResourceTemplatesResult::new([template]).next_cursor("n").meta(meta())
}

pub(crate) fn read_params() -> ReadResourceParams {
    ReadResourceParams::new("file:///a")
        .input_responses(input_responses())
        .request_state("state")
        .meta(meta())
}

pub(crate) fn read_result() -> ReadResourceResult {
    ReadResourceResult::new([text_contents(), blob_contents()]).meta(meta())
}

pub(crate) fn list_prompts_result() -> ListPromptsResult {
    let argument = PromptArgument::new("code").title("Code").description("The code").required(true);
    let prompt = Prompt::new("review")
        .title("Review")
        .description("Reviews")
        .arguments([argument])
        .icons([icon()])
        .meta(meta());
    ListPromptsResult::new([prompt]).next_cursor("n").meta(meta())
}

pub(crate) fn get_prompt_params() -> GetPromptParams {
    GetPromptParams::new("review")
        .arguments([("code".to_owned(), "x".to_owned())])
        .input_responses(input_responses())
        .request_state("state")
        .meta(meta())
}

pub(crate) fn get_prompt_result() -> GetPromptResult {
    let messages: Vec<_> = blocks().into_iter().map(|block| PromptMessage::new(Role::User, block)).collect();
    GetPromptResult::new(messages).description("Review").meta(meta())
}

pub(crate) fn complete_params() -> CompleteParams {
    CompleteParams::new(PromptReference::new("review").title("Review"), CompletionArgument::new("a", "v"))
        .context(CompletionContext::new().arguments([("b".to_owned(), "w".to_owned())]))
        .meta(meta())
}

pub(crate) fn complete_result() -> CompleteResult {
    CompleteResult::new(Completion::new(["v1".to_owned()]).total(2_u64).has_more(true)).meta(meta())
}

/// Returns sampling params for this revision: tools and arrays of blocks exist since 2025-11-25.
pub(crate) fn create_message_params(dialect: Dialect) -> CreateMessageParams {
    let mut messages = vec![SamplingMessage::user("hi").meta(meta())];
    if [Dialect::V2025_11_25, Dialect::V2026_07_28].contains(&dialect) {
        let uses = ToolUseContent::new("u", "tool", json!({"a": 1})).meta(meta());
        let results = ToolResultContent::new("u", [ContentBlock::text("1")])
            .structured_content(json!({"a": 1}))
            .is_error(false)
            .meta(meta());
        messages.push(SamplingMessage::new(Role::Assistant, vec![uses.into()]));
        messages.push(SamplingMessage::new(Role::User, vec![results.into()]));
    }
    CreateMessageParams::new(messages, 100_u64)
        .model_preferences(
            ModelPreferences::new()
                .hints([ModelHint::new().name("m")])
                .cost_priority(0.1)
                .speed_priority(0.2)
                .intelligence_priority(1.0),
        )
        .system_prompt("Be kind")
        .include_context(IncludeContext::None)
        .temperature(0.7)
        .stop_sequences(["stop".to_owned()])
        .metadata(json!({"k": "v"}))
        .tools([tool()])
        .tool_choice(ToolChoice::new().mode(ToolChoiceMode::Auto))
        .task(legacy::TaskParams::new().ttl(5_u64))
        .meta(meta())
}

pub(crate) fn create_message_result() -> CreateMessageResult {
    CreateMessageResult::new(Role::Assistant, SamplingBlock::text("hello"), "model-1")
        .stop_reason(StopReason::EndTurn)
        .meta(meta())
}

pub(crate) fn list_roots_result() -> ListRootsResult {
    ListRootsResult::new([Root::new("file:///home").name("home").meta(meta())]).meta(meta())
}

/// Returns a form with every kind of field of this revision: multiple selection exists since 2025-11-25.
pub(crate) fn form(dialect: Dialect) -> ElicitFormParams {
    let options = [EnumOption::new("a", "A"), EnumOption::new("b", "B")];
    let values = ["a".to_owned(), "b".to_owned()];
    let mut schema = FormSchema::new()
        .schema("https://json-schema.org/draft/2020-12/schema")
        .field(
            "string",
            StringSchema::new()
                .title("S")
                .description("d")
                .min_length(1_u64)
                .max_length(9_u64)
                .format(StringFormat::Email)
                .default("a@b.c"),
        )
        .field(
            "number",
            NumberSchema::number().title("N").description("d").minimum(0.5).maximum(9).default(1),
        )
        .field("integer", NumberSchema::integer().default(2))
        .field("boolean", BooleanSchema::new().title("B").description("d").default(true))
        .field(
            "one",
            UntitledSingleSelectSchema::new(values.clone()).title("O").description("d").default("a"),
        )
        .field(
            "legacy",
            UntitledSingleSelectSchema::new(values.clone()).enum_names(["A".to_owned(), "B".to_owned()]),
        )
        .field(
            "titled",
            TitledSingleSelectSchema::new(options.clone()).title("T").description("d").default("a"),
        )
        .require("string");
    if [Dialect::V2025_11_25, Dialect::V2026_07_28].contains(&dialect) {
        let many = UntitledMultiSelectSchema::new(EnumItems::new(values.clone()));
        let titled = TitledMultiSelectSchema::new(TitledItems::new(options));
        schema = schema
            .field(
                "many",
                many.title("M").description("d").min_items(1_u64).max_items(2_u64).default(values.clone()),
            )
            .field(
                "titled_many",
                titled.title("M").description("d").min_items(1_u64).max_items(2_u64).default(values),
            );
    }
    ElicitFormParams::new("Who?", schema)
        .mode(ElicitMode::Form)
        .task(legacy::TaskParams::new().ttl(5_u64))
        .meta(meta())
}

pub(crate) fn url() -> ElicitUrlParams {
    ElicitUrlParams::new("Open", "https://example.com/x")
        .elicitation_id("e-1")
        .task(legacy::TaskParams::new().ttl(5_u64))
        .meta(meta())
}

pub(crate) fn elicit_result(dialect: Dialect) -> ElicitResult {
    let mut content = vec![
        ("string".to_owned(), "a@b.c".into()),
        ("integer".to_owned(), 2.into()),
        ("boolean".to_owned(), true.into()),
    ];
    if [Dialect::V2025_11_25, Dialect::V2026_07_28].contains(&dialect) {
        let many = mcp_protocol::elicitation::FieldValue::Strings(vec!["a".into()]);
        content.push(("many".to_owned(), many));
    }
    ElicitResult::accept(content.into_iter().collect::<std::collections::BTreeMap<_, _>>()).meta(meta())
}

pub(crate) fn input_requests() -> InputRequests {
    InputRequests::from([
        ("form".to_owned(), InputRequest::elicit(form(Dialect::V2026_07_28))),
        ("url".to_owned(), InputRequest::elicit(url())),
        ("model".to_owned(), InputRequest::create_message(create_message_params(Dialect::V2026_07_28))),
        ("roots".to_owned(), InputRequest::list_roots()),
    ])
}

pub(crate) fn input_responses() -> InputResponses {
    InputResponses::from([
        ("form".to_owned(), InputResponse::Elicit(elicit_result(Dialect::V2026_07_28))),
        ("model".to_owned(), InputResponse::CreateMessage(Box::new(create_message_result()))),
        ("roots".to_owned(), InputResponse::ListRoots(list_roots_result())),
    ])
}

pub(crate) fn input_required_result() -> InputRequiredResult {
    InputRequiredResult::new().input_requests(input_requests()).request_state("state").meta(meta())
}

fn tasks_capability(area: &str, operation: &str) -> legacy::TasksCapability {
    let operations = [(operation.to_owned(), Json::object())].into();
    legacy::TasksCapability::new()
        .list(Json::object())
        .cancel(Json::object())
        .requests([(area.to_owned(), operations)])
}

pub(crate) fn legacy_task() -> legacy::LegacyTask {
    legacy::LegacyTask::new(
        "t",
        TaskStatus::Working,
        "2025-11-25T10:30:00Z",
        "2025-11-25T10:30:00Z",
        Some(1000),
    )
    .status_message("busy")
    .poll_interval(5_u64)
}
