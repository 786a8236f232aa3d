//! Structured output before 2026-07-28, which had to be an object, and before 2025-06-18, which had none.

use super::{Dialect, Lower, Lowering, Written, bit, element, member, object};
use crate::content::{ContentBlock, ToolResultContent};
use crate::json::Json;
use crate::tools::{CallToolResult, Tool};

/// True if the schema's root says `"type":"object"`.
pub(crate) fn has_object_type(schema: &Json) -> bool {
    // The first, because there is hardly ever another and schemas are long.
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

/// True if no value of the schema is an object, so that every value will be wrapped. A schema that leaves
/// it open, or that refers to its own root, cannot be wrapped faithfully and is left out instead.
fn is_never_an_object(schema: &Json) -> bool {
    let kind = schema.member("type").unwrap_or("");
    kind.starts_with('"') && kind != "\"object\"" && !schema.get().contains("\"$ref\"")
}

struct WrappedSchema<'a>(&'a Json);

impl Lower for WrappedSchema<'_> {
    fn lower(&self, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        object(out, |out| {
            member(out, "type", &"object", cx)?;
            member(out, "properties", &Wrapped(self.0), cx)?;
            member(out, "required", &vec!["result"], cx)
        })
    }
}

/// `{"result":…}`.
struct Wrapped<'a>(&'a Json);

impl Lower for Wrapped<'_> {
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
            member(out, "content", &WithText { result, structured }, cx)?;
            if lacks & STRUCTURED != 0 {
                // The text has to do.
                return Ok(());
            }
            member(out, "structuredContent", &Wrapped(structured), cx)
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
            member(out, "structuredContent", &Wrapped(structured), cx)
        }
        _ => block.lower_members(cx, lacks, out),
    }
}

/// The content of a result, with the structured content as text unless a block says the same.
struct WithText<'a> {
    result: &'a CallToolResult,
    structured: &'a Json,
}

impl WithText<'_> {
    /// True if the block is the structured content as text.
    fn is_told_by(&self, block: &ContentBlock) -> bool {
        let Some(text) = block.as_text() else { return false };
        let told = || text.parse::<Json>().ok()?.canonical().ok();
        text == self.structured.get()
            || told().is_some_and(|told| self.structured.canonical().is_ok_and(|own| own == told))
    }
}

impl Lower for WithText<'_> {
    fn lower(&self, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        let content = &self.result.content;
        out.push(b'[');
        for block in content {
            element(out, block, cx)?;
        }
        if !content.iter().any(|block| self.is_told_by(block)) {
            element(out, &ContentBlock::text(self.structured.get()), cx)?;
        }
        out.push(b']');
        Ok(())
    }
}
