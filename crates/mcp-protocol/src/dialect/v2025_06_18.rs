//! 2025-06-18, relative to 2025-11-25: no icons, no URL elicitation, no tools in sampling, no tasks.

use super::Revision;
use crate::version::{Era, ProtocolVersion};

pub(super) const REVISION: Revision = Revision {
    version: ProtocolVersion::V2025_06_18,
    era: Era::Legacy,
    lacks: &[
        (
            "Meta",
            &["io.modelcontextprotocol/related-task", "io.modelcontextprotocol/model-immediate-response"],
        ),
        ("Implementation", &["description", "websiteUrl", "icons"]),
        ("ClientCapabilities", &["tasks"]),
        ("ServerCapabilities", &["tasks"]),
        ("ElicitationCapability", &["form", "url"]),
        ("SamplingCapability", &["context", "tools"]),
        ("Tool", &["icons", "execution"]),
        ("Resource", &["icons"]),
        ("ResourceLink", &["icons"]),
        ("ResourceTemplate", &["icons"]),
        ("Prompt", &["icons"]),
        ("CallToolParams", &["task"]),
        ("CreateMessageParams", &["tools", "toolChoice", "task"]),
        ("SamplingMessage", &["_meta"]),
        ("ElicitFormParams", &["mode", "task"]),
        ("FormSchema", &["$schema"]),
        ("StringSchema", &["default"]),
        ("NumberSchema", &["default"]),
        ("UntitledSingleSelectSchema", &["default"]),
    ],
    also_has: &[],
    tolerates: &[],
};
