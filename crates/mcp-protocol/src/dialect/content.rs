//! Replacements for content blocks that a revision does not have.

use super::{Dialect, Lowering};
use crate::content::{AudioContent, ContentBlock};
use crate::resources::ResourceLink;
use crate::sampling::SamplingBlock;

/// Returns the block to write instead of `block`, or `None` to write `block` itself.
pub(crate) fn instead(block: &ContentBlock, cx: Lowering<'_>) -> Option<ContentBlock> {
    match block {
        ContentBlock::Audio(audio) if cx.is_before(Dialect::V2025_03_26) => {
            Some(ContentBlock::text(audio_note(audio)))
        }
        ContentBlock::ResourceLink(link) if cx.is_before(Dialect::V2025_06_18) => Some(link_text(link)),
        // These revisions do not allow other kinds of blocks: an unknown block would make the whole result invalid.
        ContentBlock::Unknown(json) if cx.is_before(Dialect::V2025_06_18) => {
            Some(ContentBlock::text(json.get()))
        }
        _ => None,
    }
}

/// Like `instead`, for a sampling message.
pub(crate) fn instead_in_sampling(block: &SamplingBlock, cx: Lowering<'_>) -> Option<SamplingBlock> {
    match block {
        SamplingBlock::Audio(audio) if cx.is_before(Dialect::V2025_03_26) => {
            Some(SamplingBlock::text(audio_note(audio)))
        }
        _ => None,
    }
}

fn audio_note(audio: &AudioContent) -> String {
    format!("[audio, {}]", audio.mime_type)
}

fn link_text(link: &ResourceLink) -> ContentBlock {
    let name = link.title.as_ref().unwrap_or(&link.name);
    ContentBlock::text(format!("{name}: {}", link.uri))
}
