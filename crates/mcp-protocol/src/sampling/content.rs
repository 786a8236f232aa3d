//! One content block or several, as both sides of the change of 2025-11-25 write it.

use crate::content::{AudioContent, ImageContent, TextContent, ToolResultContent, ToolUseContent};
use crate::dialect::{Fill, Lower, Lowering, Raise, Raising, Written, serde_by_dialect};
use crate::json::read::{Read, Reader};
use crate::union::union;

union! {
    /// A piece of a conversation with a model.
    pub enum SamplingBlock by "type" {
        /// Text.
        "text" => Text(TextContent),
        /// A picture.
        "image" => Image(ImageContent),
        /// Sound; since 2025-03-26.
        "audio" => Audio(AudioContent),
        /// The model's wish to use a tool; since 2025-11-25.
        "tool_use" => ToolUse(ToolUseContent),
        /// What the tool said; since 2025-11-25.
        "tool_result" => ToolResult(ToolResultContent),
    }
    lower by crate::dialect::content::instead_in_sampling;
}

impl SamplingBlock {
    /// A text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent::new(text))
    }

    /// The text of a text block.
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

/// What a message says: one block, or (since 2025-11-25) a list. Which of the two came is kept.
#[derive(Clone, Debug, PartialEq)]
pub enum SamplingContent {
    /// One block, not in a list.
    One(SamplingBlock),
    /// A list of blocks.
    Many(Vec<SamplingBlock>),
}

impl SamplingContent {
    /// The blocks, however they were written.
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
            _ => return Err(from.unexpected("a content block or a list of them")),
        };
        Ok(())
    }
}
