//! Sampling before 2025-11-25: one block a message, and no tools.

use serde::ser::{Error, Serializer};

use super::{Dialect, Lower, Lowering};
use crate::sampling::{SamplingBlock, SamplingContent};

pub(crate) fn lower_content<S: Serializer>(
    content: &SamplingContent,
    cx: Lowering<'_>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    if !cx.is_before(Dialect::V2025_11_25) {
        return match content {
            SamplingContent::One(block) => block.lower(cx, serializer),
            SamplingContent::Many(blocks) => blocks.lower(cx, serializer),
        };
    }
    match content.blocks() {
        [SamplingBlock::ToolUse(_) | SamplingBlock::ToolResult(_)] => {
            Err(S::Error::custom("tools in sampling need 2025-11-25 or later"))
        }
        [block] => block.lower(cx, serializer),
        _ => Err(S::Error::custom("several content blocks in one sampling message need 2025-11-25 or later")),
    }
}
