//! One content block or several, as both sides of the change of 2025-11-25 write it.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::content::ContentBlock;
use crate::dialect::{Lower, Lowering};

/// What a message says: one block, or (since 2025-11-25) a list. Which of the two came is kept.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "one block is the usual case, and boxing it would cost every user a `*`"
)]
pub enum SamplingContent {
    /// One block, not in a list.
    One(ContentBlock),
    /// A list of blocks.
    Many(Vec<ContentBlock>),
}

impl SamplingContent {
    /// The blocks, however they were written.
    #[must_use]
    pub fn blocks(&self) -> &[ContentBlock] {
        match self {
            Self::One(block) => std::slice::from_ref(block),
            Self::Many(blocks) => blocks,
        }
    }
}

impl From<ContentBlock> for SamplingContent {
    fn from(block: ContentBlock) -> Self {
        Self::One(block)
    }
}

impl From<Vec<ContentBlock>> for SamplingContent {
    fn from(blocks: Vec<ContentBlock>) -> Self {
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
                ContentBlock::deserialize(MapAccessDeserializer::new(map)).map(SamplingContent::One)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<SamplingContent, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(SamplingContent::Many)
            }
        }

        deserializer.deserialize_any(ContentVisitor)
    }
}
