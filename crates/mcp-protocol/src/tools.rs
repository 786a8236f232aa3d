//! Tools: definitions, calls and results.
//!
//! Spec: MCP 2026-07-28, server/tools.

use crate::capabilities::Icon;
use crate::content::ContentBlock;
use crate::dialect::Dialect;
use crate::errors::BodyError;
use crate::input::{InputRequiredResult, InputResponses};
use crate::json::Json;
use crate::lists::{SkippedItem, raise_each};
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
            /// Name with which a client calls the tool.
            name: String = "name",
            /// JSON Schema of the arguments, with `"type":"object"`.
            input_schema: Json = "inputSchema",
        }
        optional {
            /// Display name.
            title: String = "title",
            /// Description for the language model.
            description: String = "description",
            /// JSON Schema of the structured result.
            output_schema: Json = "outputSchema",
            /// Behaviour hints. Untrusted.
            annotations: ToolAnnotations = "annotations",
            /// Icons.
            icons: Vec<Icon> = "icons",
            /// Task support; 2025-11-25 only.
            execution: ToolExecution = "execution",
        }
        meta = meta in part;
        open = other;
        check by has_object_schema;
        lower by crate::dialect::tools::lower_tool;
    }
}

/// An alias of [`Tool`], with the name that RFC 2190 of this project (`docs/rfcs`) uses.
pub type ToolSchema = Tool;

impl Tool {
    /// Returns the name to display: the title, or else the title of the annotations, or else the name.
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
    /// Hints about a tool's behaviour. Untrusted: do not base security decisions on them.
    pub struct ToolAnnotations {
        optional {
            /// Display name.
            title: String = "title",
            /// The tool does not modify its environment. Default: false.
            read_only_hint: bool = "readOnlyHint",
            /// The tool may perform destructive updates. Default: true.
            destructive_hint: bool = "destructiveHint",
            /// Repeated calls with the same arguments have no further effect. Default: false.
            idempotent_hint: bool = "idempotentHint",
            /// The tool interacts with external systems. Default: true.
            open_world_hint: bool = "openWorldHint",
        }
        open = other;
    }
}

object! {
    /// Task support of a tool; 2025-11-25 only.
    pub struct ToolExecution {
        optional {
            /// Task support. Absent means forbidden.
            task_support: TaskSupport = "taskSupport",
        }
        open = other;
    }
}

string_enum! {
    /// Task support of a tool; 2025-11-25 only.
    pub enum TaskSupport {
        /// The tool cannot run as a task.
        Forbidden = "forbidden",
        /// The tool can run as a task.
        Optional = "optional",
        /// The tool must run as a task.
        Required = "required",
    }
}

object! {
    /// Result of `tools/list`.
    pub struct ListToolsResult {
        expected {
            /// Result type; always `complete`.
            result_type: ResultType = "resultType" or ResultType::Complete,
            /// Time to live in a cache, in milliseconds.
            ttl_ms: TimeToLive = "ttlMs" or TimeToLive(0),
            /// Cache scope: public or private.
            cache_scope: CacheScope = "cacheScope" or CacheScope::Private,
        }
        required {
            /// One page of tools.
            tools: Vec<Tool> = "tools",
        }
        optional {
            /// Cursor of the next page; absent on the last page. An empty string is a valid cursor.
            next_cursor: String = "nextCursor",
        }
        meta = meta;
        open = other;
        check by crate::messages::is_complete;
    }
}

impl ListToolsResult {
    /// Reads the first `limit` tools of a page. Tools that cannot be read are skipped and reported. [`Body::count`]
    /// returns the number of tools on the page.
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
    /// Fails if the page itself cannot be read.
    pub fn raise_each(
        dialect: Dialect,
        page: &Body<'_>,
        limit: usize,
    ) -> Result<(Self, Vec<SkippedItem>), BodyError> {
        raise_each(dialect, page, "tools", limit, |page| &mut page.tools)
    }
}

object! {
    /// Params of `tools/call`.
    pub struct CallToolParams {
        required {
            /// Name of the tool.
            name: String = "name",
        }
        optional {
            /// Arguments, a JSON object.
            arguments: Json = "arguments",
            /// Responses to the server's input requests, on a retry.
            input_responses: InputResponses = "inputResponses",
            /// The server's `requestState`, returned unchanged on a retry.
            request_state: String = "requestState",
            /// Requests execution as a task; 2025-11-25 only.
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
            /// Result type; always `complete`.
            result_type: ResultType = "resultType" or ResultType::Complete,
        }
        empty {
            /// Content blocks.
            content: Vec<ContentBlock> = "content",
        }
        optional {
            /// True if the tool failed; the content explains the failure to the model.
            is_error: bool = "isError",
        }
        present {
            /// Structured result. `null` is a valid result.
            structured_content: Json = "structuredContent",
        }
        meta = meta;
        open = other;
        check by crate::messages::is_complete;
        lower by crate::dialect::tools::lower_result;
    }
}

impl CallToolResult {
    /// Creates a result with one text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::new().content([ContentBlock::text(text)])
    }

    /// Creates an error result with a text for the model.
    #[must_use]
    pub fn error(text: impl Into<String>) -> Self {
        Self::text(text).is_error(true)
    }
}

/// Possible responses to `tools/call`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CallToolResponse {
    /// The tool call is complete.
    Complete(CallToolResult),
    /// The server needs input; the client retries with the responses.
    #[doc(alias = "MRTR")]
    InputRequired(InputRequiredResult),
    /// The call continues as a task; modern extension.
    Task(CreateTaskResult),
    /// The call continues as a task; 2025-11-25 only.
    LegacyTask(CreateLegacyTaskResult),
}

impl CallToolResponse {
    /// Parses the result of `tools/call`: a complete result, a request for input, or a created task, depending on its
    /// `resultType`.
    ///
    /// # Errors
    /// Fails if the result does not match its result type, or if that type is not valid for `tools/call`.
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
