//! 2026-07-28, relative to the canonical model: members that only older revisions have.

use super::Revision;
use crate::version::{Era, ProtocolVersion};

pub(super) const REVISION: Revision = Revision {
    version: ProtocolVersion::V2026_07_28,
    era: Era::Modern,
    lacks: &[
        (
            "Meta",
            &["io.modelcontextprotocol/related-task", "io.modelcontextprotocol/model-immediate-response"],
        ),
        ("ClientCapabilities", &["tasks"]),
        ("ServerCapabilities", &["tasks"]),
        ("RootsCapability", &["listChanged"]),
        ("Tool", &["execution"]),
        ("CallToolParams", &["task"]),
        ("CreateMessageParams", &["task", "_meta"]),
        ("ElicitFormParams", &["task", "_meta"]),
        ("ElicitUrlParams", &["task", "elicitationId", "_meta"]),
        ("ElicitResult", &["_meta"]),
        ("ListRootsResult", &["_meta"]),
    ],
    also_has: &[],
    tolerates: &[
        ("DiscoverResult", &["resultType", "ttlMs", "cacheScope"]),
        ("EmptyResult", &["resultType"]),
        ("ListToolsResult", &["resultType", "ttlMs", "cacheScope"]),
        ("ListPromptsResult", &["resultType", "ttlMs", "cacheScope"]),
        ("ListResourcesResult", &["resultType", "ttlMs", "cacheScope"]),
        ("ListResourceTemplatesResult", &["resultType", "ttlMs", "cacheScope"]),
        ("ReadResourceResult", &["resultType", "ttlMs", "cacheScope"]),
        ("CallToolResult", &["resultType"]),
        ("GetPromptResult", &["resultType"]),
        ("CompleteResult", &["resultType"]),
        ("ListenResult", &["resultType"]),
    ],
};
