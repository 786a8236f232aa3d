//! Structured output before 2026-07-28, which had to be an object, and before 2025-06-18, which had none.

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};

use super::{Dialect, Lowering, bit};
use crate::content::{ContentBlock, ToolResultContent};
use crate::json::Json;
use crate::tools::{CallToolResult, Tool};

/// True if the schema's root says `"type":"object"`.
pub(crate) fn has_object_type(schema: &Json) -> bool {
    schema.member("type") == Some("\"object\"")
}

pub(crate) fn lower_tool<S: Serializer>(
    tool: &Tool,
    cx: Lowering<'_>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut skip = cx.lacking(&Tool::LACKS);
    let mut out = serializer.serialize_map(None)?;
    let wrap = match &tool.output_schema {
        Some(schema) if cx.is_before(Dialect::V2026_07_28) && !has_object_type(schema) => Some(schema),
        _ => None,
    };
    let lacks_output = skip & const { bit(Tool::MEMBERS, "outputSchema") } != 0;
    if wrap.is_some() {
        skip |= const { bit(Tool::MEMBERS, "outputSchema") };
    }
    tool.lower_members(cx, skip, &mut out)?;
    if let Some(schema) = wrap.filter(|schema| !lacks_output && is_never_an_object(schema)) {
        out.serialize_entry("outputSchema", &WrappedSchema(schema))?;
    }
    out.end()
}

/// True if no value of the schema is an object, so that every value will be wrapped. A schema that leaves
/// it open, or that refers to its own root, cannot be wrapped faithfully and is left out instead.
fn is_never_an_object(schema: &Json) -> bool {
    let kind = schema.member("type").unwrap_or("");
    kind.starts_with('"') && kind != "\"object\"" && !schema.get().contains("\"$ref\"")
}

struct WrappedSchema<'a>(&'a Json);

impl Serialize for WrappedSchema<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_map(Some(3))?;
        out.serialize_entry("type", "object")?;
        out.serialize_entry("properties", &Wrapped(self.0))?;
        out.serialize_entry("required", &["result"])?;
        out.end()
    }
}

/// `{"result":…}`.
struct Wrapped<'a>(&'a Json);

impl Serialize for Wrapped<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_map(Some(1))?;
        out.serialize_entry("result", self.0)?;
        out.end()
    }
}

pub(crate) fn lower_result<S: Serializer>(
    result: &CallToolResult,
    cx: Lowering<'_>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    const CONTENT: u64 = bit(CallToolResult::MEMBERS, "content");
    const STRUCTURED: u64 = bit(CallToolResult::MEMBERS, "structuredContent");

    let lacks = cx.lacking(&CallToolResult::LACKS);
    let mut out = serializer.serialize_map(None)?;
    match &result.structured_content {
        Some(structured)
            if cx.is_before(Dialect::V2026_07_28) && !(structured.is_object() && lacks & STRUCTURED == 0) =>
        {
            result.lower_members(cx, lacks | CONTENT | STRUCTURED, &mut out)?;
            out.serialize_entry("content", &WithText { result, structured, cx })?;
            if lacks & STRUCTURED != 0 {
                // The text has to do.
            } else {
                out.serialize_entry("structuredContent", &Wrapped(structured))?;
            }
        }
        _ => result.lower_members(cx, lacks, &mut out)?,
    }
    out.end()
}

pub(crate) fn lower_tool_result_block<S: Serializer>(
    block: &ToolResultContent,
    cx: Lowering<'_>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    const STRUCTURED: u64 = bit(ToolResultContent::MEMBERS, "structuredContent");

    let lacks = cx.lacking(&ToolResultContent::LACKS);
    let mut out = serializer.serialize_map(None)?;
    match &block.structured_content {
        Some(structured) if cx.is_before(Dialect::V2026_07_28) && !structured.is_object() => {
            block.lower_members(cx, lacks | STRUCTURED, &mut out)?;
            out.serialize_entry("structuredContent", &Wrapped(structured))?;
        }
        _ => block.lower_members(cx, lacks, &mut out)?,
    }
    out.end()
}

/// The content of a result, with the structured content as text unless a block says the same.
struct WithText<'a> {
    result: &'a CallToolResult,
    structured: &'a Json,
    cx: Lowering<'a>,
}

impl WithText<'_> {
    /// True if the block is the structured content as text.
    fn is_told_by(&self, block: &ContentBlock) -> bool {
        let Some(text) = block.as_text() else { return false };
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
        text == self.structured.get()
            || value(text).is_some_and(|told| Some(told) == value(self.structured.get()))
    }
}

impl Serialize for WithText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let content = &self.result.content;
        let mut out = serializer.serialize_seq(None)?;
        for block in content {
            out.serialize_element(&self.cx.view(block))?;
        }
        if !content.iter().any(|block| self.is_told_by(block)) {
            out.serialize_element(&ContentBlock::text(self.structured.get()))?;
        }
        out.end()
    }
}
