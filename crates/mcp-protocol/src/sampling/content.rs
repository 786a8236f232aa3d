//! Sampling content: one content block, or an array of blocks since 2025-11-25.

use crate::content::{AudioContent, ImageContent, TextContent, ToolResultContent, ToolUseContent};
use crate::dialect::{Fill, Lower, Lowering, Raise, Raising, Written, serde_by_dialect};
use crate::json::read::{Read, Reader};
use crate::union::union;

union! {
    /// A content block of a sampling message.
    pub enum SamplingBlock by "type" {
        /// Text.
        "text" => Text(TextContent),
        /// An image.
        "image" => Image(ImageContent),
        /// Audio; since 2025-03-26.
        "audio" => Audio(AudioContent),
        /// A tool use request of the model; since 2025-11-25.
        "tool_use" => ToolUse(ToolUseContent),
        /// The result of a tool use; since 2025-11-25.
        "tool_result" => ToolResult(ToolResultContent),
    }
    lower by crate::dialect::content::instead_in_sampling;
}

impl SamplingBlock {
    /// Creates a text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent::new(text))
    }

    /// Returns the text of a text block, or `None` for another kind of block.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(block) => Some(&block.text),
            _ => None,
        }
    }
}

impl From<&str> for SamplingBlock {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

/// The content of a sampling message: one block, or (since 2025-11-25) an array. The received form is preserved.
#[derive(Clone, Debug, PartialEq)]
pub enum SamplingContent {
    /// One block, not in an array.
    One(SamplingBlock),
    /// An array of blocks.
    Many(Vec<SamplingBlock>),
}

impl SamplingContent {
    /// Returns the blocks of either form.
    #[must_use]
    pub fn blocks(&self) -> &[SamplingBlock] {
        match self {
            Self::One(block) => std::slice::from_ref(block),
            Self::Many(blocks) => blocks,
        }
    }
}

impl From<SamplingBlock> for SamplingContent {
    fn from(block: SamplingBlock) -> Self {
        Self::One(block)
    }
}

impl From<Vec<SamplingBlock>> for SamplingContent {
    fn from(blocks: Vec<SamplingBlock>) -> Self {
        Self::Many(blocks)
    }
}

serde_by_dialect!(SamplingContent);

impl Lower for SamplingContent {
    fn lower(&self, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        crate::dialect::sampling::lower_content(self, cx, out)
    }
}

impl Raise for SamplingContent {
    fn blank() -> Self {
        Self::Many(Vec::new())
    }
}

impl Fill for SamplingContent {
    fn fill(&mut self, from: &mut Reader<'_>, how: Raising) -> Read<()> {
        *self = match from.peek() {
            Some(b'[') => Self::Many(Raise::raise(from, how)?),
            Some(b'{') => Self::One(Raise::raise(from, how)?),
            _ => return Err(from.unexpected("a content block or an array of them")),
        };
        Ok(())
    }
}
