//! One content block or several, as both sides of the change of 2025-11-25 write it.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::content::{AudioContent, ImageContent, TextContent, ToolResultContent, ToolUseContent};
use crate::dialect::{Lower, Lowering};
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

impl Serialize for SamplingContent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.lower(Lowering::CANONICAL, serializer)
    }
}

impl Lower for SamplingContent {
    fn lower<S: Serializer>(&self, cx: Lowering<'_>, serializer: S) -> Result<S::Ok, S::Error> {
        crate::dialect::sampling::lower_content(self, cx, serializer)
    }
}

impl<'de> Deserialize<'de> for SamplingContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ContentVisitor;

        impl<'de> Visitor<'de> for ContentVisitor {
            type Value = SamplingContent;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a content block or a list of them")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SamplingContent, A::Error> {
                SamplingBlock::deserialize(MapAccessDeserializer::new(map)).map(SamplingContent::One)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<SamplingContent, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(SamplingContent::Many)
            }
        }

        deserializer.deserialize_any(ContentVisitor)
    }
}
