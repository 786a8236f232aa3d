//! Tools: their definitions, calls and results.
//!
//! Spec: MCP 2026-07-28, server/tools.

use crate::capabilities::Icon;
use crate::content::ContentBlock;
use crate::dialect::Dialect;
use crate::errors::BodyError;
use crate::input::{InputRequiredResult, InputResponses};
use crate::json::Json;
use crate::macros::{object, string_enum};
use crate::messages::{Body, CacheScope, ResultType, TimeToLive};
use crate::tasks::CreateTaskResult;
use crate::tasks::legacy::{CreateLegacyTaskResult, TaskParams};

object! {
    /// The definition of a tool.
    ///
    /// ```
    /// use mcp_protocol::tools::{Tool, ToolAnnotations};
    ///
    /// let tool = Tool::new("add", serde_json::json!({"type": "object"}))
    ///     .description("Adds two numbers.")
    ///     .annotations(ToolAnnotations::new().read_only_hint(true));
    /// assert_eq!(tool.display_name(), "add");
    /// ```
    pub struct Tool {
        required {
            /// What to call it by.
            name: String = "name",
            /// A JSON Schema of its arguments, with `"type":"object"`.
            input_schema: Json = "inputSchema",
        }
        optional {
            /// A name for people.
            title: String = "title",
            /// What it does, for a language model.
            description: String = "description",
            /// A JSON Schema of its structured result.
            output_schema: Json = "outputSchema",
            /// Hints about what it does. Untrusted.
            annotations: ToolAnnotations = "annotations",
            /// Pictures of it.
            icons: Vec<Icon> = "icons",
            /// Whether it can run as a task; 2025-11-25.
            execution: ToolExecution = "execution",
        }
        meta = meta in part;
        open = other;
        check by has_object_schema;
        lower by crate::dialect::tools::lower_tool;
    }
}

/// The tool definition under the name RFC 2190 gives it.
pub type ToolSchema = Tool;

impl Tool {
    /// The name to show: title, then the annotations' title, then the name.
    #[must_use]
    pub fn display_name(&self) -> &str {
        let annotated = || self.annotations.as_ref().and_then(|annotations| annotations.title.as_deref());
        self.title.as_deref().or_else(annotated).unwrap_or(&self.name)
    }
}

fn has_object_schema(tool: &Tool) -> Result<(), &'static str> {
    if crate::dialect::tools::has_object_type(&tool.input_schema) {
        Ok(())
    } else {
        Err("`inputSchema` must have `\"type\":\"object\"`")
    }
}

object! {
    /// Hints about what a tool does. Never a reason to trust it.
    pub struct ToolAnnotations {
        optional {
            /// A name for people.
            title: String = "title",
            /// It changes nothing. Default: false.
            read_only_hint: bool = "readOnlyHint",
            /// It may destroy something. Default: true.
            destructive_hint: bool = "destructiveHint",
            /// Calling it twice is like calling it once. Default: false.
            idempotent_hint: bool = "idempotentHint",
            /// It reaches an open world. Default: true.
            open_world_hint: bool = "openWorldHint",
        }
        open = other;
    }
}

object! {
    /// Whether a tool can run as a task; 2025-11-25.
    pub struct ToolExecution {
        optional {
            /// Absent means forbidden.
            task_support: TaskSupport = "taskSupport",
        }
        open = other;
    }
}

string_enum! {
    /// Whether a tool can run as a task; 2025-11-25.
    pub enum TaskSupport {
        /// It cannot.
        Forbidden = "forbidden",
        /// It can.
        Optional = "optional",
        /// It must.
        Required = "required",
    }
}

object! {
    /// Result of `tools/list`.
    pub struct ListToolsResult {
        expected {
            /// Always complete.
            result_type: ResultType = "resultType" or ResultType::Complete,
            /// How long it stays fresh, in milliseconds.
            ttl_ms: TimeToLive = "ttlMs" or TimeToLive(0),
            /// Who may share it.
            cache_scope: CacheScope = "cacheScope" or CacheScope::Private,
        }
        required {
            /// One page of tools.
            tools: Vec<Tool> = "tools",
        }
        optional {
            /// Where the next page begins; absent on the last one. An empty string is a cursor too.
            next_cursor: String = "nextCursor",
        }
        meta = meta;
        open = other;
        check by crate::messages::is_complete;
    }
}

impl ListToolsResult {
    /// Reads the first `limit` tools of a page. A tool that cannot be read is left out and reported, the others stay.
    /// [`Body::count`] tells how many there are.
    ///
    /// ```
    /// use mcp_protocol::messages::{Incoming, Message, parse};
    /// use mcp_protocol::tools::ListToolsResult;
    /// use mcp_protocol::{Dialect, Limits};
    ///
    /// let text = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"odd"},{"name":"a","inputSchema":{"type":"object"}}]}}"#;
    /// let Incoming::Message(Message::Response(response)) = parse(text, &Limits::default())? else { panic!() };
    /// let (page, skipped) = ListToolsResult::raise_each(Dialect::V2025_06_18, &response.outcome?, 100)?;
    /// assert_eq!((page.tools[0].name.as_str(), skipped[0].name.as_deref()), ("a", Some("odd")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the page itself cannot be read.
    pub fn raise_each(
        dialect: Dialect,
        page: &Body<'_>,
        limit: usize,
    ) -> Result<(Self, Vec<SkippedTool>), BodyError> {
        let tools = page.member("tools")?.unwrap_or_default();
        if page.count("tools")? <= limit {
            match dialect.raise::<Self>(page) {
                Ok(whole) => return Ok((whole, Vec::new())),
                Err(error) if !tools.starts_with('[') => return Err(error),
                Err(_) => {}
            }
        }
        let mut kept = Vec::new();
        let mut skipped = Vec::new();
        for (position, text) in crate::json::scan::elements(tools).take(limit).enumerate() {
            let json = Json::from_valid(text);
            match json.raise::<Tool>() {
                Ok(tool) => kept.push(tool),
                Err(error) => {
                    let name = json.member("name").and_then(|name| serde_json::from_str(name).ok());
                    skipped.push(SkippedTool { position, name, error: error.into() });
                }
            }
        }
        let members = crate::json::scan::members(page.text());
        let others: Vec<String> = members
            .filter(|(key, _)| key != "tools")
            .map(|(key, value)| Ok(format!("{}:{value}", serde_json::to_string(&key)?)))
            .collect::<Result<_, serde_json::Error>>()?;
        let empty =
            format!("{{{}}}", [others.join(","), r#""tools":[]"#.into()].join(",").trim_start_matches(','));
        let mut page: Self = dialect.raise_str(&empty)?;
        page.tools = kept;
        Ok((page, skipped))
    }
}

/// A tool that could not be read.
#[derive(Debug)]
#[non_exhaustive]
pub struct SkippedTool {
    /// Its place in the page.
    pub position: usize,
    /// Its name, if that could be read.
    pub name: Option<String>,
    /// What is wrong with it.
    pub error: BodyError,
}

impl SkippedTool {
    /// A tool that could be read and cannot be used.
    #[must_use]
    pub fn new(name: Option<String>, error: impl Into<BodyError>) -> Self {
        Self { position: 0, name, error: error.into() }
    }
}

object! {
    /// Params of `tools/call`.
    pub struct CallToolParams {
        required {
            /// The tool.
            name: String = "name",
        }
        optional {
            /// Its arguments, an object.
            arguments: Json = "arguments",
            /// Answers to the server's input requests, on a second try.
            input_responses: InputResponses = "inputResponses",
            /// What the server wants back, on a second try.
            request_state: String = "requestState",
            /// Asks for a task; 2025-11-25.
            task: TaskParams = "task",
        }
        meta = meta;
        check by arguments_are_an_object;
    }
}

fn arguments_are_an_object(params: &CallToolParams) -> Result<(), &'static str> {
    match &params.arguments {
        Some(arguments) if !arguments.is_object() => Err("`arguments` must be an object"),
        _ => Ok(()),
    }
}

object! {
    /// Result of `tools/call`.
    ///
    /// ```
    /// use mcp_protocol::Dialect;
    /// use mcp_protocol::tools::CallToolResult;
    ///
    /// let result = CallToolResult::text("5").structured_content(serde_json::json!(5));
    /// // Before 2026-07-28 structured content is an object.
    /// let lowered = serde_json::to_string(&Dialect::V2025_06_18.lower(&result))?;
    /// assert_eq!(lowered, r#"{"content":[{"type":"text","text":"5"}],"structuredContent":{"result":5}}"#);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub struct CallToolResult {
        expected {
            /// Always complete.
            result_type: ResultType = "resultType" or ResultType::Complete,
        }
        empty {
            /// What the tool says.
            content: Vec<ContentBlock> = "content",
        }
        optional {
            /// True if the tool failed; the content tells the model why.
            is_error: bool = "isError",
        }
        present {
            /// The result as data. `null` is a result.
            structured_content: Json = "structuredContent",
        }
        meta = meta;
        open = other;
        check by crate::messages::is_complete;
        lower by crate::dialect::tools::lower_result;
    }
}

impl CallToolResult {
    /// A result of one text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::new().content([ContentBlock::text(text)])
    }

    /// A failure that the model can read.
    #[must_use]
    pub fn error(text: impl Into<String>) -> Self {
        Self::text(text).is_error(true)
    }
}

/// What a server can answer to `tools/call`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CallToolResponse {
    /// The tool is done.
    Complete(CallToolResult),
    /// The server needs input and a second try.
    InputRequired(InputRequiredResult),
    /// The call goes on as a task; modern extension.
    Task(CreateTaskResult),
    /// The call goes on as a task; 2025-11-25.
    LegacyTask(CreateLegacyTaskResult),
}

impl CallToolResponse {
    /// Reads the result of `tools/call`, whichever kind it is.
    ///
    /// # Errors
    /// When it has another shape, or a type that this method cannot end with.
    pub fn raise(dialect: Dialect, result: &Body<'_>) -> Result<Self, BodyError> {
        match crate::input::result_type(dialect, result)? {
            ResultType::Complete if dialect.has_nested_tasks() && result.member("task")?.is_some() => {
                Ok(Self::LegacyTask(dialect.raise(result)?))
            }
            ResultType::Complete => Ok(Self::Complete(dialect.raise(result)?)),
            ResultType::InputRequired => Ok(Self::InputRequired(dialect.raise(result)?)),
            ResultType::Task => Ok(Self::Task(dialect.raise(result)?)),
            ResultType::Other(other) => Err(BodyError::ResultType(other.into())),
        }
    }
}
