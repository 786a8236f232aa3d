//! Sampling before 2025-11-25: one block per message, and no tools.

use serde::ser::Error;

use super::{Dialect, Lower, Lowering, Written};
use crate::sampling::{SamplingBlock, SamplingContent};

pub(crate) fn lower_content(content: &SamplingContent, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
    if !cx.is_before(Dialect::V2025_11_25) {
        return match content {
            SamplingContent::One(block) => block.lower(cx, out),
            SamplingContent::Many(blocks) => blocks.lower(cx, out),
        };
    }
    match content.blocks() {
        [SamplingBlock::ToolUse(_) | SamplingBlock::ToolResult(_)] => {
            Err(serde_json::Error::custom("tools in sampling require protocol version 2025-11-25 or later"))
        }
        [block] => block.lower(cx, out),
        _ => Err(serde_json::Error::custom(
            "multiple content blocks in one sampling message require protocol version 2025-11-25 or later",
        )),
    }
}
