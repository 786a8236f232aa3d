//! 2025-11-25, relative to 2026-07-28: a handshake instead of envelopes, no result types, no caching;
//! experimental tasks.

use super::Revision;
use crate::version::{Era, ProtocolVersion};

pub(super) const REVISION: Revision = Revision {
    version: ProtocolVersion::V2025_11_25,
    era: Era::Legacy,
    lacks: &[
        (
            "Meta",
            &[
                "io.modelcontextprotocol/protocolVersion",
                "io.modelcontextprotocol/clientCapabilities",
                "io.modelcontextprotocol/clientInfo",
                "io.modelcontextprotocol/logLevel",
                "io.modelcontextprotocol/serverInfo",
                "io.modelcontextprotocol/subscriptionId",
            ],
        ),
        ("EmptyResult", &["resultType"]),
        ("ListToolsResult", &["resultType", "ttlMs", "cacheScope"]),
        ("ListPromptsResult", &["resultType", "ttlMs", "cacheScope"]),
        ("ListResourcesResult", &["resultType", "ttlMs", "cacheScope"]),
        ("ListResourceTemplatesResult", &["resultType", "ttlMs", "cacheScope"]),
        ("ReadResourceResult", &["resultType", "ttlMs", "cacheScope"]),
        ("CallToolResult", &["resultType"]),
        ("GetPromptResult", &["resultType"]),
        ("CompleteResult", &["resultType"]),
        ("CallToolParams", &["inputResponses", "requestState"]),
        ("GetPromptParams", &["inputResponses", "requestState"]),
        ("ReadResourceParams", &["inputResponses", "requestState"]),
    ],
    also_has: &[
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
    tolerates: &[("CallToolResult", &["content"])],
};
