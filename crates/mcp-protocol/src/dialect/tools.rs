//! Structured output in older revisions: before 2026-07-28 it must be an object, and before 2025-06-18 it does not
//! exist.

use super::{Dialect, Lower, Lowering, Written, bit, element, member, object};
use crate::content::{ContentBlock, ToolResultContent};
use crate::json::Json;
use crate::tools::{CallToolResult, Tool};

/// Returns true if the root of the schema has `"type":"object"`.
pub(crate) fn has_object_type(schema: &Json) -> bool {
    // Only the first `type` is checked, because duplicates are rare and schemas are long.
    let mut members = crate::json::scan::members(schema.get());
    members.find(|(key, _)| key == "type").is_some_and(|(_, value)| value == "\"object\"")
}

pub(crate) fn lower_tool(tool: &Tool, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
    let mut skip = cx.lacking(&Tool::LACKS);
    let wrap = match &tool.output_schema {
        Some(schema) if cx.is_before(Dialect::V2026_07_28) && !has_object_type(schema) => Some(schema),
        _ => None,
    };
    let lacks_output = skip & const { bit(Tool::MEMBERS, "outputSchema") } != 0;
    if wrap.is_some() {
        skip |= const { bit(Tool::MEMBERS, "outputSchema") };
    }
    tool.lower_members(cx, skip, out)?;
    match wrap.filter(|schema| !lacks_output && is_never_an_object(schema)) {
        Some(schema) => member(out, "outputSchema", &WrappedSchema(schema), cx),
        None => Ok(()),
    }
}

/// Returns true if the schema allows no objects, so that every value is wrapped. A schema that may allow objects, or
/// that contains a `$ref`, cannot be wrapped correctly and is omitted.
fn is_never_an_object(schema: &Json) -> bool {
    let kind = schema.member("type").unwrap_or("");
    kind.starts_with('"') && kind != "\"object\"" && !schema.get().contains("\"$ref\"")
}

struct WrappedSchema<'a>(&'a Json);

impl Lower for WrappedSchema<'_> {
    fn lower(&self, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        object(out, |out| {
            member(out, "type", &"object", cx)?;
            member(out, "properties", &ResultWrapper(self.0), cx)?;
            member(out, "required", &vec!["result"], cx)
        })
    }
}

/// `{"result":…}`.
struct ResultWrapper<'a>(&'a Json);

impl Lower for ResultWrapper<'_> {
    fn lower(&self, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        object(out, |out| member(out, "result", self.0, cx))
    }
}

pub(crate) fn lower_result(result: &CallToolResult, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
    const CONTENT: u64 = bit(CallToolResult::MEMBERS, "content");
    const STRUCTURED: u64 = bit(CallToolResult::MEMBERS, "structuredContent");

    let lacks = cx.lacking(&CallToolResult::LACKS);
    match &result.structured_content {
        Some(structured)
            if cx.is_before(Dialect::V2026_07_28) && !(structured.is_object() && lacks & STRUCTURED == 0) =>
        {
            result.lower_members(cx, lacks | CONTENT | STRUCTURED, out)?;
            member(out, "content", &TextFallback { result, structured }, cx)?;
            if lacks & STRUCTURED != 0 {
                // These revisions have no structured content, only the text.
                return Ok(());
            }
            member(out, "structuredContent", &ResultWrapper(structured), cx)
        }
        _ => result.lower_members(cx, lacks, out),
    }
}

pub(crate) fn lower_tool_result_block(
    block: &ToolResultContent,
    cx: Lowering<'_>,
    out: &mut Vec<u8>,
) -> Written {
    const STRUCTURED: u64 = bit(ToolResultContent::MEMBERS, "structuredContent");

    let lacks = cx.lacking(&ToolResultContent::LACKS);
    match &block.structured_content {
        Some(structured) if cx.is_before(Dialect::V2026_07_28) && !structured.is_object() => {
            block.lower_members(cx, lacks | STRUCTURED, out)?;
            member(out, "structuredContent", &ResultWrapper(structured), cx)
        }
        _ => block.lower_members(cx, lacks, out),
    }
}

/// The content of a result, followed by the structured content as text, unless a block already contains it.
struct TextFallback<'a> {
    result: &'a CallToolResult,
    structured: &'a Json,
}

impl TextFallback<'_> {
    /// Returns true if the block is the structured content as text.
    fn is_in(&self, block: &ContentBlock) -> bool {
        let Some(text) = block.as_text() else { return false };
        let told = || text.parse::<Json>().ok()?.canonical().ok();
        text == self.structured.get()
            || told().is_some_and(|told| self.structured.canonical().is_ok_and(|own| own == told))
    }
}

impl Lower for TextFallback<'_> {
    fn lower(&self, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        let content = &self.result.content;
        out.push(b'[');
        for block in content {
            element(out, block, cx)?;
        }
        if !content.iter().any(|block| self.is_in(block)) {
            element(out, &ContentBlock::text(self.structured.get()), cx)?;
        }
        out.push(b']');
        Ok(())
    }
}
