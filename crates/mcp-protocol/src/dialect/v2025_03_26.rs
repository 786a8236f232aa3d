//! 2025-03-26, relative to 2025-06-18: no titles, no `_meta` on definitions and content, no structured output, no
//! elicitation.

use super::Revision;
use crate::version::{Era, ProtocolVersion};

pub(super) const REVISION: Revision = Revision {
    version: ProtocolVersion::V2025_03_26,
    era: Era::Legacy,
    lacks: &[
        ("Implementation", &["title"]),
        ("ClientCapabilities", &["elicitation"]),
        ("Tool", &["title", "outputSchema", "_meta"]),
        ("CallToolResult", &["structuredContent"]),
        ("TextContent", &["_meta"]),
        ("ImageContent", &["_meta"]),
        ("AudioContent", &["_meta"]),
        ("EmbeddedResource", &["_meta"]),
        ("Annotations", &["lastModified"]),
        ("Resource", &["title", "_meta"]),
        ("ResourceTemplate", &["title", "_meta"]),
        ("ResourceContents", &["_meta"]),
        ("Prompt", &["title", "_meta"]),
        ("PromptArgument", &["title"]),
        ("CompleteParams", &["context"]),
        ("PromptReference", &["title"]),
        ("Root", &["_meta"]),
    ],
    also_has: &[],
    tolerates: &[],
};
